package jobsethook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/constants"
)

// set is a good JobSet with jobs "a" and "b", of two replicas of three pods.
func set(change func(*jobset.JobSet)) *jobset.JobSet {
	three := int32(3)
	job := func(name string) jobset.ReplicatedJob {
		return jobset.ReplicatedJob{Name: name, Replicas: 2, GroupName: "default", Template: batchv1.JobTemplateSpec{
			Spec: batchv1.JobSpec{Parallelism: &three, Completions: &three}}}
	}
	js := &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Name: "train"}, Spec: jobset.JobSetSpec{ReplicatedJobs: []jobset.ReplicatedJob{job("a"), job("b")}}}
	Default(js)
	if change != nil {
		change(js)
	}
	return js
}

func TestDefault(t *testing.T) {
	got := &jobset.JobSet{Spec: jobset.JobSetSpec{
		ReplicatedJobs:      []jobset.ReplicatedJob{{Name: "a"}},
		FailurePolicy:       &jobset.FailurePolicy{Rules: []jobset.FailurePolicyRule{{}, {Name: "mine"}}},
		VolumeClaimPolicies: []jobset.VolumeClaimPolicy{{}},
	}}
	Default(got)
	want := &jobset.JobSet{Spec: jobset.JobSetSpec{
		SuccessPolicy: &jobset.SuccessPolicy{Operator: jobset.OperatorAll},
		StartupPolicy: &jobset.StartupPolicy{StartupPolicyOrder: jobset.AnyOrder},
		Network:       &jobset.Network{EnableDNSHostnames: ptr(true), PublishNotReadyAddresses: ptr(true)},
		ReplicatedJobs: []jobset.ReplicatedJob{{Name: "a", Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			CompletionMode: ptr(batchv1.IndexedCompletion),
			Template:       v1.PodTemplateSpec{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure}}}}}},
		FailurePolicy:       &jobset.FailurePolicy{Rules: []jobset.FailurePolicyRule{{Name: "failurePolicyRule0"}, {Name: "mine"}}},
		VolumeClaimPolicies: []jobset.VolumeClaimPolicy{{RetentionPolicy: &jobset.VolumeRetentionPolicy{WhenDeleted: ptr(jobset.RetentionPolicyDelete)}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again := got.DeepCopy()
	Default(again)
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("defaulting twice changes something:\n%s", diff)
	}
}

func TestDefaultKeepsWhatIsSet(t *testing.T) {
	js := set(nil)
	js.Spec.Network.EnableDNSHostnames = ptr(false)
	js.Spec.ReplicatedJobs[0].Template.Spec.CompletionMode = ptr(batchv1.NonIndexedCompletion)
	js.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.RestartPolicy = v1.RestartPolicyNever
	want := js.DeepCopy()
	Default(js)
	if diff := cmp.Diff(want, js); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*jobset.JobSet)
		want   string // field of the one problem; empty: none
	}{
		"good":                           {nil, ""},
		"success policy names nobody":    {func(js *jobset.JobSet) { js.Spec.SuccessPolicy.TargetReplicatedJobs = []string{"c"} }, "spec.successPolicy.targetReplicatedJobs[0]"},
		"first job depends on something": {func(js *jobset.JobSet) { js.Spec.ReplicatedJobs[0].DependsOn = []jobset.DependsOn{} }, "spec.replicatedJobs[0].dependsOn"},
		"second depends on the first": {func(js *jobset.JobSet) {
			js.Spec.ReplicatedJobs[1].DependsOn = []jobset.DependsOn{{Name: "a"}}
		}, ""},
		"second depends on itself": {func(js *jobset.JobSet) {
			js.Spec.ReplicatedJobs[1].DependsOn = []jobset.DependsOn{{Name: "b"}}
		}, "spec.replicatedJobs[1].dependsOn[0].name"},
		"subdomain":              {func(js *jobset.JobSet) { js.Spec.Network.Subdomain = "A.b" }, "spec.network.subdomain"},
		"too many pods":          {func(js *jobset.JobSet) { js.Spec.ReplicatedJobs[0].Replicas = 1 << 30 }, "spec.replicatedJobs[0].replicas"},
		"pod names too long":     {func(js *jobset.JobSet) { js.Name = strings.Repeat("x", 55) }, "spec.replicatedJobs[0].name spec.replicatedJobs[1].name"},
		"rule name":              {rules(jobset.FailurePolicyRule{Name: "1st"}), "spec.failurePolicy.rules[0].name"},
		"rule name twice":        {rules(jobset.FailurePolicyRule{Name: "r"}, jobset.FailurePolicyRule{Name: "r"}), "spec.failurePolicy.rules[1].name"},
		"rule for nobody":        {rules(jobset.FailurePolicyRule{Name: "r", TargetReplicatedJobs: []string{"c"}}), "spec.failurePolicy.rules[0].targetReplicatedJobs[0]"},
		"rule on unknown reason": {rules(jobset.FailurePolicyRule{Name: "r", OnJobFailureReasons: []string{"Bored"}}), "spec.failurePolicy.rules[0].onJobFailureReasons[0]"},
		"coordinator":            {coordinator("a", 1, 2), ""},
		"coordinator job":        {coordinator("c", 0, 0), "spec.coordinator.replicatedJob"},
		"coordinator replica":    {coordinator("a", 2, 0), "spec.coordinator.jobIndex"},
		"coordinator pod":        {coordinator("a", 0, 3), "spec.coordinator.podIndex"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range Validate(set(tc.change)) {
				got = append(got, e.Field)
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("problems at %q, want %q", s, tc.want)
			}
		})
	}
}

func rules(r ...jobset.FailurePolicyRule) func(*jobset.JobSet) {
	return func(js *jobset.JobSet) { js.Spec.FailurePolicy = &jobset.FailurePolicy{Rules: r} }
}

func coordinator(job string, jobIndex, podIndex int) func(*jobset.JobSet) {
	return func(js *jobset.JobSet) {
		js.Spec.Coordinator = &jobset.Coordinator{ReplicatedJob: job, JobIndex: jobIndex, PodIndex: podIndex}
	}
}

func TestValidateUpdate(t *testing.T) {
	selector := func(js *jobset.JobSet) {
		js.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"}
	}
	for name, tc := range map[string]struct {
		old, now func(*jobset.JobSet)
		ok       bool
	}{
		"no change":                  {nil, nil, true},
		"job added":                  {nil, func(js *jobset.JobSet) { js.Spec.ReplicatedJobs = js.Spec.ReplicatedJobs[:1] }, false},
		"job removed":                {func(js *jobset.JobSet) { js.Spec.ReplicatedJobs = js.Spec.ReplicatedJobs[:1] }, nil, false},
		"selector while running":     {nil, selector, false},
		"selector while suspended":   {func(js *jobset.JobSet) { js.Spec.Suspend = ptr(true) }, selector, true},
		"suspending with a selector": {nil, func(js *jobset.JobSet) { selector(js); js.Spec.Suspend = ptr(true) }, true},
		"image while suspended": {func(js *jobset.JobSet) { js.Spec.Suspend = ptr(true) }, func(js *jobset.JobSet) {
			js.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers = []v1.Container{{Image: "other"}}
		}, false},
		"manager": {nil, func(js *jobset.JobSet) { js.Spec.ManagedBy = ptr("me") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if errs := ValidateUpdate(set(tc.old), set(tc.now)); (len(errs) == 0) != tc.ok {
				t.Errorf("problems %v, want ok=%v", errs, tc.ok)
			}
		})
	}
}

// placed answers with a fixed topology and remembers the question.
type placed struct {
	value string
	err   error
	asked string
}

func (p *placed) Topology(_ context.Context, namespace, name string, _ *metav1.OwnerReference, key string) (string, error) {
	p.asked = namespace + "/" + name + " " + key
	return p.value, p.err
}

func exclusive(index string) *v1.Pod {
	priority := int32(7)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n",
		Labels:      map[string]string{jobset.JobSetNameKey: "train", jobset.ReplicatedJobNameKey: "a", jobset.JobIndexKey: "1", jobset.JobKey: "k"},
		Annotations: map[string]string{jobset.JobSetNameKey: "train", jobset.ExclusiveKey: "rack", batchv1.JobCompletionIndexAnnotation: index},
	}, Spec: v1.PodSpec{Priority: &priority}}
}

func TestDefaultPod(t *testing.T) {
	leader := exclusive("0")
	if err := DefaultPod(t.Context(), leader, &placed{}); err != nil {
		t.Fatal(err)
	}
	a := leader.Spec.Affinity
	if len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) != 1 || len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) != 1 ||
		a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey != "rack" || leader.Labels[constants.PriorityKey] != "7" {
		t.Errorf("leader: affinity %+v, labels %v", a, leader.Labels)
	}
	follower, p := exclusive("2"), &placed{value: "r1"}
	if err := DefaultPod(t.Context(), follower, p); err != nil {
		t.Fatal(err)
	}
	if p.asked != "n/train-a-1-0 rack" || follower.Spec.NodeSelector["rack"] != "r1" {
		t.Errorf("follower: asked %q, selector %v", p.asked, follower.Spec.NodeSelector)
	}
	if err := DefaultPod(t.Context(), exclusive("2"), &placed{}); err == nil || !strings.Contains(err.Error(), "not placed yet") {
		t.Errorf("a follower without a placed leader: %v", err)
	}
	if err := DefaultPod(t.Context(), exclusive("2"), &placed{err: errors.New("away")}); err == nil {
		t.Error("a question that fails lets the pod in")
	}
}

func post(t *testing.T, path string, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(&placed{value: "r1"}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	return w
}

func review(t *testing.T, path string, op admissionv1.Operation, obj, old any) *admissionv1.AdmissionResponse {
	t.Helper()
	raw := func(v any) runtime.RawExtension {
		if v == nil {
			return runtime.RawExtension{}
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: b}
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "1", Operation: op, Namespace: "n", Object: raw(obj), OldObject: raw(old)}})
	if err != nil {
		t.Fatal(err)
	}
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(post(t, path, body).Body.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	if out.Response == nil || out.Response.UID != "1" {
		t.Fatalf("response %+v", out.Response)
	}
	return out.Response
}

func TestHandler(t *testing.T) {
	if r := review(t, MutateJobSetPath, admissionv1.Create, set(nil), nil); !r.Allowed || !bytes.Contains(r.Patch, []byte(`"/spec"`)) {
		t.Errorf("defaulting: %+v", r)
	}
	bad := set(func(js *jobset.JobSet) { js.Spec.Network.Subdomain = "A" })
	if r := review(t, ValidateJobSetPath, admissionv1.Create, bad, nil); r.Allowed || !strings.Contains(r.Result.Message, "subdomain") {
		t.Errorf("a bad JobSet: %+v", r)
	}
	if r := review(t, ValidateJobSetPath, admissionv1.Update, bad, bad); !r.Allowed {
		t.Errorf("an update without a change: %+v", r)
	}
	if r := review(t, MutatePodPath, admissionv1.Create, exclusive("1"), nil); !r.Allowed || !bytes.Contains(r.Patch, []byte(`"rack":"r1"`)) {
		t.Errorf("a follower: %+v %s", r, r.Patch)
	}
	for _, body := range []string{"", "{", "{}", `{"request":null}`} {
		if w := post(t, MutateJobSetPath, []byte(body)); w.Code != http.StatusBadRequest {
			t.Errorf("body %q: status %d, want 400", body, w.Code)
		}
	}
}
