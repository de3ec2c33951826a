package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"lj.aliyun.com/kit/pkg/core/config"
)

// Options say where the demonstration runs.
type Options struct {
	Out        io.Writer
	Ljctl      string // path of the ljctl program
	Kubeconfig string
	Client     kubernetes.Interface
	Namespace  string // created, and removed at the end
	Config     config.Config
}

// Run runs all steps. It returns an error that counts the expectations that
// did not hold, or one that says why it could not go on.
func Run(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "ljsandbox-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer os.RemoveAll(dir)
	d := &demo{Options: o, dir: dir}
	if err := d.unpack(); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := d.namespace(ctx); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	for _, step := range []func(context.Context) error{d.checkManifests, d.groups, d.near, d.submitExamples, d.broken, d.impossible, d.fragmented} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	return d.summary()
}

// demo is one run.
type demo struct {
	Options
	dir    string
	held   int
	failed []string
}

// title begins a step.
func (d *demo) title(format string, args ...any) {
	fmt.Fprintf(d.Out, "\n== "+format+"\n", args...)
}

// expect notes whether an expectation held.
func (d *demo) expect(ok bool, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if ok {
		d.held++
		fmt.Fprintf(d.Out, "  ok: %s\n", text)
		return
	}
	d.failed = append(d.failed, text)
	fmt.Fprintf(d.Out, "  NOT AS EXPECTED: %s\n", text)
}

func (d *demo) summary() error {
	d.title("%d expectations held, %d did not", d.held, len(d.failed))
	if len(d.failed) == 0 {
		return nil
	}
	return fmt.Errorf("demo: not as expected: %s", strings.Join(d.failed, "; "))
}

// ljctl runs the program, shows the command and what it prints, and returns
// the output and the exit code.
func (d *demo) ljctl(ctx context.Context, args ...string) (string, int, error) {
	fmt.Fprintf(d.Out, "\n$ ljctl %s\n", strings.Join(args, " "))
	out, code, err := d.quiet(ctx, args...)
	for line := range strings.Lines(out) {
		fmt.Fprint(d.Out, "  "+line)
	}
	if !strings.HasSuffix(out, "\n") && out != "" {
		fmt.Fprintln(d.Out)
	}
	return out, code, err
}

// quiet runs the program without showing anything.
func (d *demo) quiet(ctx context.Context, args ...string) (string, int, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.Ljctl, args...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.Kubeconfig, "LJ_CONFIG=", "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return string(out), exit.ExitCode(), nil
	}
	if err != nil {
		return string(out), 0, fmt.Errorf("run %s: %w", d.Ljctl, err)
	}
	return string(out), 0, nil
}
