// Package scheduler is the command "ljnode scheduler".
package scheduler

import (
	"context"
	"flag"
	"io"
	"net"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched/server"
)

const long = `Run the scheduler ` + kube.SchedulerName + `.

It places the pods that name it in schedulerName and runs beside the cluster's
own scheduler. It works with API servers from Kubernetes 1.28 on. Settings that
the whole cluster shares are in the ConfigMap ` + kube.Namespace + `/` + kube.ConfigMap + ` and
need no restart.

It ends with code 0 on SIGTERM, after giving its lease back, and with code 1
when it cannot start or has lost the lease; run it where it is started again.`

const example = `  # In a pod, with its service account
  ljnode scheduler --bind-address 0.0.0.0

  # From outside, alone
  ljnode scheduler --kubeconfig ~/.kube/config --leader-elect=false -v 2`

// NewCmd makes the command.
func NewCmd(streams genericiooptions.IOStreams) *cobra.Command {
	o := server.Options{LeaderElect: true, BindAddress: "127.0.0.1", SecurePort: server.DefaultPort,
		UserAgent: cliutil.UserAgent(kube.SchedulerName), Version: cliutil.Version}
	cmd := &cobra.Command{
		Use:               "scheduler",
		Short:             "Run the scheduler for GPU pods",
		Long:              long,
		Example:           example,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Kubeconfig file; without it, the service account of the pod")
	f.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "Schedule only while holding the Lease "+kube.Namespace+"/"+kube.SchedulerLease)
	f.StringVar(&o.BindAddress, "bind-address", o.BindAddress, "IP address for /healthz, /readyz and /metrics")
	f.IntVar(&o.SecurePort, "secure-port", o.SecurePort, "Port for /healthz, /readyz and /metrics over TLS; 0 serves none")
	addLogFlags(cmd, streams)
	return cmd
}

func run(ctx context.Context, o server.Options) error {
	if o.SecurePort < 0 || o.SecurePort > 65535 {
		return cliutil.Usagef("--secure-port %d: must be 0 to 65535", o.SecurePort)
	}
	if net.ParseIP(o.BindAddress) == nil {
		return cliutil.Usagef("--bind-address %q: must be an IP address", o.BindAddress)
	}
	err := server.Run(ctx, o)
	if err != nil && ctx.Err() == nil {
		return cliutil.Explain(err)
	}
	return nil
}

// addLogFlags adds -v and --vmodule of klog.
func addLogFlags(cmd *cobra.Command, streams genericiooptions.IOStreams) {
	var fs flag.FlagSet
	klog.InitFlags(&fs)
	klog.LogToStderr(false)
	_ = fs.Set("stderrthreshold", "FATAL")
	// klog writes a line to the output of its severity and to those of all
	// lower ones; only the lowest goes anywhere, or errors would come thrice.
	klog.SetOutput(io.Discard)
	klog.SetOutputBySeverity("INFO", streams.ErrOut)
	for _, name := range []string{"v", "vmodule"} {
		cmd.Flags().AddGoFlag(fs.Lookup(name))
	}
	cmd.Flags().Lookup("v").Usage = "Verbosity of the log on the error stream; 2 shows each binding and refusal"
}
