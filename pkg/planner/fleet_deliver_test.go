package planner

import (
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// imagesOfV2 makes a permit set the images of v2.
func imagesOfV2(p *api.FleetPermit) {
	p.Revision, p.Images = "", map[string]string{"app": "app:2"}
}

// delivers is an idle Rollout of a fleet whose permit sets the images of v2.
func delivers(changes ...func(*api.FleetPermit)) *given {
	g := inFleet()
	g.Workload.Containers = []string{"app"}
	return g.permit(api.FleetVerbRelease, append([]func(*api.FleetPermit){imagesOfV2}, changes...)...)
}

// delivered is the same Rollout after the patch.
func delivered() *given {
	g := delivers().Planned()
	g.Workload.Delivered = g.Permit.Number()
	g.HeldAt("v2").named("v2")
	g.Workload.Version.Images = api.FleetImagesDigest(g.Permit.Images)
	return g
}

func TestHowImagesComeIntoACluster(t *testing.T) {
	t.Parallel()
	const set = "; set the images of permit 1 of epoch 1 on Deployment demo"
	for sentence, test := range map[string]struct {
		given *given
		want  string
	}{
		"a permit sets them":                                     {delivers(), "Idle, step 3: Progressing" + set},
		"a hold does not":                                        {delivers(func(p *api.FleetPermit) { p.Verb = api.FleetVerbHold }), "Idle, step 3: AtHold AtHold"},
		"a permit that has expired does not":                     {delivers(until(-time.Hour)), "Idle, step 3: Held PermitExpired"},
		"they must be those of all containers":                   {delivers(func(p *api.FleetPermit) { p.Images["proxy"] = "proxy:1" }), "Idle, step 3: Failed ContainersDiffer"},
		"those of other containers fail while a version is held": {waitsFor().permit(api.FleetVerbRelease, imagesOfV2), "Initializing, step 1: Failed ContainersDiffer"},
		"the version of another client gives way":                {heldBeforeImages(), "Initializing, step 1: Progressing" + set},
		"the release begins with the template that results":      {delivered(), "BeforeStepUpgrade, step 1: Progressing; pin Service demo to h1"},
		"images that are there need no patch":                    {delivered().With(func(g *given) { g.Workload.Delivered = api.PermitNumber{} }), "BeforeStepUpgrade, step 1: Progressing; pin Service demo to h1"},
		"a client that takes them back fails the release":        {takenBackTo("v1"), "Idle, step 3: Failed TakenBack"},
		"a client that changes them fails the release":           {takenBackTo("v3"), "Initializing, step 1: Failed TakenBack"},
		"a later permit sets them again":                         {takenBackTo("v1").permit(api.FleetVerbRelease, imagesOfV2), "Idle, step 3: Progressing; set the images of permit 2 of epoch 1 on Deployment demo"},
		"a return to the version before gives way to them":       {returningTo("v0"), "StepPaused, step 1: Progressing, awaits a person" + set},
		"a version that was withdrawn does not come in":          {delivers().With(func(g *given) { g.Blocked = []api.FleetBlock{{Version: "version/v2", Epoch: 1}} }), "Idle, step 3: Held Blocked"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			if got := test.given.answer(); got != test.want {
				t.Errorf("it is in %s, want %s", got, test.want)
			}
		})
	}
}

// returningTo is a Rollout whose release of the version before waits for a person when the permit for v2 comes.
func returningTo(v string) *given {
	g := servedBefore(v).HeldAt(v).named(v).Planned().AtStep(1).Paused()
	g.Workload.Containers = []string{"app"}
	return g.permit(api.FleetVerbRelease, imagesOfV2)
}

// heldBeforeImages is a Rollout that holds v3 when the permit for v2 comes.
func heldBeforeImages() *given {
	g := inFleet().HeldAt("v3").named("v3").Planned()
	g.Workload.Containers = []string{"app"}
	return g.permit(api.FleetVerbRelease, imagesOfV2)
}

// takenBackTo is a Rollout whose template a client has changed after the images were set.
func takenBackTo(v string) *given {
	g := delivered().Planned()
	g.Status.Sluice.State, g.Status.Sluice.Step, g.Status.Sluice.CanaryRevision = "Idle", 3, "v1" // the release has ended
	g.Workload.Held, g.Workload.Paused, g.Workload.Revision = false, false, v
	if v != "v1" {
		g.HeldAt(v)
	}
	return g.named(v).With(func(g *given) { g.Workload.TemplateManager = "argocd-controller" })
}

func TestAClusterNamesTheClientThatTookItsImagesBack(t *testing.T) {
	t.Parallel()
	d := Plan(takenBackTo("v1").Seen, start)
	for _, said := range []string{d.Status.Message, d.Report.Message} {
		if !strings.Contains(said, "argocd-controller has changed its template since") || !strings.Contains(said, "sluice fleet retry demo CLUSTER -n shop") {
			t.Errorf("the message is %q", said)
		}
	}
}
