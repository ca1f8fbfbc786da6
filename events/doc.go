// Package events is the wire: the subjects of hap-worker on NATS JetStream, and
// the payloads with their codec and JSON Schemas. Every message and every subject
// is described in docs/messages.md.
//
// A publisher needs the Client of package events/requests. Both are in a module of
// few requirements, which are those of every publisher.
package events
