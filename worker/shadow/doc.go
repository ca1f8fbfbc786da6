// Package shadow runs a worker beside the broker that still decides: it decides every event, compares, and
// writes nothing to Gardener.
//
// A shadow is an ordinary worker with its own streams and keys. Three things are added: Gardener lets its
// writes succeed without making them, Compare compares a decision with the broker's Shoot and labels, and
// Follow rebuilds Redis from labels and Shoots, so that one difference does not cause others. docs/adr/0005
// says why.
package shadow
