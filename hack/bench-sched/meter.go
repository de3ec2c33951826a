package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// meter reads a scheduler's metrics as Prometheus does: with the token of a
// service account that may.
type meter struct{ url, token string }

func (c *cluster) newMeter(ctx context.Context, p *process) (*meter, error) {
	const name = "meter"
	meta := metav1.ObjectMeta{Name: name}
	_, err1 := c.client.CoreV1().ServiceAccounts(namespace).Create(ctx, &v1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	_, err2 := c.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}, metav1.CreateOptions{})
	_, err3 := c.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}}}, metav1.CreateOptions{})
	token, err4 := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("an account that may read metrics: %w", err)
	}
	return &meter{url: "https://127.0.0.1:" + p.port + "/metrics", token: token.Status.Token}, nil
}

// total is the sum and the number of observations of a histogram, over all
// its labels.
type total struct{ sum, count float64 }

func (m *meter) read(ctx context.Context, histogram string) (total, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url, nil)
	if err != nil {
		return total{}, err
	}
	req.Header.Set("Authorization", "Bearer "+m.token)
	resp, err := insecure.Do(req)
	if err != nil {
		return total{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return total{}, fmt.Errorf("metrics: %s", resp.Status)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return total{}, err
	}
	sum, err1 := sumOf(text, histogram+"_sum")
	count, err2 := sumOf(text, histogram+"_count")
	return total{sum, count}, errors.Join(err1, err2)
}

// sumOf adds up a metric over all its labels, in the text form of Prometheus.
func sumOf(text []byte, metric string) (float64, error) {
	var out float64
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, metric)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		rest = strings.TrimSpace(rest)
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metrics: line %q", line)
		}
		out += v
	}
	return out, nil
}

// putOff is how many requests the API server's priority and fairness has
// refused with "try again later" since its start, to anybody.
func (c *cluster) putOff(ctx context.Context) (float64, error) {
	text, err := c.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("metrics of the API server: %w", err)
	}
	return sumOf(text, "apiserver_flowcontrol_rejected_requests_total")
}
