package request

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
)

// Short names for the amounts of a container.
const (
	nv, gpu, core, mem, slice, rdma = "nvidia.com/gpu", "aliyun.com/gpu", "aliyun.com/gpu-core", "aliyun.com/gpu-memory", "aliyun.com/gpu-slice", "aliyun.com/rdma"
)

func mib() config.Config {
	c := config.Default()
	c.Unit, c.UnitKnown = config.MiB, true
	return c
}

func TestRules(t *testing.T) {
	type amounts = map[string]int64
	for what, c := range map[string]struct {
		res  amounts
		cfg  config.Config
		want []reason.Reason
	}{
		"nothing is asked":                    {amounts{"cpu": 4}, config.Default(), nil},
		"a whole card":                        {amounts{nv: 1}, config.Default(), nil},
		"a share":                             {amounts{core: 100, mem: 80}, config.Default(), nil},
		"zero compute is the same as absent":  {amounts{core: 0, mem: 4}, config.Default(), nil},
		"memory alone":                        {amounts{mem: 4}, config.Default(), nil},
		"a slice":                             {amounts{slice: 7, mem: 4}, config.Default(), nil},
		"the switch":                          {amounts{gpu: 4, rdma: 1}, config.Default(), nil},
		"a whole card with compute":           {amounts{nv: 1, core: 30}, config.Default(), []reason.Reason{{Code: "whole-and-share", Device: core}}},
		"a whole card with memory":            {amounts{gpu: 1, mem: 4}, config.Default(), []reason.Reason{{Code: "whole-and-share", Device: mem}}},
		"a whole card with a slice":           {amounts{gpu: 1, slice: 2}, config.Default(), []reason.Reason{{Code: "whole-and-share", Device: slice}}},
		"both names of whole cards":           {amounts{nv: 1, gpu: 2}, config.Default(), []reason.Reason{{Code: "two-whole-gpu-names", Want: 3, Device: gpu}}},
		"compute with a slice":                {amounts{core: 50, slice: 3}, config.Default(), []reason.Reason{{Code: "tdm-and-mig", Device: core}}},
		"more compute than a card has":        {amounts{core: 101}, config.Default(), []reason.Reason{{Code: "core-out-of-range", Want: 101, Device: core}}},
		"a slice that does not exist":         {amounts{slice: 5}, config.Default(), []reason.Reason{{Code: "slice-not-allowed", Want: 5, Device: slice}}},
		"the switch as a count":               {amounts{gpu: 1, rdma: 2}, config.Default(), []reason.Reason{{Code: "rdma-not-a-count", Want: 2, Device: rdma}}},
		"memory off the step":                 {amounts{mem: 129}, mib(), []reason.Reason{{Code: "memory-step", Want: 129, Device: mem}}},
		"memory below the smallest amount":    {amounts{mem: 64}, mib(), []reason.Reason{{Code: "memory-below-128mib", Want: 64, Device: mem}}},
		"memory on the step":                  {amounts{mem: 4096}, mib(), nil},
		"memory that would overflow as bytes": {amounts{mem: 1 << 50}, config.Default(), []reason.Reason{{Code: "memory-above-largest-gpu", Want: 1 << 50, Device: mem}}},
		"more cards than any node has":        {amounts{nv: 1 << 40}, config.Default(), []reason.Reason{{Code: "gpus-above-node", Want: 1 << 40, Device: nv}}},
		"all mistakes at once": {amounts{core: 200, slice: 6, rdma: 4}, config.Default(), []reason.Reason{
			{Code: "tdm-and-mig", Device: core}, {Code: "core-out-of-range", Want: 200, Device: core},
			{Code: "slice-not-allowed", Want: 6, Device: slice}, {Code: "rdma-not-a-count", Want: 4, Device: rdma}}},
	} {
		t.Run(what, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Rules(c.res, c.cfg)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What Rules refuses Parse refuses too, and the other way round, container by
// container: validate must never call valid what the scheduler will not take.
func TestParseAndRulesAgree(t *testing.T) {
	values := []int64{0, 1, 2, 3, 5, 8, 64, 100, 101, 128, 129, 1 << 45}
	for _, cfg := range []config.Config{config.Default(), mib()} {
		for _, a := range values {
			for _, b := range values {
				for _, names := range [][2]string{{nv, gpu}, {nv, core}, {gpu, mem}, {gpu, slice}, {core, mem}, {core, slice}, {slice, mem}, {gpu, rdma}} {
					res := map[string]int64{names[0]: a, names[1]: b}
					_, bad := Parse(Pod{Containers: []Container{{Name: "c", Resources: res}}}, cfg)
					if (len(bad) > 0) != (len(Rules(res, cfg)) > 0) {
						t.Errorf("%v in %s: Parse %v, Rules %v", res, cfg.Unit, bad, Rules(res, cfg))
					}
				}
			}
		}
	}
}

func TestParseCount(t *testing.T) {
	for text, want := range map[string]struct {
		n    int
		code reason.Code
	}{
		"1": {1, ""}, "7": {7, ""}, "0": {0, "replica-not-positive"}, "-1": {0, "replica-not-positive"},
		"": {0, "replica-not-an-integer"}, "two": {0, "replica-not-an-integer"}, "1.5": {0, "replica-not-an-integer"},
		"02": {0, "replica-not-canonical"}, "+2": {0, "replica-not-canonical"}, "0x2": {0, "replica-not-an-integer"},
		"2 ": {0, "replica-not-an-integer"}, "99999999999999999999": {0, "replica-not-an-integer"}, "2000000": {0, "replica-not-an-integer"},
	} {
		n, code := ParseCount(text, "replica")
		if n != want.n || code != want.code {
			t.Errorf("%q: %d %q, want %d %q", text, n, code, want.n, want.code)
		}
	}
}

func TestParse(t *testing.T) {
	one := func(res map[string]int64) []Container { return []Container{{Name: "a", Resources: res}} }
	for what, c := range map[string]struct {
		pod   Pod
		asks  []Ask
		cards int
	}{
		"a CPU pod with a foreign replica label": {Pod{Labels: map[string]string{"replica": "one"}, Containers: one(map[string]int64{"cpu": 1})}, nil, 0},
		"replica multiplies shares": {Pod{Labels: map[string]string{"replica": "2"}, Containers: one(map[string]int64{core: 50, mem: 4})},
			[]Ask{{Container: "a", Mode: TDM, Count: 2, Core: 50, MemMiB: 4096}}, 2},
		"replica leaves whole cards alone": {Pod{Labels: map[string]string{"replica": "2"}, Containers: one(map[string]int64{nv: 3})},
			[]Ask{{Container: "a", Mode: Whole, Count: 3, NVIDIAOnly: true}}, 3},
		"an init container's peak, not the sum": {Pod{Containers: []Container{
			{Name: "conv", Kind: Init, Resources: map[string]int64{nv: 4}}, {Name: "app", Resources: map[string]int64{nv: 1}}}},
			[]Ask{{Container: "conv", Kind: Init, Mode: Whole, Count: 4, NVIDIAOnly: true}, {Container: "app", Mode: Whole, Count: 1, NVIDIAOnly: true, From: 1, To: 1}}, 4},
		"a sidecar runs beside the apps": {Pod{Containers: []Container{
			{Name: "side", Kind: Sidecar, Resources: map[string]int64{nv: 1}}, {Name: "app", Resources: map[string]int64{nv: 2}}}},
			[]Ask{{Container: "side", Kind: Sidecar, Mode: Whole, Count: 1, NVIDIAOnly: true}, {Container: "app", Mode: Whole, Count: 2, NVIDIAOnly: true}}, 3},
		"shares that do not lie on one card": {Pod{Containers: []Container{
			{Name: "a", Resources: map[string]int64{core: 60}}, {Name: "b", Resources: map[string]int64{core: 60}}}},
			[]Ask{{Container: "a", Mode: TDM, Count: 1, Core: 60}, {Container: "b", Mode: TDM, Count: 1, Core: 60}}, 2},
		"shares that do": {Pod{Containers: []Container{
			{Name: "a", Resources: map[string]int64{core: 50}}, {Name: "b", Resources: map[string]int64{core: 50}}}},
			[]Ask{{Container: "a", Mode: TDM, Count: 1, Core: 50}, {Container: "b", Mode: TDM, Count: 1, Core: 50}}, 1},
		"a share and a slice": {Pod{Containers: []Container{
			{Name: "a", Resources: map[string]int64{core: 50}}, {Name: "b", Resources: map[string]int64{slice: 3, mem: 4}}}},
			[]Ask{{Container: "a", Mode: TDM, Count: 1, Core: 50}, {Container: "b", Mode: MIG, Count: 1, Slices: 3, MemMiB: 4096}}, 2},
	} {
		t.Run(what, func(t *testing.T) {
			r, bad := Parse(c.pod, config.Default())
			if len(bad) > 0 {
				t.Fatal(bad)
			}
			if diff := cmp.Diff(c.asks, r.Asks); diff != "" {
				t.Errorf("asks, -want +got:\n%s", diff)
			}
			if r.Cards() != c.cards {
				t.Errorf("%d cards, want %d", r.Cards(), c.cards)
			}
		})
	}
}
