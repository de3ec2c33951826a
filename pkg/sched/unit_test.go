package sched

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

var log = klog.Background()

func TestProfileHasWhatTheSuiteBuildsOn(t *testing.T) {
	if err := CheckProfiles(); err != nil {
		t.Fatal(err)
	}
	p := Profiles()[0]
	if p.SchedulerName != kube.SchedulerName {
		t.Errorf("profile for %s", p.SchedulerName)
	}
	for _, pl := range p.Plugins.MultiPoint.Enabled {
		if why, gone := replaced[pl.Name]; gone {
			t.Errorf("%s is still there: %s", pl.Name, why)
		}
	}
}

func TestOnlyWhatPassesByItselfLetsPreemptionTry(t *testing.T) {
	busy, never := reason.Reason{Code: "gpus-busy", Want: 2, Unit: "cards"}, reason.Reason{Code: "gpus-in-mig-mode", Want: 2, Unit: "cards"}
	cut := reason.Reason{Code: "gpu-in-mig-mode", Want: 2, Unit: "cards"}
	for name, c := range map[string]struct {
		why  []reason.Reason
		code fwk.Code
		text string
	}{
		"busy":                    {[]reason.Reason{busy}, fwk.Unschedulable, "gpus-busy: 2 cards asked"},
		"lacking":                 {[]reason.Reason{never}, fwk.UnschedulableAndUnresolvable, "gpus-in-mig-mode: 2 cards asked"},
		"busy and lacking":        {[]reason.Reason{never, busy}, fwk.UnschedulableAndUnresolvable, "gpus-in-mig-mode: 2 cards asked"},
		"busy, and others cut":    {[]reason.Reason{busy, cut}, fwk.Unschedulable, "gpus-busy: 2 cards asked"},
		"a code of a later build": {[]reason.Reason{{Code: "not-in-the-list"}}, fwk.UnschedulableAndUnresolvable, "not-in-the-list"},
		"one is singular":         {[]reason.Reason{{Code: "gpus-busy", Want: 1, Unit: "cards"}}, fwk.Unschedulable, "gpus-busy: 1 card asked"},
	} {
		s := statusOf(c.why)
		if s.Code() != c.code || s.Message() != c.text {
			t.Errorf("%s: got %v %q, want %v %q", name, s.Code(), s.Message(), c.code, c.text)
		}
	}
}

// Every code of the closed list must make a text that does not depend on the
// node: no device, no free or total amount.
func TestCountableTextsHaveNothingOfTheNode(t *testing.T) {
	for _, i := range reason.Codes() {
		a := countable(reason.Reason{Code: i.Code, Want: 4, Free: 7777, Total: 8888, Unit: "cards", Device: "GPU-x", Detail: []string{"n-1"}})
		for _, leak := range []string{"7777", "8888", "GPU-x", "n-1"} {
			if strings.Contains(a, leak) {
				t.Errorf("%s: %q tells %q of one node", i.Code, a, leak)
			}
		}
		if !strings.HasPrefix(a, string(i.Code)) {
			t.Errorf("%q does not begin with the code %s", a, i.Code)
		}
	}
}

func TestRefusalIsBounded(t *testing.T) {
	var many []reason.Reason
	for range 200 {
		many = append(many, reason.Reason{Code: "core-out-of-range", Want: 150})
	}
	if s := refusal(many); len(s) > 1024 || !strings.Contains(s, "more") {
		t.Errorf("%d bytes: %s", len(s), s)
	}
}

func TestWhichErrorsOfABindingAreUnknown(t *testing.T) {
	gr := podsGVR.GroupResource()
	for name, c := range map[string]struct {
		err          error
		first, later bool
	}{
		"connection reset":           {errReset, true, true},
		"server error":               {apierrors.NewInternalError(errors.New("etcd")), true, true},
		"timeout":                    {apierrors.NewTimeoutError("slow", 1), true, true},
		"too many requests":          {apierrors.NewTooManyRequestsError("slow down"), true, true},
		"unauthorized":               {apierrors.NewUnauthorized("who"), true, true},
		"forbidden":                  {apierrors.NewForbidden(gr, "p", errors.New("no role")), false, true},
		"denied by a policy":         {apierrors.NewForbidden(gr, "p", errors.New("ValidatingAdmissionPolicy 'x' denied request: no")), false, false},
		"conflict":                   {apierrors.NewConflict(gr, "p", errors.New("bound")), false, false},
		"not found":                  {apierrors.NewNotFound(gr, "p"), false, false},
		"invalid":                    {apierrors.NewBadRequest("bad"), false, false},
		"a gateway's 502 in between": {apierrors.NewGenericServerResponse(http.StatusBadGateway, "POST", gr, "p", "", 0, true), true, true},
	} {
		if got := [2]bool{ambiguous(c.err, false), ambiguous(c.err, true)}; got != [2]bool{c.first, c.later} {
			t.Errorf("%s: unknown at first, later = %v, want %v", name, got, [2]bool{c.first, c.later})
		}
	}
}

func givenTo(pod, node, card string, assumed bool) (*v1.Pod, *record) {
	p := podObj(pod, limits{"nvidia": 1})
	p.Spec.NodeName = node
	a := &device.Allocation{V: 1, UID: string(p.UID), Node: node, Containers: map[string][]device.Grant{"c0": {{Card: card, Whole: true}}}}
	text, _ := device.EncodeAllocation(a)
	return p, &record{node: node, text: text, alloc: a, assumed: assumed,
		hold: &cluster.Hold{UID: string(p.UID), Cards: []cluster.CardUse{{Card: card, Whole: true}}}}
}

func TestRecordsOfPods(t *testing.T) {
	s := NewState(cfg)
	pod, rec := givenTo("p", "n", "GPU-1", true)
	s.store(pod.UID, rec)
	s.observe(pod) // bound as the cache assumes it, the annotation not seen yet
	if h, _ := s.holdOf(pod, "n"); h == nil || len(h.Cards) != 1 {
		t.Fatal("a pod that merely lacks the annotation lost its cards")
	}
	if h, _ := s.holdOf(pod, "elsewhere"); h != nil && len(h.Cards) > 0 {
		t.Error("cards of another node count here")
	}
	if s.release(pod.UID, "elsewhere") {
		t.Error("released for the wrong node")
	}
	seen := pod.DeepCopy()
	seen.Annotations = map[string]string{kube.AllocationAnnotation: rec.text}
	if h, _ := NewState(cfg).holdOf(seen, "n"); h == nil || h.Unplaced != nil || len(h.Cards) != 1 || h.Cards[0].Card != "GPU-1" {
		t.Errorf("a state that no handler has told anything does not read the annotation: %+v", h)
	}
	s.observe(seen)
	if s.release(pod.UID, "n") {
		t.Error("released although the API server has the binding")
	}
	if a, node := s.AllocationOf(pod.UID); a == nil || node != "n" {
		t.Error("the allocation is gone")
	}
	s.forget(pod.UID)
	s.forget(pod.UID)
	if a, _ := s.AllocationOf(pod.UID); a != nil {
		t.Error("the allocation outlives the pod")
	}
	if len(s.assumed) != 0 {
		t.Errorf("left over: %v", s.assumed)
	}
}

func TestUnreserveIsIdempotentAndConcurrent(t *testing.T) {
	s := NewState(cfg)
	var wg sync.WaitGroup
	for i := range 50 {
		pod, rec := givenTo("p"+string(rune('a'+i)), "n", "GPU-1", true)
		s.store(pod.UID, rec)
		for range 3 {
			wg.Go(func() { s.release(pod.UID, "n") })
			wg.Go(func() { s.observe(pod) })
			wg.Go(func() { s.assumedOn("n", map[types.UID]bool{}) })
		}
	}
	wg.Wait()
	if n := len(s.assumedOn("n", nil)); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

func TestTheInventoryIsReadOncePerText(t *testing.T) {
	n := nodeObj(t, coretest.Node("n", cfg).Cards(2, coretest.H800).Obj())
	beat := n.DeepCopy()
	beat.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady}}
	if !sameCards(n, beat, cfg) {
		t.Error("a heartbeat makes the node another one")
	}
	for what, change := range map[string]func(*v1.Node){
		"inventory":   func(n *v1.Node) { n.Annotations[kube.InventoryAnnotation] += " " },
		"label":       func(n *v1.Node) { n.Labels[kube.EnableLabel] = "True" },
		"allocatable": func(n *v1.Node) { delete(n.Status.Allocatable, "nvidia.com/gpu") },
	} {
		m := n.DeepCopy()
		change(m)
		if sameCards(n, m, cfg) {
			t.Errorf("a change of %s is not noticed", what)
		}
	}
}

func TestHintsSkipWhatCannotHelp(t *testing.T) {
	s := NewState(cfg)
	p := &Plugin{state: s}
	h := &nodeHint{state: s}
	waiting := podObj("w", limits{"nvidia": 2})
	small := nodeObj(t, coretest.Node("n", cfg).Cards(1, coretest.H800).Obj())
	large := nodeObj(t, coretest.Node("n", cfg).Cards(2, coretest.H800).Obj())
	held, _ := givenTo("gone", "n", "GPU-1", false)
	cpu := podObj("cpu", limits{"cpu": 1})
	cpu.Spec.NodeName = "n"
	two := replica(podObj("w", limits{"gpu-core": 10}), "2")
	for name, c := range map[string]struct {
		hint func() (fwk.QueueingHint, error)
		want fwk.QueueingHint
	}{
		"a node too small":       {func() (fwk.QueueingHint, error) { return h.after(log, waiting, nil, small) }, fwk.QueueSkip},
		"a node large enough":    {func() (fwk.QueueingHint, error) { return h.after(log, waiting, nil, large) }, fwk.Queue},
		"a node that grew":       {func() (fwk.QueueingHint, error) { return h.after(log, waiting, small, large) }, fwk.Queue},
		"a node as before":       {func() (fwk.QueueingHint, error) { return h.after(log, waiting, large, large.DeepCopy()) }, fwk.QueueSkip},
		"a pod with cards ended": {func() (fwk.QueueingHint, error) { return p.afterPodGone(log, waiting, held, nil) }, fwk.Queue},
		"a pod without ended":    {func() (fwk.QueueingHint, error) { return p.afterPodGone(log, waiting, cpu, nil) }, fwk.QueueSkip},
		"replica changed": {func() (fwk.QueueingHint, error) {
			return p.afterOwnLabel(log, two, podObj("w", limits{"gpu-core": 10}), two)
		}, fwk.Queue},
		"a label without meaning": {func() (fwk.QueueingHint, error) {
			return p.afterOwnLabel(log, waiting, waiting, replica(waiting.DeepCopy(), "2"))
		}, fwk.QueueSkip},
		"an object of a wrong kind": {func() (fwk.QueueingHint, error) { g, _ := p.afterPodGone(log, waiting, small, nil); return g, nil }, fwk.Queue},
	} {
		got, err := c.hint()
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}

func TestArgumentsOfTheProfileGoOverTheSettings(t *testing.T) {
	profiles, err := Args{NodePolicy: config.Spread}.In(Profiles())
	if err != nil {
		t.Fatal(err)
	}
	last := profiles[0].PluginConfig[len(profiles[0].PluginConfig)-1]
	a, err := argsOf(last.Args)
	if err != nil || a != (Args{NodePolicy: config.Spread}) {
		t.Fatalf("read back as %+v: %v", a, err)
	}
	s := NewState(cfg)
	s.SetArgs(a)
	c := cfg
	c.CardPolicy, c.NodePolicy = config.Spread, config.Binpack
	s.SetConfig(c)
	if got := s.Config(); got.NodePolicy != config.Spread || got.CardPolicy != config.Spread {
		t.Errorf("nodes %s, cards %s", got.NodePolicy, got.CardPolicy)
	}
	if _, err := argsOf(&runtime.Unknown{Raw: []byte(`{"nodePolicy":"scatter"}`), ContentType: runtime.ContentTypeJSON}); err == nil {
		t.Error("a policy that nobody knows is taken")
	}
}
