// Package rule implements the language of HAP rules: it parses the entries of hap.rule, and the four lists of
// the older form, reports their faults, and compiles either form to a Ruleset, which selects the pool of
// bindings for a request. docs/rules.md describes both forms for users.
//
// A Ruleset is immutable and safe for concurrent use; a changed configuration
// is compiled to a new one.
package rule
