package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/util/sets"
	apifilters "k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	// Requests to the API server, and who leads, among the engine's metrics.
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection"

	"lj.aliyun.com/kit/pkg/kube"
)

// drain is how long open requests may take at the end.
const drain = 3 * time.Second

// readiness is what /readyz says. A copy that waits for the lease is ready: it
// could take over at once.
type readiness struct{ caches, stopped atomic.Bool }

func (r *readiness) synced() { r.caches.Store(true) }
func (r *readiness) stop()   { r.stopped.Store(true) }

func (r *readiness) check(*http.Request) error {
	switch {
	case r.stopped.Load():
		return errors.New("ending")
	case !r.caches.Load():
		return errors.New("the first lists of nodes and pods are not complete")
	}
	return nil
}

// serve answers /healthz, /livez and /readyz to anybody, and /metrics to whom
// the API server says may see it, over TLS with a certificate made at start.
func serve(o Options, cfg *rest.Config, ready *readiness, lead *leader, own prometheus.Gatherer) (stop func(), err error) {
	if o.SecurePort == 0 {
		return func() {}, nil
	}
	secure := genericoptions.NewSecureServingOptions()
	secure.BindAddress, secure.BindPort = net.ParseIP(o.BindAddress), o.SecurePort
	secure.ServerCert.CertDirectory, secure.ServerCert.PairName = "", kube.SchedulerName
	if secure.BindAddress == nil {
		return nil, fmt.Errorf("bind address %q is no IP address", o.BindAddress)
	}
	if err := secure.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("certificate for health and metrics: %w", err)
	}
	var info *genericserver.SecureServingInfo
	if err := secure.ApplyTo(&info); err != nil {
		return nil, fmt.Errorf("health and metrics on %s port %d: %w", o.BindAddress, o.SecurePort, err)
	}
	handler, err := guarded(routes(ready, lead, own), o, info)
	if err != nil {
		return nil, err
	}
	end := make(chan struct{})
	stopped, _, err := info.Serve(handler, drain, end)
	if err != nil {
		return nil, fmt.Errorf("health and metrics: %w", err)
	}
	return func() { close(end); <-stopped }, nil
}

// routes has the engine's metrics, which are the process's, and our own in one
// answer.
func routes(ready *readiness, lead *leader, own prometheus.Gatherer) http.Handler {
	m := mux.NewPathRecorderMux(kube.SchedulerName)
	checks := []healthz.HealthChecker{healthz.PingHealthz}
	if lead.health != nil {
		checks = append(checks, lead.health)
	}
	healthz.InstallHandler(m, checks...)
	healthz.InstallLivezHandler(m, checks...)
	healthz.InstallReadyzHandler(m, append(checks, healthz.NamedCheck("caches", ready.check))...)
	m.Handle("/metrics", promhttp.HandlerFor(prometheus.Gatherers{legacyregistry.DefaultGatherer, own},
		promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	return m
}

// guarded asks the API server who the bearer of a token is and whether they
// may. Client certificates and front proxies are not taken: their CAs would
// have to be looked up in kube-system, by one more permission.
func guarded(h http.Handler, o Options, info *genericserver.SecureServingInfo) (http.Handler, error) {
	authn := genericoptions.NewDelegatingAuthenticationOptions()
	authn.RemoteKubeConfigFile, authn.RemoteKubeConfigFileOptional, authn.SkipInClusterLookup = o.Kubeconfig, true, true
	authz := genericoptions.NewDelegatingAuthorizationOptions()
	authz.RemoteKubeConfigFile, authz.RemoteKubeConfigFileOptional = o.Kubeconfig, true
	var who genericserver.AuthenticationInfo
	if err := authn.ApplyTo(&who, info, nil); err != nil {
		return nil, fmt.Errorf("authentication of callers: %w", err)
	}
	var may genericserver.AuthorizationInfo
	if err := authz.ApplyTo(&may); err != nil {
		return nil, fmt.Errorf("authorization of callers: %w", err)
	}
	resolver := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("apis", "api"), GrouplessAPIPrefixes: sets.NewString("api")}
	h = apifilters.WithAuthorization(h, may.Authorizer, scheme.Codecs)
	h = apifilters.WithAuthentication(h, who.Authenticator, apifilters.Unauthorized(scheme.Codecs), nil, nil)
	h = apifilters.WithRequestInfo(h, resolver)
	h = apifilters.WithCacheControl(h)
	return genericfilters.WithPanicRecovery(h, resolver), nil
}
