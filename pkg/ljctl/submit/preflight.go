package submit

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/ljctl/jobs"
)

// verdictError is an answer with a verdict, as an error: nothing was created.
// text and hint replace the code's own words where the cluster is meant and
// not the manifest.
func verdictError(v reason.Verdict, r reason.Reason, text, hint string) error {
	if text == "" {
		text = r.Sentence()
	}
	if hint == "" {
		hint = r.Fix()
	}
	err := &cliutil.ExitError{Code: v.ExitCode(), Err: fmt.Errorf("%s %s: %s; nothing was created", v, r.Code, text)}
	if hint == "" {
		return err
	}
	return cliutil.WithHint(err, "%s", hint)
}

// preflight asks the cluster for what the objects need, before anything is
// created: a missing piece would hit the pods later, unseen.
func (o *options) preflight(ctx context.Context, typed kubernetes.Interface, dyn dynamic.Interface, p *plan) error {
	classes := map[string]bool{}
	for i := range p.items {
		u := p.items[i].object
		if u.GroupVersionKind().Group == kube.JobSetKind.Group && u.GetKind() == kube.JobSetKind.Kind {
			if err := jobSetServed(typed, u.GetAPIVersion()); err != nil {
				return err
			}
		}
		for _, c := range runtimeClasses(u.Object) {
			if classes[c] {
				continue
			}
			classes[c] = true
			if err := o.runtimeClassThere(ctx, typed, c); err != nil {
				return err
			}
		}
		if u.GetName() == "" {
			continue
		}
		if err := o.nameFree(ctx, typed, dyn, u); err != nil {
			return err
		}
	}
	return nil
}

func jobSetServed(typed kubernetes.Interface, gv string) error {
	_, err := typed.Discovery().ServerResourcesForGroupVersion(gv)
	if apierrors.IsNotFound(err) {
		return verdictError(reason.Env, reason.Reason{Code: "jobset-not-installed"}, "", "")
	}
	if err != nil {
		return fmt.Errorf("discovery of %s: %w", gv, err)
	}
	return nil
}

// runtimeClasses finds the classes that the pod templates of an object name.
func runtimeClasses(m map[string]any) []string {
	var out []string
	for k, v := range m {
		switch t := v.(type) {
		case string:
			if k == "runtimeClassName" && t != "" {
				out = append(out, t)
			}
		case map[string]any:
			out = append(out, runtimeClasses(t)...)
		case []any:
			for _, e := range t {
				if em, ok := e.(map[string]any); ok {
					out = append(out, runtimeClasses(em)...)
				}
			}
		}
	}
	return out
}

func (o *options) runtimeClassThere(ctx context.Context, typed kubernetes.Interface, name string) error {
	_, err := typed.NodeV1().RuntimeClasses().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		fmt.Fprintf(o.f.Streams.ErrOut, "not checked: the runtime class %s (not allowed to get runtimeclasses.node.k8s.io)\n", cliutil.Escape(name))
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("runtime class %s: %w", name, err)
	}
	// People take the handler's name for the class's.
	hint := "administrator: create the RuntimeClass " + name + " with the handler " + kube.RuntimeClass
	if l, lerr := typed.NodeV1().RuntimeClasses().List(ctx, metav1.ListOptions{}); lerr == nil {
		for i := range l.Items {
			if rc := &l.Items[i]; rc.Handler == name {
				hint = fmt.Sprintf("a class %q has the handler %s: are name and handler swapped? The name counts", rc.Name, name)
			}
		}
	}
	return verdictError(reason.Env, reason.Reason{Code: "runtime-class-missing", Device: name},
		"the cluster has no RuntimeClass "+name, hint)
}

// nameFree refuses a name that is taken. A name whose owner is on its way out
// is WAIT: creating there would fail, and applying would patch the dying
// object and report success. With --wait it is waited for.
func (o *options) nameFree(ctx context.Context, typed kubernetes.Interface, dyn dynamic.Interface, u *unstructured.Unstructured) error {
	target, err := o.target(dyn, u)
	if err != nil {
		return err
	}
	var until time.Time
	if o.timeout > 0 {
		until = o.f.Clock.Now().Add(o.timeout)
	}
	said := false
	for {
		old, err := target.Get(ctx, u.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err):
			return nil // the creation itself will tell
		case apierrors.IsNotFound(err):
			old = nil // but its pods may still be there
		case err != nil:
			return fmt.Errorf("%s: %w", ref(u), err)
		case old.GetDeletionTimestamp() == nil:
			return taken(u)
		}
		still := terminatingError(u, old, leftovers(ctx, typed, u), o.f.Clock.Now())
		if still == nil {
			return nil
		}
		if o.wait == "" {
			return still
		}
		if !said {
			fmt.Fprintf(o.f.Streams.ErrOut, "waiting for the old %s to be gone\n", ref(u))
			said = true
		}
		if !until.IsZero() && o.f.Clock.Now().After(until) {
			return &cliutil.ExitError{Code: reason.ExitTimeout, Err: still}
		}
		if err := o.sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

func taken(u *unstructured.Unstructured) error {
	return cliutil.WithHint(fmt.Errorf("%s exists already in namespace %s; nothing was created", ref(u), u.GetNamespace()),
		"take another name or --generate-name, or delete it first: ljctl delete %s -n %s", ref(u), u.GetNamespace())
}

// leftovers are the pods of an earlier job of this name: a JobSet's or Job's
// pods outlive it, and the new one cannot make its own before they are gone.
func leftovers(ctx context.Context, typed kubernetes.Interface, u *unstructured.Unstructured) []v1.Pod {
	k, ok := jobs.KindOf(u.GetAPIVersion(), u.GetKind())
	if !ok || k.PodSelector(u.GetName()) == "" {
		return nil
	}
	l, err := typed.CoreV1().Pods(u.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: k.PodSelector(u.GetName())})
	if err != nil {
		return nil // not allowed to look: then nothing is known about them
	}
	var out []v1.Pod
	for _, p := range l.Items {
		if metav1.GetControllerOf(&p) != nil { // else somebody orphaned it on purpose
			out = append(out, p)
		}
	}
	return out
}

// terminatingError says how much of the old job is still there, nil if none.
func terminatingError(u, old *unstructured.Unstructured, pods []v1.Pod, now time.Time) error {
	if old == nil && len(pods) == 0 {
		return nil
	}
	var since time.Time
	note := func(t *metav1.Time) {
		if t != nil && (since.IsZero() || t.Time.Before(since)) {
			since = t.Time
		}
	}
	if old != nil {
		note(old.GetDeletionTimestamp())
	}
	for i := range pods {
		note(pods[i].DeletionTimestamp)
	}
	detail := fmt.Sprintf("%d pods left", len(pods))
	if !since.IsZero() {
		detail += ", for " + duration.HumanDuration(max(0, now.Sub(since)))
	}
	return verdictError(reason.Wait, reason.Reason{Code: "name-still-terminating", Device: ref(u), Detail: []string{detail}},
		"", "")
}
