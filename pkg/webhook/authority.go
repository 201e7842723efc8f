package webhook

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/hold"
)

// Names of the installed webhook.
const (
	// SecretName is the Secret of the authority that the watchers of a cluster share. ServiceName is the Service in front of them.
	SecretName, ServiceName = "sluice-webhook", "sluice-webhook"
)

const (
	keyCertificate = "tls.crt"
	keyKey         = "tls.key"
	keyBundle      = "ca-bundle.crt"

	// reconcileEvery is the interval at which each watcher reconciles the authority. If one watcher renews it, the others use the new one an interval
	// later, when every API server trusts it.
	reconcileEvery = 10 * time.Minute
	askTime        = 10 * time.Second
)

// Authority keeps a certificate authority in a Secret, and adds it to the trust bundle of the webhook's configuration. All watchers of the cluster
// share the Secret. Each watcher signs its own certificate with the authority; the key of that certificate never leaves the process. The Secret and
// the configuration must exist: the watcher needs the right to change these two objects and no others.
type Authority struct {
	client       kubernetes.Interface
	installation api.Installation
	names        []string
	now          func() time.Time
	log          *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	// signer is the serial number of the authority that signed the current certificate. lastTrusted is the serial number of the last authority that the
	// configuration trusts.
	signer, lastTrusted string
}

// NewAuthority makes an Authority for the Service of the webhook. further are other names or addresses of the webhook.
func NewAuthority(client kubernetes.Interface, in api.Installation, log *slog.Logger, further ...string) *Authority {
	host := ServiceName + "." + in.Namespace + ".svc"
	return &Authority{client: client, installation: in, log: log, now: time.Now, names: append([]string{host, host + ".cluster.local"}, further...)}
}

// CurrentCertificate returns the certificate to serve with, or an error before there is one.
func (a *Authority) CurrentCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == nil {
		return nil, errors.New("the webhook has no certificate yet")
	}
	return a.current, nil
}

// Run renews authority, trust and certificate until ctx ends. It logs errors and retries.
func (a *Authority) Run(ctx context.Context) error {
	for {
		wait := reconcileEvery
		if err := a.ReconcileOnce(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("the certificate of the webhook cannot be kept fit; if the webhook is not to be used, leave out --webhook-addr", "error", err)
			wait = askTime
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// ReconcileOnce does one round of Run.
func (a *Authority) ReconcileOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*askTime)
	defer cancel()
	ours, bundle, err := a.ensureShared(ctx)
	if err != nil {
		return err
	}
	if err := a.ensureTrusted(ctx, bundle); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	fresh := a.current != nil && a.now().Before(renewalTime(a.current.Leaf))
	// Some API servers may not yet trust an authority that was just renewed, so the watcher still uses the previous certificate.
	newlySeen := a.lastTrusted != ours.serialNumber()
	a.lastTrusted = ours.serialNumber()
	if fresh && (a.signer == ours.serialNumber() || newlySeen) {
		return nil
	}
	leaf, err := ours.signCertificate(a.now(), a.names)
	if err != nil {
		return err
	}
	a.current, a.signer = leaf, ours.serialNumber()
	a.log.Info("the webhook has a new certificate", "until", leaf.Leaf.NotAfter)
	return nil
}

// ensureShared returns the authority in the Secret and the trust bundle, and renews them when due. If two watchers renew at once, one wins and the
// other one uses the winner's authority.
func (a *Authority) ensureShared(ctx context.Context) (*signingAuthority, []byte, error) {
	secrets := a.client.CoreV1().Secrets(a.installation.Namespace)
	for {
		secret, err := secrets.Get(ctx, SecretName, metav1.GetOptions{})
		if err != nil {
			return nil, nil, fmt.Errorf("read Secret %s/%s: %w; install the webhook with: %s", a.installation.Namespace, SecretName, err, a.installation.InstallCommand("webhook"))
		}
		ours, err := readAuthority(secret.Data[keyCertificate], secret.Data[keyKey])
		if err == nil && a.now().Before(renewalTime(ours.certificate)) {
			return ours, secret.Data[keyBundle], nil
		}
		if ours, err = newAuthority(a.now()); err != nil {
			return nil, nil, err
		}
		if err := a.storeAuthority(secret, ours); err != nil {
			return nil, nil, err
		}
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{FieldManager: api.FieldManager})
		if err == nil {
			a.log.Info("the webhook has a new authority", "until", ours.certificate.NotAfter)
			return ours, secret.Data[keyBundle], nil
		}
		if !apierrors.IsConflict(err) {
			return nil, nil, fmt.Errorf("write Secret %s/%s: %w", a.installation.Namespace, SecretName, err)
		}
	}
}

// storeAuthority puts an authority into the Secret. Earlier authorities stay trusted until they expire.
func (a *Authority) storeAuthority(secret *corev1.Secret, ours *signingAuthority) error {
	certificate, key, err := ours.encodePEM()
	if err != nil {
		return err
	}
	secret.Data = map[string][]byte{
		keyCertificate: certificate, keyKey: key,
		keyBundle: append(append([]byte{}, certificate...), unexpiredCertificates(secret.Data[keyBundle], a.now())...),
	}
	return nil
}

// ensureTrusted makes the API server trust the bundle for every webhook of the configuration.
func (a *Authority) ensureTrusted(ctx context.Context, bundle []byte) error {
	configurations := a.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	live, err := configurations.Get(ctx, hold.WebhookName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read MutatingWebhookConfiguration %s: %w; install the webhook with: %s", hold.WebhookName, err, a.installation.InstallCommand("webhook"))
	}
	type operation = map[string]any
	patch := []operation{{"op": "test", "path": "/metadata/resourceVersion", "value": live.ResourceVersion}}
	for i, webhook := range live.Webhooks {
		if string(webhook.ClientConfig.CABundle) != string(bundle) {
			patch = append(patch, operation{"op": "add", "path": fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), "value": bundle})
		}
	}
	if len(patch) == 1 {
		return nil
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("write patch: %w", err)
	}
	if _, err := configurations.Patch(ctx, hold.WebhookName, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager}); err != nil {
		return fmt.Errorf("patch MutatingWebhookConfiguration %s: %w", hold.WebhookName, err)
	}
	return nil
}
