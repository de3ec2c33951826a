package submit

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

// A preview places a group as the scheduler will: whole, within one
// network-pod.
func TestPreviewOfAGroup(t *testing.T) {
	cfg := config.Default()
	s := &kube.Snapshot{}
	for i := range 4 {
		n := coretest.Node(fmt.Sprintf("n%d", i), cfg).Cards(4, coretest.H800).Obj()
		text, err := device.EncodeInventory(n.Inventory)
		if err != nil {
			t.Fatal(err)
		}
		amounts := v1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110")}
		for k, v := range n.Allocatable {
			amounts[v1.ResourceName(k)] = *resource.NewQuantity(v, resource.DecimalSI)
		}
		s.Nodes = append(s.Nodes, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, Annotations: map[string]string{kube.InventoryAnnotation: text},
				Labels: map[string]string{kube.EnableLabel: "true", cfg.Topology.NetworkPod: fmt.Sprintf("np-%d", i/2)}},
			Status: v1.NodeStatus{Allocatable: amounts, Capacity: amounts}})
	}
	for _, c := range []struct {
		workers, placed int
		group           string
	}{{2, 2, "network-pod np-0"}, {3, 0, ""}} {
		template := map[string]any{"metadata": map[string]any{"labels": map[string]any{cfg.MinMemberLabel(): fmt.Sprint(c.workers)}},
			"spec": map[string]any{"schedulerName": kube.SchedulerName, "runtimeClassName": kube.RuntimeClass, "containers": []any{map[string]any{"name": "main",
				"resources": map[string]any{"limits": map[string]any{cfg.GPU(): "4"}, "requests": map[string]any{cfg.GPU(): "4"}}}}}}
		set := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": map[string]any{"name": "set", "namespace": "default"},
			"spec": map[string]any{"replicatedJobs": []any{map[string]any{"name": "w", "replicas": int64(1), "template": map[string]any{"spec": map[string]any{
				"parallelism": int64(c.workers), "completions": int64(c.workers), "template": template}}}}}}}
		var pv Preview
		fits, err := pv.try(context.Background(), s, &plan{items: []planned{{object: set, source: "flags"}}}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		got := pv.Objects[0]
		if fits != (c.placed == c.workers) || got.Templates[0].Placed != c.placed || got.Group != c.group || (got.Templates[0].Why == "") != fits {
			t.Errorf("%d workers: fits %v, %+v", c.workers, fits, got)
		}
	}
}
