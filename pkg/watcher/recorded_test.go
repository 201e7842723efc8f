package watcher

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
)

// player answers watches with frames that a real API server sent during a release, as often as needed. It replaces only
// the network. The frames are in testdata/release.jsonl, one frame a line. The frames before the release are the first
// list.
type player struct {
	before, during map[string][]frame
	rounds         int
	begin          chan struct{}
	playing        sync.WaitGroup
}

// frame is one event of a watch in both encodings; binary is nil if the API server has only JSON.
type frame struct{ text, binary []byte }

const recorded = "testdata/release.jsonl"

func newPlayer(b *testing.B, rounds int) *player {
	b.Helper()
	file, err := os.ReadFile(recorded)
	if err != nil {
		b.Fatal(err)
	}
	p := &player{before: map[string][]frame{}, during: map[string][]frame{}, rounds: rounds, begin: make(chan struct{})}
	for text := range bytes.Lines(file) {
		var line struct {
			Resource string
			Before   bool
			Frame    json.RawMessage
		}
		if err := json.Unmarshal(text, &line); err != nil {
			b.Fatal(err)
		}
		f := frame{text: append(line.Frame, '\n'), binary: binaryOf(b, line.Frame)}
		if line.Before {
			p.before[line.Resource] = append(p.before[line.Resource], f)
		} else {
			p.during[line.Resource] = append(p.during[line.Resource], f)
		}
	}
	p.playing.Add(len(p.during))
	return p
}

// binaryOf returns a frame as the API server sends it to clients that accept protobuf, nil for custom resources.
func binaryOf(b *testing.B, text []byte) []byte {
	b.Helper()
	var event struct {
		Type   string
		Object json.RawMessage
	}
	if err := json.Unmarshal(text, &event); err != nil {
		b.Fatal(err)
	}
	object, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(event.Object, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return nil
	}
	if err != nil {
		b.Fatal(err)
	}
	object.GetObjectKind().SetGroupVersionKind(*gvk)
	return binaryFrame(b, event.Type, object)
}

func binaryFrame(b *testing.B, kind string, object runtime.Object) []byte {
	b.Helper()
	var inner, outer, whole bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &inner); err != nil {
		b.Fatal(err)
	}
	event := &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: inner.Bytes()}}
	if err := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme).Encode(event, &outer); err != nil {
		b.Fatal(err)
	}
	if _, err := protobuf.LengthDelimitedFramer.NewFrameWriter(&whole).Write(outer.Bytes()); err != nil {
		b.Fatal(err)
	}
	return whole.Bytes()
}

// listed returns the bookmark that ends a first list which is sent as a stream.
func listed(b *testing.B, apiVersion, kind string) frame {
	b.Helper()
	text := fmt.Sprintf(`{"type":"BOOKMARK","object":{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1","annotations":{%q:"true"}}}}`+"\n",
		apiVersion, kind, metav1.InitialEventsAnnotationKey)
	return frame{text: []byte(text), binary: binaryOf(b, []byte(text))}
}

func (p *player) answer(b *testing.B) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		switch {
		case r.URL.Query().Get("sendInitialEvents") == "true":
			return p.stream(b, r, resource), nil
		case r.URL.Query().Get("watch") == "true":
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return answered("application/json", io.NopCloser(strings.NewReader(`{"kind":"APIResourceList","resources":[{"name":"virtualservices","kind":"VirtualService"}]}`))), nil
	}
}

func answered(contentType string, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType}}, Body: body}
}

// stream sends the first list and then, once the release begins, its frames for each round.
func (p *player) stream(b *testing.B, r *http.Request, resource string) *http.Response {
	version, kind := kindOf(r.URL.Path, resource)
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		version, kind = "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	end := listed(b, version, kind)
	binary := strings.Contains(r.Header.Get("Accept"), "protobuf") && end.binary != nil
	body, pipe := io.Pipe()
	send := func(f frame) bool {
		content := f.text
		if binary {
			content = f.binary
		}
		_, err := pipe.Write(content)
		return err == nil
	}
	go func() {
		for _, f := range append(p.before[resource], end) {
			if !send(f) {
				return
			}
		}
		<-p.begin
		for range p.rounds {
			for _, f := range p.during[resource] {
				if !send(f) {
					return
				}
			}
		}
		if len(p.during[resource]) > 0 {
			p.playing.Done()
		}
		<-r.Context().Done()
		_ = pipe.CloseWithError(io.EOF)
	}()
	if binary {
		return answered(runtime.ContentTypeProtobuf+";stream=watch", body)
	}
	return answered("application/json", body)
}

// kindOf returns the API version and kind of a resource, as far as the player needs them.
func kindOf(path, resource string) (apiVersion, kind string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	apiVersion = parts[1]
	if parts[0] == "apis" {
		apiVersion += "/" + parts[2]
	}
	kinds := map[string]string{
		"rollouts": "Rollout", "deployments": "Deployment", "services": "Service", "endpointslices": "EndpointSlice", "configmaps": "ConfigMap",
		"virtualservices": "VirtualService", "customresourcedefinitions": "CustomResourceDefinition",
		"mutatingadmissionpolicies": "MutatingAdmissionPolicy", "mutatingadmissionpolicybindings": "MutatingAdmissionPolicyBinding",
	}
	return apiVersion, kinds[resource]
}

type wire func(*http.Request) (*http.Response, error)

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

// BenchmarkOneRelease measures the work of a watcher for all events of one release. It also counts the hints, before
// those for the same Rollout are merged.
func BenchmarkOneRelease(b *testing.B) {
	p := newPlayer(b, b.N)
	w, err := New(Options{ClusterName: "c", Config: &rest.Config{Host: "http://recorded", Transport: wire(p.answer(b))}, Queue: new(queue.Queue),
		Logger: slog.New(slog.DiscardHandler), ScriptConfigMap: types.NamespacedName{Namespace: "default", Name: api.ScriptConfigMap}})
	if err != nil {
		b.Fatal(err)
	}
	var hints atomic.Int64
	started := make(chan struct{}, 1)
	w.send = func(queue.Key) {
		if hints.Add(1) == 1 {
			started <- struct{}{} // the watcher has read every first list
		}
	}
	w.workStreamCreated = func(context.Context) (time.Time, error) { return time.Time{}, nil }
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	<-started
	b.ReportAllocs()
	b.ResetTimer()
	close(p.begin)
	p.playing.Wait()
	b.StopTimer()
	b.ReportMetric(float64(hints.Load()-1)/float64(b.N), "hints/op")
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
