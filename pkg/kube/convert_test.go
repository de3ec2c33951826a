package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/reason"
)

// boundPod is bound to n1 and asks for two shares, which it has on A and B.
func boundPod(t *testing.T) *v1.Pod {
	t.Helper()
	core, mem := int64(50), int64(4096)
	text, err := device.EncodeAllocation(&device.Allocation{UID: "u", Node: "n1", Containers: map[string][]device.Grant{"app": {
		{Card: "A", Share: true, Core: &core, MemMiB: &mem}, {Card: "B", Share: true, Core: &core, MemMiB: &mem},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u", Labels: map[string]string{"replica": "2"},
			Annotations: map[string]string{AllocationAnnotation: text}},
		Spec: v1.PodSpec{NodeName: "n1", Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{"aliyun.com/gpu-core": resource.MustParse("50"), "aliyun.com/gpu-memory": resource.MustParse("4")},
		}}}},
	}
}

func TestARecordCountsWhateverTheRequestSaysToday(t *testing.T) {
	both := []cluster.CardUse{{Card: "A", Core: 50, MemMiB: 4096, Shares: 1}, {Card: "B", Core: 50, MemMiB: 4096, Shares: 1}}
	mib, other := config.Default(), config.Default()
	mib.Unit, other.Prefix = config.MiB, "gpu.example.org"
	tests := map[string]struct {
		change func(*v1.Pod)
		cfg    config.Config
	}{
		"as it was bound":                     {func(*v1.Pod) {}, config.Default()},
		"the label replica was lowered":       {func(p *v1.Pod) { p.Labels["replica"] = "1" }, config.Default()},
		"the label replica was spoilt":        {func(p *v1.Pod) { p.Labels["replica"] = "two" }, config.Default()},
		"the label replica was removed":       {func(p *v1.Pod) { delete(p.Labels, "replica") }, config.Default()},
		"the cluster counts MiB now":          {func(*v1.Pod) {}, mib},
		"the cluster has another prefix now":  {func(*v1.Pod) {}, other},
		"the pod is terminating and not gone": {func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, config.Default()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := boundPod(t)
			tt.change(p)
			h := HoldOf(p, tt.cfg)
			if h == nil || h.Unplaced != nil {
				t.Fatalf("got %+v", h)
			}
			if diff := cmp.Diff(both, h.Cards); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodsWithoutATrustedRecordHoldWhatTheyAsk(t *testing.T) {
	for name, text := range map[string]string{
		"none": "", "garbage": "{", "of another pod": `{"v":1,"uid":"x","node":"n1","containers":{"app":[{"card":"A","whole":true}]}}`,
		"without cards": `{"v":1,"uid":"u","node":"n1","containers":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := boundPod(t)
			p.Annotations[AllocationAnnotation] = text
			if h := HoldOf(p, config.Default()); h == nil || h.Unplaced == nil || len(h.Cards) != 0 || h.Why == "" {
				t.Errorf("got %+v", h)
			}
		})
	}
}

func TestWhoHoldsNothing(t *testing.T) {
	for name, change := range map[string]func(*v1.Pod){
		"not bound":     func(p *v1.Pod) { p.Spec.NodeName = "" },
		"succeeded":     func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded },
		"failed":        func(p *v1.Pod) { p.Status.Phase = v1.PodFailed },
		"asks for none": func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = nil; p.Annotations = nil },
	} {
		t.Run(name, func(t *testing.T) {
			p := boundPod(t)
			change(p)
			if h := HoldOf(p, config.Default()); h != nil {
				t.Errorf("holds %+v", h)
			}
		})
	}
}

func TestNodesSayWhyTheyTakeNothing(t *testing.T) {
	gpu := v1.NodeStatus{Capacity: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}}
	tests := map[string]struct {
		node v1.Node
		want reason.Code // of the gate or of the unread inventory
	}{
		"label in capitals":                  {v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{EnableLabel: "True"}}}, "enable-label-value"},
		"label with another value":           {v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{EnableLabel: "1"}}}, "enable-label-value"},
		"key with dashes":                    {v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"lj-runtimekit-enable": "true"}}}, "enable-label-key"},
		"annotation instead of label":        {v1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{EnableLabel: "true"}}}, "enable-label-is-annotation"},
		"no label on a GPU node":             {v1.Node{Status: gpu}, "enable-label-missing"},
		"no label on a CPU node":             {v1.Node{}, "no-gpu-on-node"},
		"enabled without inventory":          {v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{EnableLabel: "true"}}}, "inventory-missing"},
		"enabled with a broken inventory":    {v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{EnableLabel: "true"}, Annotations: map[string]string{InventoryAnnotation: "{"}}}, "inventory-unreadable"},
		"inventory of a version unknown yet": {v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{EnableLabel: "true"}, Annotations: map[string]string{InventoryAnnotation: `{"v":9}`}}}, "inventory-unreadable"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := NodeOf(&tt.node, config.Default())
			got := n.Gate
			if got == nil {
				got = n.Unread
			}
			if got == nil || got.Code != tt.want || n.Inventory != nil {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
		})
	}
}

func TestPoliciesAreReadOrLeft(t *testing.T) {
	const cards, nodes = "lj.aliyun.com/card-policy", "lj.aliyun.com/node-policy"
	for text, want := range map[string]config.Policy{"binpack": config.Binpack, "spread": config.Spread, "Spread": "", " spread": "", "": "", "sprad": ""} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{cards: text}, Labels: map[string]string{nodes: "spread"}}}
		r, bad := RequestOf(pod, config.Default())
		if bad != nil || r.CardPolicy != want || r.NodePolicy != "" {
			t.Errorf("pod with %q: cards %q, nodes %q, refused by %v", text, r.CardPolicy, r.NodePolicy, bad)
		}
		pod.Annotations = map[string]string{nodes: text}
		if r, _ := RequestOf(pod, config.Default()); r.NodePolicy != want || r.CardPolicy != "" {
			t.Errorf("pod with %q for nodes: cards %q, nodes %q", text, r.CardPolicy, r.NodePolicy)
		}
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{cards: text}, Annotations: map[string]string{cards: "spread"}}}
		if got := NodeOf(node, config.Default()).CardPolicy; got != want {
			t.Errorf("node with %q: %q", text, got)
		}
	}
}
