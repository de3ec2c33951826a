package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func names(t *testing.T, dir Dir) []string {
	t.Helper()
	var out []string
	entries, err := os.ReadDir(string(dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyOneMayRunAndItLeavesNothing(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "new", "dir"))
	if _, running := d.Holder(); running {
		t.Fatal("somebody runs in a directory that does not exist")
	}
	l, err := d.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	if pid, running := d.Holder(); !running || pid != os.Getpid() {
		t.Errorf("holder %d %v, want this process", pid, running)
	}
	if _, err := d.Acquire(); !errors.Is(err, ErrRunning) {
		t.Errorf("second: %v, want ErrRunning", err)
	}
	if err := d.Sweep(); !errors.Is(err, ErrRunning) {
		t.Errorf("sweeping while one runs: %v, want ErrRunning", err)
	}
	write(t, filepath.Join(d.Data(), "etcd", "x"))
	l.Release()
	if _, err := os.Stat(string(d)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", names(t, d))
	}
}

func TestACrashedOneIsSweptAndDoesNotBlock(t *testing.T) {
	d := Dir(t.TempDir())
	write(t, d.lock()) // a lock file that nobody holds
	write(t, filepath.Join(d.Data(), "etcd", "x"))
	write(t, d.AdminKubeconfig())
	if _, running := d.Holder(); running {
		t.Error("a lock file without a holder counts as running")
	}
	l, err := d.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"lock"}, names(t, d)); diff != "" {
		t.Errorf("after a new start (-want +got):\n%s", diff)
	}
	l.Release()
	write(t, d.lock())
	write(t, d.Log())
	if err := d.Sweep(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, d); got != nil {
		t.Errorf("after sweeping: %v", got)
	}
}

func TestOtherPeoplesFilesAreSafe(t *testing.T) {
	d := Dir(t.TempDir())
	write(t, filepath.Join(string(d), "thesis.tex"))
	if _, err := d.Acquire(); err == nil || !strings.Contains(err.Error(), `"thesis.tex"`) {
		t.Errorf("got %v, want a refusal that names the file", err)
	}
	write(t, d.lock())
	write(t, d.Log())
	if err := d.Sweep(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"thesis.tex"}, names(t, d)); diff != "" {
		t.Errorf("after sweeping (-want +got):\n%s", diff)
	}
}

func TestAcquireSaysWhyItCannot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file)
	if _, err := Dir(filepath.Join(file, "dir")).Acquire(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v, want an error with the path", err)
	}
}

func TestRecord(t *testing.T) {
	d := Dir(t.TempDir())
	want := Record{PID: 1, Server: "https://127.0.0.1:1", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Ready: true,
		Scheduler: Scheduler{State: SchedulerFailed, Restarts: 2, Error: "x"}}
	if err := d.Write(want); err != nil {
		t.Fatal(err)
	}
	got, err := d.Read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{recordName}, names(t, d)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestDefaultFollowsXDG(t *testing.T) {
	t.Setenv("HOME", "/home/u")
	for env, want := range map[string]Dir{"/x": "/x/ljsandbox", "": "/home/u/.local/state/ljsandbox", "relative": "/home/u/.local/state/ljsandbox"} {
		t.Setenv("XDG_STATE_HOME", env)
		if got, err := Default(); err != nil || got != want {
			t.Errorf("XDG_STATE_HOME=%q: %q %v, want %q", env, got, err, want)
		}
	}
}
