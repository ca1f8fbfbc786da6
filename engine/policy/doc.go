// Package policy chooses the Implementation that serves a requested Interface,
// and the TypeInstances that are injected into its workflow. docs/policy.md
// describes the document for its users.
//
// Parse reads a policy, LoadTree and LoadFile read a catalog of OCF 0.0.1 manifests, and
// ParseTypeInstances reads the TypeInstances that exist. NewSnapshot joins the three, and
// Snapshot.Resolve answers from them and from nothing else. A Policy, a Catalog and a Snapshot
// are immutable and safe for concurrent use; a Holder has the Snapshot in force.
package policy
