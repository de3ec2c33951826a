package whypending

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/printers"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/spelling"
	"lj.aliyun.com/kit/pkg/kube"
)

const long = `Say why a pod or a job is not running: who should look at it, what it asks for
as the scheduler understands it, which nodes are ruled out by which cause, card
by card, and what would make it run.

The scheduler's own engine judges a picture of the cluster: every filter on
every node, not only the first that fails. Suggestions marked (checked) were
tried on that picture. Events are quoted as hints, never as proof.`

const example = `  # A pod
  ljctl why-pending mig-demo

  # A job, by the pod that waits longest, or by what keeps pods from being made
  ljctl why-pending jobset/gang-nccl-test -n team-a

  # Everything that waits, by cause
  ljctl why-pending -A

  # Before it is created
  ljctl why-pending -f job.yaml

  # Without the cluster, from a file of ljctl snapshot or kubectl
  ljctl why-pending mig-demo --snapshot cluster.json

  # One node, card by card
  ljctl why-pending mig-demo --node gpu-07`

type options struct {
	f         *cliutil.Factory
	output    string
	file      string
	snapshot  string
	node      string
	selector  string
	all       bool
	exitCode  bool
	noHeaders bool
}

// NewCmd makes the command.
func NewCmd(f *cliutil.Factory) *cobra.Command {
	o := &options{f: f}
	cmd := &cobra.Command{
		Use:     "why-pending [POD | KIND/NAME]",
		Short:   "Explain why a pod or a job is not running",
		Long:    long,
		Example: example,
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
		ValidArgsFunction: cliutil.Once(f.CompletePods(func(p kube.PodMeta) bool {
			return p.Phase == string(v1.PodPending)
		})),
	}
	cliutil.OutputFlag(cmd, &o.output, "text", "text", "wide", "json", "yaml")
	fs := cmd.Flags()
	fs.StringVarP(&o.file, "filename", "f", "", "Explain the pods of this manifest, which need not exist; - is the input")
	fs.StringVar(&o.snapshot, "snapshot", "", "Read this file instead of the cluster; - is the input")
	fs.StringVar(&o.node, "node", "", "Tell only this node, card by card")
	fs.StringVarP(&o.selector, "selector", "l", "", "Explain the waiting pods with these labels")
	fs.BoolVarP(&o.all, "all-namespaces", "A", false, "Explain the waiting pods of all namespaces")
	fs.BoolVar(&o.exitCode, "exit-code", false, "Exit by the verdict: 0 OK or WARN, 3 BLOCKED or INVALID, 5 WAIT, 6 UNKNOWN, 1 ENV")
	fs.BoolVar(&o.noHeaders, "no-headers", false, "Print tables without headers")
	return cmd
}

func (o *options) check(args []string) error {
	many := o.all || o.selector != ""
	switch {
	case len(args) > 0 && many:
		return cliutil.Usagef("a name and -A or -l exclude each other")
	case len(args) > 0 && o.file != "":
		return cliutil.Usagef("a name and -f exclude each other")
	case o.file != "" && many:
		return cliutil.Usagef("-f and -A or -l exclude each other")
	case o.file == "-" && o.snapshot == "-":
		return cliutil.Usagef("-f and --snapshot cannot both read the input")
	case o.node != "" && many:
		return cliutil.Usagef("--node needs one pod")
	}
	return nil
}

func (o *options) run(ctx context.Context, args []string) error {
	if err := o.check(args); err != nil {
		return err
	}
	ns, _, err := o.f.Namespace()
	if err != nil {
		return err
	}
	var targets []Target
	for _, a := range args {
		t, err := ParseTarget(a, ns)
		if err != nil {
			return cliutil.Usagef("%w", err)
		}
		targets = append(targets, t)
	}
	sel, err := labels.Parse(o.selector)
	if err != nil {
		return cliutil.Usagef("-l: %w", err)
	}
	drafts, err := o.drafts(ns)
	if err != nil {
		return err
	}
	p, err := o.picture(ctx, ns)
	if err != nil {
		return err
	}
	defer p.Close()
	return o.answer(ctx, p, ns, targets, drafts, sel)
}

func (o *options) answer(ctx context.Context, p *Picture, ns string, targets []Target, drafts []draft, sel labels.Selector) error {
	var reports []*explain.Report
	for _, t := range targets {
		r, err := p.Explain(ctx, t)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	for _, d := range drafts {
		r, err := p.ExplainDraft(ctx, d.target, d.pod, d.pods)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	if len(targets) == 0 && len(drafts) == 0 {
		if o.all {
			ns = ""
		}
		var err error
		if reports, err = p.Waiting(ctx, ns, sel); err != nil {
			return err
		}
		return o.finish(reports, o.printMany(p, reports, ns))
	}
	for _, r := range reports {
		if err := o.only(r); err != nil {
			return err
		}
	}
	return o.finish(reports, o.print(reports))
}

// only keeps one node of the report.
func (o *options) only(r *explain.Report) error {
	if o.node == "" {
		return nil
	}
	var names []string
	for _, n := range r.Nodes {
		if n.Name == o.node {
			r.Nodes = []explain.NodeReport{n}
			return nil
		}
		names = append(names, n.Name)
	}
	if len(names) == 0 {
		return nil // no node was looked at, and the report says why
	}
	err := fmt.Errorf("node %s not found", o.node)
	if near := spelling.Closest(o.node, names); near != "" {
		return cliutil.WithHint(err, "did you mean %s?", near)
	}
	return cliutil.WithHint(err, "see them with: kubectl get nodes")
}

func (o *options) finish(reports []*explain.Report, err error) error {
	if err != nil || !o.exitCode {
		return err
	}
	var words []reason.Verdict
	for _, r := range reports {
		words = append(words, r.Verdict)
	}
	return cliutil.Exit(reason.Worst(words...))
}

// picture reads the cluster, or a file.
func (o *options) picture(ctx context.Context, ns string) (*Picture, error) {
	s, cfg, origin, err := o.source(ctx, ns)
	if err != nil {
		return nil, err
	}
	p := New(s, cfg, o.f.Clock.Now())
	p.origin = origin
	return p, nil
}

func (o *options) source(ctx context.Context, ns string) (*kube.Snapshot, config.Config, kube.Origin, error) {
	if o.snapshot == "" {
		clients, err := o.f.Clients()
		if err != nil {
			return nil, config.Config{}, kube.Origin{}, err
		}
		s, err := kube.Collect(ctx, clients, kube.CollectOptions{Fallback: ns, Now: o.f.Clock.Now()})
		if err != nil {
			return nil, config.Config{}, kube.Origin{}, err
		}
		cfg, origin := s.Config()
		return s, cfg, origin, nil
	}
	in, closeIn, err := open(o.f.Streams.In, o.snapshot)
	if err != nil {
		return nil, config.Config{}, kube.Origin{}, err
	}
	defer closeIn()
	s, err := kube.LoadSnapshot(in)
	if err != nil {
		return nil, config.Config{}, kube.Origin{}, cliutil.WithHint(err, "take one with: ljctl snapshot > FILE, or kubectl get nodes,pods -A -o json > FILE")
	}
	cfg, origin := s.Config()
	return s, cfg, origin, nil
}

// open opens a file, or hands out the input for "-".
func open(in io.Reader, name string) (io.Reader, func(), error) {
	if name == "-" {
		return in, func() {}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = fmt.Errorf("%s: %w", name, pe.Err)
		}
		return nil, nil, cliutil.WithHint(err, "check the path and its permissions")
	}
	return f, func() { _ = f.Close() }, nil
}

func (o *options) print(reports []*explain.Report) error {
	out := o.f.Streams.Out
	switch o.output {
	case "json", "yaml":
		if len(reports) == 1 {
			return cliutil.PrintObject(out, o.output, reports[0])
		}
		return cliutil.PrintObject(out, o.output, list(reports))
	}
	w := &strings.Builder{}
	v := view{color: printers.AllowsColorOutput(out), wide: o.output == "wide", one: o.node, headers: !o.noHeaders}
	for i, r := range reports {
		if i > 0 {
			w.WriteString("\n")
		}
		v.report(w, r)
	}
	_, err := io.WriteString(out, w.String())
	return err
}

// reportList is several answers in one document.
type reportList struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []*explain.Report `json:"items"`
}

func list(reports []*explain.Report) reportList {
	if reports == nil {
		reports = []*explain.Report{}
	}
	return reportList{explain.APIVersion, explain.Kind + "List", reports}
}
