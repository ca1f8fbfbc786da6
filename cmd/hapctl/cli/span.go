package cli

import (
	"math"
	"strconv"
	"time"

	"github.com/hap-worker/hap-worker/worker/config"
)

// Day is 24 hours.
const Day = 24 * time.Hour

// Span is a flag of a duration that may be given in days.
type Span time.Duration

// String returns the duration as SpanText does.
func (d *Span) String() string { return SpanText(time.Duration(*d)) }

// Type names the flag in help texts.
func (d *Span) Type() string { return "duration" }

// Set parses a duration as the configuration does.
func (d *Span) Set(text string) error {
	parsed, err := config.ParseDuration(text)
	*d = Span(parsed)
	return err
}

// SpanText returns a duration in days if it has at least one, else in hours if it has at least one, both to one
// decimal, else in minutes and seconds.
func SpanText(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d >= Day:
		return strconv.FormatFloat(math.Round(10*InDays(d))/10, 'f', -1, 64) + "d"
	case d >= time.Hour:
		return strconv.FormatFloat(math.Round(10*d.Hours())/10, 'f', -1, 64) + "h"
	default:
		return d.Round(time.Second).String()
	}
}

// InDays returns a duration in days.
func InDays(d time.Duration) float64 { return float64(d) / float64(Day) }
