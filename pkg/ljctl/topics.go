package ljctl

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/reason"
)

// helpTopics are pages of the help that are no commands: "ljctl help
// exit-codes".
func helpTopics() []*cobra.Command {
	topic := func(name, short string, text func() string) *cobra.Command {
		c := &cobra.Command{Use: name, Short: short}
		c.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), text()) })
		return c
	}
	return []*cobra.Command{
		topic("exit-codes", "What the exit codes mean", exitCodes),
		topic("environment", "Environment variables and settings", environment),
		topic("reasons", "The reason codes and their cures", reasons),
	}
}

func exitCodes() string {
	return fmt.Sprintf(`Exit codes never depend on the output format.

  %-4d yes: OK or WARN
  %-4d an error; also ENV, where the cluster lacks a piece
  %-4d a mistake in the command line
  %-4d no: INVALID, BLOCKED or REFUSED; submit --wait: the job failed
  %-4d time is up
  %-4d not yet: WAIT or PARTIAL
  %-4d UNKNOWN: the evidence is missing
  %-4d interrupted

why-pending exits with 0 whenever it could answer, and by this table with
--exit-code. validate --strict counts WARN as no.
`, reason.ExitOK, reason.ExitError, reason.ExitUsage, reason.ExitNo, reason.ExitTimeout,
		reason.ExitNotYet, reason.ExitUnknown, reason.ExitInterrupted)
}

func environment() string {
	var b strings.Builder
	b.WriteString(`KUBECONFIG   the kubeconfig files, as for kubectl
NO_COLOR     if not empty, no colour unless --color=always
LJ_CONFIG    the settings file, as --config

A setting is taken from its flag, else from its variable, else from the
settings file, else from the default. The file is the first of:
`)
	for _, p := range cliutil.SettingsPaths() {
		fmt.Fprintf(&b, "  %s\n", p)
	}
	fmt.Fprintf(&b, "\n%-26s %-29s %s\n", "KEY", "VARIABLE", "MEANING")
	for _, s := range cliutil.SettingList() {
		fmt.Fprintf(&b, "%-26s %-29s %s\n", s.Key, s.Env(), s.Meaning)
	}
	return b.String()
}

func reasons() string {
	var b strings.Builder
	b.WriteString("Every refusal has a code of this closed list; codes are never renamed.\n")
	for _, i := range reason.Codes() {
		fmt.Fprintf(&b, "\n%s (%s)\n  %s\n", i.Code, i.Verdict, i.Meaning)
		if i.Fix != "" {
			fmt.Fprintf(&b, "  next: %s\n", i.Fix)
		}
	}
	return b.String()
}
