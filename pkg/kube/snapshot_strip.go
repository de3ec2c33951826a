package kube

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// strip takes out of an object what no answer needs and what could be secret
// or private: environment, commands, probes, volumes that are no storage,
// annotations of other software, managed fields, messages of applications.
// What decides about scheduling stays. It works in place and twice is as once.
func strip(o object) {
	o.SetManagedFields(nil)
	o.SetAnnotations(keptAnnotations(o.GetAnnotations()))
	switch t := o.(type) {
	case *v1.Pod:
		stripPodSpec(&t.Spec)
		stripPodStatus(&t.Status)
	case *v1.Node:
		t.Status.Images = nil
	case *v1.Event:
		stripEvent(t)
	case *v1.ConfigMap:
		t.BinaryData = nil
		if text, ok := t.Data[ConfigKey]; ok {
			t.Data = map[string]string{ConfigKey: text}
		} else {
			t.Data = nil
		}
	case *v1.PersistentVolume:
		stripVolume(t)
	case *storagev1.StorageClass:
		t.Parameters = nil
	case *v1.ReplicationController:
		if t.Spec.Template != nil {
			stripTemplate(t.Spec.Template)
		}
	case *unstructured.Unstructured:
		scrub(t.Object)
	default:
		stripOwner(o)
	}
}

// stripOwner is for the kinds that make pods.
func stripOwner(o object) {
	switch t := o.(type) {
	case *batchv1.Job:
		stripTemplate(&t.Spec.Template)
	case *batchv1.CronJob:
		stripTemplate(&t.Spec.JobTemplate.Spec.Template)
		t.Spec.JobTemplate.ManagedFields = nil
		t.Spec.JobTemplate.Annotations = keptAnnotations(t.Spec.JobTemplate.Annotations)
	case *appsv1.Deployment:
		stripTemplate(&t.Spec.Template)
	case *appsv1.ReplicaSet:
		stripTemplate(&t.Spec.Template)
	case *appsv1.StatefulSet:
		stripTemplate(&t.Spec.Template)
		for i := range t.Spec.VolumeClaimTemplates {
			c := &t.Spec.VolumeClaimTemplates[i]
			c.ManagedFields, c.Annotations = nil, keptAnnotations(c.Annotations)
		}
	case *appsv1.DaemonSet:
		stripTemplate(&t.Spec.Template)
	}
}

func stripTemplate(t *v1.PodTemplateSpec) {
	t.ManagedFields = nil
	t.Annotations = keptAnnotations(t.Annotations)
	stripPodSpec(&t.Spec)
}

func stripPodSpec(s *v1.PodSpec) {
	for i := range s.InitContainers {
		stripContainer(&s.InitContainers[i])
	}
	for i := range s.Containers {
		stripContainer(&s.Containers[i])
	}
	s.EphemeralContainers = nil // they never take a card
	s.ImagePullSecrets = nil
	s.HostAliases = nil
	s.DNSConfig = nil
	kept := s.Volumes[:0]
	for _, v := range s.Volumes {
		if v, ok := storageVolume(v); ok {
			kept = append(kept, v)
		}
	}
	clear(s.Volumes[len(kept):])
	if s.Volumes = kept; len(kept) == 0 {
		s.Volumes = nil
	}
}

func stripContainer(c *v1.Container) {
	c.Env, c.EnvFrom, c.Args, c.Command, c.WorkingDir = nil, nil, nil, nil, ""
	c.Lifecycle, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil, nil
	c.VolumeMounts, c.VolumeDevices = nil, nil
}

// storageVolume keeps the volumes that decide where a pod can run, without
// their credentials.
func storageVolume(v v1.Volume) (v1.Volume, bool) {
	switch {
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil, v.GCEPersistentDisk != nil, v.AWSElasticBlockStore != nil:
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			v.Ephemeral.VolumeClaimTemplate.Annotations = keptAnnotations(v.Ephemeral.VolumeClaimTemplate.Annotations)
		}
		return v, true
	case v.CSI != nil:
		v.CSI = &v1.CSIVolumeSource{Driver: v.CSI.Driver, ReadOnly: v.CSI.ReadOnly}
		return v, true
	case v.ISCSI != nil:
		v.ISCSI.SecretRef, v.ISCSI.InitiatorName = nil, nil
		return v, true
	case v.RBD != nil:
		v.RBD.SecretRef, v.RBD.RadosUser, v.RBD.Keyring = nil, "", ""
		return v, true
	}
	return v, false
}

// stripPodStatus drops what programs wrote when they ended; what kubelet says
// about a container that cannot start stays, it is half of many answers.
func stripPodStatus(s *v1.PodStatus) {
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			for _, st := range []*v1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if st.Terminated != nil {
					st.Terminated.Message = ""
				}
			}
			list[i].VolumeMounts = nil
		}
	}
	s.EphemeralContainerStatuses = nil
}

// quoting are the events whose messages quote commands or the output of a
// program.
var quoting = map[string]bool{"Unhealthy": true, "ProbeWarning": true, "FailedPostStartHook": true, "FailedPreStopHook": true}

func stripEvent(e *v1.Event) {
	if quoting[e.Reason] {
		e.Message = ""
	}
}

// stripVolume keeps of a volume's source only the driver's name and handle.
func stripVolume(pv *v1.PersistentVolume) {
	if c := pv.Spec.CSI; c != nil {
		pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: c.Driver, VolumeHandle: c.VolumeHandle, ReadOnly: c.ReadOnly, FSType: c.FSType}
	}
	if pv.Spec.FlexVolume != nil {
		pv.Spec.FlexVolume = &v1.FlexPersistentVolumeSource{Driver: pv.Spec.FlexVolume.Driver}
	}
	if r := pv.Spec.RBD; r != nil {
		r.SecretRef, r.RadosUser, r.Keyring = nil, "", ""
	}
	if i := pv.Spec.ISCSI; i != nil {
		i.SecretRef, i.InitiatorName = nil, nil
	}
	if c := pv.Spec.CephFS; c != nil {
		c.SecretRef, c.User, c.SecretFile = nil, "", ""
	}
	if a := pv.Spec.AzureFile; a != nil {
		a.SecretName, a.SecretNamespace = "", nil
	}
	pv.Spec.MountOptions = nil
}

// scrubbed are the fields of pod specs that scrub drops wherever they stand.
var scrubbed = []string{
	"managedFields", "env", "envFrom", "args", "command", "workingDir", "lifecycle", "livenessProbe", "readinessProbe",
	"startupProbe", "volumeMounts", "volumeDevices", "volumes", "imagePullSecrets", "hostAliases", "dnsConfig", "ephemeralContainers",
}

// free are the maps whose keys are the user's own words, such as env.
var free = map[string]bool{"labels": true, "matchLabels": true, "nodeSelector": true, "annotations": true,
	"limits": true, "requests": true}

// scrub is strip for objects without a type.
func scrub(m map[string]any) {
	for _, k := range scrubbed {
		delete(m, k)
	}
	if a, ok := m["annotations"].(map[string]any); ok {
		for k := range a {
			if !keepAnnotation(k) {
				delete(a, k)
			}
		}
	}
	for k, v := range m {
		if free[k] {
			continue
		}
		switch t := v.(type) {
		case map[string]any:
			scrub(t)
		case []any:
			for _, e := range t {
				if em, ok := e.(map[string]any); ok {
					scrub(em)
				}
			}
		}
	}
}

func keptAnnotations(in map[string]string) map[string]string {
	all := true
	for k := range in {
		all = all && keepAnnotation(k)
	}
	if all {
		return in
	}
	var out map[string]string
	for k, v := range in {
		if keepAnnotation(k) {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}

// keptDomains are those whose annotations can bear on scheduling.
var keptDomains = []string{"lj.aliyun.com", "kubernetes.io", "k8s.io", "aliyun.com", "alibabacloud.com", "nvidia.com", "volcano.sh"}

// keepAnnotation knows annotations by their domain. The manifests that
// kubectl apply leaves behind have everything in them and go.
func keepAnnotation(key string) bool {
	if key == EnableLabel {
		return true // a label that was written as an annotation is a finding
	}
	prefix, name, ok := strings.Cut(key, "/")
	if !ok || strings.Contains(name, "last-applied") {
		return false
	}
	for _, d := range keptDomains {
		if prefix == d || strings.HasSuffix(prefix, "."+d) {
			return true
		}
	}
	return false
}
