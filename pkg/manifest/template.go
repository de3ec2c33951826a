package manifest

import (
	"k8s.io/apimachinery/pkg/util/validation"

	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// templateOf turns what holds metadata and spec of a pod into plain values.
func templateOf(n *Node, path string) rules.Template {
	spec := n.Get("spec")
	at := rules.Join(path, "spec")
	t := rules.Template{
		Path: path, Pods: 1, Meta: metaOf(n.Get("metadata"), rules.Join(path, "metadata")),
		SchedulerName: textOf(spec.Get("schedulerName")), RuntimeClass: textOf(spec.Get("runtimeClassName")),
		NodeName: textOf(spec.Get("nodeName")), DNSPolicy: textOf(spec.Get("dnsPolicy")),
		HostNetwork: spec.Get("hostNetwork").truth(), NodeSelector: spec.Get("nodeSelector").strings(),
		Terms: termsOf(spec.Get("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")),
	}
	for i, v := range spec.Get("volumes").list() {
		if p := v.Get("hostPath", "path"); p != nil {
			t.HostPaths = append(t.HostPaths, rules.HostPath{Path: rules.Index(rules.Join(at, "volumes"), i) + ".hostPath.path", Host: p.text()})
		}
	}
	for i, c := range spec.Get("initContainers").list() {
		kind := request.Init
		if c.Get("restartPolicy").text() == "Always" {
			kind = request.Sidecar
		}
		t.Containers = append(t.Containers, containerOf(c, kind, rules.Index(rules.Join(at, "initContainers"), i)))
	}
	for i, c := range spec.Get("containers").list() {
		t.Containers = append(t.Containers, containerOf(c, request.App, rules.Index(rules.Join(at, "containers"), i)))
	}
	return t
}

func textOf(n *Node) rules.Text {
	if n == nil || n.Kind == Null {
		return rules.Text{}
	}
	return rules.Text{Value: n.text(), Set: true}
}

// metaOf reads metadata. Labels that the API server refuses are named, so
// that no rule speaks about their values as well.
func metaOf(n *Node, path string) rules.Meta {
	m := rules.Meta{Path: path, Labels: n.Get("labels").strings(), Annotations: n.Get("annotations").strings()}
	for k, v := range m.Labels {
		if len(validation.IsValidLabelValue(v)) > 0 {
			if m.Refused == nil {
				m.Refused = map[string]bool{}
			}
			m.Refused[k] = true
		}
	}
	return m
}

func termsOf(n *Node) []rules.Term {
	if n == nil || n.Kind != List {
		return nil
	}
	out := make([]rules.Term, 0, len(n.Items))
	for _, item := range n.Items {
		var t rules.Term
		for _, e := range item.Get("matchExpressions").list() {
			t.Exprs = append(t.Exprs, rules.Expr{Key: e.Get("key").text(), Op: e.Get("operator").text(), Values: e.Get("values").texts()})
		}
		out = append(out, t)
	}
	return out
}

func containerOf(n *Node, kind request.Kind, path string) rules.Container {
	caps := n.Get("securityContext", "capabilities")
	return rules.Container{
		Path: path, Name: n.Get("name").text(), Kind: kind,
		Limits:     amountsOf(n.Get("resources", "limits"), path+".resources.limits"),
		Requests:   amountsOf(n.Get("resources", "requests"), path+".resources.requests"),
		Privileged: n.Get("securityContext", "privileged").truth(),
		Add:        caps.Get("add").texts(), Drop: caps.Get("drop").texts(),
	}
}

func amountsOf(n *Node, path string) []rules.Amount {
	var out []rules.Amount
	for _, f := range n.entries() {
		a := amountOf(f.Value)
		a.Name, a.Path = f.Key, rules.Join(path, f.Key)
		out = append(out, a)
	}
	return out
}
