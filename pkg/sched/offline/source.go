package offline

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"

	"lj.aliyun.com/kit/pkg/kube"
)

// load fills the informers that filters and scores read.
func load(f informers.SharedInformerFactory, s *kube.Snapshot) error {
	return errors.Join(
		// Pods and nodes reach the engine in its node snapshot; behind the
		// informer they would be counted twice.
		preload[*v1.Pod](f, &v1.Pod{}, nil),
		preload(f, &v1.PersistentVolume{}, s.PersistentVolumes),
		preload(f, &v1.PersistentVolumeClaim{}, s.PersistentVolumeClaims),
		preload(f, &v1.Namespace{}, s.Namespaces),
		preload(f, &v1.Service{}, s.Services),
		preload(f, &v1.ReplicationController{}, s.ReplicationControllers),
		preload(f, &storagev1.StorageClass{}, s.StorageClasses),
		preload(f, &storagev1.CSINode{}, s.CSINodes),
		preload(f, &storagev1.CSIDriver{}, s.CSIDrivers),
		preload(f, &storagev1.CSIStorageCapacity{}, s.CSIStorageCapacities),
		preload(f, &policyv1.PodDisruptionBudget{}, s.PodDisruptionBudgets),
	)
}
