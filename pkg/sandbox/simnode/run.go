package simnode

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// stage is where a pod is in its life on the node.
type stage int

// The stages, in order. backoff goes back to running.
const (
	creating stage = iota // images, volumes, network: the waiting that users see
	initing               // init containers, one after the other
	running
	backoff // ended, waiting to be started again
	ended   // Succeeded or Failed
)

// Timing is how long the simulated parts of a pod's life take.
type Timing struct {
	Create time.Duration // from admission to the first container
	Init   time.Duration // each init container
	// BackOff is the pause before the second restart; it doubles up to
	// MaxBackOff. The first restart is at once, as kubelet's.
	BackOff    time.Duration
	MaxBackOff time.Duration
}

// DefaultTiming is quick, but slow enough to be seen, with kubelet's restarts.
func DefaultTiming() Timing {
	return Timing{Create: 300 * time.Millisecond, Init: 200 * time.Millisecond, BackOff: 10 * time.Second, MaxBackOff: 5 * time.Minute}
}

// exit is how the containers of a run ended.
type exit struct {
	code    int32
	reason  string
	message string
	at      time.Time
}

// run is what the kubelet remembers about one pod. step moves it on.
type run struct {
	stage    stage
	admitted time.Time
	since    time.Time // when the stage began
	initDone int
	restarts int32
	last     *exit // of the run before, or the final one

	behaviour  behaviour
	configErr  error // the annotations make no sense: the container is never created
	refusal    error // the runtime refuses the container
	rejected   *rejection
	deadline   bool // activeDeadlineSeconds passed
	terminated bool // ended by deletion
}

// step moves the run on to now and returns how long until it moves again; 0 if
// only an outside event moves it.
func (r *run) step(pod *v1.Pod, t Timing, now time.Time) time.Duration {
	for {
		wake, moved := r.once(pod, t, now)
		if !moved {
			return wake
		}
	}
}

// once makes at most one move.
func (r *run) once(pod *v1.Pod, t Timing, now time.Time) (time.Duration, bool) {
	if r.stage == ended {
		return 0, false
	}
	if at, ok := r.stopsAt(pod); ok {
		if wait := at.Sub(now); wait > 0 {
			return wait, false
		}
		r.stopped(pod, at)
		return 0, true
	}
	limit, limited := r.deadlineIn(pod, now)
	if limited && limit <= 0 {
		r.deadline = true
		r.finish(exit{code: 137, reason: "Error", at: now})
		return 0, true
	}
	wait, moved := r.live(pod, t, now)
	if limited && !moved && (wait == 0 || limit < wait) {
		wait = limit
	}
	return wait, moved
}

// live is the life of a pod that nobody ends.
func (r *run) live(pod *v1.Pod, t Timing, now time.Time) (time.Duration, bool) {
	switch r.stage {
	case creating:
		if r.configErr != nil {
			return 0, false // as kubelet: waits for a change that never comes
		}
		return r.after(t.Create, now, func(at time.Time) { r.enter(initing, at) })
	case initing:
		if r.initDone == len(pod.Spec.InitContainers) {
			r.begin(r.since)
			return 0, true
		}
		if r.refusal != nil {
			r.crash(pod, exit{code: 128, reason: "StartError", message: r.refusal.Error(), at: r.since})
			return 0, true
		}
		took := t.Init
		if isSidecar(&pod.Spec.InitContainers[r.initDone]) {
			took = 0
		}
		return r.after(took, now, func(at time.Time) { r.initDone++; r.since = at })
	case running:
		if r.refusal != nil {
			r.crash(pod, exit{code: 128, reason: "StartError", message: r.refusal.Error(), at: r.since})
			return 0, true
		}
		if r.behaviour.forever {
			return 0, false
		}
		return r.after(r.behaviour.runFor, now, func(at time.Time) { r.exited(pod, at) })
	case backoff:
		return r.after(t.pause(r.restarts), now, func(at time.Time) { r.restarts++; r.begin(at) })
	}
	return 0, false
}

// after moves on when d has passed since the stage began.
func (r *run) after(d time.Duration, now time.Time, move func(at time.Time)) (time.Duration, bool) {
	at := r.since.Add(d)
	if wait := at.Sub(now); wait > 0 {
		return wait, false
	}
	move(at)
	return 0, true
}

func (r *run) enter(s stage, at time.Time) { r.stage, r.since = s, at }

func (r *run) begin(at time.Time) { r.enter(running, at) }

// exited ends the containers as their annotations say.
func (r *run) exited(pod *v1.Pod, at time.Time) {
	e := exit{code: r.behaviour.exitCode, reason: "Completed", at: at}
	if e.code != 0 {
		e.reason = "Error"
	}
	r.crash(pod, e)
}

// crash ends the containers; the restart policy decides what follows.
func (r *run) crash(pod *v1.Pod, e exit) {
	again := pod.Spec.RestartPolicy == v1.RestartPolicyAlways ||
		pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure && e.code != 0
	if !again {
		r.finish(e)
		return
	}
	r.last = &e
	r.enter(backoff, e.at)
}

func (r *run) finish(e exit) {
	r.last = &e
	r.enter(ended, e.at)
}

// pause is the wait before restart n+1.
func (t Timing) pause(restarts int32) time.Duration {
	if restarts == 0 {
		return 0
	}
	d := t.BackOff
	for range restarts - 1 {
		if d *= 2; d >= t.MaxBackOff {
			return t.MaxBackOff
		}
	}
	return d
}

// stopsAt is when a deleted pod's containers are gone.
func (r *run) stopsAt(pod *v1.Pod) (time.Time, bool) {
	if pod.DeletionTimestamp == nil {
		return time.Time{}, false
	}
	end := pod.DeletionTimestamp.Time
	if r.stage != running {
		return r.since, true // nothing runs, nothing to wait for
	}
	asked := end
	if g := pod.DeletionGracePeriodSeconds; g != nil {
		asked = end.Add(-time.Duration(*g) * time.Second)
	}
	if at := asked.Add(r.behaviour.stopAfter); at.Before(end) {
		return at, true
	}
	return end, true
}

func (r *run) stopped(pod *v1.Pod, at time.Time) {
	r.terminated = true
	e := exit{code: 143, reason: "Error", at: at} // SIGTERM
	if !at.Before(pod.DeletionTimestamp.Time) {
		e.code = 137 // SIGKILL
	}
	r.finish(e)
}

func (r *run) deadlineIn(pod *v1.Pod, now time.Time) (time.Duration, bool) {
	s := pod.Spec.ActiveDeadlineSeconds
	if s == nil {
		return 0, false
	}
	return r.admitted.Add(time.Duration(*s) * time.Second).Sub(now), true
}
