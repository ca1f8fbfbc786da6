// Package document reads YAML and JSON strictly, and reports the faults of a document
// together, each with its line if it has one. Rules, policies, catalogs, network rules and the
// configuration are read with it. A [Reader] reads documents; a [Node] is a value with its line and column.
package document
