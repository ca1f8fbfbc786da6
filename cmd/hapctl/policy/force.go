package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/gardener/policyconfig"
	"github.com/hap-worker/hap-worker/worker/config"
)

// policyInForce is the policy that the workers of a configuration read.
type policyInForce struct {
	content []byte
	file    string // "" for a ConfigMap
	store   *policyconfig.Store
	version policyconfig.Version
}

// readInForce reads the policy from its file or ConfigMap. Before it reads a ConfigMap, it checks that Gardener
// and Redis belong to the same landscape, if Redis is configured and answers.
func readInForce(ctx context.Context, s *cli.Shell, cfg *config.Config) (policyInForce, error) {
	if file := cfg.Policy.File; file != "" {
		content, err := s.ReadText(file, "policy")
		return policyInForce{content: content, file: file}, err
	}
	_, tell, err := cli.OpenGardener(ctx, s, cfg.Gardener)
	if err != nil {
		return policyInForce{}, err
	}
	defer tell()
	if err := s.Beside(ctx, cfg); err != nil {
		return policyInForce{}, err
	}
	p := policyInForce{}
	if p.store, err = connect.PolicyStore(cfg, s.Connections.Context); err != nil {
		return p, fmt.Errorf("%w; set %s", err, policySetting)
	}
	if p.version, err = p.store.Read(ctx); err != nil {
		return p, p.failed(err)
	}
	if !p.version.Found {
		return p, fmt.Errorf("%s has no key %s: there is no policy; write one with kubectl or set policy.key of --config", p.at(), p.version.Key)
	}
	p.content = []byte(p.version.Text)
	return p, nil
}

const policySetting = "policy.configMap, policy.namespace and policy.kubeconfig of --config"

// failed adds a remedy, and for some errors an exit code, to an error of reading or writing the ConfigMap.
func (p *policyInForce) failed(err error) error {
	switch {
	case errors.Is(err, policyconfig.ErrChanged):
		return &cli.ExitError{Code: cli.ExitConflict, Err: fmt.Errorf(
			"%s has changed since it was read as resourceVersion %s; nothing was changed; look at it with hapctl policy show and apply again", p.at(), p.version.ResourceVersion)}
	case errors.Is(err, policyconfig.ErrNoConfigMap):
		return &cli.ExitError{Code: cli.ExitFailure, Err: fmt.Errorf("there is no %s; check %s", p.at(), policySetting)}
	}
	// The error itself is not wrapped: otherwise a request that timed out would end hapctl as if --timeout had passed.
	return fmt.Errorf("%s; check %s, and the right to get the ConfigMap (to change it, also to update it)", cli.OneLineOf(err), policySetting)
}

// at names the file or the ConfigMap of the policy in messages.
func (p *policyInForce) at() string {
	if p.store == nil {
		return p.file
	}
	return fmt.Sprintf("ConfigMap %s/%s at %s", p.store.Namespace(), p.store.Name(), p.store.Server())
}

// parse parses the policy. The faults of an invalid policy name its file or ConfigMap.
func (p *policyInForce) parse() (*policy.Policy, error) {
	parsed, err := policy.Parse(p.content)
	return parsed, connect.InFile(err, p.at())
}

// policyView is the policy in force. docs/hapctl.md documents its fields.
type policyView struct {
	Source          string          `json:"source"` // file or configMap
	At              string          `json:"at"`     // the file, or the API server
	Namespace       string          `json:"namespace,omitempty"`
	Name            string          `json:"name,omitempty"`
	Key             string          `json:"key,omitempty"`
	ResourceVersion string          `json:"resourceVersion,omitempty"`
	Since           *time.Time      `json:"since,omitempty"` // absent if it is not known
	Digest          string          `json:"digest"`
	Valid           bool            `json:"valid"`
	Rules           int             `json:"rules"`
	Errors          document.Faults `json:"errors"`
	Previous        string          `json:"previous,omitempty"` // the digest of the version that rollback returns to
	Workers         []policyWorker  `json:"workers"`            // null if Redis is not configured or does not answer
	Document        string          `json:"document"`
}

func (v policyView) Show(w io.Writer, wide bool) {
	since, at := "not known", v.At
	if v.Since != nil {
		since = v.Since.Format(time.RFC3339)
	}
	if v.Source == sourceConfigMap {
		at = fmt.Sprintf("ConfigMap %s/%s at %s", v.Namespace, v.Name, v.At)
	}
	cli.Pairs(w, [][2]string{
		{"POLICY", at}, {"KEY", v.Key}, {"RESOURCE VERSION", v.ResourceVersion}, {"SINCE", since}, {"DIGEST", v.Digest},
		{"VALID", strconv.FormatBool(v.Valid)}, {"RULES", strconv.Itoa(v.Rules)}, {"PREVIOUS", v.Previous},
	})
	if !v.Valid {
		fmt.Fprintln(w)
		cli.ShowFaults(w, wide, v.Errors)
	}
	if len(v.Workers) > 0 {
		fmt.Fprintln(w)
		showPolicyWorkers(w, wide, v.Workers)
	}
	fmt.Fprintf(w, "\n%s\n", v.Document)
}

// The sources of a policy.
const (
	sourceFile      = "file"
	sourceConfigMap = "configMap"
)

func (p *policyInForce) view() (policyView, error) {
	v := policyView{
		Source: sourceFile, At: p.file, Digest: policy.Digest(p.content), Errors: document.Faults{}, Document: string(p.content),
	}
	since := p.version.Since
	if p.store != nil {
		v.Source, v.At, v.Namespace, v.Name = sourceConfigMap, p.store.Server(), p.store.Namespace(), p.store.Name()
		v.Key, v.ResourceVersion = p.version.Key, p.version.ResourceVersion
		if p.version.Kept {
			v.Previous = policy.Digest([]byte(p.version.Previous))
		}
	} else if info, err := os.Stat(p.file); err == nil && p.file != "-" {
		since = info.ModTime()
	}
	if !since.IsZero() {
		since = since.UTC().Truncate(time.Second)
		v.Since = &since
	}
	parsed, err := policy.Parse(p.content)
	faults, is := errors.AsType[document.Faults](err)
	if err != nil && !is {
		return v, err
	}
	if v.Valid = err == nil; v.Valid {
		v.Rules = len(parsed.Rules)
	} else {
		v.Errors = faults
	}
	return v, nil
}

func newPolicyShow(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the policy that workers read, and which workers use it",
		Long: `Show the policy that workers read: its file or ConfigMap with the resourceVersion,
since when it has its present text (if known), and the document. If it is a file,
hapctl reads the file on this machine.

If Redis is configured, hapctl also shows the policy that each worker uses, and since
when. Workers report it in Redis every 15 seconds and at each change. Digests tell
policies apart. The exit code is 3 if the policy is invalid; workers then keep the
last valid one.`,
		Example: `  hapctl policy show --config hap-worker.yaml
  hapctl policy show -o json | jq -r .document > policy-before.yaml`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	return s.Reader(cmd, "for Gardener and Redis", func(ctx context.Context, cfg *config.Config, _ []string) error {
		p, err := readInForce(ctx, s, cfg)
		if err != nil {
			return err
		}
		v, err := p.view()
		if err != nil {
			return err
		}
		if v.Workers, err = policyWorkers(ctx, s, cfg, v.Digest); err != nil {
			return err
		}
		if err := s.Print(v); err != nil || v.Valid {
			return err
		}
		s.Say("the policy is not valid: running workers keep the last valid one. A worker that starts makes requests for an interface wait or, with policy.file, does not start")
		return cli.Said(cli.ExitInvalid)
	})
}
