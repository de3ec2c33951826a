package manifest

import (
	"reflect"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// gvk is an object's apiVersion and kind, taken apart.
type gvk struct{ group, version, kind string }

func gvkOf(n *Node) gvk {
	group, version, ok := strings.Cut(n.Get("apiVersion").text(), "/")
	if !ok {
		group, version = "", group
	}
	return gvk{group, version, n.Get("kind").text()}
}

func (g gvk) schema() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: g.group, Version: g.version, Kind: g.kind}
}

// typeOf is the Go type of a kind whose schema is compiled in, nil if it is
// none: those of Kubernetes itself, and JobSet.
func typeOf(g gvk) reflect.Type {
	if g.group == jobset.GroupVersion.Group && g.version == jobset.GroupVersion.Version && g.kind == "JobSet" {
		return reflect.TypeFor[jobset.JobSet]()
	}
	obj, err := scheme.Scheme.New(g.schema())
	if err != nil {
		return nil
	}
	return reflect.TypeOf(obj).Elem()
}

// gone are versions that client-go still knows and no supported API server
// serves.
var gone = map[string]bool{
	"extensions/v1beta1": true, "apps/v1beta1": true, "apps/v1beta2": true, "batch/v1beta1": true,
	"policy/v1beta1": true, "autoscaling/v2beta1": true, "autoscaling/v2beta2": true,
}

// right is advice where apiVersion and kind do not belong together: a kind of
// Kubernetes or of ours in a group that is Kubernetes' own, or in a version
// that is gone. It is empty where the pair is right, or nobody can tell.
func (g gvk) right() string {
	if !scheme.Scheme.IsGroupRegistered(g.group) {
		return ""
	}
	if !gone[g.group+"/"+g.version] && typeOf(g) != nil {
		return ""
	}
	for _, name := range sortedReaders {
		group, kind, _ := strings.Cut(name, "/")
		if strings.EqualFold(kind, g.kind) && (group == g.group || name != "batch.volcano.sh/Job") {
			return "write apiVersion: " + servedIn(group) + ", kind: " + kind
		}
	}
	if versions := scheme.Scheme.VersionsForGroupKind(schema.GroupKind{Group: g.group, Kind: g.kind}); len(versions) > 0 {
		if best := versions[0].String(); !gone[best] {
			return "write apiVersion: " + best
		}
	}
	return ""
}

// servedIn is the apiVersion to write for a kind with a reader.
func servedIn(group string) string {
	switch {
	case group == jobset.GroupVersion.Group:
		return jobset.GroupVersion.String()
	case group == "":
		return "v1"
	case group == "ray.io", group == "leaderworkerset.x-k8s.io", scheme.Scheme.IsGroupRegistered(group):
		return group + "/v1"
	}
	return group + "/v1alpha1"
}

// sortedReaders are the kinds with readers, Kubernetes' own groups first.
var sortedReaders = func() []string {
	out := make([]string, 0, len(readers))
	for name := range readers {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}()

// podless are kinds outside client-go's scheme that make no pods and often
// stand beside jobs in a file.
var podless = map[string]bool{
	"apiextensions.k8s.io/CustomResourceDefinition": true,
	"apiregistration.k8s.io/APIService":             true,
	"kustomize.config.k8s.io/Kustomization":         true,
}

var templateType = reflect.TypeFor[corev1.PodTemplateSpec]()

// homes say where a field belongs that is written on the wrong level.
var homes = []struct {
	wrong, right reflect.Type
	name         string
}{
	{reflect.TypeFor[corev1.Container](), reflect.TypeFor[corev1.PodSpec](), "the pod's spec, not to a container"},
	{reflect.TypeFor[corev1.PodSpec](), reflect.TypeFor[corev1.Container](), "a container, not to the pod's spec"},
	{reflect.TypeFor[corev1.PodSecurityContext](), reflect.TypeFor[corev1.SecurityContext](), "the securityContext of a container, not to the pod's"},
	{reflect.TypeFor[corev1.ResourceRequirements](), reflect.TypeFor[corev1.Container](), "the container, not to its resources"},
	{reflect.TypeFor[corev1.SecurityContext](), reflect.TypeFor[corev1.Capabilities](), "securityContext.capabilities"},
	{reflect.TypeFor[corev1.PodTemplateSpec](), reflect.TypeFor[corev1.PodSpec](), "the template's spec"},
	{reflect.TypeFor[corev1.Pod](), reflect.TypeFor[corev1.PodSpec](), "spec"},
}
