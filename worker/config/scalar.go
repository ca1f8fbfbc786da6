package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// URLs are one or more addresses of the same service.
type URLs []string

// String returns the URLs separated by commas, for clients of NATS. It contains passwords, so do not log it.
func (u URLs) String() string { return strings.Join(u, ",") }

func splitURLs(text string) URLs {
	var urls URLs
	for part := range strings.SplitSeq(text, ",") {
		urls = append(urls, strings.TrimSpace(part))
	}
	return urls
}

// ParseDuration parses a duration like time.ParseDuration, and also days, as in 7d or 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	rest, days := strings.TrimSpace(text), time.Duration(0)
	if number, after, found := strings.Cut(rest, "d"); found {
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			return 0, errors.New("is not a duration: write it as 90s, 10m, 24h or 7d")
		}
		if n > int64(math.MaxInt64/day) || n < -int64(math.MaxInt64/day) {
			return 0, errors.New("is too long")
		}
		if days = time.Duration(n) * day; after == "" {
			return days, nil
		}
		rest = after
	}
	parsed, err := time.ParseDuration(rest)
	if err != nil {
		if _, numeric := strconv.ParseFloat(rest, 64); numeric == nil {
			return 0, errors.New("has no unit: write it as 90s, 10m, 24h or 7d")
		}
		return 0, errors.New("is not a duration: write it as 90s, 10m, 24h or 7d")
	}
	if sum := days + parsed; (sum < 0) == (days < 0) || days == 0 {
		return sum, nil
	}
	return 0, errors.New("is too long")
}

// formatDuration omits trailing units that are zero: 10m, not 10m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

var byteUnits = []struct {
	name string
	size int64
}{
	{"Ti", 1 << 40},
	{"Gi", 1 << 30},
	{"Mi", 1 << 20},
	{"Ki", 1 << 10},
	{"T", 1e12},
	{"G", 1e9},
	{"M", 1e6},
	{"k", 1e3},
	{"", 1},
}

// parseBytes parses a size such as 1073741824, 1Gi, 512Mi or 1G, with or without a final B.
func parseBytes(text string) (int64, error) {
	text = strings.TrimSuffix(strings.TrimSpace(text), "B")
	for _, unit := range byteUnits {
		number, found := strings.CutSuffix(text, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n > math.MaxInt64/unit.size || n < -math.MaxInt64/unit.size {
			break
		}
		return n * unit.size, nil
	}
	return 0, fmt.Errorf("is not a size: write it as 1073741824, 512Mi or 1Gi")
}

func formatBytes(n int64) string {
	for _, unit := range byteUnits[:4] {
		if n != 0 && n%unit.size == 0 {
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}
