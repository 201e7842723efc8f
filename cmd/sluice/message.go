package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// errorMessage returns the text of an error for users: the failure, and the next action.
func errorMessage(err error) string {
	var status apierrors.APIStatus
	var whole said
	var network *net.OpError
	var address *url.Error
	switch {
	case errors.As(err, &whole):
		return string(whole)
	case errors.Is(err, context.Canceled):
		return "error: interrupted."
	case errors.As(err, &status):
		return fromServer(err, status.Status())
	case errors.As(err, &network) && errors.As(err, &address):
		return fmt.Sprintf("error: the API server at %s does not answer: %v. Check --kubeconfig and --context, and try: kubectl version.", hostOf(address.URL), network.Err)
	}
	return "error: " + err.Error()
}

func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Host
	}
	return address
}

// fromServer formats an error of the API server as kubectl does, and adds the next action. It drops the context that Sluice has added to the error.
func fromServer(err error, status metav1.Status) string {
	text := fmt.Sprintf("Error from server (%s): %s", status.Reason, strings.TrimSuffix(err.Error(), "."))
	switch {
	case api.Unserved(err):
		return fmt.Sprintf("error: this cluster does not serve Rollouts of %s: the CRDs are not installed. Install Sluice: sluice install --print | kubectl apply --server-side -f -",
			api.GroupVersion())
	case apierrors.IsForbidden(err):
		return text + ".\n" + grantAdvice(status)
	case apierrors.IsUnauthorized(err):
		return text + ". Log in to the cluster again, or choose other credentials with --context."
	}
	return text
}

// grantAdvice returns the command with which an administrator grants the missing right.
func grantAdvice(status metav1.Status) string {
	verb := "VERB"
	if _, after, ok := strings.Cut(status.Message, `" cannot `); ok {
		verb, _, _ = strings.Cut(after, " ")
	}
	resource := "rollouts." + api.Group
	if d := status.Details; d != nil && d.Kind != "" {
		resource = d.Kind
		if d.Group != "" {
			resource += "." + d.Group
		}
	}
	if strings.Contains(status.Message, `/status"`) {
		resource += "/status"
	}
	return fmt.Sprintf("An administrator grants it with: kubectl create clusterrole sluice-user --verb=%s --resource=%s, and a role binding to it for you.", verb, resource)
}
