package simnode

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	zero   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	timing = Timing{Create: time.Second, Init: 2 * time.Second, BackOff: 10 * time.Second, MaxBackOff: 40 * time.Second}
)

// at is what is seen of a run at some second of its life.
type at struct {
	Second   int
	Phase    v1.PodPhase
	State    string // of the first container
	Restarts int32
	Wake     int // seconds until the next move
}

func look(r *run, pod *v1.Pod, second int) at {
	now := zero.Add(time.Duration(second) * time.Second)
	wake := r.step(pod, timing, now)
	s := r.status(pod, &v1.PodStatus{}, host{nodeIP: "10.64.0.1", podIP: "10.128.0.1"})
	st := s.ContainerStatuses[0]
	state := ""
	switch {
	case st.State.Waiting != nil:
		state = st.State.Waiting.Reason
	case st.State.Running != nil:
		state = "Running"
	case st.State.Terminated != nil:
		state = st.State.Terminated.Reason
	}
	return at{second, s.Phase, state, st.RestartCount, int(wake / time.Second)}
}

func podWith(policy v1.RestartPolicy, annotations map[string]string, inits ...v1.Container) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u", Annotations: annotations},
		Spec: v1.PodSpec{NodeName: "node", RestartPolicy: policy, InitContainers: inits,
			Containers: []v1.Container{{Name: "app", Image: "image"}}},
	}
}

func newRun(pod *v1.Pod) *run {
	r := &run{admitted: zero, since: zero}
	r.behaviour, r.configErr = behaviourOf(pod)
	return r
}

func TestRunGoesThroughItsPhases(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	runFor := func(d, code string) map[string]string {
		return map[string]string{RunForAnnotation: d, ExitCodeAnnotation: code}
	}
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want []at
	}{
		"to success": {podWith(v1.RestartPolicyNever, runFor("5s", "0")), []at{
			{0, v1.PodPending, "ContainerCreating", 0, 1}, {1, v1.PodRunning, "Running", 0, 5}, {6, v1.PodSucceeded, "Completed", 0, 0}}},
		"to failure": {podWith(v1.RestartPolicyNever, runFor("5s", "3")), []at{
			{1, v1.PodRunning, "Running", 0, 5}, {6, v1.PodFailed, "Error", 0, 0}}},
		"forever": {podWith(v1.RestartPolicyNever, nil), []at{{1, v1.PodRunning, "Running", 0, 0}, {9999, v1.PodRunning, "Running", 0, 0}}},
		"success ends OnFailure": {podWith(v1.RestartPolicyOnFailure, runFor("5s", "0")), []at{
			{6, v1.PodSucceeded, "Completed", 0, 0}}},
		"failure restarts OnFailure, first at once, then after growing pauses": {podWith(v1.RestartPolicyOnFailure, runFor("5s", "1")), []at{
			{6, v1.PodRunning, "Running", 1, 5}, {11, v1.PodRunning, "CrashLoopBackOff", 1, 10},
			{21, v1.PodRunning, "Running", 2, 5}, {26, v1.PodRunning, "CrashLoopBackOff", 2, 20}, {46, v1.PodRunning, "Running", 3, 5}}},
		"success restarts Always":                {podWith(v1.RestartPolicyAlways, runFor("5s", "0")), []at{{6, v1.PodRunning, "Running", 1, 5}}},
		"init containers one after the other":    {podWith(v1.RestartPolicyNever, nil, v1.Container{Name: "a"}, v1.Container{Name: "b"}), []at{{1, v1.PodPending, "PodInitializing", 0, 2}, {3, v1.PodPending, "PodInitializing", 0, 2}, {5, v1.PodRunning, "Running", 0, 0}}},
		"a sidecar does not hold the others up":  {podWith(v1.RestartPolicyNever, nil, v1.Container{Name: "a", RestartPolicy: &always}), []at{{1, v1.PodRunning, "Running", 0, 0}}},
		"a late look catches up":                 {podWith(v1.RestartPolicyNever, runFor("5s", "0"), v1.Container{Name: "a"}), []at{{500, v1.PodSucceeded, "Completed", 0, 0}}},
		"a nonsense annotation never starts":     {podWith(v1.RestartPolicyNever, map[string]string{RunForAnnotation: "soon"}), []at{{100, v1.PodPending, "CreateContainerConfigError", 0, 0}}},
		"a nonsense exit code never starts":      {podWith(v1.RestartPolicyNever, runFor("5s", "256")), []at{{100, v1.PodPending, "CreateContainerConfigError", 0, 0}}},
		"a run of no time at all ends":           {podWith(v1.RestartPolicyNever, runFor("0s", "0")), []at{{1, v1.PodSucceeded, "Completed", 0, 0}}},
		"a negative run time is not taken as no": {podWith(v1.RestartPolicyNever, runFor("-5s", "0")), []at{{1, v1.PodPending, "CreateContainerConfigError", 0, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(tc.pod)
			var got []at
			for _, w := range tc.want {
				got = append(got, look(r, tc.pod, w.Second))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusedContainerBurnsThePod(t *testing.T) {
	pod := podWith(v1.RestartPolicyNever, nil)
	r := newRun(pod)
	r.refusal = errors.New("lj-runtime: no")
	if got, want := look(r, pod, 1), (at{1, v1.PodFailed, "StartError", 0, 0}); got != want {
		t.Errorf("Never: %+v, want %+v", got, want)
	}
	s := r.status(pod, &v1.PodStatus{}, host{})
	if end := s.ContainerStatuses[0].State.Terminated; end.ExitCode != 128 || end.Message != "lj-runtime: no" {
		t.Errorf("terminated: %+v, want exit 128 with the sentence", end)
	}
	pod = podWith(v1.RestartPolicyAlways, nil)
	r = newRun(pod)
	r.refusal = errors.New("lj-runtime: no")
	if got, want := look(r, pod, 1), (at{1, v1.PodRunning, "CrashLoopBackOff", 1, 10}); got != want {
		t.Errorf("Always: %+v, want %+v", got, want)
	}
}

func TestDeletedPodEnds(t *testing.T) {
	grace := int64(30)
	for name, tc := range map[string]struct {
		stopAfter string
		second    int // asked to stop at 10
		want      at
		code      int32
	}{
		"not yet":                         {"4s", 13, at{13, v1.PodRunning, "Running", 0, 1}, 0},
		"after what it needs":             {"4s", 14, at{14, v1.PodFailed, "Error", 0, 0}, 143},
		"killed at the end of the grace":  {"5m", 40, at{40, v1.PodFailed, "Error", 0, 0}, 137},
		"one second without annotation":   {"", 11, at{11, v1.PodFailed, "Error", 0, 0}, 143},
		"still there just before the end": {"5m", 39, at{39, v1.PodRunning, "Running", 0, 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podWith(v1.RestartPolicyAlways, map[string]string{StopAfterAnnotation: tc.stopAfter})
			if tc.stopAfter == "" {
				pod.Annotations = nil
			}
			r := newRun(pod)
			look(r, pod, 5)
			end := metav1.NewTime(zero.Add(40 * time.Second))
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &end, &grace
			if got := look(r, pod, tc.second); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
			if tc.code != 0 && r.last.code != tc.code {
				t.Errorf("exit code %d, want %d", r.last.code, tc.code)
			}
		})
	}
}

func TestPodDeletedBeforeItStartedEndsAtOnce(t *testing.T) {
	pod := podWith(v1.RestartPolicyNever, nil)
	r := newRun(pod)
	end, grace := metav1.NewTime(zero.Add(30*time.Second)), int64(30)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &end, &grace
	if got := look(r, pod, 0); got.Phase != v1.PodFailed {
		t.Errorf("%+v, want Failed", got)
	}
}

func TestActiveDeadline(t *testing.T) {
	pod := podWith(v1.RestartPolicyAlways, nil)
	limit := int64(20)
	pod.Spec.ActiveDeadlineSeconds = &limit
	r := newRun(pod)
	if got, want := look(r, pod, 1), (at{1, v1.PodRunning, "Running", 0, 19}); got != want {
		t.Errorf("before: %+v, want %+v", got, want)
	}
	if got := look(r, pod, 20); got.Phase != v1.PodFailed {
		t.Errorf("at the deadline: %+v, want Failed", got)
	}
	if s := r.status(pod, &v1.PodStatus{}, host{}); s.Reason != "DeadlineExceeded" {
		t.Errorf("reason %q", s.Reason)
	}
}

func TestStatusKeepsConditionsOfOthersAndSaysReady(t *testing.T) {
	pod := podWith(v1.RestartPolicyNever, nil)
	pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "gate"}}
	r := newRun(pod)
	r.step(pod, timing, zero.Add(time.Second))
	base := &v1.PodStatus{Conditions: []v1.PodCondition{{Type: "lj.aliyun.com/Gang", Status: v1.ConditionTrue}}}
	got := func(s *v1.PodStatus) map[v1.PodConditionType]v1.ConditionStatus {
		m := map[v1.PodConditionType]v1.ConditionStatus{}
		for _, c := range s.Conditions {
			m[c.Type] = c.Status
		}
		return m
	}
	want := map[v1.PodConditionType]v1.ConditionStatus{"lj.aliyun.com/Gang": "True", v1.PodReadyToStartContainers: "True",
		v1.PodInitialized: "True", v1.ContainersReady: "True", v1.PodReady: "False"}
	if diff := cmp.Diff(want, got(r.status(pod, base, host{}))); diff != "" {
		t.Errorf("gate closed (-want +got):\n%s", diff)
	}
	base.Conditions = append(base.Conditions, v1.PodCondition{Type: "gate", Status: v1.ConditionTrue})
	want["gate"], want[v1.PodReady] = "True", "True"
	if diff := cmp.Diff(want, got(r.status(pod, base, host{}))); diff != "" {
		t.Errorf("gate open (-want +got):\n%s", diff)
	}
}
