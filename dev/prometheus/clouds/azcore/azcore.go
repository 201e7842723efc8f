// Package azcore has the types of a token of Azure.
package azcore

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// AccessToken is a token and its end.
type AccessToken struct {
	Token     string
	ExpiresOn time.Time
}

// ClientOptions say which cloud is asked.
type ClientOptions struct{ Cloud cloud.Configuration }

// TokenCredential gets tokens.
type TokenCredential interface {
	GetToken(context.Context, policy.TokenRequestOptions) (AccessToken, error)
}
