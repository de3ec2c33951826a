package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/sandbox/fleet"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

// ServeOptions say which sandbox to run.
type ServeOptions struct {
	Dir       statedir.Dir
	FleetPath string // for the record; empty is the built-in fleet
	Fleet     *fleet.Fleet
	// Scheduler is the path of ljnode; empty leaves the scheduler out.
	Scheduler string
	// Detached: nobody reads this process's streams, so they go to the log.
	Detached bool
	// Ready is called once, when the sandbox can be used.
	Ready func(statedir.Record)
}

// Program is what the commands work with.
type Program struct {
	Streams genericiooptions.IOStreams
	// Serve runs a sandbox until the context ends, and leaves nothing behind.
	Serve func(context.Context, ServeOptions) error
	// Self is the program that `up` starts in the background; os.Executable
	// if empty.
	Self string

	dir string // --state-dir
}

// Main runs one command and returns the exit code.
func Main(ctx context.Context, args []string, p *Program) int {
	root := New(p)
	root.SetArgs(args)
	return cliutil.Report(p.Streams.ErrOut, root.ExecuteContext(ctx))
}

// New is the root command.
func New(p *Program) *cobra.Command {
	root := &cobra.Command{
		Use:   "ljsandbox",
		Short: "A whole GPU cluster on this machine, without containers or GPUs",
		Long: `ljsandbox runs a Kubernetes cluster with simulated GPU nodes on this machine: etcd, the real API
server and controllers, JobSet, and the lj-runtimekit-scheduler. It needs no root, no container
engine and no GPU, listens on 127.0.0.1 only, and leaves nothing behind when it goes down.`,
		Example: `  ljsandbox up
  export KUBECONFIG=$(ljsandbox kubeconfig --path)
  ljctl submit --name hello --gpus 1 --image busybox -- sleep 60
  ljsandbox down`,
		Version:       cliutil.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cliutil.WithHint(cliutil.Usagef("unknown command %q", args[0]), "see ljsandbox --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(p.Streams.In)
	root.SetOut(p.Streams.Out)
	root.SetErr(p.Streams.ErrOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cliutil.WithHint(cliutil.Usagef("%w", err), "see %s --help", cmd.CommandPath())
	})
	// Defined here, or the API server's flag of the same name, which is
	// global, would stand in the help.
	root.Flags().Bool("version", false, "Print the version")
	root.PersistentFlags().StringVar(&p.dir, "state-dir", "", "Directory of the sandbox's files (default $XDG_STATE_HOME/ljsandbox or ~/.local/state/ljsandbox)")
	root.AddCommand(newUp(p), newServe(p), newDown(p), newStatus(p), newKubeconfig(p), newFleet(p), newDemo(p))
	return root
}

// noArgs refuses arguments as a mistake in the command line.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return cliutil.WithHint(cliutil.Usagef("%s takes no arguments, got %q", cmd.CommandPath(), args[0]), "see %s --help", cmd.CommandPath())
	}
	return nil
}

// stateDir is the directory that the flags name, as an absolute path.
func (p *Program) stateDir() (statedir.Dir, error) {
	if p.dir == "" {
		return statedir.Default()
	}
	abs, err := filepath.Abs(p.dir)
	return statedir.Dir(abs), err
}

// self is the path of this program.
func (p *Program) self() (string, error) {
	if p.Self != "" {
		return p.Self, nil
	}
	return os.Executable()
}

// readFleet reads a fleet file; the built-in fleet if path is empty.
func readFleet(path string) (*fleet.Fleet, error) {
	if path == "" {
		return fleet.Default()
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() > fleet.MaxBytes {
		return nil, fmt.Errorf("%s: %d bytes, more than the %d that a fleet file may have", path, info.Size(), fleet.MaxBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, cliutil.WithHint(fmt.Errorf("fleet file: %w", err), "print a sample with ljsandbox fleet")
	}
	f, err := fleet.Parse(data)
	var problems fleet.Problems
	if errors.As(err, &problems) {
		return nil, cliutil.WithHint(fmt.Errorf("fleet file %s:\n%w", path, problems), "print a sample with ljsandbox fleet")
	}
	return f, err
}

// runningRecord waits for the record of the sandbox that holds the lock,
// which is there once it is ready.
func runningRecord(ctx context.Context, dir statedir.Dir) (statedir.Record, error) {
	for {
		r, err := dir.Read()
		if err == nil && r.Ready {
			return r, nil
		}
		if _, running := dir.Holder(); !running {
			return r, cliutil.WithHint(errors.New("the sandbox that was starting has ended"), "try again")
		}
		select {
		case <-ctx.Done():
			return r, cliutil.WithHint(errors.New("the sandbox is starting, but not ready yet"), "look at %s", dir.Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
