package main

import (
	"math"
	"testing"
)

// TestGuardJudges: the ratio is the median of the rounds' ratios, not the ratio of the medians; the spread is
// their quartiles; only a rate that is more than 3 % lower fails.
func TestGuardJudges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ours, theirs   []float64 // events per second of each round
		want           comparison
		fails, unclear bool
	}{
		"the same":                      {[]float64{9000, 10000, 11000, 12000, 13000}, []float64{9000, 10000, 11000, 12000, 13000}, comparison{1, 1, 1}, false, false},
		"the machine becomes slower":    {[]float64{10000, 8000, 6000, 4000, 2020}, []float64{10000, 8080, 6000, 4000, 2000}, comparison{1, 1, 1}, false, false},
		"3 % slower":                    {[]float64{9700, 9700, 9700, 9700, 9700}, []float64{10000, 10000, 10000, 10000, 10000}, comparison{0.97, 0.97, 0.97}, false, false},
		"4 % slower":                    {[]float64{9500, 9700, 9600, 9650, 9550}, []float64{10000, 10000, 10000, 10000, 10000}, comparison{0.96, 0.955, 0.965}, true, false},
		"20 % faster":                   {[]float64{1200, 1200, 1200, 1200, 1200}, []float64{1000, 1000, 1000, 1000, 1000}, comparison{1.2, 1.2, 1.2}, false, false},
		"an even number":                {[]float64{90, 100, 110, 120, 100, 100}, []float64{100, 100, 100, 100, 100, 100}, comparison{1, 1, 1.1}, false, false},
		"one round beside other work":   {[]float64{990, 400, 1000, 1010, 1000}, []float64{1000, 1000, 1000, 1000, 1000}, comparison{1, 0.99, 1}, false, false},
		"slower, in rounds that differ": {[]float64{850, 960, 900, 1000, 1100}, []float64{1000, 1000, 1000, 1000, 1000}, comparison{0.96, 0.9, 1}, true, true},
		"as fast, in rounds that differ": {
			[]float64{850, 990, 900, 1000, 1100}, []float64{1000, 1000, 1000, 1000, 1000}, comparison{0.99, 0.9, 1}, false, true,
		},
	} {
		got := compare(samples(c.ours), samples(c.theirs), func(s sample) float64 { return s.Rate })
		if !near(got.Ratio, c.want.Ratio) || !near(got.Low, c.want.Low) || !near(got.High, c.want.High) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if err := got.judge(); (err != nil) != c.fails {
			t.Errorf("%s: judged as %v", name, err)
		}
		if got.unclear() != c.unclear {
			t.Errorf("%s: unclear is %v", name, got.unclear())
		}
	}
}

func samples(rates []float64) []sample {
	all := make([]sample, len(rates))
	for i, rate := range rates {
		all[i].Rate = rate
	}
	return all
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// TestReportHasTheRatioOfLatencies: the report has the median of the rounds' ratios of p99, worker / bare loop, and no
// ratio if the bare loop was not measured.
func TestReportHasTheRatioOfLatencies(t *testing.T) {
	t.Parallel()
	r := newReport(t.Context(), settings{rounds: 3})
	for _, p99 := range [][2]float64{{12, 4}, {30, 5}, {8, 4}} {
		r.Paced[nameSteady] = append(r.Paced[nameSteady], latency{P99: p99[0]})
		r.Paced[nameBare] = append(r.Paced[nameBare], latency{P99: p99[1]})
	}
	r.summarize()
	if got := r.Ratios[ratioP99]; !near(got, 3) {
		t.Errorf("%s: %v, want the median of 3, 6 and 2", ratioP99, got)
	}
	r.Paced[nameBare] = nil
	r.Ratios = map[string]float64{}
	r.summarize()
	if got, measured := r.Ratios[ratioP99]; measured {
		t.Errorf("without the bare loop there is a ratio of %v", got)
	}
}

// TestBaseNeedsRounds: --base needs at least five rounds, and excludes --growth and --only.
func TestBaseNeedsRounds(t *testing.T) {
	t.Parallel()
	s := settings{rounds: 5, events: 1000, claims: 64, base: "HEAD"}
	if err := s.check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*settings){
		"four rounds":   func(s *settings) { s.rounds = 4 },
		"with --growth": func(s *settings) { s.growth = true },
		"with --only":   func(s *settings) { s.only = []string{"steady"} },
	} {
		other := s
		spoil(&other)
		if other.check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
