package stack

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var shootResource = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "shoots"}

// createClusters creates the Shoots of accounts that have clusters already, as in a
// landscape that another broker filled. A Shoot that exists stays as it is.
func createClusters(ctx context.Context, client dynamic.Interface, t Target, accounts []Account) error {
	usual, err := kindOf(t.Resource)
	if err != nil {
		return err
	}
	for _, a := range accounts {
		for n := range a.Clusters {
			_, err := client.Resource(shootResource).Namespace(t.Namespace).Create(ctx, a.shoot(n+1, usual), metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("cluster %d of account %s: %w", n+1, a.Name, err)
			}
		}
	}
	return nil
}

// shoot returns the number-th cluster of the account. usual is the kind of accounts without a kind.
func (a Account) shoot(number int, usual string) *unstructured.Unstructured {
	kind, field := a.Kind, "secretBindingName" // a Secret has a SecretBinding of its name
	if kind == "" {
		kind = usual
	}
	if kind == "CredentialsBinding" {
		field = "credentialsBindingName"
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": ShootSpec(a.provider(), field, a.Name)}}
	o.SetAPIVersion(shootResource.GroupVersion().String())
	o.SetKind("Shoot")
	o.SetName(fmt.Sprintf("old-%s-%d", a.Name, number))
	o.SetAnnotations(map[string]string{"infrastructuremanager.kyma-project.io/runtime-id": fmt.Sprintf("rt-old-%s-%d", a.Name, number)})
	if tenant := a.Labels["tenantName"]; tenant != "" {
		o.SetLabels(map[string]string{"account": tenant})
	}
	return o
}
