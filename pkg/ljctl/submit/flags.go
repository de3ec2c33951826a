package submit

import (
	"math"
	"time"

	"github.com/spf13/cobra"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/kube"
)

func (o *options) addFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVarP(&o.files, "filename", "f", nil, "Take the objects from this file or folder, - for standard input")
	fl.BoolVarP(&o.recursive, "recursive", "R", false, "Take folders with all below them")
	fl.StringVar(&o.name, "name", "", "Name of the job, if it is not the first argument")
	fl.StringVar(&o.generate, "generate-name", "", "Let the server complete this name")
	fl.StringVar(&o.image, "image", "", "Image of the container")
	cliutil.EnumFlag(cmd, &o.kind, "kind", "auto", "Kind of object; auto is a JobSet for several workers, else a Job", "auto", "pod", "job", "jobset")

	fl.Int64Var(&o.gpus, "gpus", 0, "Whole cards of each pod")
	cliutil.EnumFlag(cmd, &o.vendor, "vendor", "nvidia", "Whose whole cards; ppu and amd also add a node selector, since their resource name says any vendor", "nvidia", "ppu", "amd", "any")
	fl.StringVar(&o.core, "gpu-core", "", "Share of a card's compute in percent, 1 to 100")
	fl.StringVar(&o.gpuMemory, "gpu-memory", "", "Memory of each card in the cluster's unit, or with a unit: 4Gi, 512Mi")
	fl.Int64Var(&o.slice, "gpu-slice", 0, "Compute slices of a MIG instance: 1, 2, 3, 4 or 7")
	fl.IntVar(&o.replica, "replica", 0, "Number of equal shares or slices, each on a card of its own")
	fl.IntVar(&o.workers, "workers", 1, "Number of pods")
	fl.BoolVar(&o.rdma, "rdma", false, "Place the cards near RDMA NICs; sets hostNetwork and IPC_LOCK")
	fl.StringVar(&o.gpuModel, "gpu-model", "", "Only nodes whose model label has this value")

	fl.StringVar(&o.cpu, "cpu", "", "CPUs of each pod")
	fl.StringVar(&o.memory, "memory", "", "Main memory of each pod, such as 64Gi")
	fl.StringVar(&o.shm, "shm-size", "", "Size of /dev/shm, such as 16Gi; it counts as main memory")
	fl.StringArrayVarP(&o.env, "env", "e", nil, "Environment variable NAME=VALUE; may be repeated")
	fl.StringArrayVar(&o.envFrom, "env-from", nil, "Environment from configmap/NAME or secret/NAME; may be repeated")
	fl.StringArrayVar(&o.mounts, "mount", nil, "Claim to mount, CLAIM:/PATH[:ro]; may be repeated")
	fl.StringArrayVar(&o.configMaps, "config-map", nil, "ConfigMap to mount, NAME:/PATH; may be repeated")
	fl.StringVar(&o.workingDir, "working-dir", "", "Working directory of the command")
	fl.StringVar(&o.pullSecret, "image-pull-secret", "", "Secret with the registry's login")
	cliutil.EnumFlag(cmd, &o.pullPolicy, "image-pull-policy", "", "When to pull the image", "Always", "IfNotPresent", "Never")
	fl.StringVar(&o.serviceAccount, "service-account", "", "Service account of the pods")

	fl.StringArrayVar(&o.selectors, "node-selector", nil, "Only nodes with this label, KEY=VALUE; may be repeated")
	fl.StringArrayVar(&o.tolerations, "toleration", nil, "Tolerated taint KEY[=VALUE][:EFFECT], * for all; may be repeated")
	fl.StringVar(&o.priorityClass, "priority-class", "", "Priority class of the pods")
	fl.StringArrayVar(&o.labels, "labels", nil, "Label KEY=VALUE of the object and its pods; may be repeated")
	fl.StringArrayVar(&o.annotations, "annotation", nil, "Annotation KEY=VALUE of the object; may be repeated")
	fl.DurationVar(&o.ttl, "ttl-after-finished", 0, "Delete the job so long after its end, such as 24h")
	fl.DurationVar(&o.deadline, "deadline", 0, "Stop the job after so long, such as 8h")
	fl.IntVar(&o.backoffLimit, "backoff-limit", 2, "Failed pods before the job has failed")
	cliutil.EnumFlag(cmd, &o.restart, "restart", "Never", "Restart containers in their pod", "Never", "OnFailure")
	fl.StringVar(&o.scheduler, "scheduler", kube.SchedulerName, "Scheduler of the pods")
	fl.StringVar(&o.runtimeClass, "runtime-class", kube.RuntimeClass, "Runtime class of the pods")

	cliutil.EnumFlag(cmd, &o.dryRun, "dry-run", dryNone, "Create nothing; with server, ask the server whether it would", dryNone, dryClient, dryServer)
	cliutil.OutputFlag(cmd, &o.output, "", "json", "yaml", "name")
	fl.BoolVar(&o.preview, "preview", false, "Show the request as understood and whether it fits now; create nothing")
	cliutil.EnumFlag(cmd, &o.wait, "wait", "", "Wait until it runs or has ended", waitRunning, waitEnd)
	fl.Lookup("wait").NoOptDefVal = waitEnd
	fl.DurationVar(&o.timeout, "timeout", 0, "How long --wait waits, 0 for ever")
	for key, flag := range settings {
		o.f.Settings.Bind(key, fl.Lookup(flag))
	}
}

// settings are the flags that a user may have set for himself.
var settings = map[string]string{
	"submit.vendor": "vendor", "submit.kind": "kind", "submit.image-pull-policy": "image-pull-policy",
	"submit.image-pull-secret": "image-pull-secret", "submit.service-account": "service-account",
	"submit.priority-class": "priority-class", "submit.timeout": "timeout",
}

// fromJob are the flags that go with a file too; all others describe a job.
var withFile = map[string]bool{"filename": true, "recursive": true, "dry-run": true, "output": true, "preview": true,
	"wait": true, "timeout": true, "help": true}

// complete takes arguments and settings in and checks how flags go together.
func (o *options) complete(cmd *cobra.Command, args []string) error {
	o.changed = cmd.Flags().Changed
	before := cmd.ArgsLenAtDash()
	if before < 0 {
		before = len(args)
	}
	o.command = args[before:]
	s := o.f.Settings
	o.vendor, o.kind = s.String("submit.vendor"), s.String("submit.kind")
	o.pullPolicy, o.pullSecret = s.String("submit.image-pull-policy"), s.String("submit.image-pull-secret")
	o.serviceAccount, o.priorityClass = s.String("submit.service-account"), s.String("submit.priority-class")
	o.timeout = s.Duration("submit.timeout")
	if before > 1 {
		return cliutil.WithHint(cliutil.Usagef("unexpected argument %q", args[1]), "put the command after --: ljctl submit NAME --image IMAGE -- COMMAND …")
	}
	if before == 1 {
		if o.name != "" && o.name != args[0] {
			return cliutil.Usagef("two names: %q and --name %q", args[0], o.name)
		}
		o.name = args[0]
	}
	if err := o.together(); err != nil {
		return err
	}
	if len(o.files) == 0 {
		return o.checkFlags()
	}
	if o.name != "" || len(o.command) > 0 {
		return cliutil.Usagef("-f takes the job from a file: give no name or command with it")
	}
	for _, name := range localFlags(cmd) {
		if !withFile[name] && o.changed(name) {
			return cliutil.WithHint(cliutil.Usagef("--%s does not go with -f", name), "change the file, or describe the whole job by flags")
		}
	}
	return nil
}

func (o *options) together() error {
	switch {
	case o.preview && (o.dryRun != dryNone || o.wait != ""):
		return cliutil.Usagef("--preview creates nothing: leave --dry-run and --wait out")
	case o.wait != "" && o.dryRun != dryNone:
		return cliutil.Usagef("--dry-run creates nothing to wait for: leave --wait out")
	case o.timeout < 0:
		return cliutil.Usagef("--timeout %s: must not be negative", o.timeout)
	case o.preview && o.output == "name":
		return cliutil.Usagef("--preview has no output format name: use json or yaml")
	}
	return nil
}

// checkFlags is for a job that flags describe.
func (o *options) checkFlags() error {
	whole, shared := o.gpus != 0, o.core != "" || o.gpuMemory != "" || o.slice != 0
	switch {
	case o.name == "" && o.generate == "":
		return cliutil.WithHint(cliutil.Usagef("the job has no name"), "ljctl submit NAME --image IMAGE …, or --generate-name PREFIX-, or -f FILE")
	case o.name != "" && o.generate != "":
		return cliutil.Usagef("--generate-name does not go with a name")
	case o.image == "":
		return cliutil.WithHint(cliutil.Usagef("the job has no image"), "--image IMAGE")
	case !whole && !shared:
		return cliutil.WithHint(cliutil.Usagef("the job asks for no card"), "--gpus N, or --gpu-core and --gpu-memory, or --gpu-slice")
	case o.gpus < 0 || o.replica < 0 || o.slice < 0:
		return cliutil.Usagef("--gpus, --replica and --gpu-slice must be above 0")
	case o.core != "" && o.slice != 0:
		return cliutil.Usagef("--gpu-core (a share in time) and --gpu-slice (a MIG instance) exclude each other")
	case o.replica != 0 && whole:
		return cliutil.Usagef("--replica is for shares and slices; --gpus %d asks for that many whole cards", o.gpus)
	case o.workers < 1 || o.workers > math.MaxInt16:
		return cliutil.Usagef("--workers %d: must be 1 to %d", o.workers, math.MaxInt16)
	case o.backoffLimit < 0 || o.backoffLimit > math.MaxInt16:
		return cliutil.Usagef("--backoff-limit %d: must be 0 to %d", o.backoffLimit, math.MaxInt16)
	case o.scheduler == "" || o.runtimeClass == "":
		return cliutil.Usagef("--scheduler and --runtime-class must not be empty")
	}
	return o.checkKind()
}

func (o *options) checkKind() error {
	if kind(o.kind) == kindPod {
		switch {
		case o.workers > 1:
			return cliutil.Usagef("--kind pod makes one pod: leave --workers out")
		case o.changed("ttl-after-finished"), o.changed("backoff-limit"):
			return cliutil.Usagef("--ttl-after-finished and --backoff-limit are for jobs, not for --kind pod")
		}
	}
	for name, d := range map[string]time.Duration{"ttl-after-finished": o.ttl, "deadline": o.deadline} {
		if o.changed(name) && (d < time.Second || d > math.MaxInt32*time.Second) {
			return cliutil.Usagef("--%s %s: must be at least 1s", name, d)
		}
	}
	return nil
}
