package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

func newDown(p *Program) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End the cluster and remove its files",
		Long:  `End the cluster and remove its files, also those of one that crashed. It is no error if none runs.`,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := p.stateDir()
			if err != nil {
				return err
			}
			return down(cmd.Context(), p, dir, timeout)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 20*time.Second, "Kill the cluster if it has not ended after this time")
	return cmd
}

func down(ctx context.Context, p *Program, dir statedir.Dir, timeout time.Duration) error {
	pid, running := dir.Holder()
	if !running {
		if err := dir.Sweep(); err != nil && !errors.Is(err, statedir.ErrRunning) {
			return hintStart(dir, err)
		}
		fmt.Fprintln(p.Streams.Out, "the sandbox is not running")
		return nil
	}
	if pid == 0 {
		return cliutil.WithHint(fmt.Errorf("%s: the lock is held, but does not say by whom", dir), "try again")
	}
	if err := end(ctx, dir, pid, timeout); err != nil {
		return err
	}
	if err := dir.Sweep(); err != nil {
		return hintStart(dir, err)
	}
	fmt.Fprintln(p.Streams.Out, "the sandbox is down")
	return nil
}

// end asks the process to end, and kills it if it does not. The scheduler
// ends with it either way: the kernel sees to that.
func end(ctx context.Context, dir statedir.Dir, pid int, timeout time.Duration) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return cliutil.WithHint(fmt.Errorf("end process %d: %w", pid, err), "was the sandbox started by another user?")
	}
	if gone(ctx, dir, pid, timeout) {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	if !gone(ctx, dir, pid, 5*time.Second) {
		return fmt.Errorf("process %d does not end", pid)
	}
	return nil
}

// gone waits until nobody holds the lock and the process is no more.
func gone(ctx context.Context, dir statedir.Dir, pid int, timeout time.Duration) bool {
	for end := time.Now().Add(timeout); time.Now().Before(end); {
		if _, running := dir.Holder(); !running && !alive(pid) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// alive tells whether the process still runs; one that has ended and waits for
// its parent to notice does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The state follows the name, which is in parentheses and may hold any.
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
