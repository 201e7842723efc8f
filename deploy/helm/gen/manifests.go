package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
)

// tokens are the names of an installation while the manifests are YAML. expressions has what Helm puts in their place.
var (
	tokens      = api.Installation{Namespace: "release-namespace", Watcher: "watcher-account", Executor: "executor-account", Analyzer: "analyzer-account"}
	expressions = strings.NewReplacer(
		tokens.Namespace, "{{ .Release.Namespace }}",
		tokens.Watcher, "{{ .Values.watcher.serviceAccount.name }}",
		tokens.Executor, "{{ .Values.executor.serviceAccount.name }}",
		tokens.Analyzer, "{{ .Values.analyzer.serviceAccount.name }}",
	)
)

// manifestTemplates returns the templates that follow from the manifests, by their paths in the chart.
func manifestTemplates(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, part := range []struct {
		name     string
		template func([]document) (map[string][]string, error)
	}{
		{"policies", policyTemplates}, {"rbac", rbacTemplates}, {"parts", partTemplates}, {"webhook", webhookTemplates},
	} {
		stream, err := deploy.Manifests(tokens, part.name)
		if err != nil {
			return nil, fmt.Errorf("read the manifests: %w", err)
		}
		documents, err := documentsOf(stream)
		if err != nil {
			return nil, err
		}
		templates, err := part.template(documents)
		if err != nil {
			return nil, fmt.Errorf("part %s: %w", part.name, err)
		}
		for name, texts := range templates {
			files["templates/"+name] = []byte(expressions.Replace(string(join(texts))))
		}
	}
	service, err := os.ReadFile(filepath.Join(dir, "receiver", "service.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the Service of the receiver: %w", err)
	}
	text := strings.ReplaceAll(string(service), api.DefaultNamespace, "{{ .Release.Namespace }}")
	files["templates/receiver-service.yaml"] = join([]string{when(".Values.receiver.enabled", text)})
	return files, nil
}

// policyTemplates make a file of each policy and its binding. The policies that the webhook can replace have a condition.
func policyTemplates(documents []document) (map[string][]string, error) {
	files := map[string][]string{}
	for _, d := range documents {
		name := "policies/" + strings.TrimPrefix(d.name, "sluice-") + ".yaml"
		text := d.text
		if strings.HasPrefix(d.kind, "MutatingAdmissionPolicy") {
			text = when(`include "sluice.policies" .`, text)
		}
		files[name] = append(files[name], text)
	}
	return files, nil
}

// rbacTemplates make one file. A service account may exist already.
func rbacTemplates(documents []document) (map[string][]string, error) {
	var texts []string
	for _, d := range documents {
		if d.kind != "ServiceAccount" {
			texts = append(texts, d.text)
			continue
		}
		program := strings.TrimSuffix(d.name, "-account")
		values := ".Values." + program + ".serviceAccount"
		e, err := edit(d)
		if err != nil {
			return nil, err
		}
		e.extend("metadata.annotations", fmt.Sprintf("%s.annotations | toYaml", values), values+".annotations")
		text, err := e.result()
		if err != nil {
			return nil, err
		}
		texts = append(texts, when(values+".create", text))
	}
	return map[string][]string{"rbac.yaml": texts}, nil
}

// partTemplates make a file of each program, and one of NATS.
func partTemplates(documents []document) (map[string][]string, error) {
	files := map[string][]string{}
	for _, d := range documents {
		part := strings.TrimPrefix(d.name, "sluice-")
		change := programTemplate
		if part == "nats" {
			change = natsTemplate
		}
		text, err := change(d, part)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", d.kind, d.name, err)
		}
		files[part+".yaml"] = append(files[part+".yaml"], text)
	}
	return files, nil
}

// programTemplate makes the template of a program's Deployment.
func programTemplate(d document, program string) (string, error) {
	e, err := edit(d)
	if err != nil {
		return "", err
	}
	values := ".Values." + program
	helper := func(name string) string { return fmt.Sprintf(`include "sluice.%s" (list . %q) | trim`, name, program) }
	const pod, container = "spec.template.spec.", "spec.template.spec.containers.0."
	e.optional("spec.replicas", values+".replicas")
	e.extend("spec.template.metadata.labels", values+".podLabels | toYaml", values+".podLabels")
	e.block("spec.template.metadata.annotations", values+".podAnnotations")
	e.extend(strings.TrimSuffix(pod, "."), fmt.Sprintf(`include "sluice.scheduling" (list . %s) | trim`, values), "")
	e.block(pod+"securityContext", ".Values.podSecurityContext")
	e.value(container+"image", `include "sluice.image" .`)
	e.value(container+"imagePullPolicy", ".Values.image.pullPolicy")
	e.extend(container+"args", helper("args"), "")
	e.replace(container+"env", 3, `include "sluice.env.nats" .`)
	e.extend(container+"env", values+".extraEnv | toYaml", values+".extraEnv")
	e.extend(container+"envFrom", values+".extraEnvFrom | toYaml", values+".extraEnvFrom")
	e.extend(container+"ports", helper("ports"), "")
	e.block(container+"resources", values+".resources")
	e.block(container+"securityContext", ".Values.securityContext")
	e.extend(container+"volumeMounts", helper("volumeMounts"), "")
	e.extend(pod+"volumes", helper("volumes"), "")
	if program == "executor" {
		e.value(pod+"volumes.0.secret.secretName", ".Values.fleet.hub.existingSecret")
		e.value(pod+"volumes.1.secret.secretName", ".Values.fleet.member.existingSecret")
	}
	return e.result()
}

// natsTemplate makes the template of an object of the embedded NATS. The StatefulSet is for a single server.
func natsTemplate(d document, _ string) (string, error) {
	e, err := edit(d)
	if err != nil {
		return "", err
	}
	condition := ".Values.nats.embedded"
	switch d.kind {
	case "Service":
		e.value("spec.selector.app\\.kubernetes\\.io/name", `include "sluice.nats.name" .`)
	case "ConfigMap":
		e.text("data.nats\\.conf", "users: [{ user: $NATS_USER, password: $NATS_PASSWORD }]",
			"users: [{ user: {{ if .Values.nats.existingSecret }}$NATS_USER, password: $NATS_PASSWORD{{ else }}sluice{{ end }} }]")
		e.text("data.nats\\.conf", "jetstream { store_dir: /data }\n", "jetstream { store_dir: /data }\n"+natsSettings)
	case "StatefulSet":
		condition = `and .Values.nats.embedded (not (include "sluice.nats.cluster" .))`
		const pod, container = "spec.template.spec.", "spec.template.spec.containers.0."
		e.extend(strings.TrimSuffix(pod, "."), `include "sluice.scheduling" (list . .Values.nats) | trim`, "")
		e.value(container+"image", `printf "%s:%s" .Values.nats.image.repository .Values.nats.image.tag`)
		e.block(container+"resources", ".Values.nats.resources")
		e.block(container+"securityContext", ".Values.securityContext")
		e.guard(container+"envFrom", ".Values.nats.existingSecret")
		e.value(container+"envFrom.0.secretRef.name", ".Values.nats.existingSecret")
		e.extend(container+"volumeMounts", `dict "name" "tls" "mountPath" "/etc/nats-tls" "readOnly" true | list | toYaml`, ".Values.nats.tls.existingSecret")
		e.extend(pod+"volumes", `dict "name" "tls" "secret" (dict "secretName" .Values.nats.tls.existingSecret) | list | toYaml`, ".Values.nats.tls.existingSecret")
		e.extend("spec.volumeClaimTemplates.0.spec", `printf "storageClassName: %s" .Values.nats.storage.className`, ".Values.nats.storage.className")
		e.value("spec.volumeClaimTemplates.0.spec.resources.requests.storage", ".Values.nats.storage.size")
	default:
		return "", fmt.Errorf("the chart does not know it")
	}
	text, err := e.result()
	if err != nil {
		return "", err
	}
	return when(condition, text), nil
}

// natsSettings are the settings of the embedded NATS that depend on values.
const natsSettings = `{{- if not .Values.nats.existingSecret }}
no_auth_user: sluice
{{- end }}
{{- if .Values.nats.tls.existingSecret }}
tls { cert_file: /etc/nats-tls/tls.crt, key_file: /etc/nats-tls/tls.key }
{{- end }}
{{- if include "sluice.nats.cluster" . }}
cluster {
  name: sluice
  port: 6222
  {{- if .Values.nats.existingSecret }}
  authorization { user: $NATS_USER, password: $NATS_PASSWORD }
  {{- end }}
  {{- if .Values.nats.tls.existingSecret }}
  tls { cert_file: /etc/nats-tls/tls.crt, key_file: /etc/nats-tls/tls.key, ca_file: /etc/nats-tls/ca.crt }
  {{- end }}
  routes: $NATS_ROUTES
}
{{- end }}
`

// webhookTemplates make one file. With a given certificate, the watchers need no rights to keep their own.
func webhookTemplates(documents []document) (map[string][]string, error) {
	var texts []string
	for _, d := range documents {
		condition := `include "sluice.webhook" .`
		switch d.kind {
		case "Service":
		case "MutatingWebhookConfiguration":
			e, err := edit(d)
			if err != nil {
				return nil, err
			}
			e.extend("metadata.annotations", ".Values.webhook.annotations | toYaml", ".Values.webhook.annotations")
			if d.text, err = e.result(); err != nil {
				return nil, err
			}
		default:
			condition = "and (" + condition + ") (not .Values.webhook.existingSecret)"
		}
		texts = append(texts, when(condition, d.text))
	}
	return map[string][]string{"webhook.yaml": texts}, nil
}
