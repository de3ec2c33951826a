package sched

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/kube"
)

// in puts a node into the network: "pod/leaf/hypernode", short ones allowed.
func in(n *v1.Node, path string) *v1.Node {
	keys := []string{cfg.Topology.NetworkPod, cfg.Topology.Leaf, cfg.Topology.HyperNode}
	for i, part := range strings.Split(path, "/") {
		n.Labels[keys[i]] = part
	}
	return n
}

// network is nodes with 8 cards: perLeaf nodes on each leaf of each pod.
func network(t testing.TB, pods, leaves, perLeaf int) []runtime.Object {
	var out []runtime.Object
	for p := range pods {
		for l := range leaves {
			for n := range perLeaf {
				name := fmt.Sprintf("n-%d-%d-%d", p, l, n)
				out = append(out, in(nodeObj(t, coretest.Node(name, cfg).Cards(8, coretest.H800).Obj()), fmt.Sprintf("np%d/leaf%d", p, l)))
			}
		}
	}
	return out
}

// member is a pod of a JobSet's only Job.
func member(set string, i, size int, l limits) *v1.Pod {
	p := podObj(fmt.Sprintf("%s-%d", set, i), l)
	p.Labels[cfg.MinMemberLabel()] = fmt.Sprint(size)
	p.Labels[kube.JobSetNameLabel] = set
	p.Labels[kube.JobSetUIDLabel] = "uid-of-" + set
	p.Labels[indexLabel] = fmt.Sprint(i)
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: set + "-workers-0", UID: types.UID("job-" + set), Controller: &yes}}
	return p
}

// setJob is the Job of member's pods.
func setJob(set string, size, succeeded int) *batchv1.Job {
	labels := map[string]string{kube.JobSetNameLabel: set, kube.JobSetUIDLabel: "uid-of-" + set}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: set + "-workers-0", UID: types.UID("job-" + set), Labels: labels}}
	j.Spec.Template.Labels = map[string]string{cfg.MinMemberLabel(): fmt.Sprint(size)}
	j.Status.Succeeded = int32(succeeded)
	return j
}

func members(set string, from, to, size int, l limits) []*v1.Pod {
	var out []*v1.Pod
	for i := from; i < to; i++ {
		out = append(out, member(set, i, size, l))
	}
	return out
}

// where lists the nodes of a set's bound pods.
func (r *rig) where(set string) []string {
	var out []string
	for _, p := range r.pods() {
		if p.Labels[kube.JobSetNameLabel] == set && p.Spec.NodeName != "" {
			out = append(out, p.Spec.NodeName)
		}
	}
	return out
}

func (r *rig) allBound(set string, n int) []string {
	r.t.Helper()
	r.until(set+" bound", func() bool { return len(r.where(set)) == n })
	return r.where(set)
}

// podsOf counts the network-pods of nodes named by network.
func podsOf(nodes []string) map[string]int {
	out := map[string]int{}
	for _, n := range nodes {
		out[n[:strings.LastIndex(n[:strings.LastIndex(n, "-")], "-")]]++
	}
	return out
}

func TestGangWaitsForAllAndGoesToOneNetworkPod(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 2, 2, 2)...)
	r.add(members("a", 0, 3, 4, limits{"nvidia": 8})...)
	r.add(podObj("single", limits{"nvidia": 1})) // is not held up, and takes a node of one network-pod
	r.bound("single")
	if got := r.where("a"); len(got) != 0 {
		t.Fatalf("%v bound, the fourth member is missing", got)
	}
	r.add(member("a", 3, 4, limits{"nvidia": 8}))
	if pods := podsOf(r.allBound("a", 4)); len(pods) != 1 {
		t.Errorf("spread over %v", pods)
	}
	a := r.bound("a-0")
	if a.Gang == nil || a.Gang.Size != 4 || a.Gang.Tier != "network-pod" {
		t.Errorf("mark %+v", a.Gang)
	}
}

func TestGangPrefersNear(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 2, 2, 2)...)
	r.add(members("node", 0, 8, 8, limits{"nvidia": 1})...)
	nodes := r.allBound("node", 8)
	for _, n := range nodes {
		if n != nodes[0] {
			t.Fatalf("eight cards on %v", nodes)
		}
	}
	r.add(members("leaf", 0, 4, 4, limits{"nvidia": 4})...)
	if a := (r.allBound("leaf", 4)); a[0][:5] != a[3][:5] {
		t.Errorf("not on one leaf: %v", a)
	}
	if a := r.bound("leaf-0"); a.Gang.Tier != "leaf" {
		t.Errorf("mark %+v", a.Gang)
	}
}

func TestGangThatDoesNotFitWaitsWholeWithOneReason(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 2, 1, 2)...)
	r.add(members("a", 0, 3, 3, limits{"nvidia": 8})...)
	for i := range 3 {
		note := r.refused(fmt.Sprintf("a-%d", i), nil)
		if !strings.Contains(note, "gang-above-network-pod") || !strings.Contains(note, "3 members") {
			t.Errorf("reason %q", note)
		}
	}
	if got := r.where("a"); len(got) != 0 {
		t.Fatalf("%v bound", got)
	}
	for _, n := range network(t, 2, 1, 3) {
		if n := n.(*v1.Node); strings.HasSuffix(n.Name, "-2") {
			if _, err := r.client.CoreV1().Nodes().Create(r.ctx, n, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.allBound("a", 3)
}

func TestTwoGangsOfWhichOneFits(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 1, 2, 2)...)
	for i := range 3 {
		r.add(member("a", i, 3, limits{"nvidia": 8}), member("b", i, 3, limits{"nvidia": 8}))
	}
	r.until("one of the two is placed", func() bool { return len(r.where("a"))+len(r.where("b")) == 3 })
	first, second := "a", "b"
	if len(r.where("b")) > 0 {
		first, second = second, first
	}
	if len(r.where(first)) != 3 {
		t.Fatalf("a %v b %v", r.where("a"), r.where("b"))
	}
	r.refused(second+"-0", nil)
	for i := range 3 {
		r.deleteBound(fmt.Sprintf("%s-%d", first, i))
	}
	r.allBound(second, 3)
}

func TestGangOfDifferentMembers(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 2, 2, 2)...)
	pods := members("a", 0, 2, 5, limits{"nvidia": 8})
	pods = append(pods, member("a", 2, 5, limits{"gpu-core": 50, "gpu-memory": 10}), member("a", 3, 5, limits{"nvidia": 4}), member("a", 4, 5, limits{"cpu": 1}))
	r.add(pods...)
	if got := podsOf(r.allBound("a", 5)); len(got) != 1 {
		t.Errorf("spread over %v", got)
	}
}

func TestGangWithOneRefusedBindingStaysUnbound(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 1, 1, 4)...)
	r.onBind(func(b *v1.Binding) error {
		if b.Name == "a-2" {
			return apierrors.NewForbidden(podsGVR.GroupResource(), b.Name, fmt.Errorf("denied request"))
		}
		return nil
	})
	r.add(members("a", 0, 4, 4, limits{"nvidia": 8})...)
	note := r.refused("a-2", nil)
	if !strings.Contains(note, "denied request") {
		t.Errorf("reason %q", note)
	}
	if got := r.where("a"); len(got) != 0 {
		t.Fatalf("%v bound although one binding is refused", got)
	}
	r.onBind(nil)
	r.allBound("a", 4)
}

func TestReplacementOfAMemberOfASatisfiedGang(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 2, 1, 4)...)
	r.add(members("a", 0, 3, 3, limits{"nvidia": 8})...)
	pods := podsOf(r.allBound("a", 3))
	r.deleteBound("a-1")
	r.deleteBound("a-2")
	r.add(member("a", 7, 3, limits{"nvidia": 8}))
	for k, n := range podsOf(r.allBound("a", 2)) {
		if n != 2 || pods[k] != 3 {
			t.Errorf("was in %v, replacement not with it: %v", pods, r.where("a"))
		}
	}
}

func TestFinishedMembersCount(t *testing.T) {
	r := newRig(t, NewState(cfg), append(network(t, 1, 1, 4), setJob("a", 3, 2))...)
	r.add(member("a", 5, 3, limits{"nvidia": 8}))
	r.allBound("a", 1)
}

func TestMembersThatDisagreeAreNotPlaced(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 1, 1, 4)...)
	r.add(member("a", 0, 2, limits{"nvidia": 1}), member("a", 1, 3, limits{"nvidia": 1}), member("a", 2, 3, limits{"nvidia": 1}))
	r.add(podObj("single", limits{"nvidia": 1}))
	r.bound("single")
	if got := r.where("a"); len(got) != 0 {
		t.Fatalf("%v bound", got)
	}
	p := r.pod("a-0").DeepCopy()
	p.Labels[cfg.MinMemberLabel()] = "3"
	if _, err := r.client.CoreV1().Pods("default").Update(r.ctx, p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.allBound("a", 3)
}

func TestPodsOfAPlainJobAreAGroup(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 1, 1, 2)...)
	var pods []*v1.Pod
	for _, p := range members("a", 0, 3, 3, limits{"nvidia": 8}) {
		delete(p.Labels, kube.JobSetNameLabel)
		delete(p.Labels, kube.JobSetUIDLabel)
		pods = append(pods, p)
	}
	r.add(pods...)
	if note := r.refused("a-1", nil); !strings.Contains(note, "gang-short") {
		t.Errorf("three nodes wanted of two: %q", note)
	}
	for _, p := range r.pods() {
		if p.Spec.NodeName != "" {
			t.Errorf("%s is bound", p.Name)
		}
	}
}

// PodGroups of the API itself are placed by the same plan.
func TestPodGroupOfTheAPI(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 2, 1, 2)...)
	priority := int32(0)
	pg := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "real", UID: "uid-real"},
		Spec: schedulingapi.PodGroupSpec{Priority: &priority, SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: 2}}}}
	if _, err := r.client.SchedulingV1beta1().PodGroups("default").Create(r.ctx, pg, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	name := "real"
	for i := range 2 {
		p := podObj(fmt.Sprintf("m-%d", i), limits{"nvidia": 8})
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		if r.add(p); i == 0 {
			r.add(podObj("single", limits{"nvidia": 1}))
			r.bound("single")
			if r.pod("m-0").Spec.NodeName != "" {
				t.Fatal("the first member is bound alone")
			}
		}
	}
	r.bound("m-0")
	r.bound("m-1")
	if got := podsOf([]string{r.pod("m-0").Spec.NodeName, r.pod("m-1").Spec.NodeName}); len(got) != 1 {
		t.Errorf("spread over %v", got)
	}
}
