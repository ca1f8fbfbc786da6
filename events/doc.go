// Package events is the wire: the subjects and streams of hap-worker on NATS
// JetStream, the payloads with their codec and JSON Schemas, the ledger of
// replies, and the requests that wait.
//
// A publisher needs the Client of package events/requests. Every message and every
// subject is described in docs/messages.md.
package events
