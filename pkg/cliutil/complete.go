package cliutil

import (
	"context"
	"sort"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/pkg/kube"
)

// Completion must never hang a shell, and a long list helps nobody.
const (
	completionWait  = 2 * time.Second
	completionLimit = 200
)

// Completer finds the candidates for one argument or flag.
type Completer = func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective)

// CompleteWith makes a Completer from a function that asks the cluster; an
// error or a slow answer gives no candidates and no noise.
func CompleteWith(get func(ctx context.Context) ([]string, error)) Completer {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionWait)
		defer cancel()
		out, err := get(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		sort.Strings(out)
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// Once limits a Completer to the first argument.
func Once(c Completer) Completer {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c(cmd, args, toComplete)
	}
}

// RegisterCompletions adds completion to the flags of AddFlags.
func RegisterCompletions(f *Factory, root *cobra.Command) {
	reg := func(flag string, c Completer) {
		if err := root.RegisterFlagCompletionFunc(flag, c); err != nil {
			panic(err)
		}
	}
	reg("namespace", CompleteWith(f.namespaces))
	reg("context", CompleteWith(f.kubeconfigNames("context")))
	reg("cluster", CompleteWith(f.kubeconfigNames("cluster")))
	reg("user", CompleteWith(f.kubeconfigNames("user")))
	complete(root, "color", "auto", "always", "never")
}

func (f *Factory) namespaces(ctx context.Context) ([]string, error) {
	c, err := f.Clientset()
	if err != nil {
		return nil, err
	}
	l, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: completionLimit, ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range l.Items {
		out = append(out, l.Items[i].Name)
	}
	return out, nil
}

func (f *Factory) kubeconfigNames(what string) func(context.Context) ([]string, error) {
	return func(context.Context) ([]string, error) {
		raw, err := f.ConfigFlags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, err
		}
		var out []string
		switch what {
		case "context":
			for n := range raw.Contexts {
				out = append(out, n)
			}
		case "cluster":
			for n := range raw.Clusters {
				out = append(out, n)
			}
		case "user":
			for n := range raw.AuthInfos {
				out = append(out, n)
			}
		}
		return out, nil
	}
}

// CompletePods completes names of pods in the namespace of the command line,
// those that keep says yes to, or all if it is nil.
func (f *Factory) CompletePods(keep func(kube.PodMeta) bool) Completer {
	return CompleteWith(func(ctx context.Context) ([]string, error) {
		c, err := f.Clientset()
		if err != nil {
			return nil, err
		}
		ns, _, err := f.Namespace()
		if err != nil {
			return nil, err
		}
		l, err := c.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{Limit: completionLimit, ResourceVersion: "0"})
		if err != nil {
			return nil, err
		}
		var out []string
		for i := range l.Items {
			p := &l.Items[i]
			if keep == nil || keep(kube.PodMeta{Name: p.Name, Phase: string(p.Status.Phase), Scheduler: p.Spec.SchedulerName, Node: p.Spec.NodeName}) {
				out = append(out, p.Name)
			}
		}
		return out, nil
	})
}
