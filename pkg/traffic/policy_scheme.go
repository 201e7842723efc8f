package traffic

import (
	"fmt"
	"maps"
	"slices"
)

// This file is about policies that ask for TLS by the name of a protocol, for all requests to a Service or for a part of them, such as one port.

// plainBy compares two policies part by part. of returns the protocol of each part of a policy; "" stands for all other parts. secure are the protocols
// with TLS.
func plainBy(of func(policy map[string]any) map[string]string, secure ...string) func(copied, canary map[string]any) bool {
	at := func(said map[string]string, part string) bool {
		protocol, has := said[part]
		if !has {
			protocol = said[""]
		}
		return slices.Contains(secure, protocol)
	}
	return func(copied, canary map[string]any) bool {
		stable, own := of(copied), of(canary)
		parts := maps.Clone(stable)
		maps.Copy(parts, own)
		for part := range parts {
			if at(stable, part) && !at(own, part) {
				return true
			}
		}
		return false
	}
}

// schemesOf returns the schemes in a policy of APISIX, by port. For a port with its own settings, the controller ignores the scheme of the whole policy.
// It uses http where the settings have no scheme.
func schemesOf(policy map[string]any) map[string]string {
	spec, _ := policy["spec"].(map[string]any)
	schemes := map[string]string{"": firstString(spec, "scheme")}
	ports, _ := spec["portLevelSettings"].([]any)
	for _, of := range ports {
		port, _ := of.(map[string]any)
		schemes[fmt.Sprint(port["port"])] = firstString(port, "scheme")
	}
	return schemes
}

// protocolsOf returns the protocol in a TargetGroupConfiguration.
func protocolsOf(policy map[string]any) map[string]string {
	return map[string]string{"": stringAt(policy, "spec", "defaultConfiguration", "protocol")}
}
