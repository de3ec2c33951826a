package simnode

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// host is where a pod runs, for its status.
type host struct {
	nodeIP string
	podIP  string
}

// status is what the kubelet reports about the pod in this run. base is the
// status that it reported last, or the object's; conditions of others in it
// are kept.
func (r *run) status(pod *v1.Pod, base *v1.PodStatus, h host) *v1.PodStatus {
	s := base.DeepCopy()
	s.Phase = r.phase()
	if r.rejected != nil {
		s.Reason, s.Message = r.rejected.Reason, r.rejected.Message
		return s
	}
	if r.deadline {
		s.Reason, s.Message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
	}
	s.HostIP = h.nodeIP
	s.HostIPs = []v1.HostIP{{IP: h.nodeIP}}
	start := metav1.NewTime(r.admitted)
	s.StartTime = &start
	s.QOSClass = base.QOSClass
	if r.stage != creating {
		ip := h.podIP
		if pod.Spec.HostNetwork {
			ip = h.nodeIP
		}
		s.PodIP, s.PodIPs = ip, []v1.PodIP{{IP: ip}}
	}
	s.InitContainerStatuses = r.initStatuses(pod)
	s.ContainerStatuses = r.appStatuses(pod)
	r.conditions(pod, s)
	return s
}

func (r *run) phase() v1.PodPhase {
	switch {
	case r.rejected != nil:
		return v1.PodFailed
	case r.stage == ended && r.last.code == 0 && !r.deadline:
		return v1.PodSucceeded
	case r.stage == ended:
		return v1.PodFailed
	case r.stage == running || r.stage == backoff:
		return v1.PodRunning
	}
	return v1.PodPending
}

func (r *run) appStatuses(pod *v1.Pod) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		st := r.blank(pod, c)
		switch r.stage {
		case creating, initing:
			st.State.Waiting = r.waiting()
		case running:
			st.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(r.since)}
			st.Ready, *st.Started = true, true
		case backoff:
			st.State.Waiting = &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
				Message: fmt.Sprintf("back-off restarting failed container %s in pod %s", c.Name, pod.Name)}
		case ended:
			st.State.Terminated = r.terminatedState(pod, c, r.last)
		}
		if r.last != nil && r.stage != ended {
			st.LastTerminationState.Terminated = r.terminatedState(pod, c, r.last)
		}
		out = append(out, st)
	}
	return out
}

func (r *run) waiting() *v1.ContainerStateWaiting {
	if r.configErr != nil {
		return &v1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: r.configErr.Error()}
	}
	if r.stage == initing {
		return &v1.ContainerStateWaiting{Reason: "PodInitializing"}
	}
	return &v1.ContainerStateWaiting{Reason: "ContainerCreating"}
}

func (r *run) initStatuses(pod *v1.Pod) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		st := r.blank(pod, c)
		st.RestartCount = 0
		sidecar, done := isSidecar(c), i < r.initDone
		switch {
		case r.refusal != nil && i == r.initDone && r.last != nil:
			st.State.Terminated = r.terminatedState(pod, c, r.last)
		case sidecar && done && r.stage == ended:
			st.State.Terminated = r.terminatedState(pod, c, &exit{reason: "Completed", at: r.since})
		case sidecar && done:
			st.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(r.admitted)}
			st.Ready, *st.Started = true, true
		case done:
			st.State.Terminated = r.terminatedState(pod, c, &exit{reason: "Completed", at: r.admitted})
			st.Ready = true
		case r.stage == initing && i == r.initDone:
			st.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(r.since)}
			*st.Started = true
		default:
			st.State.Waiting = &v1.ContainerStateWaiting{Reason: "PodInitializing"}
		}
		out = append(out, st)
	}
	return out
}

func (r *run) blank(pod *v1.Pod, c *v1.Container) v1.ContainerStatus {
	started := false
	return v1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: "simulated", RestartCount: r.restarts, Started: &started,
		ContainerID: containerID(pod, c),
	}
}

func containerID(pod *v1.Pod, c *v1.Container) string {
	return fmt.Sprintf("ljsandbox://%s/%s", pod.UID, c.Name)
}

func (r *run) terminatedState(pod *v1.Pod, c *v1.Container, e *exit) *v1.ContainerStateTerminated {
	started := r.admitted
	if e.at.Before(started) {
		started = e.at
	}
	return &v1.ContainerStateTerminated{
		ExitCode: e.code, Reason: e.reason, Message: e.message,
		StartedAt: metav1.NewTime(started), FinishedAt: metav1.NewTime(e.at), ContainerID: containerID(pod, c),
	}
}

// conditions sets those that kubelet owns.
func (r *run) conditions(pod *v1.Pod, s *v1.PodStatus) {
	yes := func(b bool) v1.ConditionStatus {
		if b {
			return v1.ConditionTrue
		}
		return v1.ConditionFalse
	}
	initialized := r.initDone == len(pod.Spec.InitContainers)
	ready := r.stage == running
	reason := ""
	switch {
	case r.stage == ended && s.Phase == v1.PodSucceeded:
		reason = "PodCompleted"
	case r.stage == ended:
		reason = "PodFailed"
	case !ready:
		reason = "ContainersNotReady"
	}
	at := r.since
	set(s, v1.PodReadyToStartContainers, yes(r.stage != creating && r.stage != ended), "", at)
	if initialized {
		set(s, v1.PodInitialized, v1.ConditionTrue, "", at)
	} else {
		set(s, v1.PodInitialized, v1.ConditionFalse, "ContainersNotInitialized", at)
	}
	set(s, v1.ContainersReady, yes(ready), reason, at)
	set(s, v1.PodReady, yes(ready && gatesOpen(pod, s)), reason, at)
}

// gatesOpen tells whether the conditions that the pod's readiness waits for
// are true.
func gatesOpen(pod *v1.Pod, s *v1.PodStatus) bool {
	for _, g := range pod.Spec.ReadinessGates {
		open := false
		for _, c := range s.Conditions {
			open = open || c.Type == g.ConditionType && c.Status == v1.ConditionTrue
		}
		if !open {
			return false
		}
	}
	return true
}

func set(s *v1.PodStatus, kind v1.PodConditionType, status v1.ConditionStatus, reason string, at time.Time) {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == kind {
			if c.Status != status {
				c.LastTransitionTime = metav1.NewTime(at)
			}
			c.Status, c.Reason, c.Message = status, reason, ""
			return
		}
	}
	s.Conditions = append(s.Conditions, v1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(at)})
}
