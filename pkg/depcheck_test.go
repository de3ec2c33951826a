package pkg_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "lj.aliyun.com/kit/"

type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// Imports point inwards: programs may import adapters, adapters the core, the
// core only itself and the standard library's pure parts.
func TestImportsPointInwards(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			if why := forbidden(path, imp); why != "" {
				t.Errorf("%s imports %s: %s", path, imp, why)
			}
		}
	}
}

var programs = []string{"pkg/ljctl", "pkg/ljnode", "pkg/tui", "pkg/render", "pkg/cliutil", "pkg/sandbox"}

// forTests are imported by tests only.
var forTests = []string{"pkg/core/coretest", "pkg/sched/schedtest"}

// impure are packages of the standard library whose answers depend on
// something other than the arguments.
var impure = []string{"context", "os", "net", "time", "math/rand", "log", "log/slog", "syscall", "io/ioutil", "runtime", "crypto/rand"}

func forbidden(path, imp string) string {
	own := strings.HasPrefix(imp, module)
	inner := strings.TrimPrefix(imp, module)
	switch {
	case own && slices.Contains(forTests, inner) && !slices.Contains(forTests, path):
		return "that package is for tests"
	case own && under(inner, "cmd"):
		return "nobody imports a program"
	case strings.HasPrefix(imp, "github.com/NVIDIA/go-nvml") && path != "pkg/nvml":
		return "only pkg/nvml talks to NVML"
	case strings.HasPrefix(imp, "github.com/olekukonko/tablewriter") && !under(path, "pkg/render"):
		return "only pkg/render draws tables"
	case under(path, "pkg/core"):
		return forbiddenToCore(imp, own, inner)
	case under(path, "pkg/kube") && strings.HasPrefix(imp, "k8s.io/kubernetes/"):
		return "pkg/kube must stay light"
	case under(path, "pkg/ljctl") && strings.HasPrefix(imp, "k8s.io/kubernetes/cmd"):
		return "ljctl may link the scheduler engine, not the programs around it"
	case strings.HasPrefix(path, "pkg/") && !slices.ContainsFunc(programs, func(r string) bool { return under(path, r) }):
		if own && slices.ContainsFunc(programs, func(r string) bool { return under(inner, r) }) {
			return "an adapter imports a program"
		}
	}
	return ""
}

func forbiddenToCore(imp string, own bool, inner string) string {
	switch {
	case own && !under(inner, "pkg/core"):
		return "the core imports only the core"
	case !own && strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
		return "the core imports only the standard library"
	case slices.ContainsFunc(impure, func(s string) bool { return under(imp, s) }):
		return "the core is pure: plain values in, plain values out"
	}
	return ""
}

func under(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...", "../cmd/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list found %d packages only", len(all))
	}
	return all
}

func TestTheRuleCanFail(t *testing.T) {
	for _, bad := range [][2]string{
		{"pkg/core/place", "os"}, {"pkg/core/place", "time"}, {"pkg/core/mig", "k8s.io/api/core/v1"}, {"pkg/core/mig", module + "pkg/kube"},
		{"pkg/kube", module + "pkg/render"}, {"pkg/kube", "k8s.io/kubernetes/pkg/scheduler"}, {"pkg/ljctl/submit", "k8s.io/kubernetes/cmd/kube-scheduler/app"},
		{"pkg/sched", "github.com/NVIDIA/go-nvml/pkg/nvml"}, {"pkg/sched", module + "pkg/core/coretest"}, {"pkg/ljctl", "github.com/olekukonko/tablewriter"},
	} {
		if forbidden(bad[0], bad[1]) == "" {
			t.Errorf("%s may import %s", bad[0], bad[1])
		}
	}
	for _, good := range [][2]string{
		{"pkg/core/place", "sort"}, {"pkg/core/place", module + "pkg/core/mig"}, {"pkg/sched", "k8s.io/kubernetes/pkg/scheduler"},
		{"pkg/ljctl/submit", module + "pkg/kube"}, {"pkg/render", "github.com/olekukonko/tablewriter/tw"},
	} {
		if why := forbidden(good[0], good[1]); why != "" {
			t.Errorf("%s may not import %s: %s", good[0], good[1], why)
		}
	}
}
