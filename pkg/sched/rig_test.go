package sched

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

func TestMain(m *testing.M) {
	if err := ApplyGates(); err != nil {
		panic(err)
	}
	m.Run()
}

// rig is the real engine on a fake API.
type rig struct {
	t      testing.TB
	ctx    context.Context
	client *fake.Clientset
	state  *State
	engine *scheduler.Scheduler
	stop   context.CancelFunc
	done   chan struct{}
	// events are the notes of the events about pods, by namespace/name.
	mu     sync.Mutex
	events map[string][]string
	// refuse, if set, answers a Binding in place of the API.
	refuse func(*v1.Binding) error
	// graceful: a deleted pod that is bound stays on its way out until die.
	graceful bool
}

// newRig starts the engine on the objects.
func newRig(t testing.TB, state *State, objs ...runtime.Object) *rig {
	t.Helper()
	r := &rig{t: t, client: fakeAPI(objs), events: map[string][]string{}}
	// Before any engine runs: the fake takes no lock for its reactors.
	r.client.PrependReactor("create", "pods", r.bind)
	r.client.PrependReactor("delete", "pods", r.leave)
	r.client.PrependReactor("create", "events", func(k8stesting.Action) (bool, runtime.Object, error) { return true, &eventsv1.Event{}, nil })
	r.start(state)
	t.Cleanup(func() { r.halt() })
	return r
}

func fakeAPI(objs []runtime.Object) *fake.Clientset { return fake.NewClientset(objs...) }

func (r *rig) start(state *State) {
	r.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r.ctx, r.stop, r.state, r.done = ctx, stop, state, make(chan struct{})
	factory := scheduler.NewInformerFactory(r.client, 0, nil)
	client := dryRuns{r.client, r.mayBind}
	if err := state.Attach(ctx, client, factory); err != nil {
		r.t.Fatal(err)
	}
	engine, err := scheduler.New(ctx, client, factory, nil, r.recorder,
		scheduler.WithProfiles(Profiles()...),
		scheduler.WithFrameworkOutOfTreeRegistry(NewRegistry(state)),
		scheduler.WithPodInitialBackoffSeconds(1), scheduler.WithPodMaxBackoffSeconds(1))
	if err != nil {
		r.t.Fatal(err)
	}
	r.engine = engine
	runEngine(ctx, r.t, engine, factory, r.done)
}

func runEngine(ctx context.Context, t testing.TB, engine *scheduler.Scheduler, factory informers.SharedInformerFactory, done chan struct{}) {
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := engine.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		engine.Run(ctx)
	}()
}

func (r *rig) halt() {
	r.stop()
	<-r.done
}

// restart stops the engine and starts another on the same objects.
func (r *rig) restart(state *State) {
	r.halt()
	r.start(state)
}

// bind does what the API server does with a Binding: check, and set node name
// and annotations together.
func (r *rig) bind(a k8stesting.Action) (bool, runtime.Object, error) {
	if a.GetSubresource() != "binding" {
		return false, nil, nil
	}
	b := a.(k8stesting.CreateAction).GetObject().(*v1.Binding)
	if err := r.mayBind(b); err != nil {
		return true, nil, err
	}
	return true, b, commit(r.client, b)
}

// leave does what the API server does with the deletion of a pod that runs.
func (r *rig) leave(a k8stesting.Action) (bool, runtime.Object, error) {
	r.mu.Lock()
	graceful := r.graceful
	r.mu.Unlock()
	d := a.(k8stesting.DeleteAction)
	o, err := r.client.Tracker().Get(podsGVR, d.GetNamespace(), d.GetName())
	if !graceful || err != nil {
		return false, nil, nil
	}
	pod := o.(*v1.Pod).DeepCopy()
	if pod.Spec.NodeName == "" {
		return false, nil, nil
	}
	at := metav1.NewTime(time.Now().Add(30 * time.Second))
	pod.DeletionTimestamp = &at
	return true, nil, r.client.Tracker().Update(podsGVR, pod, pod.Namespace)
}

// die lets the pods that are on their way out go.
func (r *rig) die() {
	for _, p := range r.pods() {
		if p.DeletionTimestamp != nil {
			_ = r.client.Tracker().Delete(podsGVR, p.Namespace, p.Name)
		}
	}
}

// mayBind is the admission of bindings.
func (r *rig) mayBind(b *v1.Binding) error {
	r.mu.Lock()
	refuse := r.refuse
	r.mu.Unlock()
	if refuse != nil {
		return refuse(b)
	}
	return nil
}

// dryRuns is the fake API with what it lacks: it takes a dry run of a binding
// for a real one.
type dryRuns struct {
	kubernetes.Interface
	admit func(*v1.Binding) error
}

// IsWatchListSemanticsUnSupported makes informers list, as with the fake itself.
func (c dryRuns) IsWatchListSemanticsUnSupported() bool { return true }

func (c dryRuns) CoreV1() corev1.CoreV1Interface { return dryRunCore{c.Interface.CoreV1(), c.admit} }

type dryRunCore struct {
	corev1.CoreV1Interface
	admit func(*v1.Binding) error
}

func (c dryRunCore) Pods(ns string) corev1.PodInterface {
	return dryRunPods{c.CoreV1Interface.Pods(ns), c.admit}
}

type dryRunPods struct {
	corev1.PodInterface
	admit func(*v1.Binding) error
}

func (c dryRunPods) Bind(ctx context.Context, b *v1.Binding, o metav1.CreateOptions) error {
	if len(o.DryRun) > 0 {
		return c.admit(b)
	}
	return c.PodInterface.Bind(ctx, b, o)
}

var podsGVR = v1.SchemeGroupVersion.WithResource("pods")

func commit(client *fake.Clientset, b *v1.Binding) error {
	o, err := client.Tracker().Get(podsGVR, b.Namespace, b.Name)
	if err != nil {
		return err
	}
	pod := o.(*v1.Pod).DeepCopy()
	if pod.UID != b.UID || pod.Spec.NodeName != "" {
		return apierrors.NewConflict(podsGVR.GroupResource(), b.Name, errors.New("pod is already assigned to a node"))
	}
	pod.Spec.NodeName = b.Target.Name
	for k, v := range b.Annotations {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, k, v)
	}
	return client.Tracker().Update(podsGVR, pod, b.Namespace)
}

// recorder keeps the notes of events.
func (r *rig) recorder(string) events.EventRecorderLogger { return r.state.Recorder(&notes{r: r}) }

type notes struct {
	events.EventRecorderLogger
	r *rig
}

func (n *notes) WithLogger(klog.Logger) events.EventRecorderLogger { return n }

func (n *notes) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	pod, ok := regarding.(*v1.Pod)
	if !ok {
		return
	}
	n.r.mu.Lock()
	defer n.r.mu.Unlock()
	k := pod.Namespace + "/" + pod.Name
	n.r.events[k] = append(n.r.events[k], reason+": "+fmt.Sprintf(note, args...))
}

// add creates pods.
func (r *rig) add(pods ...*v1.Pod) {
	r.t.Helper()
	for _, p := range pods {
		if _, err := r.client.CoreV1().Pods(p.Namespace).Create(r.ctx, p.DeepCopy(), metav1.CreateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) pod(name string) *v1.Pod {
	r.t.Helper()
	p, err := r.client.CoreV1().Pods("default").Get(r.ctx, name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// until waits for a condition of the cluster.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("waited in vain for: %s\nevents: %v", what, r.allEvents())
		}
	}
}

// bound waits until the pod is bound and returns its allocation.
func (r *rig) bound(name string) *device.Allocation {
	r.t.Helper()
	r.until(name+" bound", func() bool { return r.pod(name).Spec.NodeName != "" })
	a, why := kube.AllocationOf(r.pod(name))
	if a == nil {
		r.t.Fatalf("pod %s is bound without an allocation: %s", name, why)
	}
	return a
}

// refused waits for a FailedScheduling event of the pod that satisfies ok and
// returns its note.
func (r *rig) refused(name string, ok func(note string) bool) string {
	r.t.Helper()
	got := ""
	r.until(name+" refused", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, n := range r.events["default/"+name] {
			if len(n) > 16 && n[:16] == "FailedScheduling" && (ok == nil || ok(n)) {
				got = n
				return true
			}
		}
		return false
	})
	return got
}

func (r *rig) allEvents() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string][]string{}
	for k, v := range r.events {
		out[k] = append([]string(nil), v...)
	}
	return out
}

func (r *rig) onBind(f func(*v1.Binding) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = f
}

// nodeObj is a core node as its agent and kubelet would report it.
func nodeObj(t testing.TB, n *cluster.Node) *v1.Node {
	t.Helper()
	text, err := device.EncodeInventory(n.Inventory)
	if err != nil {
		t.Fatal(err)
	}
	amounts := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("128"), v1.ResourceMemory: resource.MustParse("1Ti"), v1.ResourcePods: resource.MustParse("256"),
	}
	for k, v := range n.Allocatable {
		amounts[v1.ResourceName(k)] = *resource.NewQuantity(v, resource.DecimalSI)
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, UID: types.UID("node-" + n.Name),
			Labels:      map[string]string{kube.EnableLabel: "true", v1.LabelHostname: n.Name},
			Annotations: map[string]string{kube.InventoryAnnotation: text},
		},
		Status: v1.NodeStatus{Capacity: amounts, Allocatable: amounts},
	}
}

// limits are resources by the last part of their names, "nvidia" is
// nvidia.com/gpu, "cpu" is cpu.
type limits map[string]int64

func (l limits) list(c config.Config) v1.ResourceList {
	out := v1.ResourceList{}
	for k, v := range l {
		name := c.Prefix + "/" + k
		switch k {
		case "nvidia":
			name = config.NvidiaGPU
		case "cpu":
			name = k
		}
		out[v1.ResourceName(name)] = *resource.NewQuantity(v, resource.DecimalSI)
	}
	return out
}

func container(c config.Config, name string, l limits) v1.Container {
	rl := l.list(c)
	return v1.Container{Name: name, Image: "train", Resources: v1.ResourceRequirements{Limits: rl, Requests: rl}}
}

// podObj is a pod of ours whose app containers have these limits.
func podObj(name string, ls ...limits) *v1.Pod { return podFor(config.Default(), name, ls...) }

func podFor(c config.Config, name string, ls ...limits) *v1.Pod {
	class := kube.RuntimeClass
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{}},
		Spec:       v1.PodSpec{SchedulerName: kube.SchedulerName, RuntimeClassName: &class},
	}
	for i, l := range ls {
		p.Spec.Containers = append(p.Spec.Containers, container(c, fmt.Sprintf("c%d", i), l))
	}
	return p
}

func replica(p *v1.Pod, n string) *v1.Pod { p.Labels[kube.ReplicaLabel] = n; return p }

func priority(p *v1.Pod, v int32) *v1.Pod { p.Spec.Priority = &v; return p }
