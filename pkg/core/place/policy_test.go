package place

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
)

// said is one of the policies, or nothing.
func said(t *rapid.T, what string) config.Policy {
	return rapid.SampledFrom(append(config.Policies(), "")).Draw(t, what)
}

// What the pod says wins over the node, what the node says over the cluster:
// the answer is the one of a cluster that says it and a pod and a node that
// say nothing.
func TestThePodsPolicyWinsOverTheNodesOverTheClusters(t *testing.T) {
	first := func(ps ...config.Policy) config.Policy {
		for _, p := range ps {
			if p != "" {
				return p
			}
		}
		return ""
	}
	rapid.Check(t, func(t *rapid.T) {
		n := drawHost(t, 6)
		r := drawAsk(t, n)
		all := cfg
		all.CardPolicy = rapid.SampledFrom(config.Policies()).Draw(t, "cardPolicy")
		all.NodePolicy = rapid.SampledFrom(config.Policies()).Draw(t, "nodePolicy")
		pod, node := *r, *n
		pod.CardPolicy, pod.NodePolicy, node.CardPolicy = said(t, "podCards"), said(t, "podNodes"), said(t, "nodeCards")
		same := all
		same.CardPolicy, same.NodePolicy = first(pod.CardPolicy, node.CardPolicy, all.CardPolicy), first(pod.NodePolicy, all.NodePolicy)

		got, _ := NewView(&node, all).Fit(&pod)
		want, _ := NewView(n, same).Fit(r)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("offer (-want +got):\n%s", diff)
		}
		if got, want := NewView(&node, all).Score(&pod), NewView(n, same).Score(r); got != want {
			t.Fatalf("score %d, want %d", got, want)
		}
	})
}

func TestPoliciesChooseCardsAndNodes(t *testing.T) {
	half := node("half").Cards(2, coretest.A100x80).Share(0, "a", 30, 1024).Obj()
	idle := node("idle").Cards(2, coretest.A100x80).Obj()
	r := coretest.Request(cfg, "", L{"gpu-core": 30})
	for policy, want := range map[config.Policy]string{config.Binpack: coretest.UUID("half", 0), config.Spread: coretest.UUID("half", 1)} {
		r.CardPolicy = policy
		o, why := NewView(half, cfg).Fit(r)
		if why != nil || o.Uses[0].Card != want {
			t.Errorf("%s: took %v (%v), want %s", policy, o, why, want)
		}
	}
	r.CardPolicy = ""
	for policy, want := range map[config.Policy]string{config.Binpack: "half", config.Spread: "idle"} {
		r.NodePolicy = policy
		better := "half"
		if NewView(idle, cfg).Score(r) > NewView(half, cfg).Score(r) {
			better = "idle"
		}
		if better != want {
			t.Errorf("%s prefers %s", policy, better)
		}
	}
}
