package jobsethook

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/util/placement"
)

// ruleName is the form of a failure policy rule's name.
var ruleName = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// failureReasons are the reasons of a failed Job that a rule may name.
var failureReasons = []string{
	batchv1.JobReasonBackoffLimitExceeded, batchv1.JobReasonDeadlineExceeded, batchv1.JobReasonFailedIndexes,
	batchv1.JobReasonMaxFailedIndexesExceeded, batchv1.JobReasonPodFailurePolicy,
}

// Validate returns everything that is wrong with a new, defaulted JobSet.
func Validate(js *jobset.JobSet) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	if js.Spec.FailurePolicy != nil && js.Spec.FailurePolicy.RestartStrategy == jobset.InPlaceRestart {
		errs = append(errs, field.Forbidden(spec.Child("failurePolicy", "restartStrategy"), "the feature InPlaceRestart is off in this cluster"))
	}
	if n := js.Spec.Network; n != nil && n.Subdomain != "" {
		errs = append(errs, label(spec.Child("network", "subdomain"), n.Subdomain)...)
	}
	names := map[string]bool{}
	for i := range js.Spec.ReplicatedJobs {
		job := &js.Spec.ReplicatedJobs[i]
		path := spec.Child("replicatedJobs").Index(i)
		errs = append(errs, validateJob(js.Name, job, path)...)
		if i == 0 && job.DependsOn != nil {
			errs = append(errs, field.Forbidden(path.Child("dependsOn"), "the first replicated job has none before it"))
		}
		for k, d := range job.DependsOn {
			if !names[d.Name] {
				errs = append(errs, field.Invalid(path.Child("dependsOn").Index(k).Child("name"), d.Name, "is no replicated job before this one"))
			}
		}
		names[job.Name] = true
	}
	if p := js.Spec.SuccessPolicy; p != nil {
		errs = append(errs, targets(spec.Child("successPolicy", "targetReplicatedJobs"), p.TargetReplicatedJobs, names)...)
	}
	errs = append(errs, validateRules(js.Spec.FailurePolicy, spec.Child("failurePolicy", "rules"), names)...)
	return append(errs, validateCoordinator(js, spec.Child("coordinator"))...)
}

func validateJob(set string, job *jobset.ReplicatedJob, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	parallelism := int64(1)
	if p := job.Template.Spec.Parallelism; p != nil {
		parallelism = int64(*p)
	}
	if parallelism*int64(job.Replicas) > math.MaxInt32 {
		errs = append(errs, field.Invalid(path.Child("replicas"), job.Replicas, fmt.Sprintf("replicas × parallelism must not exceed %d", math.MaxInt32)))
	}
	if job.GroupName != "" {
		errs = append(errs, label(path.Child("groupName"), job.GroupName)...)
	}
	// The longest names that the controllers will make of it.
	last := max(int(job.Replicas)-1, 0)
	longest := placement.GenJobName(set, job.Name, last)
	if c := job.Template.Spec.Completions; c != nil && *c > 0 {
		longest = placement.GenPodName(set, job.Name, strconv.Itoa(last), strconv.Itoa(int(*c)-1)) + "-abcde"
	}
	for _, msg := range validation.IsDNS1035Label(longest) {
		errs = append(errs, field.Invalid(path.Child("name"), job.Name, fmt.Sprintf("with the JobSet's name it makes the name %q, which %s", longest, msg)))
	}
	return errs
}

func validateRules(p *jobset.FailurePolicy, path *field.Path, names map[string]bool) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i := range p.Rules {
		r, at := &p.Rules[i], path.Index(i)
		if len(r.Name) > 128 || !ruleName.MatchString(r.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), r.Name, "must be at most 128 letters, digits and _,: from a letter to a letter, digit or _"))
		}
		if seen[r.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), r.Name))
		}
		seen[r.Name] = true
		errs = append(errs, targets(at.Child("targetReplicatedJobs"), r.TargetReplicatedJobs, names)...)
		for k, reason := range r.OnJobFailureReasons {
			if !slices.Contains(failureReasons, reason) {
				errs = append(errs, field.NotSupported(at.Child("onJobFailureReasons").Index(k), reason, failureReasons))
			}
		}
	}
	return errs
}

func validateCoordinator(js *jobset.JobSet, path *field.Path) field.ErrorList {
	c := js.Spec.Coordinator
	if c == nil {
		return nil
	}
	i := slices.IndexFunc(js.Spec.ReplicatedJobs, func(j jobset.ReplicatedJob) bool { return j.Name == c.ReplicatedJob })
	if i < 0 {
		return field.ErrorList{field.Invalid(path.Child("replicatedJob"), c.ReplicatedJob, "is no replicated job of this JobSet")}
	}
	job := &js.Spec.ReplicatedJobs[i]
	if c.JobIndex < 0 || c.JobIndex >= int(job.Replicas) {
		return field.ErrorList{field.Invalid(path.Child("jobIndex"), c.JobIndex, fmt.Sprintf("the job has %d replicas", job.Replicas))}
	}
	s := &job.Template.Spec
	if s.Completions == nil || s.CompletionMode == nil || *s.CompletionMode != batchv1.IndexedCompletion {
		return field.ErrorList{field.Invalid(path.Child("replicatedJob"), c.ReplicatedJob, "must be an Indexed job with completions set")}
	}
	if c.PodIndex < 0 || c.PodIndex >= int(*s.Completions) {
		return field.ErrorList{field.Invalid(path.Child("podIndex"), c.PodIndex, fmt.Sprintf("the job has %d completions", *s.Completions))}
	}
	return nil
}

// ValidateUpdate refuses changes to the jobs and to the manager. While either
// side is suspended the scheduling parts of the pod templates may change,
// which queueing systems need.
func ValidateUpdate(old, js *jobset.JobSet) field.ErrorList {
	munged := js.Spec.DeepCopy()
	if suspended(old) || suspended(js) {
		for i := range munged.ReplicatedJobs {
			if i >= len(old.Spec.ReplicatedJobs) {
				break
			}
			to, from := &munged.ReplicatedJobs[i].Template.Spec.Template, &old.Spec.ReplicatedJobs[i].Template.Spec.Template
			to.Annotations, to.Labels = from.Annotations, from.Labels
			to.Spec.NodeSelector, to.Spec.Tolerations = from.Spec.NodeSelector, from.Spec.Tolerations
			to.Spec.SchedulingGates = from.Spec.SchedulingGates
		}
	}
	spec := field.NewPath("spec")
	errs := apivalidation.ValidateImmutableField(munged.ReplicatedJobs, old.Spec.ReplicatedJobs, spec.Child("replicatedJobs"))
	return append(errs, apivalidation.ValidateImmutableField(munged.ManagedBy, old.Spec.ManagedBy, spec.Child("managedBy"))...)
}

func suspended(js *jobset.JobSet) bool { return js.Spec.Suspend != nil && *js.Spec.Suspend }

func targets(path *field.Path, wanted []string, names map[string]bool) field.ErrorList {
	var errs field.ErrorList
	for i, n := range wanted {
		if !names[n] {
			errs = append(errs, field.Invalid(path.Index(i), n, "is no replicated job of this JobSet"))
		}
	}
	return errs
}

func label(path *field.Path, value string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1035Label(value) {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}
