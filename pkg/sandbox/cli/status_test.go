package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sandbox/fleet"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

func TestNodeStatus(t *testing.T) {
	f, err := fleet.Parse([]byte(`
nodes:
- {name: a, unschedulable: true, cards: {model: A100-80, mig: [6, 7], health: [{card: 0, code: xid-79}]}, nics: {count: 2}}
- {name: b, enabled: false, agent: false, cards: {model: T4}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []NodeStatus
	for i := range f.Nodes {
		obj, err := f.Nodes[i].Object(f.Config)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, nodeStatus(obj))
	}
	want := []NodeStatus{
		{Name: "a", State: "NotReady,Unschedulable", Enabled: true, Cards: 8, MIG: 2, Sick: 1, Model: "NVIDIA A100-SXM4-80GB", NICs: 2},
		{Name: "b", State: "NotReady"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	obj, _ := f.Nodes[0].Object(f.Config)
	obj.Annotations[kube.InventoryAnnotation] = "{"
	if s := nodeStatus(obj); s.Error == "" || s.Cards != 0 {
		t.Errorf("a broken inventory: %+v, want an error and no cards", s)
	}
}

func TestPrintStatus(t *testing.T) {
	var b strings.Builder
	r := statedir.Record{PID: 7, Kubernetes: "v1.37.2", Server: "https://127.0.0.1:1", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local), Ready: true,
		Scheduler: statedir.Scheduler{State: statedir.SchedulerFailed, Restarts: 3, Error: "boom"}}
	printStatus(&b, "/d", Status{Running: true, Sandbox: &r, Nodes: []NodeStatus{
		{Name: "a100", State: "Ready", Enabled: true, Cards: 8, MIG: 2, Sick: 1, Model: "NVIDIA A100-SXM4-80GB", NICs: 4},
		{Name: "b", State: "Ready", Error: "inventory: no version"},
	}})
	want := `the sandbox is running since 2026-01-02 03:04:05 (pid 7), Kubernetes v1.37.2
  server      https://127.0.0.1:1
  kubeconfig  /d/kubeconfig
  log         /d/ljsandbox.log
  scheduler   failed, started again 3 times: boom

NODE   STATE   ENABLED   CARDS   MODEL                            MIG   SICK   NICS
a100   Ready   yes       8       NVIDIA A100-SXM4-80GB            2     1      4
b      Ready   no        0       unknown: inventory: no version   0     0      0
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExitCodes(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want int
	}{
		"help":              {[]string{"--help"}, 0},
		"not running":       {[]string{"status"}, 3},
		"not running, JSON": {[]string{"status", "-o", "json"}, 3},
		"no kubeconfig":     {[]string{"kubeconfig"}, 3},
		"nothing to end":    {[]string{"down"}, 0},
		"no such fleet":     {[]string{"up", "--no-scheduler", "--fleet", "/nowhere"}, 1},
		"no such command":   {[]string{"upp"}, 2},
		"no such flag":      {[]string{"up", "--flet"}, 2},
		"too many words":    {[]string{"down", "now"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			args := append(tc.args, "--state-dir", t.TempDir())
			if got := Main(t.Context(), args, &Program{Streams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}}); got != tc.want {
				t.Errorf("exit code %d, want %d\n%s%s", got, tc.want, &out, &errOut)
			}
		})
	}
}
