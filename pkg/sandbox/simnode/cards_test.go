package simnode

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

// cardNode has a plain card "a", a card "m" in MIG mode and a spatial PPU "p".
func cardNode(t *testing.T) *v1.Node {
	t.Helper()
	text, err := device.EncodeInventory(&device.Inventory{Unit: config.GiB, Cards: []device.Card{
		{UUID: "a", Index: 0, Model: "NVIDIA A100-SXM4-40GB", Vendor: device.NVIDIA, MemMiB: 40960, MIG: &device.MIGMode{}},
		{UUID: "m", Index: 1, Model: "NVIDIA A100-SXM4-40GB", Vendor: device.NVIDIA, MemMiB: 40960, MIG: &device.MIGMode{Cur: true, Pend: true}},
		{UUID: "p", Index: 2, Model: "PPU", Vendor: device.PPU, MemMiB: 98304},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{kube.InventoryAnnotation: text}}}
}

func whole(card string) device.Grant { return device.Grant{Card: card, Whole: true} }

func share(card string, core, mem int64) device.Grant {
	return device.Grant{Card: card, Share: true, Core: &core, MemMiB: &mem}
}

func slice(card, profile string, start, size int) device.Grant {
	return device.Grant{Card: card, MIG: profile, Start: &start, Size: size}
}

type grants map[string][]device.Grant

// allocated is a pod of our scheduler with these containers and this
// allocation; containers named init* are init containers.
func allocated(t *testing.T, uid, node string, g grants) *v1.Pod {
	t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(uid), Annotations: map[string]string{}}, Spec: v1.PodSpec{SchedulerName: kube.SchedulerName}}
	a := &device.Allocation{UID: uid, Node: node, Containers: map[string][]device.Grant{}}
	for name, list := range g {
		c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"aliyun.com/gpu-core": quantity(1)}}}
		if strings.HasPrefix(name, "init") {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		if list != nil {
			a.Containers[name] = list
		}
	}
	text, err := device.EncodeAllocation(a)
	if err != nil {
		t.Fatal(err)
	}
	pod.Annotations[kube.AllocationAnnotation] = text
	return pod
}

func TestClaim(t *testing.T) {
	for name, tc := range map[string]struct {
		held []grants
		mine grants
		want string // part of the refusal, empty if the pod may start
	}{
		"a free card":                       {nil, grants{"app": {whole("a")}}, ""},
		"a card that is held whole":         {[]grants{{"app": {whole("a")}}}, grants{"app": {share("a", 10, 1024)}}, "card a is not free"},
		"whole on a shared card":            {[]grants{{"app": {share("a", 10, 1024)}}}, grants{"app": {whole("a")}}, "card a is not free"},
		"shares up to the card":             {[]grants{{"app": {share("a", 40, 20480)}}}, grants{"app": {share("a", 60, 20480)}}, ""},
		"too much computing power":          {[]grants{{"app": {share("a", 50, 1024)}}}, grants{"app": {share("a", 60, 1024)}}, "110 percent"},
		"too much memory":                   {[]grants{{"app": {share("a", 10, 40000)}}}, grants{"app": {share("a", 10, 1000)}}, "41000 MiB of its 40960"},
		"instances beside each other":       {[]grants{{"app": {slice("m", "3g.20gb", 0, 4)}}}, grants{"app": {slice("m", "3g.20gb", 4, 4)}}, ""},
		"instances over each other":         {[]grants{{"app": {slice("m", "3g.20gb", 0, 4)}}}, grants{"app": {slice("m", "2g.10gb", 2, 2)}}, "card m is not free"},
		"an instance without MIG mode":      {nil, grants{"app": {slice("a", "3g.20gb", 0, 4)}}, "is not in MIG mode"},
		"a share of a card in MIG mode":     {nil, grants{"app": {share("m", 10, 1024)}}, "is in MIG mode"},
		"a spatial part of a PPU":           {nil, grants{"app": {slice("p", "1g.12gb", 0, 1)}}, ""},
		"a card that is not there":          {nil, grants{"app": {whole("z")}}, "card z is not on node n"},
		"a container without a card":        {nil, grants{"app": nil}, "no card for container app"},
		"two containers, one card":          {nil, grants{"app": {share("a", 50, 1024)}, "b": {share("a", 50, 1024)}}, ""},
		"two containers, more than one":     {nil, grants{"app": {share("a", 50, 1024)}, "b": {share("a", 60, 1024)}}, "110 percent"},
		"two containers, one whole card":    {nil, grants{"app": {whole("a")}, "b": {whole("a")}}, "two containers of the pod"},
		"init before app on the same share": {nil, grants{"app": {share("a", 100, 1024)}, "init": {share("a", 100, 2048)}}, ""},
		"init before app in the same place": {nil, grants{"app": {slice("m", "3g.20gb", 0, 4)}, "init": {slice("m", "3g.20gb", 0, 4)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			node := cardNode(t)
			var others []map[string]use
			for i, g := range tc.held {
				u, err := claim(config.Default(), node, others, allocated(t, string(rune('A'+i)), "n", g))
				if err != nil {
					t.Fatalf("holder %d: %v", i, err)
				}
				others = append(others, u)
			}
			got, err := claim(config.Default(), node, others, allocated(t, "me", "n", tc.mine))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v %v, want a refusal with %q", got, err, tc.want)
			}
		})
	}
}

func TestClaimTrustsOnlyAnAllocationOfItsOwn(t *testing.T) {
	node := cardNode(t)
	for name, tc := range map[string]struct {
		change func(*v1.Pod)
		want   string
	}{
		"none":           {func(p *v1.Pod) { delete(p.Annotations, kube.AllocationAnnotation) }, "has no allocation"},
		"another pod's":  {func(p *v1.Pod) { p.UID = "other" }, "not for this one"},
		"garbage":        {func(p *v1.Pod) { p.Annotations[kube.AllocationAnnotation] = "{" }, "allocation: "},
		"another node's": {func(p *v1.Pod) { *p = *allocated(t, "me", "elsewhere", grants{"app": {whole("a")}}) }, "written for node"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := allocated(t, "me", "n", grants{"app": {whole("a")}})
			tc.change(pod)
			if _, err := claim(config.Default(), node, nil, pod); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want a refusal with %q", err, tc.want)
			}
		})
	}
}

func TestNeedsAllocation(t *testing.T) {
	for name, tc := range map[string]struct {
		scheduler string
		limits    v1.ResourceList
		want      bool
	}{
		"a card":               {kube.SchedulerName, list("nvidia.com/gpu", "1"), true},
		"memory of a card":     {kube.SchedulerName, list("aliyun.com/gpu-memory", "4"), true},
		"only the rdma switch": {kube.SchedulerName, list("aliyun.com/rdma", "1"), false},
		"nothing of ours":      {kube.SchedulerName, list("cpu", "1"), false},
		"none of a card":       {kube.SchedulerName, list("aliyun.com/gpu-core", "0"), false},
		"another scheduler's":  {"default-scheduler", list("nvidia.com/gpu", "1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{SchedulerName: tc.scheduler, Containers: []v1.Container{{Resources: v1.ResourceRequirements{Limits: tc.limits}}}}}
			if got := needsAllocation(config.Default(), pod); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}
