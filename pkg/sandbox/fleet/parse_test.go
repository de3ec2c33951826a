package fleet

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lj.aliyun.com/kit/pkg/core/device"
)

func TestParseSaysWhatIsWrongAndWhere(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"empty file":              {"", []string{"the file is empty: it needs a list of nodes"}},
		"only a comment":          {"# nothing\n", []string{"the file is empty: it needs a list of nodes"}},
		"no nodes":                {"nodes: []\n", []string{"line 1: nodes: there are none"}},
		"not a mapping":           {"- a\n", []string{"line 1: must be a mapping of keys to values, is a list"}},
		"two documents":           {"nodes: [{name: a}]\n---\nnodes: []\n", []string{"more than one YAML document: a fleet is one"}},
		"unknown key":             {"nodes:\n- {name: a, memroy: 1Gi}\n", []string{`line 2: nodes[0].memroy: unknown key (did you mean "memory"?)`}},
		"key in the wrong case":   {"nodes:\n- {name: a, Cpu: 4}\n", []string{`line 2: nodes[0].Cpu: unknown key (did you mean "cpu"?)`}},
		"repeated key":            {"nodes:\n- name: a\n  name: b\n", []string{"line 3: nodes[0].name: is given twice"}},
		"no name":                 {"nodes:\n- cpu: 4\n", []string{`line 2: nodes[0].name: "" is no node name: `}},
		"name taken":              {"nodes:\n- name: a\n- name: a\n", []string{`line 3: nodes[1].name: a node "a" is already there from line 2`}},
		"numbered name taken":     {"nodes:\n- {name: a, count: 2}\n- name: a-1\n", []string{`line 3: nodes[1].name: a node "a-1" is already there from line 2`}},
		"count 0":                 {"nodes:\n- {name: a, count: 0}\n", []string{`line 2: nodes[0].count: must be a whole number from 1 to 10000, is "0"`}},
		"unknown model":           {"nodes:\n- name: a\n  cards: {model: A100-4O}\n", []string{`line 3: nodes[0].cards.model: unknown model "A100-4O" (did you mean "A100-40"?), or give its vendor and memMiB`}},
		"model missing":           {"nodes:\n- name: a\n  cards: {count: 8}\n", []string{"line 3: nodes[0].cards.model: is missing; known: A100-40, "}},
		"unknown vendor":          {"nodes:\n- name: a\n  cards: {model: X, vendor: nvidea, memMiB: 1024}\n", []string{`line 3: nodes[0].cards.vendor: unknown vendor "nvidea" (did you mean "nvidia"?)`}},
		"MIG on a card without":   {"nodes:\n- name: a\n  cards: {model: T4, mig: all}\n", []string{"line 3: nodes[0].cards.mig: no MIG profiles are known for Tesla T4 with 15360 MiB"}},
		"MIG index out of range":  {"nodes:\n- name: a\n  cards: {model: H800, count: 2, mig: [2]}\n", []string{"line 3: nodes[0].cards.mig: there is no card 2: the node has 2, counted from 0"}},
		"MIG neither nor":         {"nodes:\n- name: a\n  cards: {model: H800, mig: some}\n", []string{`line 3: nodes[0].cards.mig: must be all, none or a list of card numbers, is "some"`}},
		"sick card out of range":  {"nodes:\n- name: a\n  cards: {model: T4, health: [{card: 9, code: xid-79}]}\n", []string{"line 3: nodes[0].cards.health: there is no card 9: the node has 4, counted from 0"}},
		"health code":             {"nodes:\n- name: a\n  cards: {model: T4, health: [{card: 0, code: XID 79}]}\n", []string{`line 3: nodes[0].cards.health[0].code: "XID 79" is no health code`}},
		"health time":             {"nodes:\n- name: a\n  cards: {model: T4, health: [{card: 0, code: lost, since: yesterday}]}\n", []string{`line 3: nodes[0].cards.health[0].since: "yesterday" is no time`}},
		"NIC out of range":        {"nodes:\n- name: a\n  nics: {count: 2, down: [4]}\n", []string{"line 3: nodes[0].nics.down: there is no NIC 4: the node has 2, counted from 0"}},
		"memory":                  {"nodes:\n- {name: a, memory: 1 TB}\n", []string{`line 2: nodes[0].memory: must be a positive quantity such as 64 or 512Gi, is "1 TB"`}},
		"boolean":                 {"nodes:\n- {name: a, enabled: \"no\"}\n", []string{`line 2: nodes[0].enabled: must be true or false, is "no"`}},
		"taint effect":            {"nodes:\n- {name: a, taints: [{key: k, effect: NoSchedul}]}\n", []string{`line 2: nodes[0].taints[0].effect: unknown effect "NoSchedul" (did you mean "NoSchedule"?)`}},
		"label":                   {"nodes:\n- {name: a, labels: {\"a b\": c}}\n", []string{"line 2: nodes[0].labels.a b: no valid label: "}},
		"setting":                 {"config: {memoryUnits: GiB}\nnodes: [{name: a}]\n", []string{"line 1: config: "}},
		"alias":                   {"config: &x {memoryUnit: GiB}\nnodes: [{name: a, labels: *x}]\n", []string{"line 2: nodes[0].labels: YAML aliases are not supported here: write the value out"}},
		"all problems, by line":   {"nodes:\n- {name: a, cpu: x}\n- {name: b, pods: -1}\n", []string{"line 2: nodes[0].cpu: ", "line 3: nodes[1].pods: "}},
		"broken YAML":             {"nodes: [\n", []string{"line "}},
		"too many cards":          {"nodes:\n- name: a\n  cards: {model: T4, count: 65}\n", []string{`line 3: nodes[0].cards.count: must be a whole number from 1 to 64, is "65"`}},
		"more nodes than allowed": {"nodes:\n- {name: a, count: 10000}\n- name: b\n", []string{"line 3: nodes[1]: more than 10000 nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.text))
			var ps Problems
			if !errors.As(err, &ps) {
				t.Fatalf("got %v, want problems", err)
			}
			got := strings.Split(ps.Error(), "\n")
			if len(got) != len(tc.want) {
				t.Fatalf("problems:\n%s\nwant %d: %q", ps, len(tc.want), tc.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tc.want[i]) {
					t.Errorf("problem %d:\n  %s\nwant\n  %s", i, got[i], tc.want[i])
				}
			}
		})
	}
}

func TestParseReadsEveryField(t *testing.T) {
	f, err := Parse([]byte(`
config: {memoryUnit: MiB}
nodes:
- name: n
  count: 2
  networkPod: np
  leaf: lf
  hypernode: hn
  cpu: "32"
  memory: 64Gi
  pods: 30
  enabled: false
  agent: false
  ready: false
  unschedulable: true
  labels: {zone: z1}
  taints: [{key: dedicated, value: ml, effect: NoSchedule}]
  cards:
    model: custom-9000
    vendor: ppu
    count: 3
    memMiB: 2048
    health: [{card: 1, code: lost, since: "2026-01-02T03:04:05Z"}]
    layout: {sockets: 1, numaPerSocket: 1, switchesPerNuma: 3}
  nics: {count: 2, gbps: 100, down: [1]}
`))
	if err != nil {
		t.Fatal(err)
	}
	if f.Config.Unit != "MiB" || len(f.Nodes) != 2 || f.Nodes[1].Name != "n-1" || f.Cards() != 6 {
		t.Fatalf("unit %s, %d nodes, second %q, %d cards", f.Config.Unit, len(f.Nodes), f.Nodes[1].Name, f.Cards())
	}
	n := f.Nodes[0]
	if n.Enabled || n.Agent || n.Ready || !n.Unschedulable || n.Pods != 30 || n.CPU.String() != "32" || n.Memory.String() != "64Gi" {
		t.Errorf("node: %+v", n)
	}
	if n.NetworkPod != "np" || n.Leaf != "lf" || n.HyperNode != "hn" || n.Labels["zone"] != "z1" || n.Taints[0].Value != "ml" {
		t.Errorf("place, labels or taints: %+v", n)
	}
	c := n.Cards
	if c.Count != 3 || c.Model.Vendor != device.PPU || c.Model.MemMiB != 2048 || c.Model.Layout != (Layout{1, 1, 3}) || c.Model.Product != "custom-9000" {
		t.Errorf("cards: %+v", c)
	}
	want := []Sick{{Card: 1, Event: device.HealthEvent{Code: "lost", Since: "2026-01-02T03:04:05Z"}}}
	if diff := cmp.Diff(want, c.Health); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(NICs{Count: 2, Gbps: 100, Down: []int{1}}, n.NICs); diff != "" {
		t.Errorf("NICs (-want +got):\n%s", diff)
	}
}

func TestParseRefusesALargeFile(t *testing.T) {
	_, err := Parse(make([]byte, MaxBytes+1))
	if err == nil || !strings.Contains(err.Error(), "bytes, more than") {
		t.Fatalf("got %v", err)
	}
}

// FuzzParse: whatever the bytes, an answer is a fleet that can be turned into
// nodes, or problems; never both, never a panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(DefaultText()))
	f.Add([]byte("nodes: [{name: a, cards: {model: H800, mig: [0]}}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("nodes: &n\n- <<: *n\n"))
	f.Add([]byte("nodes: [{name: a, count: 10000, nics: {count: 64}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fl, err := Parse(data)
		if err != nil {
			var ps Problems
			if !errors.As(err, &ps) || len(ps) == 0 || fl != nil {
				t.Fatalf("error %v of type %T with fleet %v", err, err, fl)
			}
			return
		}
		for i := range min(len(fl.Nodes), 20) {
			if _, err := fl.Nodes[i].Object(fl.Config); err != nil {
				t.Fatalf("a good file makes a bad node: %v", err)
			}
		}
	})
}
