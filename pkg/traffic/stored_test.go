package traffic

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

func longSpec(bytes int) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.Object["spec"].(map[string]any)["note"] = strings.Repeat("x", bytes)
	}
}

func longAnnotation(bytes int) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { setAnnotation(o, "note", strings.Repeat("x", bytes)) }
}

func TestAnOriginalTooLargeForItsAnnotationIsStoredApart(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		bloat func(*unstructured.Unstructured)
		apart bool
	}{
		"a small object":        {longSpec(1), false},
		"a spec that just fits": {longSpec(maxOriginal - 4<<10), false},
		"a large spec":          {longSpec(maxOriginal), true},
		"a large annotation, which the original has again": {longAnnotation(maxAnnotations / 2), true},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			g := demoGateway(t)
			g.live.SetUID("uid-of-the-object")
			c.bloat(g.live)
			before := g.live.DeepCopy()
			_, plan := g.observe(demo, weight(20))
			desired, _, err := plan.DesiredObject(1)
			if err != nil {
				t.Fatal(err)
			}
			compact, stored := CompactOriginal(desired, false)
			if (stored != nil) != c.apart {
				t.Fatalf("stored apart: %v, want %v", stored != nil, c.apart)
			}
			if n := annotationsSize(compact); n > maxAnnotations {
				t.Errorf("the annotations take %d bytes", n)
			}
			if stored != nil {
				if got := StoredIn(compact); got != stored.Name {
					t.Errorf("the annotation names %q, want %q", got, stored.Name)
				}
				compact = ExpandOriginal(compact, stored.Data)
			}
			if diff := cmp.Diff(desired.Object, compact.Object); diff != "" {
				t.Errorf("expanded again (-want +got)\n%s", diff)
			}
			g.write(compact)
			g.restore(demo)
			if diff := cmp.Diff(before.Object, g.live.Object); diff != "" {
				t.Errorf("restored (-want +got)\n%s", diff)
			}
		})
	}
}

func TestWhatIsNotTheOriginalThatIsNamedIsNotTakenForIt(t *testing.T) {
	t.Parallel()
	g := demoGateway(t)
	_, plan := g.observe(demo, weight(20))
	desired, _, err := plan.DesiredObject(1)
	if err != nil {
		t.Fatal(err)
	}
	compact, stored := CompactOriginal(desired, true)
	other := compact.DeepCopy()
	other.SetUID("another object")
	cases := map[string]struct {
		obj  *unstructured.Unstructured
		data []byte
	}{
		"nothing":                    {compact, nil},
		"garbage":                    {compact, []byte("{")},
		"another original":           {compact, []byte(`{"spec":{"hosts":["elsewhere"]}}`)},
		"the original of another":    {other, stored.Data},
		"an object that names none":  {desired, stored.Data},
		"an object that has nothing": {object(t, `{metadata: {name: a}}`), stored.Data},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.obj.Object, ExpandOriginal(c.obj, c.data).Object); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAnOriginalThatIsStoredApartAndLostStopsTheRelease(t *testing.T) {
	t.Parallel()
	g := demoGateway(t)
	g.step(demo, weight(20))
	g.live, _ = CompactOriginal(g.live, true)
	route, plan := g.observe(demo, weight(30))
	if !strings.Contains(route.Steps[1].Refused, "is gone; apply your own version of it") {
		t.Errorf("refused = %q", route.Steps[1].Refused)
	}
	if _, err := plan.RestoredObject(); err == nil {
		t.Error("it is restored to something")
	}
}

// A restore first removes all but the name of the original, then the original, then the name.
func TestARestoreThatWasCutShortIsFinished(t *testing.T) {
	t.Parallel()
	for what, revision := range map[string]bool{"before the original was deleted": true, "after the original was deleted": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			g := demoGateway(t)
			before := g.live.DeepCopy()
			g.step(demo, weight(20))
			_, stored := CompactOriginal(g.live, true)
			_, plan := g.observe(demo)
			restored, err := plan.RestoredObject()
			if err != nil {
				t.Fatal(err)
			}
			g.live = ReferToOriginal(restored, stored.Name)
			if revision {
				g.live = ExpandOriginal(g.live, stored.Data)
			}
			if route, _ := g.observe(demo); !route.Shaped {
				t.Error("nobody would finish it")
			}
			g.restore(demo)
			if diff := cmp.Diff(before.Object, g.live.Object); diff != "" {
				t.Errorf("restored (-want +got)\n%s", diff)
			}
		})
	}
}

func TestAnObjectWhoseAnnotationsLeaveNoRoomIsRefused(t *testing.T) {
	t.Parallel()
	g := demoGateway(t)
	longAnnotation(maxAnnotations - 100)(g.live)
	route, plan := g.observe(demo, weight(20))
	_, _, err := plan.DesiredObject(1)
	if tooLarge := new(TooLargeError); !errors.As(err, &tooLarge) {
		t.Errorf("error = %v", err)
	}
	if !strings.Contains(route.Steps[1].Refused, "too large to be released through") {
		t.Errorf("refused = %q", route.Steps[1].Refused)
	}
}

func TestAnOriginalThatKubernetesCannotStoreIsRefused(t *testing.T) {
	t.Parallel()
	g := demoGateway(t)
	longSpec(maxStored)(g.live)
	err := checkSize(withOriginal(g.live, jsonOf(ContentOf(g.live).asOriginal())))
	if tooLarge := new(TooLargeError); !errors.As(err, &tooLarge) || tooLarge.Limit != maxStored {
		t.Errorf("error = %v", err)
	}
}

func TestGarbageInPlaceOfTheOriginalIsCleanedUp(t *testing.T) {
	t.Parallel()
	g := demoGateway(t)
	before := g.live.DeepCopy()
	setAnnotation(g.live, api.AnnotationOriginalSpec, "garbage")
	g.restore(demo)
	if diff := cmp.Diff(before.Object, g.live.Object); diff != "" {
		t.Errorf("restored (-want +got)\n%s", diff)
	}
}
