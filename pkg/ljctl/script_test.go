package ljctl

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"lj.aliyun.com/kit/pkg/cliutil"
)

var update = flag.Bool("update", false, "write the expected output of the scripts anew")

// TestMain lets the scripts run this test binary under the names that ljctl
// is linked by.
func TestMain(m *testing.M) {
	run := func() { os.Exit(Main(cliutil.SignalContext(), os.Args, cliutil.StdStreams())) }
	testscript.Main(m, map[string]func(){"ljctl": run, "kubectl-lj": run, "kubectl_complete-lj": run})
}

func TestScripts(t *testing.T) {
	dirs, err := filepath.Glob("testdata/script/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, d := range dirs {
		t.Run(filepath.Base(d), func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Dir: d, UpdateScripts: *update, RequireExplicitExec: true, RequireUniqueNames: true,
				Setup: setup,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"apiserver": startAPI, "rc": exitCode, "changed": changed,
				},
			})
		})
	}
}

func setup(env *testscript.Env) error {
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("KUBECONFIG", filepath.Join(env.WorkDir, "no-kubeconfig"))
	env.Setenv("KUBECACHEDIR", filepath.Join(env.WorkDir, "cache"))
	env.Values["api"] = new(*fakeAPI)
	return nil
}

// startAPI is "apiserver [FILE] [flag…]": it starts a server with the objects
// of the file and points KUBECONFIG at it.
func startAPI(ts *testscript.TestScript, neg bool, args []string) {
	file, flags := "", args
	if len(args) > 0 && strings.HasSuffix(args[0], ".yaml") {
		file, flags = ts.MkAbs(args[0]), args[1:]
	}
	f, err := newFakeAPI(file, strings.Join(flags, " "))
	ts.Check(err)
	ts.Defer(func() { f.CloseClientConnections(); f.Close() })
	*ts.Value("api").(**fakeAPI) = f
	kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: fake
contexts: [{name: fake, context: {cluster: fake, user: dev, namespace: team}}]
clusters: [{name: fake, cluster: {server: %q}}]
users: [{name: dev, user: {token: t}}]
`, f.URL)
	name := ts.MkAbs("kubeconfig")
	ts.Check(os.WriteFile(name, []byte(kubeconfig), 0o600))
	ts.Setenv("KUBECONFIG", name)
	ts.Setenv("SERVER", strings.TrimPrefix(f.URL, "http://"))
}

// exitCode is "rc N PROGRAM ARG…": the program must exit with exactly N.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: rc N program args…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// changed is "changed N": so many objects were created or deleted.
func changed(ts *testscript.TestScript, neg bool, args []string) {
	f := *ts.Value("api").(**fakeAPI)
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := fmt.Sprint(len(f.mutations)); len(args) != 1 || got != args[0] {
		ts.Fatalf("%s changes, want %v: %v", got, args, f.mutations)
	}
}
