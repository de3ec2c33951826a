package kube

import (
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// Fixed names of the suite. What an administrator can change (resource
// prefix, topology labels) is in pkg/core/config instead.
const (
	// SchedulerName is the profile that pods ask for.
	SchedulerName = rules.SchedulerName
	// RuntimeClass is the runtime class that pods ask for.
	RuntimeClass = rules.RuntimeClass
	// EnableLabel, exactly "true", lets a node take our pods.
	EnableLabel = rules.EnableLabel
	// VendorLabel on a node names the vendor of its cards. It is the label of
	// the guide's example; administrators may use another.
	VendorLabel = "accelerator/vendor"
	// ReplicaLabel on a pod is the number of equal cards per container.
	ReplicaLabel = request.ReplicaLabel

	// InventoryAnnotation on a node is device.Inventory, written by its agent.
	InventoryAnnotation = "lj.aliyun.com/inventory"
	// RuntimeAnnotation on a node is what its agent has in force.
	RuntimeAnnotation = "lj.aliyun.com/runtime"
	// AllocationAnnotation on a pod is device.Allocation, written with the
	// Binding.
	AllocationAnnotation = "lj.aliyun.com/allocation"

	// Namespace holds the suite's own objects.
	Namespace = "lj-system"
	// ConfigMap and ConfigKey name the cluster's settings in Namespace.
	ConfigMap = "lj-config"
	ConfigKey = "config.yaml"
	// SchedulerLease is the leader election lease in Namespace.
	SchedulerLease = "lj-runtimekit-scheduler"

	// NameLabel carries SchedulerApp and AgentApp on the suite's own pods.
	NameLabel    = "app.kubernetes.io/name"
	SchedulerApp = "lj-scheduler"
	AgentApp     = "lj-agent"
)
