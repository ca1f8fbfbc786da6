package events

import "embed"

// SchemaBase is the beginning of the $id of every schema; the name of its file follows.
const SchemaBase = "https://github.com/hap-worker/hap-worker/events/schema/"

// Schemas are the JSON Schemas (draft 2020-12) of all messages: schema/envelope.json for a whole
// message, and schema/provision.json, deprovision, release, resolve and reply for its data. A validator
// has to assert formats. The schemas document the messages that Decode accepts; Decode does not run them.
//
//go:embed schema/*.json
var Schemas embed.FS
