package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/sandbox/fleet"
)

func newFleet(p *Program) *cobra.Command {
	return &cobra.Command{
		Use:   "fleet [FILE]",
		Short: "Print the built-in fleet file, or check one",
		Example: `  ljsandbox fleet > my-fleet.yaml
  ljsandbox fleet my-fleet.yaml
  ljsandbox up --fleet my-fleet.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cliutil.Usagef("%s takes one file, got %d", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				fmt.Fprint(p.Streams.Out, fleet.DefaultText())
				return nil
			}
			f, err := readFleet(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(p.Streams.Out, "%s is good: %d nodes with %d cards\n", args[0], len(f.Nodes), f.Cards())
			return nil
		},
	}
}
