package sched

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
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

// entrant is a scheduler to be measured.
type entrant struct {
	profiles []schedulerapi.KubeSchedulerProfile
	registry frameworkruntime.Registry
	// state is nil for the stock scheduler.
	state *State
	// percent of the nodes to score; 0 is the engine's own choice.
	percent int32
}

func ours() entrant {
	s := NewState(config.Default())
	s.NarrowTo(100)
	return entrant{profiles: Profiles(), registry: NewRegistry(s), state: s}
}

// stock is kube-scheduler's default profile under our name. It runs with the
// feature gates of this process, which are ours.
func stock(tb testing.TB) entrant {
	tb.Helper()
	c, err := latest.Default()
	if err != nil {
		tb.Fatal(err)
	}
	c.Profiles[0].SchedulerName = kube.SchedulerName
	return entrant{profiles: c.Profiles}
}

// allNodes has every node scored instead of a sample.
func (e entrant) allNodes() entrant {
	e.percent = 100
	return e
}

// measured is what one or several runs took.
type measured struct {
	pods int
	took time.Duration
	// cpu is the time of all threads of this process: on a shared machine it
	// says more than took.
	cpu time.Duration
	// cycles are the times from one entity's leaving the queue to the
	// engine's asking for the next.
	cycles []time.Duration
}

func (m *measured) add(o measured) {
	m.pods, m.took, m.cpu, m.cycles = m.pods+o.pods, m.took+o.took, m.cpu+o.cpu, append(m.cycles, o.cycles...)
}

func (m *measured) rate() float64 { return float64(m.pods) / m.took.Seconds() }

// each is the time of one pod, in microseconds.
func (m *measured) each() float64 { return float64(m.took.Microseconds()) / float64(m.pods) }

// cpuEach is the CPU time of one pod, in microseconds.
func (m *measured) cpuEach() float64 { return float64(m.cpu.Microseconds()) / float64(m.pods) }

// p99 is in milliseconds.
func (m *measured) p99() float64 {
	slices.Sort(m.cycles)
	return m.cycles[len(m.cycles)*99/100].Seconds() * 1000
}

// measure runs the engine until all waiting pods have been bound. The API is
// there for lists only: a Binding is counted and not written, so that nothing
// but the engine is measured.
func measure(b *testing.B, objs []runtime.Object, pods int, e entrant) measured {
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
	// What the engine says of groups that exist in this process only.
	client.PrependReactor("*", "podgroups", func(a k8stesting.Action) (bool, runtime.Object, error) {
		return a.GetSubresource() == "status", &schedulingapi.PodGroup{}, nil
	})
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), klog.Background()))
	defer stop()
	engine := e.start(ctx, b, client)
	out := measured{pods: pods}
	next, began := engine.NextEntity, time.Time{}
	engine.NextEntity = func(l klog.Logger) (framework.QueuedEntityInfo, error) {
		if !began.IsZero() {
			out.cycles = append(out.cycles, time.Since(began))
		}
		entity, err := next(l)
		began = time.Now()
		return entity, err
	}
	goruntime.GC() // what the set-up left behind is not the engine's
	done := make(chan struct{})
	start, cpu := time.Now(), cpuTime(b)
	b.StartTimer()
	go func() { defer close(done); engine.Run(ctx) }()
	select {
	case <-all:
	case <-time.After(5 * time.Minute):
		b.Fatalf("%d of %d pods bound", bound.Load(), pods)
	}
	out.took, out.cpu = time.Since(start), cpuTime(b)-cpu
	b.StopTimer()
	stop()
	<-done
	return out
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// start builds the engine and fills its caches.
func (e entrant) start(ctx context.Context, b *testing.B, client kubernetes.Interface) *scheduler.Scheduler {
	b.Helper()
	factory := scheduler.NewInformerFactory(client, 0, nil)
	if e.state != nil {
		if err := e.state.Attach(ctx, client, factory); err != nil {
			b.Fatal(err)
		}
	}
	engine, err := scheduler.New(ctx, client, factory, nil, func(string) events.EventRecorderLogger { return silent{} },
		scheduler.WithProfiles(e.profiles...), scheduler.WithFrameworkOutOfTreeRegistry(e.registry),
		scheduler.WithPercentageOfNodesToScore(&e.percent))
	if err != nil {
		b.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := engine.WaitForHandlersSync(ctx); err != nil {
		b.Fatal(err)
	}
	return engine
}

type silent struct{ events.EventRecorderLogger }

func (s silent) WithLogger(klog.Logger) events.EventRecorderLogger { return s }

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

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
	var sum measured
	for b.Loop() {
		b.StopTimer()
		sum.add(measure(b, objs, pods, ours()))
		b.StartTimer()
	}
	b.ReportMetric(sum.rate(), "pods/s")
	b.ReportMetric(sum.p99(), "p99-ms")
	b.ReportMetric(sum.cpuEach(), "cpu-µs/pod")
}

// BenchmarkGangs: the same nodes, 2,000 pods in groups of 8 to 64.
func BenchmarkGangs(b *testing.B) {
	const pods = 2000
	objs := append(fleet(b, 5000, 4), gangs(pods)...)
	var sum measured
	for b.Loop() {
		b.StopTimer()
		sum.add(measure(b, objs, pods, ours()))
		b.StartTimer()
	}
	b.ReportMetric(sum.rate(), "pods/s")
	b.ReportMetric(sum.cpuEach(), "cpu-µs/pod")
}

// gangs are Jobs with their n waiting pods, all of them groups.
func gangs(n int) []runtime.Object {
	var out []runtime.Object
	sizes, cards := []int{8, 16, 64, 32}, []int64{4, 2, 1, 4}
	for i, left := 0, n; left > 0; i++ {
		size := min(sizes[i%len(sizes)], left)
		left -= size
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("gang-%d", i), UID: types.UID(fmt.Sprintf("gang-%d", i))}}
		job.Spec.Template.Labels = map[string]string{cfg.MinMemberLabel(): strconv.Itoa(size)}
		out = append(out, job)
		for k := range size {
			p := podObj(fmt.Sprintf("gang-%d-%d", i, k), limits{"nvidia": cards[i%len(cards)], "cpu": 4})
			p.Labels = job.Spec.Template.Labels
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
			out = append(out, p)
		}
	}
	return out
}

// BenchmarkAgainstStock places the same one-card pods with both profiles in
// one run, in turns; the ratio is ours over stock's.
func BenchmarkAgainstStock(b *testing.B) {
	const pods = 2000
	objs := with(fleet(b, 5000, 4), pods, wholeCards)
	var mine, theirs measured
	for b.Loop() {
		b.StopTimer()
		mine.add(measure(b, objs, pods, ours()))
		theirs.add(measure(b, objs, pods, stock(b)))
		b.StartTimer()
	}
	b.ReportMetric(mine.rate(), "pods/s")
	b.ReportMetric(theirs.rate(), "stock-pods/s")
	b.ReportMetric(mine.rate()/theirs.rate(), "ratio")
	b.ReportMetric(mine.cpuEach(), "cpu-µs/pod")
	b.ReportMetric(theirs.cpuEach(), "stock-cpu-µs/pod")
}

// BenchmarkGrowth: how much more a pod costs on 5,000 nodes than on 500, with
// every node looked at; 10 would be as much more as there are nodes.
func BenchmarkGrowth(b *testing.B) {
	const pods = 1000
	few := with(fleet(b, 500, 4), pods, wholeCards)
	many := with(fleet(b, 5000, 4), pods, wholeCards)
	var mine, theirs [2]measured
	for b.Loop() {
		b.StopTimer()
		for i, objs := range [][]runtime.Object{few, many} {
			mine[i].add(measure(b, objs, pods, ours().allNodes()))
			theirs[i].add(measure(b, objs, pods, stock(b).allNodes()))
		}
		b.StartTimer()
	}
	b.ReportMetric(mine[0].each(), "µs/pod-at-500")
	b.ReportMetric(mine[1].each(), "µs/pod-at-5000")
	b.ReportMetric(mine[1].each()/mine[0].each(), "times")
	b.ReportMetric(theirs[1].each()/theirs[0].each(), "stock-times")
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
