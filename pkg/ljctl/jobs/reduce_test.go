package jobs

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
)

var t0 = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

func cards(n int64) v1.PodSpec {
	return v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
		Limits: v1.ResourceList{config.NvidiaGPU: *resource.NewQuantity(n, resource.DecimalSI)}}}}}
}

// worker is pod i of the job "j".
func worker(i int, change ...func(*v1.Pod)) *v1.Pod {
	yes := true
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("j-%d", i), UID: types.UID(fmt.Sprintf("p%d", i)),
		CreationTimestamp: metav1.NewTime(t0.Add(time.Duration(i) * time.Second)),
		OwnerReferences:   []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "u", Controller: &yes}}}, Spec: cards(2)}
	for _, c := range change {
		c(p)
	}
	return p
}

func on(node string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.NodeName = node
		p.Annotations = map[string]string{kube.AllocationAnnotation: fmt.Sprintf(
			`{"v":1,"uid":%q,"node":%q,"containers":{"main":[{"card":"%s-0","whole":true},{"card":"%s-1","whole":true}]}}`, p.UID, node, p.Name, p.Name)}
	}
}

func phase(ph v1.PodPhase) func(*v1.Pod) { return func(p *v1.Pod) { p.Status.Phase = ph } }

func unplaced(msg string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: msg}}
	}
}

func exited(code int32, why string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: why}}}}
	}
}

func waiting(why string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: why, Message: "back-off"}}}}
	}
}

func job(n int32, change ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "u", CreationTimestamp: t0},
		Spec: batchv1.JobSpec{Parallelism: &n, Completions: &n, Template: v1.PodTemplateSpec{Spec: cards(2)}}}
	for _, c := range change {
		c(j)
	}
	return j
}

func condition(typ batchv1.JobConditionType) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: typ, Status: v1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "too many"}}
	}
}

func TestTheStatusOfAJob(t *testing.T) {
	type want struct {
		Status          Status
		Running, Wanted int
		Granted, Asked  int
		Reason, Message string
	}
	for name, c := range map[string]struct {
		job  *batchv1.Job
		pods []*v1.Pod
		want want
	}{
		"all run": {job(2), []*v1.Pod{worker(0, on("a"), phase(v1.PodRunning)), worker(1, on("b"), phase(v1.PodRunning))},
			want{Running, 2, 2, 4, 4, "", ""}},
		"one pending pod makes it pending": {job(2), []*v1.Pod{worker(0, on("a"), phase(v1.PodRunning)), worker(1, unplaced("0/3 nodes"))},
			want{Pending, 1, 2, 2, 4, "Unschedulable", "0/3 nodes"}},
		"bound but not running": {job(1), []*v1.Pod{worker(0, on("a"), phase(v1.PodPending), waiting("ImagePullBackOff"))},
			want{Starting, 0, 1, 2, 2, "ImagePullBackOff", "ImagePullBackOff: back-off"}},
		"running and crashing": {job(1), []*v1.Pod{worker(0, on("a"), phase(v1.PodRunning), waiting("CrashLoopBackOff"))},
			want{Running, 1, 1, 2, 2, "CrashLoopBackOff", "CrashLoopBackOff: back-off"}},
		"what ended well is not made again": {job(2), []*v1.Pod{worker(0, on("a"), phase(v1.PodSucceeded)), worker(1, on("b"), phase(v1.PodRunning))},
			want{Running, 1, 2, 2, 2, "", ""}},
		"all ended, its owner has not said so yet": {job(1), []*v1.Pod{worker(0, on("a"), phase(v1.PodSucceeded))},
			want{Running, 0, 1, 0, 0, "finishing", "all pods have ended well"}},
		"what failed is made again": {job(2), []*v1.Pod{worker(0, on("a"), phase(v1.PodFailed), exited(1, "Error")), worker(1, on("b"), phase(v1.PodRunning))},
			want{Pending, 1, 2, 2, 4, "pods-not-made", "1 of 2 pods have been made; the last one: pod j-0: container main ended with exit code 1 (Error)"}},
		"no pods yet": {job(3), nil, want{Pending, 0, 3, 0, 6, "pods-not-made", "0 of 3 pods have been made"}},
		"complete holds nothing": {job(1, condition(batchv1.JobComplete)), []*v1.Pod{worker(0, on("a"), phase(v1.PodSucceeded))},
			want{Complete, 0, 1, 0, 0, "", ""}},
		"failed by a crash": {job(1, condition(batchv1.JobFailed)), []*v1.Pod{worker(0, on("a"), phase(v1.PodFailed), exited(137, "OOMKilled"))},
			want{Failed, 0, 1, 0, 0, "OOMKilled", "too many; pod j-0: container main ended with exit code 137 (OOMKilled)"}},
		"failed without a pod left": {job(1, condition(batchv1.JobFailed)), nil, want{Failed, 0, 1, 0, 0, "BackoffLimitExceeded", "too many"}},
		"suspended":                 {job(1, func(j *batchv1.Job) { yes := true; j.Spec.Suspend = &yes }), nil, want{Suspended, 0, 1, 0, 2, "suspended", ""}},
		"being deleted": {job(1, func(j *batchv1.Job) { j.DeletionTimestamp = &t0 }), []*v1.Pod{worker(0, on("a"), phase(v1.PodRunning))},
			want{Terminating, 1, 1, 2, 2, "", ""}},
		"its object is gone": {nil, []*v1.Pod{worker(0, on("a"), phase(v1.PodRunning))},
			want{Terminating, 1, 1, 2, 2, "owner-gone", "job.batch/j is gone, its pods are being deleted"}},
		"its pods are going": {job(1), []*v1.Pod{worker(0, on("a"), phase(v1.PodRunning), func(p *v1.Pod) { p.DeletionTimestamp = &t0 })},
			want{Terminating, 1, 1, 2, 2, "", ""}},
		"a gate": {job(1), []*v1.Pod{worker(0, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "q/x"}} })},
			want{Pending, 0, 1, 0, 2, "scheduling-gate", "scheduling gate q/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &kube.Snapshot{Pods: c.pods}
			if c.job != nil {
				s.Jobs = []*batchv1.Job{c.job}
			}
			rows := Reduce(s, config.Default())
			if len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			r := rows[0]
			got := want{r.Status, r.PodsRunning, r.PodsWanted, r.CardsGranted, r.CardsAsked, r.Reason, r.Message}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if r.Ref() != "job.batch/j" || !r.Matches("jobs/j") || !r.Matches("j") || r.Matches("pod/j") {
				t.Errorf("%s is named wrongly", r.Ref())
			}
		})
	}
}

func TestPodsWithoutCardsAreNoJobs(t *testing.T) {
	p := worker(0)
	p.Spec = cards(0)
	if rows := Reduce(&kube.Snapshot{Pods: []*v1.Pod{p}}, config.Default()); len(rows) != 0 {
		t.Errorf("%v", rows)
	}
}

func TestCardsOfUnknownPlaceAreMarked(t *testing.T) {
	p := worker(0, on("a"), phase(v1.PodRunning))
	p.Annotations = nil
	r := Reduce(&kube.Snapshot{Pods: []*v1.Pod{p}, Jobs: []*batchv1.Job{job(1)}}, config.Default())[0]
	if r.CardsUnknown != 1 || r.CardsGranted != 0 || cardsCell(&r) != "0/2? a" {
		t.Errorf("%+v", r)
	}
}

func TestEveryStatusIsListed(t *testing.T) {
	seen := map[Status]bool{}
	for _, s := range Statuses() {
		seen[s] = true
	}
	if len(seen) != 7 || !Complete.Ended() || !Failed.Ended() || Running.Ended() {
		t.Errorf("%v", seen)
	}
}

func TestAnOwnerThatCannotBeReadIsNotGone(t *testing.T) {
	s := &kube.Snapshot{Pods: []*v1.Pod{worker(0, on("a"), phase(v1.PodRunning))}, Missing: []kube.Missing{{Resource: "jobs.batch", Why: "forbidden"}}}
	if r := Reduce(s, config.Default())[0]; r.Status != Running {
		t.Errorf("%s, want Running", r.Status)
	}
}

func TestTheNearestOrTheCommonestRefusalIsShown(t *testing.T) {
	for msg, want := range map[string]string{
		"0/15 nodes are available: 1 no-gpu-on-node: no cards, 4 vendor-mismatch, 8 gpus-above-node: 9 cards asked. preemption: 0/15 nodes are available: 15 x.":                                                                           "8/15 gpus-above-node: 9 cards asked",
		"0/15 nodes are available: 1 fragmented-memory: 8 GiB asked, 14 node(s) didn't match Pod's node affinity/selector. closest is node t4, fragmented-memory: 8 GiB asked on one card, at most 6 GiB free on one. preemption: 0/15 x.": "fragmented-memory: 8 GiB asked on one card, at most 6 GiB free on one",
		"0/15 nodes are available: 15 x. closest is node t4, fragmented-memory: 8 GiB asked.":                                                                                                                                              "fragmented-memory: 8 GiB asked",
		"0/3 nodes are available: 3 Insufficient cpu.": "3/3 Insufficient cpu",
		"core-zero: gpu-core is 0":                     "core-zero: gpu-core is 0",
		"0/0 nodes are available: .":                   "0/0 nodes are available: .",
		"":                                             "",
	} {
		if got := mainRefusal(msg); got != want {
			t.Errorf("%q: %q, want %q", msg, got, want)
		}
	}
}
