package whypending

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/explain"
)

// Waiting answers for every pod that waits, in a namespace or in all (""), and
// for the controllers that could make no pod. Pods of the same controller with
// the same spec are answered once.
func (p *Picture) Waiting(ctx context.Context, ns string, sel labels.Selector) ([]*explain.Report, error) {
	var out []*explain.Report
	seen := map[types.UID]*explain.Report{}
	for _, pod := range p.s.Pods {
		if !waiting(pod) || ns != "" && pod.Namespace != ns || !sel.Matches(labels.Set(pod.Labels)) {
			continue
		}
		ref := metav1.GetControllerOf(pod)
		if ref != nil && pod.Spec.NodeName == "" {
			if r := seen[ref.UID]; r != nil {
				r.Target.Waiting++
				continue
			}
		}
		r, err := p.explainPod(ctx, Target{"Pod", pod.Namespace, pod.Name}, pod)
		if err != nil {
			return nil, err
		}
		r.Target.Waiting = 1
		if ref != nil && pod.Spec.NodeName == "" {
			seen[ref.UID] = r
		}
		out = append(out, r)
	}
	barren, err := p.barren(ctx, ns, sel)
	if err != nil {
		return nil, err
	}
	out = append(out, barren...)
	slices.SortStableFunc(out, func(a, b *explain.Report) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Target.Namespace, b.Target.Namespace), cmp.Compare(a.Target.Name, b.Target.Name), cmp.Compare(a.Target.Kind, b.Target.Kind))
	})
	return out, nil
}

// barren are controllers that should have pods and have none.
func (p *Picture) barren(ctx context.Context, ns string, sel labels.Selector) ([]*explain.Report, error) {
	var out []*explain.Report
	for _, c := range p.owners {
		if ns != "" && c.Namespace != ns || p.parent(c.meta) != nil || !sel.Matches(labels.Set(c.meta.GetLabels())) || !p.missesPods(c) {
			continue
		}
		r, err := p.explainOwner(ctx, c)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (p *Picture) missesPods(c *controller) bool {
	if len(p.podsOf(c)) > 0 {
		return false
	}
	switch c.Kind {
	case "CronJob":
		return false
	case "JobSet":
		done, _, _ := ended(c)
		return !done
	}
	done, _, _ := ended(c)
	return !done && c.want > 0
}

// cause is one line of the summary's upper table.
type causeRow struct {
	verdict, code string
	pods          int
	message       string
}

// printMany writes the summary: what causes wait for how many pods, and then
// who they are.
func (o *options) printMany(p *Picture, reports []*explain.Report, ns string) error {
	out := o.f.Streams.Out
	if o.output == "json" || o.output == "yaml" {
		return cliutil.PrintObject(out, o.output, list(reports))
	}
	if len(reports) == 0 {
		where := "in any namespace"
		if ns != "" {
			where = "in namespace " + ns
		}
		_, err := fmt.Fprintf(o.f.Streams.ErrOut, "no pod waits %s\n", where)
		return err
	}
	w := &strings.Builder{}
	o.causes(w, reports)
	w.WriteString("\n")
	if !o.noHeaders {
		fmt.Fprintf(w, "%-14s %-28s %5s %5s  %-8s %-22s %s\n", "NAMESPACE", "NAME", "PODS", "AGE", "VERDICT", "CODE", "NEAREST")
	}
	for _, r := range reports {
		name := r.Target.Name
		if r.Target.Kind != "Pod" {
			name = strings.ToLower(r.Target.Kind) + "/" + name
		}
		nearest := ""
		if len(r.Nodes) > 0 {
			nearest = r.Nodes[0].Name
		}
		fmt.Fprintln(w, esc(strings.TrimRight(fmt.Sprintf("%-14s %-28s %5d %5s  %-8s %-22s %s", r.Target.Namespace, name, r.Target.Waiting,
			ageOf(r, r.Target.Since), r.Verdict, r.Code, nearest), " ")))
	}
	for _, m := range p.s.Missing {
		if m.Resource == "nodes" || m.Resource == "pods" {
			fmt.Fprintf(w, "\nNOTE     not checked: %s (%s)\n", m.Resource, esc(m.Why))
		}
	}
	_, err := io.WriteString(out, w.String())
	return err
}

// causes groups by verdict and code, most pods first.
func (o *options) causes(w *strings.Builder, reports []*explain.Report) {
	var rows []*causeRow
	index := map[string]*causeRow{}
	for _, r := range reports {
		k := string(r.Verdict) + " " + string(r.Code)
		row := index[k]
		if row == nil {
			row = &causeRow{verdict: string(r.Verdict), code: string(r.Code), message: r.Message}
			index[k] = row
			rows = append(rows, row)
		}
		row.pods += max(1, r.Target.Waiting)
	}
	slices.SortStableFunc(rows, func(a, b *causeRow) int { return cmp.Or(b.pods-a.pods, cmp.Compare(a.code, b.code)) })
	if !o.noHeaders {
		fmt.Fprintf(w, "%5s  %-8s %-22s %s\n", "PODS", "VERDICT", "CODE", "FOR EXAMPLE")
	}
	for _, row := range rows {
		fmt.Fprintln(w, esc(cut(fmt.Sprintf("%5d  %-8s %-22s %s", row.pods, row.verdict, row.code, row.message), 110)))
	}
}
