package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// apiServer is kube-apiserver as a part of this process.
type apiServer struct {
	host   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
	// admin asks it whether it is ready; waited is whether it was.
	admin  *rest.Config
	waited bool
}

const serviceRange = "10.96.0.0/16"

// serviceIP is the first of serviceRange, which pods know the server by.
var serviceIP = net.IPv4(10, 96, 0, 1)

// startAPIServer serves on an already open listener, so that no other process
// can take the port between choosing and using it.
func startAPIServer(ln net.Listener, f files, etcdURL string, extra []string) (*apiServer, error) {
	s := options.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range s.Flags().FlagSets {
		fs.AddFlagSet(set)
	}
	args := append([]string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		// A loopback address is no legal endpoint of the service "kubernetes".
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + f.serverCert,
		"--tls-private-key-file=" + f.serverKey,
		"--client-ca-file=" + f.ca,
		"--service-account-key-file=" + f.saKey,
		"--service-account-signing-key-file=" + f.saKey,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-cluster-ip-range=" + serviceRange,
		// Without the mode Node: it is for users called system:node:NAME, which
		// nobody is here, and hangs without the group resource.k8s.io.
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--profiling=false",
		"--anonymous-auth=false",
		"--enable-priority-and-fairness=true",
	}, extra...)
	if err := fs.Parse(args); err != nil {
		return nil, fmt.Errorf("kube-apiserver flags: %w", err)
	}
	s.SecureServing.Listener = ln
	s.SecureServing.BindPort = ln.Addr().(*net.TCPAddr).Port
	s.SecureServing.ExternalAddress = net.IPv4(127, 0, 0, 1)
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("kube-apiserver feature gates: %w", err)
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	ctx, cancel := context.WithCancel(context.Background())
	a := &apiServer{host: "https://" + ln.Addr().String(), cancel: cancel, done: make(chan struct{})}
	run, err := prepare(ctx, s)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("kube-apiserver: %w", err)
	}
	go func() {
		defer close(a.done)
		a.err = run(ctx)
	}()
	return a, nil
}

func prepare(ctx context.Context, s *options.ServerRunOptions) (func(context.Context) error, error) {
	completedOptions, err := s.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completedOptions.Validate(); len(errs) != 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	config, err := app.NewConfig(completedOptions)
	if err != nil {
		return nil, err
	}
	stamp(config)
	completed, err := config.Complete()
	if err != nil {
		return nil, err
	}
	server, err := app.CreateServerChain(completed)
	if err != nil {
		return nil, err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return nil, err
	}
	return prepared.Run, nil
}

// Version is the version of the Kubernetes that is linked here.
const Version = "v1.37.2"

// stamped is the version that /version answers with. Without linker flags the
// packages carry a placeholder, which kubectl and others cannot parse.
type stamped struct {
	basecompatibility.EffectiveVersion
}

func (s stamped) Info() *apimachineryversion.Info {
	info := s.EffectiveVersion.Info()
	if _, err := version.ParseSemantic(info.GitVersion); err != nil || strings.HasPrefix(info.GitVersion, "v0.0.0") {
		info.GitVersion, info.GitCommit, info.GitTreeState = Version, "", ""
	}
	return info
}

func stamp(c *app.Config) {
	for _, g := range []*genericapiserver.Config{c.KubeAPIs.ControlPlane.Generic, &c.ApiExtensions.GenericConfig.Config, &c.Aggregator.GenericConfig.Config} {
		g.EffectiveVersion = stamped{g.EffectiveVersion}
	}
}

// waitReady returns when /readyz answers with 200.
func (a *apiServer) waitReady(ctx context.Context, admin *rest.Config) error {
	a.admin = admin
	cfg := rest.CopyConfig(admin)
	cfg.Timeout = 2 * time.Second
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var status int
		res := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx)
		if res.StatusCode(&status); status == http.StatusOK {
			a.waited = true
			return nil
		}
		select {
		case <-a.done:
			return fmt.Errorf("kube-apiserver ended while starting: %w", a.exit())
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver is not ready (last answer %d): %w", status, ctx.Err())
		case <-tick.C:
		}
	}
}

func (a *apiServer) exit() error {
	if a.err != nil {
		return a.err
	}
	return errors.New("no error given")
}

// stop ends the server. One that is still starting is first given time to
// finish that: its start-up hooks end the whole process if they are stopped
// half-way, and nobody would clean up.
func (a *apiServer) stop() {
	if a.admin != nil && !a.waited {
		ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
		_ = a.waitReady(ctx, a.admin)
		cancel()
	}
	a.cancel()
	<-a.done
}

// finishLimit bounds how long an end waits for a start.
const finishLimit = 15 * time.Second
