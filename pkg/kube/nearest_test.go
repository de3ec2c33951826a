package kube

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"train", "gang", "memoryUnit"}
	for word, want := range map[string]string{
		"trian": "train", "trai": "train", "Train": "train", "gnag": "gang", "memoryunit": "memoryUnit", "memUnit": "",
		"": "", "x": "", "tracing": "train", "entirely-other": "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
