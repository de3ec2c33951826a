package kube

import (
	"sort"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/netplace"
)

// The kind of the snapshot's document; docs/snapshot.md describes it.
const (
	SnapshotAPIVersion = "ljctl.lj.aliyun.com/v1"
	SnapshotKind       = "Snapshot"
)

// Snapshot is what a cluster's lists said at one moment: all that answers
// about cards and pending pods rest on. It comes from Collect or from
// LoadSnapshot, and is the same from both: each list is sorted by namespace
// and name, and what could be secret is not in it.
//
// An empty list means that the cluster has none of the kind, unless Lacks
// says otherwise.
type Snapshot struct {
	Taken         time.Time // zero if the file does not tell
	ServerVersion string    // empty if unknown

	Nodes                  []*v1.Node
	Pods                   []*v1.Pod
	Namespaces             []*v1.Namespace
	Services               []*v1.Service
	PersistentVolumeClaims []*v1.PersistentVolumeClaim
	PersistentVolumes      []*v1.PersistentVolume
	ResourceQuotas         []*v1.ResourceQuota
	LimitRanges            []*v1.LimitRange
	Events                 []*v1.Event
	ReplicationControllers []*v1.ReplicationController
	StorageClasses         []*storagev1.StorageClass
	CSINodes               []*storagev1.CSINode
	CSIDrivers             []*storagev1.CSIDriver
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity
	PriorityClasses        []*schedulingv1.PriorityClass
	PodDisruptionBudgets   []*policyv1.PodDisruptionBudget
	RuntimeClasses         []*nodev1.RuntimeClass
	Jobs                   []*batchv1.Job
	CronJobs               []*batchv1.CronJob
	JobSets                []*unstructured.Unstructured
	HyperNodes             []*unstructured.Unstructured
	Deployments            []*appsv1.Deployment
	ReplicaSets            []*appsv1.ReplicaSet
	StatefulSets           []*appsv1.StatefulSet
	DaemonSets             []*appsv1.DaemonSet
	Leases                 []*coordinationv1.Lease // of Namespace only
	ConfigMaps             []*v1.ConfigMap         // lj-config only

	// Missing are the lists that could not be read, whole or in part, sorted
	// by resource: what depends on one is not known.
	Missing []Missing
	// Absent are the resources that the cluster does not serve, sorted: that
	// their lists are empty is a fact.
	Absent []string

	clean bool // strip has been over every object
}

// Missing is a list that could not be read.
type Missing struct {
	// Resource is as kubectl spells it: "pods", "jobsets.jobset.x-k8s.io".
	Resource string `json:"resource"`
	// Why is one clause, with the missing permission where that is the cause.
	Why string `json:"why"`
	// Partial: only this namespace could be read.
	Partial string `json:"onlyNamespace,omitempty"`
}

// Lacks returns the entry of Missing for a resource, nil if its list is whole.
func (s *Snapshot) Lacks(resource string) *Missing {
	for i := range s.Missing {
		if s.Missing[i].Resource == resource {
			return &s.Missing[i]
		}
	}
	return nil
}

// Config is the cluster's settings as the snapshot has them, with the same
// promise as ReadConfig.
func (s *Snapshot) Config() (config.Config, Origin) {
	for _, cm := range s.ConfigMaps {
		if cm.Namespace == Namespace && cm.Name == ConfigMap {
			return configOf(cm.Data, FromSnapshot)
		}
	}
	name := Namespace + "/" + ConfigMap
	if m := s.Lacks("configmaps"); m != nil {
		return config.Default(), Origin{Kind: FromDefault, Why: "configmap " + name + ": " + m.Why}
	}
	return config.Default(), Origin{Kind: FromDefault, Why: "no configmap " + name, Absent: true}
}

// Network is what the snapshot's HyperNodes say about the network.
func (s *Snapshot) Network() *netplace.Tree { return NetworkOf(s.HyperNodes) }

// Cluster is the snapshot as far as cards are concerned: every node, sorted
// by name, with what the pods on it hold, sorted by pod.
func (s *Snapshot) Cluster(c config.Config) []*cluster.Node {
	network := s.Network()
	nodes := make([]*cluster.Node, 0, len(s.Nodes))
	byName := make(map[string]*cluster.Node, len(s.Nodes))
	for _, n := range s.Nodes {
		cn := NodeIn(n, c, network)
		nodes = append(nodes, cn)
		byName[cn.Name] = cn
	}
	for _, p := range s.Pods {
		if p.Spec.NodeName == "" {
			continue
		}
		n := byName[p.Spec.NodeName]
		if n == nil {
			continue
		}
		if h := HoldOf(p, c); h != nil {
			n.Holds = append(n.Holds, *h)
		}
	}
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].Name < nodes[j].Name })
	for _, n := range nodes {
		sort.Slice(n.Holds, func(i, j int) bool {
			if n.Holds[i].Pod != n.Holds[j].Pod {
				return n.Holds[i].Pod < n.Holds[j].Pod
			}
			return n.Holds[i].UID < n.Holds[j].UID
		})
	}
	return nodes
}

// sortMissing orders what is not in a list.
func (s *Snapshot) sortMissing() {
	sort.Slice(s.Missing, func(i, j int) bool { return s.Missing[i].Resource < s.Missing[j].Resource })
	sort.Strings(s.Absent)
}
