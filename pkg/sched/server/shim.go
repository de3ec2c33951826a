package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"lj.aliyun.com/kit/pkg/kube"
)

// optional are the collections that the engine lists although an API server
// of 1.28 to 1.36 may not serve them, or one whose administrator has switched
// the group off, by API group: resource name to kind.
// The engine makes these informers unconditionally (scheduler.New), and
// DynamicResourceAllocation cannot be switched off in 1.37.
var optional = map[string]map[string]string{
	"policy": {"poddisruptionbudgets": "PodDisruptionBudgetList"},
	"resource.k8s.io": {
		"resourceclaims": "ResourceClaimList", "resourceclaimtemplates": "ResourceClaimTemplateList",
		"resourceslices": "ResourceSliceList", "deviceclasses": "DeviceClassList",
		"devicetaintrules": "DeviceTaintRuleList",
	},
	"scheduling.k8s.io": {"podgroups": "PodGroupList", "compositepodgroups": "CompositePodGroupList", "workloads": "WorkloadList"},
}

// idle is how long a watch on an absent collection stays open. After it the
// informer asks again, and so finds a group that has appeared.
const idle = 5 * time.Minute

// shim answers for collections that the API server does not have: an empty
// list, and a watch in which nothing happens. Everything else, and what the
// server does have, passes through untouched.
type shim struct {
	next http.RoundTripper
	idle time.Duration
}

func newShim(next http.RoundTripper) http.RoundTripper { return &shim{next: next, idle: idle} }

// RoundTrip implements http.RoundTripper.
func (s *shim) RoundTrip(r *http.Request) (*http.Response, error) {
	if resp := ofOurs(r); resp != nil {
		return resp, nil
	}
	resp, err := s.next.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusNotFound || r.Method != http.MethodGet {
		return resp, err
	}
	kind, groupVersion := collection(r.URL.Path)
	q := r.URL.Query()
	// A list delivered as a watch is refused as the server did: the informer
	// then lists the old way.
	if kind == "" || q.Get("sendInitialEvents") == "true" {
		return resp, nil
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
	if q.Get("watch") == "" || q.Get("watch") == "false" || q.Get("watch") == "0" {
		// The right kind of list: a generic one fails to decode.
		body := fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, kind, groupVersion)
		return answer(r, io.NopCloser(bytes.NewReader([]byte(body)))), nil
	}
	pr, pw := io.Pipe()
	go func() {
		t := time.NewTimer(s.idle)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
		}
		_ = pw.Close()
	}()
	return answer(r, pr), nil
}

// ofOurs answers for PodGroups that exist in this process only: after each
// cycle of a group the engine writes a condition into its status, within its
// loop, and would wait there for the API server to say that it knows no such
// object. nil is for all other requests.
func ofOurs(r *http.Request) *http.Response {
	p := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if r.Method != http.MethodPatch || len(p) != 8 || p[1] != "scheduling.k8s.io" || p[5] != "podgroups" || !kube.SyntheticName(p[6]) {
		return nil
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	body := fmt.Sprintf(`{"kind":"PodGroup","apiVersion":%q,"metadata":{"namespace":%q,"name":%q}}`, p[1]+"/"+p[2], p[4], p[6])
	return answer(r, io.NopCloser(strings.NewReader(body)))
}

// collection recognises /apis/GROUP/VERSION/RESOURCE and its namespaced form.
func collection(path string) (kind, groupVersion string) {
	p := strings.Split(strings.Trim(path, "/"), "/")
	if len(p) == 6 && p[3] == "namespaces" {
		p = append(p[:3:3], p[5])
	}
	if len(p) != 4 || p[0] != "apis" {
		return "", ""
	}
	return optional[p[1]][p[3]], p[1] + "/" + p[2]
}

func answer(r *http.Request, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r,
	}
}
