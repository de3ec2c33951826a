package explain

import "lj.aliyun.com/kit/pkg/core/place"

// fullCore is the compute of one card, in percent.
const fullCore = 100

// cardOf is a card for the report; who its holders are is filled in by those
// who know the pods.
func cardOf(a place.CardAnswer) Card {
	c := Card{Index: a.Card.Index, UUID: a.Card.UUID, Model: a.Card.Model, Fits: a.Reason == nil, MIG: a.Card.InMIGMode()}
	if !a.Use.Whole && !c.MIG {
		c.CoreFree, c.MemFree = max(0, fullCore-a.Use.Core), max(0, a.Share-a.Use.MemMiB)
	}
	if a.Reason != nil {
		c.Code, c.Message = string(a.Reason.Code), a.Reason.Sentence()
	}
	for _, h := range a.Holders {
		c.Holders = append(c.Holders, Holder{Pod: h})
	}
	return c
}
