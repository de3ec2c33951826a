package e2e

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lj.aliyun.com/kit/pkg/kube"
)

// A group on the real API server: its members are told that one is missing;
// one that got a node all the same is evicted, which its Job does not count as
// a failure; and when the last member comes all are placed, which the mark
// remembers.
func TestAGroupIsKept(t *testing.T) {
	s := startScheduled(t)
	settings := []byte(`{"data":{"config.yaml":"gangTimeoutSeconds: 8\n"}}`)
	if _, err := s.client.CoreV1().ConfigMaps(kube.Namespace).Patch(t.Context(), kube.ConfigMap, types.StrategicMergePatchType, settings, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	jobs := s.client.BatchV1().Jobs("default")
	if _, err := jobs.Create(t.Context(), groupOfThree(2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.allSay(t, 2, v1.PodScheduled, "gang-forming: 2 of 3 members exist")
	s.allSay(t, 2, v1.PodScheduled, "gang-incomplete: 2 of 3 members exist")
	s.event(t, "FailedScheduling", "gang-incomplete: 2 of 3")

	pods := s.members(t)
	first := pods[0].UID
	if err := bindAs(t, as(t, s.SchedulerKubeconfig()), &pods[0], "a100-40", wholeCardIn(t, s.client, &pods[0], "a100-40", 0)); err != nil {
		t.Fatal(err)
	}
	s.event(t, "GangRolledBack", "1 of the group's 3 members had nodes")
	eventually(t, "a new pod in place of the evicted one", func() (bool, string) {
		pods := s.members(t)
		for _, p := range pods {
			if p.UID == first || p.Spec.NodeName != "" {
				return false, p.Name + " is there, on node " + p.Spec.NodeName
			}
		}
		return len(pods) == 2, fmt.Sprint(len(pods), " pods")
	})
	j, err := jobs.Get(t.Context(), "three", metav1.GetOptions{})
	if err != nil || j.Status.Failed != 0 {
		t.Errorf("the Job counts %d failures: %v", j.Status.Failed, err)
	}

	if _, err := jobs.Patch(t.Context(), "three", types.MergePatchType, []byte(`{"spec":{"parallelism":3}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the group placed and marked", func() (bool, string) {
		bound, marked := 0, 0
		for _, p := range s.members(t) {
			if p.Spec.NodeName != "" {
				bound++
			}
			if c := condition(&p, kube.GangCondition); c != nil && c.Status == v1.ConditionTrue && c.Reason == "Placed" {
				marked++
			}
		}
		return bound == 3 && marked == 1, fmt.Sprintf("%d members bound, %d marked", bound, marked)
	})
}

// groupOfThree is a Job whose pods start together when three of them exist.
func groupOfThree(parallelism int32) *batchv1.Job {
	completions := int32(3)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "three"}, Spec: batchv1.JobSpec{Parallelism: &parallelism, Completions: &completions}}
	j.Spec.Template = v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"aliyun.com/min-member": "3"}}, Spec: cardPod()}
	j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}},
	}}}
	return j
}

func condition(p *v1.Pod, kind v1.PodConditionType) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// members are the pods of the group that are not leaving.
func (s *scheduled) members(t *testing.T) []v1.Pod {
	t.Helper()
	list, err := s.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "aliyun.com/min-member"})
	if err != nil {
		t.Fatal(err)
	}
	var out []v1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && p.Status.Phase != v1.PodFailed {
			out = append(out, p)
		}
	}
	return out
}

// allSay waits until n members exist and the condition of each has the text.
func (s *scheduled) allSay(t *testing.T, n int, kind v1.PodConditionType, text string) {
	t.Helper()
	eventually(t, text, func() (bool, string) {
		pods := s.members(t)
		for i := range pods {
			if c := condition(&pods[i], kind); c == nil || !strings.HasPrefix(c.Message, text) {
				return false, fmt.Sprintf("%s says %+v", pods[i].Name, c)
			}
		}
		return len(pods) == n, fmt.Sprint(len(pods), " pods")
	})
}

// event waits for an event about a pod and demands that it is the only one of
// its kind.
func (s *scheduled) event(t *testing.T, kind, text string) {
	t.Helper()
	eventually(t, "the event "+kind+" "+text, func() (bool, string) {
		list, err := s.client.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var notes []string
		for _, e := range list.Items {
			if e.Reason == kind && strings.HasPrefix(e.Note, text) {
				notes = append(notes, e.Regarding.Name+" "+e.Note)
				if e.Series != nil {
					t.Fatalf("said more than once: %+v", e)
				}
			}
		}
		if len(notes) > 1 {
			t.Fatalf("said more than once: %q", notes)
		}
		return len(notes) == 1, fmt.Sprintf("%d events", len(list.Items))
	})
}
