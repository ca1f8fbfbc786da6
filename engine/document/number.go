package document

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// leadingZero matches a whole number other than 0 that has a zero before its digits.
var leadingZero = regexp.MustCompile(`^([-+]?)0[0_]*([1-9][0-9_]*)$`)

// Number parses text as an unquoted number of a document: an int, a uint64 above the largest int, a float64, or
// nil if it is no number. A whole number with a leading zero is an error: 010 is 8 in YAML 1.1, which Helm reads,
// and 10 in YAML 1.2.
func Number(text string) (any, error) {
	if found := leadingZero.FindStringSubmatch(text); found != nil {
		sign, digits := found[1], strings.ReplaceAll(found[2], "_", "")
		write := sign + digits
		if octal, err := strconv.ParseInt(digits, 8, 64); err == nil && octal > 7 {
			write += fmt.Sprintf(", or %s%d if octal is meant", sign, octal)
		}
		return nil, fmt.Errorf("begins with a zero, which some take for octal; write %s", write)
	}
	y := yaml.Node{Kind: yaml.ScalarNode, Value: text}
	var v any
	if tag := y.ShortTag(); tag != "!!int" && tag != "!!float" || y.Decode(&v) != nil {
		v = nil
	}
	return v, nil
}

// Unambiguous adds a fault and returns false if the node is an unquoted whole number with a leading zero, which
// YAML readers read as different values.
func (n Node) Unambiguous() bool {
	if _, text := n.Scalar().(string); text {
		return true
	}
	_, err := Number(n.Spelled())
	if err != nil {
		n.Fault(Value, "%s", err)
	}
	return err == nil
}
