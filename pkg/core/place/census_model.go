package place

// CensusByModel is Census for each model of GPU on the node apart, by the
// inventory's product name.
func (v *View) CensusByModel() map[string]Census {
	models := map[string][]card{}
	for _, c := range v.cards {
		if c.dev.Vendor.IsGPU() {
			models[c.dev.Model] = append(models[c.dev.Model], c)
		}
	}
	out := make(map[string]Census, len(models))
	for model, cards := range models {
		only := *v
		only.cards = cards
		out[model] = only.Census()
	}
	return out
}
