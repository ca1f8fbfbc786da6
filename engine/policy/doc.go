// Package policy chooses the Implementation that serves a requested Interface,
// and the TypeInstances that are injected into its workflow. docs/policy.md
// describes the document for its users.
//
// Parse reads a policy, LoadTree and LoadFile a catalog of OCF 0.0.1 manifests,
// ParseTypeInstances what the system has. NewSnapshot joins the three; its
// Resolve answers from them and from nothing else. All of them are immutable and
// safe for concurrent use: a change makes new ones.
package policy
