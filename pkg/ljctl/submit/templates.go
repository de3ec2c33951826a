package submit

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/request"
)

// maxPreviewPods bounds the pods of one template that are tried.
const maxPreviewPods = 4096

// templatesOf finds the pod templates of the kinds that Kubernetes and JobSet
// have.
func templatesOf(u *unstructured.Unstructured) []podTemplate {
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	switch u.GetKind() {
	case "Pod":
		return []podTemplate{{pods: 1, pod: map[string]any{"metadata": u.Object["metadata"], "spec": u.Object["spec"]}}}
	case "CronJob":
		job, _, _ := unstructured.NestedMap(spec, "jobTemplate", "spec")
		return one("", job, parallelism(job))
	case "Job":
		return one("", spec, parallelism(spec))
	case "JobSet":
		var out []podTemplate
		list, _, _ := unstructured.NestedSlice(spec, "replicatedJobs")
		for _, e := range list {
			rj, _ := e.(map[string]any)
			job, _, _ := unstructured.NestedMap(rj, "template", "spec")
			role, _, _ := unstructured.NestedString(rj, "name")
			out = append(out, one(role, job, number(rj, "replicas", 1)*parallelism(job))...)
		}
		return out
	}
	return one("", spec, number(spec, "replicas", 1))
}

func one(role string, owner map[string]any, pods int) []podTemplate {
	t, ok, _ := unstructured.NestedMap(owner, "template")
	if !ok {
		return nil
	}
	return []podTemplate{{role, min(pods, maxPreviewPods), t}}
}

func parallelism(job map[string]any) int {
	n := number(job, "parallelism", 1)
	return min(n, number(job, "completions", n))
}

func number(m map[string]any, key string, none int) int {
	if n, ok, err := unstructured.NestedInt64(m, key); ok && err == nil && n >= 0 {
		return int(min(n, maxPreviewPods))
	}
	return none
}

// printPreview writes the answer; the exit code follows its verdict.
func (o *options) printPreview(p *Preview) error {
	w := o.f.Streams.Out
	if o.output != "" {
		if err := cliutil.PrintObject(w, o.output, p); err != nil {
			return err
		}
		return cliutil.Exit(p.Verdict)
	}
	var b strings.Builder
	for _, obj := range p.Objects {
		for _, t := range obj.Templates {
			fmt.Fprintf(&b, "%s\n", obj.Ref)
			fmt.Fprintf(&b, "  request   %s\n", requestLine(t))
			fmt.Fprintf(&b, "  fits now  %s\n", fitLine(t))
			if t.Why != "" {
				fmt.Fprintf(&b, "            %s\n", t.Why)
			}
		}
		if obj.Group != "" {
			fmt.Fprintf(&b, "  group     goes to %s\n", obj.Group)
		}
	}
	if len(p.Objects) == 0 {
		b.WriteString("no object asks for cards\n")
	}
	fmt.Fprintf(&b, "settings    %s\n", p.Settings)
	for _, n := range p.NotChecked {
		fmt.Fprintf(&b, "not checked %s\n", n)
	}
	fmt.Fprintf(&b, "verdict     %s\n", p.Verdict)
	if _, err := fmt.Fprint(w, cliutil.Escape(b.String())); err != nil {
		return err
	}
	return cliutil.Exit(p.Verdict)
}

func requestLine(t TemplateFit) string {
	var asks []string
	for _, a := range t.Request {
		asks = append(asks, fmt.Sprintf("container %s: %s", a.Container, askLine(a)))
	}
	line := fmt.Sprintf("%d pods, each ", t.Pods)
	if t.Pods == 1 {
		line = "1 pod, "
	}
	line += strings.Join(asks, "; ")
	if t.RDMA {
		line += "; near RDMA NICs"
	}
	return line
}

func askLine(a request.Ask) string {
	cards := "1 card"
	if a.Count > 1 {
		cards = fmt.Sprintf("%d cards", a.Count)
	}
	var each []string
	switch a.Mode {
	case request.Whole:
		if a.NVIDIAOnly {
			return cards + " whole, NVIDIA"
		}
		return cards + " whole, any vendor"
	case request.MIG:
		each = append(each, fmt.Sprintf("a MIG instance of %d slices", a.Slices))
	case request.TDM:
		each = append(each, "a share (TDM)")
		if a.Core > 0 {
			each = append(each, fmt.Sprintf("%d%% compute", a.Core))
		}
	}
	if a.MemMiB > 0 {
		each = append(each, fmt.Sprintf("%d MiB", a.MemMiB))
	}
	return cards + ", of each " + strings.Join(each, ", ")
}

func fitLine(t TemplateFit) string {
	if t.Placed == 0 {
		return "no"
	}
	var nodes []string
	count := map[string]int{}
	for _, n := range t.Nodes {
		if count[n]++; count[n] == 1 {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	for i, n := range nodes {
		if count[n] > 1 {
			nodes[i] = fmt.Sprintf("%s (%d pods)", n, count[n])
		}
	}
	if len(nodes) > 8 {
		nodes = append(nodes[:8], fmt.Sprintf("and %d more nodes", len(nodes)-8))
	}
	yes := "yes"
	if t.Placed < t.Pods {
		yes = fmt.Sprintf("%d of %d pods", t.Placed, t.Pods)
	}
	return yes + ": " + strings.Join(nodes, ", ")
}
