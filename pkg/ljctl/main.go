package ljctl

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/reason"
)

// Names under which the binary may be linked.
const (
	program    = "ljctl"
	pluginBase = "kubectl-"          // kubectl-lj: the plugin
	shimBase   = "kubectl_complete-" // kubectl_complete-lj: its completion
	pluginName = "kubectl lj"
)

// Main runs one command line, args[0] being the name of the program, and
// returns its exit code. When ctx ends the code is 130.
func Main(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	base := program
	if len(args) > 0 {
		base = strings.TrimSuffix(filepath.Base(args[0]), ".exe")
		args = args[1:]
	}
	f := cliutil.NewFactory(program, streams)
	root := newRoot(f)
	if strings.HasPrefix(base, pluginBase) {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: pluginName}
	}
	if strings.HasPrefix(base, shimBase) {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: pluginName}
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	root.SetArgs(args)
	return run(ctx, root, streams)
}

// run tells mistakes in the command line, which cobra finds before a command
// starts, from errors of the command itself.
func run(ctx context.Context, root *cobra.Command, streams genericiooptions.IOStreams) int {
	started := false
	watchStart(root, &started)
	cmd, err := execute(ctx, root)
	var ee *cliutil.ExitError
	switch {
	case err == nil:
		return reason.ExitOK
	case ctx.Err() != nil && !errors.As(err, &ee):
		err = ctx.Err()
	case !started && !errors.As(err, &ee):
		err = &cliutil.ExitError{Code: reason.ExitUsage, Err: usageHint(cmd, err)}
	}
	return cliutil.Report(streams.ErrOut, err)
}

// grace is how long an interrupted command may take to say what it leaves.
const grace = 2 * time.Second

// execute runs the command. One that reads a pipe on which nothing comes
// cannot notice that it is interrupted: it is left behind then, and the
// process ends. Otherwise Ctrl-C and timeout(1) would do nothing to it.
func execute(ctx context.Context, root *cobra.Command) (*cobra.Command, error) {
	type result struct {
		cmd *cobra.Command
		err error
	}
	done := make(chan result, 1)
	go func() {
		cmd, err := root.ExecuteContextC(ctx)
		done <- result{cmd, err}
	}()
	select {
	case r := <-done:
		return r.cmd, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done:
		return r.cmd, r.err
	case <-time.After(grace):
		return root, ctx.Err()
	}
}

func usageHint(cmd *cobra.Command, err error) error {
	msg := strings.TrimSpace(err.Error())
	msg = strings.ReplaceAll(msg, "\n\nDid you mean this?\n\t", "; did you mean: ")
	return cliutil.WithHint(errors.New(msg), "%s --help", cmd.CommandPath())
}

// watchStart notes when a command's own code begins.
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

func flagError(cmd *cobra.Command, err error) error {
	return cliutil.WithHint(cliutil.Usagef("%w", err), "%s --help", cmd.CommandPath())
}
