package server

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/core/netplace"
	"lj.aliyun.com/kit/pkg/kube/hypernode"
	"lj.aliyun.com/kit/pkg/sched"
)

// watchNetwork follows the cluster's HyperNodes, if it serves any. A change
// holds from the next cycle on and tries all waiting pods again.
func watchNetwork(ctx context.Context, cfg *rest.Config, state *sched.State) error {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	_, err = hypernode.Watch(ctx, client, configWait, func(network *netplace.Tree) {
		state.SetNetwork(network)
		state.Retry(klog.FromContext(ctx))
	})
	return err
}
