{{/* The image of the programs. */}}
{{- define "sluice.image" -}}
{{- with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}{{ end }}
{{- end }}

{{/* Whether the API server's policies hold workloads, and whether the webhook does. Empty means no. */}}
{{- define "sluice.policies" -}}{{ if ne .Values.admission "webhook" }}yes{{ end }}{{- end }}
{{- define "sluice.webhook" -}}{{ if ne .Values.admission "policies" }}yes{{ end }}{{- end }}

{{/* The addresses of NATS. */}}
{{- define "sluice.nats.url" -}}
{{- if not .Values.nats.embedded -}}
{{- required "nats.url is missing: with nats.embedded=false, give the addresses of your NATS servers" .Values.nats.url -}}
{{- else if .Values.nats.tls.existingSecret -}}tls://sluice-nats:4222
{{- else -}}nats://sluice-nats:4222
{{- end }}
{{- end }}

{{/* Whether three embedded servers run. Empty means no. */}}
{{- define "sluice.nats.cluster" -}}{{ if and .Values.nats.embedded (eq (int .Values.nats.replicas) 3) }}yes{{ end }}{{- end }}

{{/* The label of the embedded servers. */}}
{{- define "sluice.nats.name" -}}{{ if include "sluice.nats.cluster" . }}sluice-nats-cluster{{ else }}sluice-nats{{ end }}{{- end }}

{{/* The environment variables for NATS. */}}
{{- define "sluice.env.nats" -}}
- name: NATS_URL
  value: {{ include "sluice.nats.url" . }}
{{- include "sluice.env.credentials" . }}
{{- end }}

{{- define "sluice.env.credentials" -}}
{{- with .Values.nats.existingSecret }}
- name: NATS_USER
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: NATS_USER
- name: NATS_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: NATS_PASSWORD
{{- end }}
{{- end }}

{{/* The arguments of a program, in addition to those of its manifest. Takes the root context and the program. */}}
{{- define "sluice.args" -}}
{{- $program := last . }}
{{- with first . }}
{{- if ne .Values.clusterName "default" }}
- {{ printf "--cluster=%s" .Values.clusterName | quote }}
{{- end }}
{{- if eq (int .Values.nats.replicas) 3 }}
- --nats-replicas=3
{{- end }}
{{- if .Values.nats.tls.existingSecret }}
- --nats-ca=/etc/sluice/nats-tls/ca.crt
{{- end }}
{{- if eq $program "watcher" }}
{{- if include "sluice.webhook" . }}
- --webhook-addr=:9443
{{- if .Values.webhook.existingSecret }}
- --webhook-cert-dir=/etc/sluice/webhook
{{- end }}
{{- end }}
{{- if .Values.receiver.enabled }}
- --approval-listen=:8443
{{- if .Values.receiver.plainHTTP }}
- --approval-plain-http
{{- else }}
- --approval-tls-cert=/etc/sluice/receiver/tls.crt
- --approval-tls-key=/etc/sluice/receiver/tls.key
{{- end }}
{{- range .Values.receiver.audiences }}
- {{ printf "--approval-audience=%s" . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if eq $program "analyzer" }}
{{- with .Values.analyzer.metricHosts }}
- {{ printf "--metric-hosts=%s" (join "," .) | quote }}
{{- end }}
{{- end }}
{{- range (get .Values $program).extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The ports of a program, in addition to those of its manifest. */}}
{{- define "sluice.ports" -}}
{{- $program := last . }}
{{- with first . }}
{{- if eq $program "watcher" }}
{{- if include "sluice.webhook" . }}
- name: webhook
  containerPort: 9443
{{- end }}
{{- if .Values.receiver.enabled }}
- name: receiver
  containerPort: 8443
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The Secrets that a program mounts at /etc/sluice/NAME, as NAME=SECRET lines. */}}
{{- define "sluice.mounts" -}}
{{- $program := last . }}
{{- with first . }}
{{- with .Values.nats.tls.existingSecret }}
nats-tls={{ . }}
{{- end }}
{{- if eq $program "watcher" }}
{{- if and (include "sluice.webhook" .) .Values.webhook.existingSecret }}
webhook={{ .Values.webhook.existingSecret }}
{{- end }}
{{- if and .Values.receiver.enabled (not .Values.receiver.plainHTTP) }}
receiver={{ required "receiver.existingSecret is missing: name a Secret with tls.crt and tls.key, or set receiver.plainHTTP=true behind a proxy that has the certificate" .Values.receiver.existingSecret }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "sluice.volumeMounts" -}}
{{- range splitList "\n" (include "sluice.mounts" . | trim) }}
{{- if . }}
{{- $name := splitList "=" . | first }}
- name: {{ $name }}
  mountPath: /etc/sluice/{{ $name }}
  readOnly: true
{{- end }}
{{- end }}
{{- with (get (first .).Values (last .)).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sluice.volumes" -}}
{{- $nats := (first .).Values.nats.tls.existingSecret }}
{{- range splitList "\n" (include "sluice.mounts" . | trim) }}
{{- if . }}
{{- $name := splitList "=" . | first }}
- name: {{ $name }}
  secret:
    secretName: {{ splitList "=" . | last }}
    {{- if eq $name "nats-tls" }}
    items:
    - key: ca.crt
      path: ca.crt
    {{- end }}
{{- end }}
{{- end }}
{{- with (get (first .).Values (last .)).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where pods run. Takes the root context and the values of the workload. */}}
{{- define "sluice.scheduling" -}}
{{- $root := first . }}
{{- with last . }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
{{ toYaml . }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .topologySpreadConstraints }}
topologySpreadConstraints:
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}
