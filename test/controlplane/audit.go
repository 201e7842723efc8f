package controlplane

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// AuditEvent is one write that the API server has answered: a create, update, patch, delete or deletecollection. It
// leaves out the cluster's own components, leases, events and access reviews. Of the DaemonSet controller it has the
// deletions and the writes of the status. It is independent of the reports of a program.
type AuditEvent struct {
	Verb string
	// User is the user as whom the request acted. Impersonator is the sender, if that is another.
	User, Impersonator string
	UserAgent          string
	// Group is the API group, "" for core.
	Group, Resource, Subresource string
	Namespace, Name              string
	// Code is the HTTP status of the answer.
	Code int
	// Reason is the status reason of a refusal, such as Forbidden.
	Reason string
	// Message is the text of a refusal.
	Message string
	// RequestURI holds the query, and so fieldManager and dryRun.
	RequestURI string
	// RequestObject is the body of the request, for a patch the patch itself; nil without a body.
	RequestObject json.RawMessage
	// Received and Answered have a precision of microseconds.
	Received, Answered time.Time
}

// Audit reads the audit log at path, Cluster.AuditLog, in the order in which the server answered the requests. It has
// every request that was answered before the call.
func Audit(path string) ([]AuditEvent, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // the server creates the file with the first event
	}
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	var events []AuditEvent
	for reader := bufio.NewReader(file); ; {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil // the server has not answered the request of an incomplete line yet
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		event, err := decodeAuditEvent(line)
		if err != nil {
			return nil, fmt.Errorf("decode line %d of the audit log: %w", len(events)+1, err)
		}
		events = append(events, event)
	}
}

// auditLine is the part of audit.k8s.io/v1 Event that AuditEvent keeps.
type auditLine struct {
	Verb, RequestURI, UserAgent string
	User                        struct{ Username string }
	ImpersonatedUser            *struct{ Username string }
	ObjectRef                   struct {
		APIGroup, Resource, Subresource, Namespace, Name string
	}
	ResponseStatus struct {
		Code            int
		Reason, Message string
	}
	RequestObject  json.RawMessage
	ResponseObject struct {
		Kind     string
		Metadata struct{ Name string }
	}
	RequestReceivedTimestamp, StageTimestamp time.Time
}

func decodeAuditEvent(text []byte) (AuditEvent, error) {
	var line auditLine
	if err := json.Unmarshal(text, &line); err != nil {
		return AuditEvent{}, err
	}
	event := AuditEvent{
		Verb: line.Verb, RequestURI: line.RequestURI, UserAgent: line.UserAgent,
		User:  line.User.Username,
		Group: line.ObjectRef.APIGroup, Resource: line.ObjectRef.Resource, Subresource: line.ObjectRef.Subresource,
		Namespace: line.ObjectRef.Namespace, Name: line.ObjectRef.Name,
		Code: line.ResponseStatus.Code, Reason: line.ResponseStatus.Reason, Message: line.ResponseStatus.Message,
		RequestObject: line.RequestObject,
		Received:      line.RequestReceivedTimestamp, Answered: line.StageTimestamp,
	}
	if line.ImpersonatedUser != nil {
		event.User, event.Impersonator = line.ImpersonatedUser.Username, line.User.Username
	}
	if event.Name == "" && line.ResponseObject.Kind != "Status" {
		event.Name = line.ResponseObject.Metadata.Name // the server chose it: generateName
	}
	return event, nil
}
