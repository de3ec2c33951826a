package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"lj.aliyun.com/kit/pkg/cliutil"
)

// retryEvery is how often -f asks again for a pod that has not started.
const retryEvery = 2 * time.Second

// read prints the pods one after the other, or with -f at the same time. One
// pod that cannot be read does not stop the others.
func (o *options) read(ctx context.Context, client kubernetes.Interface, pods []*v1.Pod) error {
	out := &lines{w: o.f.Streams.Out}
	errs := make([]error, len(pods))
	if !o.follow {
		for i, p := range pods {
			errs[i] = o.pod(ctx, client, p, out)
		}
		return o.sum(ctx, pods, errs)
	}
	var wg sync.WaitGroup
	for i, p := range pods {
		wg.Go(func() { errs[i] = o.pod(ctx, client, p, out) })
	}
	wg.Wait()
	return o.sum(ctx, pods, errs)
}

// sum reports what could not be read; it is an error if nothing could.
func (o *options) sum(ctx context.Context, pods []*v1.Pod, errs []error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	bad := 0
	var last error
	for i, err := range errs {
		if err == nil {
			continue
		}
		bad++
		last = err
		if len(pods) > 1 {
			fmt.Fprintf(o.f.Streams.ErrOut, "pod %s: %s\n", pods[i].Name, cliutil.Escape(cliutil.Explain(err).Error()))
		}
	}
	switch {
	case bad == 0:
		return nil
	case len(pods) == 1:
		return last
	case bad == len(pods):
		return fmt.Errorf("none of the %d pods could be read", bad)
	}
	return fmt.Errorf("%d of %d pods could not be read", bad, len(pods))
}

func (o *options) pod(ctx context.Context, client kubernetes.Interface, p *v1.Pod, out *lines) error {
	prefix := ""
	if o.all {
		prefix = "[" + p.Name + "] "
	}
	said := false
	for {
		stream, err := client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, o.logOptions()).Stream(ctx)
		if err == nil {
			return errors.Join(out.copy(stream, prefix), stream.Close())
		}
		if strings.Contains(err.Error(), "/containerLogs/") {
			return cliutil.WithHint(fmt.Errorf("logs of pod %s: the kubelet of node %s does not answer the API server: %w", p.Name, p.Spec.NodeName, err),
				"is the node up? Nodes that are only simulated have no logs")
		}
		if !notYet(err) {
			return fmt.Errorf("logs of pod %s: %w", p.Name, err)
		}
		if !o.follow {
			return cliutil.WithHint(fmt.Errorf("pod %s has not started", p.Name), "ljctl why-pending %s tells why; -f waits for it", p.Name)
		}
		if !said {
			fmt.Fprintf(o.f.Streams.ErrOut, "waiting for pod %s to start\n", p.Name)
			said = true
		}
		t := o.f.Clock.NewTimer(retryEvery)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C():
		}
	}
}

// notYet knows the API server's answers for pods without a node and
// containers that have not started.
func notYet(err error) bool {
	if !apierrors.IsBadRequest(err) {
		return false
	}
	for _, sign := range []string{"waiting to start", "does not have a host assigned", "ContainerCreating", "PodInitializing"} {
		if strings.Contains(err.Error(), sign) {
			return true
		}
	}
	return false
}

// lines keeps the lines of several pods whole.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

// copy prints a stream. Without a prefix the bytes pass as they are: a
// program's own colours are its user's business, and may be wanted.
func (l *lines) copy(r io.Reader, prefix string) error {
	if prefix == "" {
		_, err := io.Copy(l.w, r)
		return err
	}
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadString('\n')
		if line != "" {
			l.mu.Lock()
			_, werr := io.WriteString(l.w, prefix+strings.TrimSuffix(line, "\n")+"\n")
			l.mu.Unlock()
			if werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
