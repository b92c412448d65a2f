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
env: {name: CONTAINER_RUNTIME_ENDPOINT, value: ""}
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

{{- /* A mount of the node, and what is mounted below it. Kubernetes has the second field since 1.30. */}}
{{- define "shadow-pleg.readOnly" -}}
readOnly: true
{{- if semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version }}
recursiveReadOnly: IfPossible
{{- end }}
{{- end }}

{{- /* The flags of `serve` that a filter has, too. */}}
{{- define "shadow-pleg.filterFlags" -}}
{{- range $flag, $value := pick .Values.flags "watchdog-timeout" "log.level" "log.format" }}
- {{ printf "--%s=%v" $flag $value | quote }}
{{- end }}
{{- end }}

{{- define "shadow-pleg.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry -}}
{{- with .Values.image -}}
{{- if not .repository }}
{{- fail "image.repository is empty, and no image is published under a name of its own: build it (docker build -f Containerfile .), push it, and set image.repository to where you pushed it, like registry.example.com/shadow-pleg" }}
{{- end -}}
{{ with $registry }}{{ . }}/{{ end }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- define "shadow-pleg.pullSecrets" -}}
{{- with concat .Values.global.imagePullSecrets .Values.imagePullSecrets | uniq }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- /* The rules with what the values say of them: JSON, because that knows one way to quote. */}}
{{- define "shadow-pleg.rules" -}}
{{- $of := .Values.prometheusRule -}}
{{- $file := .Files.Get "files/prometheusrule.yaml" | fromYaml -}}
{{- $text := pick $file "groups" | toJson -}}
{{- range $name, $_ := $of.thresholds }}
{{- if not (hasKey $file.thresholds $name) }}
{{- fail (printf "prometheusRule: there is no threshold %s, but %s" $name (keys $file.thresholds | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- $assumed := get (dict "replace" 2 "hint" 1 "ignore" 0) $of.kubelets }}
{{- range $name, $to := merge (dict "kubelets" $assumed) $of.severities $of.thresholds $file.thresholds }}
{{- $text = replace (printf "%%%s%%" $name) (toString $to) $text }}
{{- end }}
{{- range $from, $to := dict "job=\"shadow-pleg\"" $of.selectors.exporter "job=\"kubelet\"" $of.selectors.kubelet }}
{{- $text = replace ($from | toJson | trimPrefix "\"" | trimSuffix "\"") ($to | toJson | trimPrefix "\"" | trimSuffix "\"") $text }}
{{- end }}
{{- range concat $of.leaveOut (keys $of.alerts) }}
{{- if not (contains (printf "\"alert\":%q" .) $text) }}
{{- fail (printf "prometheusRule: there is no alert %s" .) }}
{{- end }}
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
{{- $_ := set $rule "labels" (dict "severity" (get $of.severities .)) }}
{{- end }}
{{- with $of.links.runbooks }}
{{- $_ := set $notes "runbook_url" (printf "%s/%s.md" (trimSuffix "/" .) $rule.alert) }}
{{- end }}
{{- with $of.links.dashboards }}
{{- $board := contains "$labels.node" $notes.description | ternary "node?var-cluster={{ $labels.cluster }}&var-node={{ $labels.node }}" "fleet?var-cluster={{ $labels.cluster }}" }}
{{- $_ := set $notes "dashboard_url" (printf "%s/d/shadow-pleg-%s" (trimSuffix "/" .) $board) }}
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
