package delete

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/ljctl/jobs"
	"lj.aliyun.com/kit/pkg/render"
)

// find resolves every name before anything is deleted.
func (o *options) find(ctx context.Context, ns string) ([]target, error) {
	s, cfg, err := jobs.Read(ctx, o.f, ns)
	if err != nil {
		return nil, err
	}
	rows := jobs.Reduce(s, cfg)
	var out []target
	for _, n := range o.names {
		t, err := o.one(ctx, n, ns, rows)
		if err != nil {
			return nil, err
		}
		out = append(out, *t)
	}
	return out, nil
}

func (o *options) one(ctx context.Context, name, ns string, rows []jobs.Row) (*target, error) {
	var found []*jobs.Row
	for i := range rows {
		if rows[i].Matches(name) {
			found = append(found, &rows[i])
		}
	}
	if len(found) > 1 {
		var refs []string
		for _, r := range found {
			refs = append(refs, r.Ref())
		}
		return nil, cliutil.WithHint(cliutil.Usagef("%q names several jobs: %s", name, strings.Join(refs, ", ")), "name one as TYPE/NAME")
	}
	typ, bare, typed := strings.Cut(name, "/")
	if len(found) == 1 {
		r := found[0]
		k, ok := jobs.KindOf(r.APIVersion, r.Kind)
		if !ok {
			return nil, cliutil.WithHint(fmt.Errorf("%s is of a kind that ljctl does not delete", r.Ref()), "kubectl delete -n %s %s", ns, r.Ref())
		}
		return o.there(ctx, &target{kind: k, name: r.Name, ns: ns, job: r})
	}
	if typed {
		// A job that asks for no cards is no row, but its type is plain.
		if k, ok := jobs.KindByWord(typ); ok {
			return o.there(ctx, &target{kind: k, name: bare, ns: ns})
		}
		return nil, cliutil.WithHint(cliutil.Usagef("%q is no type of job", typ), "one of %s", strings.Join(jobs.KindNames(), ", "))
	}
	return nil, jobs.NotFound(name, ns, rows)
}

// there reads the object for its uid.
func (o *options) there(ctx context.Context, t *target) (*target, error) {
	dyn, err := o.f.Dynamic()
	if err != nil {
		return nil, err
	}
	got, err := dyn.Resource(t.kind.GVR()).Namespace(t.ns).Get(ctx, t.name, metav1.GetOptions{})
	switch {
	case err == nil:
		t.uid = string(got.GetUID())
	case apierrors.IsNotFound(err):
		return nil, cliutil.WithHint(fmt.Errorf("no %s in namespace %s", t.ref(), t.ns), "ljctl jobs lists them, ljctl jobs -A those of all namespaces")
	case !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%s: %w", t.ref(), err)
	}
	return t, nil
}

// confirm asks on a terminal and refuses elsewhere.
func (o *options) confirm(ctx context.Context, list []target, ns string) error {
	w := o.f.Streams.ErrOut
	fmt.Fprintf(w, "In namespace %s:\n", render.Cell(ns))
	for i := range list {
		line := "  " + list[i].ref()
		if r := list[i].job; r != nil {
			line += fmt.Sprintf(", %s, %d pods running, %d cards", r.Status, r.PodsRunning, r.CardsGranted)
		}
		fmt.Fprintln(w, cliutil.Escape(line))
	}
	if !cliutil.IsTerminal(o.f.Streams.In) {
		return cliutil.WithHint(cliutil.Usagef("nothing was deleted: not asked, since the input is no terminal"), "--yes deletes without asking")
	}
	fmt.Fprint(w, "Delete? [y/N] ")
	answer, err := readLine(ctx, o.f.Streams.In)
	if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &cliutil.ExitError{Code: 1, Err: errors.New("nothing was deleted")}
}

// readLine reads one line, or gives up when ctx ends; the reader is left
// behind then, since a terminal cannot be interrupted.
func readLine(ctx context.Context, r io.Reader) (string, error) {
	type result struct {
		line string
		err  error
	}
	ch := make(chan result, 1)
	go func() {
		line, err := bufio.NewReader(r).ReadString('\n')
		if err == io.EOF {
			err = nil
		}
		ch <- result{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case got := <-ch:
		return got.line, got.err
	}
}
