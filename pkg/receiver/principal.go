package receiver

import (
	"strings"

	"sluice.dev/sluice/pkg/queue"
)

// kubernetesUser is the prefix of Kubernetes users whose names could be names of NATS users.
const kubernetesUser = "kubernetes:"

// principalOf returns the principal of a Kubernetes user. Kubernetes and NATS name their users independently, so one name may stand for two users. Names of
// NATS users consist of letters, digits and '-'. A Kubernetes user with such a name gets the prefix "kubernetes:". All others, such as
// system:serviceaccount:shop:ci, keep their names.
func principalOf(username string) string {
	if queue.PrincipalToken(username) == username || strings.HasPrefix(username, kubernetesUser) {
		return kubernetesUser + username
	}
	return username
}
