package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/kube"
)

const long = `Write the lists that answers about this cluster rest on to a file: nodes, pods
and what else decides where pods can run. 'ljctl why-pending --snapshot FILE'
and others read it, so that a question can be answered without the cluster.

Environment, commands, secrets, tokens and annotations of other software are
left out. Lists that you may not read are named in the file, and answers that
would need them say so.`

const example = `  # To a file
  ljctl snapshot > cluster.json

  # To a file that appears only when it is whole
  ljctl snapshot --output-file cluster.json

  # For reading by people; slower for big clusters
  ljctl snapshot -o yaml | less`

type options struct {
	f      *cliutil.Factory
	format string
	file   string
}

// NewCmd makes the command.
func NewCmd(f *cliutil.Factory) *cobra.Command {
	o := &options{f: f}
	cmd := &cobra.Command{
		Use:               "snapshot",
		Short:             "Write the cluster's lists to a file",
		Long:              long,
		Example:           example,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cliutil.OutputFlag(cmd, &o.format, "json", "json", "yaml")
	cmd.Flags().StringVar(&o.file, "output-file", "", "Write to this file instead of the output")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	clients, err := o.f.Clients()
	if err != nil {
		return err
	}
	ns, _, err := o.f.Namespace()
	if err != nil {
		return err
	}
	s, err := kube.Collect(ctx, clients, kube.CollectOptions{Fallback: ns, Now: o.f.Clock.Now()})
	if err != nil {
		return err
	}
	for _, m := range s.Missing {
		fmt.Fprintf(o.f.Streams.ErrOut, "not in the snapshot: %s (%s)\n", m.Resource, cliutil.Escape(m.Why))
	}
	if o.file == "" {
		err = s.Write(o.f.Streams.Out, kube.Format(o.format))
	} else {
		err = writeFile(o.file, func(w io.Writer) error { return s.Write(w, kube.Format(o.format)) })
	}
	if err != nil {
		return cliutil.WithHint(fmt.Errorf("write the snapshot: %w", err), "check the place and the space there, or name another with --output-file")
	}
	fmt.Fprintf(o.f.Streams.ErrOut, "snapshot of %d nodes and %d pods\n", len(s.Nodes), len(s.Pods))
	return nil
}

// writeFile makes the file whole or not at all.
func writeFile(name string, write func(io.Writer) error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	if err := write(tmp); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}
