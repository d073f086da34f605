#!/usr/bin/env python3
# timeout: 3000
"""The forms of the job on a cluster: Kubernetes' own API server, scheduler and controllers (plane.py), and kubelets of ours
that run the real image (kubelet.py). `kubectl apply -k`, and kubectl says how it ended."""
import functools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (0, 1)]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
import facts  # noqa: E402
import kubelet  # noqa: E402
import managers  # noqa: E402
import netns  # noqa: E402
import plane as planes  # noqa: E402
import pods  # noqa: E402
import render  # noqa: E402
import storage  # noqa: E402

ELSEWHERE = {"monitoring.coreos.com", "scheduling.volcano.sh", "keda.sh"}  # API groups of operators that are not here
DEADLINE_S = 900


class Scope:
    """The folder and the cleanups of what all tests of this program share: they last until its end."""

    def __init__(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-cluster-"))
        self.tmp.chmod(0o755)
        self.addCleanup = unittest.addModuleCleanup
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)


def setUpModule():
    """The cluster: made once, as it takes some 20 s."""
    global plane, nodes, claims, operators
    if not pods.STORAGE:
        raise unittest.SkipTest("GRADWIRE_IMAGE_STORAGE is not set: ./gradwire test cluster sets it")
    if not shutil.which("kubectl"):
        raise unittest.SkipTest("kubectl is not there")
    began, scope = time.monotonic(), Scope()
    net = netns.Hosts(scope, kubelet.ADDRESSES)
    plane = planes.Plane(scope, net.own)
    claims = storage.Provisioner(scope, plane.api)
    nodes = kubelet.Nodes(scope, plane, net)
    operators = managers.Managers(plane)
    print(f"the cluster is there after {time.monotonic() - began:.0f} s", file=sys.stderr)


@functools.cache
def operator(name):
    """Started once, by the first test that wants it."""
    getattr(operators, name)()


def documents(lines):
    """The objects that kubectl writes, one after the other."""
    text = ""
    for line in lines:
        text += line
        if line == "}\n":
            yield json.loads(text)
            text = ""


class Form(unittest.TestCase):
    """A test has a namespace of its own, where Pod Security admits what is `restricted`."""

    def setUp(self):
        self.namespace = self._testMethodName.removeprefix("test_").replace("_", "-")
        plane.kubectl("create", "namespace", self.namespace)
        plane.kubectl("label", "namespace", self.namespace, "pod-security.kubernetes.io/enforce=restricted")
        self.addCleanup(plane.kubectl, "delete", "namespace", self.namespace, "--timeout=300s", timeout_s=310)
        plane.until("the namespace has its service account", lambda: plane.kubectl(
            "-n", self.namespace, "get", "serviceaccount", "default", check=False).returncode == 0)
        self.began = time.monotonic()

    def kubectl(self, *words, **more):
        return plane.kubectl("-n", self.namespace, *words, **more)

    def apply(self, form):
        self.kubectl("apply", "-k", facts.ROOT / "k8s" / form)

    def said(self):
        """For a failed test: what the cluster knows."""
        shown = self.kubectl("get", "all,pvc,events", "-o", "wide", check=False).stdout
        return "\n".join([shown, *nodes.faults, nodes.log(self.namespace)[-20000:], str(claims.refused)])

    def first_true(self, what, *conditions, deadline_s=DEADLINE_S):
        """The first of these conditions of an object that is True, as `kubectl get --watch` shows it."""
        words = ["kubectl", f"--kubeconfig={plane.config}", "-n", self.namespace, "get", what, "--watch", "-o", "json"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watched:
            late = threading.Timer(deadline_s, watched.kill)
            late.start()
            try:
                for shown in documents(watched.stdout):
                    true = [c["type"] for c in shown.get("status", {}).get("conditions", []) if c["status"] == "True"]
                    if got := [name for name in conditions if name in true]:
                        return got[0]
            finally:
                late.cancel()
                watched.kill()
        self.fail(f"{what}: none of {conditions} after {time.monotonic() - self.began:.0f} s\n{self.said()}")

    def succeeds(self, what, good="Complete", bad="Failed"):
        """To its end, as kubectl shows it."""
        self.assertEqual(self.first_true(what, good, bad), good, self.said())
        self.assertEqual(nodes.faults, [])
        print(f"{self.namespace}: {good} after {time.monotonic() - self.began:.0f} s", file=sys.stderr)

    def trained(self):
        """The summary that the chief wrote to its claim."""
        summary = json.loads((claims.folder / self.namespace / "gradwire-output/summary.json").read_text())
        self.assertEqual((summary["status"], summary["exit_code"]), ("done", 0))
        return summary


def listed(docs):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": docs})


class Accepted(Form):
    def make(self, docs):
        """Objects that last as long as the test."""
        if docs:
            self.kubectl("apply", "-f", "-", text=listed(docs))
            self.addCleanup(self.kubectl, "delete", "--ignore-not-found", "-f", "-", text=listed(docs))

    def test_every_overlay_is_accepted(self):
        """The server knows each field and admits each object; what says `restricted` warns of nothing."""
        for name in ("jobset", "trainer", "training_operator"):
            operator(name)
        plane.kubectl("label", "namespace", self.namespace, "pod-security.kubernetes.io/warn=restricted")
        for folder in render.overlays():
            here = [d for d in render.kustomize(folder) if d["apiVersion"].split("/")[0] not in ELSEWHERE]
            with self.subTest(str(folder.relative_to(facts.ROOT))):
                self.make([d for d in here if d["kind"].endswith("TrainingRuntime")])  # a TrainJob is refused without it
                got = self.kubectl("apply", "--dry-run=server", "-f", "-", text=listed(here))
                if "# Pod Security: restricted" in (folder / "kustomization.yaml").read_text():
                    self.assertNotIn("violate PodSecurity", got.stderr)


class Kept(Form):
    def test_claims_are_kept(self):
        """With admin/keep-claims, deleting an overlay leaves its claim; without the label the claim goes."""
        plane.kubectl("apply", "-k", facts.ROOT / "k8s/admin/keep-claims")
        self.addCleanup(plane.kubectl, "delete", "-k", facts.ROOT / "k8s/admin/keep-claims")
        self.apply("one-pod")

        def refused():  # the API server reads a policy some time after it is there
            got = self.kubectl("delete", "--dry-run=server", "pvc", "gradwire-output", check=False)
            return got.returncode and got.stderr
        self.assertIn("claim gradwire-output is kept: to delete it, first kubectl label pvc gradwire-output gradwire/keep-",
                      plane.until("the policy is in force", refused))
        got = self.kubectl("delete", "-k", facts.ROOT / "k8s/one-pod", check=False)
        self.assertIn("claim gradwire-output is kept", got.stderr)
        left = self.kubectl("get", "job,configmap,networkpolicy,pvc", "-o", "name").stdout.split()
        self.assertEqual(left, ["configmap/kube-root-ca.crt", "persistentvolumeclaim/gradwire-output"])
        self.kubectl("label", "pvc", "gradwire-output", "gradwire/keep-")
        self.kubectl("delete", "pvc", "gradwire-output", "--timeout=120s")


class Plain(Form):
    def test_plain_base(self):
        self.apply("plain/base")
        self.succeeds("job/mnist-chief")
        self.succeeds("job/mnist-worker")
        self.trained()

    def test_one_pod(self):
        self.apply("one-pod")
        self.succeeds("job/mnist")
        self.trained()


class JobSet(Form):
    def test_jobset(self):
        operator("jobset")
        self.apply("jobset")
        self.succeeds("jobset/mnist", "Completed")
        self.trained()


class TFJob(Form):
    def test_tfjob_base(self):
        operator("training_operator")
        self.apply("tfjob/base")
        self.succeeds("tfjob/mnist", "Succeeded")
        self.trained()

    def test_no_ps(self):
        operator("training_operator")
        self.apply("tfjob/overlays/no-ps")
        self.succeeds("tfjob/mnist", "Succeeded")
        self.trained()


class TrainJob(Form):
    def test_trainer(self):
        operator("jobset")
        operator("trainer")
        self.apply("trainer/base")
        self.succeeds("trainjob/mnist")
        self.trained()


if __name__ == "__main__":
    unittest.main(verbosity=2)
