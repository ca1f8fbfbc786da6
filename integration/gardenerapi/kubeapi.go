package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// waitForKubeAPI waits until the kubeapi has published its front-proxy certificate, which it does shortly after it
// is ready. gardener-apiserver reads the certificate when it starts.
func (c *config) waitForKubeAPI(ctx context.Context) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		last := c.askKubeAPI(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the kubeapi of %s: %w: %w", c.kubeconfig, context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

func (c *config) askKubeAPI(ctx context.Context) error {
	kube, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(kube)
	if err != nil {
		return err
	}
	known, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if known.Data["requestheader-client-ca-file"] == "" {
		return errors.New("it has no front-proxy certificate")
	}
	return nil
}
