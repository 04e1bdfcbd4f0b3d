{{/* The name of a program's objects: that of the release for serve, with the program's name for the others. */}}
{{- define "rampart.name" -}}
{{- if eq .program "serve" }}{{ .root.Release.Name }}{{ else }}{{ .root.Release.Name }}-{{ .program }}{{ end -}}
{{- end }}

{{- define "rampart.metadata" -}}
name: {{ include "rampart.name" . }}
namespace: {{ .root.Release.Namespace }}
labels:
  app: {{ include "rampart.name" . }}
  app.kubernetes.io/name: rampart
  app.kubernetes.io/instance: {{ .root.Release.Name }}
  app.kubernetes.io/component: {{ .program }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "rampart.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ $tag }}{{ end }}
{{- end }}

{{/* An account whose pods get a token only where they ask for one. */}}
{{- define "rampart.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "rampart.metadata" . | nindent 2 }}
automountServiceAccountToken: false
{{- end }}

{{/* The configuration file of a program. */}}
{{- define "rampart.configuration" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "rampart.metadata" . | nindent 2 }}
data:
  {{ .file }}: |
    {{- toToml .values | nindent 4 }}
{{- end }}

{{/* The values of the keys that a program does not follow while it runs: docs/how-to/reload.md. */}}
{{- define "rampart.restartValues" -}}
{{- $keys := dict
  "serve" (list "TRUST_DOMAIN" "AUTHORITY_ROOT" "PROPAGATION_INTERVAL" "CRL" "JWT_ISSUER" "LOG_ORIGIN" "LOG_MODE"
    "LOG_INCEPTION_DATE" "LOG_INTERVAL" "LOG_SHARDS" "LOG_WITNESSES" "LOG_TILES"
    "LOG_READERS" "KEK_LEASE" "KEK" "STORE" "STORE_DIRECTORY" "STORE_NAMESPACE" "KUBERNETES_SERVER"
    "KUBERNETES_CA_FILE" "KUBERNETES_TOKEN_FILE" "STORE_BUCKET" "STORE_PREFIX"
    "S3_ENDPOINT" "S3_REGION" "S3_ADDRESSING" "S3_CA_FILE" "S3_CREDENTIALS_FILE" "LOG_STORE"
    "IMPORT_DIRECTORY" "PLAINTEXT_LISTEN" "LISTEN" "MONITORING_LISTEN" "DIAGNOSTIC_RPCS")
  "gateway" (list "TRUST_DOMAIN" "LISTEN" "MONITORING_LISTEN" "DIAGNOSTIC_RPCS"
    "DELIVER_ROOTS")
  "distribute" (list "MONITORING_LISTEN")
  "signer" (list "MONITORING_LISTEN") }}
{{- $values := dict }}
{{- range index $keys .program }}
{{- if hasKey $.values . }}{{ $_ := set $values . (get $.values .) }}{{ end }}
{{- end }}
{{- toToml $values }}
{{- end }}

{{/* The fast bounds of V8's heap where the limit of memory has room for them: docs/reference/limits.md. */}}
{{- define "rampart.heap" -}}
{{- $memory := dig "limits" "memory" "" (. | default dict) | toString }}
{{- $mebibytes := regexFind "^[0-9]+" $memory | int }}
{{- if or (regexMatch "^[1-9][0-9.]*[GT]i?$" $memory) (and (regexMatch "^[0-9]+Mi?$" $memory) (ge $mebibytes 512)) -}}
[{ name: NODE_OPTIONS, value: "--max-semi-space-size=16 --max-old-space-size=256" }]
{{- else -}}
[]
{{- end }}
{{- end }}

{{/*
A Deployment: of `strategy`, with `ports` beside the monitoring port, and with `volume`. Pods with `pauseSeconds`
wait so long before SIGTERM, and spread over nodes and zones.
*/}}
{{- define "rampart.deployment" -}}
{{- $settings := index .root.Values .program -}}
{{- $name := include "rampart.name" . -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "rampart.metadata" . | nindent 2 }}
spec:
  {{- if not (dig "autoscaling" "enabled" false $settings) }}
  replicas: {{ $settings.replicas | default 1 }}
  {{- end }}
  {{- with .strategy }}
  strategy: {{- toYaml . | nindent 4 }}
  {{- end }}
  selector:
    matchLabels: { app: {{ $name }} }
  template:
    metadata:
      labels: { app: {{ $name }} }
      annotations:
        {{- if not .root.Values.monitoring.serviceMonitor.enabled }}
        prometheus.io/scrape: "true"
        prometheus.io/port: "15014"
        {{- end }}
        sidecar.istio.io/inject: "false"
        # The programs read a changed configuration by themselves, but for these keys.
        checksum/restart-keys: {{ include "rampart.restartValues" . | sha256sum }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: {{ .callsApi | default false }}
      {{- with .graceSeconds }}
      terminationGracePeriodSeconds: {{ . }}
      {{- end }}
      {{- if .pauseSeconds }}
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels: { app: {{ $name }} }
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: { app: {{ $name }} }
      {{- end }}
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: { type: RuntimeDefault }
      containers:
        - name: {{ eq .program "serve" | ternary "rampart" .program }}
          image: {{ include "rampart.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: [{{ .program }}, --config, /etc/rampart/{{ .file }}]
          {{- with concat (include "rampart.heap" $settings.resources | fromYamlArray) (.environment | default list) $settings.environment }}
          env: {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            {{- range .ports }}
            - { name: {{ .name }}, containerPort: {{ .port }} }
            {{- end }}
            - { name: monitoring, containerPort: 15014 }
          {{- with .pauseSeconds }}
          lifecycle:
            # Endpoints and load balancers learn of the end before the port closes.
            preStop: { sleep: { seconds: {{ . }} } }
          {{- end }}
          readinessProbe:
            httpGet: { path: /readyz, port: monitoring }
            periodSeconds: 5
          livenessProbe:
            httpGet: { path: /healthz, port: monitoring }
            periodSeconds: 10
          resources: {{- toYaml $settings.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: { drop: [ALL] }
          volumeMounts:
            - { name: configuration, mountPath: /etc/rampart, readOnly: true }
            {{- with .values.CACHE }}
            - { name: cache, mountPath: {{ . }} }
            {{- end }}
            {{- with .mount }}
            - {{ toYaml . | nindent 14 | trim }}
            {{- end }}
      volumes:
        - name: configuration
          configMap: { name: {{ $name }} }
        {{- if .values.CACHE }}
        - { name: cache, emptyDir: { sizeLimit: 16Mi } }
        {{- end }}
        {{- with .volume }}
        - {{ toYaml . | nindent 10 | trim }}
        {{- end }}
{{- end }}

{{/* A Service with the ports of callers, and with the monitoring port where somebody asks for it. */}}
{{- define "rampart.service" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "rampart.metadata" . | nindent 2 }}
spec:
  selector: { app: {{ include "rampart.name" . }} }
  ports:
    {{- range .ports }}
    - { name: {{ .name }}, port: {{ .port }}, targetPort: {{ .name }}{{ with .protocol }}, appProtocol: {{ . }}{{ end }} }
    {{- end }}
    {{- if include "rampart.monitored" . }}
    - { name: monitoring, port: 15014, targetPort: monitoring }
    {{- end }}
{{- end }}

{{/* Whether Services have the monitoring port. A ServiceMonitor finds it there. */}}
{{- define "rampart.monitored" -}}
{{- with .root.Values.monitoring }}{{ if or .service .serviceMonitor.enabled }}true{{ end }}{{ end }}
{{- end }}

{{/* The token by which a program proves itself to the CA. */}}
{{- define "rampart.tokenVolume" -}}
name: token
projected:
  sources:
    - serviceAccountToken:
        path: istio-token
        audience: istio-ca
        expirationSeconds: 3600
{{- end }}

{{- define "rampart.tokenMount" -}}
{ name: token, mountPath: /var/run/secrets/tokens, readOnly: true }
{{- end }}

{{/* A ClusterRole of a program with `rules`, and its binding. */}}
{{- define "rampart.clusterRole" -}}
{{- $name := printf "%s%s" (include "rampart.name" .) (.suffix | default "") -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels: { app: {{ include "rampart.name" . }} }
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels: { app: {{ include "rampart.name" . }} }
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "rampart.name" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- define "rampart.rootRules" -}}
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ .CONFIG_MAP | default "istio-ca-root-cert" }}, istio-ca-crl]
  verbs: [list, watch, create, patch]
{{- end }}

{{/* The routes of the Gateway API to a program, and what scales it. */}}
{{- define "rampart.around" -}}
{{- $settings := index .root.Values .program }}
{{- $name := include "rampart.name" . }}
{{- range $kind, $port := dict "tls" 15012 "grpc" (int ($settings.plaintextPort | default 0)) }}
{{- $route := dig "routes" $kind (dict) $settings }}
{{- if $route.enabled }}
{{- $path := printf "%s.routes.%s" $.program $kind }}
{{- if not (and $route.parentRefs $route.hostnames) }}{{ fail (printf "%s: name parentRefs and hostnames" $path) }}{{ end }}
{{- if not $port }}{{ fail (printf "%s: takes %s.plaintextPort" $path $.program) }}{{ end }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: {{ upper $kind }}Route
metadata:
  {{- include "rampart.metadata" $ | nindent 2 }}
spec:
  parentRefs: {{- toYaml $route.parentRefs | nindent 4 }}
  hostnames: {{- toYaml $route.hostnames | nindent 4 }}
  rules:
    - backendRefs:
        - { name: {{ $name }}, port: {{ $port }} }
{{- end }}
{{- end }}
{{- $scale := dig "autoscaling" (dict) $settings }}
{{- if $scale.enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "rampart.metadata" $ | nindent 2 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ $name }} }
  minReplicas: {{ $scale.minReplicas | default 2 }}
  maxReplicas: {{ $scale.maxReplicas | default 4 }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: { type: Utilization, averageUtilization: {{ $scale.cpuPercent | default 70 }} }
{{- end }}
{{- end }}

{{/* The programs that are enabled, each with the ports of its callers, as a list. */}}
{{- define "rampart.enabled" -}}
{{- $values := .Values -}}
{{- $ports := dict
  "serve" (list (dict "name" "grpc-tls" "port" 15012))
  "gateway" (list (dict "name" "grpc-tls" "port" 15012))
  "distribute" list
  "signer" list -}}
{{- if $values.serve.plaintextPort }}
{{- $plaintext := dict "name" "plaintext" "port" $values.serve.plaintextPort }}
{{- $_ := set $ports "serve" (append (index $ports "serve") $plaintext) }}
{{- end }}
{{- $enabled := list }}
{{- range list "serve" "gateway" "distribute" "signer" }}
{{- if (index $values .).enabled }}
{{- $enabled = append $enabled (dict "program" . "ports" (index $ports .)) }}
{{- end }}
{{- end }}
{{- toJson (dict "programs" $enabled) }}
{{- end }}
