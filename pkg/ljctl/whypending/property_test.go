package whypending

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// drawnCase is a random small cluster with one waiting pod.
func drawnCase(t *rapid.T) pendingCase {
	var c pendingCase
	for i := range rapid.IntRange(0, 5).Draw(t, "nodes") {
		n := nodeBrief{Name: fmt.Sprintf("n%d", i), Cards: fmt.Sprintf("%d %s", rapid.IntRange(1, 4).Draw(t, "cards"),
			rapid.SampledFrom([]string{"A10", "A100-80", "810E", "MI300X"}).Draw(t, "model")), Hold: map[string]string{}}
		n.Cordoned = rapid.IntRange(0, 5).Draw(t, "cordoned") == 0
		n.NoLabel = rapid.IntRange(0, 5).Draw(t, "label") == 0
		n.NoAgent = rapid.IntRange(0, 7).Draw(t, "agent") == 0
		if rapid.IntRange(0, 5).Draw(t, "taint") == 0 {
			n.Taints = []string{"gpu=dedicated:NoSchedule"}
		}
		if strings.HasSuffix(n.Cards, "A100-80") && rapid.Bool().Draw(t, "mig") {
			n.MIG = "0"
		}
		for card := range n.Cards[0] - '0' {
			use := rapid.SampledFrom([]string{"", "whole", "core 60 mem 10", "mem 20"}).Draw(t, "use")
			if use != "" && !n.NoAgent && !(n.MIG == "0" && card == 0) && !strings.HasSuffix(n.Cards, "MI300X") {
				n.Hold[fmt.Sprint(card)] = use
			}
		}
		c.Nodes = append(c.Nodes, n)
	}
	p := podBrief{Name: "p", Ask: rapid.SampledFrom([]string{"gpu 1", "gpu 3", "nvidia 2", "core 50 mem 16", "mem 30", "slice 3 mem 4", "core 10 mem 200"}).Draw(t, "ask"),
		CPU: rapid.SampledFrom([]string{"1", "60", "100"}).Draw(t, "cpu"), Labels: map[string]string{}}
	if rapid.IntRange(0, 3).Draw(t, "replica") == 0 {
		p.Labels["replica"] = "2"
	}
	c.Pods = []podBrief{p}
	return c
}

func pictureOf(t testing.TB, c pendingCase) *Picture {
	t.Helper()
	s, err := kube.LoadSnapshot(strings.NewReader(snapshotOf(t, c)))
	if err != nil {
		t.Fatal(err)
	}
	cfg, _ := s.Config()
	return New(s, cfg, caseNow)
}

// Counts add up, an answer has a code of the closed list, and what is marked
// as checked makes the pod fit when it is applied to the cluster itself and
// everything is asked anew.
func TestSuggestionsHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawnCase(rt)
		p := pictureOf(t, c)
		defer p.Close()
		r, err := p.Explain(context.Background(), Target{"Pod", "default", "p"})
		if err != nil {
			rt.Fatal(err)
		}
		addsUp(t, r)
		if _, ok := reason.Lookup(r.Code); !ok || len(r.Reasons) == 0 || r.Reasons[0].Code != r.Code {
			rt.Fatalf("code %q, reasons %+v", r.Code, r.Reasons)
		}
		if (r.Fit == explain.FitNow) != (r.FitNodes > 0) {
			rt.Fatalf("fit %s on %d nodes", r.Fit, r.FitNodes)
		}
		for _, s := range r.Suggestions {
			if !s.Verified || len(s.FitsNodes) == 0 {
				rt.Fatalf("told unchecked: %+v", s)
			}
			again := applied(t, rt, c, s)
			got := fitting(again)
			for _, n := range s.FitsNodes {
				if !got[n] {
					rt.Fatalf("%+v: fits %v", s, got)
				}
			}
		}
	})
}

func fitting(r *explain.Report) map[string]bool {
	out := map[string]bool{}
	for _, n := range r.Nodes {
		if n.Fits {
			out[n.Name] = true
		}
	}
	return out
}

// applied carries a suggestion out and asks again.
func applied(t *testing.T, rt *rapid.T, c pendingCase, s explain.Suggestion) *explain.Report {
	p := pictureOf(t, c)
	defer p.Close()
	pod := p.pods["default/p"]
	name := ""
	switch {
	case strings.HasPrefix(s.Change, "stop "):
		name = strings.TrimPrefix(s.Change, "stop ")
	case strings.HasPrefix(s.Change, "kubectl "):
		for _, n := range p.s.Nodes {
			if n.Name != s.FitsNodes[0] {
				continue
			}
			if strings.Contains(s.Change, "uncordon "+n.Name) {
				n.Spec.Unschedulable = false
			}
			if strings.Contains(s.Change, "node "+n.Name+" lj_runtimekit_enable=true") {
				n.Labels[kube.EnableLabel] = "true"
			}
		}
	case strings.HasPrefix(s.Change, "add toleration"):
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, tolerationIn(s.Change))
	case strings.HasPrefix(s.Change, "label replica: "):
		pod.Labels[kube.ReplicaLabel] = strings.Trim(strings.TrimPrefix(s.Change, "label replica: "), `"`)
	default:
		res, text, ok := strings.Cut(s.Change, ": ")
		var v int64
		if _, err := fmt.Sscanf(strings.Trim(text, `"`), "%d", &v); !ok || err != nil {
			rt.Fatalf("cannot carry out %q", s.Change)
		}
		setLimit(pod, "app", res, v)
	}
	if name != "" {
		kept := p.s.Pods[:0]
		for _, o := range p.s.Pods {
			if key(o) != name {
				kept = append(kept, o)
			}
		}
		p.s.Pods = kept
	}
	again := New(p.s, p.cfg, caseNow)
	defer again.Close()
	r, err := again.Explain(context.Background(), Target{"Pod", "default", "p"})
	if err != nil {
		rt.Fatal(err)
	}
	return r
}

func tolerationIn(change string) v1.Toleration {
	t := v1.Toleration{Operator: v1.TolerationOpEqual}
	for _, f := range strings.Split(strings.Trim(strings.TrimPrefix(change, "add toleration "), "{}"), ", ") {
		k, v, _ := strings.Cut(f, ": ")
		switch v = strings.Trim(v, `"`); k {
		case "key":
			t.Key = v
		case "value":
			t.Value = v
		case "effect":
			t.Effect = v1.TaintEffect(v)
		}
	}
	return t
}
