package config

// Where policies are said other than in Config, with the names of Policies as
// values; others count as not there. A pod's annotation wins over the label of
// a node, which wins over Config.
const (
	// NodePolicyKey is the annotation of a pod for the choice of its node.
	NodePolicyKey = "lj.aliyun.com/node-policy"
	// CardPolicyKey is the annotation of a pod for the choice of its cards,
	// and the label of a node for the choice among its cards.
	CardPolicyKey = "lj.aliyun.com/card-policy"
)

// PolicyNamed is the policy with this name, empty if there is none.
func PolicyNamed(s string) Policy {
	p, _ := ParsePolicy(s)
	return p
}
