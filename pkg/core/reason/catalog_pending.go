package reason

// pendingCodes are about why a pod is not running although its request is
// legal, beyond what nodes and cards say.
var pendingCodes = []Info{}
