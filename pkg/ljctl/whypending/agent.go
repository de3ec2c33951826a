package whypending

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	corev1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// agentGrace is how long an agent may take to publish its node.
const agentGrace = time.Minute

// withAgent puts the root in front where a node reports nothing: what has
// become of its agent.
func (q *inquiry) withAgent(n *v1.Node, cards []explain.Cause) []explain.Cause {
	cards = q.recount(n, cards)
	if !slices.ContainsFunc(cards, func(c explain.Cause) bool {
		return c.Check == explain.Agent && !c.Effect && c.Reason.Code != "inventory-unreadable" && c.Reason.Code != "memory-unit-mismatch"
	}) {
		return cards
	}
	root, starting := q.agentOf(n)
	if root == nil {
		return cards
	}
	if starting {
		// What is not reported yet follows from the start.
		for i := range cards {
			cards[i].Effect = cards[i].Effect || cards[i].Check == explain.Agent
		}
	}
	if root.Reason.Code == "" {
		for i := range cards {
			if cards[i].Reason.Code == "agent-link-lost" {
				cards[i].Reason.Detail = root.Reason.Detail
			}
		}
		return cards
	}
	return append([]explain.Cause{*root}, cards...)
}

// agentOf says what is wrong with the node's agent: nil if nothing is known,
// an empty code with the agent's age if it is well.
func (q *inquiry) agentOf(n *v1.Node) (root *explain.Cause, starting bool) {
	for _, pod := range q.onNode[n.Name] {
		if pod.Labels[kube.NameLabel] != kube.AgentApp || kube.Finished(pod) {
			continue
		}
		return q.agentState(pod)
	}
	var any bool
	for _, pod := range q.s.Pods {
		any = any || pod.Labels[kube.NameLabel] == kube.AgentApp
	}
	for _, ds := range q.s.DaemonSets {
		if ds.Labels[kube.NameLabel] == kube.AgentApp || ds.Spec.Template.Labels[kube.NameLabel] == kube.AgentApp {
			c := explain.Cause{Check: explain.Agent, Reason: reason.Reason{Code: "agent-not-scheduled", Detail: []string{q.keptOff(ds, n)}}}
			return &c, false
		}
	}
	if any {
		c := explain.Cause{Check: explain.Agent, Reason: reason.Reason{Code: "agent-not-scheduled"}}
		return &c, false
	}
	return nil, false
}

func (q *inquiry) agentState(pod *v1.Pod) (*explain.Cause, bool) {
	at := func(code reason.Code, detail string) *explain.Cause {
		return &explain.Cause{Check: explain.Agent, Reason: reason.Reason{Code: code, Device: pod.Name, Detail: []string{detail}}}
	}
	for _, cs := range pod.Status.ContainerStatuses {
		if w := cs.State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" {
			text := plural(int(cs.RestartCount), "restart", "restarts")
			if t := cs.LastTerminationState.Terminated; t != nil {
				text += fmt.Sprintf(", last exit code %d %s", t.ExitCode, t.Reason)
				if t.Message != "" {
					text += ": " + clip(t.Message, 120)
				}
			}
			return at("agent-crashing", strings.TrimSpace(text)), false
		} else if w != nil {
			return at("agent-not-ready", strings.TrimSpace(w.Reason+" "+clip(w.Message, 120))), false
		}
	}
	started := pod.CreationTimestamp.Time
	for _, cs := range pod.Status.ContainerStatuses {
		if r := cs.State.Running; r != nil && r.StartedAt.After(started) {
			started = r.StartedAt.Time
		}
	}
	if !started.IsZero() && q.age(started) < agentGrace {
		return at("agent-starting", since(q.age(started))), true
	}
	if !podReady(pod) && pod.Status.Phase != v1.PodRunning {
		return at("agent-not-ready", "phase "+string(pod.Status.Phase)), false
	}
	text := "its agent " + pod.Name + " runs"
	if !started.IsZero() {
		text += " since " + since(q.age(started))
	}
	return at("", text), false
}

// keptOff says why the agent's DaemonSet puts no pod on the node.
func (q *inquiry) keptOff(ds *appsv1.DaemonSet, n *v1.Node) string {
	spec := ds.Spec.Template.Spec
	for _, k := range sortedKeys(spec.NodeSelector) {
		if n.Labels[k] != spec.NodeSelector[k] {
			return fmt.Sprintf(": daemonset %s selects %s=%s", ds.Name, k, spec.NodeSelector[k])
		}
	}
	if t, bad := corev1helper.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, spec.Tolerations, func(t *v1.Taint) bool {
		return t.Effect != v1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, "node.kubernetes.io/")
	}, true); bad {
		return fmt.Sprintf(": daemonset %s does not tolerate taint %s", ds.Name, t.ToString())
	}
	return fmt.Sprintf(": daemonset %s has none here", ds.Name)
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// recount finds a card that kubelet still counts and the agent does not see.
// Capacity left over from before MIG mode is not that: allocatable tells.
func (q *inquiry) recount(n *v1.Node, cards []explain.Cause) []explain.Cause {
	cn := q.cards[n.Name]
	if cn == nil || cn.Inventory == nil || cn.Gate != nil {
		return cards
	}
	offered := cn.Inventory.Capacity(q.cfg)
	for i, c := range cards {
		if c.Check != explain.Cards || c.Reason.Code != "gpus-above-node" {
			continue
		}
		for _, res := range q.req.Resources {
			if has := cn.Allocatable[res]; has > offered[res] && has >= c.Reason.Want {
				cards[i].Reason = reason.Reason{Code: "gpu-count-mismatch", Device: res, Want: has, Free: offered[res]}
				if gap := missingIndex(cn.Inventory.Cards); gap >= 0 {
					cards[i].Text = cards[i].Reason.Sentence() + fmt.Sprintf(" (none at index %d)", gap)
				}
			}
		}
	}
	return cards
}

// missingIndex is the first gap in the cards' indices, -1 if there is none.
func missingIndex(cards []device.Card) int {
	for i := range cards {
		if cards[i].Index != i {
			return i
		}
	}
	return -1
}
