package jobs

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
)

// Status is the one word about a job.
type Status string

// The statuses. A job whose pods differ has the one that is furthest from
// running: one pending pod of a group is what its owner has to know.
const (
	Pending     Status = "Pending"     // a pod waits for a node, or for being made
	Starting    Status = "Starting"    // all pods have nodes, not all run
	Running     Status = "Running"     // all pods run
	Complete    Status = "Complete"    // ended well
	Failed      Status = "Failed"      // ended badly
	Suspended   Status = "Suspended"   // held by its owner or a queue
	Terminating Status = "Terminating" // being deleted
)

// Statuses lists every Status.
func Statuses() []Status {
	return []Status{Pending, Starting, Running, Complete, Failed, Suspended, Terminating}
}

// Ended tells whether nothing more will happen.
func (s Status) Ended() bool { return s == Complete || s == Failed }

// Row is one job.
type Row struct {
	Namespace  string `json:"namespace"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Status     Status `json:"status"`
	// PodsRunning of PodsWanted pods run; PodsSucceeded have ended well.
	PodsRunning   int `json:"podsRunning"`
	PodsWanted    int `json:"podsWanted"`
	PodsSucceeded int `json:"podsSucceeded,omitempty"`
	// CardsGranted is how many different cards its pods hold, CardsAsked how
	// many the pods that have not ended ask for. CardsUnknown pods hold cards
	// that nobody knows.
	CardsGranted int `json:"cardsGranted"`
	CardsAsked   int `json:"cardsAsked"`
	CardsUnknown int `json:"cardsUnknown,omitempty"`
	// Nodes are those that its pods are on, sorted.
	Nodes []string `json:"nodes,omitempty"`
	// Request is what each pod asks, in words: "2 cards", "core 50%, 4 GiB".
	Request string `json:"request,omitempty"`
	// Reason is why it does not run, Message the same in full.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Created is RFC 3339; Age is made of it for people.
	Created metav1.Time `json:"created"`

	labels []labels.Set // of the object, its template and its pods
	pods   []*v1.Pod
}

// Pods are the job's pods, oldest first, also those that have ended.
func (r *Row) Pods() []*v1.Pod { return r.pods }

// Ref is the row's name as kubectl spells it.
func (r *Row) Ref() string { return Resource(r.APIVersion, r.Kind) + "/" + r.Name }

// Resource is a kind as kubectl's -o name spells it: "pod", "job.batch".
func Resource(apiVersion, kind string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	k := strings.ToLower(kind)
	if err != nil || gv.Group == "" {
		return k
	}
	return k + "." + gv.Group
}

// Matches tells whether a user who writes this means the row: NAME, or
// TYPE/NAME with the kind in any of kubectl's spellings.
func (r *Row) Matches(arg string) bool {
	typ, name, ok := strings.Cut(arg, "/")
	if !ok {
		return arg == r.Name
	}
	return name == r.Name && IsKind(typ, r.APIVersion, r.Kind)
}

// IsKind tells whether a word names a kind: "job", "jobs", "jobs.batch", "Job".
func IsKind(word, apiVersion, kind string) bool {
	k := strings.ToLower(kind)
	full := Resource(apiVersion, kind)
	group := strings.TrimPrefix(full, k)
	names := []string{k, k + "s", full, k + "s" + group}
	if short, ok := shortNames[k]; ok {
		names = append(names, short)
	}
	return slices.Contains(names, strings.ToLower(word))
}

var shortNames = map[string]string{"pod": "po", "deployment": "deploy", "statefulset": "sts", "daemonset": "ds", "replicaset": "rs", "cronjob": "cj"}

// Lists are the lists of a snapshot that Reduce reads.
func Lists() []string {
	return []string{"pods", "jobs.batch", "jobsets.jobset.x-k8s.io", "replicasets.apps", "deployments.apps", "statefulsets.apps", "daemonsets.apps"}
}

// Reduce makes the rows of all jobs that ask for cards, sorted by namespace,
// kind and name.
func Reduce(s *kube.Snapshot, c config.Config) []Row {
	b := newBuilder(s, c)
	for _, p := range s.Pods {
		b.pod(p)
	}
	for _, j := range s.Jobs {
		b.job(j)
	}
	for _, js := range s.JobSets {
		b.jobSet(js)
	}
	b.orphans()
	rows := make([]Row, 0, len(b.groups))
	for _, g := range b.groups {
		rows = append(rows, g.row(c))
	}
	slices.SortFunc(rows, func(x, y Row) int {
		if d := strings.Compare(x.Namespace, y.Namespace); d != 0 {
			return d
		}
		if d := strings.Compare(x.Name, y.Name); d != 0 {
			return d
		}
		return strings.Compare(x.Kind, y.Kind)
	})
	return rows
}
