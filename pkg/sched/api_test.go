package sched

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	k8stesting "k8s.io/client-go/testing"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched/schedtest"
)

// call is a kind of request that a scheduler makes.
type call string

const (
	callDry    call = "dry run of a binding"
	callBind   call = "binding"
	callEvict  call = "deletion"
	callStatus call = "status"
	callGet    call = "get"
)

// apiServer is a fake API with what schedulers meet on a real one: requests
// that fail or whose answers are lost, outages, pods that take time to leave,
// and processes of which nothing more comes. It judges every binding in the
// moment in which it is written.
type apiServer struct {
	t       testing.TB
	tracker k8stesting.ObjectTracker
	client  *fake.Clientset // for lists and watches only

	mu      sync.Mutex
	version int
	fresh   int // the version at the last rest
	down    bool
	// fault, if set, makes a request fail: before it has an effect, or after.
	fault func(what call, pod string) (before, after error)
	// hold, if set, may keep a request waiting on its way.
	hold func(what call, pod string)
	// writes counts what schedulers have written. The process that makes
	// write number dieAt dies right after it.
	writes, dieAt int
	// given are the pods that hold cards, as they were when they were bound:
	// what somebody edits later is not what the containers run on.
	given map[types.UID]*v1.Pod
	// placed are the groups that were whole at one time.
	placed map[types.NamespacedName]bool
	// shown are the versions of each node that a decision may rest on.
	shown map[string][]*v1.Node
	cards map[string]map[string]device.Card // ever seen, by node
	// asked are the versions of waiting pods that a decision may rest on.
	asked map[types.UID][]*v1.Pod
	// atOnce: bound pods are gone with their deletion.
	atOnce   bool
	watchers map[*brokenWatch]bool
	wrong    []string
}

var (
	nodesGVR = v1.SchemeGroupVersion.WithResource("nodes")
	jobsGVR  = batchv1.SchemeGroupVersion.WithResource("jobs")
	podsGVK  = v1.SchemeGroupVersion.WithKind("Pod")
)

func newAPI(t testing.TB, objs ...runtime.Object) *apiServer {
	// A watch of the fake panics when its reader is that far behind.
	watch.DefaultChanSize = 20000
	a := &apiServer{t: t, tracker: k8stesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder()),
		given: map[types.UID]*v1.Pod{}, placed: map[types.NamespacedName]bool{}, shown: map[string][]*v1.Node{},
		cards: map[string]map[string]device.Card{}, watchers: map[*brokenWatch]bool{}, asked: map[types.UID][]*v1.Pod{}}
	a.client = &fake.Clientset{}
	a.client.AddReactor("*", "*", k8stesting.ObjectReaction(a.tracker))
	a.client.AddWatchReactor("*", func(x k8stesting.Action) (bool, watch.Interface, error) {
		w, err := a.tracker.Watch(x.GetResource(), x.GetNamespace(), x.(k8stesting.WatchActionImpl).ListOptions)
		return err == nil, w, err
	})
	for _, o := range objs {
		a.put(o)
	}
	return a
}

// put creates or replaces an object.
func (a *apiServer) put(o runtime.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store(o)
}

// store is put for callers that hold mu.
func (a *apiServer) store(o runtime.Object) {
	gvr, ns := podsGVR, "default"
	a.version++ // an update that keeps its version is none to the engine
	m := o.(metav1.Object)
	m.SetResourceVersion(strconv.Itoa(a.version))
	switch x := o.(type) {
	case *v1.Node:
		gvr, ns = nodesGVR, ""
		a.shown[x.Name] = append(a.shown[x.Name], x.DeepCopy())
		a.remember(x)
	case *v1.Pod:
		if x.Spec.NodeName == "" {
			a.asked[x.UID] = append(a.asked[x.UID], x.DeepCopy())
		}
	case *batchv1.Job:
		gvr = jobsGVR
	}
	if m.GetCreationTimestamp() == (metav1.Time{}) {
		m.SetCreationTimestamp(metav1.Now().Rfc3339Copy()) // whole seconds
	}
	err := a.tracker.Update(gvr, o, ns)
	if apierrors.IsNotFound(err) {
		err = a.tracker.Create(gvr, o, ns)
	}
	if err != nil {
		panic(err) // the tests' own mistake, maybe on a goroutine of the engine
	}
}

// remember notes the cards of a node, as they are when well.
func (a *apiServer) remember(n *v1.Node) {
	inv, err := device.DecodeInventory(n.Annotations[kube.InventoryAnnotation])
	if err != nil {
		return
	}
	if a.cards[n.Name] == nil {
		a.cards[n.Name] = map[string]device.Card{}
	}
	for _, c := range inv.Cards {
		c.Health = nil
		a.cards[n.Name][c.UUID] = c
	}
}

// everSeen is a node with all cards that it has ever had.
func (a *apiServer) everSeen(node string) *v1.Node {
	inv := &device.Inventory{V: 1, Unit: cfg.Unit}
	for _, c := range a.cards[node] {
		c.Index, c.Minor = len(inv.Cards), nil
		inv.Cards = append(inv.Cards, c)
	}
	text, err := device.EncodeInventory(inv)
	if err != nil {
		panic(err)
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{kube.InventoryAnnotation: text}}}
}

func (a *apiServer) get(name string) *v1.Pod {
	o, err := a.tracker.Get(podsGVR, "default", name)
	if err != nil {
		return nil
	}
	return o.(*v1.Pod)
}

func (a *apiServer) pods() []*v1.Pod {
	o, err := a.tracker.List(podsGVR, podsGVK, "")
	if err != nil {
		panic(err)
	}
	l := o.(*v1.PodList)
	out := make([]*v1.Pod, len(l.Items))
	for i := range l.Items {
		out[i] = &l.Items[i]
	}
	return out
}

func (a *apiServer) nodes() []*v1.Node {
	o, err := a.tracker.List(nodesGVR, v1.SchemeGroupVersion.WithKind("Node"), "")
	if err != nil {
		panic(err)
	}
	l := o.(*v1.NodeList)
	out := make([]*v1.Node, len(l.Items))
	for i := range l.Items {
		out[i] = &l.Items[i]
	}
	return out
}

func (a *apiServer) jobs() []*batchv1.Job {
	o, err := a.tracker.List(jobsGVR, batchv1.SchemeGroupVersion.WithKind("Job"), "")
	if err != nil {
		panic(err)
	}
	l := o.(*batchv1.JobList)
	out := make([]*batchv1.Job, len(l.Items))
	for i := range l.Items {
		out[i] = &l.Items[i]
	}
	return out
}

// erase takes an object away. Pods that have ended go the same way: the
// engine's informer selects those that have not.
func (a *apiServer) erase(gvr schema.GroupVersionResource, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(gvr, name)
}

func (a *apiServer) drop(gvr schema.GroupVersionResource, name string) {
	ns := "default"
	switch gvr {
	case podsGVR:
		if p := a.get(name); p != nil {
			delete(a.given, p.UID)
			delete(a.asked, p.UID)
		}
	case nodesGVR:
		ns = ""
	}
	if err := a.tracker.Delete(gvr, ns, name); err != nil {
		panic(err)
	}
}

// evict is the deletion of a pod: one that has a node stays until its kubelet
// has ended it.
func (a *apiServer) evict(name string) error {
	p := a.get(name)
	switch {
	case p == nil:
		return apierrors.NewNotFound(podsGVR.GroupResource(), name)
	case p.Spec.NodeName == "" || a.atOnce:
		a.drop(podsGVR, name)
	case p.DeletionTimestamp == nil:
		now := metav1.Now()
		p.DeletionTimestamp = &now
		a.store(p)
	}
	return nil
}

// reap ends the pods that are leaving, as kubelets do.
func (a *apiServer) reap() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pods() {
		if p.DeletionTimestamp != nil {
			a.drop(podsGVR, p.Name)
		}
	}
}

// commit is what the API server does with a Binding.
func (a *apiServer) commit(b *v1.Binding, dry bool) error {
	p := a.get(b.Name)
	switch {
	case p == nil:
		return apierrors.NewNotFound(podsGVR.GroupResource(), b.Name)
	case p.UID != b.UID || p.Spec.NodeName != "" || p.DeletionTimestamp != nil:
		return apierrors.NewConflict(podsGVR.GroupResource(), b.Name, errors.New("pod is bound, leaving or another one"))
	case dry:
		return nil
	}
	p.Spec.NodeName = b.Target.Name
	for k, v := range b.Annotations {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, k, v)
	}
	a.store(p)
	p = a.decided(p)
	a.given[p.UID] = p
	a.judge(p)
	return nil
}

// asBound is the pods with those that hold cards as they were when they were
// bound.
func (a *apiServer) asBound(pods []*v1.Pod) []*v1.Pod {
	out := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		out[i] = p
		if g := a.given[p.UID]; g != nil {
			out[i] = g.DeepCopy()
			out[i].DeletionTimestamp = p.DeletionTimestamp
		}
	}
	return out
}

// decided is the bound pod with the labels that it had when its cards were
// chosen: somebody may have edited them since, and a Binding does not say which
// version of the pod it is for.
func (a *apiServer) decided(p *v1.Pod) *v1.Pod {
	versions := a.asked[p.UID]
	for i := len(versions) - 1; i >= 0; i-- {
		q := p.DeepCopy()
		q.Labels = versions[i].Labels
		r, bad := kube.RequestOf(q, cfg)
		if len(bad) > 0 {
			continue
		}
		if r.Empty() {
			return q
		}
		if given, _ := kube.AllocationOf(q); given != nil {
			if _, err := cluster.HoldOf(r, given); err == nil {
				return q
			}
		}
	}
	return p.DeepCopy()
}

// judge looks at a pod that has just been bound, and at what else its node's
// cards are given to.
func (a *apiServer) judge(p *v1.Pod) {
	var held []*v1.Pod
	for _, q := range a.given {
		if q.Spec.NodeName == p.Spec.NodeName {
			held = append(held, q)
		}
	}
	a.wrong = append(a.wrong, schedtest.Verify([]*v1.Node{a.everSeen(p.Spec.NodeName)}, held, cfg)...)
	if r, bad := kube.RequestOf(p, cfg); len(bad) == 0 && !r.Empty() && !a.sound(p) {
		a.wrong = append(a.wrong, fmt.Sprintf("%s: no recent version of node %s has such well cards: %s", p.Name, p.Spec.NodeName,
			p.Annotations[kube.AllocationAnnotation]))
	}
	for key, g := range schedtest.Groups(a.asBound(a.pods()), a.jobs(), cfg) {
		if g.Whole() {
			a.placed[key] = true
		}
	}
}

// sound tells whether a version of the pod's node that a decision may rest on
// has its cards, and well.
func (a *apiServer) sound(p *v1.Pod) bool {
	for _, n := range a.shown[p.Spec.NodeName] {
		if n.Labels[kube.EnableLabel] == "true" && len(schedtest.Verify([]*v1.Node{n}, []*v1.Pod{p}, cfg)) == 0 {
			return true
		}
	}
	return false
}

// caughtUp forgets the versions of nodes and pods that were old when it came
// the time before: a cycle of the engine may be on its way with what is old now.
func (a *apiServer) caughtUp() {
	trim(a.shown, a.fresh)
	trim(a.asked, a.fresh)
	a.fresh = a.version
}

// trim keeps the versions after one, and the last before it.
func trim[K comparable, O metav1.Object](m map[K][]O, after int) {
	for k, list := range m {
		for len(list) > 1 {
			if v, err := strconv.Atoi(list[1].GetResourceVersion()); err != nil || v > after {
				break
			}
			list = list[1:]
		}
		m[k] = list
	}
}

// stop begins an outage: what is asked from now on fails, and every watch ends.
func (a *apiServer) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = true
	for w := range a.watchers {
		w.Stop()
	}
	clear(a.watchers)
}

func (a *apiServer) resume() {
	a.mu.Lock()
	a.down = false
	a.mu.Unlock()
}

var (
	errRefused = errors.New("dial tcp 127.0.0.1:6443: connect: connection refused")
	errDead    = errors.New("this process is dead")
)

// process is one scheduler process as the API server sees it.
type process struct {
	api  *apiServer
	dead bool   // guarded by the mu of api
	end  func() // stops what runs of it here
}

// kill ends the process; nothing of it reaches the API server any more.
func (p *process) kill() {
	p.api.mu.Lock()
	p.dead = true
	p.api.mu.Unlock()
	p.end()
}

// do is one request.
func (p *process) do(what call, pod string, act func() error) error {
	a := p.api
	if a.hold != nil {
		a.hold(what, pod)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case p.dead:
		return errDead
	case a.down:
		return errRefused
	}
	var lost error
	if a.fault != nil {
		var before error
		if before, lost = a.fault(what, pod); before != nil {
			return before
		}
	}
	if err := act(); err != nil {
		return err
	}
	if what != callDry && what != callGet {
		if a.writes++; a.writes == a.dieAt {
			p.dead = true
			go p.end()
		}
	}
	return lost
}

// procClient is the client of one process.
type procClient struct {
	kubernetes.Interface
	p *process
}

func (p *process) clientset() kubernetes.Interface { return procClient{p.api.client, p} }

// IsWatchListSemanticsUnSupported makes informers list first.
func (procClient) IsWatchListSemanticsUnSupported() bool { return true }

func (c procClient) CoreV1() corev1.CoreV1Interface { return procCore{c.Interface.CoreV1(), c.p} }

type procCore struct {
	corev1.CoreV1Interface
	p *process
}

func (c procCore) Pods(ns string) corev1.PodInterface {
	return procPods{c.CoreV1Interface.Pods(ns), c.p}
}

func (c procCore) Nodes() corev1.NodeInterface { return procNodes{c.CoreV1Interface.Nodes(), c.p} }

type procPods struct {
	corev1.PodInterface
	p *process
}

func (c procPods) Bind(_ context.Context, b *v1.Binding, o metav1.CreateOptions) error {
	if len(o.DryRun) > 0 {
		return c.p.do(callDry, b.Name, func() error { return c.p.api.commit(b, true) })
	}
	return c.p.do(callBind, b.Name, func() error { return c.p.api.commit(b, false) })
}

func (c procPods) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	return c.p.do(callEvict, name, func() error { return c.p.api.evict(name) })
}

func (c procPods) Get(_ context.Context, name string, _ metav1.GetOptions) (pod *v1.Pod, err error) {
	err = c.p.do(callGet, name, func() error {
		if pod = c.p.api.get(name); pod == nil {
			return apierrors.NewNotFound(podsGVR.GroupResource(), name)
		}
		return nil
	})
	return pod, err
}

// Patch is of pods' statuses.
func (c procPods) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (pod *v1.Pod, err error) {
	err = c.p.do(callStatus, name, func() error {
		old := c.p.api.get(name)
		if old == nil {
			return apierrors.NewNotFound(podsGVR.GroupResource(), name)
		}
		text, err := json.Marshal(old)
		if err != nil {
			return err
		}
		if text, err = strategicpatch.StrategicMergePatch(text, data, v1.Pod{}); err != nil {
			return err
		}
		pod = &v1.Pod{}
		if err := json.Unmarshal(text, pod); err != nil {
			return err
		}
		c.p.api.store(pod)
		return nil
	})
	return pod, err
}

func (c procPods) List(ctx context.Context, o metav1.ListOptions) (l *v1.PodList, err error) {
	err = c.p.do(callGet, "", func() (err error) { l, err = c.PodInterface.List(ctx, o); return err })
	return l, err
}

func (c procPods) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return c.p.watch(func() (watch.Interface, error) { return c.PodInterface.Watch(ctx, o) })
}

type procNodes struct {
	corev1.NodeInterface
	p *process
}

func (c procNodes) List(ctx context.Context, o metav1.ListOptions) (l *v1.NodeList, err error) {
	err = c.p.do(callGet, "", func() (err error) { l, err = c.NodeInterface.List(ctx, o); return err })
	return l, err
}

func (c procNodes) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return c.p.watch(func() (watch.Interface, error) { return c.NodeInterface.Watch(ctx, o) })
}

// brokenWatch is a watch that an outage ends.
type brokenWatch struct{ watch.Interface }

func (p *process) watch(open func() (watch.Interface, error)) (watch.Interface, error) {
	a := p.api
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.dead || a.down {
		return nil, errRefused
	}
	w, err := open()
	if err != nil {
		return nil, err
	}
	b := &brokenWatch{w}
	a.watchers[b] = true
	return b, nil
}

// within waits until what says nothing more; more is what to tell if it does
// not come to that.
func within(t testing.TB, long time.Duration, more, what func() string) {
	t.Helper()
	why, pause := "", 200*time.Microsecond
	for end := time.Now().Add(long); ; time.Sleep(pause) {
		// The looks take time from those that are looked at.
		pause = min(2*pause, 20*time.Millisecond)
		if why = what(); why == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v still: %s\n%s", long, why, more())
		}
	}
}
