package submit

import (
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
)

// Names that submit writes.
const (
	role      = "worker" // of the JobSet's one replicated job
	container = "main"
	appLabel  = "app"
)

// build makes the object. It only fails if client-go cannot convert a type of
// its own.
func build(s spec, c config.Config) (*unstructured.Unstructured, error) {
	meta := metav1.ObjectMeta{Name: s.name, GenerateName: s.generate, Namespace: s.namespace,
		Labels: s.labels, Annotations: s.annotations}
	switch s.kind {
	case kindPod:
		t := template(s, c)
		meta.Labels = t.Labels
		if s.deadline != nil {
			t.Spec.ActiveDeadlineSeconds = seconds64(*s.deadline)
		}
		return convert(&v1.Pod{TypeMeta: typeMeta("v1", "Pod"), ObjectMeta: meta, Spec: t.Spec})
	case kindJob:
		spec := jobSpec(s, c)
		if s.ttl != nil {
			spec.TTLSecondsAfterFinished = seconds32(*s.ttl)
		}
		return convert(&batchv1.Job{TypeMeta: typeMeta("batch/v1", "Job"), ObjectMeta: meta, Spec: spec})
	}
	return jobSet(s, c, meta)
}

func typeMeta(api, kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: api, Kind: kind} }

// jobSpec runs all pods at the same time. Evictions, which preemption and the
// rollback of half a group are, do not count as failures of the program.
func jobSpec(s spec, c config.Config) batchv1.JobSpec {
	n := int32(max(1, s.workers))
	js := batchv1.JobSpec{
		Parallelism: &n, Completions: &n, BackoffLimit: &s.backoffLimit,
		Template: template(s, c),
	}
	if n > 1 || s.kind == kindJobSet {
		mode := batchv1.IndexedCompletion
		js.CompletionMode = &mode
	}
	if s.restart == string(v1.RestartPolicyNever) { // the API server takes it with no other
		js.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}},
		}}}
	}
	if s.deadline != nil {
		js.ActiveDeadlineSeconds = seconds64(*s.deadline)
	}
	return js
}

// jobSet is a gang: parallelism, completions and min-member are all N.
func jobSet(s spec, c config.Config, meta metav1.ObjectMeta) (*unstructured.Unstructured, error) {
	job, err := convert(&batchv1.Job{TypeMeta: typeMeta("batch/v1", "Job"), ObjectMeta: meta, Spec: jobSpec(s, c)})
	if err != nil {
		return nil, err
	}
	jobSpec := job.Object["spec"]
	spec := map[string]any{
		"replicatedJobs": []any{map[string]any{
			"name": role, "replicas": int64(1), "template": map[string]any{"spec": jobSpec},
		}},
	}
	if s.ttl != nil {
		spec["ttlSecondsAfterFinished"] = int64(*seconds32(*s.ttl))
	}
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": job.Object["metadata"], "spec": spec}}
	u.SetGroupVersionKind(kube.JobSetKind)
	return u, nil
}

func template(s spec, c config.Config) v1.PodTemplateSpec {
	labels := map[string]string{}
	for k, v := range s.labels {
		labels[k] = v
	}
	if s.name != "" {
		labels[appLabel] = s.name
	}
	if s.sizing.replica > 0 {
		labels[kube.ReplicaLabel] = strconv.Itoa(s.sizing.replica)
	}
	if s.kind == kindJobSet {
		labels[c.MinMemberLabel()] = strconv.Itoa(max(1, s.workers))
	}
	if len(labels) == 0 {
		labels = nil
	}
	ps := v1.PodSpec{
		SchedulerName:      s.scheduler,
		RuntimeClassName:   &s.runtimeClass,
		RestartPolicy:      v1.RestartPolicy(s.restart),
		Containers:         []v1.Container{mainContainer(s, c)},
		NodeSelector:       s.nodeSelector,
		Tolerations:        s.tolerations,
		ServiceAccountName: s.serviceAccount,
		PriorityClassName:  s.priorityClass,
		Affinity:           modelAffinity(s.gpuModel),
	}
	if s.pullSecret != "" {
		ps.ImagePullSecrets = []v1.LocalObjectReference{{Name: s.pullSecret}}
	}
	if s.rdma {
		ps.HostNetwork = true
		ps.DNSPolicy = v1.DNSClusterFirstWithHostNet // or the pod would not find its peers by name
	}
	addVolumes(&ps, s)
	return v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: ps}
}

func mainContainer(s spec, c config.Config) v1.Container {
	ct := v1.Container{Name: container, Image: s.image, Command: s.command, Env: s.env, EnvFrom: s.envFrom,
		WorkingDir: s.workingDir, ImagePullPolicy: v1.PullPolicy(s.pullPolicy)}
	limits, requests := v1.ResourceList{}, v1.ResourceList{}
	card := func(name string, n int64) {
		if n > 0 {
			limits[v1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	if s.sizing.vendor == "nvidia" {
		card(config.NvidiaGPU, s.sizing.gpus)
	} else {
		card(c.GPU(), s.sizing.gpus)
	}
	card(c.GPUCore(), s.sizing.core)
	card(c.GPUMemory(), s.sizing.memory)
	card(c.GPUSlice(), s.sizing.slice)
	if s.rdma {
		card(c.RDMA(), 1)
		ct.SecurityContext = &v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"IPC_LOCK"}}}
	}
	if s.cpu != nil {
		limits[v1.ResourceCPU], requests[v1.ResourceCPU] = *s.cpu, *s.cpu
	}
	if s.memory != nil {
		limits[v1.ResourceMemory], requests[v1.ResourceMemory] = *s.memory, *s.memory
	}
	ct.Resources = v1.ResourceRequirements{Limits: limits, Requests: requests}
	return ct
}

// addVolumes joins mounts of the same source into one volume.
func addVolumes(ps *v1.PodSpec, s spec) {
	ct := &ps.Containers[0]
	if s.shm != nil {
		ps.Volumes = append(ps.Volumes, v1.Volume{Name: "shm", VolumeSource: v1.VolumeSource{
			EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: s.shm}}})
		ct.VolumeMounts = append(ct.VolumeMounts, v1.VolumeMount{Name: "shm", MountPath: "/dev/shm"})
	}
	names := map[mount]string{}
	for _, m := range s.mounts {
		source := mount{source: m.source, config: m.config}
		name, ok := names[source]
		if !ok {
			name = fmt.Sprintf("data-%d", len(names))
			names[source] = name
			v := v1.Volume{Name: name}
			if m.config {
				v.ConfigMap = &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: m.source}}
			} else {
				v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: m.source}
			}
			ps.Volumes = append(ps.Volumes, v)
		}
		ct.VolumeMounts = append(ct.VolumeMounts, v1.VolumeMount{Name: name, MountPath: m.path, ReadOnly: m.readOnly})
	}
}

// modelLabels are the node labels in which clusters keep the card's model.
var modelLabels = []string{"aliyun.accelerator/nvidia_name", "aliyun.accelerator/ppu_name", "nvidia.com/gpu.product"}

// modelAffinity wants one of modelLabels to have this value.
func modelAffinity(model string) *v1.Affinity {
	if model == "" {
		return nil
	}
	var terms []v1.NodeSelectorTerm
	for _, key := range modelLabels {
		terms = append(terms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{model}}}})
	}
	return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
}

// convert turns a typed object into what is sent and printed, without the
// empty fields that Go's types cannot leave out.
func convert(o runtime.Object) (*unstructured.Unstructured, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(m, "status")
	prune(m)
	return &unstructured.Unstructured{Object: m}, nil
}

func prune(m map[string]any) {
	for k, v := range m {
		switch t := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			prune(t)
			if len(t) == 0 && (k == "resources" || k == "metadata" || k == "requests" || k == "limits") {
				delete(m, k)
			}
		case []any:
			for _, e := range t {
				if em, ok := e.(map[string]any); ok {
					prune(em)
				}
			}
		}
	}
}

func seconds64(d time.Duration) *int64 { n := int64(d / time.Second); return &n }
func seconds32(d time.Duration) *int32 { n := int32(d / time.Second); return &n }
