package stack

import (
	"context"
	"path/filepath"
	"strconv"
)

// How the kinds of Gardener are served:
const (
	// LightGardener serves them as CRDs in integration/lightapi, a Kubernetes API in this process: without a
	// build, validation against schemas, or roles.
	LightGardener = "light"
	// CRDGardener serves them as CRDs in kube-apiserver, without Gardener's validation.
	CRDGardener = "crd"
	// RealGardener serves them by gardener-apiserver behind kube-apiserver, as in a landscape: with its
	// validation, admission and conflicts, but without controllers.
	RealGardener = "real"
)

// Aggregated is the address of gardener-apiserver for kube-apiserver.
type Aggregated struct {
	Host string // a DNS name that kube-apiserver can resolve
	Port int
}

// gardener is the gardener-apiserver of a Kube.
type gardener struct {
	binary string
	args   []string // further flags of gardener-apiserver
	port   int      // 0 until the first start
}

// startGardener starts gardener-apiserver behind a kubeapi that is ready.
func (k *Kube) startGardener(ctx context.Context) error {
	var said struct {
		Port int `json:"port"`
	}
	p, err := startAnnouncing(ctx, command{
		name: "gardenerapi",
		path: k.gardener.binary,
		args: append([]string{
			"--data", filepath.Join(k.dir, "gardener"), "--kubeconfig", k.kubeconfig, "--etcd", k.etcd,
			"--port", strconv.Itoa(k.gardener.port), "--until-eof", "--",
		}, k.gardener.args...),
		talk: k.talk,
	}, &said)
	if err != nil {
		return err
	}
	k.processes = append(k.processes, p)
	k.gardener.port = said.Port
	return nil
}

// Gardener returns the address of gardener-apiserver, nil if the kinds are CRDs.
func (k *Kube) Gardener() *Aggregated {
	if k.gardener == nil {
		return nil
	}
	return &Aggregated{Host: "localhost", Port: k.gardener.port}
}
