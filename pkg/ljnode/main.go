package ljnode

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/ljnode/scheduler"
	"lj.aliyun.com/kit/pkg/ljnode/version"
)

const (
	program = "ljnode"
	long    = `The node and control plane side of the LINGJUN GPU tool suite.

On GPU hosts it prepares cards and looks at them; in the control plane it is
the scheduler that gives pods their cards.`
)

// Main runs one command line, args[0] being the name of the program, and
// returns its exit code.
func Main(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	root := newRoot(streams)
	if len(args) > 0 {
		args = args[1:]
	}
	root.SetArgs(args)
	started := false
	watchStart(root, &started)
	err := root.ExecuteContext(ctx)
	var ee *cliutil.ExitError
	switch {
	case err == nil:
		return reason.ExitOK
	case ctx.Err() != nil && !errors.As(err, &ee):
		err = ctx.Err()
	case !started && !errors.As(err, &ee):
		err = &cliutil.ExitError{Code: reason.ExitUsage, Err: usageHint(err)}
	}
	return cliutil.Report(streams.ErrOut, err)
}

func newRoot(streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:               program,
		Short:             "GPU hosts and scheduler of LINGJUN clusters",
		Long:              long,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"control", "Control plane", []*cobra.Command{scheduler.NewCmd(streams)}},
		{"other", "Other", []*cobra.Command{version.NewCmd(streams)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	return root
}

func usageHint(err error) error {
	msg := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n\nDid you mean this?\n\t", "; did you mean: ")
	return cliutil.WithHint(fmt.Errorf("%s", msg), "%s --help", program)
}

// watchStart notes when a command's own code begins: what cobra finds before
// that is a mistake in the command line.
func watchStart(c *cobra.Command, started *bool) {
	if inner := c.RunE; inner != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			return inner(cmd, args)
		}
	}
	for _, sub := range c.Commands() {
		watchStart(sub, started)
	}
}
