package stack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// startAssets starts etcd and kube-apiserver from KUBEBUILDER_ASSETS, with nearly the flags of integration/kubeapi.
func (k *Kube) startAssets(ctx context.Context) error {
	etcd, err := k.startAssetsEtcd()
	if err != nil {
		return err
	}
	token, err := k.assetsKeys()
	if err != nil {
		return errors.Join(err, k.Stop())
	}
	if k.port == 0 {
		if k.port, err = FreePort(); err != nil {
			return errors.Join(err, k.Stop())
		}
	}
	args := append([]string{
		"--etcd-servers=" + etcd,
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(k.port),
		"--cert-dir=" + k.dir,
		"--token-auth-file=" + k.in("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + k.in("service-account.key"),
		"--service-account-signing-key-file=" + k.in("service-account.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--disable-admission-plugins=ServiceAccount",
		"--advertise-address=" + loopback,
		"--endpoint-reconciler-type=none",
	}, k.args...)
	// The modes of a repeated flag would add up, and AlwaysAllow would win.
	if !slices.ContainsFunc(k.args, func(flag string) bool { return strings.HasPrefix(flag, "--authorization-mode") }) {
		args = append(args, "--authorization-mode=AlwaysAllow")
	}
	api, err := startProcess(command{name: "kube-apiserver", path: filepath.Join(k.assets, "kube-apiserver"), args: args, talk: k.talk})
	if err != nil {
		return errors.Join(err, k.Stop())
	}
	k.processes = append(k.processes, api)
	if err := api.await(ctx, func(ctx context.Context) error { return k.assetsReady(ctx, token) }); err != nil {
		k.Kill()
		return err
	}
	return nil
}

func (k *Kube) startAssetsEtcd() (endpoint string, err error) {
	client, err := FreePort()
	if err != nil {
		return "", err
	}
	peer, err := FreePort()
	if err != nil {
		return "", err
	}
	endpoint = "http://" + net.JoinHostPort(loopback, strconv.Itoa(client))
	p, err := startProcess(command{
		name: "etcd",
		path: filepath.Join(k.assets, "etcd"),
		args: []string{
			"--data-dir=" + k.in("etcd"), "--unsafe-no-fsync", "--log-level=error",
			"--listen-client-urls=" + endpoint, "--advertise-client-urls=" + endpoint,
			"--listen-peer-urls=http://" + net.JoinHostPort(loopback, strconv.Itoa(peer)),
		},
		talk: k.talk,
	})
	if err != nil {
		return "", err
	}
	k.processes = []*process{p}
	return endpoint, nil
}

// assetsReady writes the kubeconfig, with the server's self-signed certificate, and requests /readyz.
func (k *Kube) assetsReady(ctx context.Context, token string) error {
	certificate, err := os.ReadFile(k.in("apiserver.crt"))
	if err != nil {
		return err
	}
	const name = "stack"
	kubeconfig := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   "https://" + net.JoinHostPort(loopback, strconv.Itoa(k.port)),
			CertificateAuthorityData: certificate,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
	if err := clientcmd.WriteToFile(kubeconfig, k.kubeconfig); err != nil {
		return err
	}
	cfg, err := k.Config()
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return answersOK(ctx, client, cfg.Host+"/readyz")
}

// assetsKeys creates the token and the service account key, unless they exist.
func (k *Kube) assetsKeys() (token string, err error) {
	line, err := os.ReadFile(k.in("tokens.csv"))
	if err == nil {
		token, _, _ = strings.Cut(string(line), ",")
		return token, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(k.in("service-account.key"), block, 0o600); err != nil {
		return "", err
	}
	token = rand.Text()
	tokens := fmt.Sprintf("%s,admin,admin,\"system:masters\"\n", token)
	return token, os.WriteFile(k.in("tokens.csv"), []byte(tokens), 0o600)
}

func (k *Kube) in(name string) string { return filepath.Join(k.dir, name) }
