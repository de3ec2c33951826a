package jobsethook

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// Default fills in what the JobSet leaves open. The controller dereferences
// several of these without looking.
func Default(js *jobset.JobSet) {
	spec := &js.Spec
	if spec.SuccessPolicy == nil {
		spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll}
	}
	if spec.StartupPolicy == nil {
		spec.StartupPolicy = &jobset.StartupPolicy{StartupPolicyOrder: jobset.AnyOrder}
	}
	for i := range spec.ReplicatedJobs {
		job := &spec.ReplicatedJobs[i].Template.Spec
		if job.CompletionMode == nil {
			job.CompletionMode = ptr(batchv1.IndexedCompletion)
		}
		if job.Template.Spec.RestartPolicy == "" {
			job.Template.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		}
	}
	if spec.Network == nil {
		spec.Network = &jobset.Network{}
	}
	if spec.Network.EnableDNSHostnames == nil {
		spec.Network.EnableDNSHostnames = ptr(true)
	}
	if spec.Network.PublishNotReadyAddresses == nil {
		spec.Network.PublishNotReadyAddresses = ptr(true)
	}
	if spec.FailurePolicy != nil {
		for i := range spec.FailurePolicy.Rules {
			if r := &spec.FailurePolicy.Rules[i]; r.Name == "" {
				r.Name = fmt.Sprintf("failurePolicyRule%d", i)
			}
		}
	}
	for i := range spec.VolumeClaimPolicies {
		if p := &spec.VolumeClaimPolicies[i]; p.RetentionPolicy == nil {
			p.RetentionPolicy = &jobset.VolumeRetentionPolicy{WhenDeleted: ptr(jobset.RetentionPolicyDelete)}
		}
	}
}

func ptr[T any](v T) *T { return &v }
