package whypending

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
)

func loadCases(t testing.TB) []pendingCase {
	t.Helper()
	raw, err := os.ReadFile("../../../testdata/cases-pending.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []pendingCase
	if err := yaml.UnmarshalStrict(raw, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// command runs why-pending in this process, or the program that LJCTL names.
func command(t testing.TB, stdin string, args ...string) (stdout string, exit int) {
	t.Helper()
	if program := os.Getenv("LJCTL"); program != "" {
		return runProgram(t, program, stdin, args)
	}
	var out, errOut bytes.Buffer
	f := cliutil.NewFactory("ljctl", genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut})
	f.Clock = clocktesting.NewFakeClock(caseNow.Add(time.Hour))
	cmd := NewCmd(f)
	f.ConfigFlags.AddFlags(cmd.PersistentFlags())
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(context.Background())
	var ee *cliutil.ExitError
	switch {
	case err == nil:
	case errors.As(err, &ee):
		exit = ee.Code
		if ee.Err != nil {
			t.Logf("error: %v", ee.Err)
		}
	default:
		t.Logf("error: %v", err)
		exit = reason.ExitError
	}
	if errOut.Len() > 0 {
		t.Log(errOut.String())
	}
	return out.String(), exit
}

func runProgram(t testing.TB, program, stdin string, args []string) (string, int) {
	t.Helper()
	cmd := exec.Command(program, append([]string{"why-pending"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG=/dev/null", "HOME="+t.TempDir())
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	err := cmd.Run()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	if errOut.Len() > 0 {
		t.Log(errOut.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func TestCases(t *testing.T) {
	for _, c := range loadCases(t) {
		t.Run(c.Case, func(t *testing.T) {
			ask := c.Ask
			if ask == nil {
				ask = []string{"p"}
			}
			snap := snapshotOf(t, c)
			out, exit := command(t, snap, append([]string{"--snapshot", "-", "-n", "default", "-o", "json", "--exit-code"}, ask...)...)
			var r explain.Report
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatalf("no report: %v\n%s", err, out)
			}
			judge(t, c.Want, &r, out, exit)
			text, exit := command(t, snap, append([]string{"--snapshot", "-", "-n", "default", "-o", "wide"}, ask...)...)
			if exit != 0 {
				t.Errorf("exit %d without --exit-code", exit)
			}
			if t.Failed() || testing.Verbose() {
				t.Log("\n" + text)
			}
		})
	}
}

func judge(t *testing.T, w want, r *explain.Report, doc string, exit int) {
	t.Helper()
	if string(r.Verdict) != w.Verdict || w.Code != "" && string(r.Code) != w.Code || exit != w.Exit {
		t.Errorf("%s %s exit %d, want %s %s exit %d", r.Verdict, r.Code, exit, w.Verdict, w.Code, w.Exit)
	}
	if w.Fit != "" && string(r.Fit) != w.Fit {
		t.Errorf("fit %s, want %s", r.Fit, w.Fit)
	}
	var codes []string
	for _, c := range r.Reasons {
		codes = append(codes, string(c.Code))
	}
	if len(codes) == 0 || codes[0] != string(r.Code) {
		t.Errorf("reasons %v do not begin with %s", codes, r.Code)
	}
	for _, c := range w.Codes {
		if !slices.Contains(codes, c) {
			t.Errorf("reasons %v lack %s", codes, c)
		}
	}
	for _, c := range w.Not {
		if slices.Contains(codes, c) {
			t.Errorf("reasons %v have %s", codes, c)
		}
	}
	for _, n := range r.Nodes {
		var have []string
		for _, c := range n.Reasons {
			have = append(have, string(c.Code))
		}
		if need, ok := w.Nodes[n.Name]; ok && !sameSet(have, need) {
			t.Errorf("node %s: %v, want %v", n.Name, have, need)
		}
	}
	plain := strings.NewReplacer(`\"`, `"`, `\u003e`, ">", `\u003c`, "<", `\u0026`, "&").Replace(doc)
	for _, s := range w.Says {
		if !strings.Contains(plain, s) {
			t.Errorf("does not say %q", s)
		}
	}
	for _, s := range w.Silent {
		if strings.Contains(plain, s) {
			t.Errorf("says %q", s)
		}
	}
	addsUp(t, r)
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// addsUp holds for every report: each node is counted once, and the table's
// rows lose what they block.
func addsUp(t testing.TB, r *explain.Report) {
	t.Helper()
	sum := r.FitNodes
	for _, c := range r.RuledOut {
		sum += c.Nodes
	}
	if sum != r.TotalNodes {
		t.Errorf("counts %+v and %d that fit do not add up to %d", r.RuledOut, r.FitNodes, r.TotalNodes)
	}
	left := r.TotalNodes
	for _, c := range r.Checks {
		if c.Left > left || c.Left > c.Pass || c.Pass > c.Total || c.Total != r.TotalNodes || left-c.Left < min(len(c.Blocked), 1) {
			t.Errorf("check %+v after %d left", c, left)
		}
		left = c.Left
	}
	if len(r.Checks) > 0 && left != r.FitNodes {
		t.Errorf("%d left by the table, %d fit", left, r.FitNodes)
	}
}
