{{- define "shadow-pleg.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

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
{{- end }}

{{- define "shadow-pleg.socket" -}}
{{- $usual := dict "containerd" "/run/containerd/containerd.sock" "crio" "/run/crio/crio.sock" "openshift" "/run/crio/crio.sock" "k3s" "/run/k3s/containerd/containerd.sock" -}}
{{ .Values.socket | default (get $usual .Values.runtime) }}
{{- end }}

{{- define "shadow-pleg.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}
