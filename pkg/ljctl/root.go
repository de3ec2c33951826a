package ljctl

import (
	"flag"
	"fmt"

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // cloud logins in kubeconfigs
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/ljctl/config"
	"lj.aliyun.com/kit/pkg/ljctl/delete"
	"lj.aliyun.com/kit/pkg/ljctl/jobs"
	"lj.aliyun.com/kit/pkg/ljctl/logs"
	"lj.aliyun.com/kit/pkg/ljctl/snapshot"
	"lj.aliyun.com/kit/pkg/ljctl/submit"
	"lj.aliyun.com/kit/pkg/ljctl/validate"
	"lj.aliyun.com/kit/pkg/ljctl/version"
	"lj.aliyun.com/kit/pkg/ljctl/whypending"
)

const long = `Run GPU jobs on a LINGJUN cluster, and find out what became of them.

ljctl checks, submits and explains jobs that ask for whole cards, shares of
cards (TDM) or MIG slices. It talks to the cluster that your kubeconfig names,
and takes the flags that kubectl takes. Linked as kubectl-lj it is also a
kubectl plugin: kubectl lj …`

// group is one heading of the help.
type group struct {
	id, title string
	commands  []func(*cliutil.Factory) *cobra.Command
}

func newRoot(f *cliutil.Factory) *cobra.Command {
	root := &cobra.Command{
		Use:               program,
		Short:             "GPU jobs on LINGJUN clusters",
		Long:              long,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return prepare(f, cmd) },
	}
	root.SetIn(f.Streams.In)
	root.SetOut(f.Streams.Out)
	root.SetErr(f.Streams.ErrOut)
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(usage)
	root.SetGlobalNormalizationFunc(cliflag.WarnWordSepNormalizeFunc)
	f.AddFlags(root.PersistentFlags())
	addLogFlags(f, root)
	for _, g := range groups() {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title + ":"})
		for _, mk := range g.commands {
			c := mk(f)
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	root.AddCommand(helpTopics()...)
	cliutil.RegisterCompletions(f, root)
	return root
}

// The groups of commands.
const (
	groupJobs      = "jobs"
	groupManifests = "manifests"
	groupDiagnose  = "diagnose"
	groupCluster   = "cluster"
	groupOther     = "other"
)

// groups is the help's order of commands.
func groups() []group {
	return []group{
		{groupJobs, "Jobs", []func(*cliutil.Factory) *cobra.Command{
			submit.NewCmd, jobs.NewCmd, logs.NewCmd, delete.NewCmd,
		}},
		{groupManifests, "Manifests", []func(*cliutil.Factory) *cobra.Command{
			validate.NewCmd,
		}},
		{groupDiagnose, "Diagnose", []func(*cliutil.Factory) *cobra.Command{
			whypending.NewCmd,
		}},
		{groupCluster, "Cluster", []func(*cliutil.Factory) *cobra.Command{
			snapshot.NewCmd,
		}},
		{groupOther, "Other", []func(*cliutil.Factory) *cobra.Command{
			config.NewCmd, newOptions, version.NewCmd,
		}},
	}
}

// prepare reads the user's settings once, for commands that use any. The
// hidden commands that shells call must stay silent and fast.
func prepare(f *cliutil.Factory, cmd *cobra.Command) error {
	for c := cmd; c != nil; c = c.Parent() {
		switch c.Name() {
		case cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd, "completion", "help", "version", "options":
			return nil
		}
	}
	if err := f.Settings.Load(); err != nil {
		return cliutil.AsExit(1, err)
	}
	return nil
}

// addLogFlags adds -v and --vmodule of klog, and sends its lines to the error
// stream.
func addLogFlags(f *cliutil.Factory, root *cobra.Command) {
	var fs flag.FlagSet
	klog.InitFlags(&fs)
	klog.LogToStderr(false)
	klog.SetOutput(f.Streams.ErrOut)
	_ = fs.Set("stderrthreshold", "FATAL") // or errors would be written twice
	for _, name := range []string{"v", "vmodule"} {
		root.PersistentFlags().AddGoFlag(fs.Lookup(name))
	}
	root.PersistentFlags().Lookup("v").Usage = "Verbosity of the log on the error stream; 6 shows API calls, 8 their bodies"
}

// newOptions lists the flags that every command takes.
func newOptions(f *cliutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:                   "options",
		Short:                 "List the flags that every command takes",
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(f.Streams.Out, "The following flags can be given to any command:\n\n%s",
				cmd.InheritedFlags().FlagUsages())
			return err
		},
	}
}
