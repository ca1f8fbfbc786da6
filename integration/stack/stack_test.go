package stack

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// TestOptionsRefused: options that contradict one another start nothing.
func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for says, o := range map[string]Options{
		"none of light, crd, real": {Gardener: "other"},
		"names no program":         {WorkerCommand: []string{}},
		"KubeArgs":                 {KubeArgs: []string{"--authorization-mode=RBAC"}},
		"GardenerArgs":             {Gardener: CRDGardener, GardenerArgs: []string{"--disable-admission-plugins=X"}},
	} {
		o.Talk = io.Discard
		s, err := Start(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", o, err, says)
		}
		if s != nil {
			t.Errorf("%+v is started", o)
		}
	}
}

// TestLightStack: a stack without a word about its Kubernetes API has the light one,
// builds nothing and has the accounts.
func TestLightStack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var talk strings.Builder
	s, err := Start(ctx, Options{Redis: MiniRedis, Talk: &talk})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if got := s.Summary().Gardener; got != LightGardener {
		t.Errorf("the API is %s", got)
	}
	if talk.Len() > 0 {
		t.Errorf("said %q", talk.String())
	}
	config, err := s.Kube.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	bindings := client.Resource(kinds["CredentialsBinding"]).Namespace(s.Target.Namespace)
	list, err := bindings.List(ctx, metav1.ListOptions{LabelSelector: "hyperscalerType"})
	if err != nil || len(list.Items) < 10 {
		t.Errorf("%v: %d accounts", err, len(list.Items))
	}
}
