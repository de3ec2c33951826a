package sched

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/sched/metrics"
)

func TestRareActsAreCounted(t *testing.T) {
	retries, held := testutil.ToFloat64(metrics.BindingRetries), testutil.ToFloat64(metrics.FenceRefusals)
	state := NewState(cfg)
	var asked, tries atomic.Int32
	state.Fence(func() error {
		if asked.Add(1) == 1 {
			return errors.New("the lease is lost")
		}
		return nil
	})
	r := newRig(t, state, oneNode(t, 1)...)
	r.onBind(func(*v1.Binding) error {
		if tries.Add(1) == 1 {
			return errors.New("connection reset by peer")
		}
		return nil
	})
	r.add(podObj("a", limits{"nvidia": 1}))
	r.bound("a")
	if n := testutil.ToFloat64(metrics.FenceRefusals) - held; n != 1 {
		t.Errorf("%v bindings were counted as held back, want 1", n)
	}
	if n := testutil.ToFloat64(metrics.BindingRetries) - retries; n != 1 {
		t.Errorf("%v attempts were counted as tried again, want 1", n)
	}
}
