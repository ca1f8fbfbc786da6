// Package deploy embeds the manifests of the CRDs, so that programs can apply them. The development stack and the
// seed of the compose file do so.
package deploy

import "embed"

// CRDs are the definitions of the Gardener and openMCP kinds that hap-worker
// reads and writes, as files crds/*.yaml. They are for clusters without a
// Gardener: where there is one, it brings its own.
//
//go:embed crds/*.yaml
var CRDs embed.FS
