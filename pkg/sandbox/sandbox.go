package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sandbox/cli"
	"lj.aliyun.com/kit/pkg/sandbox/controlplane"
	"lj.aliyun.com/kit/pkg/sandbox/fleet"
	"lj.aliyun.com/kit/pkg/sandbox/simnode"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

// Options say what to start. The zero value is the built-in fleet and a
// scheduler found beside the program or on PATH, in a temporary directory.
type Options struct {
	// Dir has the files; the caller has locked it. Empty: a temporary one
	// that Stop removes.
	Dir statedir.Dir
	// Fleet are the simulated nodes; nil is the built-in fleet. A fleet
	// without nodes is a cluster without nodes.
	Fleet *fleet.Fleet
	// NoScheduler leaves the scheduler out.
	NoScheduler bool
	// Scheduler is the path of ljnode; see cli.FindScheduler.
	Scheduler string
	// SchedulerArgs are added to its command line.
	SchedulerArgs []string
	// APIServerFlags are added to kube-apiserver's command line.
	APIServerFlags []string
	// Timing is how fast simulated pods live; the zero value is
	// simnode.DefaultTiming.
	Timing simnode.Timing
	// OnScheduler is told each change of the scheduler's state.
	OnScheduler func(statedir.Scheduler)
	// Log takes the log of the control plane's parts that do not use klog;
	// nil drops it.
	Log io.Writer
}

// Cluster is a running sandbox.
type Cluster struct {
	dir       statedir.Dir
	temporary bool
	fleet     *fleet.Fleet
	plane     *controlplane.ControlPlane
	kubelets  *simnode.Kubelets
	scheduler *scheduler
	stop      sync.Once
}

// Start returns a cluster that is ready: it serves, its nodes are Ready and
// free of start-up taints, pods can be created. The scheduler has been
// started, but may not lead yet; see WaitScheduler. On an error nothing is
// left running and nothing is left on disk.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	c := &Cluster{dir: o.Dir, fleet: o.Fleet}
	if c.fleet == nil {
		if c.fleet, err = fleet.Default(); err != nil {
			return nil, err
		}
	}
	if !o.NoScheduler && o.Scheduler == "" {
		if o.Scheduler, err = cli.FindScheduler(""); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if c.dir == "" {
		tmp, err := os.MkdirTemp("", "ljsandbox-")
		if err != nil {
			return nil, err
		}
		c.dir, c.temporary = statedir.Dir(tmp), true
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if err := os.MkdirAll(c.dir.Data(), 0o700); err != nil {
		return nil, err
	}
	c.plane, err = controlplane.Start(ctx, controlplane.Options{
		Dir: c.dir.Data(), Config: c.fleet.ConfigText, APIServerFlags: o.APIServerFlags, Log: o.Log,
		// Several missed beats.
		NodeGrace: 5 * simnode.HeartbeatEvery(len(c.fleet.Nodes)),
	})
	if err != nil {
		return nil, err
	}
	if err := c.plane.WriteKubeconfig(c.dir.AdminKubeconfig()); err != nil {
		return nil, err
	}
	if err := c.plane.WriteSchedulerKubeconfig(c.dir.SchedulerKubeconfig()); err != nil {
		return nil, err
	}
	if !o.NoScheduler {
		// Before the nodes: it has its own start-up to do meanwhile.
		client, err := kubernetes.NewForConfig(c.AdminConfig())
		if err != nil {
			return nil, err
		}
		c.scheduler = startScheduler(o.Scheduler, c.dir, o.SchedulerArgs, o.OnScheduler, func(ctx context.Context) time.Time { return leaseRenewed(ctx, client) })
	}
	ready := make(chan error, 1)
	go func() { ready <- c.plane.WaitReady(ctx) }()
	nodesErr := c.startNodes(ctx, o.Timing)
	if err := errors.Join(nodesErr, <-ready); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cluster) startNodes(ctx context.Context, t simnode.Timing) error {
	client, err := kubernetes.NewForConfig(c.plane.KubeletConfig())
	if err != nil {
		return err
	}
	c.kubelets = simnode.New(simnode.Options{Client: client, Config: c.fleet.Config, Timing: t})
	if err := c.kubelets.Run(ctx); err != nil {
		return err
	}
	return c.AddNodes(ctx, c.fleet.Nodes)
}

// AddNodes registers more simulated nodes and returns when they are Ready.
func (c *Cluster) AddNodes(ctx context.Context, nodes []fleet.Node) error {
	ready := map[string]bool{}
	objects := make([]*v1.Node, len(nodes))
	for i := range nodes {
		o, err := nodes[i].Object(c.fleet.Config)
		if err != nil {
			return err
		}
		objects[i] = o
		ready[o.Name] = nodes[i].Ready
	}
	if err := c.kubelets.Add(ctx, objects, func(name string) bool { return ready[name] }); err != nil {
		return err
	}
	return c.kubelets.WaitReady(ctx)
}

// AdminConfig is a client with all rights.
func (c *Cluster) AdminConfig() *rest.Config { return c.plane.AdminConfig() }

// AdminKubeconfig is the path of a kubeconfig with all rights.
func (c *Cluster) AdminKubeconfig() string { return c.dir.AdminKubeconfig() }

// SchedulerKubeconfig is the path of a kubeconfig with the scheduler's rights.
func (c *Cluster) SchedulerKubeconfig() string { return c.dir.SchedulerKubeconfig() }

// Host is the URL of the API server.
func (c *Cluster) Host() string { return c.plane.Host() }

// Fleet is what the cluster was started with.
func (c *Cluster) Fleet() *fleet.Fleet { return c.fleet }

// Failed is closed when the API server has ended by itself.
func (c *Cluster) Failed() <-chan struct{} { return c.plane.Failed() }

// Stop ends everything and returns when it has ended. A temporary directory
// is removed; one of the caller's is his to release. It may be called twice.
func (c *Cluster) Stop() {
	c.stop.Do(func() {
		if c.scheduler != nil {
			c.scheduler.stop()
		}
		if c.kubelets != nil {
			c.kubelets.Stop()
		}
		if c.plane != nil {
			c.plane.Stop()
		}
		if c.temporary {
			_ = os.RemoveAll(string(c.dir))
		}
	})
}

// KubernetesVersion asks the cluster for its version.
func (c *Cluster) KubernetesVersion() (string, error) {
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return "", err
	}
	v, err := client.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	return v.GitVersion, nil
}

// leaseRenewed tells when somebody last renewed the scheduler's lease, the
// zero time if nobody holds it.
func leaseRenewed(ctx context.Context, client kubernetes.Interface) time.Time {
	l, err := client.CoordinationV1().Leases(kube.Namespace).Get(ctx, kube.SchedulerLease, metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Spec.RenewTime == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Time
}
