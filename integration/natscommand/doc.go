// Package natscommand pins the nats command that docs/clients.md has recipes for. It is a
// separate module, so that what the command is made of comes into no other one; the test of
// the recipes, in the folder above, builds it.
package natscommand
