package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sandbox/demo"
	"lj.aliyun.com/kit/pkg/sandbox/statedir"
)

// demoNamespace is where the demonstration submits its jobs.
const demoNamespace = "lj-demo"

func newDemo(p *Program) *cobra.Command {
	var o upOptions
	var ljctl string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start a cluster for a minute and run the main job on it, step by step",
		Long: `Start a cluster of its own, submit the example jobs, show the cards that each was given, and
explain a broken, an impossible and a fragmented job. The exit code is 0 only if everything was as
expected. Nothing is left behind.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), p, o, ljctl) },
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&ljctl, "ljctl", "", "Program that is demonstrated (default: ljctl beside ljsandbox, else on PATH)")
	return cmd
}

// runDemo serves a sandbox in a temporary directory and runs the
// demonstration on it once it is ready; whichever ends first ends the other.
func runDemo(ctx context.Context, p *Program, o upOptions, ljctl string) error {
	ljctl, err := findProgram("ljctl", ljctl)
	if err != nil {
		return cliutil.WithHint(err, "build it with `make build`, or name it with --ljctl")
	}
	tmp, err := os.MkdirTemp("", "ljsandbox-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	s, err := o.serveOptions(statedir.Dir(tmp))
	if err != nil {
		return err
	}
	start := time.Now()
	ready := make(chan statedir.Record, 1)
	s.Ready = func(r statedir.Record) { ready <- r }
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- p.Serve(serving, s) }()
	select {
	case err := <-served:
		return errors.Join(err, ctx.Err())
	case r := <-ready:
		fmt.Fprintf(p.Streams.Out, "A cluster is ready after %.1f s: Kubernetes %s, %d nodes, %d cards\n",
			time.Since(start).Seconds(), r.Kubernetes, r.Nodes, r.Cards)
	}
	err = demonstrate(ctx, p, s.Dir.AdminKubeconfig(), ljctl)
	stop()
	if end := <-served; err == nil {
		err = end
	}
	fmt.Fprintf(p.Streams.Out, "\nThe demonstration took %.1f s; the cluster is gone.\n", time.Since(start).Seconds())
	return err
}

func demonstrate(ctx context.Context, p *Program, kubeconfig, ljctl string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = 100, 200
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	settings, _ := kube.ReadConfig(ctx, client)
	return demo.Run(ctx, demo.Options{
		Out: p.Streams.Out, Ljctl: ljctl, Kubeconfig: kubeconfig, Client: client, Namespace: demoNamespace, Config: settings,
	})
}
