package decisionlog

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/topo"
	"lj.aliyun.com/kit/pkg/sched/metrics"
)

// How many refusals are written a second, and at once after a quiet time.
const (
	rate  = 20
	burst = 200
)

// maxWaiting bounds the memory for pods that wait. Beyond it all are
// forgotten: attempts count from 1 again, and a refusal may be written twice.
const maxWaiting = 1 << 16

// verbosity is that of refusals.
const verbosity = 2

// Log writes decisions. A nil Log writes and counts nothing: what-if questions
// are no decisions. It is safe for concurrent use.
type Log struct {
	clock clock.PassiveClock
	limit flowcontrol.PassiveRateLimiter

	mu         sync.Mutex
	waiting    map[types.UID]waiting
	suppressed int
}

// waiting is a pod that was refused.
type waiting struct {
	attempts int
	said     reason.Code // the last that was written
}

// New returns a Log.
func New(c clock.PassiveClock) *Log {
	return &Log{clock: c, waiting: map[types.UID]waiting{}, limit: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(rate, burst, c)}
}

// Placed writes that the pod is bound and to which cards. It is to be called
// once, after the API server has taken the Binding.
func (l *Log) Placed(logger klog.Logger, pod *v1.Pod, a *device.Allocation) {
	if l == nil || a == nil {
		return
	}
	l.mu.Lock()
	attempt := l.waiting[pod.UID].attempts + 1
	delete(l.waiting, pod.UID)
	l.mu.Unlock()
	kv := append(l.about(pod), "node", a.Node, "attempt", attempt, "cards", cards(a))
	if len(a.NICs) > 0 {
		nics, tier := fabric(a.NICs)
		kv = append(kv, "nics", nics, "tier", tier)
	}
	if g := a.Gang; g != nil {
		kv = append(kv, "gang", g.ID, "gangSize", g.Size, "gangRound", g.Round)
	}
	logger.Info("Placed", kv...)
}

// Refused writes why no node takes the pod now: the reasons of the nearest
// node, or of the pod itself where node is empty, most important first; gang
// is the id of its group or empty. It is to be called once for each attempt.
func (l *Log) Refused(logger klog.Logger, pod *v1.Pod, gang, node string, why []reason.Reason) {
	if l == nil || len(why) == 0 {
		return
	}
	metrics.CountRefusal(why[0].Code)
	logger = logger.V(verbosity)
	attempt, suppressed, say := l.refuse(pod.UID, why[0].Code, logger.Enabled())
	if !say {
		return
	}
	texts := make([]string, len(why))
	for i, r := range why {
		texts[i] = r.Sentence()
	}
	kv := append(l.about(pod), "attempt", attempt, "code", why[0].Code, "why", texts)
	if r := why[0]; r.Want != 0 || r.Free != 0 || r.Total != 0 {
		kv = append(kv, "want", r.Want, "free", r.Free, "total", r.Total, "unit", r.Unit)
	}
	for _, o := range []struct{ key, value string }{{"device", why[0].Device}, {"closestNode", node}, {"gang", gang}} {
		if o.value != "" {
			kv = append(kv, o.key, o.value)
		}
	}
	if suppressed > 0 {
		kv = append(kv, "suppressed", suppressed)
	}
	logger.Info("Refused", kv...)
}

// refuse counts the attempt and tells whether the line is to be written, and
// how many were left out since the last one.
func (l *Log) refuse(pod types.UID, code reason.Code, enabled bool) (attempt, suppressed int, say bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= maxWaiting {
		clear(l.waiting)
	}
	w := l.waiting[pod]
	w.attempts++
	if enabled && w.said != code {
		if say = l.limit.TryAccept(); say {
			w.said, suppressed, l.suppressed = code, l.suppressed, 0
		} else {
			l.suppressed++
		}
	}
	l.waiting[pod] = w
	return w.attempts, suppressed, say
}

// Forget drops a pod that is gone.
func (l *Log) Forget(pod types.UID) {
	if l == nil {
		return
	}
	l.mu.Lock()
	delete(l.waiting, pod)
	l.mu.Unlock()
}

func (l *Log) about(pod *v1.Pod) []any {
	age := l.clock.Since(pod.CreationTimestamp.Time).Round(time.Millisecond)
	return []any{"pod", klog.KObj(pod), "uid", pod.UID, "ageSeconds", age.Seconds()}
}

// cards describes what each container gets: "worker: GPU-… whole".
func cards(a *device.Allocation) []string {
	var out []string
	for _, name := range a.Names() {
		for _, g := range a.Containers[name] {
			out = append(out, name+": "+g.Card+" "+amount(g))
		}
	}
	return out
}

func amount(g device.Grant) string {
	switch {
	case g.Whole:
		return "whole"
	case g.MIG != "":
		if g.Start == nil {
			return g.MIG
		}
		return fmt.Sprintf("%s@%d", g.MIG, *g.Start)
	}
	parts := []string{"share"}
	if g.Core != nil {
		parts = append(parts, fmt.Sprintf("core=%d%%", *g.Core))
	}
	if g.MemMiB != nil {
		parts = append(parts, fmt.Sprintf("memory=%dMiB", *g.MemMiB))
	}
	return strings.Join(parts, " ")
}

// fabric lists the NICs, and the worst tier between a card and its NIC.
func fabric(nics []device.NICGrant) (list []string, worst string) {
	order := topo.Tiers()
	rank := func(tier string) int {
		return slices.IndexFunc(order, func(t topo.Tier) bool { return t.String() == tier })
	}
	for _, n := range nics {
		list = append(list, strings.TrimSpace(n.PCI+" "+n.Tier))
		if rank(n.Tier) > rank(worst) {
			worst = n.Tier
		}
	}
	return list, worst
}
