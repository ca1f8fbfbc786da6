package whatif

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

// eventLine is a line of events: data with a type, or a CloudEvent.
type eventLine struct{ raw json.RawMessage }

// UnmarshalJSON keeps the line as it is.
func (l *eventLine) UnmarshalJSON(text []byte) error {
	l.raw = append(json.RawMessage{}, text...)
	return nil
}

// lineHead has the fields that tell the kinds of lines apart.
type lineHead struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Data    json.RawMessage `json:"data"`
	Plan    string          `json:"plan"`
	Binding string          `json:"binding"`
	Runtime string          `json:"runtimeID"`
}

// event decodes and checks the line. If the line has no type, its fields tell it: a plan means a provision, else a
// binding a release, else a runtime a deprovision.
func (l eventLine) event() (events.Event, error) {
	var head lineHead
	if err := json.Unmarshal(l.raw, &head); err != nil {
		return events.Event{}, cli.InvalidLine(cli.LineFault(err))
	}
	data := l.raw
	if len(head.Data) > 0 {
		data = head.Data
	}
	kind := events.Type(strings.TrimSuffix(strings.TrimPrefix(head.Type, "hap."), ".v1"))
	if kind == "" {
		kind = head.guess()
	}
	e, into, known := events.NewEvent(kind)
	if !known {
		return e, cli.InvalidLine(fmt.Errorf("type %q is none of %s", head.Type, strings.Join(simulate.Types(), ", ")))
	}
	e.ID, e.Source = head.ID, cli.Source
	if err := json.Unmarshal(data, into); err != nil {
		return e, cli.InvalidLine(cli.LineFault(err))
	}
	return e, checkSimulated(e)
}

// checkSimulated returns an error for an event that is invalid by itself. The event needs no id.
func checkSimulated(e events.Event) error {
	if e.ID == "" {
		e.ID = "none"
	}
	_, err := events.EncodeEvent(e)
	return err
}

func (h lineHead) guess() events.Type {
	switch {
	case h.Plan != "":
		return events.TypeProvision
	case h.Binding != "":
		return events.TypeRelease
	case h.Runtime != "":
		return events.TypeDeprovision
	default:
		return ""
	}
}

// applyWhatIf applies the changes of --what-if to hap. It returns the number of additional accounts of each pool
// that a change accounts.POOL names.
func applyWhatIf(s *cli.Shell, hap *config.HAP, changes []string) (more map[string]int, err error) {
	more = map[string]int{}
	for _, change := range changes {
		name, value, ok := strings.Cut(change, "=")
		kind, of, _ := strings.Cut(name, ".")
		switch {
		case !ok:
			err = errors.New("it has no =")
		case kind == "strategy" && of == "":
			hap.MultiHyperscalerAccount.Strategy = account.Strategy(value)
		case kind == "allowedGlobalAccounts" && of == "":
			hap.MultiHyperscalerAccount.AllowedGlobalAccounts, err = tenantList(value)
		case kind == "rules" && of == "":
			err = otherRules(s, hap, value)
		case kind == "limit" && of != "":
			var n int
			if n, err = number(value); err == nil {
				limits := maps.Clone(hap.MultiHyperscalerAccount.Limits) // they may be another configuration's too
				if limits == nil {
					limits = map[string]int{}
				}
				limits[of] = n
				hap.MultiHyperscalerAccount.Limits = limits
			}
		case kind == "accounts" && of != "":
			more[of], err = number(value)
		default:
			err = errors.New("the changes are limit.PROVIDER=N, limit.default=N, strategy=NAME, allowedGlobalAccounts=ID,ID, rules=FILE and accounts.POOL=N")
		}
		var invalid rule.Faults
		switch {
		case errors.As(err, &invalid):
			return nil, fmt.Errorf("--what-if %s: %w", change, err)
		case err != nil:
			return nil, cli.Usagef("--what-if %s: %w", change, err)
		}
	}
	return more, nil
}

// mostNumber is the greatest number of clusters or accounts.
const mostNumber = 1_000_000

func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > mostNumber {
		return 0, fmt.Errorf("%q is no whole number from 0 to %d", text, mostNumber)
	}
	return n, nil
}

// imagine adds free accounts to the state, as many as more has for each pool, which exist only in the simulation. If
// warn is true, it warns of pools without an account: a rule may lead there, or the name may be wrong.
func imagine(s *cli.Shell, state *simulate.State, more map[string]int, warn bool) {
	stocked := map[string]bool{}
	for _, b := range state.Bindings {
		stocked[engine.Pool{HyperscalerType: b.HyperscalerType, EUAccess: b.EUAccess, Shared: b.Shared}.Name()] = true
	}
	for _, pool := range slices.Sorted(maps.Keys(more)) {
		if warn && !stocked[pool] {
			s.Say("pool %s of --what-if has no account now", pool)
		}
		of := engine.ParsePool(pool)
		for i := range more[pool] {
			state.Bindings = append(state.Bindings, simulate.Binding{
				Name: fmt.Sprintf("what-if-%s-%d", pool, i+1), HyperscalerType: of.HyperscalerType, EUAccess: of.EUAccess, Shared: of.Shared,
			})
		}
	}
}
