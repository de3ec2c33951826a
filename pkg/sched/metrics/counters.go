package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"lj.aliyun.com/kit/pkg/core/reason"
)

// Counters of the process. They only grow, from 0 at its start.
var (
	// BindingRetries counts the attempts after the first to write a Binding.
	BindingRetries = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lj_binding_retries_total",
		Help: "Attempts after the first to write a Binding whose outcome was unknown.",
	})
	// FenceRefusals counts the bindings that were held back because the
	// process no longer held its lease.
	FenceRefusals = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lj_fence_refusals_total",
		Help: "Bindings that were not written because the process was not, or no longer, the leader.",
	})
	refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lj_refusals_total",
		Help: "Scheduling attempts that ended in a refusal over cards, by the code of the deciding reason.",
	}, []string{"code"})
)

// CountRefusal counts a pod that no node took. The codes are a closed list,
// and so are the series.
func CountRefusal(code reason.Code) { refusals.WithLabelValues(string(code)).Inc() }
