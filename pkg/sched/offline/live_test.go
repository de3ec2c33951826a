package offline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"

	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched"
)

// live is the scheduler as it runs in a cluster, on a fake API.
type live struct {
	t      testing.TB
	client *fake.Clientset

	mu      sync.Mutex
	refused map[string][]string // the notes of FailedScheduling events by pod
}

// newLive starts it on a snapshot's objects.
func newLive(t testing.TB, s *kube.Snapshot) *live {
	t.Helper()
	var objs []runtime.Object
	for _, n := range s.Nodes {
		objs = append(objs, n)
	}
	for _, p := range s.Pods {
		objs = append(objs, p)
	}
	for _, j := range s.Jobs {
		objs = append(objs, j)
	}
	l := &live{t: t, client: fake.NewClientset(objs...), refused: map[string][]string{}}
	l.client.PrependReactor("create", "pods", l.bind)
	l.client.PrependReactor("create", "events", func(k8stesting.Action) (bool, runtime.Object, error) { return true, &eventsv1.Event{}, nil })
	ctx, stop := context.WithCancel(context.Background())
	state := sched.NewState(cfg)
	state.SetNetwork(s.Network())
	factory := scheduler.NewInformerFactory(l.client, 0, nil)
	api := noDryRuns{l.client}
	if err := sched.ApplyGates(); err != nil {
		t.Fatal(err)
	}
	if err := state.Attach(ctx, api, factory); err != nil {
		t.Fatal(err)
	}
	engine, err := scheduler.New(ctx, api, factory, nil, func(string) events.EventRecorderLogger { return &listener{l: l} },
		scheduler.WithProfiles(sched.Profiles()...), scheduler.WithFrameworkOutOfTreeRegistry(sched.NewRegistry(state)))
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := engine.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); engine.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return l
}

// noDryRuns is the fake API with what it lacks: it takes a dry run of a
// binding for a real one.
type noDryRuns struct{ kubernetes.Interface }

func (c noDryRuns) CoreV1() corev1.CoreV1Interface { return noDryRunCore{c.Interface.CoreV1()} }

type noDryRunCore struct{ corev1.CoreV1Interface }

func (c noDryRunCore) Pods(ns string) corev1.PodInterface {
	return noDryRunPods{c.CoreV1Interface.Pods(ns)}
}

type noDryRunPods struct{ corev1.PodInterface }

func (c noDryRunPods) Bind(ctx context.Context, b *v1.Binding, o metav1.CreateOptions) error {
	if len(o.DryRun) > 0 {
		return nil
	}
	return c.PodInterface.Bind(ctx, b, o)
}

var podsGVR = v1.SchemeGroupVersion.WithResource("pods")

// bind sets node and annotations as the API server does.
func (l *live) bind(a k8stesting.Action) (bool, runtime.Object, error) {
	if a.GetSubresource() != "binding" {
		return false, nil, nil
	}
	b := a.(k8stesting.CreateAction).GetObject().(*v1.Binding)
	o, err := l.client.Tracker().Get(podsGVR, b.Namespace, b.Name)
	if err != nil {
		return true, nil, err
	}
	p := o.(*v1.Pod).DeepCopy()
	if p.Spec.NodeName != "" {
		return true, nil, apierrors.NewConflict(podsGVR.GroupResource(), b.Name, errors.New("is bound"))
	}
	p.Spec.NodeName = b.Target.Name
	for k, v := range b.Annotations {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, k, v)
	}
	return true, b, l.client.Tracker().Update(podsGVR, p, b.Namespace)
}

type listener struct {
	events.EventRecorderLogger
	l *live
}

func (n *listener) WithLogger(klog.Logger) events.EventRecorderLogger { return n }

func (n *listener) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	p, ok := about.(*v1.Pod)
	if !ok || reason != "FailedScheduling" {
		return
	}
	n.l.mu.Lock()
	defer n.l.mu.Unlock()
	n.l.refused[p.Name] = append(n.l.refused[p.Name], fmt.Sprintf(note, args...))
}

// ask creates pods and waits until all of them are bound or refused;
// those that are refused are deleted. It returns the pods as they are then, nil
// if they were refused.
func (l *live) ask(pods []*v1.Pod) []*v1.Pod {
	l.t.Helper()
	api := l.client.CoreV1().Pods("default")
	for _, p := range pods {
		if _, err := api.Create(context.Background(), p.DeepCopy(), metav1.CreateOptions{}); err != nil {
			l.t.Fatal(err)
		}
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		out, bound := make([]*v1.Pod, len(pods)), 0
		for i, p := range pods {
			now, err := api.Get(context.Background(), p.Name, metav1.GetOptions{})
			if err != nil {
				l.t.Fatal(err)
			}
			if out[i] = now; now.Spec.NodeName != "" {
				bound++
			}
		}
		if bound == len(pods) {
			return out
		}
		if bound == 0 && l.gaveUp(pods) {
			for _, p := range pods {
				if err := api.Delete(context.Background(), p.Name, metav1.DeleteOptions{}); err != nil {
					l.t.Fatal(err)
				}
			}
			return nil
		}
	}
	l.t.Fatalf("pods %s… neither bound nor refused", pods[0].Name)
	return nil
}

// gaveUp tells whether all of them were refused. A group whose plan has failed
// in the simulation is tried once more.
func (l *live) gaveUp(pods []*v1.Pod) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	attempts := 1
	for _, p := range pods {
		notes := l.refused[p.Name]
		if len(notes) > 0 && isGroup(pods) && p.Spec.Affinity == nil && !strings.Contains(notes[0], "gang-") {
			attempts = 2
		}
	}
	return !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return len(l.refused[p.Name]) < attempts })
}

// notes are those of a pod's refusals.
func (l *live) notes(p *v1.Pod) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.refused[p.Name])
}
