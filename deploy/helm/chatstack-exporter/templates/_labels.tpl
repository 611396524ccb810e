{{- define "labels" -}}
app.kubernetes.io/name: chatstack-exporter
app.kubernetes.io/part-of: chatstack
{{- end -}}
{{- define "configName" -}}
chatstack-exporter-{{ required "config is empty: --set-file config=exporter.yaml" .Values.config | sha256sum | trunc 10 }}
{{- end -}}
