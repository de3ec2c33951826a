package sched

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"lj.aliyun.com/kit/pkg/core/config"
)

// Args are the arguments of LJDevices in a profile. What they leave empty is as
// the cluster's settings say.
type Args struct {
	NodePolicy config.Policy `json:"nodePolicy,omitempty"`
	CardPolicy config.Policy `json:"cardPolicy,omitempty"`
}

// over returns the settings with the arguments put over them.
func (a Args) over(c config.Config) config.Config {
	if a.NodePolicy != "" {
		c.NodePolicy = a.NodePolicy
	}
	if a.CardPolicy != "" {
		c.CardPolicy = a.CardPolicy
	}
	return c
}

// In puts the arguments into the profiles.
func (a Args) In(profiles []schedulerapi.KubeSchedulerProfile) ([]schedulerapi.KubeSchedulerProfile, error) {
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", Name, err)
	}
	for i := range profiles {
		profiles[i].PluginConfig = append(profiles[i].PluginConfig, schedulerapi.PluginConfig{
			Name: Name, Args: &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}})
	}
	return profiles, nil
}

// argsOf reads the arguments as the engine hands them over.
func argsOf(o runtime.Object) (Args, error) {
	var a Args
	if err := frameworkruntime.DecodeInto(o, &a); err != nil {
		return a, fmt.Errorf("arguments of %s: %w", Name, err)
	}
	for _, p := range []config.Policy{a.NodePolicy, a.CardPolicy} {
		if p == "" {
			continue
		}
		if _, err := config.ParsePolicy(string(p)); err != nil {
			return a, fmt.Errorf("arguments of %s: %w", Name, err)
		}
	}
	return a, nil
}

// SetArgs puts a profile's arguments over the cluster's settings, now and
// whenever these change.
func (s *State) SetArgs(a Args) {
	s.setMu.Lock()
	s.args = a
	s.setMu.Unlock()
	s.SetConfig(s.Config())
}
