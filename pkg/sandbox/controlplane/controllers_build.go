package controlplane

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	quotageneric "k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	pkgcontroller "k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/podgc"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
	"k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
	"k8s.io/kubernetes/pkg/controller/volume/pvprotection"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
)

// constructors mirror those of kube-controller-manager, with its defaults.
// The garbage collector comes first: its graph builder registers informers
// that others share.
var constructors = []constructor{
	{"garbage collector", buildGarbageCollector},
	{"namespace", buildNamespace},
	{"service account", buildServiceAccount},
	{"root CA publisher", buildRootCA},
	{"job", buildJob},
	{"cron job", buildCronJob},
	{"deployment", buildDeployment},
	{"replica set", buildReplicaSet},
	{"stateful set", buildStatefulSet},
	{"daemon set", buildDaemonSet},
	{"pod garbage collector", buildPodGC},
	{"node life-cycle", buildNodeLifecycle},
	{"taint eviction", buildTaintEviction},
	{"resource quota", buildQuota},
	{"disruption", buildDisruption},
	{"time to live after finished", buildTTL},
	{"claim protection", buildPVCProtection},
	{"volume protection", buildPVProtection},
}

func buildGarbageCollector(ctx context.Context, e *env) (runFunc, error) {
	cfg := e.as("generic-garbage-collector")
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	metaClient, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, e.metaClient, e.mapper,
		garbagecollector.DefaultIgnoredResources(), e.metaOrObj, e.started)
	gc, err := garbagecollector.NewComposedGarbageCollector(ctx, client, metaClient, e.mapper, graph)
	if err != nil {
		return nil, err
	}
	return both(
		func(ctx context.Context) { gc.Run(ctx, 8, 30*time.Second) },
		func(ctx context.Context) { gc.Sync(ctx, client.Discovery(), newKinds) },
	), nil
}

func buildNamespace(ctx context.Context, e *env) (runFunc, error) {
	cfg := e.as("namespace-controller")
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	metaClient, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	c := namespace.NewNamespaceController(ctx, client, metaClient, client.Discovery().ServerPreferredNamespacedResources,
		e.informers.Core().V1().Namespaces(), 5*time.Minute, v1.FinalizerKubernetes)
	return func(ctx context.Context) { c.Run(ctx, 10) }, nil
}

func buildServiceAccount(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("service-account-controller")
	if err != nil {
		return nil, err
	}
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), e.informers.Core().V1().ServiceAccounts(),
		e.informers.Core().V1().Namespaces(), client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

func buildRootCA(_ context.Context, e *env) (runFunc, error) {
	client, err := e.client("root-ca-cert-publisher")
	if err != nil {
		return nil, err
	}
	c, err := rootcacertpublisher.NewPublisher(e.informers.Core().V1().ConfigMaps(), e.informers.Core().V1().Namespaces(), client, e.rootCA)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

func buildJob(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("job-controller")
	if err != nil {
		return nil, err
	}
	c, err := job.NewController(ctx, client, e.informers.Core().V1().Pods(), e.informers.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 5) }, nil
}

func buildCronJob(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("cronjob-controller")
	if err != nil {
		return nil, err
	}
	c, err := cronjob.NewControllerV2(ctx, e.informers.Batch().V1().Jobs(), e.informers.Batch().V1().CronJobs(), client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 5) }, nil
}

func buildDeployment(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("deployment-controller")
	if err != nil {
		return nil, err
	}
	c, err := deployment.NewDeploymentController(ctx, e.informers.Apps().V1().Deployments(),
		e.informers.Apps().V1().ReplicaSets(), e.informers.Core().V1().Pods(), client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 5) }, nil
}

func buildReplicaSet(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("replicaset-controller")
	if err != nil {
		return nil, err
	}
	c := replicaset.NewReplicaSetController(ctx, e.informers.Apps().V1().ReplicaSets(), e.informers.Core().V1().Pods(),
		client, replicaset.BurstReplicas)
	return func(ctx context.Context) { c.Run(ctx, 5) }, nil
}

func buildStatefulSet(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("statefulset-controller")
	if err != nil {
		return nil, err
	}
	c := statefulset.NewStatefulSetController(ctx, e.informers.Core().V1().Pods(), e.informers.Apps().V1().StatefulSets(),
		e.informers.Core().V1().PersistentVolumeClaims(), e.informers.Apps().V1().ControllerRevisions(), client)
	return func(ctx context.Context) { c.Run(ctx, 5) }, nil
}

func buildDaemonSet(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("daemon-set-controller")
	if err != nil {
		return nil, err
	}
	c, err := daemon.NewDaemonSetsController(ctx, e.informers.Apps().V1().DaemonSets(), e.informers.Apps().V1().ControllerRevisions(),
		e.informers.Core().V1().Pods(), e.informers.Core().V1().Nodes(), client, flowcontrol.NewBackOff(time.Second, 15*time.Minute))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 2) }, nil
}

func buildPodGC(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("pod-garbage-collector")
	if err != nil {
		return nil, err
	}
	const terminatedPods = 12500
	c := podgc.NewPodGC(ctx, client, e.informers.Core().V1().Pods(), e.informers.Core().V1().Nodes(), terminatedPods)
	return c.Run, nil
}

func buildNodeLifecycle(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("node-controller")
	if err != nil {
		return nil, err
	}
	c, err := nodelifecycle.NewNodeLifecycleController(ctx, e.informers.Coordination().V1().Leases(), e.informers.Core().V1().Pods(),
		e.informers.Core().V1().Nodes(), e.informers.Apps().V1().DaemonSets(), client,
		time.Second, // looks often, so that a new node loses its not-ready taint at once
		time.Minute, e.nodeGrace, 0.1, 0.01, 50, 0.55)
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func buildTaintEviction(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("node-controller")
	if err != nil {
		return nil, err
	}
	c, err := tainteviction.New(ctx, client, e.informers.Core().V1().Pods(), e.informers.Core().V1().Nodes(), "taint-eviction-controller")
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func buildQuota(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("resourcequota-controller")
	if err != nil {
		return nil, err
	}
	discover := client.Discovery().ServerPreferredNamespacedResources
	quota, err := quotainstall.NewQuotaConfigurationForControllers(
		quotageneric.ListerFuncForResourceFunc(e.informers.ForResource), e.informers)
	if err != nil {
		return nil, err
	}
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     e.informers.Core().V1().ResourceQuotas(),
		ResyncPeriod:              pkgcontroller.StaticResyncPeriodFunc(5 * time.Minute),
		InformerFactory:           e.metaOrObj,
		ReplenishmentResyncPeriod: pkgcontroller.StaticResyncPeriodFunc(resync),
		DiscoveryFunc:             discover,
		IgnoredResourcesFunc:      quota.IgnoredResources,
		InformersStarted:          e.started,
		Registry:                  quotageneric.NewRegistry(quota.Evaluators()),
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, err
	}
	return both(
		func(ctx context.Context) { c.Run(ctx, 5) },
		func(ctx context.Context) { c.Sync(ctx, discover, 30*time.Second) },
	), nil
}

func buildDisruption(ctx context.Context, e *env) (runFunc, error) {
	cfg := e.as("disruption-controller")
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	scaler, err := scale.NewForConfig(cfg, e.mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(client.Discovery()))
	if err != nil {
		return nil, err
	}
	core, apps := e.informers.Core().V1(), e.informers.Apps().V1()
	c := disruption.NewDisruptionController(ctx, core.Pods(), e.informers.Policy().V1().PodDisruptionBudgets(),
		core.ReplicationControllers(), apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(),
		client, e.mapper, scaler, client.Discovery())
	return func(ctx context.Context) { c.Run(ctx, 5) }, nil
}

func buildTTL(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("ttl-after-finished-controller")
	if err != nil {
		return nil, err
	}
	c := ttlafterfinished.New(ctx, e.informers.Batch().V1().Jobs(), client)
	return func(ctx context.Context) { c.Run(ctx, 2) }, nil
}

func buildPVCProtection(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("pvc-protection-controller")
	if err != nil {
		return nil, err
	}
	c, err := pvcprotection.NewPVCProtectionController(klog.FromContext(ctx), e.informers.Core().V1().PersistentVolumeClaims(),
		e.informers.Core().V1().Pods(), client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

func buildPVProtection(ctx context.Context, e *env) (runFunc, error) {
	client, err := e.client("pv-protection-controller")
	if err != nil {
		return nil, err
	}
	c, err := pvprotection.NewPVProtectionController(klog.FromContext(ctx), e.informers.Core().V1().PersistentVolumes(), client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

// both runs two loops as one and returns when both have ended.
func both(a, b runFunc) runFunc {
	return func(ctx context.Context) {
		var wg sync.WaitGroup
		wg.Go(func() { a(ctx) })
		wg.Go(func() { b(ctx) })
		wg.Wait()
	}
}
