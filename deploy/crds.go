// Package deploy carries what is deployed beside the programs, so that programs
// can apply it themselves: the development stack and the compose file's seed do.
package deploy

import "embed"

// CRDs are the definitions of the Gardener and openMCP kinds that hap-worker
// reads and writes, as files crds/*.yaml. They are for clusters without a
// Gardener: where there is one, it brings its own.
//
//go:embed crds/*.yaml
var CRDs embed.FS
