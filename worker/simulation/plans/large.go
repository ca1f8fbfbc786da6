package plans

import (
	"fmt"
	"strings"

	"github.com/hap-worker/hap-worker/events"
)

// Fill adds labels to the Cluster of a provision until the event has nearly the largest permitted size.
func Fill(e events.Event) error {
	labels := map[string]string{}
	e.Provision.Cluster.Labels = labels
	add := func(n int) (size int, err error) {
		for range n {
			labels[fmt.Sprintf("label-%05d", len(labels))] = strings.Repeat("v", 60)
		}
		encoded, err := events.EncodeEvent(e)
		return len(encoded), err
	}
	few, err := add(100)
	if err != nil {
		return err
	}
	more, err := add(100)
	if err == nil {
		_, err = add((events.MaxMessage - more) / ((more - few) / 100))
	}
	return err
}
