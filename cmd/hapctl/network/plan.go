package network

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/network"
)

// planLine is a line of input: a cluster that asks for ranges, unless Op says otherwise.
type planLine struct {
	Op   string `json:"op"` // "", delete or config
	File string `json:"file"`
	network.Cluster
}

// planned is the result for one cluster, with all blocks that it then has.
type planned struct {
	Name      string         `json:"name"`
	Namespace string         `json:"namespace,omitempty"`
	Applied   []plannedRule  `json:"applied"`
	New       []string       `json:"new,omitempty"`      // after op config: the rules that the change applied
	Skipped   []plannedSkip  `json:"skipped,omitempty"`  // rules with a path that the cluster has already
	Released  *[]plannedRule `json:"released,omitempty"` // after op delete: the blocks that the cluster had
	Error     *cli.LineError `json:"error,omitempty"`
}

type plannedRule struct {
	Rule       string             `json:"rule"`
	Injections []plannedInjection `json:"injections"`
}

type plannedInjection struct {
	ID    string   `json:"id"`
	CIDR  string   `json:"cidr"`
	Paths []string `json:"paths"`
}

type plannedSkip struct {
	Rule string `json:"rule"`
	Path string `json:"path"`
	By   string `json:"by"`
}

// plannedConfig is the result of a change of the configuration.
type plannedConfig struct {
	File     string          `json:"file"`
	Changed  []planned       `json:"changed"`
	Failed   []planned       `json:"failed,omitempty"` // clusters for which a matching rule found no room
	Errors   document.Faults `json:"errors,omitempty"`
	Warnings document.Faults `json:"warnings,omitempty"`
	Error    *cli.LineError  `json:"error,omitempty"`
}

// planRequest is the request id of all lines. One id is enough: a plan returns blocks only with their
// cluster.
const planRequest = "plan"

// plan is the state after the lines so far.
type plan struct {
	shell  *cli.Shell
	config *network.Config
	space  *network.Space
	live   []network.Cluster // in the order in which they came; without a name if it was deleted
	at     map[string]int    // their indexes, by key
}

func newNetworkPlan(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan (--config FILE | -f FILE) --stdin",
		Short: "Show which ranges clusters would get",
		Long: `Show which ranges clusters would get, one after the other. At the beginning no range
is in use. hapctl connects to nothing and stores nothing.

Each line of standard input is one of
  {"name":"c1","namespace":"n","labels":{},"purposes":["mcp"]}   a cluster asks for ranges; a repeated request gets the same ranges
  {"op":"delete","name":"c1","namespace":"n"}                    a cluster returns all its ranges
  {"op":"config","file":"new.yaml"}                              the following lines use another configuration
For each line, hapctl prints one line with the ranges that the cluster has then, such
as
  {"name":"c1","applied":[{"rule":"…","injections":[{"id":"","cidr":"10.27.0.0/28","paths":["/spec/network/cidr"]}]}]}
For op config, the line lists as "changed":[…] the clusters that the new
configuration serves. If a configuration is invalid, hapctl rejects it and keeps the
old one. The exit code is 4 if a rule has no free range.`,
		Example: `  hapctl network plan --config ipam.yaml --stdin < clusters.ndjson`,
		Args:    cli.Arguments(cobra.NoArgs),
	}
	read := networkFile(s, cmd)
	stdin := clusterLines(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := stdin(); err != nil {
			return err
		}
		config, warnings, err := read()
		if err != nil {
			return err
		}
		for _, w := range warnings {
			s.Say("warning: %v", w)
		}
		p := &plan{shell: s, config: config, space: network.NewSpace(), at: map[string]int{}}
		p.space.SetParents(config.Parents)
		return cli.RunLines(cmd.Context(), s, p.do)
	}
	return cmd
}

func (p *plan) do(_ context.Context, line planLine) (any, error) {
	switch line.Op {
	case "config":
		return p.configure(line.File)
	case "", "delete":
	default:
		return nil, &engine.Error{
			Code: engine.CodeInvalidEvent, Err: fmt.Errorf("there is no op %q", line.Op),
			Hint: "the ops are delete and config; a line without op is a cluster that asks",
		}
	}
	if err := named(line.Cluster); err != nil {
		return nil, err
	}
	if line.Op == "delete" {
		return p.remove(line.Cluster), nil
	}
	return p.provision(line.Cluster)
}

func (p *plan) provision(c network.Cluster) (any, error) {
	got, err := p.space.Acquire(key(c), planRequest, p.config.Match(c))
	out := p.state(c)
	if err != nil {
		out.Error = &cli.LineError{Code: engine.CodeOf(err), Message: err.Error()}
	} else {
		out.Skipped = skips(got.Skipped)
	}
	if i, known := p.at[key(c)]; known {
		p.live[i] = c
	} else if err == nil {
		p.at[key(c)] = len(p.live)
		p.live = append(p.live, c)
	}
	return out, err
}

func (p *plan) remove(c network.Cluster) planned {
	released := plannedRules(p.space.Release(key(c)))
	if i, known := p.at[key(c)]; known {
		p.live[i] = network.Cluster{}
		delete(p.at, key(c))
	}
	out := p.state(c)
	out.Released = &released
	return out
}

// configure applies a configuration and serves the clusters that its rules match. Unlike on its own request, a cluster
// gets the blocks of each rule that finds room, even if another rule finds none.
func (p *plan) configure(file string) (any, error) {
	out := plannedConfig{File: file, Changed: []planned{}}
	config, warnings, err := p.readConfig(file)
	out.Warnings = warnings
	if err != nil {
		if faults, ok := errors.AsType[document.Faults](err); ok {
			out.Errors = faults
			err = &cli.ExitError{Code: cli.ExitInvalid, Err: &engine.Error{
				Code: engine.CodeInvalidEvent, Err: fmt.Errorf("%s is not valid: %s", file, strings.ReplaceAll(err.Error(), "\n", "; ")), Hint: "the configuration before it stays",
			}}
		}
		out.Error = &cli.LineError{Code: engine.CodeOf(err), Message: err.Error()}
		return out, err
	}
	p.config = config
	p.space.SetParents(config.Parents)
	for _, c := range p.live {
		if c.Name == "" {
			continue
		}
		changed, failed := p.serve(c)
		if failed != nil {
			err = failed
			out.Failed = append(out.Failed, changed)
		}
		if len(changed.New) > 0 {
			changed.Error = nil
			out.Changed = append(out.Changed, changed)
		}
	}
	return out, err
}

// readConfig reads the file of a line. It refuses standard input, which has the lines.
func (p *plan) readConfig(file string) (*network.Config, document.Faults, error) {
	if file == "" || file == "-" {
		return nil, nil, &engine.Error{Code: engine.CodeInvalidEvent, Err: errors.New("op config must name a file; - is standard input, which has the lines"), Hint: `write {"op":"config","file":"new.yaml"}`}
	}
	return Read(p.shell, file)
}

// serve applies each rule that matches a cluster now. The error is from the first rule that found no room.
func (p *plan) serve(c network.Cluster) (planned, error) {
	var fresh []string
	var skipped []network.Skipped
	var first error
	for _, rule := range p.config.Match(c) {
		got, err := p.space.Acquire(key(c), planRequest, []network.Rule{rule})
		if err != nil && first == nil {
			first = err
		}
		fresh, skipped = append(fresh, got.New...), append(skipped, got.Skipped...)
	}
	out := p.state(c)
	out.New, out.Skipped = fresh, skips(skipped)
	if first != nil {
		out.Error = &cli.LineError{Code: engine.CodeOf(first), Message: first.Error()}
	}
	return out, first
}

// state returns the blocks of a cluster.
func (p *plan) state(c network.Cluster) planned {
	return planned{Name: c.Name, Namespace: c.Namespace, Applied: plannedRules(p.space.Applied(key(c)))}
}

func key(c network.Cluster) string { return c.Namespace + "/" + c.Name }

func plannedRules(applied []network.Applied) []plannedRule {
	rules := []plannedRule{}
	for _, a := range applied {
		r := plannedRule{Rule: a.Rule, Injections: []plannedInjection{}}
		for _, b := range a.Blocks {
			r.Injections = append(r.Injections, plannedInjection{ID: b.ID, CIDR: b.CIDR.String(), Paths: b.Paths})
		}
		rules = append(rules, r)
	}
	return rules
}

func skips(skipped []network.Skipped) []plannedSkip {
	var all []plannedSkip
	for _, s := range skipped {
		all = append(all, plannedSkip(s))
	}
	return all
}
