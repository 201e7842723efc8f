// Package azcore has the types of a token of Azure.
package azcore

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// AccessToken is a token with its expiry.
type AccessToken struct {
	Token     string
	ExpiresOn time.Time
}

// ClientOptions select the cloud.
type ClientOptions struct{ Cloud cloud.Configuration }

// TokenCredential gets tokens.
type TokenCredential interface {
	GetToken(context.Context, policy.TokenRequestOptions) (AccessToken, error)
}
