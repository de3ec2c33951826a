package sched

import (
	"strconv"
	"sync"

	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// feed is a collection of PodGroups in this process that an informer can list
// and watch as if an API server served it. It is safe for concurrent use.
type feed struct {
	mu       sync.Mutex
	version  int
	groups   map[types.NamespacedName]*schedulingapi.PodGroup
	watchers map[*follower]struct{}
}

func newFeed() *feed {
	return &feed{groups: map[types.NamespacedName]*schedulingapi.PodGroup{}, watchers: map[*follower]struct{}{}}
}

// put adds or replaces a PodGroup. The feed keeps the object.
func (f *feed) put(pg *schedulingapi.PodGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
	kind := watch.Added
	if _, ok := f.groups[key]; ok {
		kind = watch.Modified
	}
	f.groups[key] = pg
	f.tell(kind, pg)
}

func (f *feed) drop(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if pg, ok := f.groups[key]; ok {
		delete(f.groups, key)
		f.tell(watch.Deleted, pg.DeepCopy())
	}
}

func (f *feed) tell(kind watch.EventType, pg *schedulingapi.PodGroup) {
	f.version++
	pg.ResourceVersion = strconv.Itoa(f.version)
	for w := range f.watchers {
		w.add(watch.Event{Type: kind, Object: pg})
	}
}

// List implements cache.Lister.
func (f *feed) List(metav1.ListOptions) (runtime.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &schedulingapi.PodGroupList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(f.version)}}
	for _, pg := range f.groups {
		l.Items = append(l.Items, *pg)
	}
	return l, nil
}

// Watch implements cache.Watcher. Whoever asks from an older version than the
// newest gets everything as it is now, which informers take as updates.
func (f *feed) Watch(o metav1.ListOptions) (watch.Interface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &follower{feed: f, out: make(chan watch.Event), end: make(chan struct{})}
	w.more = sync.NewCond(&w.mu)
	f.watchers[w] = struct{}{}
	if o.ResourceVersion != strconv.Itoa(f.version) {
		for _, pg := range f.groups {
			w.queue = append(w.queue, watch.Event{Type: watch.Added, Object: pg})
		}
	}
	go w.run()
	return w, nil
}

// IsWatchListSemanticsUnSupported makes the informer list first.
func (f *feed) IsWatchListSemanticsUnSupported() bool { return true }

// follower is one watch. Its queue has no bound: an informer that is slow must
// not block, and the objects are held anyway.
type follower struct {
	feed *feed
	out  chan watch.Event
	end  chan struct{}
	once sync.Once

	mu    sync.Mutex
	more  *sync.Cond
	queue []watch.Event
	over  bool
}

func (w *follower) add(e watch.Event) {
	w.mu.Lock()
	w.queue = append(w.queue, e)
	w.mu.Unlock()
	w.more.Signal()
}

func (w *follower) run() {
	defer close(w.out)
	for {
		w.mu.Lock()
		for len(w.queue) == 0 && !w.over {
			w.more.Wait()
		}
		if w.over {
			w.mu.Unlock()
			return
		}
		next := w.queue[0]
		w.queue = w.queue[1:]
		w.mu.Unlock()
		select {
		case w.out <- next:
		case <-w.end:
			return
		}
	}
}

// Stop implements watch.Interface.
func (w *follower) Stop() {
	w.once.Do(func() {
		close(w.end)
		w.mu.Lock()
		w.over = true
		w.mu.Unlock()
		w.more.Broadcast()
		w.feed.mu.Lock()
		delete(w.feed.watchers, w)
		w.feed.mu.Unlock()
	})
}

// ResultChan implements watch.Interface.
func (w *follower) ResultChan() <-chan watch.Event { return w.out }
