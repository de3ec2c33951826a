package cliutil

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"lj.aliyun.com/kit/pkg/core/spelling"
)

// Setting is one key that a user may set for himself. Only scalars: labels,
// resource names and other maps have keys with dots and capitals, which
// viper would change.
type Setting struct {
	Key     string
	Default string
	// Enum are the allowed values; nil allows any.
	Enum []string
	// Duration: the value must be one, such as 30s.
	Duration bool
	Meaning  string
}

// SettingList is the closed list of settings, in the order of the manual.
func SettingList() []Setting {
	return []Setting{
		{Key: "color", Default: "auto", Enum: []string{"auto", "always", "never"}, Meaning: "colour in tables and reports"},
		{Key: "submit.vendor", Default: "nvidia", Enum: []string{"nvidia", "ppu", "amd", "any"}, Meaning: "whose cards --gpus asks for"},
		{Key: "submit.kind", Default: "auto", Enum: []string{"auto", "pod", "job", "jobset"}, Meaning: "the kind of object that submit makes"},
		{Key: "submit.image-pull-policy", Enum: []string{"", "Always", "IfNotPresent", "Never"}, Meaning: "of the container that submit makes"},
		{Key: "submit.image-pull-secret", Meaning: "name of a secret in the job's namespace"},
		{Key: "submit.service-account", Meaning: "service account of the pods that submit makes"},
		{Key: "submit.priority-class", Meaning: "priority class of the pods that submit makes"},
		{Key: "submit.timeout", Default: "0s", Duration: true, Meaning: "how long submit --wait waits, 0s for ever"},
	}
}

// envPrefix begins the names of the environment's settings: LJ_COLOR.
const envPrefix = "LJ"

// maxSettingsBytes bounds the file; a real one has a few lines.
const maxSettingsBytes = 1 << 20

// Settings are the user's own: flag > env LJ_* > file > default. Load once,
// in the root command.
type Settings struct {
	v     *viper.Viper
	flags map[string]*pflag.Flag
	path  string // --config
	file  string // the file that was read, empty for none
}

// NewSettings returns the defaults.
func NewSettings() *Settings {
	s := &Settings{v: viper.New(), flags: map[string]*pflag.Flag{}}
	s.v.SetEnvPrefix(envPrefix)
	s.v.SetEnvKeyReplacer(strings.NewReplacer("-", "_", ".", "_"))
	for _, k := range SettingList() {
		s.v.SetDefault(k.Key, k.Default)
		// BindEnv fails only without a key.
		_ = s.v.BindEnv(k.Key)
	}
	return s
}

// AddFlags adds --config and --color.
func (s *Settings) AddFlags(fl *pflag.FlagSet) {
	fl.StringVar(&s.path, "config", "", "Settings file of ljctl (default: the first of 'ljctl config path')")
	fl.String("color", "auto", "Colour the output: auto, always or never")
	s.Bind("color", fl.Lookup("color"))
}

// Bind lets a flag, once set on the command line, override the key. An
// unknown key is a mistake in the program.
func (s *Settings) Bind(key string, f *pflag.Flag) {
	if !slices.ContainsFunc(SettingList(), func(k Setting) bool { return k.Key == key }) {
		panic("cliutil: no setting " + key)
	}
	s.flags[key] = f
}

// SettingsPaths are the places that are looked into when neither --config nor
// LJ_CONFIG names a file; the first that exists counts.
func SettingsPaths() []string {
	var out []string
	if d := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(d) {
		out = append(out, filepath.Join(d, "ljctl", "config.yaml"))
	} else if home, err := os.UserHomeDir(); err == nil {
		out = append(out, filepath.Join(home, ".config", "ljctl", "config.yaml"))
	}
	return append(out, "/etc/ljctl/config.yaml")
}

// Load reads the file and checks all values. A file that was named and is
// not there is an error, a missing default file is not.
func (s *Settings) Load() error {
	path, named := s.path, "--config"
	if path == "" {
		path, named = os.Getenv(envPrefix+"_CONFIG"), envPrefix+"_CONFIG"
	}
	paths := []string{path}
	if path == "" {
		paths, named = SettingsPaths(), ""
	}
	for _, p := range paths {
		found, err := s.read(p)
		if err != nil {
			return WithHint(fmt.Errorf("settings %s: %w", p, err), "the keys are listed by: ljctl config view")
		}
		if found {
			s.file = p
			break
		}
		if named != "" {
			return WithHint(fmt.Errorf("settings %s: %w", p, fs.ErrNotExist), "%s names a file that is not there", named)
		}
	}
	return s.check()
}

// read takes one file in, or reports that it is not there.
func (s *Settings) read(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) && s.path == "" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSettingsBytes {
		return false, fmt.Errorf("not a settings file: must be a regular file of at most %d bytes", maxSettingsBytes)
	}
	v := viper.New()
	v.SetConfigFile(path)
	v.SetConfigType("yaml")
	if err := v.ReadInConfig(); err != nil {
		return false, fmt.Errorf("not valid YAML: %s", strings.TrimPrefix(firstLine(errors.Unwrap(err)), "yaml: "))
	}
	var known []string
	for _, k := range SettingList() {
		known = append(known, k.Key)
	}
	var problems []error
	keys := v.AllKeys()
	sort.Strings(keys)
	for _, k := range keys {
		if slices.Contains(known, k) {
			continue
		}
		if near := spelling.Closest(k, known); near != "" {
			problems = append(problems, fmt.Errorf("unknown key %s, did you mean %s?", k, near))
		} else {
			problems = append(problems, fmt.Errorf("unknown key %s", k))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return false, err
	}
	return true, s.v.MergeConfigMap(v.AllSettings())
}

// check looks at every value, wherever it comes from.
func (s *Settings) check() error {
	var problems []error
	for _, k := range SettingList() {
		val, origin := s.Get(k.Key)
		if k.Enum != nil && !slices.Contains(k.Enum, val) {
			problems = append(problems, fmt.Errorf("%s: %s is %q: must be %s", origin, k.Key, val, oneOf(k.Enum)))
		}
		if k.Duration {
			if _, err := time.ParseDuration(val); err != nil {
				problems = append(problems, fmt.Errorf("%s: %s is %q: must be a duration such as 90s or 10m", origin, k.Key, val))
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &ExitError{Code: 2, Err: errors.Join(problems...)}
}

func oneOf(enum []string) string {
	var words []string
	for _, e := range enum {
		if e != "" {
			words = append(words, e)
		}
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// Get returns the value of a key and where it comes from: "flag --color",
// "env LJ_COLOR", "file PATH", or "default".
func (s *Settings) Get(key string) (value, origin string) {
	if f := s.flags[key]; f != nil && f.Changed {
		return f.Value.String(), "flag --" + f.Name
	}
	env := Setting{Key: key}.Env()
	if os.Getenv(env) != "" {
		return s.v.GetString(key), "env " + env
	}
	if s.v.InConfig(key) {
		return s.v.GetString(key), "file " + s.file
	}
	return s.v.GetString(key), "default"
}

// String returns the value of a key.
func (s *Settings) String(key string) string { v, _ := s.Get(key); return v }

// Duration returns the value of a duration key, 0 if it is not one.
func (s *Settings) Duration(key string) time.Duration {
	d, err := time.ParseDuration(s.String(key))
	if err != nil {
		return 0
	}
	return d
}

// File is the settings file that was read, empty if there is none.
func (s *Settings) File() string { return s.file }
