package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

// scheduler keeps the scheduler's process alive.
type scheduler struct {
	cancel context.CancelFunc
	done   chan struct{}
	// renewed tells when the lease was last renewed.
	renewed func(context.Context) time.Time

	mu     sync.Mutex
	state  statedir.Scheduler
	report func(statedir.Scheduler)
}

// restartPause grows with each restart up to its ten-fold.
const restartPause = time.Second

func startScheduler(program string, dir statedir.Dir, args []string, report func(statedir.Scheduler),
	renewed func(context.Context) time.Time) *scheduler {
	ctx, cancel := context.WithCancel(context.Background())
	s := &scheduler{cancel: cancel, done: make(chan struct{}), report: report, renewed: renewed}
	args = append([]string{"scheduler", "--kubeconfig", dir.SchedulerKubeconfig()}, args...)
	go func() {
		defer close(s.done)
		// The kernel ends the child when the thread that made it ends, so
		// this goroutine keeps one thread for itself.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for n := 0; ctx.Err() == nil; n++ {
			err := s.once(ctx, program, args, dir.SchedulerLog(), n)
			if ctx.Err() != nil {
				return
			}
			s.set(statedir.Scheduler{State: statedir.SchedulerFailed, Restarts: n, Error: err.Error()})
			select {
			case <-ctx.Done():
			case <-time.After(restartPause * time.Duration(min(n+1, 10))):
			}
		}
	}()
	return s
}

// once runs the process to its end, which is always an error.
func (s *scheduler) once(ctx context.Context, program string, args []string, logPath string, restarts int) error {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	port, err := freePort()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, append(args[:len(args):len(args)], "--secure-port", port)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	st := statedir.Scheduler{State: statedir.SchedulerStarting, PID: cmd.Process.Pid, Restarts: restarts}
	s.set(st)
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.awaitLease(watching, st, time.Now())
	}()
	err = cmd.Wait()
	stop()
	<-watched
	if err == nil {
		err = errors.New("ended by itself")
	}
	if line := lastLine(logPath); line != "" {
		err = fmt.Errorf("%w: %s", err, line)
	}
	return err
}

// awaitLease notes that the process leads once the lease is renewed after its
// start: before that, it is the lease of one that has died.
func (s *scheduler) awaitLease(ctx context.Context, st statedir.Scheduler, started time.Time) {
	for ctx.Err() == nil {
		if s.renewed(ctx).After(started) && ctx.Err() == nil {
			st.State = statedir.SchedulerLeading
			s.set(st)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// freePort finds a port for the scheduler's health and metrics, so that
// several sandboxes, and a real scheduler, can live on one machine. Somebody
// else may take it in between; the scheduler is then started again.
func freePort() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (s *scheduler) set(st statedir.Scheduler) {
	s.mu.Lock()
	s.state = st
	s.mu.Unlock()
	if s.report != nil {
		s.report(st)
	}
}

func (s *scheduler) get() statedir.Scheduler {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *scheduler) stop() {
	s.cancel()
	<-s.done
}

// WaitScheduler returns when the scheduler leads, or with its error when it
// has ended more than once.
func (c *Cluster) WaitScheduler(ctx context.Context) error {
	if c.scheduler == nil {
		return nil
	}
	for {
		st := c.scheduler.get()
		switch {
		case st.State == statedir.SchedulerLeading:
			return nil
		case st.State == statedir.SchedulerFailed && st.Restarts > 0:
			return fmt.Errorf("the scheduler does not stay up: %s", st.Error)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the scheduler does not lead yet (%s %s): %w", st.State, st.Error, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lastLine is the last non-empty line of a log, shortened.
func lastLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	b = bytes.TrimSpace(b[max(0, len(b)-4096):])
	line := string(b[bytes.LastIndexByte(b, '\n')+1:])
	if len(line) > 300 {
		line = line[:300] + "…"
	}
	return strings.TrimSpace(line)
}
