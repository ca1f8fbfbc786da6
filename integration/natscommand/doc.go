// Package natscommand pins the nats command for the recipes of docs/clients.md. It is a separate module, so
// that its dependencies do not enter another one. The test of the recipes, in the folder above, builds it.
package natscommand
