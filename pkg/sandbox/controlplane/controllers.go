package controlplane

import (
	"context"
	"fmt"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
)

// resync is how often informers replay; the default of
// kube-controller-manager.
const resync = 12 * time.Hour

// controllers are those of kube-controller-manager that jobs, their pods and
// their nodes need, run by this process.
type controllers struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// env is what the constructors share.
type env struct {
	base       *rest.Config // a member of system:masters
	rootCA     []byte
	nodeGrace  time.Duration
	informers  informers.SharedInformerFactory
	metaOrObj  informerfactory.InformerFactory
	metaClient metadata.Interface
	mapper     *restmapper.DeferredDiscoveryRESTMapper
	started    chan struct{}
}

// runFunc runs one controller until the context ends.
type runFunc func(context.Context)

// constructor builds one controller; its informers are registered when it
// returns.
type constructor struct {
	name  string
	build func(context.Context, *env) (runFunc, error)
}

// as is a client with the rights that the controller has in every cluster:
// its own service account in kube-system, granted by the API server's
// bootstrap roles. So a policy about who may do what is put to the test here
// as it is elsewhere.
func (e *env) as(account string) *rest.Config {
	c := rest.CopyConfig(e.base)
	c.UserAgent = "ljsandbox/" + account
	c.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:kube-system:" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
	}
	return c
}

func (e *env) client(account string) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(e.as(account))
}

// startControllers builds all controllers, then starts their informers, then
// runs them. nodeGrace is how long a node may be silent before it is unknown.
func startControllers(base *rest.Config, rootCA []byte, nodeGrace time.Duration) (*controllers, error) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &controllers{cancel: cancel}
	e, err := newEnv(base, rootCA, nodeGrace)
	if err != nil {
		cancel()
		return nil, err
	}
	var runs []runFunc
	for _, k := range constructors {
		run, err := k.build(ctx, e)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("%s controller: %w", k.name, err)
		}
		runs = append(runs, run)
	}
	e.informers.Start(ctx.Done())
	e.metaOrObj.Start(ctx.Done())
	close(e.started)
	for _, run := range append(runs, e.refreshMapper) {
		c.wg.Go(func() { run(ctx) })
	}
	return c, nil
}

func newEnv(base *rest.Config, rootCA []byte, nodeGrace time.Duration) (*env, error) {
	client, err := kubernetes.NewForConfig(base)
	if err != nil {
		return nil, err
	}
	metaClient, err := metadata.NewForConfig(base)
	if err != nil {
		return nil, err
	}
	shared := informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTransform(trim))
	meta := metadatainformer.NewSharedInformerFactoryWithOptions(metaClient, resync, metadatainformer.WithTransform(trim))
	return &env{
		base:       base,
		rootCA:     rootCA,
		nodeGrace:  nodeGrace,
		informers:  shared,
		metaOrObj:  informerfactory.NewInformerFactory(shared, meta),
		metaClient: metaClient,
		mapper:     restmapper.NewDeferredDiscoveryRESTMapper(cacheddiscovery.NewMemCacheClient(client.Discovery())),
		started:    make(chan struct{}),
	}, nil
}

// trim drops managed fields, which no controller reads and which are half of
// an object's memory.
func trim(obj any) (any, error) {
	if accessor, err := apimeta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}

// newKinds is how often controllers ask for kinds that have been added. A
// cluster's controller manager asks each half minute, and until then deletes
// nothing that a JobSet owned; here JobSet is added right at the start.
const newKinds = 3 * time.Second

// refreshMapper makes new custom resources known to the garbage collector
// and to the disruption controller.
func (e *env) refreshMapper(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) { e.mapper.Reset() }, newKinds)
}

func (c *controllers) stop() {
	c.cancel()
	c.wg.Wait()
}
