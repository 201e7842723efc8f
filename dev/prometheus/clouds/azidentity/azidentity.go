// Package azidentity refuses each kind of credentials of Azure.
package azidentity

import (
	"crypto"
	"crypto/x509"
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// ClientID names a managed identity.
type ClientID string

// ManagedIdentityCredentialOptions are the options of a managed identity.
type ManagedIdentityCredentialOptions struct {
	azcore.ClientOptions
	ID ClientID
}

// WorkloadIdentityCredentialOptions are the options of a workload's identity.
type WorkloadIdentityCredentialOptions struct {
	azcore.ClientOptions
	ClientID, TenantID, TokenFilePath string
}

// ClientSecretCredentialOptions are the options of a secret.
type ClientSecretCredentialOptions struct{ azcore.ClientOptions }

// DefaultAzureCredentialOptions are the options of the default credentials.
type DefaultAzureCredentialOptions struct {
	azcore.ClientOptions
	TenantID string
}

// ClientCertificateCredentialOptions are the options of a certificate.
type ClientCertificateCredentialOptions struct {
	azcore.ClientOptions
	SendCertificateChain bool
}

// NewManagedIdentityCredential refuses.
func NewManagedIdentityCredential(*ManagedIdentityCredentialOptions) (azcore.TokenCredential, error) {
	return nil, errors.ErrUnsupported
}

// NewWorkloadIdentityCredential refuses.
func NewWorkloadIdentityCredential(*WorkloadIdentityCredentialOptions) (azcore.TokenCredential, error) {
	return nil, errors.ErrUnsupported
}

// NewClientSecretCredential refuses.
func NewClientSecretCredential(_, _, _ string, _ *ClientSecretCredentialOptions) (azcore.TokenCredential, error) {
	return nil, errors.ErrUnsupported
}

// NewDefaultAzureCredential refuses.
func NewDefaultAzureCredential(*DefaultAzureCredentialOptions) (azcore.TokenCredential, error) {
	return nil, errors.ErrUnsupported
}

// ParseCertificates refuses.
func ParseCertificates(_, _ []byte) ([]*x509.Certificate, crypto.PrivateKey, error) {
	return nil, nil, errors.ErrUnsupported
}

// NewClientCertificateCredential refuses.
func NewClientCertificateCredential(_, _ string, _ []*x509.Certificate, _ crypto.PrivateKey, _ *ClientCertificateCredentialOptions) (azcore.TokenCredential, error) {
	return nil, errors.ErrUnsupported
}
