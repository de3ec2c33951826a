package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Names of what is in the directory. Everything else there is not ours.
const (
	lockName      = "lock"
	recordName    = "sandbox.json"
	adminName     = "kubeconfig"
	schedulerName = "scheduler.kubeconfig"
	logName       = "ljsandbox.log"
	schedLogName  = "scheduler.log"
	dataName      = "cluster"
)

var owned = []string{recordName, adminName, schedulerName, logName, schedLogName, dataName}

// ErrRunning says that another process holds the lock.
var ErrRunning = errors.New("a sandbox is already running in this directory")

// Dir is the directory of a sandbox.
type Dir string

// Default is where the user's sandbox lives: $XDG_STATE_HOME/ljsandbox, or
// ~/.local/state/ljsandbox.
func Default() (Dir, error) {
	if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return Dir(filepath.Join(base, "ljsandbox")), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no place for the sandbox's files: %w", err)
	}
	return Dir(filepath.Join(home, ".local", "state", "ljsandbox")), nil
}

// AdminKubeconfig is the administrator's kubeconfig.
func (d Dir) AdminKubeconfig() string { return filepath.Join(string(d), adminName) }

// SchedulerKubeconfig is the scheduler's.
func (d Dir) SchedulerKubeconfig() string { return filepath.Join(string(d), schedulerName) }

// Log takes what the sandbox process says.
func (d Dir) Log() string { return filepath.Join(string(d), logName) }

// SchedulerLog takes what the scheduler says.
func (d Dir) SchedulerLog() string { return filepath.Join(string(d), schedLogName) }

// Data is the control plane's own directory.
func (d Dir) Data() string { return filepath.Join(string(d), dataName) }

func (d Dir) lock() string { return filepath.Join(string(d), lockName) }

// Lock is the right to run in a directory.
type Lock struct {
	dir  Dir
	file *os.File
}

// Acquire makes the directory if need be and takes its lock; ErrRunning if
// somebody holds it. What an earlier sandbox left behind is removed.
func (d Dir) Acquire() (*Lock, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	f, err := d.openLocked()
	if err != nil {
		return nil, err
	}
	l := &Lock{dir: d, file: f}
	if err := d.clear(); err != nil {
		l.Release()
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		l.Release()
		return nil, err
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// openLocked opens the lock file and locks it. The file may be removed by the
// holder before between open and lock; then it is opened again.
func (d Dir) openLocked() (*os.File, error) {
	for try := 0; ; try++ {
		f, err := os.OpenFile(d.lock(), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) && try < 5 {
				time.Sleep(10 * time.Millisecond) // somebody may only be looking
				continue
			}
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, ErrRunning
			}
			return nil, fmt.Errorf("lock %s: %w", d.lock(), err)
		}
		mine, err1 := f.Stat()
		named, err2 := os.Stat(d.lock())
		if err1 == nil && err2 == nil && os.SameFile(mine, named) {
			return f, nil
		}
		_ = f.Close()
	}
}

// check refuses a directory with files that are not a sandbox's.
func (d Dir) check() error {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !isOwned(e.Name()) {
			return fmt.Errorf("%s has a file %q that is not a sandbox's: choose an empty or new directory", d, e.Name())
		}
	}
	return nil
}

func isOwned(name string) bool {
	if name == lockName {
		return true
	}
	for _, o := range owned {
		if name == o || strings.HasPrefix(name, o+".tmp") {
			return true
		}
	}
	return false
}

// clear removes everything of ours but the lock.
func (d Dir) clear() error {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockName || !isOwned(e.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(string(d), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Release removes all files of the sandbox, gives up the lock and removes the
// directory if it is empty then.
func (l *Lock) Release() {
	_ = l.dir.clear()
	_ = os.Remove(l.dir.lock())
	_ = l.file.Close()
	_ = os.Remove(string(l.dir))
}

// Holder tells whether a sandbox runs in the directory, and its process id if
// it can be read.
func (d Dir) Holder() (pid int, running bool) {
	f, err := os.OpenFile(d.lock(), os.O_RDWR, 0)
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }()
	// A shared lock is refused while somebody holds the exclusive one.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
		return 0, false
	}
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	pid, err = strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return 0, true
	}
	return pid, true
}

// Sweep removes what a sandbox that is no longer running left behind. It does
// nothing while one runs.
func (d Dir) Sweep() error {
	if _, err := os.Stat(d.lock()); err != nil {
		return nil
	}
	f, err := d.openLocked()
	if err != nil {
		return err
	}
	(&Lock{dir: d, file: f}).Release()
	return nil
}

// Record is what a running sandbox tells others about itself.
type Record struct {
	PID        int       `json:"pid"`
	Version    string    `json:"version"`
	Kubernetes string    `json:"kubernetes"`
	Server     string    `json:"server"`
	Started    time.Time `json:"started"`
	Fleet      string    `json:"fleet"`
	Nodes      int       `json:"nodes"`
	Cards      int       `json:"cards"`
	Ready      bool      `json:"ready"`
	Scheduler  Scheduler `json:"scheduler"`
}

// Scheduler is the state of the scheduler's process.
type Scheduler struct {
	State    string `json:"state"` // one of the states below
	PID      int    `json:"pid,omitempty"`
	Restarts int    `json:"restarts,omitempty"`
	Error    string `json:"error,omitempty"`
}

// States of the scheduler.
const (
	SchedulerOff      = "off"      // --no-scheduler
	SchedulerStarting = "starting" // does not lead yet
	SchedulerLeading  = "leading"
	SchedulerFailed   = "failed" // ended, will be started again
)

// Write replaces the record as a whole; readers see the old or the new one.
func (d Dir) Write(r Record) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(string(d), recordName)
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// Read returns the record of a running sandbox.
func (d Dir) Read() (Record, error) {
	var r Record
	b, err := os.ReadFile(filepath.Join(string(d), recordName))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(string(d), recordName), err)
	}
	return r, nil
}
