package sched

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

// fleet is nodes with 8 cards, each with `used` one-card pods on it.
func fleet(tb testing.TB, nodes, used int) []runtime.Object {
	var out []runtime.Object
	for i := range nodes {
		n := nodeObj(tb, coretest.Node(fmt.Sprintf("n%04d", i), cfg).Cards(8, coretest.H800).Obj())
		out = append(out, n)
		for k := range used {
			p := podObj(fmt.Sprintf("old-%d-%d", i, k), limits{"nvidia": 1, "cpu": 4})
			p.Spec.NodeName = n.Name
			text, err := device.EncodeAllocation(&device.Allocation{UID: string(p.UID), Node: n.Name,
				Containers: map[string][]device.Grant{"c0": {{Card: coretest.UUID(n.Name, k), Whole: true}}}})
			if err != nil {
				tb.Fatal(err)
			}
			p.Annotations = map[string]string{kube.AllocationAnnotation: text}
			out = append(out, p)
		}
	}
	return out
}

// wholeCards and shares are waiting pods.
func wholeCards(i int) *v1.Pod {
	return podObj(fmt.Sprintf("new-%d", i), limits{"nvidia": 1, "cpu": 4})
}

func kinds(i int) *v1.Pod {
	l := []limits{
		{"nvidia": 1}, {"gpu-core": 25, "gpu-memory": 16}, {"nvidia": 2}, {"gpu-core": 50, "gpu-memory": 30}, {"nvidia": 4},
	}[i%5]
	l["cpu"] = 4
	return podObj(fmt.Sprintf("new-%d", i), l)
}

// measure runs the engine until all waiting pods have been bound, and returns
// the time it took. The API is there for lists only: a Binding is counted and
// not written, so that nothing but the engine is measured.
func measure(b *testing.B, objs []runtime.Object, pods int, profiles []schedulerapi.KubeSchedulerProfile, reg frameworkruntime.Registry) time.Duration {
	b.Helper()
	client := fake.NewClientset(objs...)
	var bound atomic.Int64
	all := make(chan struct{})
	client.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() == "binding" && bound.Add(1) == int64(pods) {
			close(all)
		}
		return true, nil, nil
	})
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), klog.Background()))
	defer stop()
	factory := scheduler.NewInformerFactory(client, 0, nil)
	engine, err := scheduler.New(ctx, client, factory, nil, func(string) events.EventRecorderLogger { return silent{} },
		scheduler.WithProfiles(profiles...), scheduler.WithFrameworkOutOfTreeRegistry(reg))
	if err != nil {
		b.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := engine.WaitForHandlersSync(ctx); err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	start := time.Now()
	b.StartTimer()
	go func() { defer close(done); engine.Run(ctx) }()
	select {
	case <-all:
	case <-time.After(5 * time.Minute):
		b.Fatalf("%d of %d pods bound", bound.Load(), pods)
	}
	took := time.Since(start)
	b.StopTimer()
	stop()
	<-done
	return took
}

type silent struct{ events.EventRecorderLogger }

func (s silent) WithLogger(klog.Logger) events.EventRecorderLogger { return s }

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

func ours(b *testing.B) ([]schedulerapi.KubeSchedulerProfile, frameworkruntime.Registry) {
	b.Helper()
	s := NewState(config.Default())
	s.NarrowTo(100)
	return Profiles(), NewRegistry(s)
}

// stock is kube-scheduler's default profile under our name.
func stock(b *testing.B) ([]schedulerapi.KubeSchedulerProfile, frameworkruntime.Registry) {
	b.Helper()
	c, err := latest.Default()
	if err != nil {
		b.Fatal(err)
	}
	c.Profiles[0].SchedulerName = kube.SchedulerName
	return c.Profiles, nil
}

func with(objs []runtime.Object, pods int, mk func(int) *v1.Pod) []runtime.Object {
	out := append([]runtime.Object(nil), objs...)
	for i := range pods {
		out = append(out, mk(i))
	}
	return out
}

// BenchmarkSingles: 5,000 nodes of 8 cards, half of them used; 2,000 pods.
func BenchmarkSingles(b *testing.B) {
	const pods = 2000
	objs := with(fleet(b, 5000, 4), pods, kinds)
	var total time.Duration
	n := 0
	for b.Loop() {
		b.StopTimer()
		p, reg := ours(b)
		total += measure(b, objs, pods, p, reg)
		n++
		b.StartTimer()
	}
	b.ReportMetric(float64(n*pods)/total.Seconds(), "pods/s")
}

// BenchmarkAgainstStock places the same one-card pods with both profiles in
// one run, in turns; the ratio is ours over stock's.
func BenchmarkAgainstStock(b *testing.B) {
	const pods = 2000
	objs := with(fleet(b, 5000, 4), pods, wholeCards)
	var mine, theirs time.Duration
	n := 0
	for b.Loop() {
		b.StopTimer()
		p, reg := ours(b)
		mine += measure(b, objs, pods, p, reg)
		p, reg = stock(b)
		theirs += measure(b, objs, pods, p, reg)
		n++
		b.StartTimer()
	}
	b.ReportMetric(float64(n*pods)/mine.Seconds(), "pods/s")
	b.ReportMetric(float64(n*pods)/theirs.Seconds(), "stock-pods/s")
	b.ReportMetric(theirs.Seconds()/mine.Seconds(), "ratio")
}

// BenchmarkRefusal: one pod that fits nowhere on 5,000 nodes, until its event.
func BenchmarkRefusal(b *testing.B) {
	r := newRig(b, NewState(cfg), fleet(b, 5000, 8)...)
	r.add(podObj("first", limits{"nvidia": 1})) // reads the inventories
	r.refused("first", nil)
	i := 0
	for b.Loop() {
		name := fmt.Sprintf("no-%d", i)
		i++
		r.add(podObj(name, limits{"nvidia": 1}))
		r.refused(name, nil)
	}
}
