package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/landscapes"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/worker/config"
)

// identity is the landscape that a command works in: what each store that it has opened
// says of that, held against the others and the configuration before the store is read
// or changed.
type identity struct {
	mu     sync.Mutex
	places []engine.Place // in the order in which they were opened; a landscape that is not recorded says nothing
	silent bool           // that Redis has no record was told
}

// opened takes a place in, and refuses one of another landscape than those before it.
// err is that of reading its record.
func (i *identity) opened(p engine.Place, recorded bool, err error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	p.Landscape.Shadow = false // a shadow's places are compared with the workers' bindings
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
		if before.At == p.At { // watched: it is read again and again
			i.places[n] = p
			return nil
		}
	}
	i.places = append(i.places, p)
	return nil
}

// where names the landscape and all that was opened of it.
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

// namespace is that of the bindings, as far as it is known; "" for not at all.
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

// configured is the place of what flags, environment and file say.
const configured = "this configuration"

// configuredFor takes in what the configuration says of the landscape, where it says
// anything: a command that needs no Gardener is refused too where it is told another
// namespace than the one it would work for.
func (s *Shell) configuredFor(c config.Gardener) error {
	if c.Namespace == "" {
		return nil
	}
	named := engine.Landscape{Namespace: c.Namespace}
	if c.Resource != config.Default().Gardener.Resource { // the default may not have been chosen
		named.Resource = c.Resource
	}
	return s.identity.opened(engine.Place{At: configured, Landscape: named}, true, nil)
}

// redisIs holds what Redis has recorded against the rest.
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

func redisAt(c config.Redis) string { return "Redis at " + Addresses(c.URL) }

// Recorded refuses to change a Redis that no worker has recorded the landscape of.
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

// RedisClaimed takes in the landscape that a Redis was claimed for; err is that of the claim.
func (s *Shell) RedisClaimed(c config.Redis, l engine.Landscape, err error) error {
	return s.identity.opened(engine.Place{At: redisAt(c), Landscape: l}, true, err)
}

// LedgerIs holds what a ledger's metadata says against the rest.
func (s *Shell) LedgerIs(stream jetstream.StreamConfig, cfg *config.Config) error {
	if err := s.configuredFor(cfg.Gardener); err != nil {
		return err
	}
	l, recorded, err := events.LandscapeOf(stream)
	return s.identity.opened(engine.Place{At: ledgerAt(stream.Name, cfg.NATS), Landscape: l}, recorded, err)
}

func ledgerAt(stream string, c config.NATS) string { return stream + " at " + Addresses(c.URL) }

// gardenerIs holds where the bindings are against the rest: by its names first, which
// need no request, then by the uid of the namespace.
func (s *Shell) gardenerIs(ctx context.Context, client *gardener.Client, o gardener.Options) error {
	p := engine.Place{At: "Gardener at " + client.Server(), Landscape: engine.Landscape{Namespace: o.Namespace, Resource: string(o.Resource)}}
	if err := s.identity.opened(p, true, nil); err != nil {
		return err
	}
	var err error
	if p.Landscape, err = client.Landscape(ctx); err != nil {
		return GardenerError(err)
	}
	return s.identity.opened(p, true, nil)
}

// Beside holds Gardener against the Redis of the configuration, for a command that works
// on labels alone: it goes on where no Redis is named or none answers.
func (s *Shell) Beside(ctx context.Context, cfg *config.Config) error {
	if !cfg.Given("redis") {
		return nil
	}
	_, _, err := ReachRedis(ctx, s, cfg)
	if err == nil {
		return nil
	}
	if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
		return err
	}
	s.Say("the landscape is not held against Redis: %s", OneLineOf(err))
	return nil
}

// Announce tells the user what is about to be changed, and in which landscape.
func (s *Shell) Announce(what string) {
	if where := s.identity.where(); where != "" {
		what += ": " + where
	}
	s.Say("%s", what)
}
