package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetcontrollers "sigs.k8s.io/jobset/pkg/controllers"

	"lj.aliyun.com/kit/pkg/sandbox/jobsetcrd"
	"lj.aliyun.com/kit/pkg/sandbox/jobsethook"
)

// jobsets is the JobSet controller with its admission.
type jobsets struct {
	cancel context.CancelFunc
	server *http.Server
	wg     sync.WaitGroup
}

// ctrlLogger silences controller-runtime's complaint that nobody set a logger;
// it may be set once per process only.
var ctrlLogger sync.Once

func installJobSetCRD(ctx context.Context, admin *rest.Config) error {
	crd, err := jobsetcrd.Load()
	if err != nil {
		return err
	}
	c, err := apiextensionsclient.NewForConfig(admin)
	if err != nil {
		return err
	}
	if _, err := c.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the JobSet definition: %w", err)
	}
	return nil
}

// waitServed returns when JobSets are in the API server's discovery. The
// JobSet controller would try again only after ten seconds.
func waitServed(ctx context.Context, client kubernetes.Interface) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := client.Discovery().ServerResourcesForGroupVersion(jobset.SchemeGroupVersion.String())
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the JobSet definition is not served (last answer: %v): %w", err, ctx.Err())
		case <-tick.C:
		}
	}
}

// startJobSets runs the controller as cfg's user and serves its admission on
// ln. The definition must have been created.
func startJobSets(ctx context.Context, cfg *rest.Config, ln net.Listener, serving identity) (*jobsets, error) {
	ctrlLogger.Do(func() { ctrl.SetLogger(klog.Background()) })
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), jobset.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	skip := true
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		// A second cluster in the same process uses the same names.
		Controller: config.Controller{SkipNameValidation: &skip},
	})
	if err != nil {
		return nil, fmt.Errorf("JobSet controller: %w", err)
	}
	runCtx, cancel := context.WithCancel(context.Background())
	if err := setupJobSets(runCtx, mgr); err != nil {
		cancel()
		return nil, fmt.Errorf("JobSet controller: %w", err)
	}
	pair, err := tls.X509KeyPair(serving.cert, serving.key)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("JobSet admission certificate: %w", err)
	}
	j := &jobsets{cancel: cancel, server: &http.Server{
		Handler:           jobsethook.Handler(leaders{mgr.GetClient()}),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // the API server closing a connection
	}}
	j.wg.Go(func() { _ = j.server.ServeTLS(ln, "", "") })
	j.wg.Go(func() {
		if err := mgr.Start(runCtx); err != nil {
			klog.ErrorS(err, "The JobSet controller ended")
		}
	})
	return j, nil
}

func setupJobSets(ctx context.Context, mgr ctrl.Manager) error {
	if err := jobsetcontrollers.SetupJobSetIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := jobsetcontrollers.SetupPodIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	//lint:ignore SA1019 the JobSet controller takes the old event recorder
	if err := jobsetcontrollers.NewJobSetReconciler(mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorderFor("jobset")).SetupWithManager(mgr); err != nil {
		return err
	}
	//lint:ignore SA1019 as above
	return jobsetcontrollers.NewPodReconciler(mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorderFor("pod")).SetupWithManager(mgr)
}

func (j *jobsets) stop() {
	j.cancel()
	_ = j.server.Close()
	j.wg.Wait()
}
