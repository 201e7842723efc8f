package traffic

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

func TestTheOriginalIsStoredInOpenKruisesText(t *testing.T) {
	cases := map[string]struct{ manifest, want string }{
		"spec, then labels, then annotations, keys sorted": {`
metadata: {labels: {z: "1", a: "2"}, annotations: {note: hi, sluice.dev/releases: "{}"}}
spec: {b: 1, a: [true, null, {}, []]}`,
			`{"spec":{"a":[true,null,{},[]],"b":1},"labels":{"a":"2","z":"1"},"annotations":{"note":"hi"}}`},
		"empty maps are left out":         {`{metadata: {labels: {}, annotations: {}}, spec: {}}`, `{"spec":{}}`},
		"what HTML would read is escaped": {`{spec: {uri: "a&b<c>"}}`, `{"spec":{"uri":"a\u0026b\u003cc\u003e"}}`},
		"64-bit integers are exact":       {`{spec: {big: 9223372036854775807, half: 0.5}}`, `{"spec":{"big":9223372036854775807,"half":0.5}}`},
		"an object without a spec":        {`{metadata: {labels: {a: b}}}`, `{"spec":null,"labels":{"a":"b"}}`},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			content := ContentOf(object(t, c.manifest))
			text := jsonOf(content.asOriginal())
			if diff := cmp.Diff(c.want, text); diff != "" {
				t.Errorf("text (-want +got)\n%s", diff)
			}
			read, ok := parseOriginal(text)
			if diff := cmp.Diff(content, read); !ok || diff != "" {
				t.Errorf("read again: ok %v (-want +got)\n%s", ok, diff)
			}
		})
	}
}

func TestUnreadableRecordsCountAsAbsent(t *testing.T) {
	for _, key := range []string{api.AnnotationReleases, api.AnnotationRendered} {
		for _, text := range []string{"", "null", "[]", "{", `{"u-demo":{}}`, `{"u-demo":7}`, "\x00"} {
			g := demoGateway(t)
			before := g.live.DeepCopy()
			g.step(demo, weight(20))
			g.edit(func(o *unstructured.Unstructured) { setAnnotation(o, key, text) })
			g.step(demo, weight(30))
			g.restore(demo)
			if diff := cmp.Diff(before.Object, g.live.Object); diff != "" {
				t.Errorf("%s = %q: restored (-want +got)\n%s", key, text, diff)
			}
		}
	}
}

func FuzzParseOriginal(f *testing.F) {
	f.Add(demoOriginal)
	f.Add(`{"spec":1e400,"labels":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		content, ok := parseOriginal(text)
		if !ok {
			return
		}
		again, ok := parseOriginal(jsonOf(content.asOriginal()))
		if !ok || content.digest() != again.digest() {
			t.Errorf("%q does not survive being written and read", text)
		}
	})
}
