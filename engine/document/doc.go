// Package document reads YAML and JSON strictly: every fault at once, each with
// its place. Rules, policies, catalogs, network rules and the configuration are
// read with it. A [Reader] reads a document; a [Node] is a value with its line and column.
package document
