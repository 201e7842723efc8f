package world

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Write is one write to an object of a namespace, as the API server's audit log reports it. The log depends on no code
// of Sluice. It has no Events, no dry runs and no writes of the cluster's own controllers. Of these it has only
// EndpointSlices, deletions of daemons and the status of a DaemonSet.
type Write struct {
	Verb, User                  string
	Resource, Subresource, Name string
	// Code is the HTTP status of the answer, Message the text of a refusal.
	Code    int
	Message string
	// Object is the object after the write; nil after a deletion or a refusal.
	Object *unstructured.Unstructured
	// Version orders all writes of a cluster. A deletion has the version of the last write received before it.
	Version  int64
	Received time.Time
}

// Writes returns the writes to a namespace so far, in the order in which they took effect.
func (w *World) Writes(namespace string) ([]Write, error) { return w.writesSince(0, namespace) }

// auditSize returns the current size of the audit log in bytes. Only later lines can be about a namespace created
// later.
func (w *World) auditSize() int64 {
	info, err := os.Stat(w.AuditLog)
	if err != nil {
		return 0 // the server creates the file with the first write
	}
	return info.Size()
}

// writesSince returns the writes in lines that begin at an offset or after it.
func (w *World) writesSince(offset int64, namespace string) ([]Write, error) {
	file, err := os.Open(w.AuditLog)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	reader := bufio.NewReaderSize(file, 1<<20)
	if offset > 0 { // the offset may be inside a line that was being written
		if _, err := file.Seek(offset-1, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if _, err := reader.ReadBytes('\n'); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
	}
	mark := fmt.Appendf(nil, `"namespace":%q`, namespace)
	var list []Write
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return ordered(list), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if !bytes.Contains(line, mark) {
			continue
		}
		write, ok, err := decodeWrite(line, namespace)
		if err != nil {
			return nil, fmt.Errorf("decode the audit log: %w", err)
		}
		if ok {
			if write.User == w.Installation.ExecutorUser() {
				write.User = executorUser // the laws know the executors of each installation by one name
			}
			list = append(list, write)
		}
	}
}

func decodeWrite(line []byte, namespace string) (w Write, ok bool, err error) {
	var e struct {
		Verb, RequestURI string
		User             struct{ Username string }
		ImpersonatedUser *struct{ Username string }
		ObjectRef        struct{ Resource, Subresource, Namespace, Name string }
		ResponseStatus   struct {
			Code    int
			Message string
		}
		ResponseObject           json.RawMessage
		RequestReceivedTimestamp time.Time
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return w, false, err
	}
	if e.ObjectRef.Namespace != namespace || strings.Contains(e.RequestURI, "dryRun=") {
		return w, false, nil
	}
	w = Write{
		Verb: e.Verb, User: e.User.Username, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource, Name: e.ObjectRef.Name,
		Code: e.ResponseStatus.Code, Message: e.ResponseStatus.Message, Received: e.RequestReceivedTimestamp,
	}
	if e.ImpersonatedUser != nil {
		w.User = e.ImpersonatedUser.Username
	}
	if w.Code >= 300 || w.Verb == "delete" || len(e.ResponseObject) == 0 {
		return w, true, nil
	}
	w.Object = &unstructured.Unstructured{}
	if err := json.Unmarshal(e.ResponseObject, &w.Object.Object); err != nil {
		return w, false, err
	}
	if w.Name == "" {
		w.Name = w.Object.GetName()
	}
	if version := w.Object.GetResourceVersion(); version != "" {
		if w.Version, err = strconv.ParseInt(version, 10, 64); err != nil {
			return w, false, err
		}
	}
	return w, true, nil
}

// ordered sorts writes by the time at which they took effect. The answer to a write without a change has the version
// that another write made. An executor writes with the version that it read, so its write comes before such an echo.
func ordered(list []Write) []Write {
	slices.SortStableFunc(list, func(a, b Write) int { return a.Received.Compare(b.Received) })
	last := int64(0)
	for i := range list {
		if list[i].Version == 0 {
			list[i].Version = last
		}
		last = max(last, list[i].Version)
	}
	echo := func(w Write) int {
		if w.User == executorUser && w.Object != nil {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b Write) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(echo(a), echo(b)))
	})
	return list
}
