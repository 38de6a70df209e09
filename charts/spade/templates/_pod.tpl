{{/* The pod of a service, as a template's `metadata` and `spec`. Called with {root, service}. */}}
{{- define "spade.pod" -}}
{{- $root := .root -}}
{{- $service := .service -}}
{{- $fact := get (fromYaml (include "spade.services" $root)) $service -}}
{{- $own := get $root.Values $service -}}
{{- $values := mergeOverwrite (deepCopy $root.Values.defaults) $own -}}
{{- $learner := eq $service "learner" -}}
{{- $processes := $learner | ternary (max (int $own.gpus) (int $own.processesPerPod)) 1 -}}
metadata:
  labels:
    {{- include "spade.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $service }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    spade/configuration: {{ include "spade.config" $root | sha256sum | trunc 16 | quote }}
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ include "spade.metricsPort" $fact | quote }}
    {{- if and (eq $service "coordinator") (ne $root.Values.tls.mode "off") }}
    # Where `spade --context` finds the certificate that it shows.
    spade/client-secret: {{ include "spade.tlsSecret" (dict "root" $root "service" "client") }}
    {{- end }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "spade.fullname" $root }}-{{ $service }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with eq $service "sandbox" | ternary $root.Values.runtimeClass.name $values.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "spade.affinity" (dict "root" $root "fact" $fact "affinity" $values.affinity) }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with $values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: {{ $service }}
      image: {{ include "spade.image" . | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      {{- if gt (int $processes) 1 }}
      command:
        - /opt/spade/bin/python
        - -m
        - torch.distributed.run
        - --nnodes={{ $own.replicas }}
        - --node-rank=$(POD_INDEX)
        - --nproc-per-node={{ $processes }}
        - --master-addr=$(MASTER_ADDR)
        - --master-port=$(MASTER_PORT)
        - -m
        - spade_rl.learner
      {{- end }}
      args:
        - --config=/srv/spade/config/run.yaml
        {{- with $root.Values.run.preset }}
        - --preset={{ . }}
        {{- end }}
        - --run-dir=/srv/spade/runs/{{ include "spade.run" $root }}
        - --address=[::]:{{ $fact.port }}
        - --health-address=[::]:{{ include "spade.healthPort" $fact }}
        - --metrics-port={{ include "spade.metricsPort" $fact }}
        - --log-level={{ $root.Values.logLevel }}
      env:
        # Names are asked of the node's resolver, which knows the cluster's domain.
        - {name: GRPC_DNS_RESOLVER, value: native}
        # Threads of torch that wait must not keep others from their cores.
        - {name: OMP_WAIT_POLICY, value: PASSIVE}
        {{- if ne $service "sandbox" }}
        - {name: XDG_CACHE_HOME, value: /tmp/cache}
        {{- end }}
        {{- with $root.Values.observability.traces.endpoint }}
        {{- if ne $service "sandbox" }}
        - {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ . | quote }}}
        {{- end }}
        {{- end }}
        {{- if $fact.files }}
        - {name: HF_HOME, value: /srv/spade/runs/.huggingface}
        {{- end }}
        {{- if and $learner (or (gt (int $own.replicas) 1) (gt (int $processes) 1)) }}
        - {name: MASTER_ADDR, value: {{ printf "%s-learner-0.%s-learner-peers.%s.svc" (include "spade.fullname" $root) (include "spade.fullname" $root) $root.Release.Namespace }}}
        - {name: MASTER_PORT, value: "29500"}
        - name: {{ gt (int $processes) 1 | ternary "POD_INDEX" "RANK" }}
          valueFrom:
            fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}
        {{- if eq (int $processes) 1 }}
        - {name: WORLD_SIZE, value: {{ $own.replicas | quote }}}
        - {name: LOCAL_RANK, value: "0"}
        {{- end }}
        {{- end }}
        {{- with $values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: grpc, containerPort: {{ $fact.port }}}
        - {name: health, containerPort: {{ include "spade.healthPort" $fact }}}
        - {name: metrics, containerPort: {{ include "spade.metricsPort" $fact }}}
      startupProbe:
        grpc: {port: {{ include "spade.healthPort" $fact }}}
        {{- toYaml $values.probes.startup | nindent 8 }}
      readinessProbe:
        grpc: {port: {{ include "spade.healthPort" $fact }}}
        {{- toYaml $values.probes.readiness | nindent 8 }}
      livenessProbe:
        grpc: {port: {{ include "spade.healthPort" $fact }}}
        {{- toYaml $values.probes.liveness | nindent 8 }}
      resources:
        {{- $resources := deepCopy $values.resources }}
        {{- if gt (int $own.gpus) 0 }}
        {{- $_ := set $resources "limits" (merge (dict $own.gpuResource $own.gpus) (default dict $resources.limits)) }}
        {{- end }}
        {{- toYaml $resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: config, mountPath: /srv/spade/config, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if ne $root.Values.tls.mode "off" }}
        - {name: tls, mountPath: /srv/spade/tls, readOnly: true}
        {{- end }}
        {{- if $fact.files }}
        - {name: runs, mountPath: /srv/spade/runs}
        {{- end }}
        {{- if and (eq $service "memory") $root.Values.memory.urlSecret.name }}
        - {name: database, mountPath: /srv/spade/database, readOnly: true}
        {{- end }}
        {{- if and $learner (gt (int $processes) 1) }}
        - {name: shm, mountPath: /dev/shm}
        {{- end }}
        {{- with $values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "spade.fullname" $root }}-config}
    - name: tmp
      emptyDir: {}
    {{- if ne $root.Values.tls.mode "off" }}
    - name: tls
      secret:
        secretName: {{ include "spade.tlsSecret" . }}
        defaultMode: 0440
    {{- end }}
    {{- if $fact.files }}
    - name: runs
      persistentVolumeClaim: {claimName: {{ include "spade.claim" $root }}}
    {{- end }}
    {{- if and (eq $service "memory") $root.Values.memory.urlSecret.name }}
    - name: database
      secret:
        secretName: {{ $root.Values.memory.urlSecret.name }}
        defaultMode: 0440
        items: [{key: {{ $root.Values.memory.urlSecret.key }}, path: url}]
    {{- end }}
    {{- if and $learner (gt (int $processes) 1) }}
    # What processes of one pod exchange through shared memory.
    - name: shm
      emptyDir: {medium: Memory}
    {{- end }}
    {{- with $values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* The user's affinity; and on a volume that one node alone can mount, all pods that mount it on one node. */}}
{{- define "spade.affinity" -}}
{{- $affinity := deepCopy .affinity -}}
{{- if and .fact.files (eq .root.Values.storage.accessMode "ReadWriteOnce") -}}
{{- $sharers := list -}}
{{- range $name, $fact := fromYaml (include "spade.services" .root) -}}
{{- if $fact.files }}{{ $sharers = append $sharers $name }}{{ end -}}
{{- end -}}
{{- $selector := dict "matchLabels" (fromYaml (include "spade.selector" .root)) "matchExpressions" (list (dict "key" "app.kubernetes.io/component" "operator" "In" "values" $sharers)) -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" $selector -}}
{{- $pods := default dict $affinity.podAffinity -}}
{{- $_ := set $pods "requiredDuringSchedulingIgnoredDuringExecution" (append (default list $pods.requiredDuringSchedulingIgnoredDuringExecution) $term) -}}
{{- $_ := set $affinity "podAffinity" $pods -}}
{{- end -}}
{{- if $affinity }}{{ toYaml $affinity }}{{ end -}}
{{- end -}}
