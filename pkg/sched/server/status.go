package server

import (
	"bytes"
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
)

// laterStatus is the engine's client, but for one kind of write: that a pod
// could not be scheduled goes to its status a moment later. The engine writes
// it within its loop, one request for each member of a group that does not
// fit, and nothing else is scheduled meanwhile (64 members: 1.6 s).
//
// A later write for the same pod takes the place of one that still waits: both
// start from the same pod in the cache, and the later one says all that the
// earlier one does.
type laterStatus struct {
	kubernetes.Interface
	queue *statusQueue
}

// statusWorkers bounds the requests at one time, so that bindings go first.
const statusWorkers = 8

func newLaterStatus(ctx context.Context, client kubernetes.Interface) kubernetes.Interface {
	q := &statusQueue{client: client, patches: map[types.NamespacedName]statusPatch{}, wake: make(chan struct{}, statusWorkers)}
	for range statusWorkers {
		go q.work(ctx)
	}
	return &laterStatus{client, q}
}

// CoreV1 implements kubernetes.Interface.
func (c *laterStatus) CoreV1() corev1.CoreV1Interface {
	return &laterCore{c.Interface.CoreV1(), c.queue}
}

type laterCore struct {
	corev1.CoreV1Interface
	queue *statusQueue
}

func (c *laterCore) Pods(namespace string) corev1.PodInterface {
	return &laterPods{c.CoreV1Interface.Pods(namespace), namespace, c.queue}
}

type laterPods struct {
	corev1.PodInterface
	namespace string
	queue     *statusQueue
}

// Patch implements corev1.PodInterface.
func (c *laterPods) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*v1.Pod, error) {
	// Others wait for their answer: preemption marks a victim before it is
	// deleted.
	if len(sub) != 1 || sub[0] != "status" || !bytes.Contains(data, []byte(`"`+v1.PodScheduled+`"`)) {
		return c.PodInterface.Patch(ctx, name, pt, data, o, sub...)
	}
	c.queue.add(types.NamespacedName{Namespace: c.namespace, Name: name}, statusPatch{pt, bytes.Clone(data), o})
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}, nil
}

type statusPatch struct {
	kind types.PatchType
	data []byte
	o    metav1.PatchOptions
}

// statusQueue has one patch for each pod that waits, in the order in which the
// pods came, and writes those of one pod one after the other.
type statusQueue struct {
	client kubernetes.Interface
	wake   chan struct{}

	mu      sync.Mutex
	order   []types.NamespacedName
	patches map[types.NamespacedName]statusPatch
	writing map[types.NamespacedName]bool
}

func (q *statusQueue) add(pod types.NamespacedName, p statusPatch) {
	q.mu.Lock()
	_, waits := q.patches[pod]
	q.patches[pod] = p
	if !waits && !q.writing[pod] {
		q.order = append(q.order, pod)
	}
	q.mu.Unlock()
	q.signal()
}

func (q *statusQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *statusQueue) work(ctx context.Context) {
	for {
		pod, p, ok := q.next()
		if !ok {
			select {
			case <-q.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		if _, err := q.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, p.kind, p.data, p.o, "status"); err != nil && ctx.Err() == nil {
			klog.V(2).InfoS("Status of a waiting pod not written", "pod", pod, "err", err)
		}
		q.done(pod)
	}
}

func (q *statusQueue) next() (pod types.NamespacedName, p statusPatch, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return pod, p, false
	}
	pod = q.order[0]
	q.order = q.order[1:]
	p = q.patches[pod]
	delete(q.patches, pod)
	if q.writing == nil {
		q.writing = map[types.NamespacedName]bool{}
	}
	q.writing[pod] = true
	return pod, p, true
}

// done ends a write; a patch that came meanwhile is next in line.
func (q *statusQueue) done(pod types.NamespacedName) {
	q.mu.Lock()
	delete(q.writing, pod)
	_, again := q.patches[pod]
	if again {
		q.order = append(q.order, pod)
	}
	q.mu.Unlock()
	if again {
		q.signal()
	}
}
