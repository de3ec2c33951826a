package validate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// fieldCase is one entry of testdata/cases.yaml.
type fieldCase struct {
	Case  string     `json:"case"`
	Flags []string   `json:"flags"`
	Fleet []caseNode `json:"fleet"`
	Input string     `json:"input"`
	Want  struct {
		Verdict reason.Verdict `json:"verdict"`
		Codes   []reason.Code  `json:"codes"`
		Exit    int            `json:"exit"`
	} `json:"want"`
}

// caseNode is a node of a case's fleet: so many equal cards.
type caseNode struct {
	Name    string            `json:"name"`
	Model   string            `json:"model"`
	Vendor  device.Vendor     `json:"vendor"`
	MemMiB  int64             `json:"memMiB"`
	Cards   int               `json:"cards"`
	MIG     bool              `json:"mig"`
	Spatial bool              `json:"spatial"` // a PPU that lists spatial profiles
	Labels  map[string]string `json:"labels"`
}

func loadCases(t *testing.T) []fieldCase {
	t.Helper()
	raw, err := os.ReadFile("../../../testdata/cases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []fieldCase
	if err := yaml.UnmarshalStrict(raw, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestCases feeds each report from the field to the command and compares its
// JSON answer and its exit code.
func TestCases(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range loadCases(t) {
		if seen[c.Case] {
			t.Fatalf("case %s stands twice", c.Case)
		}
		seen[c.Case] = true
		t.Run(c.Case, func(t *testing.T) {
			args := append([]string{"-f", "-", "-o", "json"}, c.Flags...)
			if c.Fleet != nil {
				args = append(args, "--fleet", writeFleet(t, c.Fleet))
			}
			out, exit := runCase(t, c.Input, args)
			var got Report
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("the output is no JSON: %v\n%s", err, out)
			}
			compareCase(t, c, got, exit)
			if t.Failed() {
				t.Logf("findings: %s", listing(got))
			}
		})
	}
}

// runCase runs the command in-process, or the program that LJCTL names.
func runCase(t *testing.T, stdin string, args []string) (string, int) {
	t.Helper()
	program := os.Getenv("LJCTL")
	if program == "" {
		out, _, exit := runCmd(t, stdin, args...)
		return out, exit
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"validate"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(t.TempDir(), "none"), "HOME="+t.TempDir())
	out, err := cmd.Output()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func compareCase(t *testing.T, c fieldCase, got Report, exit int) {
	t.Helper()
	if got.Verdict != c.Want.Verdict {
		t.Errorf("verdict %s, want %s", got.Verdict, c.Want.Verdict)
	}
	if exit != c.Want.Exit {
		t.Errorf("exit %d, want %d", exit, c.Want.Exit)
	}
	wanted := map[reason.Code]bool{}
	for _, code := range c.Want.Codes {
		wanted[code] = true
	}
	found := map[reason.Code]bool{}
	for _, o := range got.Objects {
		for _, f := range o.Findings {
			found[f.Code] = true
			if f.Severity == Error && !wanted[f.Code] {
				t.Errorf("error %s was not wanted", f.Code)
			}
			if f.Path != "" && f.Line == 0 {
				t.Errorf("finding %s at %s has no line", f.Code, f.Path)
			}
			if strings.ContainsAny(f.Message+f.Fix, "{}") && f.Code != "rollback-burns-backoff" {
				t.Errorf("finding %s has an unfilled placeholder: %s / %s", f.Code, f.Message, f.Fix)
			}
			if _, ok := reason.Lookup(f.Code); !ok {
				t.Errorf("code %s is not in the closed list", f.Code)
			}
		}
	}
	for _, code := range c.Want.Codes {
		if !found[code] {
			t.Errorf("code %s is missing", code)
		}
	}
	// Where nothing is wanted, nothing may be said: a false alarm makes
	// people switch a check off.
	if c.Want.Verdict == reason.OK && len(c.Want.Codes) == 0 {
		for code := range found {
			if i, _ := reason.Lookup(code); i.Verdict != reason.OK {
				t.Errorf("unwanted finding %s", code)
			}
		}
	}
}

func listing(r Report) string {
	var b strings.Builder
	for _, o := range r.Objects {
		for _, f := range o.Findings {
			fmt.Fprintf(&b, "\n  %s %s at %s (line %d): %s", f.Severity, f.Code, f.Path, f.Line, f.Message)
		}
	}
	return b.String()
}

// runCmd runs the command in-process without a cluster.
func runCmd(t *testing.T, stdin string, args ...string) (out, errOut string, exit int) {
	t.Helper()
	streams, in, o, e := genericiooptions.NewTestIOStreams()
	in.WriteString(stdin)
	cmd := newCmd(Deps{
		Streams: streams,
		Config:  func(context.Context) (config.Config, bool, error) { return config.Default(), false, nil },
		Color:   func() string { return "auto" },
	})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetOut(o)
	cmd.SetErr(e)
	err := cmd.ExecuteContext(context.Background())
	return o.String(), e.String(), cliutil.Report(&bytes.Buffer{}, err)
}

// writeFleet writes a list of nodes as kubectl get nodes,pods -o json does.
func writeFleet(t *testing.T, nodes []caseNode) string {
	t.Helper()
	var items []any
	for _, n := range nodes {
		labels := map[string]string{kube.EnableLabel: "true"}
		for k, v := range n.Labels {
			labels[k] = v
		}
		inv, err := json.Marshal(n.inventory())
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, map[string]any{
			"apiVersion": "v1", "kind": "Node",
			"metadata": map[string]any{"name": n.Name, "labels": labels,
				"annotations": map[string]string{kube.InventoryAnnotation: string(inv)}},
			"status": map[string]any{"allocatable": n.allocatable(), "capacity": n.allocatable()},
		})
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "fleet.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (n caseNode) inventory() device.Inventory {
	inv := device.Inventory{V: device.InventoryVersion, Unit: config.GiB, Agent: "test"}
	for i := range n.Cards {
		c := device.Card{UUID: fmt.Sprintf("GPU-%s-%d", n.Name, i), Index: i, Model: n.Model, Vendor: n.Vendor, MemMiB: n.MemMiB}
		if n.MIG || n.Spatial {
			c.MIG = &device.MIGMode{Cur: n.MIG || (n.Spatial && i < n.Cards/2), Pend: n.MIG || (n.Spatial && i < n.Cards/2)}
		}
		inv.Cards = append(inv.Cards, c)
	}
	if n.Spatial {
		inv.Profiles = map[string][]mig.Profile{n.Model: {{Name: "2g.24gb", Slices: 2, MemMiB: 24576, Size: 2, Starts: []int{0, 2, 4}}}}
	}
	return inv
}

func (n caseNode) allocatable() map[string]string {
	return map[string]string{
		"nvidia.com/gpu": "8", "aliyun.com/gpu": "8", "aliyun.com/gpu-core": "800", "aliyun.com/gpu-memory": "640",
		"aliyun.com/gpu-slice": "56", "aliyun.com/rdma": "1000",
	}
}
