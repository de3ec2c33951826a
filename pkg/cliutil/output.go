package cliutil

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// outputValue is -o: one of a closed list, checked when it is parsed.
type outputValue struct {
	dst     *string
	formats []string
}

func (v *outputValue) String() string {
	if v.dst == nil {
		return ""
	}
	return *v.dst
}
func (v *outputValue) Type() string { return "format" }
func (v *outputValue) Set(s string) error {
	if !slices.Contains(v.formats, s) {
		return fmt.Errorf("must be %s", oneOf(v.formats))
	}
	*v.dst = s
	return nil
}

// OutputFlag adds -o/--output with a closed list of formats and completion
// for them. def is the value without the flag and may be outside the list.
func OutputFlag(cmd *cobra.Command, dst *string, def string, formats ...string) {
	*dst = def
	cmd.Flags().VarP(&outputValue{dst, formats}, "output", "o", "Output format: "+oneOf(formats))
	complete(cmd, "output", formats...)
}

// EnumFlag adds a flag whose value is one of a closed list, with completion.
func EnumFlag(cmd *cobra.Command, dst *string, name, def, usage string, values ...string) {
	*dst = def
	cmd.Flags().Var(&outputValue{dst, values}, name, usage+": "+oneOf(values))
	complete(cmd, name, values...)
}

func complete(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that does not exist or is registered twice.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// PrintObject writes v as one document of JSON or YAML.
func PrintObject(w io.Writer, format string, v any) error {
	switch format {
	case "json":
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", b)
		return err
	case "yaml":
		b, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	}
	return fmt.Errorf("output format %q: must be json or yaml", format)
}

// Env is the name of the setting's environment variable.
func (s Setting) Env() string {
	return envPrefix + "_" + strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(s.Key))
}
