package ljnode

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	logsapi "k8s.io/component-base/logs/api/v1"

	"lj.aliyun.com/kit/pkg/core/reason"
)

func TestExitCodesAndWords(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		out  string // in what is printed, on either stream
	}{
		"help":                     {[]string{"--help"}, reason.ExitOK, "Control plane:"},
		"version":                  {[]string{"version"}, reason.ExitOK, "ljnode  "},
		"version for scripts":      {[]string{"version", "-o", "json"}, reason.ExitOK, `"platform"`},
		"unknown command":          {[]string{"schedular"}, reason.ExitUsage, "scheduler"},
		"unknown flag":             {[]string{"scheduler", "--lead"}, reason.ExitUsage, "hint: ljnode --help"},
		"too many arguments":       {[]string{"scheduler", "now"}, reason.ExitUsage, "now"},
		"bad port":                 {[]string{"scheduler", "--secure-port", "70000"}, reason.ExitUsage, "0 to 65535"},
		"bad address":              {[]string{"scheduler", "--bind-address", "localhost"}, reason.ExitUsage, "must be an IP address"},
		"no such kubeconfig":       {[]string{"scheduler", "--kubeconfig", "/does/not/exist"}, reason.ExitError, "/does/not/exist"},
		"log as JSON":              {[]string{"scheduler", "--kubeconfig", "/does/not/exist", "--logging-format", "json"}, reason.ExitError, `"msg":"Starting"`},
		"bad log format":           {[]string{"scheduler", "--logging-format", "xml"}, reason.ExitUsage, "Unsupported log format"},
		"flags of the scheduler":   {[]string{"scheduler", "--help"}, reason.ExitOK, "--leader-elect"},
		"the lease is in the help": {[]string{"scheduler", "--help"}, reason.ExitOK, "lj-system/lj-runtimekit-scheduler"},
	} {
		t.Run(name, func(t *testing.T) {
			// A process sets up its log once.
			if err := logsapi.ResetForTest(nil); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}
			code := Main(context.Background(), append([]string{"ljnode"}, c.args...), streams)
			if code != c.code || !strings.Contains(out.String(), c.out) {
				t.Errorf("exit %d, want %d; looking for %q in:\n%s", code, c.code, c.out, out.String())
			}
		})
	}
}
