package script

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// A kind that shares no traffic is refused with the reason and an alternative; the
// page has the same words.
func TestKindsThatShareNoTrafficAreRefusedWithWhatDoes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, u := range unsupportedKinds {
		t.Run(kind.Kind+"."+kind.Group, func(t *testing.T) {
			t.Parallel()
			library := NewLibrary(fstest.MapFS{}, "")
			_, err := library.FindScript(kind.Group, kind.Kind, ConfigMap{})
			name, told := kind.Kind+" ("+kind.Group+")", kind.Kind+" of group "+kind.Group
			if kind.Kind == "ingress" {
				_, err = library.FindIngress(kind.Group, ConfigMap{})
				name = "Ingress of class " + kind.Group
				told = name
			}
			want := fmt.Sprintf("%s cannot share traffic between versions: %s; %s", told, u.why, u.instead)
			var missing *NotFoundError
			if !errors.As(err, &missing) || !missing.IsUnsupported() || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if row := fmt.Sprintf("| %s | %s | %s |\n", name, u.why, u.instead); !strings.Contains(string(page), row) {
				t.Errorf("docs/gateways.md lacks the row\n%s", row)
			}
		})
	}
	own := NewLibrary(fstest.MapFS{
		"http.keda.sh/HTTPScaledObject/trafficRouting.lua": {Data: []byte("return obj.data")},
		"trafficrouting_ingress/gce.lua":                   {Data: []byte("return obj.annotations")},
	}, "")
	if _, err := own.FindScript("http.keda.sh", "HTTPScaledObject", ConfigMap{}); err != nil {
		t.Errorf("a script of the user's own: %v", err)
	}
	if _, err := own.FindIngress("gce", ConfigMap{}); err != nil {
		t.Errorf("a script of the user's own for a class: %v", err)
	}
}
