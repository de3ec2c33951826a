package ljctl

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// usage prints what follows a command's description in its help. The flags
// that every command takes are left to "options", as in kubectl, or they
// would bury the command's own.
func usage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprint(w, "Usage:")
	if c.Runnable() {
		fmt.Fprintf(w, "\n  %s", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n  %s COMMAND [flags]", c.CommandPath())
	}
	fmt.Fprintln(w)
	if len(c.Aliases) > 0 {
		fmt.Fprintf(w, "\nAliases:\n  %s\n", c.NameAndAliases())
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
	}
	usageCommands(w, c)
	if c.HasParent() && c.HasAvailableLocalFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", c.LocalFlags().FlagUsages())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n\"%s COMMAND --help\" tells more about a command.\n", c.CommandPath())
	}
	if c.Runnable() || !c.HasParent() {
		fmt.Fprintf(w, "\"%s options\" lists the flags that every command takes.\n", c.Root().DisplayName())
	}
	return nil
}

// usageCommands lists the subcommands under the headings of their groups,
// then the topics that are no commands.
func usageCommands(w io.Writer, c *cobra.Command) {
	section := func(title string, pick func(*cobra.Command) bool) {
		first := true
		for _, sub := range c.Commands() {
			if !pick(sub) {
				continue
			}
			if first {
				fmt.Fprintf(w, "\n%s\n", title)
				first = false
			}
			fmt.Fprintf(w, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
	for _, g := range c.Groups() {
		section(g.Title, func(s *cobra.Command) bool {
			return s.GroupID == g.ID && (s.IsAvailableCommand() || s.Name() == "help")
		})
	}
	section("Commands:", func(s *cobra.Command) bool {
		return s.GroupID == "" && (s.IsAvailableCommand() || s.Name() == "help")
	})
	section("Topics:", func(s *cobra.Command) bool { return s.IsAdditionalHelpTopicCommand() })
}
