{{- define "spade.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "spade.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "spade.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "spade.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "spade.selector" -}}
app.kubernetes.io/name: {{ include "spade.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "spade.labels" -}}
{{ include "spade.selector" . }}
app.kubernetes.io/part-of: spade
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Facts about the services that are no choice of the user's. `calls` are the services that it calls; `files` says that it
     mounts the volume; `kind` StatefulSet: there may never be two of it. */}}
{{- define "spade.services" -}}
memory:      {port: 7001, kind: StatefulSet, files: true, calls: []}
sandbox:     {port: 7002, kind: Deployment, files: false, calls: []}
learner:     {port: 7003, kind: StatefulSet, files: true, calls: []}
agent:       {port: 7004, kind: Deployment, files: true, calls: [sandbox]}
regret:      {port: 7005, kind: Deployment, files: false, calls: [agent]}
designer:    {port: 7006, kind: Deployment, files: true, calls: [agent, sandbox, memory]}
coordinator: {port: 7007, kind: StatefulSet, files: true, calls: [memory, sandbox, learner, agent, regret, designer]}
{{- end -}}

{{- define "spade.healthPort" -}}{{ add .port 100 }}{{- end -}}
{{- define "spade.metricsPort" -}}{{ add .port 2000 }}{{- end -}}

{{/* What a client calls: all pods of a service by one name. */}}
{{- define "spade.host" -}}
{{ include "spade.fullname" .root }}-{{ .service }}.{{ .root.Release.Namespace }}.svc
{{- end -}}

{{/* The names that a service's certificate proves: those of its Services, and this machine for who comes through a tunnel. */}}
{{- define "spade.hosts" -}}
{{- $root := .root -}}
{{- $hosts := list -}}
{{- range (eq .service "coordinator" | ternary (list "coordinator" "scaler") (list .service)) -}}
{{- $short := printf "%s-%s" (include "spade.fullname" $root) . -}}
{{- $hosts = concat $hosts (list $short (printf "%s.%s" $short $root.Release.Namespace) (printf "%s.%s.svc" $short $root.Release.Namespace) (printf "%s.%s.svc.cluster.local" $short $root.Release.Namespace)) -}}
{{- end -}}
{{- append $hosts "localhost" | toJson -}}
{{- end -}}

{{- define "spade.image" -}}
{{- $name := printf "%s-%s:%s" .root.Values.image.base .service (default .root.Chart.AppVersion .root.Values.image.tag) -}}
{{- default $name (get .root.Values.image.references .service) -}}
{{- end -}}

{{- define "spade.run" -}}{{ default .Release.Name .Values.run.name }}{{- end -}}

{{- define "spade.claim" -}}{{ default (printf "%s-runs" (include "spade.fullname" .)) .Values.storage.existingClaim }}{{- end -}}

{{/* Whose secret holds a service's certificate; `keda` is a client only. */}}
{{- define "spade.tlsSecret" -}}
{{- if eq .root.Values.tls.mode "secrets" -}}
{{- required (printf "tls.mode is secrets: tls.secrets.%s must name the secret with tls.crt, tls.key and ca.crt of the %s" .service .service) (get .root.Values.tls.secrets .service) -}}
{{- else -}}
{{ include "spade.fullname" .root }}-{{ .service }}-tls
{{- end -}}
{{- end -}}

{{/* The configuration that every service is given. */}}
{{- define "spade.config" -}}
{{- $services := fromYaml (include "spade.services" .) -}}
{{- $endpoints := dict -}}
{{- range $name, $fact := $services -}}
{{- $_ := set $endpoints $name (printf "dns:///%s:%v" (include "spade.host" (dict "root" $ "service" $name)) $fact.port) -}}
{{- end -}}
{{- $_ := set $endpoints "inference" $endpoints.agent -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "endpoints" $endpoints -}}
{{- $_ := set $config "tls" (eq .Values.tls.mode "off" | ternary (dict "mode" "off") (dict "mode" "mutual" "folder" "/srv/spade/tls")) -}}
{{- /* A sandbox's pod is what gVisor isolates, and it drains for as long as Kubernetes lets it. */ -}}
{{- $drain := max 0 (sub (int .Values.sandbox.terminationGracePeriodSeconds) 30) -}}
{{- $_ := set $config "sandbox" (merge (default dict $config.sandbox) (dict "runtime" "pod" "drain_seconds" $drain)) -}}
{{- if .Values.memory.urlSecret.name -}}
{{- $_ := set $config "memory" (merge (dict "url_file" "/srv/spade/database/url") (default dict $config.memory)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Combinations that cannot work are refused before anything is made. */}}
{{- define "spade.check" -}}
{{- if and (gt (int .Values.learner.replicas) 1) (ne (dig "learner" "engine" "torch" .Values.config) "deepspeed") -}}
{{- fail (printf "learner.replicas is %v: a learner of several pods needs config.learner.engine: deepspeed" .Values.learner.replicas) -}}
{{- end -}}
{{- if and (gt (int .Values.learner.processesPerPod) 1) (ne (dig "learner" "engine" "torch" .Values.config) "deepspeed") -}}
{{- fail "learner.processesPerPod above 1 needs config.learner.engine: deepspeed" -}}
{{- end -}}
{{- if and (eq .Values.autoscaling.mode "keda") (not (.Capabilities.APIVersions.Has "keda.sh/v1alpha1")) -}}
{{- fail "autoscaling.mode is keda, but this cluster has no keda.sh/v1alpha1: install KEDA first, or choose none or hpa" -}}
{{- end -}}
{{- range $what, $on := dict "podMonitor" .Values.observability.podMonitor.enabled "rules" .Values.observability.rules.enabled -}}
{{- if and $on (not ($.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
{{- fail (printf "observability.%s is enabled, but this cluster has no monitoring.coreos.com/v1: install the Prometheus operator first, or scrape by the annotations prometheus.io/scrape" $what) -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.tls.mode "certManager") (not (.Capabilities.APIVersions.Has "cert-manager.io/v1")) -}}
{{- fail "tls.mode is certManager, but this cluster has no cert-manager.io/v1: install cert-manager first, or choose generated" -}}
{{- end -}}
{{- if and (eq .Values.sandbox.backend "agent-sandbox") (not (.Capabilities.APIVersions.Has "extensions.agents.x-k8s.io/v1beta1")) -}}
{{- fail "sandbox.backend is agent-sandbox, but this cluster has no extensions.agents.x-k8s.io/v1beta1: install agent-sandbox first, or choose deployment" -}}
{{- end -}}
{{- if and (eq .Values.sandbox.backend "agent-sandbox") (ne .Values.autoscaling.mode "none") -}}
{{- fail "sandbox.backend agent-sandbox keeps its own pool: autoscaling.mode must be none" -}}
{{- end -}}
{{- range tuple "endpoints" "tls" -}}
{{- if hasKey $.Values.config . -}}
{{- fail (printf "config.%s is the chart's to set" .) -}}
{{- end -}}
{{- end -}}
{{- if not (regexMatch "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" (include "spade.run" .)) -}}
{{- fail (printf "run.name %q cannot name a run: 1 to 64 letters, digits, dots, hyphens and underscores" (include "spade.run" .)) -}}
{{- end -}}
{{- end -}}
