package reason

// catalog is the closed list, in the order of the manual.
var catalog = func() []Info {
	var all []Info
	all = append(all, nodeCodes...)
	all = append(all, cardCodes...)
	all = append(all, requestCodes...)
	all = append(all, manifestCodes...)
	all = append(all, pendingCodes...)
	return all
}()
