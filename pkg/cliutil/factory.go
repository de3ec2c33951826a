package cliutil

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
)

// The limits of a program that reads big clusters in one go; client-go's own
// 5 and 10 make such reads crawl.
const (
	clientQPS      = 50
	clientBurst    = 100
	discoveryQPS   = 50
	discoveryBurst = 300
)

// configWait bounds the read of the cluster's settings, so that a dead API
// server cannot hold up a command that would work with the defaults.
const configWait = 3 * time.Second

// Factory hands commands everything from outside. It reads nothing before a
// command asks, so that help and completion never touch a file or a cluster.
type Factory struct {
	Streams     genericiooptions.IOStreams
	ConfigFlags *genericclioptions.ConfigFlags
	// Settings are the user's: flag > env LJ_* > file > default.
	Settings *Settings
	Clock    clock.WithTicker

	program string // the name in the user agent

	mu     sync.Mutex
	typed  kubernetes.Interface
	dyn    dynamic.Interface
	config *clusterConfig
}

type clusterConfig struct {
	config config.Config
	origin kube.Origin
}

// NewFactory makes the factory of a program that calls itself program.
func NewFactory(program string, streams genericiooptions.IOStreams) *Factory {
	f := &Factory{Streams: streams, Settings: NewSettings(), Clock: clock.RealClock{}, program: program}
	f.ConfigFlags = genericclioptions.NewConfigFlags(true).
		WithDiscoveryBurst(discoveryBurst).
		WithDiscoveryQPS(discoveryQPS).
		WithWarningPrinter(streams)
	f.ConfigFlags.WrapConfigFn = f.wrap
	return f
}

func (f *Factory) wrap(c *rest.Config) *rest.Config {
	c.QPS, c.Burst = clientQPS, clientBurst
	c.UserAgent = UserAgent(f.program)
	c.WarningHandler = rest.NewWarningWriter(f.Streams.ErrOut, rest.WarningWriterOptions{
		Deduplicate: true, Color: printers.AllowsColorOutput(f.Streams.ErrOut)})
	return c
}

// AddFlags adds the kubeconfig flags and --config.
func (f *Factory) AddFlags(fs *pflag.FlagSet) {
	f.ConfigFlags.AddFlags(fs)
	f.Settings.AddFlags(fs)
}

// RESTConfig is the connection that kubeconfig and flags name. Where there is
// none, the error says how to give one.
func (f *Factory) RESTConfig() (*rest.Config, error) {
	c, err := f.ConfigFlags.ToRESTConfig()
	switch {
	case err == nil && !f.fallback(c):
		return c, nil
	case err == nil, clientcmd.IsEmptyConfig(err), errors.Is(err, genericclioptions.ErrEmptyConfig):
		return nil, WithHint(fmt.Errorf("no cluster to talk to: %w", errNoKubeconfig),
			"set KUBECONFIG or --kubeconfig, or start a cluster on this machine with: ljsandbox up")
	}
	return nil, kubeconfigError(err)
}

// fallback tells whether a connection is client-go's last resort, port 8080
// of this host, which nobody asked for.
func (f *Factory) fallback(c *rest.Config) bool {
	if *f.ConfigFlags.APIServer != "" || os.Getenv("KUBERNETES_MASTER") != "" || c.Host != clientcmd.ClusterDefaults.Server {
		return false
	}
	raw, err := f.ConfigFlags.ToRawKubeConfigLoader().RawConfig()
	return err == nil && len(raw.Clusters) == 0
}

func kubeconfigError(err error) error {
	return WithHint(fmt.Errorf("kubeconfig: %w", err), "see what is set with: kubectl config view")
}

var errNoKubeconfig = errors.New("no kubeconfig names one")

// Clientset is the typed client, made once.
func (f *Factory) Clientset() (kubernetes.Interface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.typed != nil {
		return f.typed, nil
	}
	rc, err := f.RESTConfig()
	if err != nil {
		return nil, err
	}
	// Big lists come many times faster in protobuf.
	rc = rest.CopyConfig(rc)
	rc.ContentType = "application/vnd.kubernetes.protobuf"
	rc.AcceptContentTypes = rc.ContentType + ",application/json"
	c, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, kubeconfigError(err)
	}
	f.typed = c
	return c, nil
}

// Dynamic is the client for objects whose types the suite does not compile
// in, such as JobSets. Made once.
func (f *Factory) Dynamic() (dynamic.Interface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dyn != nil {
		return f.dyn, nil
	}
	rc, err := f.RESTConfig()
	if err != nil {
		return nil, err
	}
	c, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, kubeconfigError(err)
	}
	f.dyn = c
	return c, nil
}

// Clients has both clients.
func (f *Factory) Clients() (kube.Clients, error) {
	typed, err := f.Clientset()
	if err != nil {
		return kube.Clients{}, err
	}
	dyn, err := f.Dynamic()
	if err != nil {
		return kube.Clients{}, err
	}
	return kube.Clients{Typed: typed, Dynamic: dyn}, nil
}

// SetClients puts clients of the caller's making in place of the real ones.
func (f *Factory) SetClients(typed kubernetes.Interface, dyn dynamic.Interface) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.typed, f.dyn = typed, dyn
}

// Namespace is the namespace to work in, and whether the user named it with
// -n, so that a manifest with another one is a mistake.
func (f *Factory) Namespace() (ns string, enforced bool, err error) {
	ns, enforced, err = f.ConfigFlags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) || errors.Is(err, genericclioptions.ErrEmptyConfig) {
			return "default", false, nil
		}
		return "", false, kubeconfigError(err)
	}
	return ns, enforced, nil
}

// ClusterConfig reads the cluster's settings, once. Where they cannot be read
// the result is config.Default and the origin says why; the error is for an
// interrupted context only.
func (f *Factory) ClusterConfig(ctx context.Context) (config.Config, kube.Origin, error) {
	f.mu.Lock()
	known := f.config
	f.mu.Unlock()
	if known != nil {
		return known.config, known.origin, nil
	}
	got := f.readClusterConfig(ctx)
	if err := ctx.Err(); err != nil {
		return config.Default(), kube.Origin{Kind: kube.FromDefault, Why: "interrupted"}, err
	}
	f.mu.Lock()
	f.config = &got
	f.mu.Unlock()
	return got.config, got.origin, nil
}

func (f *Factory) readClusterConfig(ctx context.Context) clusterConfig {
	client, err := f.Clientset()
	if err != nil {
		return clusterConfig{config.Default(), kube.Origin{Kind: kube.FromDefault, Why: firstLine(err)}}
	}
	ctx, cancel := context.WithTimeout(ctx, configWait)
	defer cancel()
	c, o := kube.ReadConfig(ctx, client)
	return clusterConfig{c, o}
}
