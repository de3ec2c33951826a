package controlplane

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Options say how to run a control plane.
type Options struct {
	// Dir holds all its files. It must exist, be private to the user and have
	// a path short enough for a unix socket in it.
	Dir string
	// Config is the text of the cluster's settings (lj-system/lj-config).
	Config string
	// NodeGrace is how long a node may be silent before it counts as unknown.
	NodeGrace time.Duration
	// APIServerFlags are added to kube-apiserver's command line.
	APIServerFlags []string
	// Log takes etcd's warnings. The other parts log through klog.
	Log io.Writer
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	opts        Options
	ca          *authority
	store       *store
	api         *apiServer
	controllers *controllers
	jobsets     *jobsets
	admin       *rest.Config
	kubelets    *rest.Config
}

// Start returns a control plane that serves, with everything installed; see
// WaitReady. On an error nothing of it is left running.
func Start(ctx context.Context, o Options) (_ *ControlPlane, err error) {
	c := &ControlPlane{opts: o}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	apiListener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("no free port on 127.0.0.1: %w", err)
	}
	hookListener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		_ = apiListener.Close()
		return nil, fmt.Errorf("no free port on 127.0.0.1: %w", err)
	}
	if err := c.serve(ctx, apiListener); err != nil {
		_ = hookListener.Close()
		return nil, err
	}
	if err := c.populate(ctx, hookListener); err != nil {
		_ = hookListener.Close()
		return nil, err
	}
	return c, nil
}

// serve brings up etcd and the API server.
func (c *ControlPlane) serve(ctx context.Context, ln net.Listener) error {
	started := false
	defer func() {
		if !started {
			_ = ln.Close()
		}
	}()
	var err error
	if c.ca, err = newAuthority(); err != nil {
		return err
	}
	server, err := c.ca.server([]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"}, []net.IP{serviceIP})
	if err != nil {
		return err
	}
	f, err := writeFiles(filepath.Join(c.opts.Dir, "pki"), c.ca, server)
	if err != nil {
		return err
	}
	if c.store, err = startStore(ctx, c.opts.Dir, c.opts.Log); err != nil {
		return err
	}
	if c.api, err = startAPIServer(ln, f, c.store.url, c.opts.APIServerFlags); err != nil {
		return err
	}
	started = true
	if c.admin, err = c.identity(adminUser, "ljsandbox", mastersGroup); err != nil {
		return err
	}
	if c.kubelets, err = c.identity(kubeletUser, "ljsandbox/kubelets", nodesGroup); err != nil {
		return err
	}
	return c.api.waitReady(ctx, c.admin)
}

// populate installs the objects and starts what works on them.
func (c *ControlPlane) populate(ctx context.Context, hook net.Listener) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	manager, err := c.identity(managerUser, "ljsandbox/controllers", mastersGroup)
	if err != nil {
		return err
	}
	// First, because serving it takes the API server a moment.
	if err := installJobSetCRD(ctx, c.admin); err != nil {
		return err
	}
	if c.controllers, err = startControllers(manager, c.ca.pem, c.opts.NodeGrace); err != nil {
		return err
	}
	if err := install(ctx, c.admin, client, c.opts.Config); err != nil {
		return err
	}
	jobsetCfg, err := c.identity(jobsetUser, "ljsandbox/jobset")
	if err != nil {
		return err
	}
	serving, err := c.ca.server(nil, nil)
	if err != nil {
		return err
	}
	if err := waitServed(ctx, client); err != nil {
		return err
	}
	if c.jobsets, err = startJobSets(ctx, jobsetCfg, hook, serving); err != nil {
		return err
	}
	return installJobSetAdmission(ctx, client, hook.Addr().String(), c.ca.pem)
}

// WaitReady returns when pods and JobSets can be created. The first request
// for a JobSet makes the API server compile its large schema, so callers do
// something else meanwhile.
func (c *ControlPlane) WaitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	if err := waitJobSets(ctx, c.admin); err != nil {
		return err
	}
	return waitDefaultAccount(ctx, client)
}

// waitDefaultAccount returns when pods can be created in the default
// namespace: the API server refuses them until its service account is there.
func waitDefaultAccount(ctx context.Context, client kubernetes.Interface) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the default service account is not there: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func (c *ControlPlane) identity(user, agent string, groups ...string) (*rest.Config, error) {
	id, err := c.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return restConfig(c.api.host, c.ca, id, agent), nil
}

// Host is the URL of the API server.
func (c *ControlPlane) Host() string { return c.api.host }

// AdminConfig is a client with all rights.
func (c *ControlPlane) AdminConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// KubeletConfig is a client with the rights of a kubelet, of every node.
func (c *ControlPlane) KubeletConfig() *rest.Config { return rest.CopyConfig(c.kubelets) }

// WriteKubeconfig writes a kubeconfig of the administrator.
func (c *ControlPlane) WriteKubeconfig(path string) error {
	return c.writeKubeconfig(path, adminUser, mastersGroup)
}

// WriteSchedulerKubeconfig writes a kubeconfig of SchedulerUser, which has the
// scheduler's rights and no more.
func (c *ControlPlane) WriteSchedulerKubeconfig(path string) error {
	return c.writeKubeconfig(path, SchedulerUser, schedulerGroups...)
}

func (c *ControlPlane) writeKubeconfig(path, user string, groups ...string) error {
	id, err := c.ca.client(user, groups...)
	if err != nil {
		return err
	}
	return writeKubeconfig(path, "ljsandbox", user, c.api.host, c.ca, id)
}

// Failed is closed when the API server has ended by itself.
func (c *ControlPlane) Failed() <-chan struct{} { return c.api.done }

// Stop ends everything, in the order in which the parts need each other, and
// returns when it has ended. It may be called on a half-started control plane
// and more than once.
func (c *ControlPlane) Stop() {
	if c.jobsets != nil {
		c.jobsets.stop()
	}
	if c.controllers != nil {
		c.controllers.stop()
	}
	if c.api != nil {
		c.api.stop()
	}
	if c.store != nil {
		c.store.stop()
	}
	c.jobsets, c.controllers, c.store = nil, nil, nil
}
