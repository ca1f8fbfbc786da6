// Package deploy embeds the manifests of the CRDs, so that programs can apply them. The development stack and the
// seed of the compose file do so.
package deploy

import "embed"

// CRDs are the definitions of the Gardener and openMCP kinds that hap-worker
// reads or writes, as files crds/*.yaml. They are for clusters that lack these
// kinds: a Gardener serves its kinds without them.
//
//go:embed crds/*.yaml
var CRDs embed.FS
