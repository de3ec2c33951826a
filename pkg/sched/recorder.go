package sched

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// Recorder adds to the engine's event about a placed pod which cards it got:
// an event of its own would be one more write for each pod.
func (s *State) Recorder(r events.EventRecorderLogger) events.EventRecorderLogger {
	return &recorder{r, s}
}

type recorder struct {
	events.EventRecorderLogger
	state *State
}

// WithLogger implements events.EventRecorderLogger.
func (r *recorder) WithLogger(l klog.Logger) events.EventRecorderLogger {
	return &recorder{r.EventRecorderLogger.WithLogger(l), r.state}
}

// Eventf implements events.EventRecorder.
func (r *recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if pod, ok := regarding.(*v1.Pod); ok && reason == "Scheduled" {
		if text := r.state.Summary(pod.UID); text != "" {
			note, args = note+": %s", append(args, text)
		}
	}
	r.EventRecorderLogger.Eventf(regarding, related, kind, reason, action, note, args...)
}
