package rules

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lj.aliyun.com/kit/pkg/core/config"
)

func TestPoliciesOfAPod(t *testing.T) {
	const node, card = config.NodePolicyKey, config.CardPolicyKey
	type M = map[string]string
	for what, c := range map[string]struct {
		annotations, labels, above M
		want                       []string // path, code, fix
	}{
		"both right":                  {annotations: M{node: "spread", card: "binpack"}},
		"others' annotations":         {annotations: M{"example.com/node-policy": "x", "lj.aliyun.com/policy": "y", "kubernetes.io/card": "z"}},
		"a letter wrong":              {annotations: M{card: "sprad"}, want: []string{"metadata.annotations[" + card + "] policy-unknown did you mean spread?"}},
		"capitals and a dash":         {annotations: M{node: "Bin-Pack"}, want: []string{"metadata.annotations[" + node + "] policy-unknown did you mean binpack?"}},
		"blanks around":               {annotations: M{node: " spread"}, want: []string{"metadata.annotations[" + node + "] policy-unknown did you mean spread?"}},
		"nothing like it":             {annotations: M{node: "random"}, want: []string{"metadata.annotations[" + node + "] policy-unknown write binpack or spread"}},
		"empty":                       {annotations: M{node: ""}, want: []string{"metadata.annotations[" + node + "] policy-unknown write binpack or spread"}},
		"as a label":                  {labels: M{card: "spread"}, want: []string{"metadata.labels[" + card + "] policy-not-read write it as annotation " + card + " of the pod"}},
		"on the job":                  {above: M{card: "spread"}, want: []string{"above.annotations[" + card + "] policy-not-read write it as annotation " + card + " of the pod"}},
		"under a mistyped key":        {annotations: M{"lj.aliyun.com/cards-policy": "spread"}, want: []string{"metadata.annotations[lj.aliyun.com/cards-policy] policy-not-read write it as annotation " + card + " of the pod"}},
		"under the resources' domain": {annotations: M{"aliyun.com/node_policy": "spread"}, want: []string{"metadata.annotations[aliyun.com/node_policy] policy-not-read write it as annotation " + node + " of the pod"}},
		"without a domain":            {annotations: M{"node-policy": "spread"}, want: []string{"metadata.annotations.node-policy policy-not-read write it as annotation " + node + " of the pod"}},
		"right, and again as a label": {annotations: M{node: "spread"}, labels: M{node: "spread"}},
	} {
		t.Run(what, func(t *testing.T) {
			w := podOf([]Amount{amount("nvidia.com/gpu", 1)}, func(t *Template) {
				t.Meta.Annotations = c.annotations
				for k, v := range c.labels {
					t.Meta.Labels[k] = v
				}
			})
			if c.above != nil {
				w.Owners = append(w.Owners, Meta{Path: "above", Annotations: c.above})
				w.Templates[0].Path = "above.spec.template"
			}
			var got []string
			for _, f := range Check(w, known()) {
				got = append(got, fmt.Sprint(f.Path, " ", f.Reason.Code, " ", f.Fix()))
				if f.Verdict != "WARN" {
					t.Errorf("%s is %s: the scheduler takes the pod", f.Reason.Code, f.Verdict)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
