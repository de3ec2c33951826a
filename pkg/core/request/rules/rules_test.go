package rules

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// amount is a limit as a plain number.
func amount(name string, v int64) Amount {
	return Amount{Name: name, Path: "limits[" + name + "]", Raw: fmt.Sprint(v), Value: v}
}

// podOf is a right pod with these limits in one container, changed by the
// edits.
func podOf(limits []Amount, edits ...func(*Template)) *Workload {
	t := Template{Pods: 1, Meta: Meta{Path: "metadata", Labels: map[string]string{}},
		SchedulerName: Text{SchedulerName, true}, RuntimeClass: Text{RuntimeClass, true},
		Containers: []Container{{Name: "app", Path: "spec.containers[0]", Limits: limits}}}
	for _, e := range edits {
		e(&t)
	}
	return &Workload{Kind: "Pod", Templates: []Template{t}, Owners: []Meta{{Path: "metadata"}}}
}

func codes(fs []Finding) string {
	var out []string
	for _, f := range fs {
		s := string(f.Reason.Code)
		if f.Verdict != reason.Invalid {
			s += ":" + string(f.Verdict)
		}
		out = append(out, s)
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

func known() Options {
	c := config.Default()
	c.UnitKnown = true
	return Options{Config: c}
}

func TestNearestResource(t *testing.T) {
	for name, want := range map[string]string{
		"nvidia.com/gpu": "", "aliyun.com/gpu-memory": "", "amd.com/gpu": "", "netint.ca/ASIC": "", "aliyun/erdma": "",
		"rdma/hca": "", "rdma/hca_shared": "", "cpu": "", "memory": "", "hugepages-2Mi": "", "ephemeral-storage": "",
		"nvidia.com/mig-1g.5gb": "", "nvidia.com/gpu.shared": "", "example.com/gpu": "", "aliyun.com/eni": "", "xilinx.com/fpga": "",
		"aliyun.com/gpu-core.percentage": "aliyun.com/gpu-core", "aliyun.com/gpu-count": "aliyun.com/gpu",
		"aliyun.com/rmda": "aliyun.com/rdma", "nvidia.com/gpumem": "aliyun.com/gpu-memory", "nvida.com/gpu": "nvidia.com/gpu",
		"aliyum.com/gpu-slice": "aliyun.com/gpu-slice", "amd.com/gpus": "amd.com/gpu", "gpu": "aliyun.com/gpu",
		"aliyun.com/gpu-slcie": "aliyun.com/gpu-slice", "ALIYUN.COM/GPU_MEMORY": "aliyun.com/gpu-memory",
	} {
		if got := Nearest(name, config.Default()); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestMistypedLabels(t *testing.T) {
	for label, want := range map[string]string{
		"replicas": "label-near-miss:WARN", "Replica": "label-near-miss:WARN", "aliyun.com/replica": "label-near-miss:WARN", "relpica": "label-near-miss:WARN",
		"aliyun.com/min_member": "label-near-miss:WARN", "aliyun.com/min-members": "label-near-miss:WARN", "alibabacloud.com/min-member": "label-near-miss:WARN", "min-member": "label-near-miss:WARN",
		"app": "", "example.com/replica": "", "example.com/min-member": "", "pod-template-hash": "",
	} {
		w := podOf([]Amount{amount("aliyun.com/gpu-core", 50), amount("aliyun.com/gpu-memory", 4)}, func(t *Template) { t.Meta.Labels[label] = "2" })
		if got := codes(Check(w, known())); got != want {
			t.Errorf("%s: %q, want %q", label, got, want)
		}
	}
}

func TestSelectors(t *testing.T) {
	in := func(k string, vs ...string) Expr { return Expr{k, "In", vs} }
	notIn := func(k string, vs ...string) Expr { return Expr{k, "NotIn", vs} }
	for what, c := range map[string]struct {
		selector map[string]string
		terms    []Term
		want     string
	}{
		"no selector":                           {nil, nil, ""},
		"the enabling label":                    {map[string]string{EnableLabel: "true"}, nil, ""},
		"the enabling label with another value": {map[string]string{EnableLabel: "false"}, nil, "selector-excludes-enabled-nodes"},
		"the enabling label in capitals":        {map[string]string{EnableLabel: "True"}, nil, "selector-excludes-enabled-nodes"},
		"the enabling label must be absent":     {nil, []Term{{[]Expr{{EnableLabel, "DoesNotExist", nil}}}}, "selector-excludes-enabled-nodes"},
		"selector against affinity":             {map[string]string{"m": "A100"}, []Term{{[]Expr{notIn("m", "A100")}}}, "selector-contradiction"},
		"one of two terms is possible":          {map[string]string{"m": "A100"}, []Term{{[]Expr{notIn("m", "A100")}}, {[]Expr{in("m", "A100", "H800")}}}, ""},
		"two values at once":                    {nil, []Term{{[]Expr{in("m", "a"), in("m", "b")}}}, "selector-contradiction"},
		"there and not there":                   {nil, []Term{{[]Expr{{"m", "Exists", nil}, {"m", "DoesNotExist", nil}}}}, "selector-contradiction"},
		"not there satisfies NotIn":             {nil, []Term{{[]Expr{notIn("m", "a"), {"m", "DoesNotExist", nil}}}}, ""},
		"a number between bounds":               {nil, []Term{{[]Expr{{"n", "Gt", []string{"3"}}, {"n", "Lt", []string{"5"}}}}}, ""},
		"no number between bounds":              {nil, []Term{{[]Expr{{"n", "Gt", []string{"3"}}, {"n", "Lt", []string{"4"}}}}}, "selector-contradiction"},
		"each term excludes the enabled nodes":  {nil, []Term{{[]Expr{in(EnableLabel, "no")}}, {[]Expr{in(EnableLabel, "off")}}}, "selector-excludes-enabled-nodes"},
	} {
		t.Run(what, func(t *testing.T) {
			w := podOf([]Amount{amount("nvidia.com/gpu", 1)}, func(t *Template) { t.NodeSelector, t.Terms = c.selector, c.terms })
			if got := codes(Check(w, known())); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestPathsFollowTheServersForm(t *testing.T) {
	got := []string{Join("", "spec"), Join("spec", "containers"), Index("spec.containers", 2), Join("limits", "aliyun.com/gpu"), Join("labels", "replica"), Join("a", "")}
	want := []string{"spec", "spec.containers", "spec.containers[2]", "limits[aliyun.com/gpu]", "labels.replica", "a[]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPodsWithoutCardsAreLeftInPeace(t *testing.T) {
	w := podOf([]Amount{amount("cpu", 2), amount("amd.com/gpu", 1)}, func(t *Template) {
		t.SchedulerName, t.RuntimeClass = Text{}, Text{}
		t.NodeName, t.HostNetwork = Text{"n", true}, true
		t.NodeSelector = map[string]string{EnableLabel: "false"}
		t.Containers[0].Privileged = true
	})
	if got := codes(Check(w, known())); got != "" {
		t.Errorf("got %q", got)
	}
}

// A JobSet's templates of one group, with their labels, against its pods.
func TestGroups(t *testing.T) {
	type tmpl struct {
		label string
		pods  int64
	}
	for what, c := range map[string]struct {
		kind string
		ts   []tmpl
		want string
	}{
		"one template, right":                   {"JobSet", []tmpl{{"7", 7}}, ""},
		"two templates sum up":                  {"JobSet", []tmpl{{"8", 7}, {"8", 1}}, ""},
		"each counts itself only":               {"JobSet", []tmpl{{"7", 7}, {"1", 1}}, "min-member-differs min-member-mismatch"},
		"a lone pod needs no label":             {"JobSet", []tmpl{{"", 1}}, ""},
		"two lone pods are warned about":        {"JobSet", []tmpl{{"", 1}, {"", 1}}, "min-member-missing:WARN min-member-missing:WARN"},
		"a group and a lone pod beside it":      {"JobSet", []tmpl{{"4", 4}, {"", 1}}, "min-member-missing:WARN"},
		"a job without the label is plain":      {"Job", []tmpl{{"", 7}}, ""},
		"a job's group":                         {"Job", []tmpl{{"7", 7}}, ""},
		"a replica set is no group":             {"ReplicaSet", []tmpl{{"7", 7}}, "gang-needs-jobset:WARN"},
		"a pod template says nothing yet":       {"PodTemplate", []tmpl{{"7", 1}}, ""},
		"an unreadable label is the only error": {"JobSet", []tmpl{{"x", 7}, {"8", 1}}, "min-member-not-an-integer"},
	} {
		t.Run(what, func(t *testing.T) {
			w := &Workload{Kind: c.kind, Owners: []Meta{{Path: "metadata"}}}
			for _, x := range c.ts {
				one := podOf([]Amount{amount("nvidia.com/gpu", 1)}).Templates[0]
				one.Pods = x.pods
				one.Job = &Job{Path: "spec", Parallelism: x.pods, Completions: &x.pods, Indexed: true, IgnoresDisruptions: true}
				if x.label != "" {
					one.Meta.Labels["aliyun.com/min-member"] = x.label
				}
				w.Templates = append(w.Templates, one)
			}
			if got := codes(Check(w, known())); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Findings that say INVALID and the scheduler's refusals are two sides of the
// same rules: a workload without an error must parse.
func TestWithoutErrorsTheSchedulerTakesIt(t *testing.T) {
	c := config.Default()
	values := []int64{0, 1, 3, 5, 50, 100, 200}
	for _, a := range c.Resources() {
		for _, b := range c.Resources() {
			for _, v := range values {
				for _, x := range values {
					lines := []Amount{amount(a, v)}
					if a != b {
						lines = append(lines, amount(b, x))
					}
					w := podOf(lines)
					fs := Check(w, known())
					bad := slices.ContainsFunc(fs, func(f Finding) bool { return f.Verdict == reason.Invalid || f.Verdict == reason.Blocked })
					_, refused := request.Parse(w.Templates[0].Pod(""), c)
					if !bad && len(refused) > 0 {
						t.Errorf("%s=%d %s=%d: no error found, and the scheduler says %v", a, v, b, x, refused)
					}
				}
			}
		}
	}
}

func TestEveryCodeIsInTheClosedList(t *testing.T) {
	w := podOf([]Amount{amount("aliyun.com/gpu-core", 300), amount("aliyun.com/gpu-mem", 1), amount("aliyun.com/rdma", 3)}, func(t *Template) {
		t.SchedulerName, t.RuntimeClass = Text{"x", true}, Text{}
		t.NodeName = Text{"n", true}
		t.Meta.Labels = map[string]string{"replica": "00", "aliyun.com/min-member": "3"}
	})
	for _, f := range Check(w, Options{Config: config.Default()}) {
		if _, ok := reason.Lookup(f.Reason.Code); !ok {
			t.Errorf("%s", f.Reason.Code)
		}
		if s := f.Reason.Sentence() + f.Fix(); strings.ContainsAny(s, "{}") {
			t.Errorf("%s: %s", f.Reason.Code, s)
		}
	}
}
