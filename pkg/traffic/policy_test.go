package traffic

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

const aVirtualService = "networking.istio.io/v1 VirtualService"

// aPolicy is a policy of the namespace shop.
func aPolicy(t *testing.T, apiVersion, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	p := object(t, "apiVersion: "+apiVersion+"\nkind: "+kind+"\nmetadata: {name: "+name+", namespace: shop}\nspec: "+spec)
	p.SetUID(types.UID("u-" + name))
	return p
}

// anIstioLife is a life of a VirtualService, with a DestinationRule of this spec in its namespace.
func anIstioLife(t *testing.T, virtualService, rule string) life {
	t.Helper()
	l := aLife(t, aVirtualService)
	l.live.Object["spec"] = object(t, "spec: "+virtualService).Object["spec"]
	l.web.Carries = []string{"web"}
	l.others = []*unstructured.Unstructured{aPolicy(t, "networking.istio.io/v1", "DestinationRule", "tuned", rule)}
	return l
}

// copied returns the objects that a release has created for the gateway object.
func (g *gateway) copied() (found []*unstructured.Unstructured) {
	for _, o := range g.others {
		if o.GetLabels()[api.LabelRolloutUID] != "" {
			found = append(found, o)
		}
	}
	return found
}

const routesToWeb = `{http: [{route: [{destination: {host: web}}]}]}`

func TestAPolicyIsCopiedForTheCanary(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct{ name, spec, copy string }{
		"networking.istio.io/v1 DestinationRule": {"web-canary.tuned",
			`{host: web.shop.svc.cluster.local, exportTo: ["."], trafficPolicy: {tls: {mode: SIMPLE}}}`,
			`{host: web-canary.shop.svc.cluster.local, exportTo: ["."], trafficPolicy: {tls: {mode: SIMPLE}}}`},
		"networking.istio.io/v1beta1 DestinationRule": {"web-canary.tuned", `{host: web}`, `{host: web-canary}`},
		"gateway.networking.k8s.io/v1 BackendTLSPolicy": {"web-canary.tuned",
			`{targetRefs: [{group: "", kind: Service, name: other}, {group: "", kind: Service, name: web, sectionName: https}], validation: {hostname: web.example.com}}`,
			`{targetRefs: [{group: "", kind: Service, name: web-canary, sectionName: https}], validation: {hostname: web.example.com}}`},
		"gateway.kgateway.dev/v1alpha1 BackendConfigPolicy": {"web-canary.tuned",
			`{targetRefs: [{kind: Service, name: web}], targetSelectors: [{kind: Service, matchLabels: {team: shop}}], connectTimeout: 5s}`,
			`{targetRefs: [{kind: Service, name: web-canary}], connectTimeout: 5s}`},
		"gateway.networking.x-k8s.io/v1alpha1 XBackendTrafficPolicy": {"web-canary.tuned",
			`{targetRefs: [{group: "", kind: Service, name: web}], sessionPersistence: {sessionName: s}}`,
			`{targetRefs: [{group: "", kind: Service, name: web-canary}], sessionPersistence: {sessionName: s}}`},
		"networking.gke.io/v1 GCPBackendPolicy": {"web-canary.tuned",
			`{default: {timeoutSec: 40}, targetRef: {group: "", kind: Service, name: web}}`,
			`{default: {timeoutSec: 40}, targetRef: {group: "", kind: Service, name: web-canary}}`},
		"gateway.k8s.aws/v1beta1 TargetGroupConfiguration": {"web-canary.tuned",
			`{targetReference: {name: web}, defaultConfiguration: {targetType: ip}}`,
			`{targetReference: {name: web-canary}, defaultConfiguration: {targetType: ip}}`},
		"apisix.apache.org/v2 ApisixUpstream": {"web-canary", `{scheme: https, retries: 2}`, `{scheme: https, retries: 2}`},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			version, name, _ := strings.Cut(kind, " ")
			l := anIstioLife(t, routesToWeb, "{}")
			policy := "tuned"
			if c.name == "web-canary" {
				policy = "web"
			}
			l.others = []*unstructured.Unstructured{aPolicy(t, version, name, policy, c.spec)}
			l.at(l.web, 20)
			all := l.copied()
			if len(all) != 1 || all[0].GetName() != c.name || all[0].GetAPIVersion() != version || all[0].GetKind() != name {
				t.Fatalf("made is %v", all)
			}
			if diff := cmp.Diff(object(t, "spec: "+c.copy).Object["spec"], all[0].Object["spec"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// For each kind that the page lists, the copy is attached to the canary Service as the policy is attached to the stable one. All other fields are equal.
func TestACopyOfEachKindDiffersInItsTargetOnly(t *testing.T) {
	t.Parallel()
	attached := map[attachment]string{
		byHost:      `host: SERVICE.shop.svc`,
		byTarget:    `targetRef: {group: "", kind: Service, name: SERVICE}, targetRefs: [{group: "", kind: Service, name: SERVICE, sectionName: http}]`,
		byReference: `targetReference: {kind: Service, name: SERVICE}`,
		byName:      `retries: 2`,
	}
	for _, kind := range policyKinds() {
		t.Run(kind.Group+" "+kind.Kind, func(t *testing.T) {
			t.Parallel()
			of := func(service string) *unstructured.Unstructured {
				name := map[bool]string{true: service, false: "tuned"}[kind.attached == byName]
				policy := aPolicy(t, kind.Group+"/v1", kind.Kind, name, strings.ReplaceAll(`{`+attached[kind.attached]+`, default: {timeoutSec: 40, logging: {enabled: true}}, list: [{name: web}]}`, "SERVICE", service))
				policy.SetLabels(map[string]string{"team": "shop"})
				policy.SetAnnotations(map[string]string{"note": "hi"})
				return policy
			}
			l := anIstioLife(t, routesToWeb, "{}")
			l.others = []*unstructured.Unstructured{of("web")}
			l.at(l.web, 20)
			all := l.copied()
			if len(all) != 1 || all[0].GroupVersionKind() != l.others[0].GroupVersionKind() {
				t.Fatalf("made is %v", all)
			}
			if diff := cmp.Diff(of("web-canary").Object["spec"], all[0].Object["spec"]); diff != "" {
				t.Errorf("the spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(of("web").Object, l.others[0].Object); diff != "" {
				t.Errorf("the owner's policy (-before +after):\n%s", diff)
			}
			if all[0].GetLabels()["team"] != "shop" || all[0].GetAnnotations()["note"] != "hi" {
				t.Errorf("the copy has the labels %v and the annotations %v", all[0].GetLabels(), all[0].GetAnnotations())
			}
		})
	}
}

func TestEachKindOfGatewayObjectHasPoliciesCopiedBesideIt(t *testing.T) {
	t.Parallel()
	for kind := range ofTwo(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := aLife(t, kind)
			l.web.Carries = []string{"web"}
			l.others = []*unstructured.Unstructured{aPolicy(t, "networking.istio.io/v1", "DestinationRule", "tuned", "{host: web}")}
			l.at(l.web, 20)
			at := -1
			for i, o := range l.copied() {
				if o.GetKind() == "DestinationRule" {
					at = i
				}
			}
			if at < 0 || at > 0 {
				t.Errorf("the copy is number %d of %v; it must be made before anything else", at, l.madeNames())
			}
			l.restore(l.web)
			if diff := cmp.Diff([]string{"DestinationRule tuned"}, l.madeNames()); diff != "" {
				t.Errorf("after the release (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACopyOfAPolicyIsMadeBeforeARouteLeadsToTheCanary(t *testing.T) {
	t.Parallel()
	l := anIstioLife(t, routesToWeb, "{host: web}")
	route, plan := l.observe(l.web, weight(20))
	if r := route.Steps[1]; !r.ChildrenMissing || r.Applied {
		t.Errorf("before anything: %+v", r)
	}
	if _, beside, err := plan.DesiredObject(1); err != nil || len(beside.Apply) > 0 {
		t.Errorf("the copy would be written together with the route: %v (%v)", beside.Apply, err)
	}
	if route, _ = l.observe(l.web, weight(0)); route.Steps[1].ChildrenMissing {
		t.Errorf("a step without traffic needs a copy: %+v", route.Steps[1])
	}
	l.at(l.web, 20)
	l.at(l.web, 0)
	if len(l.copied()) != 1 {
		t.Errorf("requests of the step before are still on their way, and there is %v", l.madeNames())
	}
	_, plan = l.observe(l.web)
	if len(plan.UnreferencedChildren()) > 0 || len(plan.ReferencedChildren()) != 1 {
		t.Errorf("a restored route takes %v at once, and %v after a while", plan.UnreferencedChildren(), plan.ReferencedChildren())
	}
}

func TestACopyFollowsItsPolicy(t *testing.T) {
	t.Parallel()
	l := anIstioLife(t, routesToWeb, "{host: web}")
	l.at(l.web, 20)
	l.others[0].Object["spec"] = object(t, "spec: {host: web, trafficPolicy: {tls: {mode: SIMPLE}}}").Object["spec"]
	if route, _ := l.observe(l.web, weight(20)); route.Steps[1].Applied || route.Steps[1].ChildrenMissing {
		t.Errorf("its owner has changed it: %+v", route.Steps[1])
	}
	l.at(l.web, 20)
	if mode, _, _ := unstructured.NestedString(l.copied()[0].Object, "spec", "trafficPolicy", "tls", "mode"); mode != "SIMPLE" {
		t.Errorf("the copy is %v", l.copied()[0].Object["spec"])
	}
	l.others = l.copied()
	if route, _ := l.observe(l.web, weight(20)); route.Steps[1].Applied {
		t.Errorf("its owner has deleted it: %+v", route.Steps[1])
	}
	l.at(l.web, 20)
	if left := l.madeNames(); len(left) > 0 {
		t.Errorf("left is %v", left)
	}
}

func TestNoPolicyIsCopiedThatTheCanaryDoesNotNeed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *life){
		"of another Service": func(_ *testing.T, l *life) { l.others[0].Object["spec"] = map[string]any{"host": "web-2"} },
		"of a Service elsewhere": func(_ *testing.T, l *life) {
			l.others[0].Object["spec"] = map[string]any{"host": "web.mall.svc.cluster.local"}
		},
		"of all Services": func(_ *testing.T, l *life) {
			l.others[0].Object["spec"] = map[string]any{"host": "*.shop.svc.cluster.local"}
		},
		"that is being deleted":         func(_ *testing.T, l *life) { l.others[0].SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1000, 0)}) },
		"that another object carries":   func(_ *testing.T, l *life) { l.web.Carries = nil },
		"where both versions share one": func(_ *testing.T, l *life) { l.web.CanaryService = "web" },
		"where the canary has one already": func(t *testing.T, l *life) {
			l.others = append(l.others, aPolicy(t, "networking.istio.io/v1", "DestinationRule", "own", "{host: web-canary}"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := anIstioLife(t, routesToWeb, "{host: web}")
			change(t, &l)
			l.at(l.web, 20)
			if made := l.copied(); len(made) > 0 {
				t.Errorf("made is %v", made)
			}
		})
	}
}

// A gateway that sends plain text to pods that expect TLS gets only errors.
func TestACanaryIsSpokenToOverTLSAsTheStableVersionIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule, own string
		refused   bool
	}{
		"both over TLS":                          {`{host: web, trafficPolicy: {tls: {mode: SIMPLE}}}`, `{host: web-canary, trafficPolicy: {tls: {mode: MUTUAL}}}`, false},
		"both in plain text":                     {`{host: web}`, `{host: web-canary}`, false},
		"the mesh's own certificates":            {`{host: web, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}`, `{host: web-canary}`, false},
		"the canary alone in plain":              {`{host: web, trafficPolicy: {tls: {mode: SIMPLE}}}`, `{host: web-canary}`, true},
		"TLS is switched off":                    {`{host: web, trafficPolicy: {tls: {mode: SIMPLE}}}`, `{host: web-canary, trafficPolicy: {tls: {mode: DISABLE}}}`, true},
		"TLS of a port":                          {`{host: web, trafficPolicy: {portLevelSettings: [{port: {number: 443}, tls: {mode: SIMPLE}}]}}`, `{host: web-canary}`, true},
		"TLS of a subset that no route leads to": {`{host: web, subsets: [{name: v9, trafficPolicy: {tls: {mode: SIMPLE}}}]}`, `{host: web-canary}`, false},
		"TLS of the canary in a subset":          {`{host: web, trafficPolicy: {tls: {mode: SIMPLE}}}`, `{host: web-canary, subsets: [{name: v9, trafficPolicy: {tls: {mode: SIMPLE}}}]}`, true},
		"TLS of the canary for another port":     {`{host: web, trafficPolicy: {tls: {mode: SIMPLE}}}`, `{host: web-canary, trafficPolicy: {portLevelSettings: [{port: {number: 9}, tls: {mode: SIMPLE}}]}}`, true},
		"the mesh's own TLS is switched off":     {`{host: web, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}`, `{host: web-canary, trafficPolicy: {tls: {mode: DISABLE}}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := anIstioLife(t, routesToWeb, c.rule)
			l.others = append(l.others, aPolicy(t, "networking.istio.io/v1", "DestinationRule", "own", c.own))
			route, _ := l.observe(l.web, weight(20), weight(0))
			if got := route.Steps[1].Refused; (got != "") != c.refused || c.refused && !strings.Contains(got, "plain text by DestinationRule own") && !strings.Contains(got, "DestinationRule own has") {
				t.Errorf("refused: %q", got)
			}
			if got := route.Steps[2].Refused; got != "" {
				t.Errorf("a step that sends nothing to the canary is refused: %s", got)
			}
		})
	}
}

// A policy of the canary that covers another port than the stable policy leaves that port in plain text.
func TestAPolicyOfTheCanaryMustCoverThePortsOfTheStableOne(t *testing.T) {
	t.Parallel()
	of := func(service, section string) string {
		return `{targetRefs: [{group: "", kind: Service, name: ` + service + `, sectionName: "` + section + `"}]}`
	}
	for section, refused := range map[string]bool{"https": false, "": false, "admin": true} {
		l := anIstioLife(t, routesToWeb, "{}")
		const version, kind = "gateway.networking.k8s.io/v1", "BackendTLSPolicy"
		l.others = []*unstructured.Unstructured{aPolicy(t, version, kind, "tuned", of("web", "https")), aPolicy(t, version, kind, "own", of("web-canary", section))}
		route, _ := l.observe(l.web, weight(20))
		if got := route.Steps[1].Refused; (got != "") != refused {
			t.Errorf("for the port %q: refused %q", section, got)
		}
	}
}

func TestTheCanaryHasAProtocolWithTLSWhereTheStableVersionHas(t *testing.T) {
	t.Parallel()
	apisix := func(fields string) [3]string {
		return [3]string{"apisix.apache.org/v2", "ApisixUpstream", "{" + fields + "}"}
	}
	amazon := func(service, fields string) [3]string {
		return [3]string{"gateway.k8s.aws/v1beta1", "TargetGroupConfiguration", "{targetReference: {name: " + service + "}, defaultConfiguration: {" + fields + "}}"}
	}
	const ofPort = "portLevelSettings: [{port: 443, scheme: "
	for name, c := range map[string]struct {
		stable, own [3]string
		refused     bool
	}{
		"both https":                        {apisix("scheme: https"), apisix("scheme: https"), false},
		"https and grpcs":                   {apisix("scheme: https"), apisix("scheme: grpcs"), false},
		"https and none":                    {apisix("scheme: https"), apisix("retries: 1"), true},
		"none and https":                    {apisix("retries: 1"), apisix("scheme: https"), false},
		"https of a port and none":          {apisix(ofPort + "https}]"), apisix("retries: 1"), true},
		"https of a port and grpc of it":    {apisix(ofPort + "https}]"), apisix("scheme: https, " + ofPort + "grpc}]"), true},
		"https of a port and of all":        {apisix(ofPort + "https}]"), apisix("scheme: https"), false},
		"https of a port, both":             {apisix(ofPort + "https}]"), apisix(ofPort + "grpcs}]"), false},
		"https of a port and of another":    {apisix(ofPort + "https}]"), apisix("portLevelSettings: [{port: 80, scheme: https}]"), true},
		"https and a port without a scheme": {apisix("scheme: https"), apisix("scheme: https, portLevelSettings: [{port: 443, retries: 1}]"), true},
		"the same port of both in plain":    {apisix("scheme: https, " + ofPort + "http}]"), apisix("scheme: https, " + ofPort + "http}]"), false},
		"target groups, both HTTPS":         {amazon("web", "protocol: HTTPS"), amazon("web-canary", "protocol: HTTPS"), false},
		"target groups, HTTPS and HTTP":     {amazon("web", "protocol: HTTPS"), amazon("web-canary", "protocol: HTTP"), true},
		"target groups, TLS and TCP":        {amazon("web", "protocol: TLS"), amazon("web-canary", "protocol: TCP"), true},
		"target groups, TLS and none":       {amazon("web", "protocol: TLS"), amazon("web-canary", "targetType: ip"), true},
		"target groups, HTTP and HTTP":      {amazon("web", "protocol: HTTP"), amazon("web-canary", "protocol: HTTP"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := anIstioLife(t, routesToWeb, "{}")
			l.others = []*unstructured.Unstructured{aPolicy(t, c.stable[0], c.stable[1], "web", c.stable[2]), aPolicy(t, c.own[0], c.own[1], "web-canary", c.own[2])}
			route, _ := l.observe(l.web, weight(20))
			if got := route.Steps[1].Refused; (got != "") != c.refused || c.refused && !strings.Contains(got, "to Service web-canary carried in plain text") {
				t.Errorf("refused: %q", got)
			}
		})
	}
}

// A release that moves traffic back must not wait for a copy: the planner creates none then.
func TestAStepThatGivesTrafficBackNeedsNoCopy(t *testing.T) {
	t.Parallel()
	l := anIstioLife(t, routesToWeb, "{host: web}")
	l.at(l.web, 50)
	l.others = l.others[:1] // another client has deleted the copy
	l.takenBack(l.web, 30)
	route, plan := l.observeSteps(l.web, map[int32]Strategy{-10: weight(10)})
	if r := route.Steps[-10]; r.ChildrenMissing || r.Refused != "" || plan.ReferencesChildren(-10) {
		t.Errorf("it waits for a copy: %+v", r)
	}
}

func TestARouteLeadsToTheCanaryFromItsFirstShareOn(t *testing.T) {
	t.Parallel()
	l := anIstioLife(t, routesToWeb, "{host: web}")
	for percent, want := range []bool{false, true} {
		l.at(l.web, int32(20*percent))
		if _, plan := l.observe(l.web, weight(20)); plan.RoutesToCanary() != want {
			t.Errorf("at %d%% it leads there: %t", 20*percent, plan.RoutesToCanary())
		}
	}
}

// A copy stays in a step without traffic, although its policy can no longer be copied. The gateway may still send requests by the previous step.
func TestACopyStaysInAStepWithoutTraffic(t *testing.T) {
	t.Parallel()
	l := anIstioLife(t, `{http: [{route: [{destination: {host: web, subset: v1}, weight: 50}, {destination: {host: web, subset: v2}, weight: 50}]}]}`, "{host: web, trafficPolicy: {tls: {mode: SIMPLE}}}")
	l.at(l.web, 20)
	l.others[0].Object["spec"] = object(t, "spec: {host: web, subsets: [{name: v1, trafficPolicy: {tls: {mode: SIMPLE}}}]}").Object["spec"]
	if route, _ := l.observe(l.web, weight(20)); !strings.Contains(route.Steps[1].Refused, "differ") {
		t.Errorf("refused %q", route.Steps[1].Refused)
	}
	l.at(l.web, 0)
	if len(l.copied()) != 1 {
		t.Errorf("there is %v", l.madeNames())
	}
}

func TestOneDestinationRuleSaysHowRequestsAreCarried(t *testing.T) {
	t.Parallel()
	for spec, refused := range map[string]bool{
		`{host: web, subsets: [{name: v1, labels: {version: v1}}]}`:                      false,
		`{host: web, subsets: [{name: v1, trafficPolicy: {connectionPool: {}}}]}`:        true,
		`{host: web.shop.svc.cluster.local, trafficPolicy: {outlierDetection: {}}}`:      true,
		`{host: web.mall.svc.cluster.local, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}`: false,
	} {
		l := anIstioLife(t, routesToWeb, `{host: web, trafficPolicy: {tls: {mode: SIMPLE}}}`)
		l.others = append(l.others, aPolicy(t, "networking.istio.io/v1", "DestinationRule", "second", spec))
		route, _ := l.observe(l.web, weight(20))
		if got := route.Steps[1].Refused; strings.Contains(got, "tuned and second") != refused {
			t.Errorf("beside %s: refused %q", spec, got)
		}
	}
}

// Another gateway object of the release may lead to another subset.
func TestSubsetsOfOtherObjectsCount(t *testing.T) {
	t.Parallel()
	l := anIstioLife(t, `{http: [{route: [{destination: {host: web, subset: v1}}]}]}`, `{host: web, subsets: [{name: v1, trafficPolicy: {tls: {mode: SIMPLE}}}, {name: v2}]}`)
	l.web.Subsets = map[string][]string{"web": {"v2"}}
	route, _ := l.observe(l.web, weight(20))
	if got := route.Steps[1].Refused; !strings.Contains(got, "the subset v1 and the subset v2 differ") {
		t.Errorf("refused %q", got)
	}
}

func TestTheCopyHasThePolicyOfTheSubsetThatTheRouteLeadsTo(t *testing.T) {
	t.Parallel()
	const toOne, toTwo = `{http: [{route: [{destination: {host: web, subset: v1}}]}]}`,
		`{http: [{route: [{destination: {host: web, subset: v1}, weight: 90}, {destination: {host: web, subset: v2}, weight: 10}]}]}`
	for name, c := range map[string]struct{ routes, rule, copy, refused string }{
		"no policy of the subset": {toOne, `{host: web, trafficPolicy: {tls: {mode: SIMPLE}}, subsets: [{name: v1, labels: {version: v1}}]}`,
			`{host: web-canary, trafficPolicy: {tls: {mode: SIMPLE}}}`, ""},
		"the subset's own": {toOne, `{host: web, trafficPolicy: {tls: {mode: SIMPLE}, loadBalancer: {simple: RANDOM}}, subsets: [{name: v1, trafficPolicy: {tls: {mode: DISABLE}}}, {name: v2, trafficPolicy: {tls: {mode: MUTUAL}}}]}`,
			`{host: web-canary, trafficPolicy: {tls: {mode: DISABLE}, loadBalancer: {simple: RANDOM}}}`, ""},
		"the subset's alone": {toOne, `{host: web, subsets: [{name: v1, trafficPolicy: {tls: {mode: SIMPLE}}}]}`,
			`{host: web-canary, trafficPolicy: {tls: {mode: SIMPLE}}}`, ""},
		"of a port of the host": {toOne, `{host: web, trafficPolicy: {portLevelSettings: [{port: {number: 80}, tls: {mode: SIMPLE}}]}, subsets: [{name: v1, trafficPolicy: {tls: {mode: DISABLE}}}]}`,
			`{host: web-canary, trafficPolicy: {tls: {mode: DISABLE}, portLevelSettings: [{port: {number: 80}, tls: {mode: DISABLE}}]}}`, ""},
		"no field that a port cannot have": {toOne, `{host: web, trafficPolicy: {portLevelSettings: [{port: {number: 80}, tls: {mode: SIMPLE}}]}, subsets: [{name: v1, trafficPolicy: {proxyProtocol: {version: V1}}}]}`,
			`{host: web-canary, trafficPolicy: {proxyProtocol: {version: V1}, portLevelSettings: [{port: {number: 80}, tls: {mode: SIMPLE}}]}}`, ""},
		"of a port of the subset": {toOne, `{host: web, trafficPolicy: {portLevelSettings: [{port: {number: 80}, tls: {mode: SIMPLE}}]}, subsets: [{name: v1, trafficPolicy: {portLevelSettings: [{port: {number: 80}, loadBalancer: {simple: RANDOM}}]}}]}`,
			`{host: web-canary, trafficPolicy: {portLevelSettings: [{port: {number: 80}, loadBalancer: {simple: RANDOM}}]}}`, ""},
		"equal ones of two subsets": {toTwo, `{host: web, subsets: [{name: v1, trafficPolicy: {tls: {mode: SIMPLE}}}, {name: v2, trafficPolicy: {tls: {mode: SIMPLE}}}]}`,
			`{host: web-canary, trafficPolicy: {tls: {mode: SIMPLE}}}`, ""},
		"other ones of two subsets": {toTwo, `{host: web, subsets: [{name: v1, trafficPolicy: {tls: {mode: SIMPLE}}}, {name: v2}]}`,
			"", "its traffic policies for the subset v1 and the subset v2 differ, and the canary has no subsets; make a DestinationRule for Service web-canary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := anIstioLife(t, c.routes, c.rule)
			if c.refused != "" {
				route, _ := l.observe(l.web, weight(20))
				if got := route.Steps[1].Refused; !strings.Contains(got, c.refused) {
					t.Errorf("refused: %q", got)
				}
				return
			}
			before := l.others[0].DeepCopy()
			l.at(l.web, 20)
			if diff := cmp.Diff(object(t, "spec: "+c.copy).Object["spec"], l.copied()[0].Object["spec"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, l.others[0]); diff != "" {
				t.Errorf("the policy itself (-want +got):\n%s", diff)
			}
		})
	}
}
