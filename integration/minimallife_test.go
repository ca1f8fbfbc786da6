package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/cmd/hapctl/app"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/integration/stack"
)

const (
	// grace is how long a step may still take once a user of the life was
	// refused something: what goes on without it did not need it.
	grace = 3 * time.Second
	// stepLimit is how long a step may take on a busy machine.
	stepLimit = 3 * time.Minute
)

// life is the whole lifecycle of an account, in which each program has the rights of
// deploy and no others: a worker, a broker, a cleanup job and an operator.
type life struct {
	*ground
	name     string // of the release, the namespace and the IPAMConfig
	resource string
	dir      string
	book     *refusalBook

	redis        *redis.Client // as who may do everything
	redisAddress string

	natsURL    string
	seeds      map[string]string
	kubeconfig string
	worker     string // the worker's configuration
	hapctl     string // the operator's

	kyma, cleanup *requests.Client
	copies        chan *nats.Msg
	taken         []func()  // what is to be given back, in reverse
	old           retaining // what the worker forgets
	stopped       chan error
	ready         func() error
	log           *safeBuffer   // the worker's
	account       events.Reply  // of the first tenant
	second        chan waitDone // the answer of who waits
}

type waitDone struct {
	reply events.Reply
	err   error
}

// live lives one life with the grants; the error names the step that it ended at.
func (g *ground) live(ctx context.Context, dir, name, resource string, taken *right) (refused []string, err error) {
	l := &life{ground: g, name: name, resource: resource, dir: dir, book: &refusalBook{}, second: make(chan waitDone, 1), old: newRetaining()}
	defer func() {
		for _, giveBack := range slices.Backward(l.taken) {
			giveBack()
		}
	}()
	if err := l.prepare(ctx, taken); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"start", l.start}, {"provision", l.provision}, {"wait", l.wait}, {"resolve", l.resolve},
		{"dead letter", l.deadLetter}, {"look", l.look}, {"deprovision", l.deprovision},
		{"follow", l.follow}, {"rebuild", l.rebuild}, {"release", l.release}, {"drift", l.drift},
		{"replay", l.replay}, {"pause", l.pause}, {"forget", l.old.forget}, {"content", l.content},
	} {
		if err := l.step(ctx, step.do); err != nil {
			return l.refused(ctx), fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return l.refused(ctx), nil
}

func (l *life) refused(ctx context.Context) []string {
	return append(l.book.all(), l.refusedByRedis(context.WithoutCancel(ctx))...)
}

// step does something within its time, which is short once anything was refused.
func (l *life) step(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepLimit, errors.New("it takes too long"))
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if len(l.refused(ctx)) > 0 {
				select {
				case <-done:
				case <-time.After(grace):
					cancel()
				}
				return
			}
		}
	}()
	return do(ctx)
}

func (l *life) later(f func()) { l.taken = append(l.taken, f) }

// prepare makes namespace, accounts, policy and ranges, and grants every user their rights.
func (l *life) prepare(ctx context.Context, taken *right) error {
	rights, err := readGrants(l.name, l.resource)
	if err != nil {
		return err
	}
	if taken != nil {
		taken.drop(rights)
	}
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	namespace.SetName(l.name)
	if _, err := l.admin.Resource(namespacesResource).Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	config, err := l.stack.Kube.Config()
	if err != nil {
		return err
	}
	if err := stack.CreateAccounts(ctx, config, stack.Target{Namespace: l.name, Resource: l.resource}, accounts("aws", 1)); err != nil {
		return err
	}
	if err := errors.Join(l.setPolicy(ctx, "aws"), l.setRanges(ctx, "mcp", "10.27.0.0/16")); err != nil {
		return err
	}
	token, err := l.grantKubernetes(ctx, l.name, rights.manifests)
	if err != nil {
		return err
	}
	kubeconfig, proxy, err := l.watched(l.dir, token, l.book)
	if err != nil {
		return err
	}
	l.kubeconfig = kubeconfig
	l.later(func() { proxy.CloseClientConnections(); proxy.Close() })
	if err := l.startRedis(ctx); err != nil {
		return err
	}
	if err := l.grantRedis(ctx, rights.redis); err != nil {
		return err
	}
	server, seeds, err := guardedNATS(l.dir, rights.nats, l.book)
	if err != nil {
		return err
	}
	l.later(func() { server.Shutdown(); server.WaitForShutdown() })
	l.natsURL, l.seeds = server.ClientURL(), seeds
	return l.configure()
}

// configure writes the configurations of the worker and of hapctl.
func (l *life) configure() error {
	root, err := stack.Root()
	if err != nil {
		return err
	}
	catalog := filepath.Join(root, "deploy", "policy", "catalog")
	for role, file := range map[string]*string{"worker": &l.worker, "operator": &l.hapctl} {
		user := "hap-" + role
		kubeconfig := l.kubeconfig
		if role == "operator" { // the chart has no rights for people
			kubeconfig = l.stack.Kube.Kubeconfig()
		}
		text := oneAccountRules + fmt.Sprintf(`
nats: {url: %q, nkey: %q}
redis: {url: "redis://%s", username: %q, passwordFile: %q}
gardener: {kubeconfig: %q, namespace: %s, resource: %s}
policy: {catalog: %q, namespace: %s, typeInstances: %q}
network: {config: %s}
worker: {ackWait: 3s, budget: 2s, drain: 3s}
telemetry: {listen: "127.0.0.1:0"}
`, l.natsURL, l.seeds[strings.ToUpper(role)], l.redisAddress, user, filepath.Join(l.dir, user),
			kubeconfig, l.name, l.resource, catalog, l.name, filepath.Join(l.dir, "instances.yaml"), l.name)
		*file = filepath.Join(l.dir, role+".yaml")
		err = errors.Join(err, os.WriteFile(*file, []byte(text), 0o600), os.WriteFile(filepath.Join(l.dir, user), []byte(passwordOf(user)), 0o600))
	}
	instances := "- {id: i-1, typeRef: {path: cap.type.aws.auth.credentials, revision: 0.1.0}}\n- {id: i-2, typeRef: {path: cap.type.azure.auth.service-principal, revision: 0.1.0}}\n"
	return errors.Join(err, os.WriteFile(filepath.Join(l.dir, "instances.yaml"), []byte(instances), 0o600))
}

// setPolicy writes the ConfigMap.
func (l *life) setPolicy(ctx context.Context, provider string) error {
	o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"policy.yaml": forProvider(provider)}}}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	o.SetName("hap-policy")
	_, err := l.admin.Resource(configMapsResource).Namespace(l.name).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
	return err
}

// setRanges writes the IPAMConfig: blocks of a parent for clusters with a purpose.
func (l *life) setRanges(ctx context.Context, purpose, parent string) error {
	spec := map[string]any{}
	text := "{parentCIDRs: {foo: [" + parent + "]}, injectionRules: [{id: a, matchPurposes: [{operator: ContainsAll, values: [" + purpose +
		"]}], injections: [{path: .spec.network.cidr, parents: [foo], subnetSize: 28}]}]}"
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion("gardener.clusters.openmcp.cloud/v1alpha1")
	o.SetKind("IPAMConfig")
	o.SetName(l.name)
	_, err := l.admin.Resource(ipamConfigs).Apply(ctx, l.name, o, metav1.ApplyOptions{FieldManager: "test", Force: true})
	return err
}

// start starts the worker and connects broker and cleanup job.
func (l *life) start(ctx context.Context) error {
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	l.log = &safeBuffer{}
	listening := make(chan string, 1)
	l.stopped = make(chan error, 1)
	go func() {
		l.stopped <- daemon.Run(running, daemon.Options{
			ConfigPath: l.worker, Env: []string{}, Log: l.log, OnListening: func(addr string) { listening <- addr }, Retention: l.old.take,
		})
	}()
	l.later(func() { end(); <-l.stopped; l.stopped <- nil })
	var url string
	select {
	case addr := <-listening:
		url = "http://" + addr
	case err := <-l.stopped:
		l.stopped <- err
		return fmt.Errorf("the worker ended: %w", err)
	}
	l.ready = func() error {
		code, body, err := fetch(url + "/readyz")
		if err == nil && code != 200 {
			err = errors.New(body + tailOf(l.log.String()))
		}
		return err
	}
	if err := until(ctx, l.ready); err != nil {
		return err
	}
	l.later(end)
	var err error
	if l.kyma, err = l.client("PUBLISHER"); err != nil {
		return err
	}
	l.cleanup, err = l.client("CLEANUP")
	return err
}

func tailOf(text string) string { return text[max(0, len(text)-1000):] }

// until asks again until there is no error, or ctx ends.
func until(ctx context.Context, ask func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// client is a publisher in a role, with its own inbox.
func (l *life) client(role string) (*requests.Client, error) {
	key, err := nats.NkeyOptionFromSeed(l.seeds[role])
	if err != nil {
		return nil, err
	}
	prefix := "_INBOX." + strings.ToLower(role)
	nc, err := nats.Connect(l.natsURL, key, nats.CustomInboxPrefix(prefix), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, err
	}
	l.later(nc.Close)
	if role == "PUBLISHER" {
		l.copies = make(chan *nats.Msg, 16)
		if _, err := nc.ChanSubscribe(prefix+".copies", l.copies); err != nil {
			return nil, err
		}
	}
	c, err := requests.NewClient(nc, requests.ClientOptions{Source: "/" + strings.ToLower(role)})
	if err == nil {
		l.later(c.Close)
	}
	return c, err
}

// hapctlDoes runs hapctl as the operator.
func (l *life) hapctlDoes(ctx context.Context, codes []int, args ...string) (string, error) {
	var out, talk bytes.Buffer
	code := app.Run(ctx, append(args, "--config", l.hapctl), strings.NewReader(""), &out, &talk)
	if slices.Contains(codes, code) {
		return out.String(), nil
	}
	return "", fmt.Errorf("hapctl %v: exit code %d: %s%s", args, code, out.String(), talk.String())
}

// refusedAs is an error unless err is a rejection with the code.
func refusedAs(err error, code engine.Code) error {
	if engine.CodeOf(err) != code {
		return errors.Join(fmt.Errorf("want the answer %s", code), err)
	}
	return nil
}
