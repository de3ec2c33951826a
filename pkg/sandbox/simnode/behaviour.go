package simnode

import (
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Annotations on a pod that say how its simulated containers behave.
const (
	// RunForAnnotation is how long the containers run, as a Go duration.
	// Without it they run until they are deleted.
	RunForAnnotation = "sandbox.lj.aliyun.com/run-for"
	// ExitCodeAnnotation is what they exit with then; 0 without it.
	ExitCodeAnnotation = "sandbox.lj.aliyun.com/exit-code"
	// StopAfterAnnotation is how long they take to end after SIGTERM; at the
	// end of the grace period they are killed. One second without it.
	StopAfterAnnotation = "sandbox.lj.aliyun.com/stop-after"
)

// behaviour is what the annotations of a pod ask for.
type behaviour struct {
	forever   bool
	runFor    time.Duration
	exitCode  int32
	stopAfter time.Duration
}

// behaviourOf reads the annotations. The error is a sentence for the user.
func behaviourOf(pod *v1.Pod) (behaviour, error) {
	b := behaviour{forever: true, stopAfter: time.Second}
	if s, ok := pod.Annotations[RunForAnnotation]; ok {
		d, err := duration(RunForAnnotation, s)
		if err != nil {
			return b, err
		}
		b.forever, b.runFor = false, d
	}
	if s, ok := pod.Annotations[StopAfterAnnotation]; ok {
		d, err := duration(StopAfterAnnotation, s)
		if err != nil {
			return b, err
		}
		b.stopAfter = d
	}
	if s, ok := pod.Annotations[ExitCodeAnnotation]; ok {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 0 || n > 255 {
			return b, fmt.Errorf("annotation %s: %.40q is no exit code from 0 to 255", ExitCodeAnnotation, s)
		}
		b.exitCode = int32(n)
	}
	return b, nil
}

func duration(key, s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("annotation %s: %.40q is no duration such as 30s or 5m", key, s)
	}
	return d, nil
}
