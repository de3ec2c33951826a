package manifest

import (
	"errors"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// suffixes are the multipliers of quantities from a thousand upwards.
var suffixes = []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "k", "M", "G", "T", "P", "E"}

// most stands for amounts beyond every number that a rule knows.
var most = *resource.NewQuantity(math.MaxInt64>>1, resource.DecimalSI)

var errQuantity = errors.New("no quantity")

// ParseQuantity is resource.ParseQuantity for hostile text: that one spends
// minutes on an exponent such as e-100000000, and no amount needs more than
// three digits of it.
func ParseQuantity(text string) (resource.Quantity, error) {
	if len(text) > 64 {
		return resource.Quantity{}, errQuantity
	}
	if i := strings.LastIndexAny(text, "eE"); i >= 0 {
		if digits := strings.TrimLeft(text[i+1:], "+-0"); len(digits) > 3 {
			return resource.Quantity{}, errQuantity
		}
	}
	return resource.ParseQuantity(text)
}

// amountOf reads a quantity as the API server does. A fraction is anything
// whose amount, not text, is not whole: 4000m is 4. A null is no absent line:
// the server stores it as 0.
func amountOf(n *Node) rules.Amount {
	a := rules.Amount{Raw: n.Raw, State: rules.Garbage}
	if n.Kind == Null {
		a.State = rules.Count
		return a
	}
	if n.Kind != String && n.Kind != Number {
		return a
	}
	q, err := ParseQuantity(n.Text)
	if err != nil {
		return a
	}
	for _, s := range suffixes {
		if number, ok := strings.CutSuffix(strings.TrimSpace(n.Raw), s); ok {
			a.Suffix, a.Number = true, number
			break
		}
	}
	switch {
	case q.Sign() < 0:
		a.State = rules.Negative
	case q.Cmp(most) > 0:
		a.State, a.Value, a.Beyond = rules.Count, most.Value(), true
	case resource.NewQuantity(q.Value(), resource.DecimalSI).Cmp(q) != 0:
		a.State = rules.Fraction
	default:
		a.State, a.Value = rules.Count, q.Value()
	}
	return a
}
