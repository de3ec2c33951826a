package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func get(t *testing.T, url string) (int, string) { t.Helper(); return getAs(t, url, "") }

func getAs(t *testing.T, url, token string) (int, string) {
	t.Helper()
	c := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} // a certificate made at start
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func TestHealthIsForAllAndMetricsAreNot(t *testing.T) {
	api := newOldServer(t, "/apis/resource.k8s.io/")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	o := Options{Kubeconfig: api.kubeconfig(t), BindAddress: "127.0.0.1", SecurePort: freePort(t)}
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	base := fmt.Sprintf("https://127.0.0.1:%d", o.SecurePort)
	wait(t, "ready", func() bool { code, _ := get(t, base+"/readyz"); return code == http.StatusOK }, ended)
	for _, path := range []string{"/healthz", "/livez"} {
		if code, body := get(t, base+path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, body := get(t, base+"/metrics"); code == http.StatusOK || strings.Contains(body, "scheduler_") {
		t.Errorf("/metrics answers anybody: %d", code)
	}
	if code, _ := getAs(t, base+"/metrics", "bad"); code != http.StatusUnauthorized {
		t.Errorf("/metrics with a bad token: %d", code)
	}
	wait(t, "leading", func() bool {
		_, body := getAs(t, base+"/metrics", goodToken)
		return strings.Contains(body, "\nlj_nodes{")
	}, ended)
	_, body := getAs(t, base+"/metrics", goodToken)
	for _, name := range []string{"scheduler_pending_pods", "rest_client_requests_total", "lj_build_info",
		"lj_foreign_pods 0", "lj_binding_retries_total", "lj_fence_refusals_total", `lj_nodes{state="open"} 0`} {
		if !strings.Contains(body, "\n"+name) {
			t.Errorf("/metrics lacks %s", name)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("end: %v", err)
	}
	if code, _ := get(t, base+"/healthz"); code != 0 {
		t.Error("still serving after the end")
	}
}

func TestAPortInUseIsAnError(t *testing.T) {
	api := newOldServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = Run(t.Context(), Options{Kubeconfig: api.kubeconfig(t), BindAddress: "127.0.0.1", SecurePort: l.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v", err)
	}
}

func TestALostLeaseEndsTheProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the renew deadline")
	}
	api := newOldServer(t)
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), Options{Kubeconfig: api.kubeconfig(t), LeaderElect: true}) }()
	wait(t, "leading", func() bool { return api.holder() != "" }, ended)
	api.mu.Lock()
	other := "somebody-else"
	api.leases["lj-runtimekit-scheduler"].Spec.HolderIdentity = &other
	api.stolen = true
	api.mu.Unlock()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "lost the lease") {
			t.Errorf("got %v", err)
		}
	case <-time.After(40 * time.Second):
		t.Fatal("goes on without the lease")
	}
}
