{{- define "gradwire.labels" -}}
app.kubernetes.io/name: gradwire
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: {{ .root.Release.Name }}
{{- end }}

{{- /* One replica type: .root, .kind, .component, .replicas, .of (its values), .reads (data), .writes (output directory), .logs */}}
{{- define "gradwire.replica" -}}
{{- $v := .root.Values -}}
{{- $args := list -}}
{{- if .logs }}{{ $args = append $args "--logs=/logs" }}{{ end -}}
{{- if eq .kind "PS" }}{{ $args = append $args "--grace_s=60" }}{{ end -}}
{{- if $v.http.enabled }}{{ $args = append $args "--http_port=8080" }}{{ end -}}
replicas: {{ .replicas }}
restartPolicy: ExitCode
template:
  metadata:
    labels:
      {{- include "gradwire.labels" . | nindent 6 }}
      sidecar.istio.io/inject: "false"
    annotations:
      sidecar.istio.io/inject: "false"
      {{- if eq .kind "PS" }}
      cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
      {{- end }}
      {{- if $v.http.enabled }}
      prometheus.io/scrape: "true"
      prometheus.io/port: "8080"
      prometheus.io/path: /metrics
      {{- end }}
      {{- with $v.tls.secretName }}
      gradwire/by-hand: Secret/{{ . }}
      {{- end }}
  spec:
    automountServiceAccountToken: false
    enableServiceLinks: false
    terminationGracePeriodSeconds: {{ $v.grace }}
    securityContext:
      runAsNonRoot: true
      runAsUser: 65532
      runAsGroup: 65532
      fsGroup: 65532
      fsGroupChangePolicy: OnRootMismatch
      seccompProfile: {type: RuntimeDefault}
    {{- with .of.pod }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    containers:
      - name: tensorflow # the operator sets TF_CONFIG on the container of this name
        image: {{ $v.image }}
        imagePullPolicy: IfNotPresent
        args: {{ concat $args $v.args | default list | toJson }}
        ports:
          - {name: tfjob-port, containerPort: 2222}
          {{- if $v.http.enabled }}
          - {name: metrics, containerPort: 8080}
        startupProbe: {httpGet: {path: /healthz, port: metrics}, periodSeconds: 1, failureThreshold: 60}
        livenessProbe: {httpGet: {path: /healthz, port: metrics}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6}
        readinessProbe: {httpGet: {path: /readyz, port: metrics}, periodSeconds: 2}
          {{- end }}
        resources: {{ toJson .of.resources }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
        volumeMounts:
          - {name: job, mountPath: /etc/gradwire, readOnly: true}
          - {name: token, mountPath: /run/secrets/gradwire, readOnly: true}
          - {name: tmp, mountPath: /tmp}
          {{- if .reads }}
          - {name: data, mountPath: /data, readOnly: true}
          {{- end }}
          - {name: output, mountPath: /output}
          {{- if .logs }}
          - {name: logs, mountPath: /logs}
          {{- end }}
          {{- if $v.tls.secretName }}
          - {name: tls, mountPath: /run/secrets/gradwire-tls, readOnly: true}
          {{- end }}
    volumes:
      - {name: job, configMap: {name: {{ $v.prefix }}-job}}
      - {name: token, secret: {secretName: {{ $v.prefix }}-token, optional: {{ not $v.token.required }}, defaultMode: 0440}}
      - {name: tmp, emptyDir: {sizeLimit: 64Mi}}
      {{- if .reads }}
      - {name: data, persistentVolumeClaim: {claimName: {{ $v.prefix }}-data, readOnly: true}}
      {{- end }}
      {{- if .writes }}
      - {name: output, persistentVolumeClaim: {claimName: {{ $v.prefix }}-output}}
      {{- else }}
      - {name: output, emptyDir: {sizeLimit: 1Gi}}
      {{- end }}
      {{- if .logs }}
      - {name: logs, persistentVolumeClaim: {claimName: {{ $v.prefix }}-logs}}
      {{- end }}
      {{- with $v.tls.secretName }}
      - {name: tls, secret: {secretName: {{ . }}, defaultMode: 0440}}
      {{- end }}
{{- end }}
