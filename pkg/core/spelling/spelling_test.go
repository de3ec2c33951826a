package spelling

import "testing"

func TestClosest(t *testing.T) {
	known := []string{"train", "gang", "memoryUnit"}
	for word, want := range map[string]string{
		"trian": "train", "trai": "train", "Train": "train", "gnag": "gang", "memoryunit": "memoryUnit", "memUnit": "",
		"": "", "x": "", "tracing": "train", "entirely-other": "",
	} {
		if got := Closest(word, known); got != want {
			t.Errorf("Closest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"gpu", "gpu", 0}, {"gpu", "gpus", 1}, {"memroy", "memory", 1}, {"core", "slice", 4}, {"abc", "", 3}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Distance(c.b, c.a); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
