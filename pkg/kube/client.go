package kube

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// Clients are the two clients that reading a cluster takes.
type Clients struct {
	Typed kubernetes.Interface
	// Dynamic reads what the suite does not compile in: JobSets, HyperNodes.
	Dynamic dynamic.Interface
}

// JobSets is the resource of the JobSet API, used unstructured so that the
// suite works with every version of it.
var JobSets = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}

// JobSetKind is the kind of JobSets' objects.
var JobSetKind = schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}

// PodMeta is the little about a pod that completion chooses by.
type PodMeta struct{ Name, Phase, Scheduler, Node string }
