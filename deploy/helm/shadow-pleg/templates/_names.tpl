{{- define "shadow-pleg.name" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{ .Values.fullnameOverride | default $full | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "shadow-pleg.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- define "shadow-pleg.account" -}}
{{- $ours := ternary (include "shadow-pleg.name" .) "default" .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default $ours }}
{{- end }}

{{- /* The name's label is the chart's whatever the objects are called: the job of the rules comes from it. */}}
{{- define "shadow-pleg.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "shadow-pleg.labels" -}}
{{ include "shadow-pleg.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: exporter
app.kubernetes.io/part-of: shadow-pleg
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Name, namespace and labels; more labels as the second of a list. */}}
{{- define "shadow-pleg.metadata" -}}
{{- $root := index . 0 -}}
{{- $more := index . 1 -}}
name: {{ include "shadow-pleg.name" $root }}
namespace: {{ $more.namespace | default (include "shadow-pleg.namespace" $root) }}
labels:
  {{- include "shadow-pleg.labels" $root | nindent 2 }}
  {{- with $more.labels }}{{ toYaml . | nindent 2 }}{{ end }}
{{- with $more.annotations }}
annotations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Where the runtime's socket is: the folder of the node that is mounted, where, and the variable. */}}
{{- define "shadow-pleg.runtime" -}}
{{- $usual := dict "containerd" "/run/containerd/containerd.sock" "crio" "/run/crio/crio.sock" "openshift" "/run/crio/crio.sock" "k3s" "/run/k3s/containerd/containerd.sock" "microk8s" "/var/snap/microk8s/common/run/containerd.sock" -}}
{{- $socket := .Values.socket | default (get $usual .Values.runtime) -}}
{{- if not $socket -}}
host: /run
mount: /host/run
env: {name: SHADOW_PLEG_HOST_ROOT, value: /host}
{{- else if eq (dir $socket) "/run" -}}
host: /run
mount: /host/run
env: {name: CONTAINER_RUNTIME_ENDPOINT, value: "unix:///host{{ $socket }}"}
{{- else -}}
host: {{ dir $socket }}
mount: {{ dir $socket }}
env: {name: CONTAINER_RUNTIME_ENDPOINT, value: "unix://{{ $socket }}"}
{{- end -}}
{{- end }}

{{- define "shadow-pleg.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry -}}
{{- with .Values.image -}}
{{- if not .repository }}
{{- fail "image.repository is empty, and no image is published under a name of its own: build it (docker build -f Containerfile ., or make image), push it, and set image.repository to where you pushed it, like registry.example.com/shadow-pleg" }}
{{- end -}}
{{ with $registry }}{{ . }}/{{ end }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- define "shadow-pleg.pullSecrets" -}}
{{- with concat .Values.global.imagePullSecrets .Values.imagePullSecrets | uniq }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- /* Which pods or services, where, and with what limits: of both monitors. */}}
{{- define "shadow-pleg.selection" -}}
{{- $root := index . 0 -}}
{{- $of := index . 1 -}}
selector:
  matchLabels:
    {{- include "shadow-pleg.selector" $root | nindent 4 }}
{{- if $of.namespace }}
namespaceSelector:
  matchNames: [{{ include "shadow-pleg.namespace" $root }}]
{{- end }}
{{- with $of.extraSpec }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* What a PodMonitor and a ServiceMonitor say alike; its values are the second of a list. */}}
{{- define "shadow-pleg.endpoint" -}}
{{- $root := index . 0 -}}
{{- $of := index . 1 -}}
- port: http
  path: {{ get $root.Values.flags "web.telemetry-path" | default "/metrics" }}
  interval: {{ $of.interval }}
  {{- with $of.scrapeTimeout | default $of.endpoint.scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  relabelings:
    # Rules join the exporter and the kubelet of a node by it.
    - sourceLabels: [__meta_kubernetes_pod_node_name]
      targetLabel: node
      action: replace
    {{- with $of.relabelings }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- $relabelings := $of.metricRelabelings | default $of.endpoint.metricRelabelings | default list }}
  {{- if $root.Values.compact }}
  {{- $drop := dict "action" "drop" "sourceLabels" (list "__name__") "regex" ($root.Files.Get "files/compact.txt" | trim) }}
  {{- $relabelings = prepend $relabelings $drop }}
  {{- end }}
  {{- with $relabelings }}
  metricRelabelings: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with omit $of.endpoint "scrapeTimeout" "metricRelabelings" }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}

{{- /* A copy of `make deploy` with the links, selectors and numbers of the values: JSON, because that knows
one way to quote. */}}
{{- define "shadow-pleg.rules" -}}
{{- $of := .Values.prometheusRule -}}
{{- $text := (.Files.Get "files/prometheusrule.yaml" | fromYaml).spec | toJson -}}
{{- range $from, $to := dict "job=\"shadow-pleg\"" $of.selectors.exporter "job=\"kubelet\"" $of.selectors.kubelet }}
{{- $text = replace ($from | toJson | trimPrefix "\"" | trimSuffix "\"") ($to | toJson | trimPrefix "\"" | trimSuffix "\"") $text }}
{{- end }}
{{- range $name, $chosen := mergeOverwrite (.Files.Get "files/rules-values.yaml" | fromYaml) $of.thresholds $of.losses $of.slo }}
{{- $text = replace (printf "chart__%s__" $name) (toString $chosen) $text }}
{{- end }}
{{- $groups := list }}
{{- range $group := ($text | fromJson).groups }}
{{- $rules := list }}
{{- range $rule := $group.rules }}
{{- if not (has ($rule.alert | default "") $of.leaveOut) }}
{{- if $rule.alert }}
{{- $notes := $rule.annotations }}
{{- $grade := get $of.alerts $rule.alert | default dict }}
{{- $rule = merge (omit $grade "severity") $rule }}
{{- with $grade.severity }}
{{- $_ := set $rule "labels" (dict "severity" .) }}
{{- end }}
{{- with $of.links.runbooks }}
{{- $_ := set $notes "runbook_url" (printf "%s/%s.md" (trimSuffix "/" .) $rule.alert) }}
{{- end }}
{{- if $of.links.dashboards }}
{{- $_ := set $notes "dashboard_url" (replace "https://grafana.placeholder" (trimSuffix "/" $of.links.dashboards) $notes.dashboard_url) }}
{{- else }}
{{- $_ := unset $notes "dashboard_url" }}
{{- end }}
{{- with merge ($rule.labels | default dict) $of.additionalRuleLabels }}
{{- $_ := set $rule "labels" . }}
{{- end }}
{{- $_ := set $rule "annotations" (merge $notes $of.additionalRuleAnnotations) }}
{{- end }}
{{- $rules = append $rules $rule }}
{{- end }}
{{- end }}
{{- if $rules }}
{{- $groups = append $groups (set $group "rules" $rules) }}
{{- end }}
{{- end }}
{{- dict "groups" (concat $groups $of.additionalGroups) | toYaml }}
{{- end }}
