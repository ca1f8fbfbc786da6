package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/landscapes"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

// identity is the landscape of a command. It collects the landscape that each opened store has recorded.
// Before a store is read or changed, its landscape is compared with those of the other stores and of the
// configuration.
type identity struct {
	mu     sync.Mutex
	places []engine.Place // in the order in which they were opened; without a record, the landscape is empty
	silent bool           // the user was told that Redis has no record
}

// opened adds a place. It returns an *engine.ForeignError if the place belongs to another landscape than the
// earlier ones, or if its record is unreadable. err is the error of reading the record; other errors are returned.
func (i *identity) opened(p engine.Place, recorded bool, err error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, before := range i.places {
		if before.At == p.At {
			continue
		}
		if err := engine.OneLandscape(before, p, recorded, err); err != nil {
			return err
		}
	}
	if err := engine.OneLandscape(engine.Place{At: configured}, p, recorded, err); err != nil {
		return err
	}
	for n, before := range i.places {
		if before.At == p.At { // a command with --watch opens the place again and again
			i.places[n] = p
			return nil
		}
	}
	i.places = append(i.places, p)
	return nil
}

// where describes the landscape, if it is known, and the stores that were opened; "" if there are none.
func (i *identity) where() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var landscape engine.Landscape
	var at []string
	for _, p := range i.places {
		if p.Landscape.Knows(landscape) && p.Landscape.Namespace != "" {
			landscape = p.Landscape
		}
		if p.At != configured {
			at = append(at, p.At)
		}
	}
	if landscape.Namespace == "" {
		return strings.Join(at, ", ")
	}
	return landscape.String() + ": " + strings.Join(at, ", ")
}

// namespace returns the namespace of the bindings, "" if it is not known.
func (i *identity) namespace() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, p := range i.places {
		if p.Landscape.Namespace != "" {
			return p.Landscape.Namespace
		}
	}
	return ""
}

// configured stands, in errors, for the flags, the environment and the configuration file, which can name a
// landscape too.
const configured = "this configuration"

// configuredFor adds the landscape that the configuration names, if it names one. A command that needs no
// Gardener then also fails if it is configured for another namespace than its stores.
func (s *Shell) configuredFor(c config.Gardener) error {
	if c.Namespace == "" {
		return nil
	}
	named := engine.Landscape{Namespace: c.Namespace}
	if c.Resource != config.Default().Gardener.Resource { // the default need not be the operator's choice
		named.Resource = c.Resource
	}
	return s.identity.opened(engine.Place{At: configured, Landscape: named}, true, nil)
}

// redisIs compares the landscape that Redis has recorded with the other places. If a built Redis has no
// record, it tells the user once.
func (s *Shell) redisIs(ctx context.Context, store *counters.Store, built bool, cfg *config.Config) error {
	if err := s.configuredFor(cfg.Gardener); err != nil {
		return err
	}
	at := redisAt(cfg.Redis)
	l, recorded, err := landscapes.Recorded(ctx, store)
	if err := s.identity.opened(engine.Place{At: at, Landscape: l}, recorded, err); err != nil {
		return err
	}
	if built && !recorded && !s.identity.silent {
		s.identity.silent = true
		s.Say("%s does not say which landscape it belongs to; a worker of this version records it when it starts", at)
	}
	return nil
}

func redisAt(c config.Redis) string { return "Redis at " + connect.Shown(c.URL) }

// Recorded returns an error if Redis had no record of its landscape when the command opened it, or was not opened:
// then a command must not change it.
func (s *Shell) Recorded(c config.Redis) error {
	s.identity.mu.Lock()
	defer s.identity.mu.Unlock()
	for _, p := range s.identity.places {
		if p.At == redisAt(c) && p.Landscape.Namespace != "" {
			return nil
		}
	}
	return &ExitError{Code: ExitInvalid, Err: fmt.Errorf(
		"%s does not say which landscape it belongs to, so nothing in it is changed; start a worker of this version, which records it, or run hapctl landscape adopt",
		redisAt(c))}
}

// RedisClaimed adds the landscape for which a Redis was claimed. err is the error of the claim.
func (s *Shell) RedisClaimed(c config.Redis, l engine.Landscape, err error) error {
	return s.identity.opened(engine.Place{At: redisAt(c), Landscape: l}, true, err)
}

// LedgerIs compares the landscape in a ledger's metadata with the other places.
func (s *Shell) LedgerIs(stream jetstream.StreamConfig, cfg *config.Config) error {
	return s.ledgerIs(stream, cfg, false)
}

// ShadowsLedgerIs is LedgerIs for the ledger of a shadow, which decides on the workers' bindings.
func (s *Shell) ShadowsLedgerIs(stream jetstream.StreamConfig, cfg *config.Config) error {
	return s.ledgerIs(stream, cfg, true)
}

func (s *Shell) ledgerIs(stream jetstream.StreamConfig, cfg *config.Config, shadows bool) error {
	if err := s.configuredFor(cfg.Gardener); err != nil {
		return err
	}
	l, recorded, err := storage.LandscapeOf(stream)
	l.Shadow = l.Shadow && !shadows
	return s.identity.opened(engine.Place{At: ledgerAt(stream.Name, cfg.NATS), Landscape: l}, recorded, err)
}

func ledgerAt(stream string, c config.NATS) string { return stream + " at " + connect.Shown(c.URL) }

// LandscapeOf returns the landscape of the bindings, with the uid of their namespace, which it tries to read for up to
// ConnectWithin. The exit code of an error is that of a server that was not reached.
func LandscapeOf(ctx context.Context, client *gardener.Client) (engine.Landscape, error) {
	ctx, cancel := context.WithTimeout(ctx, ConnectWithin)
	defer cancel()
	l, err := client.Landscape(ctx)
	if err != nil {
		return l, &ExitError{Code: ExitFailure, Err: GardenerError(err)} // as unreachable does
	}
	return l, nil
}

// gardenerIs compares Gardener's landscape with those of the places that were opened before, and adds Gardener to them:
// first by namespace and resource, without a request, then also by the uid of the namespace.
func (s *Shell) gardenerIs(ctx context.Context, client *gardener.Client, o gardener.Options) error {
	p := engine.Place{At: "Gardener at " + client.Server(), Landscape: engine.Landscape{Namespace: o.Namespace, Resource: string(o.Resource)}}
	if err := s.identity.opened(p, true, nil); err != nil {
		return err
	}
	var err error
	if p.Landscape, err = LandscapeOf(ctx, client); err != nil {
		return err
	}
	return s.identity.opened(p, true, nil)
}

// Beside compares the landscapes of Gardener and of the configured Redis, for a command that does not use
// Redis. Its only error is an *engine.ForeignError: it returns nil if no Redis is configured, and only tells
// the user if Redis cannot be read.
func (s *Shell) Beside(ctx context.Context, cfg *config.Config) error {
	if !cfg.Given("redis") {
		return nil
	}
	ctx, cancel := Half(ctx)
	defer cancel()
	_, _, err := ReachRedis(ctx, s, cfg)
	if err == nil {
		return nil
	}
	if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
		return err
	}
	s.Say("whether Redis belongs to the same landscape was not checked: %s", OneLineOf(err))
	return nil
}

// Announce tells the user which change follows, and in which landscape.
func (s *Shell) Announce(what string) {
	if where := s.identity.where(); where != "" {
		what += ": " + where
	}
	s.Say("%s", what)
}
