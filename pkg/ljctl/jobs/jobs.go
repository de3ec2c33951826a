package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

const long = `List the jobs that ask for cards: JobSets, Jobs, Deployments and others by
their top owner, and pods that nobody owns.

PODS is running pods of wanted pods. CARDS is cards granted of cards asked, with
the node; a ? says that a pod was placed by something else and its cards are not
known. REASON is why the job does not run; 'ljctl why-pending' tells it whole.`

const example = `  # The jobs of the namespace
  ljctl jobs

  # All jobs, with nodes, request and the whole message
  ljctl jobs -A -o wide

  # One job
  ljctl jobs jobset/gang -o json`

type options struct {
	f             *cliutil.Factory
	allNamespaces bool
	selector      string
	output        string
	noHeaders     bool
	names         []string
}

// NewCmd makes the command.
func NewCmd(f *cliutil.Factory) *cobra.Command {
	o := &options{f: f}
	cmd := &cobra.Command{
		Use:               "jobs [NAME | TYPE/NAME]…",
		Aliases:           []string{"job", "list"},
		Short:             "List jobs with their state, cards and reason",
		Long:              long,
		Example:           example,
		ValidArgsFunction: CompleteJobs(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Jobs of all namespaces")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "Only jobs one of whose pods has these labels, such as app=train")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "Print no line of headers")
	cliutil.OutputFlag(cmd, &o.output, "", "wide", "json", "yaml", "name")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	sel, err := labels.Parse(o.selector)
	if err != nil {
		return cliutil.Usagef("--selector: %w", err)
	}
	switch {
	case o.allNamespaces && len(o.names) > 0:
		return cliutil.Usagef("a job cannot be named across all namespaces: leave -A out, or the name")
	case o.selector != "" && len(o.names) > 0:
		return cliutil.Usagef("give a name or --selector, not both")
	}
	ns := ""
	if !o.allNamespaces {
		if ns, _, err = o.f.Namespace(); err != nil {
			return err
		}
	}
	s, cfg, err := Read(ctx, o.f, ns)
	if err != nil {
		return err
	}
	rows := selected(Reduce(s, cfg), sel)
	l := List{APIVersion: kube.SnapshotAPIVersion, Kind: "JobList", NotRead: notRead(s)}
	for _, m := range l.NotRead {
		fmt.Fprintf(o.f.Streams.ErrOut, "not read: %s\n", cliutil.Escape(m))
	}
	if l.Items, err = pick(rows, o.names, ns); err != nil {
		return err
	}
	if len(l.Items) == 0 && len(l.NotRead) > 0 {
		// Nobody may say that there are none.
		if err := printRows(o.f.Streams.Out, l, o, o.f.Clock.Now()); err != nil {
			return err
		}
		return cliutil.WithHint(&cliutil.ExitError{Code: reason.ExitUnknown, Err: errors.New("UNKNOWN: there may be jobs in what could not be read")},
			"ask an administrator for the permissions named above")
	}
	if len(l.Items) == 0 {
		where := "in namespace " + ns
		if o.allNamespaces {
			where = "in any namespace"
		}
		fmt.Fprintf(o.f.Streams.ErrOut, "No jobs that ask for cards found %s.\n", where)
	}
	return printRows(o.f.Streams.Out, l, o, o.f.Clock.Now())
}

// Read takes the lists for Reduce, of one namespace or (empty) of all.
func Read(ctx context.Context, f *cliutil.Factory, ns string) (*kube.Snapshot, config.Config, error) {
	clients, err := f.Clients()
	if err != nil {
		return nil, config.Config{}, err
	}
	cfg, _, err := f.ClusterConfig(ctx)
	if err != nil {
		return nil, config.Config{}, err
	}
	own, _, err := f.Namespace()
	if err != nil {
		return nil, config.Config{}, err
	}
	s, err := kube.Collect(ctx, clients, kube.CollectOptions{Only: Lists(), Namespace: ns, Fallback: own, Fresh: true, Now: f.Clock.Now()})
	return s, cfg, err
}

func notRead(s *kube.Snapshot) []string {
	var out []string
	for _, m := range s.Missing {
		if slices.Contains(Lists(), m.Resource) {
			out = append(out, m.Resource+": "+m.Why)
		}
	}
	return out
}

// selected keeps the rows of which the object, its template or one of its
// pods has the labels.
func selected(rows []Row, sel labels.Selector) []Row {
	if sel.Empty() {
		return rows
	}
	return slices.DeleteFunc(rows, func(r Row) bool {
		return !slices.ContainsFunc(r.labels, func(l labels.Set) bool { return sel.Matches(l) })
	})
}

// pick takes the rows that the user names; each name must be there.
func pick(rows []Row, names []string, ns string) ([]Row, error) {
	if len(names) == 0 {
		return rows, nil
	}
	var out []Row
	for _, n := range names {
		found := false
		for i := range rows {
			if rows[i].Matches(n) {
				out, found = append(out, rows[i]), true
			}
		}
		if !found {
			return nil, NotFound(n, ns, rows)
		}
	}
	return out, nil
}

// CompleteJobs completes names of jobs.
func CompleteJobs(f *cliutil.Factory) cliutil.Completer {
	return cliutil.CompleteWith(func(ctx context.Context) ([]string, error) {
		ns, _, err := f.Namespace()
		if err != nil {
			return nil, err
		}
		s, cfg, err := Read(ctx, f, ns)
		if err != nil {
			return nil, err
		}
		var out []string
		for _, r := range Reduce(s, cfg) {
			out = append(out, r.Ref()+"\t"+string(r.Status))
		}
		return out, nil
	})
}
