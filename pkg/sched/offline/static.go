package offline

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// static is an informer that has seen everything already: its store is filled
// from the snapshot, and handlers get all of it while they register. The
// engine's plugins keep caches of their own behind handlers (assume caches of
// volumes, claims), which a running informer fills at some later time; here
// they are full when the engine is built.
type static struct {
	// SharedIndexInformer answers what is not overridden. It never runs.
	cache.SharedIndexInformer
	indexer cache.Indexer
}

// preload puts objects behind the informer of their type. It must come before
// anybody else asks the factory for that informer.
func preload[T runtime.Object](f informers.SharedInformerFactory, kind T, objects []T) error {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, o := range objects {
		if err := indexer.Add(o); err != nil {
			return err
		}
	}
	f.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		idle := cache.NewSharedIndexInformer(&cache.ListWatch{}, kind, 0, cache.Indexers{})
		return &static{SharedIndexInformer: idle, indexer: indexer}
	})
	return nil
}

func (s *static) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, o := range s.indexer.List() {
		h.OnAdd(o, true)
	}
	return synced{}, nil
}

func (s *static) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(h)
}

func (s *static) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(h)
}

func (s *static) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (s *static) GetStore() cache.Store                                           { return s.indexer }
func (s *static) GetIndexer() cache.Indexer                                       { return s.indexer }

// AddIndexers leaves out names that are there: the engine makes each filter
// once for itself and once to be run alone, and both add the same indexes.
func (s *static) AddIndexers(more cache.Indexers) error {
	have, add := s.indexer.GetIndexers(), cache.Indexers{}
	for name, f := range more {
		if _, ok := have[name]; !ok {
			add[name] = f
		}
	}
	return s.indexer.AddIndexers(add)
}

func (s *static) HasSynced() bool                     { return true }
func (s *static) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (s *static) Run(stop <-chan struct{})            { <-stop }
func (s *static) RunWithContext(ctx context.Context)  { <-ctx.Done() }

// synced is a registration that has nothing left to deliver.
type synced struct{}

func (synced) HasSynced() bool                     { return true }
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (synced) Name() string                        { return "snapshot" }
func (synced) Done() <-chan struct{}               { return closed }

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
