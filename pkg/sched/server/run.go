package server

import (
	"context"
	"fmt"
	"runtime"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	baseversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/utils/clock"

	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched"
	"lj.aliyun.com/kit/pkg/sched/decisionlog"
	"lj.aliyun.com/kit/pkg/sched/metrics"
)

// Options are what an administrator chooses on the command line. What the
// whole cluster must agree on is in the ConfigMap instead.
type Options struct {
	// Kubeconfig is a file; empty is the service account of the pod.
	Kubeconfig string
	// LeaderElect lets several copies run, of which one works.
	LeaderElect bool
	// BindAddress and SecurePort are where health and metrics are served;
	// port 0 serves nothing.
	BindAddress string
	SecurePort  int
	// Policies are put over those of the cluster's settings where they are set.
	Policies sched.Args
	// UserAgent names the program to the API server.
	UserAgent string
	// Version is that of the program, for the log and the metrics.
	Version string
}

// DefaultPort differs from kube-scheduler's 10259, beside which the scheduler
// may run in the host network.
const DefaultPort = 10279

// The client's own limits. The stock 50 and 100 requests a second would cap
// the scheduler at about 40 pods a second, since each takes a Binding and an
// event; the API server's priority and fairness is the limit that counts.
const (
	qps   = 1000
	burst = 2000
)

// candidates is how many nodes a pod with cards passes to the other filters
// and scores at first. Up to 100 the engine never samples
// (minFeasibleNodesToFind), so the best nodes for cards are all compared.
const candidates = 100

// Run schedules until ctx ends, and returns nil then. It returns an error if
// it cannot start, or has lost its lease: the process must end in both cases,
// since what it remembers may be out of date.
func Run(ctx context.Context, o Options) error {
	logger := klog.FromContext(ctx)
	logger.Info("Starting", "scheduler", kube.SchedulerName, "version", o.Version, "engine", engineVersion(), "go", runtime.Version())
	if err := sched.ApplyGates(); err != nil {
		return err
	}
	if err := sched.CheckProfiles(); err != nil {
		return err
	}
	cfg, err := restConfig(o)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if err := reachable(ctx, client, cfg.Host); err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	broadcaster, err := newBroadcaster(ctx, cfg)
	if err != nil {
		return err
	}
	defer broadcaster.Shutdown()

	state := sched.NewState(firstConfig(ctx, client))
	state.NarrowTo(candidates)
	state.LogTo(decisionlog.New(clock.RealClock{}))
	watchConfig(ctx, client, state, broadcaster.NewRecorder(scheme.Scheme, kube.SchedulerName))
	if err := watchNetwork(ctx, cfg, state); err != nil {
		return err
	}
	engine, factory, err := newEngine(ctx, o, client, cfg, state, func(name string) events.EventRecorderLogger {
		return state.Recorder(broadcaster.NewRecorder(scheme.Scheme, name))
	})
	if err != nil {
		return err
	}
	lead, err := newLeader(client, o.LeaderElect)
	if err != nil {
		return err
	}
	state.Fence(lead.may)
	fleet := metrics.NewFleet(factory.Core().V1().Nodes().Lister(), factory.Core().V1().Pods().Lister(), state.Config, clock.RealClock{})
	keeper, err := newKeeper(cfg, state, broadcaster.NewRecorder(scheme.Scheme, kube.SchedulerName))
	if err != nil {
		return err
	}
	ready := &readiness{}
	stopServing, err := serve(o, cfg, ready, lead, metrics.NewRegistry(metrics.Sources{Version: o.Version, Fleet: fleet, Leading: lead.leading.Load, Gangs: keeper.Phases}))
	if err != nil {
		return err
	}
	defer stopServing()
	context.AfterFunc(ctx, ready.stop)

	if err := start(ctx, factory, engine); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	ready.synced()
	logger.Info("Ready", "scheduler", kube.SchedulerName, "leaderElection", o.LeaderElect)
	foreign := &foreigners{fleet: fleet, leading: lead.leading.Load, recorder: broadcaster.NewRecorder(scheme.Scheme, kube.SchedulerName)}
	watching := make(chan struct{})
	go func() { defer close(watching); foreign.watch(ctx) }()
	defer func() { cancel(); <-watching }()
	return lead.run(ctx, both(engine.Run, keeper.Run))
}

// engineVersion is that of the linked Kubernetes packages.
func engineVersion() string { return baseversion.Get().GitVersion }

func restConfig(o Options) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	cfg.QPS, cfg.Burst = qps, burst
	cfg.UserAgent = o.UserAgent
	cfg.DisableCompression = true // CPU of the API server for a local network
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.Wrap(newShim)
	return cfg, nil
}

// reachable asks the API server for its version, so that a wrong address or
// credential is one sentence and not an informer that never fills.
func reachable(ctx context.Context, client kubernetes.Interface, host string) error {
	logger := klog.FromContext(ctx)
	var err error
	for try := range 15 {
		v, e := client.Discovery().ServerVersion()
		if e == nil {
			missing, err := absent(client.Discovery())
			if err != nil {
				return err
			}
			logger.Info("Connected", "server", host, "version", v.GitVersion, "absentCollections", missing)
			return nil
		}
		if err = e; try == 0 {
			logger.Info("The API server does not answer yet", "server", host, "err", e)
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("API server %s: %w", host, err)
}

// newBroadcaster writes events through a client with limits of its own, so
// that they never delay bindings.
func newBroadcaster(ctx context.Context, cfg *rest.Config) (events.EventBroadcaster, error) {
	client, err := kubernetes.NewForConfig(rest.CopyConfig(cfg))
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	b := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := b.StartRecordingToSinkWithContext(ctx); err != nil {
		b.Shutdown()
		return nil, fmt.Errorf("events: %w", err)
	}
	return b, nil
}

func newEngine(ctx context.Context, o Options, client kubernetes.Interface, cfg *rest.Config, state *sched.State,
	recorders func(string) events.EventRecorderLogger) (*scheduler.Scheduler, informers.SharedInformerFactory, error) {
	profiles, err := o.Policies.In(sched.Profiles())
	if err != nil {
		return nil, nil, err
	}
	factory := scheduler.NewInformerFactory(client, 0, nil)
	if err := state.Attach(ctx, client, factory); err != nil {
		return nil, nil, err
	}
	engine, err := scheduler.New(ctx, newLaterStatus(ctx, client), factory, nil, recorders,
		scheduler.WithKubeConfig(cfg),
		scheduler.WithComponentConfigVersion("kubescheduler.config.k8s.io/v1"),
		scheduler.WithProfiles(profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(sched.NewRegistry(state)))
	if err != nil {
		return nil, nil, fmt.Errorf("scheduler engine: %w", err)
	}
	return engine, factory, nil
}

// start fills the caches. The engine's own handlers must have drained the
// first lists before the first cycle, or nodes would look empty.
func start(ctx context.Context, factory informers.SharedInformerFactory, engine *scheduler.Scheduler) error {
	logger := klog.FromContext(ctx)
	factory.Start(ctx.Done())
	for {
		round, cancel := context.WithTimeout(ctx, 10*time.Second)
		var missing []string
		for kind, ok := range factory.WaitForCacheSync(round.Done()) {
			if !ok {
				missing = append(missing, kind.String())
			}
		}
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(missing) == 0 {
			break
		}
		sort.Strings(missing)
		logger.Info("Still waiting for the first lists; the lines above tell what the API server refuses", "kinds", missing)
	}
	return engine.WaitForHandlersSync(ctx)
}

// configRef is the object on which people find that the settings cannot be read.
var configRef = &v1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: kube.Namespace, Name: kube.ConfigMap}
