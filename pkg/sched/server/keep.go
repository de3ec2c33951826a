package server

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"lj.aliyun.com/kit/pkg/sched"
)

// The keeper's requests a second: what it tells can wait, bindings cannot.
const (
	keeperQPS   = 100
	keeperBurst = 200
)

// newKeeper makes the keeper of groups, with a client of its own.
func newKeeper(cfg *rest.Config, state *sched.State, recorder events.EventRecorder) (*sched.Keeper, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = keeperQPS, keeperBurst
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return sched.NewKeeper(state, client, recorder, clock.RealClock{}), nil
}

// both runs two works side by side and returns when both have ended.
func both(a, b func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		done := make(chan struct{})
		go func() { defer close(done); b(ctx) }()
		a(ctx)
		<-done
	}
}
