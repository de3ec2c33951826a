package whypending

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lj.aliyun.com/kit/pkg/kube"
)

// affinityNodes are the first nodes on which pods run that the pod's required
// affinity looks for.
func (q *inquiry) affinityNodes() []string {
	a := q.pod.Spec.Affinity
	if a == nil || a.PodAffinity == nil {
		return nil
	}
	found := map[string]bool{}
	for _, t := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		sel, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
		if err != nil {
			continue
		}
		for _, p := range q.s.Pods {
			if p.Spec.NodeName != "" && !kube.Finished(p) && sel.Matches(labels.Set(p.Labels)) && q.inScope(t, p) {
				found[p.Spec.NodeName] = true
			}
		}
	}
	var out []string
	for n := range found {
		out = append(out, n)
	}
	slices.Sort(out)
	return out[:min(len(out), 3)]
}

func (q *inquiry) inScope(t v1.PodAffinityTerm, p *v1.Pod) bool {
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		return p.Namespace == q.pod.Namespace
	}
	return slices.Contains(t.Namespaces, p.Namespace) || t.NamespaceSelector != nil
}

// runtimeClass finds a RuntimeClass of the snapshot.
func (p *Picture) runtimeClass(name string) *nodev1.RuntimeClass {
	for _, rc := range p.s.RuntimeClasses {
		if rc.Name == name {
			return rc
		}
	}
	return nil
}
