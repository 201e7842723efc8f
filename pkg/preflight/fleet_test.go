package preflight_test

// hubPolicies runs while no policy is installed.
func hubPolicies(w world) {
	w.expect(w.look.CheckFleetPolicies(w.Context()))
	w.apply("testdata/fleetrollout.yaml")
	w.expect(w.look.CheckFleetPolicies(w.Context()),
		"warning policies: ValidatingAdmissionPolicy sluice-validate-fleet is not there, so who may patch a FleetRollout may give each command, in any name, and use each FleetPlan.",
		"warning policies: ValidatingAdmissionPolicy sluice-validate-fleettarget is not there, so who may write a FleetTarget may permit each version in its cluster.")
	w.apply("../../deploy/policies/validate-fleet.yaml")
	w.expect(w.look.CheckFleetPolicies(w.Context()),
		"ok policies: ValidatingAdmissionPolicy sluice-validate-fleet is installed and bound.",
		"ok policies: ValidatingAdmissionPolicy sluice-validate-fleettarget is installed and bound.")
	w.kubectl("patch", "validatingadmissionpolicy", "sluice-validate-fleet", "--type=json", "-p", `[{"op":"remove","path":"/spec/validations/0"}]`)
	w.expect(w.look.CheckFleetPolicies(w.Context()),
		"warning policies: ValidatingAdmissionPolicy sluice-validate-fleet has other rules than this version of Sluice.",
		"ok policies: ValidatingAdmissionPolicy sluice-validate-fleettarget is installed and bound.")
	w.kubectl("delete", "fleetrollout", "checkout")
}
