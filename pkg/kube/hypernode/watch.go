package hypernode

import (
	"context"
	"errors"
	"io"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/core/netplace"
	"lj.aliyun.com/kit/pkg/kube"
)

// settle is how long changes are gathered before the network is read again:
// discovery writes many objects at once, and each new Tree makes every node's
// place be asked anew.
const settle = 500 * time.Millisecond

// Watch calls changed with the network as the cluster's HyperNodes have it,
// and again after each change of their specs, never twice at a time, until ctx
// ends. As long as the API is not served, or may not be read, or has no
// object, changed is not called: no network is known then.
//
// Watch returns once the first answer is there and, if it is a list, changed
// was called with it; at the latest after wait. The returned function waits
// until everything that Watch started has ended, which is soon after ctx.
func Watch(ctx context.Context, client dynamic.Interface, wait time.Duration, changed func(*netplace.Tree)) (done func(), err error) {
	w := &watcher{
		informer: dynamicinformer.NewFilteredDynamicInformer(client, kube.HyperNodes, "", 0, cache.Indexers{}, nil).Informer(),
		changed:  changed, dirty: make(chan struct{}, 1), failed: make(chan struct{}),
	}
	if err := w.informer.SetTransform(specOnly); err != nil {
		return nil, err
	}
	if err := w.informer.SetWatchErrorHandlerWithContext(w.complain); err != nil {
		return nil, err
	}
	reg, err := w.informer.AddEventHandler(w.handler())
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	wg.Go(func() { w.informer.RunWithContext(ctx) })
	first := make(chan struct{})
	wg.Go(func() { w.run(ctx, reg.HasSyncedChecker().Done(), first) })
	select {
	case <-first:
	case <-w.failed:
	case <-time.After(wait):
		klog.FromContext(ctx).Info("HyperNodes: the API server has not answered yet; node labels count until it does")
	case <-ctx.Done():
	}
	return wg.Wait, nil
}

type watcher struct {
	informer cache.SharedIndexInformer
	changed  func(*netplace.Tree)
	dirty    chan struct{} // full: something changed since the last reading
	failed   chan struct{} // closed at the first error

	mu   sync.Mutex
	last string // the last error that was logged
}

// run reads the network after the first list and after changes.
func (w *watcher) run(ctx context.Context, synced <-chan struct{}, first chan<- struct{}) {
	select {
	case <-synced:
	case <-ctx.Done():
		return
	}
	known := w.read(ctx, false)
	close(first)
	for {
		select {
		case <-w.dirty:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return
		}
		known = w.read(ctx, known)
	}
}

// read makes the network of what the informer has, and tells whether changed
// has been called so far.
func (w *watcher) read(ctx context.Context, known bool) bool {
	select {
	case <-w.dirty: // what it announces is read now
	default:
	}
	var objects []*unstructured.Unstructured
	for _, o := range w.informer.GetStore().List() {
		if u, ok := o.(*unstructured.Unstructured); ok {
			objects = append(objects, u)
		}
	}
	if len(objects) == 0 && !known {
		return false
	}
	network := kube.NetworkOf(objects)
	logger := klog.FromContext(ctx)
	logger.Info("Network", "hyperNodes", network.Len(), "problems", len(network.Problems()))
	for i, p := range network.Problems() {
		if i == maxLogged {
			logger.Info("Network: more problems are left out here")
			break
		}
		logger.Info("Network: " + p)
	}
	w.changed(network)
	return true
}

const maxLogged = 10

// handler notes changes of specs. Volcano counts nodes in the status, which
// changes often and means nothing here.
func (w *watcher) handler() cache.ResourceEventHandler {
	note := func() {
		select {
		case w.dirty <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { note() },
		UpdateFunc: func(before, now any) {
			a, _ := before.(*unstructured.Unstructured)
			b, _ := now.(*unstructured.Unstructured)
			if a == nil || b == nil || !reflect.DeepEqual(a.Object["spec"], b.Object["spec"]) {
				note()
			}
		},
		DeleteFunc: func(any) { note() },
	}
}

// complain logs an error when it is a new one: the informer tries again for
// ever, at last every half minute to minute. Until then the last network
// holds, also where the API has gone: an API server that starts knows no
// custom resources for a moment, and their objects are deleted before the API
// is.
func (w *watcher) complain(ctx context.Context, _ *cache.Reflector, err error) {
	if apierrors.IsResourceExpired(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return // ends of a watch that are in order
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == "" {
		close(w.failed)
	}
	message := "HyperNodes cannot be read; node labels count until they can"
	switch {
	case apierrors.IsNotFound(err):
		message = "The cluster does not serve HyperNodes; node labels say where nodes stand"
	case apierrors.IsForbidden(err):
		message = "HyperNodes may not be read, it takes the verbs list and watch on hypernodes.topology.volcano.sh; node labels count"
	}
	if w.last != message {
		klog.FromContext(ctx).Info(message, "err", err)
		w.last = message
	}
}

// specOnly drops what the network does not depend on.
func specOnly(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	kept := &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "spec": u.Object["spec"]}}
	kept.SetName(u.GetName())
	kept.SetUID(u.GetUID())
	kept.SetResourceVersion(u.GetResourceVersion())
	return kept, nil
}
