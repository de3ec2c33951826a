package delete

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/ljctl/jobs"
)

const long = `Delete jobs together with their pods. A job is named as 'ljctl jobs' lists it:
by its name, or as TYPE/NAME where two kinds have the same name. On a terminal
it asks before it deletes; elsewhere it wants --yes.`

const example = `  # One job
  ljctl delete train

  # In a script, until its cards are free again
  ljctl delete jobset/gang --yes --wait --timeout 2m`

// Values of --cascade.
var cascades = map[string]metav1.DeletionPropagation{
	"background": metav1.DeletePropagationBackground,
	"foreground": metav1.DeletePropagationForeground,
	"orphan":     metav1.DeletePropagationOrphan,
}

type options struct {
	f       *cliutil.Factory
	names   []string
	yes     bool
	dryRun  string
	wait    bool
	timeout time.Duration
	cascade string
	output  string
}

// NewCmd makes the command.
func NewCmd(f *cliutil.Factory) *cobra.Command {
	o := &options{f: f}
	cmd := &cobra.Command{
		Use:               "delete NAME | TYPE/NAME …",
		Short:             "Delete jobs and their pods",
		Long:              long,
		Example:           example,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: jobs.CompleteJobs(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return o.run(cmd.Context())
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&o.yes, "yes", "y", false, "Do not ask")
	fl.BoolVar(&o.wait, "wait", false, "Wait until the job and its pods are gone")
	fl.DurationVar(&o.timeout, "timeout", 0, "How long --wait waits, 0 for ever")
	cliutil.EnumFlag(cmd, &o.dryRun, "dry-run", "none", "Delete nothing; with server, ask the server whether it would", "none", "client", "server")
	cliutil.EnumFlag(cmd, &o.cascade, "cascade", "background", "What becomes of the pods", "background", "foreground", "orphan")
	cliutil.OutputFlag(cmd, &o.output, "", "name")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	ns, _, err := o.f.Namespace()
	if err != nil {
		return err
	}
	found, err := o.find(ctx, ns)
	if err != nil {
		return err
	}
	if o.dryRun == "client" {
		return o.print(found, " (dry run)")
	}
	if o.dryRun == "none" && !o.yes {
		if err := o.confirm(ctx, found, ns); err != nil {
			return err
		}
	}
	dyn, err := o.f.Dynamic()
	if err != nil {
		return err
	}
	for i := range found {
		if err := o.delete(ctx, dyn, &found[i]); err != nil {
			return err
		}
	}
	if o.wait && o.dryRun == "none" {
		return o.waitGone(ctx, dyn, found)
	}
	return nil
}

// target is one object to delete. job is nil where it asks for no cards.
type target struct {
	kind jobs.Kind
	name string
	ns   string
	job  *jobs.Row
	uid  string
}

func (t *target) ref() string { return t.kind.Resource() + "/" + t.name }

func (o *options) delete(ctx context.Context, dyn dynamic.Interface, t *target) error {
	policy := cascades[o.cascade]
	opts := metav1.DeleteOptions{PropagationPolicy: &policy}
	if uid := types.UID(t.uid); uid != "" {
		// Never the job of the same name that somebody made meanwhile.
		opts.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	how := ""
	if o.dryRun == "server" {
		opts.DryRun, how = []string{metav1.DryRunAll}, " (server dry run)"
	}
	err := dyn.Resource(t.kind.GVR()).Namespace(t.ns).Delete(ctx, t.name, opts)
	if apierrors.IsNotFound(err) {
		fmt.Fprintf(o.f.Streams.ErrOut, "%s was gone already\n", t.ref())
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", t.ref(), err)
	}
	return o.print([]target{*t}, how)
}

func (o *options) print(list []target, how string) error {
	for i := range list {
		line := list[i].ref()
		if o.output != "name" {
			line += " deleted" + how
		}
		if _, err := fmt.Fprintln(o.f.Streams.Out, cliutil.Escape(line)); err != nil {
			return err
		}
	}
	return nil
}

// pollEvery is how often --wait looks.
const pollEvery = time.Second

func (o *options) waitGone(ctx context.Context, dyn dynamic.Interface, list []target) error {
	start := o.f.Clock.Now()
	for {
		left := ""
		for i := range list {
			still, err := o.still(ctx, dyn, &list[i])
			if err != nil {
				return err
			}
			if still {
				left = list[i].ref()
			}
		}
		if left == "" {
			return nil
		}
		if o.timeout > 0 && o.f.Clock.Since(start) >= o.timeout {
			return cliutil.WithHint(&cliutil.ExitError{Code: reason.ExitTimeout, Err: fmt.Errorf("%s or its pods are still there after %s", left, o.timeout)},
				"see what holds it: kubectl describe %s", left)
		}
		t := o.f.Clock.NewTimer(pollEvery)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C():
		}
	}
}

// still tells whether the object or one of its pods is there.
func (o *options) still(ctx context.Context, dyn dynamic.Interface, t *target) (bool, error) {
	got, err := dyn.Resource(t.kind.GVR()).Namespace(t.ns).Get(ctx, t.name, metav1.GetOptions{})
	if err == nil {
		return t.uid == "" || string(got.GetUID()) == t.uid, nil
	}
	if !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("%s: %w", t.ref(), err)
	}
	sel := t.kind.PodSelector(t.name)
	if sel == "" || o.cascade == "orphan" {
		return false, nil
	}
	typed, err := o.f.Clientset()
	if err != nil {
		return false, err
	}
	l, err := typed.CoreV1().Pods(t.ns).List(ctx, metav1.ListOptions{LabelSelector: sel})
	if err != nil {
		return false, fmt.Errorf("pods of %s: %w", t.ref(), err)
	}
	return len(l.Items) > 0, nil
}
