package server

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// oldServer speaks as much of the API as the engine's start needs, and answers
// 404 for the API groups given, as an API server without them does.
type oldServer struct {
	*httptest.Server
	absent []string
	mu     sync.Mutex
	hits   map[string]int
	leases map[string]*coordinationv1.Lease
	stolen bool     // nobody can write leases any more
	pods   []string // as JSON
	notes  []string // of events
}

func newOldServer(t *testing.T, absent ...string) *oldServer {
	s := &oldServer{absent: absent, hits: map[string]int{}, leases: map[string]*coordinationv1.Lease{}}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	return s
}

// kinds of the lists that informers ask for.
var listKinds = map[string]string{
	"pods": "PodList", "nodes": "NodeList", "namespaces": "NamespaceList", "configmaps": "ConfigMapList", "services": "ServiceList",
	"persistentvolumes": "PersistentVolumeList", "persistentvolumeclaims": "PersistentVolumeClaimList",
	"replicationcontrollers": "ReplicationControllerList", "replicasets": "ReplicaSetList", "statefulsets": "StatefulSetList",
	"poddisruptionbudgets": "PodDisruptionBudgetList", "storageclasses": "StorageClassList", "csinodes": "CSINodeList",
	"csidrivers": "CSIDriverList", "csistoragecapacities": "CSIStorageCapacityList", "volumeattachments": "VolumeAttachmentList",
	"jobs": "JobList", "resourceclaims": "ResourceClaimList", "resourceslices": "ResourceSliceList", "deviceclasses": "DeviceClassList",
	"devicetaintrules": "DeviceTaintRuleList",
}

func (s *oldServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource := p[len(p)-1]
	s.mu.Lock()
	s.hits[r.Method+" "+resource]++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	for _, a := range s.absent {
		if strings.HasPrefix(r.URL.Path, a) {
			status(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
			return
		}
	}
	switch {
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"major":"1","minor":"28","gitVersion":"v1.28.15"}`)
	case len(p) == 3 && p[0] == "apis":
		s.discovery(w, p[1]+"/"+p[2])
	case r.Method == http.MethodPost && strings.HasSuffix(resource, "reviews"):
		review(w, r)
	case strings.Contains(r.URL.Path, "/leases"):
		s.lease(w, r, resource)
	case r.Method == http.MethodPost && resource == "events":
		s.event(w, r)
	case r.URL.Query().Get("sendInitialEvents") != "":
		status(w, http.StatusUnprocessableEntity, "Invalid", "sendInitialEvents is forbidden for watch")
	case r.URL.Query().Get("watch") != "":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodGet && listKinds[resource] != "":
		group := p[1]
		if p[0] == "apis" {
			group = p[1] + "/" + p[2]
		}
		fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"7"},"items":[%s]}`, listKinds[resource], group, s.items(resource))
	default:
		status(w, http.StatusNotFound, "NotFound", "not found")
	}
}

// discovery lists the optional collections of a group that are there.
func (s *oldServer) discovery(w http.ResponseWriter, gv string) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv}
	for _, c := range wanted {
		name, ok := strings.CutPrefix(c, gv+"/")
		if ok && !slices.ContainsFunc(s.absent, func(a string) bool { return strings.HasPrefix("/apis/"+c, a) }) {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: listKinds[name]})
		}
	}
	_ = json.NewEncoder(w).Encode(list)
}

// review knows one token, whose bearer may do everything.
func review(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		status(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	switch o := obj.(type) {
	case *authenticationv1.TokenReview:
		o.APIVersion, o.Kind = "authentication.k8s.io/v1", "TokenReview"
		o.Status = authenticationv1.TokenReviewStatus{Authenticated: o.Spec.Token == goodToken, User: authenticationv1.UserInfo{Username: "prometheus"}}
	case *authorizationv1.SubjectAccessReview:
		o.APIVersion, o.Kind = "authorization.k8s.io/v1", "SubjectAccessReview"
		o.Status.Allowed = o.Spec.User == "prometheus"
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(obj)
}

const goodToken = "good"

func (s *oldServer) lease(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet {
		if l := s.leases[name]; l != nil {
			_ = json.NewEncoder(w).Encode(l)
			return
		}
		status(w, http.StatusNotFound, "NotFound", "no such lease")
		return
	}
	if s.stolen {
		status(w, http.StatusConflict, "Conflict", "the object has been modified")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		status(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	l, ok := obj.(*coordinationv1.Lease)
	if err != nil || !ok {
		status(w, http.StatusBadRequest, "BadRequest", fmt.Sprint(err))
		return
	}
	l.APIVersion, l.Kind = "coordination.k8s.io/v1", "Lease"
	s.leases[l.Namespace+"/"+l.Name], s.leases[l.Name] = l, l
	_ = json.NewEncoder(w).Encode(l)
}

func (s *oldServer) items(resource string) string {
	if resource != "pods" {
		return ""
	}
	return strings.Join(s.pods, ",")
}

func (s *oldServer) event(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	e, ok := obj.(*eventsv1.Event)
	if err != nil || !ok {
		status(w, http.StatusBadRequest, "BadRequest", fmt.Sprint(err))
		return
	}
	s.mu.Lock()
	s.notes = append(s.notes, e.Regarding.Name+": "+e.Reason+": "+e.Note)
	s.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(e)
}

func status(w http.ResponseWriter, code int, reason, msg string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, msg, code)
}

func (s *oldServer) kubeconfig(t *testing.T) string {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: s.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
	cfg.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "t"}
	cfg.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	cfg.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *oldServer) seen(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[what]
}

// shapes are what the API servers from 1.28 on lack, with their defaults, of
// what the engine lists: resource.k8s.io/v1 came with 1.34, its
// devicetaintrules with 1.37, and so did v1beta1 podgroups; all other
// collections are older than 1.28.
var shapes = func() map[string][]string {
	const resources, taints, groups = "/apis/resource.k8s.io/", "/apis/resource.k8s.io/v1/devicetaintrules", "/apis/scheduling.k8s.io/v1"
	out := map[string][]string{"1.37": {groups}, "1.37 with everything on": nil, "nothing optional": {"/apis/policy/", resources, groups}}
	for minor := 28; minor < 37; minor++ {
		out[fmt.Sprintf("1.%d", minor)] = []string{resources, groups}
		if minor >= 34 {
			out[fmt.Sprintf("1.%d", minor)] = []string{taints, groups}
		}
	}
	return out
}()

// The stock set-up waits for ever on each of these.
func TestStartsAndEndsOnOldAPIServers(t *testing.T) {
	for name, absent := range shapes {
		t.Run(name, func(t *testing.T) {
			api := newOldServer(t, absent...)
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- Run(ctx, Options{Kubeconfig: api.kubeconfig(t), LeaderElect: true}) }()
			wait(t, "leading", func() bool {
				api.mu.Lock()
				defer api.mu.Unlock()
				return api.leases["lj-system/lj-runtimekit-scheduler"] != nil
			}, ended)
			stop()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("the end after a signal is no error, got: %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("does not end")
			}
			if holder := api.holder(); holder != "" {
				t.Errorf("the lease was not given back: held by %q", holder)
			}
			if api.taken("kube-scheduler") {
				t.Error("the lease of the cluster's own scheduler was touched")
			}
			if api.seen("GET resourceclaims") == 0 {
				t.Error("the test proves nothing: the engine never asked for resourceclaims")
			}
		})
	}
}

func (s *oldServer) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leases {
		if l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" {
			return *l.Spec.HolderIdentity
		}
	}
	return ""
}

func (s *oldServer) taken(lease string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[lease] != nil
}

func wait(t *testing.T, what string, ok func() bool, ended <-chan error) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			t.Fatalf("ended before %s: %v", what, err)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestARefusedPodGetsItsEvent(t *testing.T) {
	api := newOldServer(t, "/apis/resource.k8s.io/")
	api.pods = []string{`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"p","uid":"u"},"spec":{"schedulerName":"lj-runtimekit-scheduler",
		"containers":[{"name":"c","image":"i","resources":{"limits":{"aliyun.com/gpu-core":"150"},"requests":{"aliyun.com/gpu-core":"150"}}}]}}`}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, Options{Kubeconfig: api.kubeconfig(t)}) }()
	wait(t, "an event", func() bool {
		api.mu.Lock()
		defer api.mu.Unlock()
		return len(api.notes) > 0
	}, ended)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := strings.Join(api.notes, "\n"); !strings.Contains(got, "p: FailedScheduling:") {
		t.Errorf("got %s", got)
	}
}

func TestCollection(t *testing.T) {
	for path, want := range map[string]string{
		"/apis/resource.k8s.io/v1/resourceclaims":                             "ResourceClaimList resource.k8s.io/v1",
		"/apis/resource.k8s.io/v1/namespaces/a/resourceclaims":                "ResourceClaimList resource.k8s.io/v1",
		"/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/x":              " ",
		"/apis/resource.k8s.io/v1":                                            " ",
		"/api/v1/pods":                                                        " ",
		"/apis/apps/v1/deployments":                                           " ",
		"/apis/scheduling.k8s.io/v1beta1/podgroups":                           "PodGroupList scheduling.k8s.io/v1beta1",
		"/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/status": " ",
	} {
		kind, gv := collection(path)
		if kind == "" {
			gv = ""
		}
		if got := kind + " " + gv; got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestStatusOfOurOwnPodGroupsStaysHere(t *testing.T) {
	asked := 0
	s := newShim(roundTrip(func(r *http.Request) (*http.Response, error) {
		asked++
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r}, nil
	}))
	patch := func(name string) int {
		r, err := http.NewRequest(http.MethodPatch, "http://api/apis/scheduling.k8s.io/v1beta1/namespaces/team/podgroups/"+url.PathEscape(name)+"/status", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	if got := patch("lj:jobset:train:uid"); got != http.StatusOK || asked != 0 {
		t.Errorf("our own group: status %d, %d requests to the server", got, asked)
	}
	if got := patch("train"); got != http.StatusNotFound || asked != 1 {
		t.Errorf("a group of the API: status %d, %d requests to the server", got, asked)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
