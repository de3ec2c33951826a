package decisionlog

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	testclock "k8s.io/utils/clock/testing"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/reason"
)

var start = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func podNamed(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(start)}}
}

// rig is a Log that writes into a buffer, 2.5 s after the pods were made.
func rig(verbosity int) (*Log, klog.Logger, *bytes.Buffer, *testclock.FakeClock) {
	c := testclock.NewFakeClock(start.Add(2500 * time.Millisecond))
	var out bytes.Buffer
	return New(c), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(verbosity), textlogger.Output(&out))), &out, c
}

func TestAPlacementSaysWhatThePodWasGiven(t *testing.T) {
	log, logger, out, _ := rig(0)
	pod := podNamed("p")
	log.Refused(logger, pod, "", "", []reason.Reason{{Code: "gpus-busy"}})
	log.Placed(logger, pod, &device.Allocation{Node: "n1", Containers: map[string][]device.Grant{
		"b": {{Card: "GPU-2", Whole: true}},
		"a": {{Card: "GPU-1", Share: true, Core: ptr(int64(30)), MemMiB: ptr(int64(4096))}, {Card: "GPU-3", MIG: "3g.40gb", Start: ptr(4), Size: 4}},
	}, NICs: []device.NICGrant{{PCI: "0000:3b:00.0", Card: "GPU-1", Tier: "switch"}, {PCI: "0000:5e:00.0", Card: "GPU-2", Tier: "numa"}},
		Gang: &device.GangMark{ID: "g", Size: 7, Round: 2}})
	for _, want := range []string{
		`"Placed" pod="team/p" uid="uid-p" ageSeconds=2.5 node="n1" attempt=2`,
		`cards=["a: GPU-1 share core=30% memory=4096MiB","a: GPU-3 3g.40gb@4","b: GPU-2 whole"]`,
		`nics=["0000:3b:00.0 switch","0000:5e:00.0 numa"] tier="numa"`, `gang="g" gangSize=7 gangRound=2`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %s:\n%s", want, out)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines, want 1: refusals are not for verbosity 0\n%s", n, out)
	}
}

func TestARefusalIsWrittenOnceForEachReason(t *testing.T) {
	log, logger, out, _ := rig(2)
	pod := podNamed("p")
	busy := []reason.Reason{{Code: "gpus-busy", Want: 4, Free: 1, Total: 8, Unit: "cards"}}
	log.Refused(logger, pod, "g", "n7", busy)
	log.Refused(logger, pod, "g", "n8", busy)
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Fatalf("%d lines, want 1:\n%s", n, out)
	}
	for _, want := range []string{`attempt=1 code="gpus-busy"`, `want=4 free=1 total=8 unit="cards" closestNode="n7" gang="g"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %s:\n%s", want, out)
		}
	}
	out.Reset()
	log.Refused(logger, pod, "", "n8", []reason.Reason{{Code: "inventory-missing"}})
	if !strings.Contains(out.String(), `attempt=3 code="inventory-missing"`) {
		t.Errorf("another reason is not written: %s", out)
	}
	log.Forget(pod.UID)
	out.Reset()
	log.Refused(logger, pod, "", "n8", busy)
	if !strings.Contains(out.String(), "attempt=1 ") {
		t.Errorf("a pod that was forgotten has a past: %s", out)
	}
}

func TestAFloodOfRefusalsIsBounded(t *testing.T) {
	log, logger, out, clock := rig(2)
	why := []reason.Reason{{Code: "gpus-busy"}}
	for i := range 1000 {
		log.Refused(logger, podNamed(fmt.Sprint("p", i)), "", "", why)
	}
	if n := strings.Count(out.String(), "\n"); n != burst {
		t.Errorf("%d lines at once, want %d", n, burst)
	}
	out.Reset()
	clock.Step(time.Second)
	log.Refused(logger, podNamed("p999"), "", "", why)
	if want := fmt.Sprintf("attempt=2 code=\"gpus-busy\" why=[%q] suppressed=%d", why[0].Sentence(), 1000-burst); !strings.Contains(out.String(), want) {
		t.Errorf("lacks %s: %s", want, out)
	}
}

func TestNoLogWritesNothing(t *testing.T) {
	var log *Log
	log.Placed(klog.Background(), podNamed("p"), &device.Allocation{})
	log.Refused(klog.Background(), podNamed("p"), "", "", []reason.Reason{{Code: "gpus-busy"}})
	log.Forget("uid-p")
}

func TestMemoryIsBounded(t *testing.T) {
	log, logger, _, _ := rig(0)
	for i := range maxWaiting + 10 {
		log.Refused(logger, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}}, "", "", []reason.Reason{{Code: "gpus-busy"}})
	}
	if len(log.waiting) > maxWaiting {
		t.Errorf("%d pods are remembered", len(log.waiting))
	}
}
