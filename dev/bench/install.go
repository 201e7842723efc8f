package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
)

// probe is a Deployment with which install checks that changes are held.
const probe = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"probe","namespace":"sluice-system",
	"labels":{"rollouts.kruise.io/workload-type":"deployment"},"annotations":{"sluice.dev/rollout":"probe"}},
	"spec":{"replicas":1,"selector":{"matchLabels":{"app":"probe"}},"template":{"metadata":{"labels":{"app":"probe"}},
	"spec":{"containers":[{"name":"c","image":"c"}]}}}}`

// install applies an installation without its Deployments, and waits until the policies take effect. It writes a kubeconfig with the token of each part's
// service account.
func (s *site) install(ctx context.Context) error {
	manifests, err := deploy.Manifests(api.DefaultInstallation(), "namespace", "crds", "policies", "rbac")
	if err != nil {
		return err
	}
	if _, err := s.cluster.KubectlStdin(ctx, string(manifests), "apply", "--server-side", "-f", "-"); err != nil {
		return fmt.Errorf("install Sluice: %w", err)
	}
	if _, err := s.cluster.KubectlStdin(ctx, probe, "create", "-f", "-"); err != nil {
		return fmt.Errorf("create the probe: %w", err)
	}
	err = until(ctx, "changes are held", func(ctx context.Context) (bool, error) {
		out, _ := s.cluster.Kubectl(ctx, "-n", api.DefaultNamespace, "patch", "deployment", "probe", "--dry-run=server", "-o", "jsonpath={.spec.paused}",
			"-p", `{"spec":{"template":{"metadata":{"annotations":{"probe":"x"}}}}}`)
		return out == "true", nil // ask a busy server again
	})
	if err != nil {
		return err
	}
	if _, err := s.cluster.Kubectl(ctx, "-n", api.DefaultNamespace, "delete", "deployment", "probe"); err != nil {
		return fmt.Errorf("delete the probe: %w", err)
	}
	s.kubeconfigs = map[string]string{}
	for _, program := range []string{"watcher", "executor", "analyzer"} {
		if err := s.writeKubeconfig(ctx, program); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) writeKubeconfig(ctx context.Context, program string) error {
	day := int64(24 * 60 * 60)
	var token *authv1.TokenRequest
	err := patiently(ctx, func(bool) (err error) {
		token, err = s.client.typed.CoreV1().ServiceAccounts(api.DefaultNamespace).CreateToken(ctx, account(program),
			&authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("ask for a token of %s: %w", account(program), err)
	}
	config := bearing(s.cluster.Config, token.Status.Token)
	file := clientcmdapi.NewConfig()
	file.Clusters["bench"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData}
	file.AuthInfos["part"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	file.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "part"}
	file.CurrentContext = "bench"
	path := filepath.Join(s.dir, program+".kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("write the kubeconfig of %s: %w", program, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	s.kubeconfigs[program] = path
	return nil
}
