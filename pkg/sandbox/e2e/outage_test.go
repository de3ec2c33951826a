package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned"

	"lj.aliyun.com/kit/pkg/sandbox"
	"lj.aliyun.com/kit/pkg/sandbox/simnode"
	"lj.aliyun.com/kit/pkg/sched/schedtest"
)

// line is the way to an API server that can be cut.
type line struct {
	net.Listener
	to string

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// newLine listens on this machine for what goes to the server.
func newLine(t *testing.T, server string) *line {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l := &line{to: u.Host}
	if l.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(); l.setCut(true) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go l.carry(c)
		}
	}()
	return l
}

func (l *line) carry(c net.Conn) {
	defer func() { _ = c.Close() }()
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	l.mu.Lock()
	if l.cut {
		l.mu.Unlock()
		return
	}
	l.conns = append(l.conns, c, far)
	l.mu.Unlock()
	go func() {
		_, _ = io.Copy(far, c)
		_ = far.Close()
	}()
	_, _ = io.Copy(c, far)
}

// setCut ends all connections and takes no more, or takes them again.
func (l *line) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// startOn starts the scheduler with its API server at the end of the line.
func (l *line) startOn(t *testing.T, c *sandbox.Cluster) {
	t.Helper()
	kc, err := clientcmd.LoadFromFile(c.SchedulerKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range kc.Clusters {
		x.Server = "https://" + l.Addr().String()
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kc, path); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "scheduler.log"))
	if err != nil {
		t.Fatal(err)
	}
	// The lease is left out: a process that cannot renew it ends, and this is
	// about one that lives through the outage with what it holds.
	cmd := exec.Command(builtProgram(t, "ljnode", "LJNODE"), "scheduler", "--kubeconfig", path, "--leader-elect=false", "--secure-port", "0", "-v", "2")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("scheduler:\n%s", text[max(0, len(text)-8000):])
		}
	})
}

// The scheduler loses its API server for 30 s in the middle of the binding of a
// gang, while another gang waits; the pods that are in its way are deleted
// meanwhile. When the server is back, the first gang is bound to its end and
// the second takes the cards of those that are gone.
func TestOutageOfTheAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := sandbox.Start(ctx, sandbox.Options{NoScheduler: true,
		Timing: simnode.Timing{Create: 10 * time.Millisecond, Init: 10 * time.Millisecond, BackOff: 100 * time.Millisecond, MaxBackOff: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	client := kubernetes.NewForConfigOrDie(c.AdminConfig())
	sets := jobsetclient.NewForConfigOrDie(c.AdminConfig()).JobsetV1alpha2().JobSets("default")
	l := newLine(t, c.AdminConfig().Host)
	l.startOn(t, c)

	bound := func(selector string) int {
		list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return 0
		}
		n := 0
		for i := range list.Items {
			if list.Items[i].Spec.NodeName != "" {
				n++
			}
		}
		return n
	}
	start := func(name string, size int32) {
		js := gang(name, size)
		js.Spec.ReplicatedJobs[0].Template.Spec.Template.Annotations = map[string]string{simnode.RunForAnnotation: "1h"}
		if _, err := sets.Create(t.Context(), js, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const inTheWay = 14 // of the 30 whole cards of the larger network-pod
	for i := range inTheWay {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("way-%d", i), Labels: map[string]string{"in": "the-way"},
			Annotations: map[string]string{simnode.RunForAnnotation: "1h", simnode.StopAfterAnnotation: "10ms"}}, Spec: cardPod()}
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the first pods bound", func() (bool, string) { n := bound("in=the-way"); return n == inTheWay, fmt.Sprint(n) })

	const first, second = "jobset.sigs.k8s.io/jobset-name=first", "jobset.sigs.k8s.io/jobset-name=second"
	seen, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{LabelSelector: first})
	if err != nil {
		t.Fatal(err)
	}
	start("first", 16)
	for e := range seen.ResultChan() {
		if p, ok := e.Object.(*v1.Pod); ok && p.Spec.NodeName != "" {
			break
		}
	}
	l.setCut(true)
	seen.Stop()
	t.Logf("%d of 16 were bound when the line was cut", bound(first))
	start("second", 12)
	if err := client.CoreV1().Pods("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "in=the-way"}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(30 * time.Second) // the outage
	l.setCut(false)
	// Watches that have failed for a while are tried again half a minute later.
	back := time.Now()
	for bound(second) < 12 && time.Since(back) < time.Minute {
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%v after the outage", time.Since(back).Round(time.Second))
	eventually(t, "both gangs bound", func() (bool, string) {
		a, b := bound(first), bound(second)
		return a == 16 && b == 12, fmt.Sprintf("%d of 16 and %d of 12", a, b)
	})
	list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if wrong := schedtest.Verify(pointers(nodes.Items), pointers(list.Items), c.Fleet().Config); len(wrong) > 0 {
		t.Error(wrong)
	}
}

func pointers[T any](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}
