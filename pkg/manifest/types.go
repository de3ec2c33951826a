package manifest

import (
	"reflect"
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
