package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/kube"
)

// The stock times. Renewal gives up well before the lease ends, so that the
// old leader has stopped when the new one starts: two at once could give one
// card to two pods (the node's runtime would refuse the second).
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// stopWait bounds how long the end waits for the engine's loop.
const stopWait = 10 * time.Second

// lossCheck is how often a leader looks whether it still is one. The elector
// itself goes on asking for the lease for renewDeadline after it was lost.
const lossCheck = 250 * time.Millisecond

// leader runs the engine while this process holds the Lease.
type leader struct {
	lock    resourcelock.Interface // nil: no election
	health  *leaderelection.HealthzAdaptor
	leading atomic.Bool
	elector atomic.Pointer[leaderelection.LeaderElector]
}

var errNotLeading = errors.New("this process does not hold the lease " + kube.Namespace + "/" + kube.SchedulerLease)

// may tells whether the process may write decisions at this moment. One that
// was stopped for longer than the lease lasts wakes up as if it still led:
// until the elector has noticed, only the age of the last renewal can tell.
func (l *leader) may() error {
	if l.lock == nil {
		return nil
	}
	if e := l.elector.Load(); e == nil || !e.IsLeader() || e.Check(renewDeadline-leaseDuration) != nil {
		return errNotLeading
	}
	return nil
}

func newLeader(client kubernetes.Interface, elect bool) (*leader, error) {
	if !elect {
		return &leader{}, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("leader election: host name: %w", err)
	}
	return &leader{
		lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: kube.Namespace, Name: kube.SchedulerLease},
			Client:    client.CoordinationV1(),
			// Two processes of one host must not both become active.
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		health: leaderelection.NewLeaderHealthzAdaptor(20 * time.Second),
	}, nil
}

// run calls work while leading. It returns nil once ctx has ended, after work
// has returned and the lease was given back, so that the next leader starts
// at once and never beside this one.
func (l *leader) run(ctx context.Context, work func(context.Context)) error {
	working, stopWork := context.WithCancel(ctx)
	defer stopWork()
	if l.lock == nil {
		l.leading.Store(true)
		work(working)
		return nil
	}
	holding, giveBack := context.WithCancel(context.WithoutCancel(ctx))
	defer giveBack()
	begun, done := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l.lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true, WatchDog: l.health, Name: kube.SchedulerName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				l.leading.Store(true)
				close(begun)
				defer close(done)
				work(working)
			},
			OnStoppedLeading: func() { l.leading.Store(false) },
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	l.elector.Store(elector)
	// On the signal: first the loop ends, then the lease goes back.
	stop := context.AfterFunc(ctx, func() {
		stopWork()
		select {
		case <-begun:
			waitFor(ctx, done)
		default:
		}
		giveBack()
	})
	defer stop()
	ended := make(chan struct{})
	go func() { defer close(ended); elector.Run(holding) }()
	l.untilLost(ctx, elector, begun, ended)
	if ctx.Err() != nil {
		<-ended
		return nil
	}
	stopWork()
	waitFor(ctx, done)
	return errors.New("lost the lease " + kube.Namespace + "/" + kube.SchedulerLease + ": another process leads, or the API server was away too long")
}

// untilLost returns when the elector has ended, or when it sees that another
// process leads.
func (l *leader) untilLost(ctx context.Context, e *leaderelection.LeaderElector, begun, ended <-chan struct{}) {
	select {
	case <-begun:
	case <-ended:
		return
	}
	tick := time.NewTicker(lossCheck)
	defer tick.Stop()
	for e.IsLeader() || ctx.Err() != nil {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
	}
}

func waitFor(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(stopWait):
		klog.FromContext(ctx).Info("The scheduling loop did not end in time, ending without it")
	}
}
