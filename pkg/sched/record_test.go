package sched

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

// rewrite replaces the allocation of a pod, as a user with the right to edit
// pods can.
func (r *rig) rewrite(name, text string) {
	r.t.Helper()
	pod := r.pod(name).DeepCopy()
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, kube.AllocationAnnotation, text)
	if _, err := r.client.CoreV1().Pods(pod.Namespace).Update(r.ctx, pod, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func allocationText(t testing.TB, p *v1.Pod, node string, gs ...device.Grant) string {
	t.Helper()
	text, err := device.EncodeAllocation(&device.Allocation{UID: string(p.UID), Node: node, Containers: map[string][]device.Grant{"c0": gs}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAnEditedRecordFreesNoCard(t *testing.T) {
	r := newRig(t, NewState(cfg), oneNode(t, 2)...)
	r.add(podObj("a", limits{"nvidia": 1}))
	first := r.bound("a").Containers["c0"][0].Card
	r.add(podObj("b", limits{"nvidia": 1}))
	other := r.bound("b").Containers["c0"][0].Card
	core := int64(1)
	for what, text := range map[string]string{
		"another card":      allocationText(t, r.pod("a"), "n", device.Grant{Card: other, Whole: true}),
		"a card of nowhere": allocationText(t, r.pod("a"), "n", device.Grant{Card: "GPU-none", Whole: true}),
		"a share":           allocationText(t, r.pod("a"), "n", device.Grant{Card: first, Share: true, Core: &core}),
		"nothing":           "",
	} {
		r.rewrite("a", text)
		r.add(podObj("thief", limits{"nvidia": 1}), podObj("sharer", limits{"gpu-core": 10}))
		for _, name := range []string{"thief", "sharer"} {
			r.refused(name, nil)
			if p := r.pod(name); p.Spec.NodeName != "" {
				t.Errorf("record edited to %s: %s was bound with %s", what, name, p.Annotations[kube.AllocationAnnotation])
			}
			r.remove(name)
		}
	}
}

func TestAPodWithoutCardsHoldsNoneWhateverItSays(t *testing.T) {
	r := newRig(t, NewState(cfg), oneNode(t, 1)...)
	card := ""
	r.add(podObj("a", limits{"nvidia": 1}))
	card = r.bound("a").Containers["c0"][0].Card
	r.remove("a")
	p := podObj("forger", limits{"cpu": 1})
	p.Annotations = map[string]string{kube.AllocationAnnotation: allocationText(t, p, "n", device.Grant{Card: card, Whole: true})}
	r.add(p)
	r.until("forger bound", func() bool { return r.pod("forger").Spec.NodeName != "" })
	if text := r.pod("forger").Annotations[kube.AllocationAnnotation]; text != "" {
		t.Errorf("bound with the record that it brought: %s", text)
	}
	r.add(podObj("b", limits{"nvidia": 1}))
	r.bound("b")
}

func TestTheFirstReadableRecordIsFinal(t *testing.T) {
	s := NewState(cfg)
	pod, rec := givenTo("p", "n", "GPU-1", false)
	cardOf := func(p *v1.Pod) string {
		if h, _ := s.holdOf(p, "n"); h != nil && h.Unplaced == nil && len(h.Cards) == 1 {
			return h.Cards[0].Card
		}
		return ""
	}
	with := func(text string) *v1.Pod {
		p := pod.DeepCopy()
		p.Annotations = map[string]string{kube.AllocationAnnotation: text}
		return p
	}
	garbage, good := with("{"), with(rec.text)
	edited := with(allocationText(t, pod, "n", device.Grant{Card: "GPU-2", Whole: true}))
	s.observe(garbage)
	if c := cardOf(garbage); c != "" {
		t.Errorf("garbage names card %s", c)
	}
	s.observe(good)
	for _, p := range []*v1.Pod{good, edited, garbage, pod} {
		s.observe(p)
		if c := cardOf(p); c != "GPU-1" {
			t.Errorf("with the record %q the pod holds %q", p.Annotations[kube.AllocationAnnotation], c)
		}
	}
	if s.edited(good) || !s.edited(edited) {
		t.Error("an edit is not told from what was written first")
	}
}

func TestNothingIsBoundBehindTheFence(t *testing.T) {
	state := NewState(cfg)
	var shut atomic.Bool
	shut.Store(true)
	state.Fence(func() error {
		if shut.Load() {
			return errors.New("the lease is lost")
		}
		return nil
	})
	var binds atomic.Int32
	r := newRig(t, state, oneNode(t, 1)...)
	r.onBind(func(*v1.Binding) error { binds.Add(1); return nil })
	r.add(podObj("a", limits{"nvidia": 1}))
	r.until("a try", func() bool { a, _ := state.AllocationOf(r.pod("a").UID); return a == nil && r.fenced("a") })
	if n := binds.Load(); n != 0 {
		t.Errorf("%d bindings were written", n)
	}
	shut.Store(false)
	r.bound("a")
}

// fenced tells whether the pod's condition says that its binding was refused.
func (r *rig) fenced(name string) bool {
	for _, c := range r.pod(name).Status.Conditions {
		if c.Type == v1.PodScheduled && strings.Contains(c.Message, "the lease is lost") {
			return true
		}
	}
	return false
}
