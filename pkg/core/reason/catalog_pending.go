package reason

// pendingCodes are about why a pod is not running although its request is
// legal, beyond what nodes and cards say.
var pendingCodes = func() []Info {
	var all []Info
	for _, list := range [][]Info{schedulerCodes, waitingCodes, ownerCodes, filterCodes, agentCodes, placedCodes, evidenceCodes} {
		all = append(all, list...)
	}
	return all
}()

// schedulerCodes are about who looks at the pod at all.
var schedulerCodes = []Info{
	{"scheduler-not-running", Blocked, CureAdmin, "the scheduler is not running: {detail}",
		"No ready pod of the scheduler exists, so nobody places the pod.",
		"kubectl -n lj-system get deployments,pods -l app.kubernetes.io/name=lj-scheduler"},
	{"scheduler-not-active", Blocked, CureAdmin, "the scheduler's lease was last renewed {detail} ago: nobody is at work",
		"The leader election lease is stale or has no holder: the scheduler has ended, is stuck or cut off.",
		"kubectl -n lj-system logs -l app.kubernetes.io/name=lj-scheduler, then restart it"},
	{"scheduling-gate", Blocked, CureUser, "scheduling gate {detail}: no scheduler looks at the pod until it is removed",
		"The pod carries a scheduling gate of somebody else than the queue; only its owner removes it.",
		"ask the owner of the gate {detail} to remove it"},
	{"queue-not-admitted", Wait, CureSelf, "the queue has not admitted it yet (gate {detail})",
		"A queue system holds the pod by its own gate until there is quota for it.",
		"look at the workload of the queue: kubectl get workloads"},
	{"queue-suspended", Blocked, CureAdmin, "suspended by the queue {detail}: there is no pod to schedule",
		"The queue system keeps the job suspended until it admits it.", "look at the workload of the queue: kubectl get workloads"},
	{"suspended-by-user", Blocked, CureUser, "suspended: there is no pod to schedule",
		"The job's spec.suspend is true and no queue is named, so nobody resumes it.", "kubectl patch {device} --type=merge -p '{\"spec\":{\"suspend\":false}}'"},
}

// waitingCodes are stages that pass.
var waitingCodes = []Info{
	{"just-created", Wait, CureSelf, "created {detail} ago: the scheduler has hardly seen it",
		"The pod is only seconds old.", "ask again in a few seconds"},
	{"about-to-schedule", Wait, CureSelf, "nothing rules it out: {want} fit now",
		"At least one node passes every check; the scheduler should place the pod at its next try.", "ask again in a minute"},
	{"not-retried", Blocked, CureAdmin, "{want} fit now, but the scheduler has not tried for {detail}",
		"Nothing rules the pod out, and the scheduler's last try is older than what changed: it may hold an old picture.",
		"re-create the pod, or restart the scheduler"},
	{"preempting", Wait, CureRelease, "preemption is under way on {device}: {detail}",
		"The pod is nominated to a node whose lower-priority pods are ending.", "wait for them to end"},
	{"stale-nomination", Blocked, CureAdmin, "nominated to {device}, {detail}",
		"The pod's nominated node does not hold what the nomination promised; the nomination is a hint only.",
		"re-create the pod, or restart the scheduler"},
	{"held-by-terminating-pod", Blocked, CureAdmin, "held by {detail}",
		"A pod that should have ended long ago still holds cards; they stay held until the object is gone.",
		"look at the node and the finalizers; force-delete only if the process is gone"},
	{"terminating-pod", Wait, CureSelf, "held by {detail}, which is ending",
		"A pod within its grace period holds the cards until it is gone.", "wait for it to end"},
	{"rollout-holds-gpu", Blocked, CureUser, "the old pod {detail} of the same deployment holds the card, and waits for this one",
		"A rolling update starts the new pod first, and no card is spare for it.",
		"set strategy.type: Recreate, or rollingUpdate.maxSurge: 0"},
}

// ownerCodes are about what makes the pods.
var ownerCodes = []Info{
	{"quota-exceeded", Blocked, CureAdmin, "quota {device} is used up: {detail}",
		"The namespace's ResourceQuota refuses the pod at creation.", "end a pod of the namespace, or raise the quota {device}"},
	{"quota-key-without-prefix", Warn, CureAdmin, "quota {device} limits nothing by the key {detail}: extended resources need requests.{detail}",
		"For extended resources only keys of the form requests.NAME count.", "write requests.{detail}"},
	{"pod-create-refused", Blocked, CureUser, "the pods cannot be created: {detail}",
		"The API server or an admission hook refuses the pods of this controller.", "correct what the message names"},
	{"jobset-not-installed", Env, CureAdmin, "the cluster has no JobSet API",
		"The JobSet resource is not served, so nothing makes its jobs.", "install JobSet in the cluster"},
	{"jobset-webhook-down", Env, CureAdmin, "the JobSet controller's hook does not answer: {detail}",
		"The API server cannot reach the admission hook of the JobSet controller, so it refuses every JobSet.",
		"administrator: look at the JobSet controller's pods"},
	{"name-still-terminating", Wait, CureSelf, "the old {device} is still being deleted ({detail})",
		"An object of that name, or pods of it, are on their way out; creating now would fail, and applying would patch the dying object.",
		"try again with --wait, or take another name"},
	{"no-pods-yet", Wait, CureSelf, "its controller has not made pods yet ({detail})",
		"The object is new; its controller makes the pods.", "ask again in a few seconds"},
	{"no-pods", Unknown, CureAdmin, "it has no pods, and nothing says why",
		"The controller made no pod and no event tells the cause.", "kubectl describe {device}"},
	{"scaled-to-zero", Blocked, CureUser, "it is scaled to 0 pods",
		"The object asks for no pod.", "raise replicas or parallelism"},
	{"gang-forming", Wait, CureSelf, "{free} of {want} members exist; the controller is making the others",
		"A group is placed whole once all members exist.", "ask again in a few seconds"},
	{"gang-incomplete", Blocked, CureUser, "{free} of {want} members exist: a group is placed whole or not at all",
		"Members are missing and nobody is making them.", "see why the missing pods are not made"},
	{"gang-short", Wait, CureRelease, "{free} of the group's {want} members can be placed now: a group is placed whole",
		"All members exist and there is not room for all of them together.", "wait for cards, or ask for a smaller group"},
	{"gang-owner-gone", Blocked, CureUser, "the owner {detail} of the group does not exist any more",
		"The pods are orphans: nobody makes the missing members.", "delete the left-over pods, and submit the job again"},
	{"gang-degraded", Warn, CureSelf, "{free} of {want} members run; a lost member is replaced alone",
		"The group was complete once; one member is being replaced.", ""},
	{"job-failed", Blocked, CureUser, "its job has failed: {detail}",
		"The owner job has ended as failed and makes no more pods.", "look at the failed pods, then submit the job again"},
	{"job-finished", OK, CureUser, "it has finished: {detail}", "The object has ended; there is nothing pending.", ""},
}

// filterCodes are the engine's own filters.
var filterCodes = []Info{
	{"node-not-ready", Blocked, CureAdmin, "not ready: {detail}",
		"The node's Ready condition is not True.", "look at the kubelet of the node"},
	{"node-cordoned", Blocked, CureAdmin, "cordoned",
		"The node is marked unschedulable.", "kubectl uncordon NODE"},
	{"taint-not-tolerated", Blocked, CureUser, "taint {device} is not tolerated{detail}",
		"The node has a taint that the pod does not tolerate.", "add a toleration for {device}, or use other nodes"},
	{"selector-mismatch", Blocked, CureUser, "labels do not match: {detail}",
		"The pod's nodeSelector or required node affinity excludes the node.", "compare with kubectl get node NODE --show-labels"},
	{"runtime-class-selector", Blocked, CureAdmin, "the RuntimeClass {device} selects other nodes: {detail}",
		"The scheduling.nodeSelector of the RuntimeClass is merged into the pod and does not match the node.",
		"correct scheduling.nodeSelector of the RuntimeClass, or label the node"},
	{"other-node-named", Blocked, CureUser, "the pod names another node",
		"The pod's spec or affinity names one node.", ""},
	{"cpu-short", Wait, CureRelease, "cpu: {want} asked, {free} free",
		"Pods on the node have requested too much CPU.", "wait for a pod to end, or ask less cpu"},
	{"memory-short", Wait, CureRelease, "memory: {want} asked, {free} free",
		"Pods on the node have requested too much memory.", "wait for a pod to end, or ask less memory"},
	{"resource-short", Wait, CureRelease, "{device}: {want} asked, {free} free",
		"Pods on the node have requested too much of the resource.", "wait for a pod to end, or ask less {device}"},
	{"node-too-small", Blocked, CureUser, "{device}: {want} asked, the node has {total}",
		"The node is too small even when empty.", "ask less {device}, or use larger nodes"},
	{"pod-slots-full", Wait, CureRelease, "{free} of {total} pod slots free",
		"The node runs as many pods as its kubelet allows.", "wait for a pod to end"},
	{"host-port-taken", Wait, CureRelease, "host port in use: {detail}",
		"Another pod on the node has the host port.", "wait for it to end, or use another port"},
	{"pod-affinity-elsewhere", Blocked, CureUser, "pod affinity wants other nodes{detail}",
		"Required pod affinity is not met here.", "relax the affinity, or move the pod it looks for"},
	{"pod-anti-affinity", Wait, CureRelease, "pod anti-affinity: {detail}",
		"Anti-affinity, of this pod or of one that runs here, keeps them apart.", "wait for that pod to end, or relax the rule"},
	{"topology-spread", Wait, CureRelease, "topology spread: {detail}",
		"A required spread constraint would be broken here.", "relax whenUnsatisfiable or maxSkew"},
	{"volume-zone-conflict", Blocked, CureUser, "its volume is elsewhere: {detail}",
		"A bound volume can be reached from other nodes only.", "use a StorageClass with WaitForFirstConsumer, or a node in the volume's zone"},
	{"volume-unbound", Blocked, CureUser, "volume claim: {detail}",
		"A claim of the pod is missing or not bound.", "kubectl describe pvc of the pod"},
	{"volume-limit", Wait, CureRelease, "no more volumes can be attached",
		"The node's CSI driver has reached its number of volumes.", "wait for a pod with volumes to end"},
	{"volume-in-use", Wait, CureRelease, "volume in use: {detail}",
		"The volume may be used by one pod or node at a time.", "wait for the other pod to end"},
	{"other-filter", Blocked, CureUser, "{device}: {detail}",
		"A filter of the scheduler refuses the node, in its own words.", ""},
	{"reserved-for-nominated", Wait, CureRelease, "kept for {detail}, which has preempted pods here",
		"A pod of equal or higher priority is nominated to this node.", "wait for it to be placed"},
}

// agentCodes say why a node reports nothing.
var agentCodes = []Info{
	{"agent-crashing", Blocked, CureAdmin, "the agent {device} crashes: {detail}",
		"The node's agent pod restarts again and again, so the node reports no cards.", "kubectl -n lj-system logs {device} --previous"},
	{"agent-not-scheduled", Blocked, CureAdmin, "no agent pod on the node{detail}",
		"The agent's DaemonSet puts no pod here: a selector, a taint that the agent does not tolerate, or too little room.",
		"compare the DaemonSet's nodeSelector and tolerations with the node"},
	{"agent-not-ready", Blocked, CureAdmin, "the agent {device} is not ready: {detail}",
		"The node's agent pod exists and does not run.", "kubectl -n lj-system describe pod {device}"},
	{"agent-starting", Wait, CureSelf, "the agent {device} has been running for {detail}",
		"The agent has just started and publishes the node's cards in a moment.", "ask again in a minute"},
	{"gpu-count-mismatch", Blocked, CureAdmin, "{device}: the node reports {want}, its agent sees {free}",
		"kubelet's number is older than what the driver shows now: a card is gone from the host.", "compare nvidia-smi -L on the node; restart the agent"},
}

// placedCodes are about pods that have a node already.
var placedCodes = []Info{
	{"running", OK, CureUser, "it runs on {device}", "The pod runs; nothing is pending.", ""},
	{"finished", OK, CureUser, "it has ended: {detail}", "The pod has ended; nothing is pending.", ""},
	{"being-deleted", Blocked, CureUser, "it is being deleted since {detail}",
		"The pod has a deletion time; it will not be scheduled any more.", "submit it again"},
	{"starting", Wait, CureSelf, "placed on {device}, its containers are starting{detail}",
		"The pod has its node and its cards; the node is starting it.", "ask again in a minute"},
	{"image-pull", Blocked, CureUser, "image {device} cannot be pulled: {detail}",
		"The node cannot get the image.", "check the name of the image and the pull secret"},
	{"runtime-handler-missing", Blocked, CureAdmin, "node {device} has no runtime handler lj-runtime: {detail}",
		"The container runtime of the node does not know the handler of the RuntimeClass.", "administrator: add the runtime handler lj-runtime to the container runtime of the node"},
	{"runtime-refused", Blocked, CureAdmin, "the runtime on {device} refuses the container: {detail}",
		"lj-runtime starts no container whose cards it cannot give out as recorded.", "look at the agent of the node; the sentence names the cause"},
	{"container-config", Blocked, CureUser, "container {device} cannot be created: {detail}",
		"The container's configuration names something that does not exist.", "correct what the message names"},
	{"crash-loop", Warn, CureUser, "container {device} crashes again and again: {detail}",
		"The program ends with an error each time it starts; the pod keeps its cards meanwhile.", "kubectl logs POD --previous"},
	{"volume-mount", Blocked, CureUser, "a volume cannot be mounted: {detail}",
		"The node cannot attach or mount a volume of the pod.", "kubectl describe pod POD"},
	{"kubelet-refused", Blocked, CureAdmin, "refused by the kubelet of {device}: {detail}",
		"The node's kubelet rejected the pod after it had been placed.", "the sub-reason names the cause; re-create the pod once it is mended"},
	{"node-not-found", Blocked, CureUser, "the pod names node {device}, which does not exist",
		"spec.nodeName skips the scheduler, and no kubelet has that name.", "drop spec.nodeName and create the pod again"},
	{"core-zero-running", Warn, CureUser, "it runs with gpu-core \"0\": GPU programs may print nothing for a long time",
		"Zero compute sets no limit and makes programs behave oddly; absent means no limit.",
		"leave gpu-core out for no limit, or write 1 to 100, and create the pod again"},
}

// evidenceCodes are about what could not be seen.
var evidenceCodes = []Info{
	{"no-permission", Unknown, CureAdmin, "not allowed to read {detail}",
		"Lists that decide cannot be read; an empty list after a refusal is not an empty cluster.",
		"ask for the verbs get and list on {detail}, or for a snapshot"},
	{"list-missing", Unknown, CureAdmin, "not in the snapshot: {detail}",
		"Lists that decide are not in the snapshot.", "take the snapshot with: ljctl snapshot"},
	{"no-nodes", Blocked, CureAdmin, "the cluster has no nodes", "There is no node at all.", "add GPU nodes"},
}
