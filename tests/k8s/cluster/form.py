"""The common part of a cluster's tests: the cluster, made once for a test program (`from form import setUpModule`), and a test's
own namespace, in which a form of the job is applied and runs to its end."""
import functools
import json
import pathlib
import re
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
import podcase  # noqa: E402
import pods  # noqa: E402
import render  # noqa: E402
import storage  # noqa: E402

DEADLINE_S = 900
TOO_EARLY = "must be created before the TrainJob"  # docs/guides/trainer.md: then repeat the command


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


def listed(docs):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": docs})


def quoted(text):
    """The text as a part of a string in JSON."""
    return json.dumps(text)[1:-1]


def job_file(epochs=None):
    """The example's; with `epochs`, a job of that many, with a checkpoint every 100 steps."""
    text = podcase.of_kind(podcase.overlay("job"), "ConfigMap")["data"]["job.yaml"]
    if epochs is None:
        return text
    assert "epochs: 10," in text, text
    return text.replace("epochs: 10,", f"epochs: {epochs},") + "checkpoint: {every_steps: 100, every_seconds: 0}\n"


@functools.cache
def digest(job, *args):
    """The digest of a job that runs on this host alone."""
    with tempfile.TemporaryDirectory(prefix="gradwire-alone-") as folder:
        return podcase.alone(pathlib.Path(folder), job, args)["digest"]


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

    def apply(self, form, *changes):
        """kubectl apply -k. `changes`: pairs (text of the rendered objects, another text in its place)."""
        text = listed(render.kustomize(facts.ROOT / "k8s" / form)) if changes else None
        for old, new in (map(quoted, change) for change in changes):
            self.assertIn(old, text)
            text = text.replace(old, new)

        def applied():
            got = self.kubectl("apply", *(("-f", "-") if changes else ("-k", facts.ROOT / "k8s" / form)), text=text, check=False)
            self.assertTrue(got.returncode == 0 or TOO_EARLY in got.stderr, got.stderr)
            return got.returncode == 0
        plane.until("Trainer has seen the runtime", applied)

    def shared_storage(self):
        """Claims that name no class are of the one with every access mode."""
        storage.default_class(plane, storage.SHARED)
        self.addCleanup(storage.default_class, plane, "standard")

    def by_hand(self, component, folder="."):
        """Makes a component's Secret with the command that its first lines name."""
        text = (facts.ROOT / "k8s" / component / "kustomization.yaml").read_text()
        command = re.search(r"^# +(kubectl create secret .*)$", text, re.M)[1]
        self.shell(command, folder)

    def shell(self, commands, folder="."):
        """Runs commands of a page; their kubectl is in the test's namespace."""
        there = f'kubectl() {{ command kubectl --kubeconfig={plane.config} --namespace={self.namespace} "$@"; }}'
        got = subprocess.run(["bash", "-ec", f"{there}\n{commands}"], cwd=folder, capture_output=True, text=True)
        self.assertEqual(got.returncode, 0, got.stderr)

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

    @property
    def claim(self):
        return claims.folder / self.namespace / "gradwire-output"

    def summary(self):
        path = self.claim / "summary.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def trained(self, job=None, *args):
        """The summary that the chief wrote to its claim: what it learned is what one host alone learns."""
        summary = self.summary()
        self.assertEqual((summary["status"], summary["exit_code"]), ("done", 0))
        self.assertEqual(summary["digest"], digest(job or job_file(), *args), self.said())
        return summary

    # ---- while a job trains ----

    def trains(self, more=2):
        """Waits until the chief has written so many more checkpoints."""
        def cuts():
            return {path.parent.name for path in self.claim.glob("checkpoints/cut-*/manifest.gw")}
        before, seen = cuts(), set()

        def enough():
            seen.update(cuts() - before)
            self.assertTrue(len(seen) >= more or self.summary().get("status") != "done", "the job ended before: more epochs")
            return len(seen) >= more
        plane.until(lambda: f"{more} more checkpoints\n{self.said()}", enough, DEADLINE_S)

    def pods(self, role):
        """The role's pods that are ready: their names, by uid."""
        shown = self.kubectl("get", "pods", "-l", f"app.kubernetes.io/component={role}", "-o", "json").stdout
        return {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in json.loads(shown)["items"]
                if "deletionTimestamp" not in pod["metadata"]
                and any((c["type"], c["status"]) == ("Ready", "True") for c in pod["status"].get("conditions", []))}

    def ready(self, role, n, without=()):
        """Waits until so many pods of the role are ready, none of them with a uid of `without`."""
        def there():
            return len(self.pods(role)) == n and not set(without) & set(self.pods(role))
        plane.until(lambda: f"{n} of {role} are ready\n{self.said()}", there, DEADLINE_S)

    def evict(self, pod, check=True):
        """As kubectl drain asks for it."""
        return self.kubectl("create", "--raw", f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction", "-f", "-",
                            text=json.dumps({"apiVersion": "policy/v1", "kind": "Eviction",
                                             "metadata": {"name": pod, "namespace": self.namespace}}), check=check)
