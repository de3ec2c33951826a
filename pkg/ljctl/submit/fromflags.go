package submit

import (
	"fmt"
	"path"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// localFlags names the command's own flags, sorted.
func localFlags(cmd *cobra.Command) []string {
	var out []string
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { out = append(out, f.Name) })
	return out
}

// fromFlags makes the one object that the flags describe.
func (o *options) fromFlags(c config.Config) (*plan, error) {
	s, notes, err := o.spec(c)
	if err != nil {
		return nil, err
	}
	if bad := checkName(s); bad != nil {
		return nil, invalidReason(*bad)
	}
	u, err := build(s, c)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		fmt.Fprintln(o.f.Streams.ErrOut, cliutil.Escape(n))
	}
	return &plan{items: []planned{{object: u, source: "flags"}}}, nil
}

func invalidReason(r reason.Reason) error {
	err := invalid(r.Code, "%s", r.Sentence())
	if fix := r.Fix(); fix != "" {
		return cliutil.WithHint(err, "%s", fix)
	}
	return err
}

// spec reads the flags' values. notes are what the user should know about
// values that were added or converted.
func (o *options) spec(c config.Config) (spec, []string, error) {
	ns, _, err := o.f.Namespace()
	if err != nil {
		return spec{}, nil, err
	}
	s := spec{
		kind: kind(o.kind), name: o.name, generate: o.generate, namespace: ns, image: o.image, command: o.command,
		workers: o.workers, rdma: o.rdma, workingDir: o.workingDir, pullPolicy: o.pullPolicy, pullSecret: o.pullSecret,
		serviceAccount: o.serviceAccount, gpuModel: o.gpuModel, priorityClass: o.priorityClass,
		backoffLimit: int32(o.backoffLimit), restart: o.restart, scheduler: o.scheduler, runtimeClass: o.runtimeClass,
	}
	if s.kind == kindAuto {
		if s.kind = kindJob; s.workers > 1 {
			s.kind = kindJobSet
		}
	}
	if o.changed("ttl-after-finished") {
		s.ttl = rounded(o.ttl)
	}
	if o.changed("deadline") {
		s.deadline = rounded(o.deadline)
	}
	notes, err := o.readSizing(&s, c)
	if err != nil {
		return spec{}, nil, err
	}
	for _, read := range []func(*spec) error{o.readAmounts, o.readEnvironment, o.readMounts, o.readPlacement} {
		if err := read(&s); err != nil {
			return spec{}, nil, err
		}
	}
	return s, notes, nil
}

func rounded(d time.Duration) *time.Duration { d = d.Round(time.Second); return &d }

func (o *options) readSizing(s *spec, c config.Config) (notes []string, err error) {
	z := sizing{gpus: o.gpus, vendor: o.vendor, slice: o.slice, replica: o.replica}
	if o.core != "" {
		if z.core, err = parseCore(o.core); err != nil {
			return nil, err
		}
	}
	if o.gpuMemory != "" {
		var note string
		if z.memory, note, err = parseMemory(o.gpuMemory, c.Unit); err != nil {
			return nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	if z.shared() && z.gpus > 0 {
		z.replica, z.gpus = int(z.gpus), 0
		notes = append(notes, fmt.Sprintf("--gpus %d with shares of cards is written as the label replica: %q; the amounts are for each card", z.replica, fmt.Sprint(z.replica)))
	}
	if pin := o.vendorPin(z); pin != "" {
		notes = append(notes, fmt.Sprintf("%s is a card of any vendor, so --vendor %s adds the node selector %s=%s; give --node-selector if your nodes have another label",
			c.GPU(), pin, kube.VendorLabel, pin))
	}
	if s.rdma {
		notes = append(notes, fmt.Sprintf("--rdma adds %s: \"1\", hostNetwork, dnsPolicy ClusterFirstWithHostNet and the capability IPC_LOCK", c.RDMA()))
	}
	s.sizing = z
	return notes, nil
}

// vendorPin is the vendor that a whole card must be pinned to by a node label,
// since its resource name says "any": empty where the user says which nodes.
func (o *options) vendorPin(z sizing) string {
	if z.gpus == 0 || z.vendor == "nvidia" || z.vendor == "any" || len(o.selectors) > 0 || o.gpuModel != "" {
		return ""
	}
	return z.vendor
}

func (o *options) readAmounts(s *spec) (err error) {
	if s.cpu, err = parseAmount("cpu", o.cpu); err != nil {
		return err
	}
	if s.memory, err = parseAmount("memory", o.memory); err != nil {
		return err
	}
	s.shm, err = parseAmount("shm-size", o.shm)
	return err
}

func (o *options) readEnvironment(s *spec) (err error) {
	if s.env, err = parseEnv(o.env); err != nil {
		return err
	}
	if s.envFrom, err = parseEnvFrom(o.envFrom); err != nil {
		return err
	}
	if s.workingDir != "" && !path.IsAbs(s.workingDir) {
		return cliutil.Usagef("--working-dir %q: must begin with /", s.workingDir)
	}
	return nil
}

func (o *options) readMounts(s *spec) error {
	taken := map[string]bool{}
	if s.shm != nil {
		taken["/dev/shm"] = true
	}
	add := func(flag string, list []string, config bool) error {
		for _, text := range list {
			m, err := parseMount(flag, text, config)
			if err != nil {
				return err
			}
			if taken[m.path] {
				return cliutil.Usagef("--%s %q: something else is mounted at %s", flag, text, m.path)
			}
			taken[m.path] = true
			s.mounts = append(s.mounts, m)
		}
		return nil
	}
	if err := add("mount", o.mounts, false); err != nil {
		return err
	}
	return add("config-map", o.configMaps, true)
}

func (o *options) readPlacement(s *spec) (err error) {
	if s.nodeSelector, err = parsePairs("node-selector", o.selectors, false); err != nil {
		return err
	}
	if pin := o.vendorPin(s.sizing); pin != "" {
		s.nodeSelector = map[string]string{kube.VendorLabel: pin}
	}
	if s.labels, err = parsePairs("labels", o.labels, false); err != nil {
		return err
	}
	if s.annotations, err = parsePairs("annotation", o.annotations, true); err != nil {
		return err
	}
	for _, text := range o.tolerations {
		t, err := parseToleration(text)
		if err != nil {
			return err
		}
		s.tolerations = append(s.tolerations, t)
	}
	return nil
}
