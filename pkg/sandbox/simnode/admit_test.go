package simnode

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/pkg/core/config"
)

func list(pairs ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func asking(pairs ...string) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app",
		Resources: v1.ResourceRequirements{Requests: list(pairs...), Limits: list(pairs...)}}}}}
}

func TestAdmit(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}}, Status: v1.NodeStatus{
		Allocatable: list("cpu", "8", "memory", "16Gi", "pods", "3", "aliyun.com/gpu-core", "200", "aliyun.com/gpu-memory", "30", "nvidia.com/gpu", "2")}}
	selects := asking("cpu", "1")
	selects.Spec.NodeSelector = map[string]string{"zone": "b"}
	port := asking("cpu", "1")
	port.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}}
	doomed := node.DeepCopy()
	doomed.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoExecute}}
	busy := node.DeepCopy()
	busy.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
	for name, tc := range map[string]struct {
		node    *v1.Node
		others  []*v1.Pod
		pod     *v1.Pod
		reason  string
		message string
	}{
		"fits":                         {node, nil, asking("cpu", "8", "aliyun.com/gpu-core", "200"), "", ""},
		"CPU":                          {node, []*v1.Pod{asking("cpu", "7500m")}, asking("cpu", "1"), "OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 7500, capacity: 8000"},
		"memory":                       {node, nil, asking("memory", "17Gi"), "OutOfmemory", "requested: 18253611008, used: 0, capacity: 17179869184"},
		"gpu-memory is a plain number": {node, []*v1.Pod{asking("aliyun.com/gpu-memory", "20")}, asking("aliyun.com/gpu-memory", "11"), "OutOfaliyun.com/gpu-memory", "requested: 11, used: 20, capacity: 30"},
		"what a device plugin serves":  {node, []*v1.Pod{asking("nvidia.com/gpu", "1")}, asking("nvidia.com/gpu", "2"), "UnexpectedAdmissionError", "unavailable for nvidia.com/gpu. Requested: 2, Available: 1"},
		"device plugin before CPU":     {node, nil, asking("nvidia.com/gpu", "3", "cpu", "9"), "UnexpectedAdmissionError", "nvidia.com/gpu"},
		"a resource that the node does not offer":  {node, nil, asking("aliyun.com/gpu-slice", "3"), "", ""},
		"sums are blind to the replica label":      {node, []*v1.Pod{asking("aliyun.com/gpu-core", "100")}, asking("aliyun.com/gpu-core", "100"), "", ""},
		"pods":                                     {node, []*v1.Pod{asking(), asking(), asking()}, asking(), "OutOfpods", "requested: 1, used: 3, capacity: 3"},
		"host port":                                {node, []*v1.Pod{port}, port, "NodePorts", "(80)"},
		"selector":                                 {node, nil, selects, "NodeAffinity", "didn't match"},
		"NoExecute taint":                          {doomed, nil, asking(), "TaintToleration", "had taints"},
		"NoSchedule taint is the scheduler's":      {busy, nil, asking(), "", ""},
		"a request of nothing fits a full node":    {node, []*v1.Pod{asking("nvidia.com/gpu", "2")}, asking("nvidia.com/gpu", "0"), "", ""},
		"an init container counts while it is the": {node, nil, withInit(asking("cpu", "1"), "cpu", "9"), "OutOfcpu", "requested: 9000"},
	} {
		t.Run(name, func(t *testing.T) {
			var others []demand
			for _, p := range tc.others {
				others = append(others, demandOf(p))
			}
			got := admit(config.Default(), tc.node, others, tc.pod, demandOf(tc.pod))
			if got == nil {
				got = &rejection{}
			}
			if got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("got %q %q, want %q with %q", got.Reason, got.Message, tc.reason, tc.message)
			}
		})
	}
}

func withInit(pod *v1.Pod, pairs ...string) *v1.Pod {
	pod.Spec.InitContainers = []v1.Container{{Name: "init", Resources: v1.ResourceRequirements{Requests: list(pairs...)}}}
	return pod
}
