package config

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/render"
)

const viewLong = `Print the settings that hold. Those of the user are taken from a flag, else from
the environment (LJ_*), else from the settings file, else from the default.
Those of the cluster are in the ConfigMap lj-system/lj-config and are the same
for the scheduler, the agents and ljctl.`

// NewCmd makes the command and its subcommands.
func NewCmd(f *cliutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show settings and where they come from",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newView(f), newPath(f))
	return cmd
}

type viewOptions struct {
	f      *cliutil.Factory
	origin bool
	output string
}

// View is what "config view" prints.
type View struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	User       []Value `json:"user"`
	Cluster    []Value `json:"cluster"`
	// ClusterOrigin says where the cluster's settings were read.
	ClusterOrigin string `json:"clusterOrigin"`
}

// Value is one setting.
type Value struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func newView(f *cliutil.Factory) *cobra.Command {
	o := &viewOptions{f: f}
	cmd := &cobra.Command{
		Use:               "view",
		Short:             "Print the settings that hold",
		Long:              viewLong,
		Example:           "  # With the origin of each\n  ljctl config view --show-origin",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&o.origin, "show-origin", false, "Print where each setting comes from")
	cliutil.OutputFlag(cmd, &o.output, "", "json", "yaml")
	return cmd
}

func (o *viewOptions) run(ctx context.Context) error {
	c, origin, err := o.f.ClusterConfig(ctx)
	if err != nil {
		return err
	}
	v := viewOf(o.f.Settings, kube.ConfigValues(c), origin)
	if o.output != "" {
		return cliutil.PrintObject(o.f.Streams.Out, o.output, v)
	}
	if origin.Kind == kube.FromDefault {
		fmt.Fprintf(o.f.Streams.ErrOut, "the cluster's settings are %s\n", cliutil.Escape(origin.String()))
	}
	t := &render.Table{Headers: []string{"SCOPE", "KEY", "VALUE"}}
	if o.origin {
		t.Headers = append(t.Headers, "ORIGIN")
	}
	for _, s := range []struct {
		scope string
		list  []Value
	}{{"user", v.User}, {"cluster", v.Cluster}} {
		for _, x := range s.list {
			t.Row(s.scope, x.Key, x.Value, x.Origin)
		}
	}
	return t.Print(o.f.Streams.Out, false)
}

func viewOf(s *cliutil.Settings, values []kube.ConfigValue, origin kube.Origin) View {
	v := View{APIVersion: kube.SnapshotAPIVersion, Kind: "ConfigView", ClusterOrigin: origin.String()}
	for _, k := range cliutil.SettingList() {
		val, from := s.Get(k.Key)
		v.User = append(v.User, Value{k.Key, val, from})
	}
	for _, k := range values {
		from := "default"
		if origin.Sets(k.Key) {
			from = origin.String()
		}
		v.Cluster = append(v.Cluster, Value{k.Key, k.Value, from})
	}
	return v
}

func newPath(f *cliutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:               "path",
		Short:             "Print where the settings file is looked for",
		Long:              "Print the settings file that is in use, or, if there is none, the places where one\nis looked for, first things first.",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if file := f.Settings.File(); file != "" {
				_, err := fmt.Fprintln(f.Streams.Out, file)
				return err
			}
			fmt.Fprintln(f.Streams.ErrOut, "there is no settings file; it would be the first of these:")
			for _, p := range cliutil.SettingsPaths() {
				if _, err := fmt.Fprintln(f.Streams.Out, p); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
