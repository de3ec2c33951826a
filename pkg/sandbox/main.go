package sandbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/sandbox/cli"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

// Main is the program ljsandbox; args are without the program's name.
func Main(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	return cli.Main(ctx, args, &cli.Program{Streams: streams, Serve: Serve})
}

// Time limits of Serve.
const (
	startLimit     = 50 * time.Second
	schedulerLimit = 15 * time.Second
)

// Serve runs a sandbox in a directory until the context ends, and leaves
// nothing behind. It returns nil when it was asked to end.
func Serve(ctx context.Context, o cli.ServeOptions) error {
	lock, err := o.Dir.Acquire()
	if err != nil {
		return err
	}
	defer lock.Release()
	log, err := openLog(o.Dir, o.Detached)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	rec := &recorder{dir: o.Dir, record: statedir.Record{
		PID: os.Getpid(), Version: cliutil.Version, Started: time.Now().UTC().Truncate(time.Second),
		Fleet: o.FleetPath, Nodes: len(o.Fleet.Nodes), Cards: o.Fleet.Cards(),
		Scheduler: statedir.Scheduler{State: statedir.SchedulerOff},
	}}
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	// Starting makes much garbage once; collecting it costs a second.
	gc := debug.SetGCPercent(400)
	c, err := Start(starting, Options{
		Dir: o.Dir, Fleet: o.Fleet, NoScheduler: o.Scheduler == "", Scheduler: o.Scheduler,
		OnScheduler: rec.scheduler, Log: log,
	})
	if err != nil {
		return asked(ctx, err)
	}
	defer c.Stop()
	debug.SetGCPercent(gc)
	if err := announce(ctx, c, rec, o.Ready); err != nil {
		return asked(ctx, err)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-c.Failed():
		return cliutil.WithHint(errors.New("the API server ended by itself"), "start again with ljsandbox up --foreground")
	}
}

// asked hides the errors of an end that was asked for.
func asked(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// announce completes the record and says that the sandbox can be used. A
// scheduler that is slow to lead is said to be starting; one that does not
// stay up is an error.
func announce(ctx context.Context, c *Cluster, rec *recorder, ready func(statedir.Record)) error {
	waiting, cancel := context.WithTimeout(ctx, schedulerLimit)
	defer cancel()
	if err := c.WaitScheduler(waiting); err != nil && (waiting.Err() == nil || ctx.Err() != nil) {
		return cliutil.WithHint(err, "run it by hand to see more, or leave it out with --no-scheduler")
	}
	version, err := c.KubernetesVersion()
	if err != nil {
		return err
	}
	r, err := rec.ready(c.Host(), version)
	if err != nil {
		return err
	}
	if ready != nil {
		ready(r)
	}
	return nil
}

// recorder keeps the record on disk up to date.
type recorder struct {
	dir    statedir.Dir
	mu     sync.Mutex
	record statedir.Record
}

func (r *recorder) scheduler(s statedir.Scheduler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.Scheduler = s
	if r.record.Ready {
		if err := r.dir.Write(r.record); err != nil {
			klog.ErrorS(err, "Could not record the scheduler's state")
		}
	}
}

func (r *recorder) ready(server, version string) (statedir.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.Server, r.record.Kubernetes, r.record.Ready = server, version, true
	return r.record, r.dir.Write(r.record)
}

// openLog sends what the parts of the cluster say to the log file. In a
// detached process also what the Go runtime says when it dies.
func openLog(dir statedir.Dir, detached bool) (io.WriteCloser, error) {
	f, err := os.OpenFile(dir.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if detached {
		for _, fd := range []int{1, 2} {
			if err := syscall.Dup3(int(f.Fd()), fd, 0); err != nil {
				return nil, fmt.Errorf("send the output to %s: %w", dir.Log(), err)
			}
		}
	}
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	if err := fs.Parse([]string{"-logtostderr=false", "-alsologtostderr=false", "-stderrthreshold=FATAL", "-one_output=true"}); err != nil {
		return nil, err
	}
	klog.SetOutput(f)
	return f, nil
}
