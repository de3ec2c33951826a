package config

import "testing"

func TestMIGModelsMatchByWholeWord(t *testing.T) {
	c := Default()
	for _, m := range []string{"NVIDIA A100 80GB PCIe", "A100-SXM4-40GB", "NVIDIA H800", "nvidia a100", "GRID_A100_X"} {
		if !c.MIGModelAllowed(m) {
			t.Errorf("%s is refused", m)
		}
	}
	for _, m := range []string{"NVIDIA A800-SXM4-80GB", "NVIDIA H20", "NVIDIA GeForce RTX 4090", "NVIDIA H100 80GB HBM3", "NVIDIA A30", "NVIDIA A10G", "NVIDIA RTX A6000", "A1000", ""} {
		if c.MIGModelAllowed(m) {
			t.Errorf("%s is allowed", m)
		}
	}
}

func TestResourcesFollowThePrefix(t *testing.T) {
	c := Default()
	c.Prefix = "gpu.example.org"
	for _, r := range c.Resources() {
		if !c.IsResource(r) {
			t.Errorf("%s is in Resources and not IsResource", r)
		}
	}
	for _, r := range []string{"aliyun.com/gpu", "cpu", "gpu.example.org/gpu-mem", "nvidia.com/gpus", "gpu.example.org"} {
		if c.IsResource(r) {
			t.Errorf("%s is taken for ours", r)
		}
	}
}

func TestUnits(t *testing.T) {
	if GiB.MiB() != 1024 || MiB.MiB() != 1 {
		t.Error("units are wrong")
	}
	for _, u := range Units() {
		if got, err := ParseUnit(string(u)); err != nil || got != u {
			t.Errorf("%s: %v, %v", u, got, err)
		}
	}
	if _, err := ParseUnit("GB"); err == nil {
		t.Error("GB was taken")
	}
	for _, p := range Policies() {
		if got, err := ParsePolicy(string(p)); err != nil || got != p {
			t.Errorf("%s: %v, %v", p, got, err)
		}
	}
}

func TestTopologyPresets(t *testing.T) {
	for _, name := range TopologyPresets() {
		p, ok := TopologyPreset(name)
		if !ok || p.Preset != name || p.HyperNode == "" || p.Leaf == "" || p.NetworkPod == "" || p.Leaf == p.NetworkPod || p.HyperNode == p.Leaf {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p, ok := TopologyPreset(DefaultPreset); !ok || p != Default().Topology {
		t.Errorf("the default is %+v, its preset %+v", Default().Topology, p)
	}
	if _, ok := TopologyPreset("Volcano"); ok {
		t.Error("a preset that is not there was found")
	}
}
