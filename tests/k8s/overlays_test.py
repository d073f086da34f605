#!/usr/bin/env python3
"""Every overlay of k8s/ renders, passes the schemas and the rules of rules.py, and its pods' arguments are understood by
the entrypoint and the programs that it starts."""
import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
    from jsonschema import Draft7Validator
except ImportError as why:
    print(f"skipped: python3-yaml and python3-jsonschema are wanted: {why}")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import controllers  # noqa: E402
import facts  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402

K8S = facts.ROOT / "k8s"
TRAINERS = (*controllers.RUNTIMES, "TrainJob")  # tests/k8s/trainer checks them by their CRDs; the JobSet is checked here
OUR_SCHEMAS = facts.ROOT / "tests/k8s/schemas"
CORES = ("kubernetes-1.29-standalone-strict", "kubernetes-1.31-standalone-strict")


def kustomizations(kind):
    return sorted(path.parent for path in K8S.rglob("kustomization.yaml") if f"kind: {kind}\n" in path.read_text())


OVERLAYS = kustomizations("Kustomization")


NO_SCHEMA = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")  # first_test.py looks at them


def label(folder):
    return str(folder.relative_to(K8S))


@functools.cache
def rendered(folder):
    docs = render.kustomize(folder)
    return docs + render.created(docs) + controllers.trainjob_jobsets(docs)


@functools.cache
def schema(folder, group_version, kind, operator=""):
    group, _, version = group_version.rpartition("/")
    name = "-".join(filter(None, (kind.lower(), group.split(".")[0], version))) + operator + ".json"
    places = pathlib.Path(facts.FOLDER) / "schemas" / folder, OUR_SCHEMAS
    found = [path for path in (place / name for place in places) if path.exists()]
    return Draft7Validator(json.loads(found[0].read_text())) if found else None


def schemas_of(doc):
    key = doc["apiVersion"], doc["kind"]
    if doc["kind"] == "TFJob":  # the oldest and the newest operator that we say it runs under
        return [(f"TFJob {v}", schema("crds", *key, f"@operator-{v}")) for v in ("v1.7.0", "v1.8.1", "v1.9.0")]
    custom = schema("crds", *key)
    return [("crds", custom)] if custom else [(core, schema(core, *key)) for core in CORES]


@render.wanted
class OverlaysTest(unittest.TestCase):
    def each(self, check):
        self.assertGreater(len(OVERLAYS), 8)
        for folder in OVERLAYS:
            with self.subTest(overlay=label(folder)):
                check(folder, rendered(folder))

    @facts.wanted
    def test_every_overlay_passes_the_schemas(self):
        def check(_, docs):
            for doc in docs:
                if doc["kind"] in (*TRAINERS, *NO_SCHEMA):
                    continue
                for name, validator in schemas_of(doc):
                    self.assertIsNotNone(validator, f"{rules.title(doc)}: no schema in {name}")
                    self.assertEqual([f"{name}: {'.'.join(map(str, e.absolute_path))}: {e.message[:200]}"
                                      for e in validator.iter_errors(doc)], [], rules.title(doc))
        self.each(check)

    def test_every_overlay_keeps_the_rules(self):
        def check(folder, docs):
            upstream = label(folder) == "tfjob/overlays/dist-mnist"  # as the operator's own example is
            wanted = [rule for rule in rules.RULES if not upstream or rule not in rules.OURS]
            self.assertEqual(rules.broken(docs, wanted), [])
        self.each(check)

    def test_images_are_pinned_by_digest_as_the_guide_shows(self):
        guide = (facts.ROOT / "docs/guides/kubernetes.md").read_text()
        digest = "sha256:" + "0123456789abcdef" * 4
        images = re.search(r"^images:\n(?:  - .*\n)+", guide, re.M)[0].replace("sha256:...", digest)
        for base in ("nightly", "tfjob/base", "plain/base"):
            docs = render.kustomize(render.overlay_on(self, base, images))
            found = [c["image"] for pod in rules.pods(docs + render.created(docs)) for c in pod.containers]
            self.assertGreater(len(found), 1)
            self.assertEqual([image for image in found if not image.endswith("@" + digest)], [], base)

    def test_each_says_which_level_of_pod_security_it_passes(self):
        def check(folder, docs):
            said = re.findall(r"^# Pod Security: (\w+)", (folder / "kustomization.yaml").read_text(), re.M)
            self.assertEqual(said, [rules.pod_security(docs)])
        self.each(check)

    def test_a_namespace_of_level_restricted_admits_each_but_those_in_the_hosts_network(self):
        beyond = {label(folder) for folder in OVERLAYS if rules.pod_security(rendered(folder)) != "restricted"}
        self.assertEqual(beyond, {"plain/hosts", *(f"plain/overlays/hosts{name}" for name in ("", "-monitored", "-tls"))})

    def test_where_a_secret_is_wanted_every_pod_wants_it(self):
        seen = 0
        for folder in OVERLAYS:
            for name, component in (("gradwire-token", "token"), ("gradwire-tls", "tls")):
                given = any(component == pathlib.Path(line).name
                            for line in yaml.safe_load((folder / "kustomization.yaml").read_text()).get("components", []))
                for pod in rules.pods(rendered(folder)) if given else ():
                    with self.subTest(overlay=label(folder), pod=pod.where, secret=name):
                        self.assertIn(("Secret", name), set(rules.referenced(pod)))
                        mounted, = (v["name"] for v in pod.spec["volumes"] if v.get("secret", {}).get("secretName") == name)
                        self.assertIn(mounted, [m["name"] for c in pod.spec["containers"] for m in c["volumeMounts"]])
                        seen += 1
        self.assertGreater(seen, 30)

    def test_there_is_a_part_of_each_batch_for_every_worker_of_a_tfjob(self):
        seen = 0
        for folder in OVERLAYS:
            docs = rendered(folder)
            files = [doc["data"]["job.yaml"] for doc in docs if "job.yaml" in doc.get("data", {})]
            for job in (doc for doc in docs if doc["kind"] == "TFJob" and files):
                specs = job["spec"]["tfReplicaSpecs"]
                workers = sum(specs[kind]["replicas"] for kind in ("Chief", "Master", "Worker") if kind in specs)
                with self.subTest(overlay=label(folder), job=job["metadata"]["name"]):
                    self.assertGreaterEqual(yaml.safe_load(files[0])["training"]["microbatches"], workers)
                    seen += 1
        self.assertGreater(seen, 5)

    def test_every_component_is_in_an_overlay(self):
        kept = {K8S / name for name in ("tfjob/components/network", "tfjob/components/quota", "plain/components/network")}  # for overlays of earlier releases
        used = kept | {(folder / line).resolve() for folder in OVERLAYS
                for line in yaml.safe_load((folder / "kustomization.yaml").read_text()).get("components", [])}
        self.assertEqual([label(c) for c in kustomizations("Component") if c not in used], [])

    def test_the_readme_tells_of_every_overlay_and_component(self):
        text = (K8S / "README.md").read_text()
        for folder in OVERLAYS + kustomizations("Component"):
            self.assertTrue(f"`{label(folder)}`" in text, label(folder))

    # ---- what the pods would run ----

    def own_env(self, pod):
        return facts.container_env(pod.spec["containers"][0], 0, pod.labels)

    def environment(self, pod):
        """As the operator, or the Job's controller, makes it for the first pod."""
        if pod.owner["kind"] != "TFJob":
            indexed = pod.owner["spec"].get("completionMode") == "Indexed" or pod.owner["kind"] != "Job"
            return facts.environment(JOB_COMPLETION_INDEX="0" if indexed else None, **self.own_env(pod))
        spec = pod.owner["spec"]
        replicas = {kind: s.get("replicas", 1) for kind, s in spec["tfReplicaSpecs"].items()}
        return facts.environment(TF_CONFIG=facts.tf_config(
            pod.owner["metadata"]["name"], "team", replicas, pod.where.split(": ")[1], 0,
            dynamic=spec.get("enableDynamicWorker", False)))

    def program(self, pod, command):
        if pod.owner["kind"] == "TFJob":
            return "ps" if pod.where.endswith(": PS") else "worker"
        config = self.own_env(pod).get("TF_CONFIG")
        if config:
            return "ps" if json.loads(config)["task"]["type"] == "ps" else "worker"
        return "ps" if "--role=ps" in command else "worker"

    def programs(self, pod, args):
        """In order; a pod of a TFJob without PS replicas, and a host, has a ps, too."""
        if any("--worker_ips" in arg for arg in args):
            return ["ps", "worker"]
        specs = rules.replica_specs(pod.owner) if pod.owner["kind"] == "TFJob" else {}
        alone = sum(spec.get("replicas", 1) for spec in specs.values()) == 1
        if specs and not alone and "PS" not in specs and not pod.where.endswith(": Evaluator"):
            return ["ps", "worker"]
        return [self.program(pod, args)]

    @facts.wanted
    def test_each_pods_arguments_are_understood(self):
        seen = []

        def check(_, docs):
            for pod in rules.pods(docs):
                container, = pod.spec["containers"]
                if pod.labels.get("app.kubernetes.io/component") in ("preprocess", "nightly"):
                    continue  # no program of ours: preprocess_test.py and nightly_test.py run them
                self.assertNotIn("command", container, "the entrypoint is the image's")
                args = [facts.expand(arg, self.own_env(pod)) for arg in container.get("args", [])]
                got = subprocess.run([facts.ENTRYPOINT, *args, "--print"], env=self.environment(pod), capture_output=True,
                                     text=True)
                self.assertEqual(got.returncode, 0, got.stderr)
                commands = [line.split(" ") for line in got.stdout.splitlines() if not line.startswith("TF_CONFIG=")]
                names = [pathlib.Path(words[0]).name for words in commands]
                self.assertEqual(names, self.programs(pod, args), got.stdout)
                for words in commands:  # a flag that the program does not know is refused before --help is
                    said = subprocess.run([*words, "--help"], capture_output=True, text=True)
                    self.assertEqual(said.returncode, 0, said.stderr)
                    seen.append(words)
        self.each(check)
        self.assertGreater(len(seen), 20)

    def test_the_job_file_trains(self):
        config, = (doc for doc in rendered(K8S / "job") if doc["kind"] == "ConfigMap")
        with tempfile.TemporaryDirectory() as tmp:
            job = pathlib.Path(tmp) / "job.yaml"
            job.write_text(config["data"]["job.yaml"])
            got = subprocess.run([facts.ENTRYPOINT, f"--job={job}", f"--output={tmp}/out", "--epochs=1", "--batch_size", "16",
                                  "--set=data.synthetic_train_rows=64"], env=facts.environment(), capture_output=True, text=True)
            self.assertEqual(got.returncode, 0, got.stderr)
            summary = json.loads((pathlib.Path(tmp) / "out/summary.json").read_text())
            self.assertEqual((summary["status"], summary["steps"], summary["epochs"]), ("done", 4, 1))


if __name__ == "__main__":
    unittest.main()
