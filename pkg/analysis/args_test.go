package analysis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
)

func TestWhereArgumentsComeFrom(t *testing.T) {
	t.Parallel()
	fallback := "web"
	standard := map[string]string{"namespace": "shop", "step": "2"}
	for name, c := range map[string]struct {
		declared []api.TemplateArg
		given    map[string]string
		want     map[string]string
	}{
		"standard ones need no declaration":                {nil, nil, standard},
		"one that is given":                                {[]api.TemplateArg{{Name: "app"}}, map[string]string{"app": "api"}, map[string]string{"namespace": "shop", "step": "2", "app": "api"}},
		"one with a default":                               {[]api.TemplateArg{{Name: "app", Value: &fallback}}, nil, map[string]string{"namespace": "shop", "step": "2", "app": "web"}},
		"a default that is overruled":                      {[]api.TemplateArg{{Name: "app", Value: &fallback}}, map[string]string{"app": ""}, map[string]string{"namespace": "shop", "step": "2", "app": ""}},
		"one for another template":                         {nil, map[string]string{"app": "api"}, standard},
		"a standard one that is not declared is not given": {nil, map[string]string{"namespace": "other"}, standard},
		"a standard one that is declared":                  {[]api.TemplateArg{{Name: "step"}}, map[string]string{"step": "9"}, map[string]string{"namespace": "shop", "step": "9"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ResolveArguments(c.declared, c.given, standard)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := ResolveArguments([]api.TemplateArg{{Name: "app"}}, nil, standard); err == nil || !strings.Contains(err.Error(), "args[app]: the argument has no value") {
		t.Errorf("got %v", err)
	}
}

func TestArgumentsAreFilledIn(t *testing.T) {
	t.Parallel()
	got, err := FillArguments("query", `up{ns="{{args.namespace}}", app=~"{{ args.app }}.*"} > {{args.empty}}0`, map[string]string{"namespace": "shop", "app": "{{args.namespace}}", "empty": ""})
	if err != nil {
		t.Fatal(err)
	}
	if want := `up{ns="shop", app=~"{{args.namespace}}.*"} > 0`; got != want {
		t.Errorf("got %s", got)
	}
	if _, err = FillArguments("query", "{{args.app}}", map[string]string{"namespace": "shop"}); err == nil || !strings.Contains(err.Error(), "given are: namespace") {
		t.Errorf("got %v", err)
	}
}
