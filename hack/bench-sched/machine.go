package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"lj.aliyun.com/kit/pkg/cliutil"
)

// Machine is where and with what a run was made.
type Machine struct {
	Cores      int    `json:"cores"`
	CPU        string `json:"cpu"`
	LoadBefore string `json:"loadBefore"` // of the last 1, 5 and 15 minutes
	LoadAfter  string `json:"loadAfter"`
	Go         string `json:"go"`
	Suite      string `json:"suite"`
	// Kubernetes is empty if no API server was needed.
	Kubernetes string `json:"kubernetes,omitempty"`
}

func thisMachine() Machine {
	return Machine{Cores: runtime.NumCPU(), CPU: cpuModel(), LoadBefore: load(), Go: runtime.Version(), Suite: cliutil.Version}
}

func (m Machine) String() string {
	server := ""
	if m.Kubernetes != "" {
		server = "API server " + m.Kubernetes + ", "
	}
	return fmt.Sprintf("%d cores (%s), load before %s, after %s\nsuite %s, %s%s",
		m.Cores, m.CPU, m.LoadBefore, m.LoadAfter, m.Suite, server, m.Go)
}

func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
