package jobsethook

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// Paths that the handler serves.
const (
	MutateJobSetPath   = "/mutate-jobset"
	ValidateJobSetPath = "/validate-jobset"
	MutatePodPath      = "/mutate-pod"
)

// maxReview bounds a request; the API server's own limit on objects is 3 MiB,
// and an update carries two.
const maxReview = 16 << 20

// Handler answers AdmissionReviews.
func Handler(leaders Leaders) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+MutateJobSetPath, serve(func(_ *http.Request, req *admissionv1.AdmissionRequest) (patch, error) {
		var js jobset.JobSet
		if err := json.Unmarshal(req.Object.Raw, &js); err != nil {
			return nil, err
		}
		Default(&js)
		return patch{"/spec": js.Spec}, nil
	}))
	mux.HandleFunc("POST "+ValidateJobSetPath, serve(func(_ *http.Request, req *admissionv1.AdmissionRequest) (patch, error) {
		var js, old jobset.JobSet
		if err := json.Unmarshal(req.Object.Raw, &js); err != nil {
			return nil, err
		}
		if req.Operation != admissionv1.Update {
			return nil, Validate(&js).ToAggregate()
		}
		if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil {
			return nil, err
		}
		return nil, ValidateUpdate(&old, &js).ToAggregate()
	}))
	mux.HandleFunc("POST "+MutatePodPath, serve(func(r *http.Request, req *admissionv1.AdmissionRequest) (patch, error) {
		var pod v1.Pod
		if err := json.Unmarshal(req.Object.Raw, &pod); err != nil {
			return nil, err
		}
		pod.Namespace = req.Namespace
		if err := DefaultPod(r.Context(), &pod, leaders); err != nil {
			return nil, err
		}
		return patch{"/metadata/labels": pod.Labels, "/spec": pod.Spec}, nil
	}))
	return mux
}

// patch is what to put where in the object; none leaves it alone.
type patch map[string]any

func (p patch) json() ([]byte, error) {
	var ops []map[string]any
	for _, path := range slices.Sorted(maps.Keys(p)) {
		ops = append(ops, map[string]any{"op": "add", "path": path, "value": p[path]})
	}
	return json.Marshal(ops)
}

// serve wraps a decision: a patch, or an error that refuses the object.
func serve(decide func(*http.Request, *admissionv1.AdmissionRequest) (patch, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReview)).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
			return
		}
		res := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		p, err := decide(r, review.Request)
		if err == nil && len(p) > 0 {
			res.Patch, err = p.json()
			kind := admissionv1.PatchTypeJSONPatch
			res.PatchType = &kind
		}
		if err != nil {
			res = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{
				Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity}}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: res}); err != nil {
			http.Error(w, fmt.Sprintf("encode: %v", err), http.StatusInternalServerError)
		}
	}
}
