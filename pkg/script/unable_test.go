package script

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// A kind that shares no traffic is refused with why, and with what does; the page has the same words.
func TestKindsThatShareNoTrafficAreRefusedWithWhatDoes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, u := range unable {
		t.Run(kind.Kind+"."+kind.Group, func(t *testing.T) {
			t.Parallel()
			_, err := NewLibrary(fstest.MapFS{}, "").Find(kind.Group, kind.Kind, ConfigMap{})
			want := fmt.Sprintf("%s of group %s cannot share traffic between versions: %s; %s", kind.Kind, kind.Group, u.why, u.instead)
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			name := kind.Kind + " (" + kind.Group + ")"
			if kind.Kind == "ingress" {
				name = "Ingress of class " + kind.Group
			}
			if row := fmt.Sprintf("| %s | %s | %s |\n", name, u.why, u.instead); !strings.Contains(string(page), row) {
				t.Errorf("docs/gateways.md lacks the row\n%s", row)
			}
		})
	}
	own := fstest.MapFS{"http.keda.sh/HTTPScaledObject/trafficRouting.lua": {Data: []byte("return obj.data")}}
	if _, err := NewLibrary(own, "").Find("http.keda.sh", "HTTPScaledObject", ConfigMap{}); err != nil {
		t.Errorf("a script of the user's own: %v", err)
	}
}
