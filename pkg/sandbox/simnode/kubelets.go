package simnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"lj.aliyun.com/kit/pkg/core/config"
)

// Options say how the kubelets behave.
type Options struct {
	Client kubernetes.Interface
	Config config.Config
	Timing Timing
	// Heartbeat is how often each node's lease is renewed; HeartbeatEvery of
	// the number of nodes if it is 0.
	Heartbeat time.Duration
	// Workers handle pods at the same time; 8 if it is 0.
	Workers int
	Clock   clock.WithTicker
}

// HeartbeatEvery keeps the renewals of all nodes together below 25 a second:
// on one machine they would eat a large fleet's time.
func HeartbeatEvery(nodes int) time.Duration {
	return max(10*time.Second, time.Duration(nodes)*time.Second/25)
}

// Kubelets plays the kubelets of all nodes that were added to it.
type Kubelets struct {
	opts     Options
	clock    clock.WithTicker
	pods     corelisters.PodLister
	nodes    corelisters.NodeLister
	synced   []cache.InformerSynced
	factory  []informers.SharedInformerFactory
	queue    workqueue.TypedRateLimitingInterface[string]
	recorder record.EventRecorder
	events   record.EventBroadcaster

	mu     sync.Mutex
	byName map[string]*nodeState
	order  []*nodeState
	runs   map[string]*tracked // by namespace/name
	podIPs uint32

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// nodeState is the ledger of one node.
type nodeState struct {
	name  string
	ip    string
	ready bool
	lease leaseState
	held  map[types.UID]holding
}

// holding is what an admitted pod takes of its node.
type holding struct {
	demand demand
	uses   map[string]use
}

// tracked is a run with its place and what was reported of it.
type tracked struct {
	run
	uid      types.UID
	node     *nodeState
	host     host
	reported *v1.PodStatus
}

// New makes kubelets without nodes. Run starts them.
func New(o Options) *Kubelets {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Workers == 0 {
		o.Workers = 8
	}
	if o.Timing == (Timing{}) {
		o.Timing = DefaultTiming()
	}
	bound := informers.NewSharedInformerFactoryWithOptions(o.Client, 0, informers.WithTransform(trim),
		informers.WithTweakListOptions(func(l *metav1.ListOptions) {
			l.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}))
	all := informers.NewSharedInformerFactoryWithOptions(o.Client, 0, informers.WithTransform(trim))
	k := &Kubelets{
		opts: o, clock: o.Clock,
		pods: bound.Core().V1().Pods().Lister(), nodes: all.Core().V1().Nodes().Lister(),
		factory: []informers.SharedInformerFactory{bound, all},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 10*time.Second),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "simulated_kubelets", Clock: o.Clock}),
		byName: map[string]*nodeState{}, runs: map[string]*tracked{},
		events: record.NewBroadcaster(),
	}
	k.recorder = k.events.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet"})
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			k.queue.Add(key)
		}
	}
	inf := bound.Core().V1().Pods().Informer()
	reg, _ := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue,
	})
	k.synced = []cache.InformerSynced{reg.HasSynced, all.Core().V1().Nodes().Informer().HasSynced}
	return k
}

// trim drops what nothing here reads and what is most of an object's memory.
func trim(obj any) (any, error) {
	if m, ok := obj.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return obj, nil
}

// Run starts the kubelets and returns once they know the cluster's state. They
// work until Stop.
func (k *Kubelets) Run(ctx context.Context) error {
	runCtx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	k.events.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: k.opts.Client.CoreV1().Events("")})
	for _, f := range k.factory {
		f.StartWithContext(runCtx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), k.synced...) {
		k.Stop()
		return errors.New("simulated kubelets: pods and nodes could not be listed in time")
	}
	for range k.opts.Workers {
		k.wg.Go(func() {
			for k.next(runCtx) {
			}
		})
	}
	k.wg.Go(func() { k.heartbeats(runCtx) })
	return nil
}

// Stop ends the kubelets. Nodes and pods stay as they are.
func (k *Kubelets) Stop() {
	if k.cancel != nil {
		k.cancel()
	}
	k.queue.ShutDown()
	k.events.Shutdown()
	k.wg.Wait()
	for _, f := range k.factory {
		f.Shutdown()
	}
}

// Add registers nodes and keeps them alive from now on. With ready false a
// node is registered, but its kubelet never answers.
func (k *Kubelets) Add(ctx context.Context, nodes []*v1.Node, ready func(name string) bool) error {
	states := make([]*nodeState, len(nodes))
	k.mu.Lock()
	for i, n := range nodes {
		if _, ok := k.byName[n.Name]; ok {
			k.mu.Unlock()
			return fmt.Errorf("node %s is already simulated", n.Name)
		}
		index := len(k.order)
		states[i] = &nodeState{name: n.Name, ip: fmt.Sprintf("10.64.%d.%d", index/250, index%250+1), ready: ready(n.Name), held: map[types.UID]holding{}}
		k.byName[n.Name] = states[i]
		k.order = append(k.order, states[i])
	}
	k.mu.Unlock()
	return inParallel(ctx, 16, len(nodes), func(i int) error {
		return k.register(ctx, states[i], nodes[i].DeepCopy())
	})
}

// inParallel calls f for 0..n-1, some at a time, and returns the first error.
func inParallel(ctx context.Context, workers, n int, f func(int) error) error {
	var wg sync.WaitGroup
	next := make(chan int)
	errs := make(chan error, n)
	for range min(workers, n) {
		wg.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					errs <- err
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return ctx.Err()
	}
}

func (k *Kubelets) next(ctx context.Context) bool {
	key, quit := k.queue.Get()
	if quit {
		return false
	}
	defer k.queue.Done(key)
	wake, err := k.sync(ctx, key)
	if err != nil {
		if ctx.Err() == nil {
			k.queue.AddRateLimited(key)
		}
		return true
	}
	k.queue.Forget(key)
	if wake > 0 {
		k.queue.AddAfter(key, wake)
	}
	return true
}
