#!/usr/bin/env python3
"""Each rule of rules.py passes a good manifest, and refuses one that breaks it, in the words that stand here."""
import copy
import pathlib
import sys
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not there")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import rules  # noqa: E402

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

GOOD = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: ctr, labels: {app.kubernetes.io/name: gradwire}}
spec:
  runPolicy:
    cleanPodPolicy: Running
    activeDeadlineSeconds: 60
    ttlSecondsAfterFinished: 60
    backoffLimit: 1
    schedulingPolicy: {minAvailable: 4}
  successPolicy: ""
  tfReplicaSpecs:
    Chief: &replica
      replicas: 1
      restartPolicy: ExitCode
      template: &template
        metadata: {labels: {app.kubernetes.io/component: ps, sidecar.istio.io/inject: "false"}, annotations: {sidecar.istio.io/inject: "false", gradwire/by-admin: PriorityClass/high}}
        spec:
          automountServiceAccountToken: false
          terminationGracePeriodSeconds: 60
          priorityClassName: high
          securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
          topologySpreadConstraints:
            - {maxSkew: 1, topologyKey: x, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {training.kubeflow.org/job-name: ctr}}}
          containers:
            - name: tensorflow
              image: registry:5000/gradwire:0.1.0
              ports: [{name: tfjob-port, containerPort: 2222}, {name: metrics, containerPort: 8080}]
              readinessProbe: {httpGet: {path: /readyz, port: metrics}}
              startupProbe: &live {httpGet: {path: /healthz, port: 8080}}
              livenessProbe: *live
              resources: {requests: {cpu: 500m, memory: 1Gi, ephemeral-storage: 1Mi}, limits: {cpu: "1", memory: 1Gi, ephemeral-storage: 2Gi}}
              securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
              volumeMounts: [{name: job, mountPath: /j}, {name: key, mountPath: /k}, {name: tmp, mountPath: /t}, {name: out, mountPath: /o}]
          volumes:
            - {name: job, configMap: {name: job}}
            - {name: key, secret: {secretName: key}}
            - {name: tmp, emptyDir: {sizeLimit: 2Gi}}
            - {name: out, persistentVolumeClaim: {claimName: out}}
    PS: {replicas: 2, restartPolicy: ExitCode, template: *template}
    Worker: {replicas: 1, restartPolicy: ExitCode, template: *template}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: job, labels: {app.kubernetes.io/name: gradwire}}
data: {job.yaml: "timeouts: {grace_s: 45}"}
---
apiVersion: v1
kind: Secret
metadata: {name: key, labels: {app.kubernetes.io/name: gradwire}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: out, labels: {app.kubernetes.io/name: gradwire, gradwire/keep: "true"}}
spec: {accessModes: [ReadWriteMany]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: one, labels: {app.kubernetes.io/name: gradwire, gradwire/keep: "true"}}
spec: {accessModes: [ReadWriteOnce]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: ps, labels: {app.kubernetes.io/name: gradwire}}
spec: {minAvailable: 2, selector: {matchLabels: {training.kubeflow.org/replica-type: ps}}}
---
apiVersion: v1
kind: Service
metadata: {name: front, labels: {app.kubernetes.io/name: gradwire}}
spec: {selector: {training.kubeflow.org/job-name: ctr}, ports: [{port: 80, targetPort: metrics}]}
---
apiVersion: v1
kind: Service
metadata: {name: other, labels: {app.kubernetes.io/name: gradwire}}
spec: {clusterIP: None, selector: {app: other}, ports: [{port: 2222}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: walls, labels: {app.kubernetes.io/name: gradwire}}
spec:
  policyTypes: [Ingress]
  podSelector: {matchLabels: {training.kubeflow.org/job-name: ctr}}
  ingress: [{from: [{podSelector: {matchLabels: {training.kubeflow.org/job-name: ctr}}}], ports: [{port: 2222}]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: way, labels: {app.kubernetes.io/name: gradwire}}
spec:
  policyTypes: [Egress]
  podSelector: {}
  egress:
    - to: [{podSelector: {}}]
      ports: [{port: 2222}]
    - to: [{ipBlock: {cidr: 169.254.20.10/32}}, {ipBlock: {cidr: 169.254.169.254/32}}]
      ports: [{protocol: UDP, port: 53}, {port: 53}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: out, labels: {app.kubernetes.io/name: gradwire}}
spec: {policyTypes: [Egress], podSelector: {matchLabels: {app.kubernetes.io/component: nightly}}, egress: [{}]}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: watch, labels: {app.kubernetes.io/name: gradwire}}
spec: {selector: {matchLabels: {training.kubeflow.org/job-name: ctr}}, podMetricsEndpoints: [{port: metrics}]}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: see, labels: {app.kubernetes.io/name: gradwire}}
spec: {selector: {matchLabels: {training.kubeflow.org/replica-type: ps}}, endpoints: [{port: metrics, path: /metrics}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scale, labels: {app.kubernetes.io/name: gradwire}}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: other}, maxReplicas: 10}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: set, labels: {app.kubernetes.io/name: gradwire}}
spec:
  successPolicy: {operator: All, targetReplicatedJobs: [worker]}
  replicatedJobs:
    - name: worker
      template:
        spec:
          completionMode: Indexed
          template:
            metadata: {labels: {sidecar.istio.io/inject: "false"}, annotations: {sidecar.istio.io/inject: "false"}}
            spec:
              automountServiceAccountToken: false
              terminationGracePeriodSeconds: 61
              securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
              containers:
                - name: any
                  image: registry:5000/gradwire:0.1.1
                  startupProbe: {tcpSocket: {port: 2222}}
                  livenessProbe: {tcpSocket: {port: 2222}}
                  readinessProbe: {tcpSocket: {port: 2222}}
                  resources: {requests: {cpu: 1, memory: 600M, ephemeral-storage: 1G}, limits: {cpu: 1, memory: 1Gi, ephemeral-storage: 1G}}
                  securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: other, labels: {app.kubernetes.io/name: gradwire}}
spec:
  serviceName: other
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: other}}
  template:
    metadata: {labels: {app: other, sidecar.istio.io/inject: "false"}, annotations: {sidecar.istio.io/inject: "false"}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 60
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: any
          startupProbe: {tcpSocket: {port: 2222}}
          livenessProbe: {tcpSocket: {port: 2222}}
          readinessProbe: {tcpSocket: {port: 2222}}
          image: registry:5000/gradwire@sha256:0000000000000000000000000000000000000000000000000000000000000000
          ports: [{containerPort: 2222}]
          resources: {requests: {cpu: 1, memory: 500M, ephemeral-storage: 1G}, limits: {cpu: 1, memory: 1Gi, ephemeral-storage: 1G}}
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: creator, labels: {app.kubernetes.io/name: gradwire}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: making, labels: {app.kubernetes.io/name: gradwire}}
rules: [{apiGroups: [kubeflow.org], resources: [tfjobs], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: may, labels: {app.kubernetes.io/name: gradwire}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: making}
subjects: [{kind: ServiceAccount, name: creator}]
---
apiVersion: v1
kind: Service
metadata: {name: ranks, labels: {app.kubernetes.io/name: gradwire}}
spec: {clusterIP: None, selector: {app: rank}, ports: [{port: 2222}]}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: gang, labels: {app.kubernetes.io/name: gradwire}}
spec: {minMember: 3}
---
apiVersion: batch/v1
kind: Job
metadata: {name: ranks, labels: {app.kubernetes.io/name: gradwire}}
spec:
  completionMode: Indexed
  parallelism: 3
  podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [1]}}]}
  template:
    metadata: {labels: {app: rank, sidecar.istio.io/inject: "false"}, annotations: {scheduling.k8s.io/group-name: gang, sidecar.istio.io/inject: "false"}}
    spec:
      schedulerName: volcano
      volumes: [{name: one, persistentVolumeClaim: {claimName: one}}]
      affinity:
        podAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: rank}}}
      subdomain: ranks
      restartPolicy: Never
      imagePullSecrets: [{name: key}]
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 60
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: any
          image: registry:5000/gradwire:0.1.0
          startupProbe: {tcpSocket: {port: 2222}}
          livenessProbe: {tcpSocket: {port: 2222}}
          readinessProbe: {tcpSocket: {port: 2222}}
          ports: [{containerPort: 2222}]
          volumeMounts: [{name: one, mountPath: /o}]
          env:
            - {name: KEY, valueFrom: {secretKeyRef: {name: key, key: token}}}
            - {name: FILE, valueFrom: {configMapKeyRef: {name: job, key: job.yaml}}}
          resources: {requests: {cpu: 1, memory: 500M, ephemeral-storage: 1G}, limits: {cpu: 1, memory: 1Gi, ephemeral-storage: 1G}}
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, labels: {app.kubernetes.io/name: gradwire}}
spec:
  schedule: 0 1 * * *
  timeZone: Europe/Zurich
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 60
  successfulJobsHistoryLimit: 1
  failedJobsHistoryLimit: 1
  jobTemplate:
    spec:
      activeDeadlineSeconds: 61
      template:
        metadata: {labels: {app.kubernetes.io/component: nightly, sidecar.istio.io/inject: "false"}, annotations: {sidecar.istio.io/inject: "false"}}
        spec:
          restartPolicy: OnFailure
          serviceAccountName: creator
          terminationGracePeriodSeconds: 60
          securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
          containers:
            - name: any
              image: registry:5000/gradwire:0.1.0
              resources: {requests: {cpu: 1, memory: 500M, ephemeral-storage: 1G}, limits: {cpu: 1, memory: 1Gi, ephemeral-storage: 1G}}
              securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
"""

# rule, text of GOOD (the only or the first such text), the text that replaces it, a part of the error
BAD = (
    (rules.replica_types, "    PS:", "    Parameter:", "TFJob ctr: Parameter: no such replica type"),
    (rules.replica_types, "    Worker:", "    worker:", "TFJob ctr: worker: no such replica type"),
    (rules.enums, "cleanPodPolicy: Running", "cleanPodPolicy: Sometimes", "spec.runPolicy.cleanPodPolicy: 'Sometimes'"),
    (rules.enums, "restartPolicy: ExitCode", "restartPolicy: Exit", "restartPolicy: 'Exit' is not allowed"),
    (rules.enums, 'successPolicy: ""', "successPolicy: All", "spec.successPolicy: 'All' is not allowed"),
    (rules.enums, "[ReadWriteMany]", "[ReadWriteAll]", "accessModes.*: 'ReadWriteAll' is not allowed"),
    (rules.enums, "policyTypes: [Ingress]", "policyTypes: [In]", "policyTypes.*: 'In' is not allowed"),
    (rules.enums, "podManagementPolicy: Parallel", "podManagementPolicy: parallel", "'parallel' is not allowed"),
    (rules.containers_and_ports, "name: tensorflow", "name: main", "no container is named tensorflow, but main"),
    (rules.containers_and_ports, "name: tfjob-port", "name: port", "no port is named tfjob-port"),
    (rules.containers_and_ports, "containerPort: 8080", "containerPort: 2222", "port 2222 stands twice"),
    (rules.containers_and_ports, "path: /readyz, port: metrics", "path: /readyz, port: http",
     "readinessProbe: no port is named http"),
    (rules.one_chief, "replicas: 1\n", "replicas: 2\n", "TFJob ctr: 2 chiefs (or masters); one is allowed"),
    (rules.one_chief, "    Worker:", "    Master:", "TFJob ctr: 2 chiefs (or masters); one is allowed"),
    (rules.whole_gang, "{minAvailable: 4}", "{minAvailable: 3}", "minAvailable is 3, and the job has 4 pods"),
    (rules.whole_gang, "spec: {minMember: 3}", "spec: {minMember: 2}", "PodGroup gang: minMember is 2, and 3 pods are of it"),
    (rules.whole_gang, "group-name: gang", "group-name: gong", "Job ranks: PodGroup gong is not there"),
    (rules.whole_gang, "      schedulerName: volcano\n", "", "Job ranks: the default scheduler knows no PodGroup"),
    (rules.references, "secretName: key", "secretName: kye", "TFJob ctr: Chief: Secret kye is not there"),
    (rules.references, "configMap: {name: job}", "configMap: {name: jobs}", "Chief: ConfigMap jobs is not there"),
    (rules.references, "claimName: out", "claimName: output", "PersistentVolumeClaim output is not there"),
    (rules.references, "priorityClassName: high", "priorityClassName: higher", "PriorityClass higher is not there"),
    (rules.references, "{name: out, mountPath: /o}", "{name: output, mountPath: /o}", "no volume is named output"),
    (rules.references, ", {name: out, mountPath: /o}", "", "volume out is not mounted"),
    (rules.references, "serviceName: other", "serviceName: others", "StatefulSet other: Service others is not there"),
    (rules.selectors, "selector: {training.kubeflow.org/job-name: ctr}", "selector: {app: x}", "Service front: selects no pod"),
    (rules.references, "kind: StatefulSet, name: other", "kind: StatefulSet, name: workers",
     "HorizontalPodAutoscaler scale: StatefulSet workers is not there"),
    (rules.references, "apps/v1, kind: StatefulSet, name", "kubeflow.org/v1, kind: TFJob, name",
     "HorizontalPodAutoscaler scale: a TFJob has no scale subresource"),
    (rules.references, "targetReplicatedJobs: [worker]", "targetReplicatedJobs: [workers]",
     "JobSet set: no replicated job is named workers"),
    (rules.enums, "operator: All", "operator: Every", "spec.successPolicy.operator: 'Every' is not allowed"),
    (rules.images, "gradwire:0.1.1", "gradwire:latest", "JobSet set: worker: image registry:5000/gradwire:latest"),
    (rules.resources, "memory: 600M", "memory: 2Gi", "JobSet set: worker: memory: the request 2Gi is above"),
    (rules.selectors, "{training.kubeflow.org/replica-type: ps}}, endpoints", "{training.kubeflow.org/replica-type: p}}, endpoints",
     "ServiceMonitor see: selects no pod"),
    (rules.selectors, "{training.kubeflow.org/replica-type: ps}}, endpoints", "{app.kubernetes.io/component: ps}}, endpoints",
     "ServiceMonitor see: selects no pod"),  # the pods have this label, the operator's Services have not
    (rules.selectors, "[{port: metrics, path: /metrics}]", "[{port: http, path: /metrics}]",
     "ServiceMonitor see: TFJob ctr: PS has no port http"),
    (rules.selectors, "podSelector: {matchLabels: {training.kubeflow.org/job-name: ctr}}",
     "podSelector: {matchLabels: {training.kubeflow.org/job-name: cvr}}", "NetworkPolicy walls: selects no pod"),
    (rules.policies, "}], ports: [{port: 2222}]", "}], ports: [{port: 2223}]",
     "NetworkPolicy walls: ingress: port 2222 is not allowed between the job's pods"),
    (rules.policies, "policyTypes: [Ingress]", "policyTypes: [Ingress, Egress]", "walls: egress: port 2222 is not allowed"),
    (rules.neighbours, "    PS: {replicas: 2, restartPolicy: ExitCode, template: *template}\n", "",
     "TFJob ctr: Worker: port 2223, of its ps, is not said"),
    (rules.selectors, "replica-type: ps", "replica-type: PS", "PodDisruptionBudget ps: selects no pod"),
    (rules.selectors, "{selector: {matchLabels: {training.kubeflow.org/job-name: ctr}}, pod",
     "{selector: {matchLabels: {training.kubeflow.org/job-name: c}}, pod", "PodMonitor watch: selects no pod"),
    (rules.selectors, "{matchLabels: {training.kubeflow.org/job-name: ctr}}, pod", "{matchLabels: {training.kubeflow.org/"
     "job-name: ctr}, matchExpressions: [{key: training.kubeflow.org/job-name, operator: NotIn, values: [ctr]}]}, pod",
     "PodMonitor watch: selects no pod"),
    (rules.selectors, "targetPort: metrics", "targetPort: http", "Service front: TFJob ctr: Chief has no port http"),
    (rules.selectors, "[{port: metrics}]", "[{port: http}]", "PodMonitor watch: TFJob ctr: Chief has no port http"),
    (rules.selectors, "matchLabels: {app: other}", "matchLabels: {app: another}", "does not match its own pods"),
    (rules.selectors, "labelSelector: {matchLabels: {training.kubeflow.org/job-name: ctr}}",
     "labelSelector: {matchLabels: {a: b}}", "topologySpreadConstraints do not match the pod itself"),
    (rules.budgets, "minAvailable: 2,", "maxUnavailable: 1,", "minAvailable is None; allowed for these pods: their number, 2"),
    (rules.budgets, "minAvailable: 2,", "minAvailable: 50%,", "minAvailable is '50%'"),
    (rules.resources, "requests: {cpu: 500m", "requests: {cpu: 1500m", "cpu: the request 1500m is above the limit 1"),
    (rules.resources, "memory: 1Gi, ephemeral-storage: 1Mi}", "memory: 2G, ephemeral-storage: 1Mi}", "memory: the request 2G is above the limit 1Gi"),
    (rules.resources, "memory: 1Gi, ephemeral-storage: 1Mi}", "memory: 500Mi, ephemeral-storage: 1Mi}", "a ps requests all of its memory limit"),
    (rules.resources, "limits: {cpu: 1, memory: 1Gi, ", "limits: {cpu: 1, ", "memory has no request or no limit"),
    (rules.names, "{name: ctr, labels", "{name: 1ctr, labels", "TFJob 1ctr: not a DNS-1035 name"),
    (rules.names, "{name: ctr, labels", "{name: c_tr, labels", "TFJob c_tr: not a DNS-1035 name"),
    (rules.names, "{name: ctr, labels", "{name: " + "c" * 51 + ", labels", "the name is longer than 50"),
    (rules.names, "app.kubernetes.io/name: gradwire}", "app.kubernetes.io/name: grad wire}", "'grad wire' is not allowed"),
    (rules.names, "app.kubernetes.io/name: gradwire}", "app: gradwire}", "no label app.kubernetes.io/name"),
    (rules.images, "gradwire:0.1.0", "gradwire:latest", "a digest or a fixed tag is wanted"),
    (rules.images, "gradwire:0.1.0", "gradwire", "image registry:5000/gradwire: a digest"),
    (rules.hardened, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "tensorflow: a read-only root"),
    (rules.hardened, "drop: [ALL]", "drop: [NET_RAW]", "no capability"),
    (rules.hardened, "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot and seccompProfile"),
    (rules.hardened, "automountServiceAccountToken: false", "automountServiceAccountToken: true",
     "automountServiceAccountToken: false is wanted"),
    (rules.grace, "grace_s: 45", "grace_s: 60", "terminationGracePeriodSeconds is 60, and timeouts.grace_s 60"),
    (rules.restarts, "restartPolicy: ExitCode", "restartPolicy: OnFailure", "Chief: restartPolicy is OnFailure"),
    (rules.restarts, "    backoffLimit: 1\n", "", "runPolicy.backoffLimit is not said"),
    (rules.meshes, 'ps, sidecar.istio.io/inject: "false"', 'ps', "TFJob ctr: Chief: sidecar.istio.io/inject"),
    (rules.meshes, 'rank, sidecar.istio.io/inject: "false"}, annotations: {scheduling.k8s.io/group-name: gang, sidecar.istio.io/inject: "false"}',
     "rank}",
     "Job ranks: sidecar.istio.io/inject"),
    (rules.references, "subdomain: ranks", "subdomain: rank", "Job ranks: Service rank is not there"),
    (rules.references, "imagePullSecrets: [{name: key}]", "imagePullSecrets: [{name: pull}]", "Job ranks: Secret pull is not there"),
    (rules.references, "serviceAccountName: creator", "serviceAccountName: other", "CronJob nightly: ServiceAccount other is not there"),
    (rules.references, "secretKeyRef: {name: key", "secretKeyRef: {name: kye", "Job ranks: Secret kye is not there"),
    (rules.references, "configMapKeyRef: {name: job", "configMapKeyRef: {name: jobs", "Job ranks: ConfigMap jobs is not there"),
    (rules.references, "kind: Role, name: making", "kind: Role, name: make", "RoleBinding may: Role make is not there"),
    (rules.references, "[{kind: ServiceAccount, name: creator}]", "[{kind: ServiceAccount, name: made}]",
     "RoleBinding may: ServiceAccount made is not there"),
    (rules.enums, "action: FailJob", "action: Fail", "spec.podFailurePolicy.rules.*.action: 'Fail' is not allowed"),
    (rules.enums, "completionMode: Indexed\n  par", "completionMode: Index\n  par", "Job ranks: spec.completionMode: 'Index'"),
    (rules.enums, "concurrencyPolicy: Forbid", "concurrencyPolicy: Forbidden", "spec.concurrencyPolicy: 'Forbidden' is not allowed"),
    (rules.enums, "restartPolicy: OnFailure", "restartPolicy: Always", "CronJob nightly: spec.jobTemplate.spec.template.spec.restartPolicy"),
    (rules.schedules, "concurrencyPolicy: Forbid", "concurrencyPolicy: Allow", "concurrencyPolicy is Allow, Forbid is wanted"),
    (rules.schedules, "  concurrencyPolicy: Forbid\n", "", "concurrencyPolicy is None"),
    (rules.schedules, "  timeZone: Europe/Zurich\n", "", "timeZone is None; a name like Europe/Zurich is wanted"),
    (rules.schedules, "timeZone: Europe/Zurich", "timeZone: local", "timeZone is 'local'"),
    (rules.schedules, "schedule: 0 1 * * *", "schedule: CRON_TZ=UTC 0 1 * * *", "timeZone is 'Europe/Zurich'"),
    (rules.schedules, "  startingDeadlineSeconds: 60\n", "", "startingDeadlineSeconds is not said"),
    (rules.schedules, "  failedJobsHistoryLimit: 1\n", "", "failedJobsHistoryLimit is not said"),
    (rules.schedules, "      activeDeadlineSeconds: 61\n", "", "jobTemplate.spec.activeDeadlineSeconds is not said"),
    (rules.privileges, "verbs: [create]", "verbs: ['*']", "Role making: verbs: * is too much"),
    (rules.disks, "memory: 1Gi, ephemeral-storage: 1Mi}", "memory: 1Gi}", "tensorflow: ephemeral-storage has no request or no limit"),
    (rules.disks, "1Gi, ephemeral-storage: 1G}", "1Gi, ephemeral-storage: 1M}", "the request 1G is above the limit 1M"),
    (rules.disks, "sizeLimit: 2Gi", "sizeLimit: 3Gi", "TFJob ctr: Chief: its emptyDirs may be larger than its limit"),
    (rules.probes, "              livenessProbe: *live\n", "", "TFJob ctr: Chief: tensorflow: no livenessProbe"),
    (rules.probes, "path: /readyz", "path: /healthz", "readinessProbe: /readyz says whether it listens"),
    (rules.probes, "\n          startupProbe: {tcpSocket: {port: 2222}}\n", "\n", "StatefulSet other: any: no startupProbe"),
    (rules.claims, "claimName: one", "claimName: two", "PersistentVolumeClaim one: no pod mounts it"),
    (rules.claims, "[ReadWriteMany]", "[ReadWriteOnce]",
     "PersistentVolumeClaim out: ReadWriteOnce, and mounted by pods of several nodes: TFJob ctr: Chief, TFJob ctr: PS, TFJob"),
    (rules.claims, "kubernetes.io/hostname, labelSelector", "topology.kubernetes.io/zone, labelSelector",
     "PersistentVolumeClaim one: ReadWriteOnce, and mounted by pods of several nodes: Job ranks"),
    (rules.claims, "labelSelector: {matchLabels: {app: rank}}", "labelSelector: {matchLabels: {app: other}}",
     "PersistentVolumeClaim one: ReadWriteOnce, and mounted by pods of several nodes: Job ranks"),
    (rules.kept, 'gradwire, gradwire/keep: "true"', "gradwire", "PersistentVolumeClaim out: without the label gradwire/keep"),
    (rules.admins, "kind: PodGroup", "kind: ResourceQuota", "ResourceQuota gang: an administrator's object"),
    (rules.resolvers, "169.254.20.10/32", "169.254.20.11/32", "NetworkPolicy way: no way to NodeLocal DNSCache"),
    (rules.resolvers, ", {ipBlock: {cidr: 169.254.169.254/32}}", "", "NetworkPolicy way: no way to GKE's Cloud DNS"),
    (rules.resolvers, "{protocol: UDP, port: 53}, ", "", "no way to NodeLocal DNSCache, 169.254.20.10, port 53, by UDP and TCP"),
    (rules.api_servers, "egress: [{}]", "egress: []", "CronJob nightly: no way to the API server"),
    (rules.privileges, "resources: [tfjobs]", "resources: ['*']", "Role making: resources: * is too much"),
)


def load(text):
    return yaml.load_all(text, LOADER)


class RulesTest(unittest.TestCase):
    def test_a_good_manifest_breaks_no_rule(self):
        self.assertEqual(rules.broken(list(load(GOOD))), [])

    def test_each_rule_refuses_what_breaks_it(self):
        for rule, good, bad, says in BAD:
            with self.subTest(rule=rule.__name__, bad=bad):
                self.assertIn(good, GOOD)
                docs = copy.deepcopy(list(load(GOOD.replace(good, bad, 1))))
                self.assertTrue([line for line in rule(docs) if says in line], list(rule(docs)))

    def test_no_rule_is_without_a_manifest_that_it_refuses(self):
        self.assertEqual({rule for rule, *_ in BAD}, set(rules.RULES))

    def test_what_is_made_by_hand_is_named_in_an_annotation(self):
        text = GOOD.replace("secretName: key", "secretName: mine")
        text = text.replace("{name: ctr, labels", "{name: ctr, annotations: {gradwire/by-hand: Secret/mine}, labels")
        self.assertEqual(list(rules.references(list(load(text)))), [])


class PodSecurityTest(unittest.TestCase):
    """As https://kubernetes.io/docs/concepts/security/pod-security-standards/ has the levels."""

    def level(self, whole, own):
        docs = [{"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {**whole, "containers": [
            {"name": "c", **own}]}}}}]
        return rules.pod_security(docs)

    def test_the_level_of_a_pod_is_the_strictest_that_admits_it(self):
        whole = {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}}
        own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        self.assertEqual(self.level(whole, {"securityContext": own}), "restricted")
        self.assertEqual(self.level({}, {}), "baseline")
        for bad in ({"allowPrivilegeEscalation": True}, {"capabilities": {"drop": ["NET_RAW"]}}, {"runAsNonRoot": False},
                    {"runAsUser": 0}, {"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}):
            self.assertEqual(self.level(whole, {"securityContext": {**own, **bad}}), "baseline", bad)
        self.assertEqual(self.level({**whole, "volumes": [{"name": "v", "nfs": {}}]}, {"securityContext": own}), "baseline")
        for bad in ({"privileged": True}, {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}},
                    {"seccompProfile": {"type": "Unconfined"}}):
            self.assertEqual(self.level(whole, {"securityContext": {**own, **bad}}), "privileged", bad)
        for bad in ({"hostNetwork": True}, {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}):
            self.assertEqual(self.level({**whole, **bad}, {"securityContext": own}), "privileged", bad)


if __name__ == "__main__":
    unittest.main()
