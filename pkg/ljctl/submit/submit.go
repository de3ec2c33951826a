package submit

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"lj.aliyun.com/kit/pkg/cliutil"
)

const long = `Make a GPU job from flags, or take one from a file, and create it.

What it asks of cards is one of:
  --gpus N                            N whole cards in each pod
  --gpu-core and/or --gpu-memory      a share of a card (TDM); --replica N for N equal shares
  --gpu-slice with --gpu-memory       a MIG instance

With --workers N above 1 it is a JobSet whose N pods are one group (label
min-member); else it is a Job, or with --kind pod a Pod. The manifest is checked as
'ljctl validate' does: INVALID stops it, WARN is printed. Nothing is created
before everything has been checked.`

const example = `  # Two whole NVIDIA cards
  ljctl submit train --image pytorch:2.8 --gpus 2 -- python train.py

  # Half of the compute and 4 GiB of one card
  ljctl submit infer --image vllm:1 --gpu-core 50 --gpu-memory 4

  # Seven workers with RDMA, one group
  ljctl submit gang --image nccl:1 --gpus 8 --vendor ppu --workers 7 --rdma -- ./run.sh

  # See the manifest, and whether it would fit now
  ljctl submit train --image pytorch:2.8 --gpus 2 --dry-run=client -o yaml
  ljctl submit train --image pytorch:2.8 --gpus 2 --preview

  # From a file, waiting for its end
  ljctl submit -f job.yaml --wait=complete --timeout 2h`

// Values of --dry-run and --wait.
const (
	dryNone     = "none"
	dryClient   = "client"
	dryServer   = "server"
	waitRunning = "running"
	waitEnd     = "complete"
)

// options are the flags as given.
type options struct {
	f *cliutil.Factory

	files     []string
	recursive bool

	name, generate, kind, image string
	command                     []string

	gpus                    int64
	vendor                  string
	core, gpuMemory         string
	slice                   int64
	replica, workers        int
	rdma                    bool
	cpu, memory, shm        string
	env, envFrom            []string
	mounts, configMaps      []string
	workingDir              string
	pullSecret, pullPolicy  string
	serviceAccount          string
	selectors, tolerations  []string
	gpuModel, priorityClass string
	labels, annotations     []string
	ttl, deadline           time.Duration
	backoffLimit            int
	restart                 string
	scheduler, runtimeClass string

	dryRun, output, wait string
	preview              bool
	timeout              time.Duration

	// changed tells which flags were given.
	changed func(string) bool
}

// NewCmd makes the command.
func NewCmd(f *cliutil.Factory) *cobra.Command {
	o := &options{f: f}
	cmd := &cobra.Command{
		Use:     "submit [NAME] (--image IMAGE … [-- COMMAND …] | -f FILE)",
		Short:   "Check a GPU job and create it",
		Long:    long,
		Example: example,
		Args:    cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(cmd, args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (o *options) run(ctx context.Context) error {
	cfg, origin, err := o.f.ClusterConfig(ctx)
	if err != nil {
		return err
	}
	var plan *plan
	if len(o.files) > 0 {
		plan, err = o.load()
	} else {
		plan, err = o.fromFlags(cfg)
	}
	if err != nil {
		return err
	}
	if err := o.judge(plan, cfg, origin); err != nil {
		return err
	}
	switch {
	case o.preview:
		return o.showPreview(ctx, plan, cfg, origin)
	case o.dryRun == dryClient:
		return o.printObjects(plan.objects(), "dry run")
	}
	return o.create(ctx, plan)
}
