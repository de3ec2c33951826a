package cluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/request"
)

type L = coretest.Limits

func ptr[T any](v T) *T { return &v }

func share(card string, core, mem int64) device.Grant {
	return device.Grant{Card: card, Share: true, Core: ptr(core), MemMiB: ptr(mem)}
}

func parse(t *testing.T, cs ...request.Container) *request.Request {
	t.Helper()
	r, bad := request.Parse(request.Pod{UID: "p", Containers: cs}, config.Default())
	if bad != nil {
		t.Fatal(bad)
	}
	return r
}

func TestAPodHoldsItsPeak(t *testing.T) {
	c := config.Default()
	init1 := coretest.Container(c, "init1", request.Init, L{"gpu-core": 80, "gpu-memory": 2})
	side := coretest.Container(c, "side", request.Sidecar, L{"gpu-core": 10, "gpu-memory": 1})
	init2 := coretest.Container(c, "init2", request.Init, L{"gpu-core": 20, "gpu-memory": 30})
	app1 := coretest.Container(c, "app1", request.App, L{"gpu-core": 30, "gpu-memory": 4})
	app2 := coretest.Container(c, "app2", request.App, L{"gpu-core": 30, "gpu-memory": 4})
	r := parse(t, init1, side, init2, app1, app2)
	got, err := cluster.HoldOf(r, &device.Allocation{Containers: map[string][]device.Grant{
		"init1": {share("A", 80, 2048)}, "side": {share("A", 10, 1024)}, "init2": {share("A", 20, 30720)},
		"app1": {share("A", 30, 4096)}, "app2": {share("B", 30, 4096)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []cluster.CardUse{
		// compute: init1 alone; memory: init2 beside the sidecar
		{Card: "A", Core: 80, MemMiB: 30720 + 1024, Shares: 2},
		{Card: "B", Core: 30, MemMiB: 4096, Shares: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnAllocationMustAnswerTheRequest(t *testing.T) {
	r := parse(t, coretest.Container(config.Default(), "app", request.App, L{"nvidia": 2}))
	whole := func(id string) device.Grant { return device.Grant{Card: id, Whole: true} }
	for name, cs := range map[string]map[string][]device.Grant{
		"no containers":         {},
		"another container":     {"other": {whole("A"), whole("B")}},
		"fewer cards":           {"app": {whole("A")}},
		"more containers":       {"app": {whole("A"), whole("B")}, "other": {whole("C")}},
		"more cards than asked": {"app": {whole("A"), whole("B"), whole("C")}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := cluster.HoldOf(r, &device.Allocation{Containers: cs}); err == nil {
				t.Errorf("was taken: %v", got)
			}
		})
	}
	if _, err := cluster.HoldOf(r, &device.Allocation{Containers: map[string][]device.Grant{"app": {whole("A"), whole("B")}}}); err != nil {
		t.Error(err)
	}
}
