#!/usr/bin/env python3
"""A pod's spec as podman's flags: each field's translation, each refusal, and that all overlays' pods are translated whole."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not there")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402
import podspec  # noqa: E402
import rules  # noqa: E402

IMAGE = "localhost/gradwire:0.1.0"


def spec(whole={}, **own):
    return {**whole, "containers": [{"name": "tensorflow", "image": IMAGE, **own}]}


SECURE = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
NEVER = "--security-opt=seccomp=unconfined"  # of a pod without a seccompProfile
TRANSLATED = (  # of the pod, of the container -> flags
    ({}, {}, [NEVER]),
    ({"securityContext": SECURE}, {}, ["--user=65532:65532"]),
    ({"securityContext": {**SECURE, "fsGroup": 7, "supplementalGroups": [8]}}, {},
     ["--user=65532:65532", "--group-add=8", "--group-add=7"]),
    ({"securityContext": SECURE}, {"securityContext": {"runAsUser": 5, "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}},
     ["--user=5:65532", "--cap-drop=ALL", "--cap-add=CHOWN"]),
    ({}, {"securityContext": {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}},
     ["--read-only", "--read-only-tmpfs=false", "--security-opt=no-new-privileges", NEVER]),
    ({}, {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}},
     [NEVER, "--cpus=2", "--memory=1073741824", "--memory-swap=1073741824", "--cpu-shares=512"]),
    ({}, {"resources": {"limits": {"cpu": "250m"}}}, [NEVER, "--cpus=0.25", "--cpu-shares=256"]),
    ({}, {"command": ["cp", "$(A)"], "env": [{"name": "A", "value": "b"}]}, [NEVER, "--env=A=b", '--entrypoint=["cp", "b"]']),
    ({"volumes": [{"name": "v", "emptyDir": {}}]}, {"volumeMounts": [
        {"name": "v", "mountPath": "/a", "readOnly": True}, {"name": "v", "mountPath": "/b", "subPath": "x/y"}]},
     [NEVER, "--volume={v}:/a:ro", "--volume={v}/x/y:/b"]),
    ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}]},
     {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPathExpr": "$(P)"}],
      "env": [{"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
     [NEVER, "--volume={v}/pod-3:/a:ro", "--env=P=pod-3"]),
    ({"volumes": [{"name": "none", "secret": {"secretName": "s", "optional": True}}]},
     {"volumeMounts": [{"name": "none", "mountPath": "/a"}]}, [NEVER]),
    ({"nodeSelector": {"a": "b"}, "affinity": {}, "tolerations": [], "topologySpreadConstraints": [], "priorityClassName": "p", "schedulerName": "s",
      "imagePullSecrets": [], "dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True, "enableServiceLinks": False,
      "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 5, "subdomain": "s"},
     {"ports": [{"name": "a", "containerPort": 2222, "hostPort": 2222}], "imagePullPolicy": "IfNotPresent"}, [NEVER]),
)
ENV = (  # entries -> what comes of them
    ([{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)-$(NONE)-$$(A)"}], {"A": "1", "B": "1-$(NONE)-$(A)"}),
    ([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], {"A": "2"}),  # the last one wins
    ([{"name": "I", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}}], {"I": "3"}),
    ([{"name": "T", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['none']"}}}], {"T": ""}),
    ([{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
      {"name": "H", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}], {"N": "team", "H": "10.0.0.1"}),
    ([{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}], {"S": "secret s k"}),
    ([{"name": "C", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}}], {"C": "configMap s k"}),
    ([{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "none", "optional": True}}}], {}),
)
REFUSED = (  # of the pod, of the container -> says
    ({"hostPID": True}, {}, "pod: not translated: hostPID"),
    ({"shareProcessNamespace": True, "hostIPC": True}, {}, "hostIPC, shareProcessNamespace"),
    ({"dnsPolicy": "None"}, {}, "dnsPolicy: 'None'"),
    ({"enableServiceLinks": True}, {}, "enableServiceLinks: True"),
    ({"automountServiceAccountToken": True}, {}, "automountServiceAccountToken"),
    ({"securityContext": {"sysctls": []}}, {}, "sysctls"),
    ({"securityContext": {"runAsNonRoot": True}}, {}, "runAsUser is wanted"),
    ({"securityContext": {"runAsGroup": 5}}, {}, "runAsGroup without"),
    ({"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}}, {}, "localhostProfile"),
    ({"initContainers": [{"name": "i", "image": IMAGE, "restartPolicy": "Always"}]}, {}, "init|restartPolicy"),
    ({}, {"lifecycle": {}}, "container tensorflow: not translated: lifecycle"),
    ({}, {"envFrom": []}, "envFrom"),
    ({}, {"workingDir": "/"}, "workingDir"),
    ({}, {"imagePullPolicy": "Always"}, "imagePullPolicy: 'Always'"),
    ({}, {"image": "docker.io/library/nginx:1"}, "only gradwire's is here"),
    ({}, {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {}}}]}, "resourceFieldRef"),
    ({}, {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]}, "'metadata.uid'"),
    ({}, {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "none"}}}]}, "secretKeyRef s has no key none"),
    ({}, {"ports": [{"containerPort": 1, "hostPort": 1}]}, "hostPort 1 without hostNetwork"),
    ({"hostNetwork": True}, {"ports": [{"containerPort": 1, "hostPort": 2}]}, "hostPort"),
    ({}, {"resources": {"limits": {"nvidia.com/gpu": 1}}}, "nvidia.com/gpu"),
    ({}, {"volumeMounts": [{"name": "none", "mountPath": "/a"}]}, "no volume is named none"),
    ({"volumes": [{"name": "v", "emptyDir": {}}]}, {"volumeMounts": [{"name": "v", "mountPath": "/a", "mountPropagation": "x"}]},
     "mountPropagation"),
    ({}, {"livenessProbe": {"exec": {}}}, "livenessProbe: not translated: exec"),
    ({}, {"readinessProbe": {"httpGet": {"port": "none"}}}, "no port is named none"),
    ({}, {"readinessProbe": {"exec": {"command": ["true"]}}}, "exec"),
    ({}, {"readinessProbe": {"periodSeconds": 1}}, "only httpGet and tcpSocket"),
    ({}, {"readinessProbe": {"httpGet": {"port": 1, "scheme": "HTTPS"}}}, "scheme"),
)


class PodspecTest(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        self.place = podspec.Place("pod-3", "team", {"apps.kubernetes.io/pod-index": "3"}, ip="10.0.0.1", image="IMAGE",
                                   volume=lambda v, group: None if v["name"] == "none" else self.folder,
                                   key=lambda kind, name, key: None if key == "none" else f"{kind} {name} {key}")

    def test_each_field_is_a_flag(self):
        for whole, own, flags in TRANSLATED:
            with self.subTest(pod=whole, container=own):
                made, = podspec.containers(spec(whole, **own), self.place)
                self.assertEqual(made.flags, [flag.replace("{v}", str(self.folder)) for flag in flags])
                self.assertEqual(made.words[0], "IMAGE")

    def test_env_is_as_the_kubelet_makes_it(self):
        for entries, env in ENV:
            with self.subTest(env=entries):
                made, = podspec.containers(spec(env=entries, args=["$(A)", "$(I)"]), self.place)
                self.assertEqual(made.env, env)
                self.assertEqual(made.words[1:], [env.get("A", "$(A)"), env.get("I", "$(I)")])

    def test_what_is_not_translated_is_refused_by_name(self):
        for whole, own, says in REFUSED:
            with self.subTest(says=says), self.assertRaisesRegex(podspec.Refused, says):
                podspec.containers(spec(whole, **own), self.place)
        with self.assertRaisesRegex(podspec.Refused, "one container"):
            podspec.containers({"containers": [{"name": "a"}, {"name": "b"}]}, self.place)

    def test_init_containers_come_first_and_have_the_pods_user(self):
        first = {"name": "i", "image": IMAGE, "command": ["true"]}
        made = podspec.containers(spec({"initContainers": [first], "securityContext": SECURE}), self.place)
        self.assertEqual([c.name for c in made], ["i", "tensorflow"])
        self.assertEqual(made[0].flags, ["--user=65532:65532", '--entrypoint=["true"]'])

    def test_probes_and_the_grace_period_are_read(self):
        given = {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 2, "failureThreshold": 4}
        made, = podspec.containers(spec(ports=[{"name": "metrics", "containerPort": 8080}], readinessProbe=given), self.place)
        probe = made.probes["readinessProbe"]
        self.assertEqual((probe.port, probe.path, probe.period_s, probe.timeout_s, probe.failures), (8080, "/readyz", 2, 1, 4))
        made, = podspec.containers(spec(readinessProbe={"tcpSocket": {"port": 2222}}), self.place)
        self.assertEqual((made.probes["readinessProbe"].port, made.probes["readinessProbe"].path), (2222, None))
        self.assertEqual((podspec.grace_s(spec()), podspec.grace_s(spec({"terminationGracePeriodSeconds": 60}))), (30, 60))

    @unittest.skipUnless(shutil.which("kubectl"), "kubectl is not there (1.21 or later renders the overlays)")
    def test_every_overlays_pods_are_translated_whole(self):
        folders = [path.parent for path in (facts.ROOT / "k8s").rglob("kustomization.yaml")
                   if "kind: Kustomization\n" in path.read_text()]
        seen = 0
        for folder in sorted(folders):
            got = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=True)
            docs = list(yaml.load_all(got.stdout, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
            for pod in rules.pods(docs):
                if pod.owner["kind"] == "CronJob":
                    continue  # its pod speaks to an API server: none is here
                with self.subTest(overlay=str(folder.relative_to(facts.ROOT)), pod=pod.where):
                    admitted = podspec.openshift(pod.spec, 1000650000) if "openshift" in folder.name else pod.spec
                    podspec.containers(admitted, self.place)
                    seen += 1
        self.assertGreater(seen, 30)


if __name__ == "__main__":
    unittest.main()
