#!/usr/bin/env python3
# runs with others
"""docs/guides/from-your-manifest.md: in each section, the pod that people have ends with the message that the page shows, and the pod
that they are to write becomes the process that the page says. Both are what the schemas allow."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import facts  # noqa: E402
import overlays_test  # noqa: E402
import pages  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402

PAGE = facts.ROOT / "docs/guides/from-your-manifest.md"
COMMAND, CONFIG, PADDLE, MPI, GPU, SERVING = (
    "A TFJob whose command is python", "A ConfigMap at /etc/config", "A Paddle job", "An MPIJob", "GPU limits",
    "A Deployment that serves the model")
CLUSTER = {"chief": ["j-chief-0.n.svc:2222"], "ps": ["j-ps-0.n.svc:2222"], "worker": ["j-worker-0.n.svc:2222"]}
KINDS = {"Chief": "worker", "PS": "ps", "Worker": "worker"}  # of replicas, and the program of each
MOUNTED = "/etc/gradwire"  # where the entrypoint looks for job.yaml


def sections():
    """Of each heading: the fragments and the message (None: none)."""
    text, found = PAGE.read_text(), {}
    lines = text.splitlines()
    for block in pages.split(text)[0]:
        heading = [line[3:] for line in lines[:block.line] if line.startswith("## ")][-1]
        yamls, logs = found.setdefault(heading, ([], []))
        {"yaml": yamls, "log": logs}[block.language].append(block.text)
    return found


SECTIONS = sections()


def fragments(heading):
    return [render.load(text) for text in SECTIONS[heading][0]]


def container(fragment):
    one, = fragment["containers"]
    return one


def mounts_job_file(fragment):
    volumes = {volume["name"]: volume for volume in fragment.get("volumes", [])}
    return any(mount["mountPath"] == MOUNTED and "configMap" in volumes[mount["name"]]
               for mount in container(fragment).get("volumeMounts", []))


def start(fragment, *more, tf_config=None):
    """The entrypoint in the pod of that fragment. A job file that the fragment mounts is not here; --print does not read it."""
    env = facts.container_env(container(fragment), 0)
    args = [facts.expand(arg, env) for arg in container(fragment).get("args", [])]
    args += [f"--job={MOUNTED}/job.yaml"] if mounts_job_file(fragment) else []
    return subprocess.run([facts.ENTRYPOINT, *args, *more], env={**facts.environment(TF_CONFIG=tf_config), **env},
                          capture_output=True, text=True)


def task(kind):
    return json.dumps({"cluster": CLUSTER, "task": {"type": kind.lower(), "index": 0}})


class FromManifestTest(unittest.TestCase):
    def ends_as_shown(self, heading, **named):
        got = start(fragments(heading)[0], **named)
        shown, = SECTIONS[heading][1]
        self.assertEqual((got.returncode, got.stdout), (2, ""), got.stderr)
        self.assertEqual("... " + got.stderr.split(" ", 1)[1], shown)

    def becomes(self, fragment, program, *words, more=(), tf_config=None):
        got = start(fragment, *more, "--print", tf_config=tf_config)
        self.assertEqual(got.returncode, 0, got.stderr)
        command = got.stdout.splitlines()[-1].split()
        self.assertEqual(pathlib.Path(command[0]).name, program)
        for word in words:
            self.assertIn(word, got.stdout)

    def is_valid(self, doc):
        for name, validator in overlays_test.schemas_of(doc):
            self.assertEqual([f"{name}: {e.message[:200]}" for e in validator.iter_errors(doc)], [])
        self.assertEqual(rules.broken([doc], [rules.replica_types, rules.enums, rules.containers_and_ports, rules.images]), [])

    def tf_job_of(self, fragment):
        return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "j"}, "spec": {"tfReplicaSpecs": {
            kind: {"replicas": 1, "restartPolicy": "ExitCode", "template": {"spec": fragment}} for kind in KINDS}}}

    def is_for_every_replica(self, fragment, *words, more=()):
        for kind, program in KINDS.items():
            self.becomes(fragment, program, *words, more=more, tf_config=task(kind))

    def test_each_section_has_what_people_have_and_what_to_write(self):
        self.assertEqual({heading: len(yamls) for heading, (yamls, _) in SECTIONS.items()},
                         dict.fromkeys((COMMAND, CONFIG, PADDLE, MPI, GPU, SERVING), 2))

    def test_without_its_command_a_tf_job_runs_and_the_image_has_no_python(self):
        before, after = fragments(COMMAND)
        self.assertEqual(container(before)["command"][0], "python")
        self.assertNotIn("python", (facts.ROOT / "k8s/packages").read_text())
        self.assertEqual(container(after)["args"][1:], container(before)["args"])
        self.assertTrue(mounts_job_file(after))
        self.is_for_every_replica(after, "--set training.batch_size=64", "--set training.learning_rate=0.001")

    @unittest.skipIf(pathlib.Path(MOUNTED, "job.yaml").exists(), f"this host has {MOUNTED}/job.yaml")
    def test_a_config_map_elsewhere_is_named_by_a_flag(self):
        self.ends_as_shown(CONFIG, tf_config=task("Worker"))
        before, after = fragments(CONFIG)
        self.assertEqual(after["volumes"], before["volumes"])
        path, = (arg.split("=")[1] for arg in container(after)["args"] if arg.startswith("--job="))
        self.assertEqual(os.path.dirname(path), container(after)["volumeMounts"][0]["mountPath"])
        self.is_for_every_replica(after, f"--job={path}")

    def test_pods_of_paddle_become_ps_and_workers(self):
        self.ends_as_shown(PADDLE)
        before, after = fragments(PADDLE)
        both = {**after, "containers": [{**container(before), "args": container(after)["args"]}]}
        listed = facts.container_env(container(before), 0)["PADDLE_PSERVERS_IP_PORT_LIST"]
        ps = f'"ps":{json.dumps(listed.split(","), separators=(",", ":"))}'
        for fragment in (after, both):  # its own variables can stay
            self.becomes(fragment, "worker", ps, '"task":{"type":"worker","index":1}', more=["--job=/j.yaml"])
            container(fragment)["args"] = [arg.replace("--role=worker", "--role=ps") for arg in container(fragment)["args"]]
            self.becomes(fragment, "ps", ps, '"task":{"type":"ps","index":1}', more=["--job=/j.yaml"])

    @render.wanted
    def test_an_mpi_job_becomes_a_tf_job_without_ps_of_as_many_processes(self):
        self.ends_as_shown(MPI)
        overlay = SECTIONS[MPI][0][1]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder).resolve()
            below = os.path.relpath(facts.ROOT / "k8s/tfjob/overlays/no-ps", path)
            (path / "kustomization.yaml").write_text(overlay.replace("../no-ps", below))
            docs = render.kustomize(path)
        self.assertEqual(rules.broken(docs), [])
        job, = (doc for doc in docs if doc["kind"] == "TFJob")
        self.assertEqual({kind: spec["replicas"] for kind, spec in job["spec"]["tfReplicaSpecs"].items()}, {"Chief": 1, "Worker": 3})
        text, = (doc["data"]["job.yaml"] for doc in docs if doc["kind"] == "ConfigMap")
        self.assertGreaterEqual(render.load(text)["training"]["microbatches"], 4)

    def test_gpu_limits_are_gone(self):
        before, after = fragments(GPU)
        self.assertIn("nvidia.com/gpu", container(before)["resources"]["limits"])
        self.assertNotIn("gpu", json.dumps(after))
        self.assertEqual(set(after), {"containers"})
        self.assertEqual(rules.broken([self.tf_job_of(after)], [rules.resources]), [])
        self.is_for_every_replica(after, more=["--job=/j.yaml"])

    @unittest.skipIf(pathlib.Path(MOUNTED, "job.yaml").exists(), f"this host has {MOUNTED}/job.yaml")
    def test_a_deployment_mounts_what_the_job_exports(self):
        self.ends_as_shown(SERVING)
        _, after = fragments(SERVING)
        mount, = container(after)["volumeMounts"]
        self.assertEqual(mount["subPath"], "export/savedmodel")
        self.assertIn("`DIR/export/savedmodel`", (facts.ROOT / "docs/reference/export.md").read_text())
        claim = after["volumes"][0]["persistentVolumeClaim"]["claimName"]
        self.assertIn(f"name: {claim}\n", (facts.ROOT / "k8s/job/claims.yaml").read_text())

    @facts.wanted
    def test_what_to_write_is_what_the_schemas_allow(self):
        for heading in (COMMAND, CONFIG, GPU):
            with self.subTest(heading):
                self.is_valid(self.tf_job_of(fragments(heading)[1]))
        labels = {"app": "serving"}
        self.is_valid({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "serving"}, "spec": {
            "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": fragments(SERVING)[1]}}})


if __name__ == "__main__":
    unittest.main()
