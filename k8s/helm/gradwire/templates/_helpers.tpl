{{- /* The name before -job, -output, -token: the release's, unless the value says another. */}}
{{- define "gradwire.prefix" -}}
{{ .Values.prefix | default .Release.Name }}
{{- end }}

{{- /* A claim's name: .root, .claim (data, output, logs). */}}
{{- define "gradwire.claim" -}}
{{ (get .root.Values.claims .claim).name | default (printf "%s-%s" (include "gradwire.prefix" .root) .claim) }}
{{- end }}

{{- /* "true" if a claim is mounted. create: true creates it, false expects it; null, for data and logs: there is none. */}}
{{- define "gradwire.has" -}}
{{- if kindIs "bool" (get .root.Values.claims .claim).create }}true{{ end }}
{{- end }}

{{- /* "true" if pods of several nodes can write to a claim: .root, .claim */}}
{{- define "gradwire.shared" -}}
{{- if has "ReadWriteMany" (get .root.Values.claims .claim).accessModes }}true{{ end }}
{{- end }}

{{- /* The directory of TensorBoard's files. */}}
{{- define "gradwire.logs" -}}
{{- ternary "/logs" "/output/logs" (eq (include "gradwire.logs-claim" .) "logs") }}
{{- end }}

{{- /* Two maps as one, in YAML: .ours, .theirs. A key of both is refused: .value names the value that has it. */}}
{{- define "gradwire.joined" -}}
{{- range $key, $_ := .theirs }}
{{- if hasKey $.ours $key }}{{ fail (printf "%s: %s is set by the chart or by a value for all objects: choose another key" $.value $key) }}{{ end }}
{{- end }}
{{- toYaml (merge (deepCopy .ours) .theirs) }}
{{- end }}

{{- /* labels and annotations of an object or a pod: .root, .component, .app if it is no process of the job, and, for this object, .labels and .annotations (the
chart's), .moreLabels and .moreAnnotations (from the values), .value (the value that has them) */}}
{{- define "gradwire.metadata" -}}
{{- $name := .root.Release.Name -}}
{{- $labels := merge (dict "app.kubernetes.io/name" (.app | default "gradwire") "app.kubernetes.io/instance" $name
    "app.kubernetes.io/component" .component "app.kubernetes.io/part-of" $name) (.labels | default dict) -}}
{{- $annotations := .annotations | default dict -}}
{{- $labels = include "gradwire.joined" (dict "ours" $labels "theirs" .root.Values.labels "value" "labels") | fromYaml -}}
{{- $annotations = include "gradwire.joined" (dict "ours" $annotations "theirs" .root.Values.annotations "value" "annotations") | fromYaml -}}
labels:
  {{- include "gradwire.joined" (dict "ours" $labels "theirs" (.moreLabels | default dict) "value" (printf "%s.labels" .value)) | nindent 2 }}
{{- with include "gradwire.joined" (dict "ours" $annotations "theirs" (.moreAnnotations | default dict) "value" (printf "%s.annotations" .value)) | fromYaml }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The value `pod` of all roles with that of one: .all, .own. Maps are merged, the role's keys win; lists are joined. */}}
{{- define "gradwire.pod" -}}
{{- $pod := mergeOverwrite (deepCopy .all) (deepCopy .own) -}}
{{- range $key := list "tolerations" "topologySpreadConstraints" "imagePullSecrets" "env" "volumes" "volumeMounts" }}
{{- with concat (get $.all $key | default list) (get $.own $key | default list) }}{{ $_ := set $pod $key . }}{{ end }}
{{- end }}
{{- toYaml $pod }}
{{- end }}

{{- /* Pod Security level "restricted". Under OpenShift the cluster chooses user, group and fsGroup. */}}
{{- define "gradwire.security" -}}
runAsNonRoot: true
{{- if not .Values.openshift }}
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* The claim with TensorBoard's files */}}
{{- define "gradwire.logs-claim" -}}
{{- if include "gradwire.has" (dict "root" . "claim" "logs") }}logs{{ else }}output{{ end }}
{{- end }}

{{- /* The components that mount a claim which only one node can write, as a list in JSON */}}
{{- define "gradwire.together" -}}
{{- $components := list -}}
{{- $logs := include "gradwire.logs-claim" . -}}
{{- $shared := include "gradwire.shared" (dict "root" . "claim" $logs) -}}
{{- if and .Values.evaluator.replicas (not (and $shared (include "gradwire.shared" (dict "root" . "claim" "output")))) -}}
{{- $components = append $components "evaluator" -}}
{{- end -}}
{{- if and .Values.tensorboard.enabled (not $shared) -}}{{ $components = append $components "tensorboard" }}{{ end -}}
{{- if $components -}}{{ $components = prepend $components "chief" }}{{ end -}}
{{ toJson $components }}
{{- end }}

{{- /* Adds the affinity of a component to .pod, in place: .root, .component. Each of these pods selects all of them, itself too,
so the first one can run anywhere, and the others follow it. */}}
{{- define "gradwire.place" -}}
{{- $together := include "gradwire.together" .root | fromJsonArray }}
{{- $affinity := .pod.affinity | default dict }}
{{- if and (has .component $together) (not (hasKey $affinity "podAffinity")) }}
{{- $selector := dict "matchLabels" (dict "app.kubernetes.io/instance" .root.Release.Name)
    "matchExpressions" (list (dict "key" "app.kubernetes.io/component" "operator" "In" "values" $together)) }}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" $selector }}
{{- $_ := set .pod "affinity" (merge (dict "podAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term))) $affinity) }}
{{- end }}
{{- end }}

{{- /* What becomes of the values .pod (gradwire.pod) in a pod's spec */}}
{{- define "gradwire.placed" -}}
{{- with omit .pod "labels" "annotations" "env" "volumes" "volumeMounts" }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- /* Refuses volumes of the values with a name of the chart's: .pod, .value */}}
{{- define "gradwire.volumes-known" -}}
{{- range .pod.volumes }}
{{- if has .name (list "job" "token" "tls" "tmp" "data" "output" "logs") }}
{{- fail (printf "%s.volumes: the name %q is the chart's: choose another name" $.value .name) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* timeouts.grace_s, which SIGKILL must not interrupt: three quarters of `grace` */}}
{{- define "gradwire.grace_s" -}}
{{- max 1 (div (mul 3 (int .Values.grace)) 4) }}
{{- end }}

{{- /* The arguments of a role, as a list in JSON: .root, .kind, .logs */}}
{{- define "gradwire.args" -}}
{{- $v := .root.Values -}}
{{- $args := list (ternary "--auth=required" "--auth=none" (or $v.token.required (ne $v.tls.secretName ""))) -}}
{{- if $v.http.enabled }}{{ $args = append $args "--http_port=8080" }}{{ end -}}
{{- if .logs }}{{ $args = append $args (printf "--logs=%s" (include "gradwire.logs" .root)) }}{{ end -}}
{{- if eq .kind "PS" }}{{ $args = append $args (printf "--grace_s=%d" (int $v.grace)) }}{{ end -}}
{{- $grace := include "gradwire.grace_s" .root -}}
{{- $timeouts := ($v.jobFile | fromYaml).timeouts -}}
{{- if ne $grace (toString (get (ternary $timeouts dict (kindIs "map" $timeouts)) "grace_s")) }}
{{- $args = append $args (printf "--set=timeouts.grace_s=%s" $grace) }}
{{- end -}}
{{ concat $args $v.args | toJson }}
{{- end }}

{{- /* One replica type: .root, .kind, .component, .replicas, .of (its values), .reads (data), .writes (the claim `output`), .logs */}}
{{- define "gradwire.replica" -}}
{{- $v := .root.Values -}}
{{- $pod := include "gradwire.pod" (dict "all" $v.pod "own" .of.pod) | fromYaml -}}
{{- $value := printf "%s.pod" .component -}}
{{- include "gradwire.volumes-known" (dict "pod" $pod "value" $value) -}}
{{- $annotations := dict "sidecar.istio.io/inject" "false" -}}
{{- if eq .kind "PS" }}{{ $_ := set $annotations "cluster-autoscaler.kubernetes.io/safe-to-evict" "false" }}{{ end -}}
{{- with $v.tls.secretName }}{{ $_ := set $annotations "gradwire/by-hand" (printf "Secret/%s" .) }}{{ end -}}
{{- include "gradwire.place" (dict "root" .root "component" .component "pod" $pod) -}}
{{- $reads := and .reads (include "gradwire.has" (dict "root" .root "claim" "data")) -}}
{{- $logs := and .logs (include "gradwire.has" (dict "root" .root "claim" "logs")) -}}
replicas: {{ .replicas }}
restartPolicy: ExitCode
template:
  metadata:
    {{- include "gradwire.metadata" (dict "root" .root "component" .component "labels" (dict "sidecar.istio.io/inject" "false")
        "annotations" $annotations "moreLabels" $pod.labels "moreAnnotations" $pod.annotations "value" $value) | nindent 4 }}
  spec:
    automountServiceAccountToken: false
    enableServiceLinks: false
    terminationGracePeriodSeconds: {{ $v.grace }}
    securityContext:
      {{- include "gradwire.security" .root | nindent 6 }}
    {{- with include "gradwire.placed" (dict "pod" $pod) }}
    {{- . | nindent 4 }}
    {{- end }}
    containers:
      - name: tensorflow # the operator sets TF_CONFIG on the container of this name
        image: {{ $v.image }}
        imagePullPolicy: IfNotPresent
        args: {{ include "gradwire.args" . }}
        {{- with $pod.env }}
        env:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        ports:
          - {name: tfjob-port, containerPort: 2222}
          {{- if $v.http.enabled }}
          - {name: metrics, containerPort: 8080}
          {{- end }}
        {{- if $v.http.enabled }}
        startupProbe: {httpGet: {path: /healthz, port: metrics}, periodSeconds: 1, failureThreshold: 60}
        livenessProbe: {httpGet: {path: /healthz, port: metrics}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6}
        readinessProbe: {httpGet: {path: /readyz, port: metrics}, periodSeconds: 2}
        {{- else if or (eq .kind "Chief") (eq .kind "PS") }}{{- /* the roles that listen */}}
        readinessProbe: {tcpSocket: {port: tfjob-port}, periodSeconds: 2}
        {{- end }}
        resources: {{ toJson .of.resources }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
        volumeMounts:
          - {name: job, mountPath: /etc/gradwire, readOnly: true}
          - {name: tmp, mountPath: /tmp}
          - {name: output, mountPath: /output}
          {{- if .reads }}
          - {name: data, mountPath: /data, readOnly: true}
          {{- end }}
          {{- if $logs }}
          - {name: logs, mountPath: /logs}
          {{- end }}
          {{- if $v.token.required }}
          - {name: token, mountPath: /run/secrets/gradwire, readOnly: true}
          {{- end }}
          {{- if $v.tls.secretName }}
          - {name: tls, mountPath: /run/secrets/gradwire-tls, readOnly: true}
          {{- end }}
          {{- with $pod.volumeMounts }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
    volumes:
      - {name: job, configMap: {name: {{ include "gradwire.prefix" .root }}-job}}
      - {name: tmp, emptyDir: {sizeLimit: 64Mi}}
      {{- if .writes }}
      - {name: output, persistentVolumeClaim: {claimName: {{ include "gradwire.claim" (dict "root" .root "claim" "output") }}}}
      {{- else }}
      - {name: output, emptyDir: {sizeLimit: 1Gi}}
      {{- end }}
      {{- if $reads }}
      - {name: data, persistentVolumeClaim: {claimName: {{ include "gradwire.claim" (dict "root" .root "claim" "data") }}, readOnly: true}}
      {{- else if .reads }}
      - {name: data, emptyDir: {sizeLimit: 1Gi}}
      {{- end }}
      {{- if $logs }}
      - {name: logs, persistentVolumeClaim: {claimName: {{ include "gradwire.claim" (dict "root" .root "claim" "logs") }}}}
      {{- end }}
      {{- if $v.token.required }}
      - {name: token, secret: {secretName: {{ include "gradwire.prefix" .root }}-token, defaultMode: 0440}}
      {{- end }}
      {{- with $v.tls.secretName }}
      - {name: tls, secret: {secretName: {{ . }}, defaultMode: 0440}}
      {{- end }}
      {{- with $pod.volumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end }}
