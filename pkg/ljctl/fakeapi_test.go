package ljctl

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// fakeAPI speaks as much of the API server's protocol as the client's side of
// ljctl needs: lists with label selectors, get, create with dry run, delete,
// logs, discovery of JobSets, and the ways in which real servers fail.
type fakeAPI struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]map[string]any // by path without query
	order   []string

	denied    []string // resources whose list and get are forbidden
	mode      string   // "", html, unauthorized, hang, webhook, unavailable
	noJobSet  bool
	finish    string   // Complete or Failed: what jobs become at once
	failFor   string   // resource whose creation fails with 500 unless dry
	mutations []string // what changed: "POST path"
}

func newFakeAPI(file, flags string) (*fakeAPI, error) {
	f := &fakeAPI{objects: map[string]map[string]any{}}
	for _, fl := range strings.Fields(flags) {
		k, v, _ := strings.Cut(fl, "=")
		switch k {
		case "deny":
			f.denied = strings.Split(v, ",")
		case "mode":
			f.mode = v
		case "no-jobset":
			f.noJobSet = true
		case "finish":
			f.finish = v
		case "fail":
			f.failFor = v
		default:
			return nil, fmt.Errorf("no flag %s", k)
		}
	}
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, doc := range strings.Split(string(data), "\n---\n") {
			var o map[string]any
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				return nil, err
			}
			if o != nil {
				f.put(pathOf(o), o)
			}
		}
	}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	return f, nil
}

func (f *fakeAPI) put(path string, o map[string]any) {
	if _, ok := f.objects[path]; !ok {
		f.order = append(f.order, path)
	}
	f.objects[path] = o
}

func str(o map[string]any, keys ...string) string {
	for _, k := range keys[:len(keys)-1] {
		o, _ = o[k].(map[string]any)
	}
	s, _ := o[keys[len(keys)-1]].(string)
	return s
}

// kindOf are the kinds of the resources that a snapshot lists.
var kindOf = map[string]string{
	"nodes": "Node", "pods": "Pod", "namespaces": "Namespace", "services": "Service", "persistentvolumeclaims": "PersistentVolumeClaim",
	"persistentvolumes": "PersistentVolume", "resourcequotas": "ResourceQuota", "limitranges": "LimitRange", "events": "Event",
	"replicationcontrollers": "ReplicationController", "storageclasses": "StorageClass", "csinodes": "CSINode", "csidrivers": "CSIDriver",
	"csistoragecapacities": "CSIStorageCapacity", "priorityclasses": "PriorityClass", "poddisruptionbudgets": "PodDisruptionBudget",
	"runtimeclasses": "RuntimeClass", "jobs": "Job", "cronjobs": "CronJob", "jobsets": "JobSet", "deployments": "Deployment",
	"replicasets": "ReplicaSet", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet", "leases": "Lease", "configmaps": "ConfigMap",
	"hypernodes": "HyperNode",
}

func pathOf(o map[string]any) string {
	api, kind := str(o, "apiVersion"), str(o, "kind")
	p := "/apis/" + api
	if api == "v1" {
		p = "/api/v1"
	}
	if ns := str(o, "metadata", "namespace"); ns != "" {
		p += "/namespaces/" + ns
	}
	plural := ""
	for res, k := range kindOf {
		if k == kind {
			plural = res
		}
	}
	return p + "/" + plural + "/" + str(o, "metadata", "name")
}

func (f *fakeAPI) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.mode {
	case "html":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html><body>Please log in</body></html>")
		return
	case "unauthorized":
		status(w, 401, "Unauthorized", "Unauthorized", nil)
		return
	case "unavailable":
		status(w, 503, "ServiceUnavailable", "the server is currently unable to handle the request", nil)
		return
	case "hang":
		f.mu.Unlock()
		<-r.Context().Done()
		f.mu.Lock()
		return
	}
	switch p := r.URL.Path; {
	case p == "/version":
		reply(w, 200, map[string]any{"gitVersion": "v1.37.2"})
	case p == "/apis/jobset.x-k8s.io/v1alpha2" && !f.noJobSet:
		reply(w, 200, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "jobset.x-k8s.io/v1alpha2",
			"resources": []any{map[string]any{"name": "jobsets", "namespaced": true, "kind": "JobSet", "verbs": []string{"create", "get", "list"}}}})
	case strings.HasPrefix(p, "/apis/jobset.x-k8s.io") && f.noJobSet:
		http.Error(w, "404 page not found", 404)
	case strings.HasSuffix(p, "/log"):
		f.log(w, r, strings.TrimSuffix(p, "/log"))
	default:
		f.resource(w, r)
	}
}

// split takes a path apart: collection, resource, name.
func split(p string) (collection, resource, name string) {
	parts := strings.Split(strings.Trim(p, "/"), "/")
	rest := parts[2:]
	if parts[0] == "apis" {
		rest = parts[3:]
	}
	if len(rest) >= 3 && rest[0] == "namespaces" {
		rest = rest[2:]
	}
	resource = rest[0]
	if len(rest) > 1 {
		name = rest[1]
	}
	return strings.TrimSuffix(p, "/"+name), resource, name
}

func (f *fakeAPI) resource(w http.ResponseWriter, r *http.Request) {
	collection, resource, name := split(r.URL.Path)
	if slices.Contains(f.denied, resource) {
		status(w, 403, "Forbidden", fmt.Sprintf("%s is forbidden: User \"dev\" cannot list resource %q", resource, resource), nil)
		return
	}
	switch {
	case r.Method == http.MethodPost:
		f.create(w, r, collection, resource)
	case r.Method == http.MethodDelete:
		if _, ok := f.objects[r.URL.Path]; !ok {
			notFound(w, resource, name)
			return
		}
		var opts struct{ DryRun []string }
		_ = json.NewDecoder(r.Body).Decode(&opts)
		if len(opts.DryRun) == 0 {
			delete(f.objects, r.URL.Path)
			f.mutations = append(f.mutations, "DELETE "+r.URL.Path)
		}
		reply(w, 200, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	case name != "":
		if o, ok := f.objects[r.URL.Path]; ok {
			reply(w, 200, o)
			return
		}
		notFound(w, resource, name)
	default:
		f.list(w, r, collection, resource)
	}
}

func (f *fakeAPI) list(w http.ResponseWriter, r *http.Request, collection, resource string) {
	sel, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		status(w, 400, "BadRequest", err.Error(), nil)
		return
	}
	items := []any{}
	for _, p := range f.order {
		o, ok := f.objects[p]
		c, res, _ := split(p)
		inAll := !strings.Contains(collection, "/namespaces/") && res == resource
		if !ok || c != collection && !inAll {
			continue
		}
		set := labels.Set{}
		meta, _ := o["metadata"].(map[string]any)
		ls, _ := meta["labels"].(map[string]any)
		for k, v := range ls {
			set[k], _ = v.(string)
		}
		if sel.Matches(set) {
			items = append(items, o)
		}
	}
	gv := strings.TrimPrefix(strings.TrimPrefix(collection, "/apis/"), "/api/")
	if i := strings.Index(gv, "/namespaces/"); i >= 0 {
		gv = gv[:i]
	}
	gv = strings.TrimSuffix(gv, "/"+resource)
	reply(w, 200, map[string]any{"kind": kindOf[resource] + "List", "apiVersion": gv, "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
}

func (f *fakeAPI) create(w http.ResponseWriter, r *http.Request, collection, resource string) {
	var o map[string]any
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		status(w, 400, "BadRequest", err.Error(), nil)
		return
	}
	dry := r.URL.Query().Get("dryRun") != ""
	if f.mode == "webhook" && resource == "jobsets" {
		status(w, 500, "InternalError", `Internal error occurred: failed calling webhook "mjobset.kb.io": failed to call webhook: context deadline exceeded`, nil)
		return
	}
	if f.failFor == resource && !dry {
		status(w, 500, "InternalError", "Internal error occurred: etcd is away", nil)
		return
	}
	meta := o["metadata"].(map[string]any)
	if str(meta, "name") == "" {
		meta["name"] = str(meta, "generateName") + "x7k2p"
	}
	path := collection + "/" + str(meta, "name")
	if _, ok := f.objects[path]; ok {
		status(w, 409, "AlreadyExists", fmt.Sprintf("%s %q already exists", resource, str(meta, "name")), nil)
		return
	}
	meta["uid"], meta["creationTimestamp"] = "uid-"+str(meta, "name"), "2026-03-01T00:00:00Z"
	if dry {
		reply(w, 201, o)
		return
	}
	if f.finish != "" {
		kind := f.finish
		if resource == "jobsets" && kind == "Complete" {
			kind = "Completed"
		}
		o["status"] = map[string]any{"conditions": []any{map[string]any{"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}}}
	}
	f.put(path, o)
	f.mutations = append(f.mutations, "POST "+path)
	reply(w, 201, o)
}

func (f *fakeAPI) log(w http.ResponseWriter, r *http.Request, pod string) {
	o, ok := f.objects[pod]
	if !ok {
		_, res, name := split(pod)
		notFound(w, res, name)
		return
	}
	name := str(o, "metadata", "name")
	if str(o, "status", "phase") != "Running" {
		status(w, 400, "BadRequest", fmt.Sprintf("container \"main\" in pod %q is waiting to start: ContainerCreating", name), nil)
		return
	}
	fmt.Fprintf(w, "%s: step 1\n%s: step 2 (tail=%s)\n", name, name, r.URL.Query().Get("tailLines"))
}

func notFound(w http.ResponseWriter, resource, name string) {
	status(w, 404, "NotFound", fmt.Sprintf("%s %q not found", resource, name), nil)
}

func status(w http.ResponseWriter, code int, reason, msg string, details map[string]any) {
	reply(w, code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": msg, "details": details})
}

func reply(w http.ResponseWriter, code int, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o)
}
