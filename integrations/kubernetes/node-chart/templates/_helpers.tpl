{{/* What each container may do: SYS_PTRACE reads the memory of other users' processes, and nothing else is needed. */}}
{{- define "granary-node.rights" -}}
securityContext:
  runAsUser: 0
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  seccompProfile:
    type: RuntimeDefault
  capabilities:
    drop: ["ALL"]
    add: ["SYS_PTRACE"]
{{- end }}

{{- define "granary-node.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
