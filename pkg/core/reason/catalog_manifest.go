package reason

// manifestCodes are about what a manifest says beyond the amounts: fields,
// labels, YAML. validate finds them before anything is created.
var manifestCodes = []Info{}
