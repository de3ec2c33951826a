package kube

import (
	"context"
	"sort"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is what every list is made of.
type object interface {
	metav1.Object
	runtime.Object
}

type opts = metav1.ListOptions

// listing is one list of a snapshot: how to ask for it, and where it goes.
type listing struct {
	resource string // as kubectl spells it
	gvk      schema.GroupVersionKind
	scope    scope
	// fetch asks for one page; ns is empty for the whole cluster.
	fetch func(ctx context.Context, c Clients, ns string, o opts) (runtime.Object, error)
	fresh func() object
	add   func(*Snapshot, object) bool
	each  func(*Snapshot, func(object))
	// tidy sorts, and keeps the last of several objects of the same name.
	tidy func(*Snapshot)
}

// scope is where a list's objects live.
type scope int

const (
	clusterWide scope = iota // objects without a namespace
	namespaced
	ours // only the suite's own namespace is asked
)

// list makes a listing from the field of the snapshot that it fills.
func list[T interface {
	*E
	object
}, E any](resource string, gvk schema.GroupVersionKind, sc scope, field func(*Snapshot) *[]T,
	fetch func(ctx context.Context, c Clients, ns string, o opts) (runtime.Object, error)) listing {
	return listing{
		resource: resource, gvk: gvk, scope: sc, fetch: fetch,
		fresh: func() object { return T(new(E)) },
		add: func(s *Snapshot, o object) bool {
			t, ok := o.(T)
			if ok {
				f := field(s)
				*f = append(*f, t)
			}
			return ok
		},
		each: func(s *Snapshot, visit func(object)) {
			for _, o := range *field(s) {
				visit(o)
			}
		},
		tidy: func(s *Snapshot) { f := field(s); *f = tidy(*f) },
	}
}

func tidy[T object](in []T) []T {
	sort.SliceStable(in, func(i, j int) bool {
		if a, b := in[i].GetNamespace(), in[j].GetNamespace(); a != b {
			return a < b
		}
		return in[i].GetName() < in[j].GetName()
	})
	out := in[:0]
	for i, o := range in {
		if i+1 < len(in) && in[i+1].GetName() == o.GetName() && in[i+1].GetNamespace() == o.GetNamespace() {
			continue
		}
		out = append(out, o)
	}
	clear(in[len(out):])
	return out
}

var (
	core    = schema.GroupVersion{Version: "v1"}
	batch   = batchv1.SchemeGroupVersion
	apps    = appsv1.SchemeGroupVersion
	storage = storagev1.SchemeGroupVersion
)

type ro = runtime.Object

// listings are the lists of a snapshot, in the order in which it is written.
var listings = []listing{
	list("nodes", core.WithKind("Node"), clusterWide, func(s *Snapshot) *[]*v1.Node { return &s.Nodes },
		func(ctx context.Context, c Clients, _ string, o opts) (ro, error) {
			return c.Typed.CoreV1().Nodes().List(ctx, o)
		}),
	list("pods", core.WithKind("Pod"), namespaced, func(s *Snapshot) *[]*v1.Pod { return &s.Pods },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.CoreV1().Pods(ns).List(ctx, o)
		}),
	list("namespaces", core.WithKind("Namespace"), clusterWide, func(s *Snapshot) *[]*v1.Namespace { return &s.Namespaces },
		func(ctx context.Context, c Clients, _ string, o opts) (ro, error) {
			return c.Typed.CoreV1().Namespaces().List(ctx, o)
		}),
	list("services", core.WithKind("Service"), namespaced, func(s *Snapshot) *[]*v1.Service { return &s.Services },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.CoreV1().Services(ns).List(ctx, o)
		}),
	list("persistentvolumeclaims", core.WithKind("PersistentVolumeClaim"), namespaced, func(s *Snapshot) *[]*v1.PersistentVolumeClaim { return &s.PersistentVolumeClaims },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.CoreV1().PersistentVolumeClaims(ns).List(ctx, o)
		}),
	list("persistentvolumes", core.WithKind("PersistentVolume"), clusterWide, func(s *Snapshot) *[]*v1.PersistentVolume { return &s.PersistentVolumes },
		func(ctx context.Context, c Clients, _ string, o opts) (ro, error) {
			return c.Typed.CoreV1().PersistentVolumes().List(ctx, o)
		}),
	list("resourcequotas", core.WithKind("ResourceQuota"), namespaced, func(s *Snapshot) *[]*v1.ResourceQuota { return &s.ResourceQuotas },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.CoreV1().ResourceQuotas(ns).List(ctx, o)
		}),
	list("limitranges", core.WithKind("LimitRange"), namespaced, func(s *Snapshot) *[]*v1.LimitRange { return &s.LimitRanges },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.CoreV1().LimitRanges(ns).List(ctx, o)
		}),
	list("events", core.WithKind("Event"), namespaced, func(s *Snapshot) *[]*v1.Event { return &s.Events },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.CoreV1().Events(ns).List(ctx, o)
		}),
	list("replicationcontrollers", core.WithKind("ReplicationController"), namespaced, func(s *Snapshot) *[]*v1.ReplicationController { return &s.ReplicationControllers },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.CoreV1().ReplicationControllers(ns).List(ctx, o)
		}),
	list("storageclasses.storage.k8s.io", storage.WithKind("StorageClass"), clusterWide, func(s *Snapshot) *[]*storagev1.StorageClass { return &s.StorageClasses },
		func(ctx context.Context, c Clients, _ string, o opts) (ro, error) {
			return c.Typed.StorageV1().StorageClasses().List(ctx, o)
		}),
	list("csinodes.storage.k8s.io", storage.WithKind("CSINode"), clusterWide, func(s *Snapshot) *[]*storagev1.CSINode { return &s.CSINodes },
		func(ctx context.Context, c Clients, _ string, o opts) (ro, error) {
			return c.Typed.StorageV1().CSINodes().List(ctx, o)
		}),
	list("csidrivers.storage.k8s.io", storage.WithKind("CSIDriver"), clusterWide, func(s *Snapshot) *[]*storagev1.CSIDriver { return &s.CSIDrivers },
		func(ctx context.Context, c Clients, _ string, o opts) (ro, error) {
			return c.Typed.StorageV1().CSIDrivers().List(ctx, o)
		}),
	list("csistoragecapacities.storage.k8s.io", storage.WithKind("CSIStorageCapacity"), namespaced, func(s *Snapshot) *[]*storagev1.CSIStorageCapacity { return &s.CSIStorageCapacities },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.StorageV1().CSIStorageCapacities(ns).List(ctx, o)
		}),
	list("priorityclasses.scheduling.k8s.io", schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), clusterWide, func(s *Snapshot) *[]*schedulingv1.PriorityClass { return &s.PriorityClasses },
		func(ctx context.Context, c Clients, _ string, o opts) (ro, error) {
			return c.Typed.SchedulingV1().PriorityClasses().List(ctx, o)
		}),
	list("poddisruptionbudgets.policy", policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), namespaced, func(s *Snapshot) *[]*policyv1.PodDisruptionBudget { return &s.PodDisruptionBudgets },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.PolicyV1().PodDisruptionBudgets(ns).List(ctx, o)
		}),
	list("runtimeclasses.node.k8s.io", nodev1.SchemeGroupVersion.WithKind("RuntimeClass"), clusterWide, func(s *Snapshot) *[]*nodev1.RuntimeClass { return &s.RuntimeClasses },
		func(ctx context.Context, c Clients, _ string, o opts) (ro, error) {
			return c.Typed.NodeV1().RuntimeClasses().List(ctx, o)
		}),
	list("jobs.batch", batch.WithKind("Job"), namespaced, func(s *Snapshot) *[]*batchv1.Job { return &s.Jobs },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.BatchV1().Jobs(ns).List(ctx, o)
		}),
	list("cronjobs.batch", batch.WithKind("CronJob"), namespaced, func(s *Snapshot) *[]*batchv1.CronJob { return &s.CronJobs },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.BatchV1().CronJobs(ns).List(ctx, o)
		}),
	list("jobsets.jobset.x-k8s.io", JobSetKind, namespaced, func(s *Snapshot) *[]*unstructured.Unstructured { return &s.JobSets },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Dynamic.Resource(JobSets).Namespace(ns).List(ctx, o)
		}),
	list("hypernodes.topology.volcano.sh", HyperNodeKind, clusterWide, func(s *Snapshot) *[]*unstructured.Unstructured { return &s.HyperNodes },
		func(ctx context.Context, c Clients, _ string, o opts) (ro, error) {
			return c.Dynamic.Resource(HyperNodes).List(ctx, o)
		}),
	list("deployments.apps", apps.WithKind("Deployment"), namespaced, func(s *Snapshot) *[]*appsv1.Deployment { return &s.Deployments },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.AppsV1().Deployments(ns).List(ctx, o)
		}),
	list("replicasets.apps", apps.WithKind("ReplicaSet"), namespaced, func(s *Snapshot) *[]*appsv1.ReplicaSet { return &s.ReplicaSets },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.AppsV1().ReplicaSets(ns).List(ctx, o)
		}),
	list("statefulsets.apps", apps.WithKind("StatefulSet"), namespaced, func(s *Snapshot) *[]*appsv1.StatefulSet { return &s.StatefulSets },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.AppsV1().StatefulSets(ns).List(ctx, o)
		}),
	list("daemonsets.apps", apps.WithKind("DaemonSet"), namespaced, func(s *Snapshot) *[]*appsv1.DaemonSet { return &s.DaemonSets },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.AppsV1().DaemonSets(ns).List(ctx, o)
		}),
	list("leases.coordination.k8s.io", coordinationv1.SchemeGroupVersion.WithKind("Lease"), ours, func(s *Snapshot) *[]*coordinationv1.Lease { return &s.Leases },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			return c.Typed.CoordinationV1().Leases(ns).List(ctx, o)
		}),
	list("configmaps", core.WithKind("ConfigMap"), ours, func(s *Snapshot) *[]*v1.ConfigMap { return &s.ConfigMaps },
		func(ctx context.Context, c Clients, ns string, o opts) (ro, error) {
			o.FieldSelector = "metadata.name=" + ConfigMap
			return c.Typed.CoreV1().ConfigMaps(ns).List(ctx, o)
		}),
}

// Resources lists the lists of a snapshot as kubectl spells them.
func Resources() []string {
	out := make([]string, len(listings))
	for i, l := range listings {
		out[i] = l.resource
	}
	return out
}

// listingOf finds the list that objects of a kind go to, whatever their
// version, nil if a snapshot has none.
func listingOf(apiVersion, kind string) *listing {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil
	}
	for i := range listings {
		if l := &listings[i]; l.gvk.Kind == kind && l.gvk.Group == gv.Group {
			return l
		}
	}
	return nil
}
