package whypending

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	corev1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/sched"
	"lj.aliyun.com/kit/pkg/sched/offline"
)

// filtered turns a filter's refusal into causes. The filter decides; what is
// added here are the names and numbers that it does not tell.
func (q *inquiry) filtered(n *v1.Node, c offline.Check, sick bool) []explain.Cause {
	at := func(id explain.CheckID, r reason.Reason) []explain.Cause {
		return []explain.Cause{{Check: id, Reason: r}}
	}
	text := strings.Join(c.Reasons, ", ")
	if c.Err {
		return []explain.Cause{{Check: explain.Other, Reason: reason.Reason{Code: "other-filter", Device: c.Name, Detail: []string{text}}, Verdict: reason.Unknown}}
	}
	switch c.Name {
	case names.NodeName:
		return at(explain.Affinity, reason.Reason{Code: "other-node-named"})
	case names.NodeUnschedulable:
		return at(explain.Schedulable, reason.Reason{Code: "node-cordoned"})
	case names.TaintToleration:
		return q.taints(n, sick)
	case names.NodeAffinity:
		return at(explain.Affinity, q.selector(n))
	case names.NodePorts:
		return at(explain.Ports, reason.Reason{Code: "host-port-taken", Detail: q.ports()})
	case sched.FitName:
		return amounts(c)
	case names.VolumeBinding, names.VolumeRestrictions, names.VolumeZone, names.NodeVolumeLimits:
		return q.volumes(c)
	case names.PodTopologySpread:
		r := reason.Reason{Code: "topology-spread", Detail: []string{text}}
		out := explain.Cause{Check: explain.Spread, Reason: r}
		if !c.Resolvable {
			out.Verdict = reason.Blocked
		}
		return []explain.Cause{out}
	case names.InterPodAffinity:
		return q.podAffinity(text)
	}
	out := explain.Cause{Check: explain.Other, Reason: reason.Reason{Code: "other-filter", Device: c.Name, Detail: []string{text}}}
	if c.Resolvable {
		out.Verdict = reason.Wait
	}
	return []explain.Cause{out}
}

// taints names each taint that is not tolerated. The taints that Kubernetes
// puts on nodes that are cordoned or not ready are the same fact again.
func (q *inquiry) taints(n *v1.Node, sick bool) []explain.Cause {
	var out []explain.Cause
	for _, t := range n.Spec.Taints {
		if t.Effect == v1.TaintEffectPreferNoSchedule || corev1helper.TolerationsTolerateTaint(klog.Background(), q.pod.Spec.Tolerations, &t, true) {
			continue
		}
		switch t.Key {
		case v1.TaintNodeNotReady, v1.TaintNodeUnreachable:
			if sick {
				continue
			}
			out = append(out, explain.Cause{Check: explain.Ready, Reason: reason.Reason{Code: "node-not-ready", Detail: []string{"taint " + t.Key}}})
			continue
		case v1.TaintNodeUnschedulable:
			if n.Spec.Unschedulable {
				continue
			}
		}
		r := reason.Reason{Code: "taint-not-tolerated", Device: t.ToString()}
		if near := q.nearToleration(t); near != "" {
			r.Detail = []string{near}
		}
		out = append(out, explain.Cause{Check: explain.Taints, Reason: r})
	}
	return out
}

// nearToleration is the toleration that was meant: same key, other value,
// operator or effect.
func (q *inquiry) nearToleration(t v1.Taint) string {
	for _, tol := range q.pod.Spec.Tolerations {
		switch {
		case tol.Key != t.Key:
		case tol.Effect != "" && tol.Effect != t.Effect:
			return fmt.Sprintf(": the pod tolerates effect %s, the taint has %s", tol.Effect, t.Effect)
		case tol.Operator != v1.TolerationOpExists && tol.Value != t.Value:
			return fmt.Sprintf(": the pod tolerates value %q, the taint has %q", tol.Value, t.Value)
		}
	}
	return ""
}

// selector says which labels do not match, and whether it was the runtime
// class that asked for them.
func (q *inquiry) selector(n *v1.Node) reason.Reason {
	var miss []string
	for k, v := range q.pod.Spec.NodeSelector {
		if have, ok := n.Labels[k]; !ok {
			miss = append(miss, fmt.Sprintf("%s=%s asked, not there", k, v))
		} else if have != v {
			miss = append(miss, fmt.Sprintf("%s=%s asked, has %q", k, v, have))
		}
	}
	slices.Sort(miss)
	if len(miss) == 0 {
		return reason.Reason{Code: "selector-mismatch", Detail: []string{"required node affinity"}}
	}
	if q.pod.Spec.RuntimeClassName != nil {
		if rc := q.runtimeClass(*q.pod.Spec.RuntimeClassName); rc != nil && rc.Scheduling != nil {
			for k, v := range rc.Scheduling.NodeSelector {
				if n.Labels[k] != v && q.pod.Spec.NodeSelector[k] == v {
					return reason.Reason{Code: "runtime-class-selector", Device: rc.Name, Detail: miss}
				}
			}
		}
	}
	return reason.Reason{Code: "selector-mismatch", Detail: miss}
}

func (q *inquiry) ports() []string {
	var out []string
	for _, c := range q.pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				out = append(out, fmt.Sprint(p.HostPort))
			} else if q.pod.Spec.HostNetwork {
				out = append(out, fmt.Sprint(p.ContainerPort))
			}
		}
	}
	return out
}

// amounts puts a refusal for resources into numbers.
func amounts(c offline.Check) []explain.Cause {
	var out []explain.Cause
	for _, s := range c.Short {
		r := reason.Reason{Code: "resource-short", Device: s.Resource, Want: s.Want, Free: s.Free, Total: s.Total}
		switch s.Resource {
		case string(v1.ResourceCPU):
			r.Code, r.Unit = "cpu-short", "m"
			if s.Want%1000 == 0 && s.Free%1000 == 0 && s.Total%1000 == 0 {
				r.Want, r.Free, r.Total, r.Unit = s.Want/1000, s.Free/1000, s.Total/1000, "cores"
			}
		case string(v1.ResourceMemory):
			r.Code, r.Unit = "memory-short", "MiB"
			r.Want, r.Free, r.Total = s.Want>>20, s.Free>>20, s.Total>>20
		case string(v1.ResourcePods):
			r.Code = "pod-slots-full"
		}
		if s.Want > s.Total && s.Resource != string(v1.ResourcePods) {
			r.Code = "node-too-small"
		}
		out = append(out, explain.Cause{Check: explain.Resources, Reason: r})
	}
	if len(out) == 0 {
		out = append(out, explain.Cause{Check: explain.Resources, Reason: reason.Reason{Code: "other-filter", Device: c.Name, Detail: c.Reasons}})
	}
	return out
}

// volumes reads the volume filters' words. Where the claims could not be read
// their words mean nothing.
func (q *inquiry) volumes(c offline.Check) []explain.Cause {
	for _, ev := range q.in.Evidence {
		if ev.Check == explain.Volumes {
			return nil
		}
	}
	text := strings.Join(c.Reasons, ", ")
	r := reason.Reason{Detail: []string{text}}
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case has("node affinity", "volume zone"):
		r.Code, r.Detail = "volume-zone-conflict", q.claimPlaces(text)
	case has("max volume count"):
		r.Code, r.Detail = "volume-limit", nil
	case has("in-use", "available disk"):
		r.Code = "volume-in-use"
	case has("persistentvolumeclaim", "PersistentVolumeClaim", "persistent volumes to bind", "free storage", "pvc"):
		r.Code = "volume-unbound"
	default:
		r.Code, r.Device = "other-filter", c.Name
	}
	return []explain.Cause{{Check: explain.Volumes, Reason: r}}
}

// claimPlaces says where the pod's bound volumes can be reached from.
func (q *inquiry) claimPlaces(text string) []string {
	var out []string
	for _, v := range q.pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		for _, pvc := range q.s.PersistentVolumeClaims {
			if pvc.Namespace != q.pod.Namespace || pvc.Name != v.PersistentVolumeClaim.ClaimName {
				continue
			}
			for _, pv := range q.s.PersistentVolumes {
				if pv.Name == pvc.Spec.VolumeName && pv.Spec.NodeAffinity != nil && pv.Spec.NodeAffinity.Required != nil {
					out = append(out, pvc.Name+" needs "+terms(pv.Spec.NodeAffinity.Required))
				}
			}
		}
	}
	if len(out) == 0 {
		return []string{text}
	}
	return out
}

func terms(s *v1.NodeSelector) string {
	var alternatives []string
	for _, t := range s.NodeSelectorTerms {
		var all []string
		for _, e := range t.MatchExpressions {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, "|"))))
		}
		alternatives = append(alternatives, strings.Join(all, " and "))
	}
	return strings.Join(alternatives, " or ")
}

// podAffinity tells the two directions apart, and where the pod would have to
// go.
func (q *inquiry) podAffinity(text string) []explain.Cause {
	r := reason.Reason{Code: "pod-anti-affinity", Detail: []string{text}}
	if strings.Contains(text, "pod affinity rules") && !strings.Contains(text, "anti-affinity") {
		r = reason.Reason{Code: "pod-affinity-elsewhere"}
		if on := q.affinityNodes(); len(on) > 0 {
			r.Detail = []string{": such pods run on " + strings.Join(on, ", ")}
		}
	}
	return []explain.Cause{{Check: explain.PodAffinity, Reason: r}}
}
