package jobs

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/spelling"
	"lj.aliyun.com/kit/pkg/kube"
)

// Kind is a kind of job that the tools can act on.
type Kind struct {
	gvk      schema.GroupVersionKind
	resource string
	// label is the pods' label with the job's name, empty if there is none.
	label string
}

var kinds = []Kind{
	{schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "pods", ""},
	{schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, "jobs", "batch.kubernetes.io/job-name"},
	{kube.JobSetKind, "jobsets", jobSetLabel},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "deployments", ""},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}, "statefulsets", ""},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}, "daemonsets", ""},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, "replicasets", ""},
}

// KindOf finds the kind of a row.
func KindOf(apiVersion, kind string) (Kind, bool) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	for _, k := range kinds {
		if err == nil && k.gvk.Kind == kind && k.gvk.Group == gv.Group {
			return k, true
		}
	}
	return Kind{}, false
}

// KindByWord finds the kind that a user's word names: "job", "jobset", "po".
func KindByWord(word string) (Kind, bool) {
	for _, k := range kinds {
		if IsKind(word, k.gvk.GroupVersion().String(), k.gvk.Kind) {
			return k, true
		}
	}
	return Kind{}, false
}

// KindNames lists the words for people.
func KindNames() []string {
	var out []string
	for _, k := range kinds {
		out = append(out, strings.ToLower(k.gvk.Kind))
	}
	return out
}

// GVR is the resource of the kind's objects.
func (k Kind) GVR() schema.GroupVersionResource { return k.gvk.GroupVersion().WithResource(k.resource) }

// Resource is the kind as kubectl's -o name spells it.
func (k Kind) Resource() string { return Resource(k.gvk.GroupVersion().String(), k.gvk.Kind) }

// list is the name of the snapshot's list of the kind.
func (k Kind) list() string {
	if k.gvk.Group == "" {
		return k.resource
	}
	return k.resource + "." + k.gvk.Group
}

// PodSelector selects the pods of the job of this name, empty where only
// owners can tell.
func (k Kind) PodSelector(name string) string {
	if k.label == "" {
		return ""
	}
	return k.label + "=" + name
}

// NotFound says that no job has the name, with the nearest that there is.
func NotFound(name, ns string, rows []Row) error {
	err := fmt.Errorf("no job %q that asks for cards in namespace %s", name, ns)
	var known []string
	for i := range rows {
		known = append(known, rows[i].Name)
	}
	bare := name
	if _, after, ok := strings.Cut(name, "/"); ok {
		bare = after
	}
	if near := spelling.Closest(bare, known); near != "" {
		return cliutil.WithHint(err, "did you mean %s?", near)
	}
	return cliutil.WithHint(err, "ljctl jobs lists them, ljctl jobs -A those of all namespaces")
}
