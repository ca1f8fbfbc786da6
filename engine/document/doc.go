// Package document reads YAML and JSON strictly: every fault at once, each with
// its place. Rules, policies, catalogs, network rules and the configuration are
// read with it. [Reader] begins; [Node] is a value and where it stands.
package document
