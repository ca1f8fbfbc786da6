package page

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// trial is a question to the playground, and the answer.
type trial struct {
	Rules   string // as pasted; "" for the rules in force
	Request rule.Request
	Plans   []string

	Asked    bool
	Problem  string
	Faults   faultList
	Warnings faultList
	Count    int // rules, or members of the older lists
	Older    bool
	Answer   *rule.Explanation
}

// faultList is a list of errors or warnings, of which only the first are shown.
type faultList []rule.Fault

const faultsShown = 50

// Shown are the first faultsShown of them.
func (l faultList) Shown() []rule.Fault { return l[:min(faultsShown, len(l))] }

// More is the number that is not shown.
func (l faultList) More() int { return max(0, len(l)-faultsShown) }

// playground tries rules out. It changes nothing; POST is for rules that are too long for a URL.
func (p *Page) playground(w http.ResponseWriter, r *http.Request) {
	if !p.trials.take() {
		w.Header().Set("Retry-After", "1")
		p.fail(w, http.StatusServiceUnavailable, "Others are trying rules out just now. Try again in a moment.")
		return
	}
	defer p.trials.give()
	r.Body = http.MaxBytesReader(w, r.Body, 6*maxPasted) // encoded, a new line has 6 bytes
	err := r.ParseForm()
	if err == nil && len(r.Form.Get("rules")) > maxPasted {
		err = &http.MaxBytesError{Limit: maxPasted}
	}
	if err != nil {
		status, text := http.StatusBadRequest, "The form cannot be read: "+err.Error()
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status, text = http.StatusRequestEntityTooLarge, fmt.Sprintf("The rules are longer than the %d KiB that can be tried here: use hapctl rules explain.", maxPasted>>10)
		}
		p.fail(w, status, text)
		return
	}
	value := func(name string) string { return strings.TrimSpace(r.Form.Get(name)) }
	t := trial{
		Rules: strings.ReplaceAll(r.Form.Get("rules"), "\r\n", "\n"), Asked: len(r.Form) > 0,
		Request: rule.Request{
			Plan: value("plan"), PlatformRegion: value("platformRegion"), HyperscalerRegion: value("hyperscalerRegion"),
			Provider: value("provider"), Tenant: value("tenant"),
		},
	}
	inForce := p.rules()
	t.Plans = slices.Sorted(maps.Keys(inForce.Plans()))
	t.answer(inForce)
	p.write(w, http.StatusOK, view{Title: "Rules", Nav: "rules", Body: "rules", Data: t, Taken: p.now()})
}

func (t *trial) answer(inForce *rule.Ruleset) {
	rules := inForce
	if strings.TrimSpace(t.Rules) != "" {
		if rules = t.compile(inForce); rules == nil {
			return
		}
	}
	t.Count, t.Older, t.Warnings = rules.Len(), rules.Older(), rules.Warnings()
	switch {
	case t.Request.Plan == "":
		return
	case t.Request.Tenant != "" && !engine.ValidID(t.Request.Tenant):
		t.Problem = fmt.Sprintf("%q is no global account id: letters, digits, - and _, at most %d", t.Request.Tenant, engine.MaxID)
		return
	}
	answer, err := rules.Explain(t.Request)
	if err != nil {
		t.Problem = err.Error()
		return
	}
	t.Answer = &answer
}

// compile returns the pasted rules; nil, with Faults or Problem set, if they are invalid.
func (t *trial) compile(inForce *rule.Ruleset) *rule.Ruleset {
	file, err := parsePasted(t.Rules)
	if err != nil {
		t.Problem = err.Error()
		return nil
	}
	rules, err := file.Compile(rule.Options{Plans: inForce.Plans(), Require: []string{}, Labels: inForce.Labels()}) // no plan has to have a rule here
	if faults, ok := errors.AsType[rule.Faults](err); ok {
		t.Faults = faultList(faults)
	} else if err != nil {
		t.Problem = err.Error()
	}
	return rules
}
