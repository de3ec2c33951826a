package manifest

import (
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsconv "k8s.io/kubernetes/pkg/apis/apps/v1"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	batchconv "k8s.io/kubernetes/pkg/apis/batch/v1"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	coreconv "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	kjson "sigs.k8s.io/json"
)

// refuse applies the API server's own defaults and validation to an object of
// JSON. The result's paths begin at the object. An error means that the JSON
// does not decode, which is then the refusal.
type refuse func(js []byte) (field.ErrorList, error)

// refusers are the kinds whose validation is compiled in.
var refusers = map[string]refuse{
	"v1/Pod":                   refusePod,
	"v1/ReplicationController": refuseReplicationController,
	"batch/v1/Job":             refuseJob,
	"batch/v1/CronJob":         refuseCronJob,
	"apps/v1/Deployment":       refuseDeployment,
	"apps/v1/ReplicaSet":       refuseReplicaSet,
	"apps/v1/StatefulSet":      refuseStatefulSet,
	"apps/v1/DaemonSet":        refuseDaemonSet,
}

var errForeign = errors.New("the validation gave up")

// decode is the API server's decoder, unknown fields dropped: they are
// reported apart.
func decode[T any](js []byte) (*T, error) {
	out := new(T)
	return out, kjson.UnmarshalCaseSensitivePreserveInts(js, out)
}

func refusePod(js []byte) (field.ErrorList, error) {
	in, err := decode[corev1.Pod](js)
	if err != nil {
		return nil, err
	}
	coreconv.SetObjectDefaults_Pod(in)
	var out core.Pod
	if err := coreconv.Convert_v1_Pod_To_core_Pod(in, &out, nil); err != nil {
		return nil, err
	}
	home(&out.ObjectMeta)
	t := core.PodTemplateSpec{ObjectMeta: out.ObjectMeta, Spec: out.Spec}
	return corevalidation.ValidatePodCreate(&out, podutil.GetValidationOptionsFromPodTemplate(&t, nil)), nil
}

// home fills in what the API server does before it validates: an object
// without a namespace goes to the one that the user works in, and a generated
// name is complete by then.
func home(m *metav1.ObjectMeta) {
	if m.Name == "" && m.GenerateName != "" {
		m.Name = m.GenerateName + "abcde"
	}
	if m.Namespace == "" {
		m.Namespace = metav1.NamespaceDefault
	}
}

// refuseTemplate judges a pod template of any other kind.
func refuseTemplate(js []byte) (field.ErrorList, error) {
	t, err := decode[corev1.PodTemplateSpec](js)
	if err != nil {
		return nil, err
	}
	in := corev1.PodTemplate{Template: *t}
	coreconv.SetObjectDefaults_PodTemplate(&in)
	var out core.PodTemplate
	if err := coreconv.Convert_v1_PodTemplate_To_core_PodTemplate(&in, &out, nil); err != nil {
		return nil, err
	}
	opts := podutil.GetValidationOptionsFromPodTemplate(&out.Template, nil)
	return corevalidation.ValidatePodTemplateSpec(&out.Template, nil, opts), nil
}

func refuseReplicationController(js []byte) (field.ErrorList, error) {
	in, err := decode[corev1.ReplicationController](js)
	if err != nil {
		return nil, err
	}
	coreconv.SetObjectDefaults_ReplicationController(in)
	var out core.ReplicationController
	if err := coreconv.Convert_v1_ReplicationController_To_core_ReplicationController(in, &out, nil); err != nil {
		return nil, err
	}
	home(&out.ObjectMeta)
	return corevalidation.ValidateReplicationController(&out, podutil.GetValidationOptionsFromPodTemplate(out.Spec.Template, nil)), nil
}

func refuseJob(js []byte) (field.ErrorList, error) {
	in, err := decode[batchv1.Job](js)
	if err != nil {
		return nil, err
	}
	batchconv.SetObjectDefaults_Job(in)
	var out batch.Job
	if err := batchconv.Convert_v1_Job_To_batch_Job(in, &out, nil); err != nil {
		return nil, err
	}
	home(&out.ObjectMeta)
	generateSelector(&out)
	opts := batchvalidation.JobValidationOptions{RequirePrefixedLabels: true,
		PodValidationOptions: podutil.GetValidationOptionsFromPodTemplate(&out.Spec.Template, nil)}
	return batchvalidation.ValidateJobCreate(&out, opts), nil
}

// generateSelector adds what the API server adds between decoding and
// validation, unless the user wrote a selector of his own.
func generateSelector(j *batch.Job) {
	if j.Spec.Selector != nil || (j.Spec.ManualSelector != nil && *j.Spec.ManualSelector) {
		return
	}
	const uid = "00000000-0000-0000-0000-000000000000"
	j.UID = uid
	labels := map[string]string{}
	for k, v := range j.Spec.Template.Labels {
		labels[k] = v
	}
	for k, v := range map[string]string{batch.LegacyControllerUidLabel: uid, batch.ControllerUidLabel: uid,
		batch.LegacyJobNameLabel: j.Name, batch.JobNameLabel: j.Name} {
		labels[k] = v
	}
	j.Spec.Template.Labels = labels
	j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batch.ControllerUidLabel: uid}}
}

// refuseJobTemplate judges the template of a job inside a JobSet, after the
// JobSet's defaults.
func refuseJobTemplate(js []byte) (field.ErrorList, error) {
	t, err := decode[batchv1.JobTemplateSpec](js)
	if err != nil {
		return nil, err
	}
	if t.Spec.CompletionMode == nil {
		mode := batchv1.IndexedCompletion
		t.Spec.CompletionMode = &mode
	}
	if t.Spec.Template.Spec.RestartPolicy == "" {
		t.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	in := batchv1.Job{Spec: t.Spec}
	batchconv.SetObjectDefaults_Job(&in)
	var out batch.Job
	if err := batchconv.Convert_v1_Job_To_batch_Job(&in, &out, nil); err != nil {
		return nil, err
	}
	opts := podutil.GetValidationOptionsFromPodTemplate(&out.Spec.Template, nil)
	return batchvalidation.ValidateJobTemplateSpec(&batch.JobTemplateSpec{Spec: out.Spec}, nil, nil, opts), nil
}

func refuseCronJob(js []byte) (field.ErrorList, error) {
	in, err := decode[batchv1.CronJob](js)
	if err != nil {
		return nil, err
	}
	batchconv.SetObjectDefaults_CronJob(in)
	var out batch.CronJob
	if err := batchconv.Convert_v1_CronJob_To_batch_CronJob(in, &out, nil); err != nil {
		return nil, err
	}
	home(&out.ObjectMeta)
	return batchvalidation.ValidateCronJobCreate(&out, podutil.GetValidationOptionsFromPodTemplate(&out.Spec.JobTemplate.Spec.Template, nil)), nil
}

func refuseDeployment(js []byte) (field.ErrorList, error) {
	in, err := decode[appsv1.Deployment](js)
	if err != nil {
		return nil, err
	}
	appsconv.SetObjectDefaults_Deployment(in)
	var out apps.Deployment
	if err := appsconv.Convert_v1_Deployment_To_apps_Deployment(in, &out, nil); err != nil {
		return nil, err
	}
	home(&out.ObjectMeta)
	return appsvalidation.ValidateDeployment(&out, podutil.GetValidationOptionsFromPodTemplate(&out.Spec.Template, nil)), nil
}

func refuseReplicaSet(js []byte) (field.ErrorList, error) {
	in, err := decode[appsv1.ReplicaSet](js)
	if err != nil {
		return nil, err
	}
	appsconv.SetObjectDefaults_ReplicaSet(in)
	var out apps.ReplicaSet
	if err := appsconv.Convert_v1_ReplicaSet_To_apps_ReplicaSet(in, &out, nil); err != nil {
		return nil, err
	}
	home(&out.ObjectMeta)
	return appsvalidation.ValidateReplicaSet(&out, podutil.GetValidationOptionsFromPodTemplate(&out.Spec.Template, nil)), nil
}

func refuseStatefulSet(js []byte) (field.ErrorList, error) {
	in, err := decode[appsv1.StatefulSet](js)
	if err != nil {
		return nil, err
	}
	appsconv.SetObjectDefaults_StatefulSet(in)
	var out apps.StatefulSet
	if err := appsconv.Convert_v1_StatefulSet_To_apps_StatefulSet(in, &out, nil); err != nil {
		return nil, err
	}
	home(&out.ObjectMeta)
	opts := podutil.GetValidationOptionsFromPodTemplate(&out.Spec.Template, nil)
	return appsvalidation.ValidateStatefulSet(&out, appsvalidation.StatefulSetValidationOptions{}, opts), nil
}

func refuseDaemonSet(js []byte) (field.ErrorList, error) {
	in, err := decode[appsv1.DaemonSet](js)
	if err != nil {
		return nil, err
	}
	appsconv.SetObjectDefaults_DaemonSet(in)
	var out apps.DaemonSet
	if err := appsconv.Convert_v1_DaemonSet_To_apps_DaemonSet(in, &out, nil); err != nil {
		return nil, err
	}
	home(&out.ObjectMeta)
	return appsvalidation.ValidateDaemonSet(&out, podutil.GetValidationOptionsFromPodTemplate(&out.Spec.Template, nil)), nil
}

// guard runs foreign validation on foreign values; a panic in it must not end
// the program, and is answered with an error.
func (r refuse) guard(js []byte) (list field.ErrorList, err error) {
	defer func() {
		if recover() != nil {
			list, err = nil, errForeign
		}
	}()
	return r(js)
}

// clean shortens a refusal to one line.
func clean(s string) string { return strings.Join(strings.Fields(s), " ") }
