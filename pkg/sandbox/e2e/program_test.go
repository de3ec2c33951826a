package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/sandbox"
	"lj.aliyun.com/kit/pkg/sandbox/cli"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

// asProgram makes this test program behave as ljsandbox: it is the only one
// at hand that has the API server in it.
const asProgram = "LJSANDBOX_E2E_PROGRAM"

func programMain() int {
	return sandbox.Main(cliutil.SignalContext(), os.Args[1:], cliutil.StdStreams())
}

// program runs ljsandbox in a state directory.
type program struct {
	t   *testing.T
	dir statedir.Dir
}

func newProgram(t *testing.T) *program {
	t.Helper()
	// t.TempDir is too long for the socket in it.
	dir, err := os.MkdirTemp("", "lj")
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, dir: statedir.Dir(filepath.Join(dir, "s"))}
	t.Cleanup(func() {
		p.run("down")
		_ = os.RemoveAll(dir)
	})
	return p
}

func (p *program) command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(self, append(args, "--state-dir", string(p.dir))...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func (p *program) run(args ...string) (string, int) {
	p.t.Helper()
	out, err := p.command(args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	code := 0
	if exit != nil {
		code = exit.ExitCode()
	}
	return string(out), code
}

func (p *program) want(code int, args ...string) string {
	p.t.Helper()
	out, got := p.run(args...)
	if got != code {
		p.t.Fatalf("%s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	return out
}

// leftBehind fails the test if the directory or the process is still there.
func (p *program) leftBehind(pid int) {
	p.t.Helper()
	if _, err := os.Stat(string(p.dir)); !errors.Is(err, os.ErrNotExist) {
		p.t.Errorf("the state directory is still there: %v", err)
	}
	if stat, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat")); err == nil && !strings.Contains(string(stat), ") Z ") {
		p.t.Errorf("the process is still there: %s", stat)
	}
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func (p *program) status() cli.Status {
	p.t.Helper()
	var s cli.Status
	if err := json.Unmarshal([]byte(p.want(0, "status", "-o", "json")), &s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

func TestUpStatusDownLeavesNothing(t *testing.T) {
	p := newProgram(t)
	p.want(3, "status")
	t.Log(p.want(0, "up", "--no-scheduler"))
	if out := p.want(0, "up", "--no-scheduler"); !strings.Contains(out, "already running") {
		t.Errorf("second up: %s", out)
	}
	s := p.status()
	if !s.Running || s.Sandbox.Kubernetes != "v1.37.2" || len(s.Nodes) != 15 || s.Sandbox.Scheduler.State != statedir.SchedulerOff {
		t.Errorf("status: %+v", s)
	}
	p.want(0, "down")
	p.leftBehind(s.Sandbox.PID)
}

func TestACrashedSandboxIsNoObstacle(t *testing.T) {
	p := newProgram(t)
	p.want(0, "up", "--no-scheduler")
	pid := p.status().Sandbox.PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the process", func() (bool, string) {
		_, running := p.dir.Holder()
		return !running, ""
	})
	p.want(3, "status")
	p.want(0, "down")
	p.leftBehind(pid)
}

func TestForegroundEndsWithCtrlC(t *testing.T) {
	p := newProgram(t)
	cmd := p.command("up", "--no-scheduler", "--foreground")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "status 0", func() (bool, string) {
		s, code := p.run("status")
		return code == 0, s
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v\n%s", err, out.String())
	}
	p.leftBehind(cmd.Process.Pid)
}

// Ctrl-C must leave nothing at any moment of the start. The API server's own
// start is the delicate part of it.
func TestCtrlCWhileStartingLeavesNothing(t *testing.T) {
	for _, sign := range []string{"ljsandbox.log", "cluster/pki/ca.crt", "cluster/etcd/member/wal", "kubeconfig"} {
		for _, pause := range []time.Duration{0, 400 * time.Millisecond} {
			p := newProgram(t)
			cmd := p.command("up", "--no-scheduler", "--foreground")
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, sign, func() (bool, string) {
				_, err := os.Stat(filepath.Join(string(p.dir), sign))
				return err == nil, ""
			})
			time.Sleep(pause)
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 130 && code != 0 || strings.Contains(out.String(), "goroutine") {
				t.Errorf("%v after %s: exit code %d, want 130, or 0 once it was ready\n%.300s", pause, sign, code, out.String())
			}
			p.leftBehind(cmd.Process.Pid)
		}
	}
}

// A scheduler that ends at once makes up fail, with what it said, and leaves
// nothing behind; one that stays up but never leads is waited for and shown.
func TestSchedulerThatDoesNotStayUp(t *testing.T) {
	p := newProgram(t)
	bad := script(t, "echo 'flag provided but not defined: -x' >&2\nexit 2\n")
	out := p.want(1, "up", "--ljnode", bad)
	if !strings.Contains(out, "the scheduler does not stay up: exit status 2: flag provided") || !strings.Contains(out, "hint: ") {
		t.Errorf("up: %s", out)
	}
	if _, err := os.Stat(string(p.dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

// The scheduler's process ends with the sandbox, even if that is killed.
func TestSchedulerDiesWithTheSandbox(t *testing.T) {
	p := newProgram(t)
	// It never takes the lease, so up waits as long as it waits for any.
	p.want(0, "up", "--ljnode", script(t, "exec sleep 300\n"))
	s := p.status()
	if s.Sandbox.Scheduler.PID == 0 || s.Sandbox.Scheduler.State != statedir.SchedulerStarting {
		t.Fatalf("scheduler: %+v", s.Sandbox.Scheduler)
	}
	if err := syscall.Kill(s.Sandbox.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the scheduler", func() (bool, string) {
		stat, err := os.ReadFile(filepath.Join("/proc", itoa(s.Sandbox.Scheduler.PID), "stat"))
		return err != nil || strings.Contains(string(stat), ") Z "), string(stat)
	})
	p.want(0, "down")
	p.leftBehind(s.Sandbox.PID)
}

func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ljnode")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStopEndsWithinSeconds(t *testing.T) {
	if testing.Short() {
		t.Skip("starts another cluster")
	}
	c, err := sandbox.Start(t.Context(), sandbox.Options{NoScheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); c.Stop() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("Stop hangs")
	}
}
