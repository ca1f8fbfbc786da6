package request

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// labelFlag is a flag that can be repeated, once for each label KEY=VALUE.
type labelFlag map[string]string

// String returns all labels, separated by commas.
func (f *labelFlag) String() string { return strings.Join(f.GetSlice(), ",") }

// Set adds one label.
func (f *labelFlag) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return fmt.Errorf("%q: set a label as KEY=VALUE", text)
	}
	if _, twice := (*f)[key]; twice {
		return fmt.Errorf("label %s is set twice", key)
	}
	if *f == nil {
		*f = labelFlag{}
	}
	(*f)[key] = value
	return nil
}

// Type names the flag's value in help texts.
func (f *labelFlag) Type() string { return "label" }

// GetSlice returns all labels as KEY=VALUE, sorted. With Append and Replace it implements pflag.SliceValue.
func (f *labelFlag) GetSlice() []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(*f)) {
		all = append(all, key+"="+(*f)[key])
	}
	return all
}

// Append adds one label.
func (f *labelFlag) Append(text string) error { return f.Set(text) }

// Replace sets all labels.
func (f *labelFlag) Replace(texts []string) error {
	*f = nil
	var faults []error
	for _, text := range texts {
		faults = append(faults, f.Set(text))
	}
	return errors.Join(faults...)
}
