package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/receiver/client"
)

// errUndecided means that a decision was sent and has no answer yet.
var errUndecided = errors.New("no answer yet")

// sender is one of the two transports of a decision. It tries until ctx ends. If wait is set, it returns the event with the answer.
type sender interface {
	sendDecision(ctx context.Context, e event.Event, wait bool) (*event.Event, error)
}

func (c *cli) newSender(ctx context.Context, o sendOptions, about event.Rollout) (sender, error) {
	if o.server == "" {
		return c.newNATSSender(o, about)
	}
	return c.newReceiverSender(ctx, o, about)
}

type natsSender struct {
	options   queue.Options
	key       queue.Key
	principal string
	warnings  *closableWriter
}

// closableWriter forwards writes until it is closed. A closing connection may write a warning while the command writes its final message to the same standard
// error.
type closableWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (m *closableWriter) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.to.Write(p)
}

func (m *closableWriter) stopWriting() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.to = io.Discard
}

func (c *cli) newNATSSender(o sendOptions, about event.Rollout) (sender, error) {
	options, _, err := o.nats.QueueOptions()
	if err != nil {
		return nil, err
	}
	principal := o.principal
	if principal == "" {
		principal = options.User
	}
	if principal == "" && options.CredentialsFile != "" {
		if principal, err = userOfCredentials(options.CredentialsFile); err != nil {
			return nil, err
		}
	}
	if principal == "" {
		return nil, errors.New("say as whom you decide with --principal NAME: NATS is used without a user name; or send to an approval receiver with --server")
	}
	key := queue.KeyOf(about)
	if err := key.Validate(); err != nil {
		return nil, err
	}
	warnings := &closableWriter{to: c.errors}
	options.Logger = slog.New(slog.NewTextHandler(warnings, &slog.HandlerOptions{Level: slog.LevelWarn}))
	options.InboxPrefix = "_INBOX_" + queue.PrincipalToken(principal)
	return natsSender{options, key, principal, warnings}, nil
}

func (s natsSender) sendDecision(ctx context.Context, e event.Event, wait bool) (*event.Event, error) {
	defer s.warnings.stopWriting()
	q, err := queue.ConnectExisting(ctx, s.options)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	decided, err := s.sendOver(ctx, q, e, wait)
	switch {
	case errors.Is(err, queue.ErrUndecided):
		return nil, errUndecided
	case errors.Is(err, queue.ErrDenied):
		m, _ := queue.ApprovalMessage(s.key, s.principal, e) // it was valid before
		return nil, fmt.Errorf("%w. You decide as %q, with subject %s; a NATS user may use its own name only, in the namespaces granted to it. "+
			"Correct --principal or -n, or have the NATS user's permissions changed (docs/approvals.md)", err, s.principal, m.Subject)
	case err != nil:
		return nil, fmt.Errorf("the decision could not be sent: %w", err)
	}
	return decided, nil
}

func (s natsSender) sendOver(ctx context.Context, q *queue.Queue, e event.Event, wait bool) (*event.Event, error) {
	if !wait {
		return nil, q.SendApproval(ctx, s.key, s.principal, e)
	}
	question, err := q.RequestApproval(ctx, s.key, s.principal, e)
	if err != nil {
		return nil, err
	}
	defer question.Close()
	decided, err := question.WaitForDecision(ctx)
	return &decided, err
}

// userOfCredentials reads the user name from a NATS credentials file, whose first part is a JSON web token.
func userOfCredentials(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read --nats-creds: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), "-----BEGIN NATS USER JWT-----")
	token, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	parts := strings.Split(strings.TrimSpace(token), ".")
	var claims struct{ Name string }
	if len(parts) == 3 {
		if body, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(body, &claims) // without a name the caller asks for one
		}
	}
	return claims.Name, nil
}

type receiverSender struct{ client *client.Client }

func (c *cli) newReceiverSender(_ context.Context, o sendOptions, about event.Rollout) (sender, error) {
	receiver, err := c.receiverClient(o, about)
	if err != nil {
		return nil, err
	}
	return receiverSender{receiver}, nil
}

// receiverClient returns a client of the approval receiver.
func (c *cli) receiverClient(o sendOptions, about event.Rollout) (*client.Client, error) {
	token, err := c.tokenSource(o, about)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(o.server); err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
		fmt.Fprintf(c.errors, "warning: the token crosses the network in the clear; use https:// for --server\n")
	}
	return &client.Client{URL: o.server, CAFile: o.caFile, Token: token, Warn: func(err error) {
		fmt.Fprintf(c.errors, "warning: the approval receiver does not take the event yet, trying on: %v\n", err)
	}}, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s receiverSender) sendDecision(ctx context.Context, e event.Event, wait bool) (*event.Event, error) {
	decided, err := s.client.SendEvent(ctx, e, wait)
	var refused *client.RefusedError
	switch {
	case errors.As(err, &refused):
		return nil, refusalError(refused.Refusal, refused.Message)
	case errors.Is(err, client.ErrUndecided):
		return nil, errUndecided
	case err != nil:
		return nil, outcome{1, "error: the decision could not be sent: " + err.Error()}
	}
	return decided, nil
}

// tokenSource returns the source of the token for the receiver. Another process may renew a token file while the command retries.
func (c *cli) tokenSource(o sendOptions, about event.Rollout) (func(context.Context) (string, error), error) {
	named := 0
	for _, s := range []string{o.token, o.tokenFile, o.account} {
		if s != "" {
			named++
		}
	}
	fixed := o.token
	if named == 0 {
		fixed = os.Getenv("SLUICE_TOKEN")
	}
	switch {
	case named > 1:
		return nil, errors.New("give one of --token, --token-file and --service-account")
	case fixed != "":
		return func(context.Context) (string, error) { return strings.TrimSpace(fixed), nil }, nil
	case o.tokenFile != "":
		return func(context.Context) (string, error) {
			text, err := os.ReadFile(o.tokenFile)
			if err != nil {
				return "", fmt.Errorf("read --token-file: %w", err)
			}
			return strings.TrimSpace(string(text)), nil
		}, nil
	case o.account != "":
		return c.requestToken(o, about.Namespace)
	}
	return nil, errors.New("say who you are at the approval receiver: give --token-file, $SLUICE_TOKEN or --service-account")
}

// tokenLife is the shortest token lifetime that API servers grant.
const tokenLife int64 = 600

func (c *cli) requestToken(o sendOptions, namespace string) (func(context.Context) (string, error), error) {
	config, err := c.kube.RESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	life := tokenLife
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}
	if o.audience != "" {
		request.Spec.Audiences = []string{o.audience}
	}
	return func(ctx context.Context) (string, error) {
		token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, o.account, request, metav1.CreateOptions{})
		if err != nil {
			return "", fmt.Errorf("get a token of service account %s/%s: %w", namespace, o.account, err)
		}
		return token.Status.Token, nil
	}, nil
}
