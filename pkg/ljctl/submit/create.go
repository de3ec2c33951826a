package submit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// create makes all objects. Several are tried by the server's dry run first,
// so that the common mistakes show before the first one exists.
func (o *options) create(ctx context.Context, p *plan) error {
	clients, err := o.f.Clients()
	if err != nil {
		return err
	}
	if o.wait != "" {
		if err := waitable(p); err != nil {
			return err
		}
	}
	if err := o.preflight(ctx, clients.Typed, clients.Dynamic, p); err != nil {
		return err
	}
	if len(p.items) > 1 || o.dryRun == dryServer {
		tried, err := o.dryRunAll(ctx, clients.Dynamic, p)
		if err != nil {
			return err
		}
		if o.dryRun == dryServer {
			return o.printObjects(tried, "server dry run")
		}
	}
	var made []*unstructured.Unstructured
	for i := range p.items {
		u, err := o.createOne(ctx, clients.Dynamic, p.items[i].object, nil)
		if err != nil {
			return o.half(p, made, i, err)
		}
		made = append(made, u)
	}
	if err := o.printObjects(made, ""); err != nil {
		return err
	}
	o.nextSteps(made)
	if o.wait == "" {
		return nil
	}
	return o.waitFor(ctx, clients, made)
}

func (o *options) createOne(ctx context.Context, dyn dynamic.Interface, u *unstructured.Unstructured, dryRun []string) (*unstructured.Unstructured, error) {
	target, err := o.target(dyn, u)
	if err != nil {
		return nil, err
	}
	return target.Create(ctx, u, metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun})
}

func (o *options) dryRunAll(ctx context.Context, dyn dynamic.Interface, p *plan) ([]*unstructured.Unstructured, error) {
	own := map[string]bool{}
	for i := range p.items {
		if u := p.items[i].object; u.GetKind() == "Namespace" {
			own[u.GetName()] = true
		}
	}
	var out []*unstructured.Unstructured
	for i := range p.items {
		u := p.items[i].object
		got, err := o.createOne(ctx, dyn, u, []string{metav1.DryRunAll})
		if apierrors.IsNotFound(err) && own[u.GetNamespace()] {
			got, err = u, nil // its namespace comes with it and is not there yet
		}
		if err != nil {
			return nil, refusal(p.items[i].source, u, err)
		}
		out = append(out, got)
	}
	return out, nil
}

// half reports a failure in the middle: what exists, and the way out.
func (o *options) half(p *plan, made []*unstructured.Unstructured, at int, err error) error {
	failed := refusal(p.items[at].source, p.items[at].object, err)
	if len(made) == 0 {
		return failed
	}
	var names []string
	for _, u := range made {
		names = append(names, ref(u))
	}
	if perr := o.printObjects(made, ""); perr != nil {
		return errors.Join(failed, perr)
	}
	var ee *cliutil.ExitError
	code := reason.ExitError
	if errors.As(failed, &ee) {
		code = ee.Code
	}
	msg := strings.TrimSuffix(failed.Error(), "; nothing was created")
	return cliutil.WithHint(&cliutil.ExitError{Code: code, Err: fmt.Errorf("%s; %d of %d objects were created: %s", msg, len(made), len(p.items), strings.Join(names, " "))},
		"take them back with: kubectl delete -n %s %s", made[0].GetNamespace(), strings.Join(names, " "))
}

// refusal puts the server's answer to a creation in our words.
func refusal(source string, u *unstructured.Unstructured, err error) error {
	what := fmt.Sprintf("create %s", ref(u))
	if source != "flags" {
		what = fmt.Sprintf("%s: %s", source, what)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Errorf("%s: %w", what, err)
	}
	msg := status.Status().Message
	switch {
	case strings.Contains(msg, "failed calling webhook"):
		if u.GetKind() == kube.JobSetKind.Kind || strings.Contains(msg, "jobset") {
			return verdictError(reason.Env, reason.Reason{Code: "jobset-webhook-down", Detail: []string{msg}},
				"", "")
		}
		return cliutil.WithHint(fmt.Errorf("ENV: an admission hook does not answer: %s; nothing was created", msg),
			"the hook's name is in the message; ask its owner")
	case apierrors.IsAlreadyExists(err):
		return taken(u)
	case apierrors.IsInvalid(err):
		return verdictError(reason.Invalid, reason.Reason{Code: "server-refuses", Detail: []string{causes(status.Status())}}, "", "")
	case apierrors.IsForbidden(err) && strings.Contains(msg, "exceeded quota"):
		return &cliutil.ExitError{Code: reason.ExitNo, Err: cliutil.WithHint(fmt.Errorf("BLOCKED quota-exceeded: %s; nothing was created", msg),
			"end a pod of the namespace, or ask for a larger quota: kubectl describe quota -n %s", u.GetNamespace())}
	case apierrors.IsNotFound(err) && strings.HasPrefix(msg, "namespaces "):
		return cliutil.WithHint(fmt.Errorf("%s: there is no namespace %s; nothing was created", what, u.GetNamespace()),
			"kubectl create namespace %s, or name another with -n", u.GetNamespace())
	case apierrors.IsNotFound(err) && u.GetKind() == kube.JobSetKind.Kind:
		return verdictError(reason.Env, reason.Reason{Code: "jobset-not-installed"}, "", "")
	}
	return fmt.Errorf("%s: %w", what, err)
}

// causes are the fields that the server names, or its message.
func causes(s metav1.Status) string {
	if s.Details == nil || len(s.Details.Causes) == 0 {
		return s.Message
	}
	var out []string
	for _, c := range s.Details.Causes {
		out = append(out, c.Field+": "+c.Message)
	}
	return strings.Join(out, "; ")
}
