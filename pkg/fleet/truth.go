package fleet

// Facts about releases that a GitOps tool delivers, for people.
const (
	TruthPodTemplate    = "Only the pod template waits for its wave. Services, ConfigMaps that change in place, migrations and CRDs of the same commit are in every cluster at once."
	TruthHeldDeployment = "A held Deployment is paused. Argo CD shows it as Suspended, and a sync with hooks or sync waves does not end until its wave has passed."
	TruthPruning        = "Tools that prune ConfigMaps with a hash in their names delete those that the old pods still need. Keep them until the release has ended."
	TruthRepository     = "A tool that applies %s from a repository takes back what commands write into spec.release. Change the version in the repository then."
)
