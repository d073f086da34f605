#!/usr/bin/env python3
# timeout: 1800
"""Every rendered TFJob, and every golden case, through the training-operator's own code, of each version that we say we run
under: it takes them, changes nothing that they say, and creates pods whose TF_CONFIG facts.py expects, and Services of the
names in it; each pod's TF_CONFIG tells our programs who they are. When pods come and go the operator does what controllers.py
says. If there is an image, containers of it run: the operator's pods, when the operator makes them.

The operator is a Go module: build.py compiles its code, main.go is around it."""
import json
import pathlib
import random
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
import build  # noqa: E402
import controllers  # noqa: E402
import facts  # noqa: E402
import pods  # noqa: E402
import real  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402
from cluster import SHORT, Case  # noqa: E402
from controllers import Seen  # noqa: E402
from said import said_again  # noqa: E402

NAMESPACE = "team"
NO_JOB = "/no/such/job.yaml"
TOKEN = {"gradwire-token": {"token": "0123456789abcdef0123456789abcdef\n"}}
SMALL = ["--set=data.synthetic_train_rows=20000", "--epochs=2"]


def overlays():
    """(overlay, TFJob), as it is when it was applied to a namespace."""
    for folder in render.overlays():
        docs = render.kustomize(folder)
        for job in rules.of_kind(docs + render.created(docs), "TFJob"):
            job["metadata"]["namespace"] = NAMESPACE
            yield str(folder.relative_to(facts.ROOT / "k8s")), job


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


def number(version):
    """As controllers.py has it."""
    return tuple(map(int, version[1:].split(".")))


wants_go = facts.skip_without(render.go(), "Go is not there")


@wants_go
@render.wanted
@facts.wanted
class OperatorTest(Case):
    def each_version(self, check):
        for version in build.FLAGS:
            with self.subTest(operator=version):
                check(version)

    def taken(self, version, job, domain=""):
        """The operator's answer to a new TFJob, resumed where it is suspended: then it has no pod before."""
        operator = real.operator(version, domain)
        answer = operator.reconcile(job)
        self.assertNotIn("refused", answer)
        self.assertEqual(list(said_again(job, answer["job"])), [])
        policy = job["spec"].get("runPolicy", {})
        if not policy.get("suspend"):
            self.assertNotIn("error", answer)
            return answer
        status = controllers.suspended(job, controllers.Status(), number(version))
        self.assertEqual((real.condition(answer["status"]), answer["pods"]), (status.condition, {}))
        resumed = {**job, "spec": {**job["spec"], "runPolicy": {**policy, "suspend": False}}}
        return operator.reconcile(resumed, answer["status"])

    def identity(self, config, kind, index, dynamic, lone):
        """The last line of the pod's program, without a job file."""
        env = facts.environment(TF_CONFIG=config)
        got = subprocess.run([facts.ENTRYPOINT, f"--job={NO_JOB}"], env=env,
                             capture_output=True, text=True)
        line = got.stderr.strip().splitlines()[-1]
        who = {"chief": "chief", "master": "chief", "evaluator": "evaluator"}.get(kind, f"{kind} {index}")
        says = f"error {who}: job file {NO_JOB}: No such file"
        if dynamic and kind in ("chief", "evaluator"):
            says = f"with dynamic workers TF_CONFIG does not list the ps for this {kind}: remove the Chief replica"
        elif lone:
            says = f"error worker 0: job file {NO_JOB}: No such file"
        self.assertEqual((got.returncode, says in line), (2, True), f"{line}: {says} is wanted")

    def has_ps(self, config, kind, index):
        """A pod of a job without PS replicas: which of its two programs comes first to say who it is is not certain."""
        cluster = json.loads(config)["cluster"]
        got = subprocess.run([facts.ENTRYPOINT, f"--job={NO_JOB}", "--print"], env=facts.environment(TF_CONFIG=config),
                             capture_output=True, text=True)
        given, ps, worker = got.stdout.splitlines()
        number = index if kind == "chief" else index + len(cluster.get("chief", []))
        self.assertEqual(len(json.loads(given.removeprefix("TF_CONFIG="))["cluster"]["ps"]),
                         len(cluster["worker"]) + len(cluster.get("chief", [])))
        self.assertTrue(ps.endswith(f" --job_name=ps --task_index={number}") and "/worker " in worker, got.stdout)

    def test_every_overlay_is_taken_as_it_is_and_each_pod_knows_who_it_is(self):
        jobs = list(overlays())
        self.assertGreater(len(jobs), 10)

        def check(version):
            seen = 0
            for folder, job in jobs:
                with self.subTest(overlay=folder):
                    answer = self.taken(version, job)
                    replicas = {kind: spec.get("replicas", 1) for kind, spec in job["spec"]["tfReplicaSpecs"].items()}
                    dynamic = job["spec"].get("enableDynamicWorker", False)
                    self.assertEqual(len(answer["pods"]), sum(replicas.values()))
                    for kind, i in ((kind, i) for kind, n in replicas.items() for i in range(n)):
                        config = tf_config(answer["pods"][f"{job['metadata']['name']}-{kind.lower()}-{i}"])
                        self.assertEqual(config, facts.tf_config(job["metadata"]["name"], NAMESPACE, replicas, kind, i,
                                                                 dynamic=dynamic))
                        if config and not dynamic and "PS" not in replicas:
                            self.has_ps(config, kind.lower(), i)
                        else:
                            self.identity(config, kind.lower(), i, dynamic, config is None)
                        seen += 1
                    self.services_find_their_pods(answer)
            self.assertGreater(seen, 40)
        self.each_version(check)

    def test_each_pod_of_a_pytorch_job_is_refused_unless_it_is_the_only_one(self):
        def pods_of(version, policy, **replicas):
            container = {"name": "pytorch", "image": "localhost/gradwire:0.1.0"}
            specs = {kind: {"replicas": n, "template": {"spec": {"containers": [container]}}} for kind, n in replicas.items()}
            return real.operator(version).pytorch_pods(
                {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j", "namespace": NAMESPACE},
                 "spec": {"pytorchReplicaSpecs": specs, **policy}})

        def entrypoint(pod):
            env = {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}
            return subprocess.run([facts.ENTRYPOINT, "--print"], env=facts.environment(**env), capture_output=True, text=True)

        def check(version):
            for policy, replicas in (({}, {"Master": 1, "Worker": 2}),
                                     ({"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}}, {"Worker": 2})):
                made = pods_of(version, policy, **replicas)
                self.assertEqual(len(made), sum(replicas.values()))
                for name, pod in made.items():
                    got = entrypoint(pod)
                    self.assertEqual((got.returncode, "k8s/tfjob/overlays/no-ps" in got.stderr), (2, True), f"{name}: {got}")
            alone, = pods_of(version, {}, Master=1).values()
            self.assertEqual(entrypoint(alone).returncode, 0)
        self.each_version(check)

    def test_every_overlay_of_a_tfjob_is_run_in_containers(self):
        apart = {"tfjob/base", "tfjob/overlays/dist-mnist", "tfjob/overlays/one-worker", "tfjob/overlays/secure",
                 "tfjob/overlays/openshift"}  # containers_test.py runs it: its users are not the operator's
        self.assertEqual({folder for folder, _ in overlays()}, apart | {overlay for _, overlay in RUNS})

    def services_find_their_pods(self, answer):
        """Each name in a TF_CONFIG is a headless Service's, on a port of it, and that finds the pod of its name alone."""
        services = answer["services"]
        self.assertEqual(set(services), set(answer["pods"]))
        for name, service in services.items():
            spec = service["spec"]
            self.assertEqual((spec["clusterIP"], spec.get("publishNotReadyAddresses", False)), ("None", False))
            self.assertEqual([pod for pod, made in answer["pods"].items()
                              if spec["selector"].items() <= made["metadata"]["labels"].items()], [name])
        for config in filter(None, map(tf_config, answer["pods"].values())):
            for name, port in re.findall(r'"([^".]+)\.[^":]+:(\d+)"', config):
                self.assertIn(int(port), [p["port"] for p in services[name]["spec"]["ports"]])

    def test_the_golden_cases_are_what_the_operator_makes(self):
        cases = [case for case in facts.cases() if case["in"].get("sparse_key", "cluster") == "cluster"]  # the other: 1.6

        def check(version):
            for case in cases:
                with self.subTest(case=case["name"]):
                    answer = self.taken(version, golden_job(case), case["in"].get("domain", ""))
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
            for job, says in cases:
                with self.subTest(says=says):
                    self.assertRegex(real.operator(version).reconcile(job).get("refused", "nothing"), says)
        self.each_version(check)

    def test_what_is_not_said_is_as_we_say_it_is(self):
        """docs/reference/kubernetes.md and rules.py rely on these defaults."""
        def check(version):
            answer = self.taken(version, golden_job(facts.cases()[2]))
            specs = answer["job"]["spec"]["tfReplicaSpecs"]
            self.assertEqual(answer["job"]["spec"]["runPolicy"]["cleanPodPolicy"], "None")
            self.assertEqual({spec["restartPolicy"] for spec in specs.values()}, {"Never"})
            self.assertEqual(specs["PS"]["template"]["spec"]["containers"][0]["ports"],
                             [{"name": "tfjob-port", "containerPort": 2222}])
        self.each_version(check)


# ---- pods come and go ----

CODES = (1, 2, 127, 128, 130, 137, 138, 143)
LEADERS = ({}, {"Chief": 1}, {"Master": 1}, {"Chief": 1, "Evaluator": 1})


def some_job(r):
    """A TFJob, with any policies."""
    replicas = {**r.choice(LEADERS), "PS": r.randint(1, 2), "Worker": r.randint(1, 3)}
    job = golden_job({"in": {"job": "walk", "ns": NAMESPACE, "replicas": replicas, "dynamic": r.random() < 0.3}})
    one = r.choice(("Never", "OnFailure", "Always", "ExitCode"))
    for spec in job["spec"]["tfReplicaSpecs"].values():
        spec["restartPolicy"] = one if r.random() < 0.7 else r.choice(("Never", "OnFailure", "Always", "ExitCode"))
    job["spec"]["successPolicy"] = r.choice(("", "", "AllWorkers"))
    job["spec"]["runPolicy"] = {"cleanPodPolicy": r.choice(("None", "Running", "All")),
                                **r.choice(({}, {}, {"backoffLimit": 2}, {"backoffLimit": 0})),
                                **r.choice(({}, {"ttlSecondsAfterFinished": 3600}))}
    return job


def next_of(pod, r):
    """A possible next state of a pod, or None: it is gone."""
    if pod.deleting:
        return None if r.random() < 0.5 else pod
    if pod.phase == "Pending":
        return r.choice((Seen(*pod.key),) * 8 + (Seen(*pod.key, "Failed"),))  # evicted before it began
    if pod.phase == "Running":
        return r.choice((pod, Seen(*pod.key, "Succeeded", 0), Seen(*pod.key, "Failed", r.choice(CODES)),
                         Seen(*pod.key, restarts=pod.restarts + 1), Seen(*pod.key, restarts=pod.restarts, deleting=True)))
    return pod


def edit(job, r):
    """A change that a user makes meanwhile."""
    policy, worker = job["spec"]["runPolicy"], job["spec"]["tfReplicaSpecs"]["Worker"]
    if r.random() < 0.06 or policy.get("suspend"):
        policy["suspend"] = not policy.get("suspend")
    if r.random() < 0.06:
        worker["replicas"] = r.randint(0, 3)


def said(condition):
    """The operator says Running when the leader does, and gives other reasons."""
    words = {controllers.RUNNING: "goes on", controllers.CREATED: "goes on"}
    return words.get(condition, condition.split(":")[0])


@wants_go
@facts.wanted
class ControllerTest(unittest.TestCase):
    WALKS, STEPS = 30 if SHORT else 100, 14

    def walk(self, version, seed):
        """One job's life, told to both. Returns its last condition."""
        r = random.Random(seed)
        job, live, status = some_job(r), {}, controllers.Status()
        operator = real.Controller(real.operator(version), job)
        told = []
        for _ in range(self.STEPS):
            pods_seen = list(live.values())
            ours, theirs = controllers.tfjob_plan(job, pods_seen, status, operator=number(version)), operator.plan(pods_seen)
            told.append(f"{status} {pods_seen}")
            if operator.error and controllers.beyond_sparse(job, ours):
                self.assertIn("panic: runtime error: index out of range", operator.error)
                return "panic"
            self.assertEqual((said(ours.status.condition), set(ours.delete), set(ours.create)),
                             (said(theirs.status.condition), set(theirs.delete), set(theirs.create)),
                             f"{job['spec']}\n" + "\n".join(told))
            status = ours.status
            for key in ours.delete:
                pod = live.pop(key)
                if pod.phase == "Running":
                    live[key] = Seen(*key, restarts=pod.restarts, deleting=True)
            live.update({key: Seen(*key, "Pending") for key in ours.create})
            for key in r.sample(sorted(live), min(len(live), r.choice((0, 1, 2, 9)))):
                pod = next_of(live.pop(key), r)
                live.update({key: pod} if pod else {})
            edit(job, r)
        return said(status.condition)

    def test_the_controllers_of_these_tests_do_what_the_operator_does(self):
        for version in build.FLAGS:
            ends = set()
            for seed in range(self.WALKS):
                with self.subTest(operator=version, seed=seed):
                    ends.add(self.walk(version, seed))
            self.assertLessEqual({"Succeeded", "Failed"} | (set() if SHORT else {"panic"}), ends)

    SHORT_FOR = {"apis": "apis/kubeflow.org/v1", "common": "controller.v1/common", "tensorflow": "controller.v1/tensorflow",
                 "train": "util/train"}

    def test_each_function_that_is_cited_is_in_each_version(self):
        files = (pathlib.Path(controllers.__file__), pathlib.Path(controllers.__file__).with_name("controllers_test.py"))
        cited = {named for path in files
                 for named in re.findall(r"\b(apis|common|core|tensorflow|train|util)/([\w/]+\.go) (\w+)", path.read_text())}
        self.assertGreater(len(cited), 15)
        for version in build.FLAGS:
            package = build.folder(version) / "pkg"
            for short, path, function in sorted(cited):
                with self.subTest(operator=version, cited=f"{short}/{path} {function}"):
                    text = (package / self.SHORT_FOR.get(short, short) / path).read_text()
                    self.assertRegex(text, re.compile(rf"^func (\([^)]*\) )?{function}\(", re.M))

    def test_a_deadline_is_counted_from_the_start(self):
        for version in build.FLAGS:
            with self.subTest(operator=version):
                job = golden_job(facts.cases()[2])
                job["spec"]["runPolicy"] = {"activeDeadlineSeconds": 3600}
                operator = real.Controller(real.operator(version), job)
                started = [Seen(*key) for key in operator.plan([]).create]
                self.assertEqual(said(operator.plan(started).status.condition), "goes on")
                operator.status["startTime"] = real.CREATED
                plan = operator.plan(started)
                self.assertIn("was active longer than specified deadline", plan.status.condition)
                self.assertEqual(set(plan.delete), {pod.key for pod in started})


    def test_a_finished_job_that_is_applied_again_starts_nothing_until_it_was_deleted(self):
        """As docs/reference/kubernetes.md says: also if its template or its replicas were changed."""
        for version, code in ((version, code) for version in build.FLAGS for code in (0, 1)):
            with self.subTest(operator=version, code=code):
                job = golden_job(facts.cases()[2])
                operator = real.Controller(real.operator(version), job)
                started = operator.plan([]).create
                self.assertTrue(started)
                phase = "Failed" if code else "Succeeded"
                ended = [Seen(*key, phase, code) for key in started]
                self.assertIn(phase, operator.plan(ended).status.condition)
                for spec in job["spec"]["tfReplicaSpecs"].values():
                    spec["template"]["spec"]["containers"][0]["args"] = ["--epochs=20"]
                    spec["replicas"] += 1
                for seen in (ended, [], ended):  # its pods may be gone
                    plan = operator.plan(seen)
                    self.assertEqual(plan.create, ())
                    self.assertIn(phase, plan.status.condition)
                self.assertGreater(len(real.Controller(real.operator(version), job).plan([]).create), len(started))

    def test_a_resumed_job_has_its_deadline_anew_but_under_1_7_with_a_ttl(self):
        """As docs/reference/kubernetes.md says."""
        for version, ttl in ((version, ttl) for version in build.FLAGS for ttl in ({}, {"ttlSecondsAfterFinished": 60})):
            with self.subTest(operator=version, **ttl):
                job, policy = golden_job(facts.cases()[2]), {"activeDeadlineSeconds": 3600, **ttl}
                job["spec"]["runPolicy"] = policy
                operator = real.Controller(real.operator(version), job)
                started = [Seen(*key) for key in operator.plan([]).create]
                operator.status["startTime"] = real.CREATED
                policy["suspend"] = True
                self.assertEqual(set(operator.plan(started).delete), {pod.key for pod in started})
                policy["suspend"] = False
                self.assertEqual("deadline" in operator.plan([]).status.condition, version == "v1.7" and bool(ttl))


# ---- containers ----

FEW = ["--set=data.synthetic_train_rows=2000", "--set=data.synthetic_eval_rows=100", "--epochs=2"]
RUNS = (("v1.7", "tfjob/overlays/evaluator"), ("v1.7", "tfjob/overlays/kueue"), ("v1.7", "tfjob/overlays/one-claim"),
        ("v1.7", "tfjob/overlays/tls"),
        ("v1.8", "tfjob/overlays/dynamic"), ("v1.8", "tfjob/overlays/monitored"), ("v1.8", "nightly"),
        ("v1.9", "tfjob/overlays/gang"), ("v1.9", "tfjob/overlays/local-data"), ("v1.9", "tfjob/overlays/production"),
        ("v1.7", "tfjob/overlays/no-ps"), ("v1.9", "tfjob/overlays/data"))


class OperatorsCluster(pods.Cluster):
    """A TFJob's pods are those that the operator makes, when it makes them."""

    def __init__(self, version, case, docs, args, secrets):
        super().__init__(case, docs + render.created(docs), args, secrets, NAMESPACE)
        self.controllers = {}
        for owner in self.owners:
            owner.doc["metadata"]["namespace"] = NAMESPACE
            self.controllers[owner.name] = real.Controller(real.operator(version), owner.doc)

    def plan(self, owner, mine):
        return self.controllers[owner.name].plan([pod.seen() for pod in mine])

    def pod_of(self, owner, kind, index):
        pod, made = super().pod_of(owner, kind, index), self.controllers[owner.name].pods[kind, index]
        self.case.assertEqual(pod.name, made["metadata"]["name"])
        self.case.assertIn(pod.name, self.controllers[owner.name].services)  # which gives it a name in DNS
        pod.labels, pod.annotations = made["metadata"]["labels"], made["metadata"].get("annotations", {})
        pod.spec = made["spec"]
        return pod


@pods.wanted
@wants_go
@render.wanted
class OperatorContainersTest(Case):
    IN_MEMORY = False

    def runs(self, version, overlay, args=(), secrets=(), deadline_s=180, meanwhile=None):
        """A suspended job has no pods; then its queue has room."""
        cluster = OperatorsCluster(version, self, render.kustomize(facts.ROOT / "k8s" / overlay), args, secrets)
        cluster.start_all()
        policy = cluster.owners[0].doc["spec"].get("runPolicy", {})
        self.assertEqual(bool(cluster.pods), not policy.pop("suspend", False))
        if meanwhile:
            meanwhile(cluster)
        self.assertEqual(cluster.run(deadline_s), "Succeeded", cluster.all_logs())
        return cluster

    def summary(self):
        return json.loads((self.tmp / "volumes/gradwire-output/summary.json").read_text())

    def all_end_with_0(self, cluster):
        self.assertEqual(set(cluster.wait_all(60).values()), {0}, cluster.all_logs())

    def the_rest_is_removed(self, cluster):
        """The operator's next look, cleanPodPolicy Running: on a busy machine a worker may have come when all was done."""
        cluster.clean()
        self.assertLessEqual(set(cluster.wait_all(60).values()), {0, 143}, cluster.all_logs())

    def tls_secret(self):
        """As docs/guides/kubernetes.md makes it."""
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        names = f"subjectAltName=DNS:*.{NAMESPACE}.svc\nextendedKeyUsage=serverAuth,clientAuth\n"
        (self.tmp / "tls.ext").write_text(names)
        for words in (["req", "-x509", *key, "-days", "2", "-subj", "/CN=training", "-keyout", "ca.key", "-out", "ca.crt"],
                      ["req", *key, "-subj", "/CN=gradwire", "-keyout", "tls.key", "-out", "tls.csr"],
                      ["x509", "-req", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                       "-extfile", "tls.ext", "-out", "tls.crt"]):
            subprocess.run(["openssl", *words], cwd=self.tmp, check=True, capture_output=True)
        return {name: (self.tmp / name).read_text() for name in ("tls.crt", "tls.key", "ca.crt")}

    def runs_to_success(self, version, overlay):
        secrets = {**TOKEN, "registry": {}, **({"gradwire-tls": self.tls_secret()} if overlay.endswith("/tls") else {})}
        cluster = self.runs(version, overlay, FEW, secrets)
        listed = sum(kind in ("Chief", "Worker") for kind, _ in cluster.controllers["mnist"].pods)
        summary = self.summary()
        self.assertEqual((summary["status"], summary["ps"]), ("done", listed if overlay.endswith("/no-ps") else 2))
        if overlay.endswith("/evaluator"):
            self.assertTrue(summary["evaluator"]["final"])
        late = overlay.endswith("/dynamic")  # worker 0 knows itself alone, and does not wait for the others
        self.assertIn(summary["workers"], range(1, listed + 1) if late else [listed])
        self.the_rest_is_removed(cluster)

    def test_operator_1_7_runs_the_base(self):
        cluster = self.runs("v1.7", "tfjob/base", SMALL)
        self.the_rest_is_removed(cluster)
        summary = self.summary()
        self.assertEqual((summary["status"], summary["ps"], summary["workers"]), ("done", 2, 3))
        self.assertIsNone(summary["evaluator"])

    def test_operator_1_8_runs_the_upstream_example_as_it_is(self):
        cluster = self.runs("v1.8", "tfjob/overlays/dist-mnist", deadline_s=240)
        self.assertEqual(set(cluster.pods), {"dist-mnist-chief-0", "dist-mnist-ps-0", "dist-mnist-worker-0",
                                             "dist-mnist-worker-1"})
        self.all_end_with_0(cluster)

    def test_operator_1_9_runs_one_worker_without_tf_config(self):
        cluster = self.runs("v1.9", "tfjob/overlays/one-worker", SMALL)
        self.assertEqual([tf_config(pod) for pod in cluster.controllers["mnist"].pods.values()], [None])
        self.assertEqual((self.summary()["status"], self.summary()["workers"]), ("done", 1))
        self.all_end_with_0(cluster)

    def test_operator_1_9_makes_a_killed_ps_anew_and_the_job_goes_on(self):
        def kill(cluster):
            ps = cluster.pods["mnist-ps-1"]
            cluster.until("a cut", lambda: list((self.tmp / "volumes/gradwire-output").glob("checkpoints/cut-*/manifest.gw")))
            cluster.kill(ps)
            cluster.until("it is made anew", lambda: ps.starts == 2)
        cluster = self.runs("v1.9", "tfjob/overlays/secure",
                            [*SMALL, "--epochs=6", "--set=checkpoint.every_steps=20", "--set=checkpoint.every_seconds=0"],
                            TOKEN, meanwhile=kill)
        summary = self.summary()
        self.assertEqual((summary["status"], summary["ps"], summary["workers"], summary["exact"]), ("done", 2, 3, True))
        self.the_rest_is_removed(cluster)


for made in RUNS:
    setattr(OperatorContainersTest, "test_operator_{}_runs_{}".format(*(re.sub(r"\W", "_", word) for word in made)),
            lambda self, made=made: self.runs_to_success(*made))

if __name__ == "__main__":
    unittest.main(verbosity=2)
