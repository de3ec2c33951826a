package cliutil

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"lj.aliyun.com/kit/pkg/core/reason"
)

func dial(err error) error {
	return &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/api", Err: &net.OpError{Op: "dial", Err: err}}
}

func TestReport(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		err  error
		code int
		want []string
	}{
		"nothing":             {nil, 0, nil},
		"an answer was given": {Exit(reason.Wait), 5, nil},
		"plain":               {errors.New("gpu 3: lost"), 1, []string{"error: gpu 3: lost\n"}},
		"with a hint":         {fmt.Errorf("x: %w", WithHint(errors.New("y"), "do %s", "z")), 1, []string{"error: x: y\n", "hint: do z\n"}},
		"usage":               {WithHint(Usagef("no name"), "give one"), 2, []string{"error: no name\nhint: give one\n"}},
		"interrupted":         {fmt.Errorf("list: %w", context.Canceled), 130, []string{"interrupted\n"}},
		"hostile text":        {errors.New("a\x1b[31mb"), 1, []string{`error: a\u001b[31mb`}},
		"refused":             {dial(syscall.ECONNREFUSED), 1, []string{"the connection to the server 10.0.0.1:6443 was refused", "hint: "}},
		"no such host":        {dial(&net.DNSError{Err: "no such host", Name: "k"}), 1, []string{"cannot be found: no such host", "hint: "}},
		"too slow":            {dial(context.DeadlineExceeded), 4, []string{"did not answer in time", "--request-timeout"}},
		"bad certificate":     {dial(errors.New("x509: certificate signed by unknown authority")), 1, []string{"no trusted connection", "hint: "}},
		"other network":       {dial(errors.New("no route to host")), 1, []string{"cannot be reached", "hint: "}},
		"web page":            {errors.New("invalid character '<' looking for beginning of value"), 1, []string{"no Kubernetes API server", "hint: "}},
		"unauthorized":        {apierrors.NewUnauthorized("no"), 1, []string{"you must be logged in", "hint: "}},
		"forbidden":           {apierrors.NewForbidden(pods, "", errors.New("no")), 1, []string{"from server (Forbidden)", "kubectl auth can-i"}},
		"not found":           {apierrors.NewNotFound(pods, "x"), 1, []string{`from server (NotFound): pods "x" not found`}},
		"overloaded":          {apierrors.NewTooManyRequests("later", 1), 1, []string{"TooManyRequests", "try again"}},
		"server timeout":      {apierrors.NewTimeoutError("slow", 1), 4, []string{"Timeout"}},
		"starting":            {apierrors.NewServiceUnavailable("starting"), 1, []string{"try again"}},
		"code wins":           {AsExit(3, AsExit(1, errors.New("x"))), 1, []string{"error: x"}},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if got := Report(&b, c.err); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
			for _, w := range c.want {
				if !strings.Contains(b.String(), w) {
					t.Errorf("lacks %q:\n%s", w, b.String())
				}
			}
			if c.want == nil && b.Len() > 0 {
				t.Errorf("printed %q", b.String())
			}
		})
	}
}

func TestEveryVerdictHasItsExitCode(t *testing.T) {
	want := map[reason.Verdict]int{reason.OK: 0, reason.Warn: 0, reason.Invalid: 3, reason.Blocked: 3, reason.Refused: 3,
		reason.Wait: 5, reason.Partial: 5, reason.Unknown: 6, reason.Env: 1}
	for _, v := range reason.Verdicts() {
		if got := Report(discard{}, Exit(v)); got != want[v] {
			t.Errorf("%s: %d, want %d", v, got, want[v])
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestSettingsAreCheckedAgainstTheirOwnList(t *testing.T) {
	s := NewSettings()
	for _, k := range SettingList() {
		if v, origin := s.Get(k.Key); v != k.Default || origin != "default" {
			t.Errorf("%s: %q from %s", k.Key, v, origin)
		}
		if k.Meaning == "" || !strings.HasPrefix(k.Env(), "LJ_") {
			t.Errorf("%s: no meaning, or variable %s", k.Key, k.Env())
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a flag can be bound to a key that is not there")
		}
	}()
	s.Bind("no.such", nil)
}

func TestWithoutAClusterTheDefaultsHold(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_MASTER", "")
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	f := NewFactory("ljctl", streams)
	c, origin, err := f.ClusterConfig(t.Context())
	if err != nil || c.Prefix != "aliyun.com" || origin.Absent || !strings.Contains(origin.String(), "no cluster to talk to") {
		t.Errorf("%v %v %v", c.Prefix, origin, err)
	}
	if ns, enforced, err := f.Namespace(); ns != "default" || enforced || err != nil {
		t.Errorf("%s %v %v", ns, enforced, err)
	}
	if _, err := f.Clients(); err == nil {
		t.Error("clients without a cluster")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := NewFactory("ljctl", streams).ClusterConfig(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
