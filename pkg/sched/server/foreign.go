package server

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched/metrics"
)

// foreignEvery is how often pods of other schedulers are looked for.
const foreignEvery = 30 * time.Second

// foreignBurst bounds the events of one round; the others follow in the next.
const foreignBurst = 50

// foreigners reports pods that hold cards of our nodes without an allocation:
// each once, by an event and a line, while this process leads.
type foreigners struct {
	fleet    *metrics.Fleet
	leading  func() bool
	recorder events.EventRecorder
	reported map[types.UID]bool
}

// watch reports until ctx ends.
func (f *foreigners) watch(ctx context.Context) {
	tick := time.NewTicker(foreignEvery)
	defer tick.Stop()
	for {
		f.round(klog.FromContext(ctx))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (f *foreigners) round(logger klog.Logger) {
	if !f.leading() {
		return
	}
	count, err := f.fleet.Count()
	if err != nil {
		logger.Error(err, "Look for pods of other schedulers")
		return
	}
	still := make(map[types.UID]bool, len(count.Foreign))
	said := 0
	for _, p := range count.Foreign {
		if f.reported[p.Pod.UID] {
			still[p.Pod.UID] = true
			continue
		}
		if said++; said > foreignBurst {
			continue
		}
		still[p.Pod.UID] = true
		logger.Info("A pod holds cards that this scheduler did not give it, they are held by guess", "pod", klog.KObj(p.Pod),
			"node", p.Pod.Spec.NodeName, "schedulerName", p.Pod.Spec.SchedulerName, "why", p.Why)
		f.recorder.Eventf(p.Pod, nil, v1.EventTypeWarning, "ForeignGPUPod", "Audit",
			"%s; which cards it uses on node %s is a guess. Delete it and create it again with schedulerName: %s",
			p.Why, p.Pod.Spec.NodeName, kube.SchedulerName)
	}
	f.reported = still
}
