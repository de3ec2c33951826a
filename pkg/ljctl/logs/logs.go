package logs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/ljctl/jobs"
)

const long = `Print what the pods of a job have written. Of a job with several pods it is the
first worker's, or with --all-workers everybody's, each line with its pod. With
-f it waits for pods that have not started; Ctrl-C ends the output, not the job.`

const example = `  # The first worker of a job
  ljctl logs train

  # All workers of a gang, as they write
  ljctl logs jobset/gang -f --all-workers

  # The last lines of the container that died
  ljctl logs train --previous --tail 50`

type options struct {
	f          *cliutil.Factory
	name       string
	follow     bool
	all        bool
	previous   bool
	timestamps bool
	container  string
	tail       int64
	since      time.Duration
	most       int
}

// NewCmd makes the command.
func NewCmd(f *cliutil.Factory) *cobra.Command {
	o := &options{f: f}
	cmd := &cobra.Command{
		Use:               "logs NAME | TYPE/NAME",
		Short:             "Print what a job's pods have written",
		Long:              long,
		Example:           example,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cliutil.Once(jobs.CompleteJobs(f)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(cmd.Context())
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&o.follow, "follow", "f", false, "Go on as the pods write")
	fl.BoolVar(&o.all, "all-workers", false, "All pods of the job, each line with its pod")
	fl.BoolVarP(&o.previous, "previous", "p", false, "The container's run before this one")
	fl.BoolVar(&o.timestamps, "timestamps", false, "With the time of each line")
	fl.StringVarP(&o.container, "container", "c", "", "This container, if the pods have several")
	fl.Int64Var(&o.tail, "tail", -1, "Only so many lines from the end")
	fl.DurationVar(&o.since, "since", 0, "Only what was written in the last so long, such as 10m")
	fl.IntVar(&o.most, "max-log-requests", 32, "How many pods may be read at the same time")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if o.follow && o.previous {
		return cliutil.Usagef("--previous is over, it cannot be followed: leave -f out")
	}
	if o.tail < -1 || o.since < 0 || o.most < 1 {
		return cliutil.Usagef("--tail, --since and --max-log-requests must not be negative")
	}
	client, err := o.f.Clientset()
	if err != nil {
		return err
	}
	ns, _, err := o.f.Namespace()
	if err != nil {
		return err
	}
	pods, err := o.pods(ctx, ns)
	if err != nil {
		return err
	}
	if !o.all && len(pods) > 1 {
		fmt.Fprintf(o.f.Streams.ErrOut, "pod %s, one of %d; --all-workers shows all\n", pods[0].Name, len(pods))
		pods = pods[:1]
	}
	if o.follow && len(pods) > o.most {
		return cliutil.WithHint(cliutil.Usagef("%d pods, more than the %d that may be followed at the same time", len(pods), o.most),
			"--max-log-requests %d", len(pods))
	}
	return o.read(ctx, client, pods)
}

// pods are those of the job, workers in their order. The name may be that of
// one of its pods, too.
func (o *options) pods(ctx context.Context, ns string) ([]*v1.Pod, error) {
	s, cfg, err := jobs.Read(ctx, o.f, ns)
	if err != nil {
		return nil, err
	}
	rows := jobs.Reduce(s, cfg)
	var found []*jobs.Row
	for i := range rows {
		if rows[i].Matches(o.name) {
			found = append(found, &rows[i])
		}
	}
	if len(found) > 1 {
		return nil, cliutil.WithHint(cliutil.Usagef("%q names several jobs: %s, %s", o.name, found[0].Ref(), found[1].Ref()), "name one as TYPE/NAME")
	}
	if len(found) == 1 {
		pods := found[0].Pods()
		if len(pods) == 0 {
			return nil, cliutil.WithHint(fmt.Errorf("%s has no pods: %s", found[0].Ref(), found[0].Status), "ljctl why-pending %s tells why", found[0].Ref())
		}
		return byIndex(pods), nil
	}
	bare := strings.TrimPrefix(strings.TrimPrefix(o.name, "pod/"), "pods/")
	for _, p := range s.Pods {
		if p.Name == bare {
			return []*v1.Pod{p}, nil
		}
	}
	return nil, jobs.NotFound(o.name, ns, rows)
}

// byIndex orders workers by their completion index, then by name. Of an index
// that was tried several times the newest pod comes first.
func byIndex(pods []*v1.Pod) []*v1.Pod {
	index := func(p *v1.Pod) int {
		n, err := strconv.Atoi(p.Annotations["batch.kubernetes.io/job-completion-index"])
		if err != nil {
			return 1 << 30
		}
		return n
	}
	out := slices.Clone(pods)
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		if d := index(a) - index(b); d != 0 {
			return d
		}
		if d := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// logOptions are what the server is asked for.
func (o *options) logOptions() *v1.PodLogOptions {
	lo := &v1.PodLogOptions{Container: o.container, Follow: o.follow, Previous: o.previous, Timestamps: o.timestamps}
	if o.tail >= 0 {
		lo.TailLines = &o.tail
	}
	if o.since > 0 {
		n := max(1, int64(o.since/time.Second))
		lo.SinceSeconds = &n
	}
	return lo
}
