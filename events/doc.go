// Package events is the wire: the subjects of hap-worker on NATS JetStream, and
// the payloads with their codec and JSON Schemas. Every message and every subject
// is described in docs/messages.md.
//
// A publisher needs the Client of package events/requests. The module of both packages
// requires few others, since every publisher gets them too.
package events
