// Package shadow has what a worker needs beside a running broker that goes on
// deciding: it decides every event and compares, and writes nothing to Gardener.
//
// A shadow is an ordinary worker on streams and its own keys. Three things are
// put around it: the Landscape lets its writes succeed without making them, Compare
// holds a decision against the Shoot and the labels that the broker made, and Follow
// derives Redis anew from labels and Shoots, so that one difference does not lead to
// others. docs/adr/0005 says why.
package shadow
