package sched

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/pkg/core/config"
)

// born sets when pods were created.
func born(at time.Time, pods ...*v1.Pod) []*v1.Pod {
	for _, p := range pods {
		p.CreationTimestamp = metav1.NewTime(at)
	}
	return pods
}

func impatient() config.Config {
	c := cfg
	c.BackfillAgeSeconds = 60
	return c
}

// A gang that needs two whole nodes is not starved by small pods that take
// each card that comes free.
func TestOldGangIsNotStarved(t *testing.T) {
	r := newRig(t, NewState(impatient()), network(t, 1, 1, 2)...)
	for i := range 16 {
		r.add(podObj(fmt.Sprintf("holder-%d", i), limits{"nvidia": 1}))
		r.bound(fmt.Sprintf("holder-%d", i))
	}
	r.add(born(time.Now().Add(-time.Hour), members("old", 0, 2, 2, limits{"nvidia": 8})...)...)
	note := r.refused("old-0", nil)
	if !strings.Contains(note, "gang-short") || !strings.Contains(note, "nodes kept free for it: n-0-0-0, n-0-0-1") {
		t.Errorf("reason %q", note)
	}
	for i := range 15 {
		r.deleteBound(fmt.Sprintf("holder-%d", i))
		small := fmt.Sprintf("small-%d", i)
		r.add(born(time.Now(), podObj(small, limits{"nvidia": 1}))...)
		if i == 0 {
			r.refused(small, func(n string) bool { return strings.Contains(n, "kept-for-older") })
		}
	}
	urgent := priority(podObj("urgent", limits{"nvidia": 1}), 1000)
	r.add(urgent)
	r.bound("urgent")
	for i := range 15 {
		if p := r.pod(fmt.Sprintf("small-%d", i)); p.Spec.NodeName != "" {
			t.Fatalf("%s took a kept card", p.Name)
		}
	}
	r.deleteBound("urgent")
	r.deleteBound("holder-15")
	r.allBound("old", 2)
	// Nothing is kept any more.
	r.deleteBound("old-0")
	r.bound("small-3")
}

func TestPodAloneIsNotStarvedEither(t *testing.T) {
	r := newRig(t, NewState(impatient()), network(t, 1, 1, 1)...)
	for i := range 8 {
		r.add(podObj(fmt.Sprintf("holder-%d", i), limits{"nvidia": 1}))
		r.bound(fmt.Sprintf("holder-%d", i))
	}
	r.add(born(time.Now().Add(-time.Hour), podObj("old", limits{"nvidia": 8}))...)
	r.refused("old", nil)
	for i := range 8 {
		r.deleteBound(fmt.Sprintf("holder-%d", i))
		r.add(born(time.Now(), podObj(fmt.Sprintf("small-%d", i), limits{"nvidia": 1}))...)
	}
	r.bound("old")
	r.deleteBound("old")
	r.bound("small-0")
}

// Where all ends are known, a pod that has ended before may pass.
func TestShortPodsPassTheOldGang(t *testing.T) {
	r := newRig(t, NewState(impatient()), network(t, 1, 1, 2)...)
	started := metav1.Now()
	for i := range 15 {
		p := podObj(fmt.Sprintf("holder-%d", i), limits{"nvidia": 1})
		d := int64(3600)
		p.Spec.ActiveDeadlineSeconds, p.Status.StartTime = &d, &started
		r.add(p)
		r.bound(p.Name)
	}
	r.add(born(time.Now().Add(-time.Hour), members("old", 0, 2, 2, limits{"nvidia": 8})...)...)
	r.refused("old-0", nil)
	long := podObj("long", limits{"nvidia": 1})
	d := int64(7200)
	long.Spec.ActiveDeadlineSeconds = &d
	r.add(long)
	r.refused("long", func(n string) bool { return strings.Contains(n, "kept-for-older") })
	short := podObj("short", limits{"nvidia": 1})
	e := int64(600)
	short.Spec.ActiveDeadlineSeconds = &e
	r.add(short)
	r.bound("short")
}

func TestYoungGangKeepsNothing(t *testing.T) {
	r := newRig(t, NewState(impatient()), network(t, 1, 1, 2)...)
	r.add(podObj("holder", limits{"nvidia": 1}))
	r.bound("holder")
	r.add(born(time.Now(), members("young", 0, 2, 2, limits{"nvidia": 8})...)...)
	r.refused("young-0", nil)
	r.add(podObj("small", limits{"nvidia": 1}))
	r.bound("small")
}
