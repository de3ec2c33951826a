package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

// The program under test is the real command line with a Serve that runs no
// cluster; FAKE_SERVE says how it behaves.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"ljsandbox": func() {
			os.Exit(Main(cliutil.SignalContext(), os.Args[1:], &Program{Streams: cliutil.StdStreams(), Serve: fakeServe}))
		},
	})
}

func fakeServe(ctx context.Context, o ServeOptions) error {
	lock, err := o.Dir.Acquire()
	if err != nil {
		return err
	}
	defer lock.Release()
	switch os.Getenv("FAKE_SERVE") {
	case "fail":
		return cliutil.WithHint(errors.New("etcd does not like this disk"), "use another")
	case "crash":
		os.Exit(7)
	case "hang":
		<-ctx.Done()
		return ctx.Err()
	case "stubborn":
		defer func() { time.Sleep(time.Minute) }()
	}
	r := statedir.Record{PID: os.Getpid(), Kubernetes: "v1.37.2", Server: "https://127.0.0.1:1", Fleet: o.FleetPath, Ready: true,
		Nodes: len(o.Fleet.Nodes), Cards: o.Fleet.Cards(), Scheduler: statedir.Scheduler{State: statedir.SchedulerOff}}
	if o.Scheduler != "" {
		r.Scheduler = statedir.Scheduler{State: statedir.SchedulerLeading, PID: 4711}
	}
	if err := errors.Join(o.Dir.Write(r), os.WriteFile(o.Dir.AdminKubeconfig(), []byte("kubeconfig of "+o.FleetPath+"\n"), 0o600)); err != nil {
		return err
	}
	o.Ready(r)
	<-ctx.Done()
	return nil
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("D", filepath.Join(e.WorkDir, "state", "ljsandbox"))
			// A background process must not outlive its script.
			e.Defer(func() {
				for _, d := range []string{"ljsandbox", "other"} {
					dir := statedir.Dir(filepath.Join(e.WorkDir, "state", d))
					if pid, running := dir.Holder(); running {
						_ = end(context.Background(), dir, pid, 0)
					}
				}
			})
			return nil
		},
	})
}
