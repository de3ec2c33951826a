package e2e

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sandbox"
	"lj.aliyun.com/kit/pkg/sandbox/controlplane"
	"lj.aliyun.com/kit/pkg/sandbox/fleet"
)

// unproven are the rights that this test does not see used, and what for they
// are there all the same.
var unproven = map[string]string{
	"get pods":             "the answer to a Binding was lost",
	"create pods/eviction": "a group that is bound in part and cannot be completed",
	"patch podgroups.scheduling.k8s.io/status": "API servers that serve groups, off by default in 1.37",
	"patch events.events.k8s.io":               "an event that repeats",
}

// The scheduler does all that it does with exactly the rights of deploy/: the
// API server's audit log shows no refusal, and each right in use.
func TestTheSchedulerUsesItsRightsAndNeedsNoMore(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	text := fmt.Sprintf("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata, users: [%q]}, {level: None}]\n", controlplane.SchedulerUser)
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := fleet.Parse([]byte("nodes: [{name: n, count: 2, cards: {model: H800}}]"))
	if err != nil {
		t.Fatal(err)
	}
	s := startScheduledWith(t, sandbox.Options{Fleet: f, APIServerFlags: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log}})
	s.preempt(t)
	s.volumes(t, log)
	if body := s.metrics(t); !strings.Contains(body, `lj_cards{model="NVIDIA H800",state="held"} 16`) {
		t.Errorf("/metrics does not say that all cards are held:\n%s", grep(body, "lj_"))
	}

	used := map[string]int{}
	eventually(t, "every right in use", func() (bool, string) {
		var refused []string
		used, refused = audited(t, log)
		if len(refused) > 0 {
			t.Fatalf("refused by the API server:\n%s", strings.Join(refused, "\n"))
		}
		var idle []string
		for _, right := range granted(t, s) {
			// Where the API server streams lists, as this one does, informers
			// watch only; older ones make them list first.
			watched, lists := strings.CutPrefix(right, "list ")
			if used[right] == 0 && unproven[right] == "" && !(lists && used["watch "+watched] > 0) {
				idle = append(idle, right)
			}
		}
		return len(idle) == 0, fmt.Sprintf("rights without a use: %q", idle)
	})
	for _, right := range slices.Sorted(maps.Keys(used)) {
		if n := used[right]; unproven[right] != "" {
			t.Logf("%s was used %d times: it need not be in the list of the unproven", right, n)
		}
	}
	if log := s.log(t); strings.Contains(log, "orbidden") {
		t.Errorf("the scheduler's log speaks of something forbidden:\n%s", grep(log, "orbidden"))
	}
}

// preempt fills both nodes, lets a more important pod take one of them and
// another wait in vain.
func (s *scheduled) preempt(t *testing.T) {
	t.Helper()
	if _, err := s.client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		s.create(t, fmt.Sprint("low-", i), "8", nil)
	}
	for i := range 2 {
		name := fmt.Sprint("low-", i)
		eventually(t, name+" bound", func() (bool, string) { return s.bound(t, name) })
	}
	s.create(t, "high", "8", func(p *v1.PodSpec) { p.PriorityClassName = "high" })
	eventually(t, "the important pod bound", func() (bool, string) { return s.bound(t, "high") })
	s.create(t, "late", "8", nil)
	eventually(t, "the refusal of the last pod", func() (bool, string) {
		p, err := s.client.CoreV1().Pods("default").Get(t.Context(), "late", metav1.GetOptions{})
		if err != nil || len(p.Status.Conditions) == 0 {
			return false, fmt.Sprint(err)
		}
		return strings.Contains(p.Status.Conditions[0].Message, "gpus-busy"), fmt.Sprintf("%+v", p.Status.Conditions)
	})
}

func (s *scheduled) create(t *testing.T, name, cards string, change func(*v1.PodSpec)) {
	t.Helper()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: cardPod()}
	p.Spec.Containers[0].Resources.Limits = amount("nvidia.com/gpu", cards)
	if cards == "0" {
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{}
	}
	if change != nil {
		change(&p.Spec)
	}
	if _, err := s.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *scheduled) bound(t *testing.T, name string) (bool, string) {
	t.Helper()
	p, err := s.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return false, err.Error()
	}
	return p.Spec.NodeName != "", fmt.Sprintf("%+v", p.Status.Conditions)
}

// volumes lets two pods wait for volumes that the scheduler has to bind: one
// that is there, and one that a driver would make. No controller completes
// them here, so the pods stay, and the writes are all that is looked for.
func (s *scheduled) volumes(t *testing.T, log string) {
	t.Helper()
	late := storagev1.VolumeBindingWaitForFirstConsumer
	gi := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	for name, provisioner := range map[string]string{"there": "kubernetes.io/no-provisioner", "made": "example.com/driver"} {
		if _, err := s.client.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name},
			Provisioner: provisioner, VolumeBindingMode: &late}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &name, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				Resources: v1.VolumeResourceRequirements{Requests: gi}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	node := v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
		{Key: kube.EnableLabel, Operator: v1.NodeSelectorOpIn, Values: []string{"true"}}}}}}
	pv, err := s.client.CoreV1().PersistentVolumes().Create(t.Context(), &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: v1.PersistentVolumeSpec{StorageClassName: "there", Capacity: gi, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/none"}},
			NodeAffinity:           &v1.VolumeNodeAffinity{Required: &node}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pv.Status.Phase = v1.VolumeAvailable
	if _, err := s.client.CoreV1().PersistentVolumes().UpdateStatus(t.Context(), pv, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, claim := range []string{"there", "made"} {
		s.create(t, "with-"+claim, "0", func(p *v1.PodSpec) {
			p.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
			p.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		})
	}
	eventually(t, "both volumes bound", func() (bool, string) {
		used, _ := audited(t, log)
		return used["update persistentvolumes"] > 0 && used["update persistentvolumeclaims"] > 0, fmt.Sprint(used)
	})
}

var servingAt = regexp.MustCompile(`Serving securely on (127\.0\.0\.1:\d+)`)

// metrics reads the scheduler's metrics as an account that may.
func (s *scheduled) metrics(t *testing.T) string {
	t.Helper()
	log := s.log(t)
	at := servingAt.FindStringSubmatch(log)
	if at == nil {
		t.Fatalf("the scheduler's log does not say where it serves:\n%s", log)
	}
	if _, err := s.client.CoreV1().ServiceAccounts("default").Create(t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "lj-metrics-reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "reader"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := s.client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	body := ""
	// A certificate that the scheduler made at its start.
	c := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	eventually(t, "the metrics", func() (bool, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at[1]+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token.Status.Token)
		resp, err := c.Do(r)
		if err != nil {
			return false, err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		body = string(b)
		return err == nil && resp.StatusCode == http.StatusOK, resp.Status + " " + body
	})
	return body
}

// audited reads what the scheduler did, as "verb resource", and what the API
// server did not let it do.
func audited(t *testing.T, log string) (used map[string]int, refused []string) {
	t.Helper()
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	used = map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditv1.Event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.ObjectRef == nil {
			continue // the last line, half written; or a path such as /version
		}
		what := right(e.Verb, e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.ObjectRef.Subresource)
		if e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusForbidden {
			refused = append(refused, what+": "+e.ResponseStatus.Message)
		}
		used[what]++
	}
	return used, refused
}

func right(verb, group, res, sub string) string {
	if group != "" {
		res += "." + group
	}
	if sub != "" {
		res += "/" + sub
	}
	return verb + " " + res
}

// granted lists the rights of the scheduler's roles.
func granted(t *testing.T, s *scheduled) []string {
	t.Helper()
	cluster, err := s.client.RbacV1().ClusterRoles().Get(t.Context(), "lj-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := s.client.RbacV1().Roles(kube.Namespace).Get(t.Context(), "lj-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range append(cluster.Rules, own.Rules...) {
		for _, verb := range r.Verbs {
			for _, res := range r.Resources {
				res, sub, _ := strings.Cut(res, "/")
				out = append(out, right(verb, r.APIGroups[0], res, sub))
			}
		}
	}
	return out
}

func grep(text, word string) string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, word) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
