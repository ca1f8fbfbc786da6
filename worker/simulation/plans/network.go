package plans

import "github.com/hap-worker/hap-worker/engine/network"

// NetworkRules returns a configuration with few blocks, so that they run out. Version 1 has one more rule, so
// that existing clusters get its blocks later.
func NetworkRules(version int) *network.Config {
	text := "internalStateRefreshCycleDuration: 0s\nparentCIDRs: {hall: [10.0.0.0/28]}\ninjectionRules:\n" +
		"- {id: pods, injections: [{path: spec.pods, parents: [hall], subnetSize: 31}]}\n"
	if version > 0 {
		text += "- {id: more, injections: [{path: spec.more, parents: [hall], subnetSize: 32}]}\n"
	}
	parsed, _, err := network.Parse([]byte(text))
	if err != nil {
		panic(err)
	}
	return parsed
}
