package cliutil

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker in releases: -X lj.aliyun.com/kit/pkg/cliutil.Version=…
var (
	Version = "dev"
	Commit  = ""
	Date    = ""
)

// VersionInfo is what "version -o json" prints under "client".
type VersionInfo struct {
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	Date       string `json:"date,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"` // of the client library
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

// ThisVersion describes the running program.
func ThisVersion() VersionInfo {
	v := VersionInfo{Version: Version, Commit: Commit, Date: Date, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if bi, ok := debug.ReadBuildInfo(); ok {
		for _, m := range bi.Deps {
			if m.Path != "k8s.io/client-go" {
				continue
			}
			v.Kubernetes = m.Version
			if m.Replace != nil {
				v.Kubernetes = m.Replace.Version
			}
		}
	}
	return v
}

// UserAgent names the program and its version to API servers and their audit
// logs.
func UserAgent(program string) string {
	return fmt.Sprintf("%s/%s (%s/%s)", program, Version, runtime.GOOS, runtime.GOARCH)
}
