package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

type upOptions struct {
	fleet       string
	ljnode      string
	noScheduler bool
	foreground  bool
	timeout     time.Duration
}

func newUp(p *Program) *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the cluster in the background and wait until it is ready",
		Long: `Start the cluster in the background and wait until it is ready. If it is already running, say
where. With --foreground it stays in this terminal; Ctrl-C ends it and removes its files.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd.Context(), p, o) },
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.foreground, "foreground", false, "Stay in this terminal; Ctrl-C ends the cluster")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "Give up if the cluster is not ready after this time")
	return cmd
}

func (o *upOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.fleet, "fleet", "", "YAML file with the simulated nodes (default: the built-in fleet, see ljsandbox fleet)")
	cmd.Flags().StringVar(&o.ljnode, "ljnode", "", "Program that runs the scheduler (default: ljnode beside ljsandbox, else on PATH)")
	cmd.Flags().BoolVar(&o.noScheduler, "no-scheduler", false, "Leave the scheduler out")
}

// serveOptions checks everything that can be checked before starting.
func (o *upOptions) serveOptions(dir statedir.Dir) (ServeOptions, error) {
	s := ServeOptions{Dir: dir}
	var err error
	if s.Fleet, err = readFleet(o.fleet); err != nil {
		return s, err
	}
	if o.fleet != "" {
		if s.FleetPath, err = filepath.Abs(o.fleet); err != nil {
			return s, err
		}
	}
	if !o.noScheduler {
		if s.Scheduler, err = FindScheduler(o.ljnode); err != nil {
			return s, err
		}
	}
	return s, nil
}

func up(ctx context.Context, p *Program, o upOptions) error {
	dir, err := p.stateDir()
	if err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if _, running := dir.Holder(); running {
		return alreadyUp(starting, p, dir)
	}
	s, err := o.serveOptions(dir)
	if err != nil {
		return err
	}
	start := time.Now()
	if o.foreground {
		s.Ready = func(r statedir.Record) {
			printUp(p.Streams.Out, dir, r, time.Since(start))
			fmt.Fprintln(p.Streams.Out, "\nCtrl-C ends the cluster.")
		}
		return hintStart(dir, p.Serve(ctx, s))
	}
	r, err := p.spawn(starting, s)
	if errors.Is(err, statedir.ErrRunning) { // another `up` was faster
		return alreadyUp(starting, p, dir)
	}
	if err != nil {
		return hintStart(dir, err)
	}
	printUp(p.Streams.Out, dir, r, time.Since(start))
	return nil
}

func alreadyUp(ctx context.Context, p *Program, dir statedir.Dir) error {
	r, err := runningRecord(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Streams.Out, "the sandbox is already running since %s (pid %d)\n", r.Started.Local().Format(time.DateTime), r.PID)
	printPlaces(p.Streams.Out, dir, r)
	return nil
}

// hintStart adds the next step to errors whose text has none.
func hintStart(dir statedir.Dir, err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, os.ErrPermission):
		return cliutil.WithHint(err, "choose a directory that you may write to with --state-dir")
	case errors.Is(err, syscall.ENOSPC):
		return cliutil.WithHint(err, "free some space, or choose a directory on another disk with --state-dir")
	}
	return err
}

// message is what the background process tells the waiting one, once.
type message struct {
	Ready   *statedir.Record `json:"ready,omitempty"`
	Error   string           `json:"error,omitempty"`
	Hint    string           `json:"hint,omitempty"`
	Running bool             `json:"running,omitempty"` // ErrRunning
	Denied  bool             `json:"denied,omitempty"`  // os.ErrPermission
}

// readyFD is where the background process finds the pipe for its message.
const readyFD = 3

// spawn starts this program in the background and waits for its message. It
// outlives this process once it is ready, and is ended before if anything
// goes wrong.
func (p *Program) spawn(ctx context.Context, s ServeOptions) (statedir.Record, error) {
	self, err := p.self()
	if err != nil {
		return statedir.Record{}, err
	}
	args := []string{"serve", "--state-dir", string(s.Dir), "--fleet", s.FleetPath}
	if s.Scheduler == "" {
		args = append(args, "--no-scheduler")
	} else {
		args = append(args, "--ljnode", s.Scheduler)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return statedir.Record{}, err
	}
	defer func() { _ = read.Close() }()
	cmd := exec.Command(self, args...)
	cmd.ExtraFiles = []*os.File{write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/" // so that it keeps no directory of the user's busy
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		return statedir.Record{}, fmt.Errorf("start %s: %w", self, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	var m message
	if err := json.NewDecoder(read).Decode(&m); err != nil {
		waitErr := cmd.Wait()
		if ctx.Err() != nil {
			return statedir.Record{}, startAborted(ctx)
		}
		_ = s.Dir.Sweep()
		return statedir.Record{}, fmt.Errorf("the sandbox ended while starting: %w", errors.Join(waitErr))
	}
	if m.Ready == nil {
		_ = cmd.Wait()
		if ctx.Err() != nil {
			return statedir.Record{}, startAborted(ctx)
		}
		return statedir.Record{}, m.err()
	}
	return *m.Ready, cmd.Process.Release()
}

func startAborted(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return cliutil.WithHint(errors.New("the sandbox was not ready in time and has been ended"), "give it more time with --timeout, or look with --foreground")
}

func (m message) err() error {
	err := errors.New(m.Error)
	switch {
	case m.Running:
		return statedir.ErrRunning
	case m.Denied:
		err = fmt.Errorf("%s%w", m.Error, silent{os.ErrPermission})
	}
	if m.Hint != "" {
		return cliutil.WithHint(err, "%s", m.Hint)
	}
	return err
}

// silent carries the kind of an error whose text is already there.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

func printUp(w io.Writer, dir statedir.Dir, r statedir.Record, took time.Duration) {
	fmt.Fprintf(w, "the sandbox is up after %.1f s: %d nodes with %d cards, Kubernetes %s\n", took.Seconds(), r.Nodes, r.Cards, r.Kubernetes)
	printPlaces(w, dir, r)
	fmt.Fprintf(w, `
Next:
  export KUBECONFIG=%s
  ljctl submit --name hello --gpus 1 --image busybox -- sleep 60
  ljctl jobs
  ljsandbox status
  ljsandbox down
`, dir.AdminKubeconfig())
}

func printPlaces(w io.Writer, dir statedir.Dir, r statedir.Record) {
	fmt.Fprintf(w, "  server      %s\n  kubeconfig  %s\n  log         %s\n  scheduler   %s\n", r.Server, dir.AdminKubeconfig(), dir.Log(), schedulerText(r.Scheduler))
}

func schedulerText(s statedir.Scheduler) string {
	text := s.State
	if s.PID != 0 {
		text += fmt.Sprintf(" (pid %d)", s.PID)
	}
	if s.Restarts > 0 {
		text += fmt.Sprintf(", started again %d times", s.Restarts)
	}
	if s.Error != "" {
		text += ": " + s.Error
	}
	return text
}
