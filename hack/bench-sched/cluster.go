package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"lj.aliyun.com/kit/pkg/sandbox/fleet"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

// cluster is a sandbox without a scheduler.
type cluster struct {
	program string
	dir     statedir.Dir
	cfg     *rest.Config
	client  kubernetes.Interface
	version string
	// beats renews the leases of bare nodes.
	beats sync.WaitGroup
	stop  context.CancelFunc
}

// hostOnly is a fleet for bare nodes: the sandbox insists on one node of its own.
const hostOnly = "nodes: [{name: host, enabled: false, agent: false}]\n"

// startCluster runs `ljsandbox up` with a fleet in a directory of its own.
func startCluster(ctx context.Context, program, fleetText string) (*cluster, error) {
	tmp, err := os.MkdirTemp("", "ljb") // short: a unix socket lies in it
	if err != nil {
		return nil, err
	}
	c := &cluster{program: program, dir: statedir.Dir(filepath.Join(tmp, "s")), stop: func() {}}
	file := filepath.Join(tmp, "fleet.yaml")
	if err := os.WriteFile(file, []byte(fleetText), 0o600); err != nil {
		return nil, err
	}
	up := exec.CommandContext(ctx, program, "up", "--no-scheduler", "--fleet", file, "--state-dir", string(c.dir), "--timeout", "2m")
	if out, err := up.CombinedOutput(); err != nil {
		_ = os.RemoveAll(tmp)
		return nil, fmt.Errorf("%s up: %w\n%s", program, err, out)
	}
	if err := c.connect(); err != nil {
		c.down()
		return nil, err
	}
	return c, nil
}

// connect makes the client of the load: without limits of its own, and of the
// group that the API server's priority and fairness lets pass.
func (c *cluster) connect() error {
	var err error
	if c.cfg, err = clientcmd.BuildConfigFromFlags("", c.dir.AdminKubeconfig()); err != nil {
		return err
	}
	c.cfg.QPS = -1
	c.cfg.AcceptContentTypes, c.cfg.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	if c.client, err = kubernetes.NewForConfig(c.cfg); err != nil {
		return err
	}
	v, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	c.version = v.GitVersion
	return nil
}

// down ends the sandbox and removes its files.
func (c *cluster) down() {
	c.stop()
	c.beats.Wait()
	if out, err := exec.Command(c.program, "down", "--state-dir", string(c.dir)).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s down: %v\n%s", c.program, err, out)
	}
	_ = os.RemoveAll(filepath.Dir(string(c.dir)))
}

// addBare creates the nodes of a fleet as bare ones, keeps their leases alive,
// and returns when pods can be bound to them.
func (c *cluster) addBare(ctx context.Context, fleetText string) error {
	f, err := fleet.Parse([]byte(fleetText))
	if err != nil {
		return err
	}
	names := make([]string, len(f.Nodes))
	err = inParallel(ctx, len(f.Nodes), func(i int) error {
		node, err := f.Nodes[i].Object(f.Config)
		if err != nil {
			return err
		}
		names[i] = node.Name
		now := metav1.Now()
		node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "Bare", LastHeartbeatTime: now, LastTransitionTime: now}}
		if _, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err = c.leases().Create(ctx, newLease(node.Name), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create nodes: %w", err)
	}
	beating, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.beats.Go(func() { c.heartbeats(beating, names) })
	return c.awaitReady(ctx)
}

// beat is how often each bare node's lease is renewed; the sandbox calls a
// node dead after 50 s of silence.
const beat = 15 * time.Second

func (c *cluster) heartbeats(ctx context.Context, names []string) {
	tick := time.NewTicker(beat / time.Duration(len(names)))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			// A missed beat is made good by the next: nodes have several.
			_ = c.renew(ctx, names[i%len(names)])
		}
	}
}

// renew writes that the node's kubelet is alive.
func (c *cluster) renew(ctx context.Context, node string) error {
	patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := c.leases().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (c *cluster) leases() coordinationclient.LeaseInterface {
	return c.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
}

func newLease(node string) *coordinationv1.Lease {
	now, seconds := metav1.NowMicro(), int32(40)
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: &seconds, RenewTime: &now}}
}

// awaitReady returns when no node has a taint of its start.
func (c *cluster) awaitReady(ctx context.Context) error {
	return poll(ctx, "all nodes ready", func() (bool, error) {
		list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			if len(list.Items[i].Spec.Taints) > 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

// poll asks until the answer is yes.
func poll(ctx context.Context, what string, ok func() (bool, error)) error {
	for {
		done, err := ok()
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// creators is how many requests of the load are under way at a time.
const creators = 16

// inParallel calls f for 0..n-1 and returns the first error.
func inParallel(ctx context.Context, n int, f func(int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range creators {
		wg.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}
