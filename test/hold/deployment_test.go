package hold_test

import "testing"

// TestDeployment puts the policies for Deployments to every test on one control plane.
func TestDeployment(t *testing.T) {
	b := aBench(t).withPolicies(t)
	// It sets an environment variable, which tests that run in parallel may not.
	t.Run("an edit is held and cannot let go", func(t *testing.T) { anEditIsHeldAndCannotLetGo(t, b) })
	for name, test := range map[string]func(*testing.T, *bench){
		"every way to change the template is held":         everyWayToChangeTheTemplateIsHeld,
		"a rollout undo is held":                           aRolloutUndoIsHeld,
		"no write of a user lets go":                       noWriteOfAUserLetsGo,
		"the policies refuse nothing":                      thePoliciesRefuseNothing,
		"the executor lets go and unmarks":                 theExecutorLetsGoAndUnmarks,
		"an unadopted deployment is not touched":           anUnadoptedDeploymentIsNotTouched,
		"subresources and delete go by untouched":          subresourcesAndDeleteGoByUntouched,
		"fifty writes at once leave no version unheld":     fiftyWritesAtOnceLeaveNoVersionUnheld,
		"GitOps actors never let go":                       gitOpsActorsNeverLetGo,
		"the same manifest again and again writes nothing": theSameManifestAgainAndAgainWritesNothing,
		"the policies decide as the table says":            thePoliciesDecideAsTheTableSays,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}
