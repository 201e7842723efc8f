package receiver

import (
	"strings"

	"sluice.dev/sluice/pkg/queue"
)

// kubernetesUser is put before the names of Kubernetes users that could be those of NATS users.
const kubernetesUser = "kubernetes:"

// principalOf is as whom a Kubernetes user decides. Kubernetes and NATS name their users independently of each other, so that the
// same name may stand for two: those of NATS are of letters, digits and '-', and a Kubernetes user with such a name is told apart
// by "kubernetes:" before it. All others, such as system:serviceaccount:shop:ci, keep their names.
func principalOf(username string) string {
	if queue.PrincipalToken(username) == username || strings.HasPrefix(username, kubernetesUser) {
		return kubernetesUser + username
	}
	return username
}
