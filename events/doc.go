// Package events is the wire: the subjects and streams of hap-worker on NATS
// JetStream, the payloads with their codec and JSON Schemas, the ledger of
// replies, and the Client that publishers import.
//
// A publisher needs Client only. Every message and every subject is described
// in docs/messages.md.
package events
