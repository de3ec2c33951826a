package validate

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/request/rules"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/manifest"
)

const long = `Check manifests before anything is created.

Every rule about cards, shares, MIG slices, RDMA and groups is applied to every
pod template of every object, and so is what the API server itself would
refuse. Files are read as the API server reads them. All findings are printed
at once, each with its line, its field and the fix.

Objects of unknown kinds are reported as not checked, never as valid. With
--fleet the manifests are also held against the cards of a cluster, from a file
that 'ljctl snapshot' or 'kubectl get nodes,pods -A -o json' wrote.

The unit of gpu-memory is the cluster's. It is taken from --memory-unit, from
the fleet, or from the cluster that kubeconfig names; where nobody knows it,
GiB is assumed and said so.

Exit codes: 0 nothing wrong, or warnings only; 3 invalid or blocked, and with
--strict warnings too; 6 something could not be judged; 1 a file could not be
read; 2 a mistake in the command line.`

const example = `  # One file
  ljctl validate -f job.yaml

  # A folder and all below it, for a code scanner
  ljctl validate -f manifests/ -R -o sarif > findings.sarif

  # What a generator writes, warnings counting as errors
  helm template train ./chart | ljctl validate -f - --strict

  # Against the cards of a cluster
  ljctl snapshot > cluster.json && ljctl validate -f job.yaml --fleet cluster.json`

// options are the command line.
type options struct {
	files     []string
	recursive bool
	output    string
	strict    bool
	unit      string
	fleet     string
}

// Deps is what the command needs from outside.
type Deps struct {
	Streams genericiooptions.IOStreams
	// Config asks the cluster for its settings, at best effort; known is
	// false where it could not be asked.
	Config func(ctx context.Context) (c config.Config, known bool, err error)
	// Color is "auto", "always" or "never".
	Color func() string
}

// NewCmd makes the command.
func NewCmd(f *cliutil.Factory) *cobra.Command {
	return newCmd(Deps{
		Streams: f.Streams,
		Config: func(ctx context.Context) (config.Config, bool, error) {
			c, origin, err := f.ClusterConfig(ctx)
			return c, origin.Kind != kube.FromDefault || origin.Absent, err
		},
		Color: func() string { return f.Settings.String("color") },
	})
}

func newCmd(d Deps) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:     "validate -f FILE|DIR|-",
		Short:   "Check manifests before anything is created",
		Long:    long,
		Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cliutil.WithHint(cliutil.Usagef("unexpected argument %q", args[0]), "name files with -f %s", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), d) },
	}
	fl := cmd.Flags()
	fl.StringArrayVarP(&o.files, "filename", "f", nil, "File or folder to check, - for standard input; may be repeated")
	fl.BoolVarP(&o.recursive, "recursive", "R", false, "Check the folders below as well")
	fl.BoolVar(&o.strict, "strict", false, "Let warnings fail: exit code 3")
	fl.StringVar(&o.fleet, "fleet", "", "Hold the manifests against the nodes of this snapshot file")
	cliutil.OutputFlag(cmd, &o.output, "text", "text", "json", "yaml", "sarif")
	cliutil.EnumFlag(cmd, &o.unit, "memory-unit", "", "What one gpu-memory counts in the cluster", "GiB", "MiB")
	return cmd
}

func (o *options) run(ctx context.Context, d Deps) error {
	if len(o.files) == 0 {
		return cliutil.WithHint(cliutil.Usagef("nothing to check: no -f"), "ljctl validate -f job.yaml, or -f - for standard input")
	}
	stdin := 0
	for _, f := range o.files {
		if f == manifest.Stdin {
			stdin++
		}
	}
	if stdin > 1 {
		return cliutil.Usagef("standard input can be read once only: -f - is given %d times", stdin)
	}
	ro, err := o.surroundings(ctx, d)
	if err != nil {
		return err
	}
	r := newReport()
	for _, s := range manifest.Sources(o.files, o.recursive) {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.add(manifest.Read(s, d.Streams.In), ro)
	}
	r.nothing(o.files)
	if err := o.print(d, r); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	printSummary(d.Streams.ErrOut, r)
	return cliutil.Exit(r.exit(o.strict))
}

// surroundings are the cluster's settings and, if asked for, its nodes.
func (o *options) surroundings(ctx context.Context, d Deps) (rules.Options, error) {
	var ro rules.Options
	var err error
	if o.fleet != "" {
		ro, err = fleetFrom(o.fleet)
	} else {
		var known bool
		ro.Config, known, err = d.Config(ctx)
		ro.Config.UnitKnown = ro.Config.UnitKnown || known
	}
	if err != nil {
		return ro, err
	}
	if o.unit != "" {
		u, err := config.ParseUnit(o.unit)
		if err != nil {
			return ro, cliutil.Usagef("%w", err)
		}
		ro.Config.Unit, ro.Config.UnitKnown = u, true
	}
	return ro, nil
}

// fleetFrom reads the nodes of a snapshot.
func fleetFrom(path string) (rules.Options, error) {
	var ro rules.Options
	f, err := os.Open(path)
	if err != nil {
		return ro, cliutil.WithHint(fmt.Errorf("fleet: %w", err), "write one with: ljctl snapshot > cluster.json")
	}
	defer f.Close()
	s, err := kube.LoadSnapshot(f)
	if err != nil {
		return ro, cliutil.WithHint(fmt.Errorf("fleet %s: %w", path, err), "write one with: ljctl snapshot > cluster.json")
	}
	var origin kube.Origin
	ro.Config, origin = s.Config()
	ro.Config.UnitKnown = ro.Config.UnitKnown || origin.Kind != kube.FromDefault
	labels := map[string]map[string]string{}
	for _, n := range s.Nodes {
		labels[n.Name] = n.Labels
	}
	ro.Fleet = &rules.Fleet{}
	for _, n := range s.Cluster(ro.Config) {
		ro.Fleet.Nodes = append(ro.Fleet.Nodes, rules.FleetNode{Node: n, Labels: labels[n.Name]})
	}
	return ro, nil
}

func (o *options) print(d Deps, r *Report) error {
	w := d.Streams.Out
	switch o.output {
	case "json", "yaml":
		return cliutil.PrintObject(w, o.output, r)
	case "sarif":
		return cliutil.PrintObject(w, "json", sarifOf(r, cliutil.Version))
	}
	return printText(w, r, colour(d.Color(), w))
}

// colour decides as kubectl does: a terminal, not dumb, and no NO_COLOR; the
// flag wins.
func colour(setting string, w io.Writer) bool {
	switch setting {
	case "always":
		return true
	case "never":
		return false
	}
	return printers.AllowsColorOutput(w)
}
