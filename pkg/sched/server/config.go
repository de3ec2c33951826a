package server

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched"
)

// configWait bounds the first read: without settings the defaults hold.
const configWait = 5 * time.Second

// firstConfig reads the cluster's settings before the first cycle.
func firstConfig(ctx context.Context, client kubernetes.Interface) config.Config {
	ctx, cancel := context.WithTimeout(ctx, configWait)
	defer cancel()
	c, origin := kube.ReadConfig(ctx, client)
	klog.FromContext(ctx).Info("Settings", "from", origin.String(), "values", c)
	return c
}

// watchConfig follows the ConfigMap. A change holds from the next cycle on and
// tries all waiting pods again; nothing needs a restart.
func watchConfig(ctx context.Context, client kubernetes.Interface, state *sched.State, recorder events.EventRecorder) {
	logger := klog.FromContext(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(kube.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, kube.ConfigMap).String()
		}))
	apply := func(data map[string]string) {
		c, err := parse(data)
		if err != nil {
			logger.Error(err, "The cluster's settings cannot be read, the defaults hold", "configMap", kube.Namespace+"/"+kube.ConfigMap)
			recorder.Eventf(configRef, nil, v1.EventTypeWarning, "ConfigUnreadable", "ReadConfig", "the scheduler uses the built-in defaults: %v", err)
		}
		if state.SetConfig(c) {
			logger.Info("Settings changed, trying all waiting pods again")
			state.Retry(logger)
		}
	}
	inf := factory.Core().V1().ConfigMaps().Informer()
	_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if cm, ok := o.(*v1.ConfigMap); ok {
				apply(cm.Data)
			}
		},
		UpdateFunc: func(_, o any) {
			if cm, ok := o.(*v1.ConfigMap); ok {
				apply(cm.Data)
			}
		},
		DeleteFunc: func(any) {
			if state.SetConfig(config.Default()) {
				logger.Info("Settings deleted, the defaults hold")
				state.Retry(logger)
			}
		},
	})
	if err != nil {
		logger.Error(err, "Changes of the settings will need a restart")
		return
	}
	factory.Start(ctx.Done())
}

func parse(data map[string]string) (config.Config, error) {
	text, ok := data[kube.ConfigKey]
	if !ok {
		return config.Default(), nil
	}
	return kube.ParseConfig(text)
}
