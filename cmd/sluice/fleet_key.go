package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/nats-io/nkeys"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/pkg/api"
)

func (c *cli) fleetHubKeyCommand() *cobra.Command {
	var output, namespace string
	key := &cobra.Command{
		Use: "hub-key", Short: "Print a new key of the hub, with the objects that make a cluster the hub of a fleet",
		Long: "Print a Secret with a new private key of the hub, and a ConfigMap with its public key. The installed executors read both when they start, also\n" +
			"after an upgrade. The hub signs its permits by this key, and each cluster of the fleet trusts no other. The command creates nothing. Keep a\n" +
			"copy of the Secret in a safe place: without the key, each cluster must get another one.",
		Example: fmt.Sprintf("  %[1]s fleet hub-key > hub-key.yaml\n  %[2]s -f hub-key.yaml --context hub\n  %[3]s --context hub", c.command, applyObjects, restartExecutors(api.DefaultNamespace)),
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := checkOutput(output, "yaml"); err != nil {
				return err
			}
			text, err := hubKeyObjects(namespace)
			if err != nil {
				return err
			}
			_, err = c.out.Write(text)
			return err
		},
	}
	installNamespaceFlag(key, &namespace, "namespace of Sluice in the hub")
	outputFlag(key, &output, "", "yaml")
	return key
}

func hubKeyObjects(namespace string) ([]byte, error) {
	seed, public, err := newNKey()
	if err != nil {
		return nil, err
	}
	settings := map[string]string{component.Variable("fleet-hub-key-file"): hubKeyDir + "/hub.nk", publicKeysSetting: public}
	return document("# For the hub, in which Sluice is installed:\n# "+applyObjects+" -f FILE && "+restartExecutors(namespace)+"\n#\n"+
		"# The Secret has the private key of the hub: keep it in no repository.\n",
		secret(namespace, hubObjects, map[string]any{"hub.nk": seed + "\n"}), configMap(namespace, hubObjects, settings))
}

// applyObjects and restartExecutors give the executors of a cluster what hub-key and join print.
const applyObjects = "kubectl apply --server-side"

func restartExecutors(namespace string) string {
	return "kubectl rollout restart deployment/sluice-executor -n " + namespace
}

func objectName(namespace, name string) map[string]any {
	return map[string]any{"name": name, "namespace": namespace}
}

func secret(namespace, name string, files map[string]any) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": objectName(namespace, name), "stringData": files}
}

// configMap holds settings, which the shipped Deployment of executors reads as environment variables.
func configMap(namespace, name string, settings map[string]string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": objectName(namespace, name), "data": settings}
}

func newNKey() (seed, public string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", "", fmt.Errorf("make a key: %w", err)
	}
	private, err := pair.Seed()
	if err != nil {
		return "", "", fmt.Errorf("make a key: %w", err)
	}
	public, err = pair.PublicKey()
	return string(private), public, err
}

// document returns objects as a YAML stream with a comment before them.
func document(comment string, objects ...map[string]any) ([]byte, error) {
	var stream bytes.Buffer
	for i, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("write yaml: %w", err)
		}
		stream.WriteString("---\n")
		if i == 0 {
			stream.WriteString(comment)
		}
		stream.Write(text)
	}
	return stream.Bytes(), nil
}

func commented(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		lines.WriteString("# " + line)
	}
	return lines.String()
}
