// Package shadow runs a worker beside the broker, which still assigns the accounts. The worker decides every
// event, compares its decisions with the broker's choices, and writes nothing to Gardener.
//
// A shadow is an ordinary worker with its own streams and keys, and with four additions: Gardener lets the
// worker's writes succeed without making them, NoCopies sends no copies of replies, Compare compares a
// decision with the broker's Shoot and labels, and Follow rebuilds Redis from labels and Shoots, so that one
// difference does not cause others. Sweep, audit, retention and network ranges do not run beside it.
// docs/adr/0005 says why.
package shadow
