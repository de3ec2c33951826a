package jobsethook

import (
	"context"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/constants"
	"sigs.k8s.io/jobset/pkg/util/placement"
)

// PodCondition is the CEL expression that picks the pods to send here: those
// of a JobSet that asks for a topology of its own.
const PodCondition = `has(object.metadata.annotations) && "` + jobset.JobSetNameKey + `" in object.metadata.annotations` +
	` && "` + jobset.ExclusiveKey + `" in object.metadata.annotations` +
	` && !("` + jobset.NodeSelectorStrategyKey + `" in object.metadata.annotations)`

// Leaders finds where a group of pods has been placed.
type Leaders interface {
	// Topology returns the value of the label key of the node that the pod
	// named name plus a random suffix is bound to, in the namespace and of the
	// owner given; "" if there is no such pod or it is not bound yet.
	Topology(ctx context.Context, namespace, name string, owner *metav1.OwnerReference, key string) (string, error)
}

// DefaultPod ties a pod to its job's topology domain. The leader, index 0,
// keeps other jobs out and its own in by affinity; a follower goes where the
// leader went. A follower without a placed leader is refused: the Job
// controller tries again, which is how JobSet waits.
func DefaultPod(ctx context.Context, pod *v1.Pod, leaders Leaders) error {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if pod.Spec.Priority != nil {
		pod.Labels[constants.PriorityKey] = strconv.Itoa(int(*pod.Spec.Priority))
	}
	key := pod.Annotations[jobset.ExclusiveKey]
	if pod.Annotations[batchv1.JobCompletionIndexAnnotation] == "0" {
		keepDomain(pod, key)
		return nil
	}
	name := placement.GenPodName(pod.Labels[jobset.JobSetNameKey], pod.Labels[jobset.ReplicatedJobNameKey], pod.Labels[jobset.JobIndexKey], "0")
	value, err := leaders.Topology(ctx, pod.Namespace, name, metav1.GetControllerOf(pod), key)
	if err != nil {
		return err
	}
	if value == "" {
		return fmt.Errorf("the leader pod %s is not placed yet; this passes by itself", name)
	}
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	pod.Spec.NodeSelector[key] = value
	return nil
}

func keepDomain(pod *v1.Pod, key string) {
	a := pod.Spec.Affinity
	if a == nil {
		a = &v1.Affinity{}
		pod.Spec.Affinity = a
	}
	if a.PodAffinity == nil {
		a.PodAffinity = &v1.PodAffinity{}
	}
	if a.PodAntiAffinity == nil {
		a.PodAntiAffinity = &v1.PodAntiAffinity{}
	}
	job := pod.Labels[jobset.JobKey]
	term := func(reqs ...metav1.LabelSelectorRequirement) v1.PodAffinityTerm {
		return v1.PodAffinityTerm{
			TopologyKey:       key,
			NamespaceSelector: &metav1.LabelSelector{},
			LabelSelector:     &metav1.LabelSelector{MatchExpressions: reqs},
		}
	}
	own := metav1.LabelSelectorRequirement{Key: jobset.JobKey, Operator: metav1.LabelSelectorOpIn, Values: []string{job}}
	any := metav1.LabelSelectorRequirement{Key: jobset.JobKey, Operator: metav1.LabelSelectorOpExists}
	others := metav1.LabelSelectorRequirement{Key: jobset.JobKey, Operator: metav1.LabelSelectorOpNotIn, Values: []string{job}}
	peers := metav1.LabelSelectorRequirement{Key: constants.PriorityKey, Operator: metav1.LabelSelectorOpIn,
		Values: []string{pod.Labels[constants.PriorityKey]}}
	required := &a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, term(own))
	required = &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, term(any, others, peers))
}
