#!/usr/bin/env python3
# timeout: 1800
"""Every rendered TFJob, and every golden case, through the training-operator's own code, of each version that we say we run
under: it takes them, changes nothing that they say, and gives each pod the TF_CONFIG that facts.py expects; and each of
these, as it came out of the operator, tells our programs who they are. Where an image is there, containers of it run with
them.

The operator is a Go module: its code is built here (main.go, a minute or two for the first time), from Go's proxy."""
import functools
import json
import os
import pathlib
import subprocess
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
import facts  # noqa: E402
import pods  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402
from cluster import Case  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
VERSIONS = {"v1.7": ["-modfile=v1.7.mod", "-tags=operator_1_7"], "v1.8": ["-modfile=v1.8.mod"], "v1.9": []}
NAMESPACE = "team"
NO_JOB = "/no/such/job.yaml"
SMALL = ["--set=data.synthetic_train_rows=20000", "--epochs=2"]


@functools.cache
def program(version):
    """The path of what has this version's code; raises SkipTest where it cannot be had."""
    go = render.go()
    out = facts.BUILD / "operator" / version
    env = {**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
    got = subprocess.run([go, "build", *VERSIONS[version], "-o", out, "."], cwd=HERE, env=env, capture_output=True, text=True)
    if got.returncode == 0:
        return out
    proxy = subprocess.run([go, "list", "-m", "-versions", "sigs.k8s.io/yaml"], cwd=HERE, capture_output=True, text=True)
    if proxy.returncode == 0:
        raise AssertionError(got.stderr)
    why = f"no Go proxy is to be had: {proxy.stderr.strip().splitlines()[-1]}"
    print(f"skipping: operator {version}: {why}", file=sys.stderr)
    raise unittest.SkipTest(why)


def take(version, jobs, domain=""):
    """The operator's answer to each of these objects."""
    texts = [json.dumps(job) for job in jobs]
    env = {**os.environ, "CUSTOM_CLUSTER_DOMAIN": domain}
    got = subprocess.run([program(version)], input=json.dumps(texts), env=env, capture_output=True, text=True)
    if got.returncode:
        raise AssertionError(got.stderr)
    return json.loads(got.stdout)


def overlays():
    """(overlay, TFJob), as it is when it was applied to a namespace."""
    for path in sorted((facts.ROOT / "k8s").rglob("kustomization.yaml")):
        if "kind: Kustomization\n" not in path.read_text():
            continue
        docs = render.kustomize(path.parent)
        for job in rules.of_kind(docs + render.created(docs), "TFJob"):
            job["metadata"]["namespace"] = NAMESPACE
            yield str(path.parent.relative_to(facts.ROOT / "k8s")), job


def golden_job(case):
    """A TFJob of a golden case."""
    given = case["in"]
    ports = given.get("ports") or {}

    def replica(kind, count):
        container = {"name": "tensorflow", "image": "localhost/gradwire:0.1.0"}
        if kind in ports:
            container["ports"] = [{"name": "tfjob-port", "containerPort": ports[kind]}]
        return {"replicas": count, "template": {"spec": {"containers": [container]}}}
    spec = {"tfReplicaSpecs": {kind: replica(kind, count) for kind, count in given["replicas"].items()}}
    if given.get("dynamic"):
        spec["enableDynamicWorker"] = True
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": given["job"], "namespace": given["ns"]},
            "spec": spec}


def tf_config(template):
    """The last one wins, as in a pod."""
    container = next(c for c in template["spec"]["containers"] if c["name"] == "tensorflow")
    said = [env.get("value") for env in container.get("env", []) if env["name"] == "TF_CONFIG"]
    return said[-1] if said else None


def said_again(wanted, got, where=""):
    """Where `got` does not say what `wanted` says. Quantities are written in the operator's way."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            if key not in got and value not in ("", [], {}):
                yield f"{where}.{key} is gone"
            elif key in got:
                yield from said_again(value, got[key], f"{where}.{key}")
    elif isinstance(wanted, list):
        if len(wanted) != len(got):
            yield f"{where}: {len(wanted)} are {len(got)}"
        for i, value in enumerate(wanted[:len(got)]):
            yield from said_again(value, got[i], f"{where}[{i}]")
    elif str(wanted) != str(got) and (".requests." not in where and ".limits." not in where):
        yield f"{where}: {wanted!r} became {got!r}"


wants_go = facts.skip_without(render.go(), "Go is not there")


@wants_go
@render.wanted
@facts.wanted
class OperatorTest(Case):
    def each_version(self, check):
        for version in VERSIONS:
            with self.subTest(operator=version):
                check(version)

    def identity(self, config, kind, index, dynamic, lone):
        """What the pod's program says last, without a job file."""
        env = facts.environment(TF_CONFIG=config)
        got = subprocess.run([facts.ENTRYPOINT, f"--job={NO_JOB}"], env=env,
                             capture_output=True, text=True)
        line = got.stderr.strip().splitlines()[-1]
        who = {"chief": "chief", "master": "chief", "evaluator": "evaluator"}.get(kind, f"{kind} {index}")
        says = f"error {who}: job file {NO_JOB}: No such file"
        if dynamic and kind in ("chief", "evaluator"):
            says = f"under dynamic workers TF_CONFIG does not name the ps to this {kind}: leave the Chief replica out"
        elif lone:
            says = f"error worker 0: job file {NO_JOB}: No such file"
        self.assertEqual((got.returncode, says in line), (2, True), f"{line}: {says} is wanted")

    def test_every_overlay_is_taken_as_it_is_and_each_pod_knows_who_it_is(self):
        jobs = list(overlays())
        self.assertGreater(len(jobs), 10)

        def check(version):
            seen = 0
            for (folder, job), answer in zip(jobs, take(version, [job for _, job in jobs])):
                with self.subTest(overlay=folder):
                    self.assertNotIn("error", answer)
                    self.assertEqual(list(said_again(job, answer["job"])), [])
                    specs = job["spec"]["tfReplicaSpecs"]
                    replicas = {kind: spec.get("replicas", 1) for kind, spec in specs.items()}
                    dynamic = job["spec"].get("enableDynamicWorker", False)
                    self.assertEqual(len(answer["pods"]), sum(replicas.values()))
                    for kind, count in replicas.items():
                        for i in range(count):
                            config = tf_config(answer["pods"][f"{job['metadata']['name']}-{kind.lower()}-{i}"])
                            self.assertEqual(config, facts.tf_config(job["metadata"]["name"], NAMESPACE, replicas, kind, i,
                                                                     dynamic=dynamic))
                            self.identity(config, kind.lower(), i, dynamic, config is None)
                            seen += 1
            self.assertGreater(seen, 40)
        self.each_version(check)

    def test_the_golden_cases_are_what_the_operator_makes(self):
        cases = [case for case in facts.cases() if case["in"].get("sparse_key", "cluster") == "cluster"]  # the other: 1.6

        def check(version):
            for case in cases:
                with self.subTest(case=case["name"]):
                    answer, = take(version, [golden_job(case)], case["in"].get("domain", ""))
                    self.assertNotIn("error", answer)
                    self.assertEqual({name: tf_config(pod) for name, pod in answer["pods"].items()}, case["pods"])
        self.each_version(check)

    def test_what_the_operator_refuses_is_refused_here(self):
        """That it is its validation that runs, and not none."""
        def broken(change):
            job = golden_job(facts.cases()[2])
            change(job, job["spec"]["tfReplicaSpecs"])
            return job

        def container(specs):
            return specs["Worker"]["template"]["spec"]["containers"][0]
        cases = ((broken(lambda job, specs: container(specs).update(name="main")), "tensorflow"),
                 (broken(lambda job, specs: container(specs).pop("image")), "[Ii]mage"),
                 (broken(lambda job, specs: specs.update(Chief=specs["Worker"], Master=specs["Worker"])), "more than 1"),
                 (broken(lambda job, specs: job["metadata"].update(name="1mnist")), "name"),
                 (broken(lambda job, specs: job["spec"].update(runPolices={})), 'unknown field "runPolices"'))

        def check(version):
            for (job, says), answer in zip(cases, take(version, [job for job, _ in cases])):
                with self.subTest(says=says):
                    self.assertRegex(answer.get("error", "nothing"), says)
        self.each_version(check)

    def test_what_is_not_said_is_as_we_say_it_is(self):
        """k8s/README.md and rules.py rest on these defaults."""
        def check(version):
            answer, = take(version, [golden_job(facts.cases()[2])])
            specs = answer["job"]["spec"]["tfReplicaSpecs"]
            self.assertEqual(answer["job"]["spec"]["runPolicy"]["cleanPodPolicy"], "None")
            self.assertEqual({spec["restartPolicy"] for spec in specs.values()}, {"Never"})
            self.assertEqual(specs["PS"]["template"]["spec"]["containers"][0]["ports"],
                             [{"name": "tfjob-port", "containerPort": 2222}])
        self.each_version(check)


@pods.wanted
@wants_go
@render.wanted
@facts.wanted
class OperatorContainersTest(Case):
    IN_MEMORY = False

    def test_containers_run_with_what_came_out_of_the_operator(self):
        docs = render.kustomize(facts.ROOT / "k8s/tfjob/overlays/secure")
        job, = rules.of_kind(docs, "TFJob")
        job["metadata"]["namespace"] = NAMESPACE
        answer, = take("v1.9", [job])

        def made(name, _, __, kind, index, **___):
            return tf_config(answer["pods"][f"{name}-{kind.lower()}-{index}"])
        self.enterContext(unittest.mock.patch.object(facts, "tf_config", made))
        cluster = pods.Cluster(self, [doc for doc in docs if doc["kind"] != "TFJob"] + [answer["job"]], SMALL,
                               {"gradwire-token": {"token": "0123456789abcdef0123456789abcdef\n"}})
        cluster.start_all()
        self.assertEqual(cluster.run(120), "Succeeded", cluster.all_logs())
        summary = json.loads((self.tmp / "volumes/gradwire-output/summary.json").read_text())
        self.assertEqual((summary["status"], summary["ps"], summary["workers"]), ("done", 2, 3))


if __name__ == "__main__":
    unittest.main()
