// Package scheduler is the command "ljnode scheduler".
package scheduler

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	logsapi "k8s.io/component-base/logs/api/v1"
	// The format json.
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/config"
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
	var logs *logsapi.LoggingConfiguration
	cmd := &cobra.Command{
		Use:               "scheduler",
		Short:             "Run the scheduler for GPU pods",
		Long:              long,
		Example:           example,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), o, logs, streams)
		},
	}
	logs = addLogFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Kubeconfig file; without it, the service account of the pod")
	f.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "Schedule only while holding the Lease "+kube.Namespace+"/"+kube.SchedulerLease)
	f.StringVar(&o.BindAddress, "bind-address", o.BindAddress, "IP address for /healthz, /readyz and /metrics")
	f.IntVar(&o.SecurePort, "secure-port", o.SecurePort, "Port for /healthz, /readyz and /metrics over TLS; 0 serves none")
	policy := "Policy for %s: " + string(config.Binpack) + " or " + string(config.Spread) + "; without it, as the cluster's settings say"
	f.StringVar((*string)(&o.Policies.NodePolicy), "node-policy", "", fmt.Sprintf(policy, "nodes"))
	f.StringVar((*string)(&o.Policies.CardPolicy), "card-policy", "", fmt.Sprintf(policy, "the cards of a node"))
	for _, name := range []string{"node-policy", "card-policy"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions([]string{string(config.Binpack), string(config.Spread)}, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

func run(ctx context.Context, o server.Options, logs *logsapi.LoggingConfiguration, streams genericiooptions.IOStreams) error {
	if o.SecurePort < 0 || o.SecurePort > 65535 {
		return cliutil.Usagef("--secure-port %d: must be 0 to 65535", o.SecurePort)
	}
	if net.ParseIP(o.BindAddress) == nil {
		return cliutil.Usagef("--bind-address %q: must be an IP address", o.BindAddress)
	}
	for flag, p := range map[string]config.Policy{"--node-policy": o.Policies.NodePolicy, "--card-policy": o.Policies.CardPolicy} {
		if _, err := config.ParsePolicy(string(p)); p != "" && err != nil {
			return cliutil.Usagef("%s: %v", flag, err)
		}
	}
	if bad := logsapi.Validate(logs, nil, nil); len(bad) > 0 {
		return cliutil.Usagef("log flags: %v", bad.ToAggregate())
	}
	if err := logsapi.ValidateAndApplyWithOptions(logs, &logsapi.LoggingOptions{ErrorStream: streams.ErrOut, InfoStream: streams.Out}, nil); err != nil {
		return fmt.Errorf("log flags: %w", err)
	}
	defer klog.Flush()
	err := server.Run(ctx, o)
	if err != nil && ctx.Err() == nil {
		return cliutil.Explain(err)
	}
	return nil
}

// addLogFlags adds the flags of Kubernetes' own components for their logs.
func addLogFlags(cmd *cobra.Command) *logsapi.LoggingConfiguration {
	logs := logsapi.NewLoggingConfiguration()
	f := cmd.Flags()
	logsapi.AddFlags(logs, f)
	f.Lookup("v").Usage = "Verbosity of the log on the error stream; 2 shows each refusal"
	f.Lookup("logging-format").Usage = "Format of the log: text, or json with one object a line"
	// For output streams that this command does not split.
	for _, name := range []string{"log-flush-frequency", "log-text-split-stream", "log-text-info-buffer-size", "log-json-split-stream", "log-json-info-buffer-size"} {
		f.Lookup(name).Hidden = true
	}
	return logs
}
