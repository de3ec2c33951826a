package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// CollectOptions say what Collect reads. The zero value reads everything.
type CollectOptions struct {
	// Only limits the lists to these resources, spelt as in Resources.
	Only []string
	// Namespace limits namespaced lists to one namespace.
	Namespace string
	// Fallback is read instead where the whole cluster is forbidden; the list
	// is then in Missing as partial.
	Fallback string
	// Fresh asks for lists that are not older than the question; else the API
	// server may answer from its cache, a moment old and much cheaper.
	Fresh bool
	// Now is the time to write down; zero is for tests only.
	Now time.Time
}

const (
	pageSize = 500
	parallel = 6 // lists asked at the same time
)

// Collect lists a cluster. Lists that are forbidden go to Missing with the
// permission that it would take; it is an error only if ctx ends, nobody is
// logged in, or nodes and pods cannot be read for another reason.
func Collect(ctx context.Context, c Clients, o CollectOptions) (*Snapshot, error) {
	s := &Snapshot{Taken: o.Now, clean: true}
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		gate  = make(chan struct{}, parallel)
		fatal error
	)
	wg.Go(func() { s.ServerVersion = serverVersion(ctx, c) })
	for i := range listings {
		l := &listings[i]
		if o.Only != nil && !slices.Contains(o.Only, l.resource) {
			s.Missing = append(s.Missing, Missing{Resource: l.resource, Why: "not asked for"})
			continue
		}
		wg.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			got, miss, absent, err := l.collect(ctx, c, o)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && fatal == nil {
				fatal = err
			}
			for _, obj := range got {
				l.add(s, obj)
			}
			if miss != nil {
				s.Missing = append(s.Missing, *miss)
			}
			if absent {
				s.Absent = append(s.Absent, l.resource)
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if fatal != nil {
		return nil, fatal
	}
	for i := range listings {
		listings[i].tidy(s)
	}
	s.sortMissing()
	return s, nil
}

// collect reads one list. It returns objects, or why there are none.
func (l *listing) collect(ctx context.Context, c Clients, o CollectOptions) (got []object, miss *Missing, absent bool, err error) {
	ns := ""
	switch l.scope {
	case namespaced:
		ns = o.Namespace
	case ours:
		ns = Namespace
	}
	got, err = l.pages(ctx, c, ns, o)
	if apierrors.IsForbidden(err) && l.scope == namespaced && ns == "" && o.Fallback != "" {
		if part, perr := l.pages(ctx, c, o.Fallback, o); perr == nil {
			return part, &Missing{Resource: l.resource, Why: l.permission("") + "; only namespace " + o.Fallback + " was read", Partial: o.Fallback}, false, nil
		}
	}
	switch {
	case err == nil:
		return got, nil, false, nil
	case apierrors.IsForbidden(err):
		return nil, &Missing{Resource: l.resource, Why: l.permission(ns)}, false, nil
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil, true, nil
	case apierrors.IsUnauthorized(err) || l.resource == "nodes" || l.resource == "pods" || errors.Is(err, context.Canceled):
		return nil, nil, false, fmt.Errorf("list %s: %w", l.resource, err)
	}
	return nil, &Missing{Resource: l.resource, Why: "the API server did not give it: " + firstLine(err)}, false, nil
}

// permission says what the reader would have to be allowed.
func (l *listing) permission(ns string) string {
	where := "at cluster scope"
	if ns != "" {
		where = "in namespace " + ns
	}
	return "forbidden: needs the verb list on " + l.resource + " " + where
}

func (l *listing) pages(ctx context.Context, c Clients, ns string, o CollectOptions) ([]object, error) {
	p := pager.New(pager.SimplePageFunc(func(lo metav1.ListOptions) (runtime.Object, error) {
		return l.fetch(ctx, c, ns, lo)
	}))
	p.PageSize = pageSize
	var lo metav1.ListOptions
	if !o.Fresh {
		lo.ResourceVersion = "0"
	}
	var out []object
	err := p.EachListItem(ctx, lo, func(ro runtime.Object) error {
		obj, ok := ro.(object)
		if !ok {
			return fmt.Errorf("%T in the list of %s", ro, l.resource)
		}
		ro.GetObjectKind().SetGroupVersionKind(l.gvk)
		strip(obj)
		out = append(out, obj)
		return nil
	})
	return out, err
}

// serverVersion is empty where the server does not say.
func serverVersion(ctx context.Context, c Clients) string {
	rc := c.Typed.Discovery().RESTClient()
	if rc == nil {
		return "" // a fake
	}
	raw, err := rc.Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return ""
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if json.Unmarshal(raw, &v) != nil {
		return ""
	}
	return v.GitVersion
}
