package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	clonesetmutating "github.com/openkruise/kruise/pkg/webhook/cloneset/mutating"
	clonesetvalidating "github.com/openkruise/kruise/pkg/webhook/cloneset/validating"
	daemonsetmutating "github.com/openkruise/kruise/pkg/webhook/daemonset/mutating"
	daemonsetvalidating "github.com/openkruise/kruise/pkg/webhook/daemonset/validating"
	statefulsetmutating "github.com/openkruise/kruise/pkg/webhook/statefulset/mutating"
	statefulsetvalidating "github.com/openkruise/kruise/pkg/webhook/statefulset/validating"
	webhooktypes "github.com/openkruise/kruise/pkg/webhook/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// admissionServer serves the webhooks that OpenKruise registers for its three kinds. While it does not run, the API server refuses writes of these kinds, as
// with OpenKruise itself.
type admissionServer struct {
	listener  net.Listener
	mux       *http.ServeMux
	authority []byte
}

func newAdmission() (*admissionServer, error) {
	certificate, authority, err := newCertificate()
	if err != nil {
		return nil, err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*certificate}})
	if err != nil {
		return nil, fmt.Errorf("listen for webhooks: %w", err)
	}
	return &admissionServer{listener: listener, mux: http.NewServeMux(), authority: authority}, nil
}

type hook struct {
	kind                 string
	versions             []string
	mutating, validating map[string]webhooktypes.HandlerGetter
}

func hooks() []hook {
	return []hook{
		{"clonesets", []string{"v1alpha1"}, clonesetmutating.HandlerGetterMap, clonesetvalidating.HandlerGetterMap},
		{"statefulsets", []string{"v1alpha1", "v1beta1"}, statefulsetmutating.HandlerGetterMap, statefulsetvalidating.HandlerGetterMap},
		{"daemonsets", []string{"v1alpha1"}, daemonsetmutating.HandlerGetterMap, daemonsetvalidating.HandlerGetterMap},
	}
}

// register makes the manager serve the webhooks.
func (a *admissionServer) register(m manager.Manager) error {
	for _, h := range hooks() {
		for _, handlers := range []map[string]webhooktypes.HandlerGetter{h.mutating, h.validating} {
			for path, handler := range handlers {
				a.mux.Handle("/"+strings.TrimPrefix(path, "/"), &webhook.Admission{Handler: handler(m)})
			}
		}
	}
	server := &http.Server{Handler: a.mux, ReadHeaderTimeout: 10 * time.Second}
	if err := m.Add(&manager.Server{Name: "admission", Server: server, Listener: a.listener}); err != nil {
		return fmt.Errorf("add admission: %w", err)
	}
	return nil
}

// install registers the webhooks at the API server, and returns when each kind is defaulted.
func (a *admissionServer) install(ctx context.Context, c client.Client) error {
	for _, object := range a.configurations() {
		// The configuration of an earlier run has another address and another authority.
		if err := client.IgnoreNotFound(c.Delete(ctx, object)); err != nil {
			return fmt.Errorf("remove %s: %w", object.GetName(), err)
		}
		object.SetResourceVersion("")
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	for _, object := range probes() {
		err := until(ctx, "objects are defaulted", func(ctx context.Context) bool { return defaulted(ctx, c, object) })
		if err != nil {
			return err
		}
	}
	return nil
}

// configurations have the names of OpenKruise's configurations, so that no kind has two of them.
func (a *admissionServer) configurations() []client.Object {
	mutating := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "kruise-mutating-webhook-configuration"}}
	validating := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "kruise-validating-webhook-configuration"}}
	for _, h := range hooks() {
		for path := range h.mutating {
			mutating.Webhooks = append(mutating.Webhooks, admissionv1.MutatingWebhook{
				Name: "m" + h.kind + ".apps.kruise.io", ClientConfig: a.client(path), Rules: h.rules(),
				SideEffects: noSideEffects(), AdmissionReviewVersions: []string{"v1"},
			})
		}
		for path := range h.validating {
			validating.Webhooks = append(validating.Webhooks, admissionv1.ValidatingWebhook{
				Name: "v" + h.kind + ".apps.kruise.io", ClientConfig: a.client(path), Rules: h.rules(),
				SideEffects: noSideEffects(), AdmissionReviewVersions: []string{"v1"},
			})
		}
	}
	return []client.Object{mutating, validating}
}

func (a *admissionServer) client(path string) admissionv1.WebhookClientConfig {
	address := "https://" + a.listener.Addr().String() + "/" + strings.TrimPrefix(path, "/")
	return admissionv1.WebhookClientConfig{URL: &address, CABundle: a.authority}
}

func (h hook) rules() []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{"apps.kruise.io"}, APIVersions: h.versions, Resources: []string{h.kind}},
	}}
}

func noSideEffects() *admissionv1.SideEffectClass {
	none := admissionv1.SideEffectClassNone
	return &none
}
