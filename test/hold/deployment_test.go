package hold_test

import "testing"

// TestDeployment runs every test on one control plane with the policies for Deployments.
func TestDeployment(t *testing.T) {
	b := aBench(t).withPolicies(t)
	tests := everyTest()
	tests["the function decides as the policies"] = theFunctionDecidesAsThePolicies
	b.putTo(t, tests)
}

// TestDeploymentByWebhook does the same without the policies, by the webhook of the watcher.
func TestDeploymentByWebhook(t *testing.T) {
	b := aBench(t).withWebhook(t)
	b.putTo(t, everyTest())
	t.Run("while nobody answers only adopted workloads cannot be written", func(t *testing.T) { whileNobodyAnswers(t, b) })
}

func (b *bench) putTo(t *testing.T, tests map[string]func(*testing.T, *bench)) {
	t.Run("all", func(t *testing.T) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, b)
			})
		}
	})
}

func everyTest() map[string]func(*testing.T, *bench) {
	return map[string]func(*testing.T, *bench){
		"every way to change the template is held":         everyWayToChangeTheTemplateIsHeld,
		"an edit is held and cannot let go":                anEditIsHeldAndCannotLetGo,
		"a parked edit is a wish":                          aParkedEditIsAWish,
		"a rollout undo is held":                           aRolloutUndoIsHeld,
		"no write of a user lets go":                       noWriteOfAUserLetsGo,
		"the policies refuse nothing":                      thePoliciesRefuseNothing,
		"the executor lets go and unmarks":                 theExecutorLetsGoAndUnmarks,
		"an unadopted deployment is not touched":           anUnadoptedDeploymentIsNotTouched,
		"subresources and delete go by untouched":          subresourcesAndDeleteGoByUntouched,
		"fifty writes at once leave no version unheld":     fiftyWritesAtOnceLeaveNoVersionUnheld,
		"GitOps actors never let go":                       gitOpsActorsNeverLetGo,
		"the same manifest again and again writes nothing": theSameManifestAgainAndAgainWritesNothing,
		"a parked deployment keeps its speed":              aParkedDeploymentKeepsItsSpeed,
		"GitOps actors never speed up":                     gitOpsActorsNeverSpeedUp,
		"what cannot be given back is refused at once":     whatCannotBeGivenBackIsRefusedAtOnce,
		"it is decided as the table says":                  thePoliciesDecideAsTheTableSays,
	}
}
