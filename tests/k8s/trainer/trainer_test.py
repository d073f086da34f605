#!/usr/bin/env python3
# timeout: 1800
"""TrainJobs through the code of Kubeflow Trainer's and JobSet's own controllers, with the checks of their CRDs and webhooks.
The Jobs' pods are made by the tables of controllers.py, and run as containers of the image."""
import copy
import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
import build  # noqa: E402
import controllers  # noqa: E402
import facts  # noqa: E402
import podspec  # noqa: E402
import pods  # noqa: E402
import real  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402
from podcase import SMALL, TOKEN, PodCase, of_kind, overlay  # noqa: E402
from said import said_again  # noqa: E402

NAMESPACE = "team"
TAKEN = (*controllers.RUNTIMES, "TrainJob")  # in the order in which they are applied
COMPLETE = {"conditions": [{"type": "Complete", "status": "True", "reason": "CompletionsReached"}], "succeeded": 1}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": "a pod exited with 2"}]}
ROLES = ("chief", "ps", "node")

wants_go = facts.skip_without(render.go(), "Go is not there")


def overlays():
    return [folder for folder in render.overlays() if of_kinds(render.kustomize(folder), "TrainJob")]


def of_kinds(docs, *kinds):
    return [doc for kind in kinds for doc in docs if doc["kind"] == kind]


def said_condition(job):
    """controllers.py's word for a TrainJob's conditions."""
    said = {c["type"]: c.get("message", "") for c in job.get("status", {}).get("conditions", []) if c["status"] == "True"}
    if "Failed" in said:
        return controllers.failed(said["Failed"])
    words = {"Complete": controllers.SUCCEEDED, "Suspended": controllers.SUSPENDED}
    return next((word for key, word in words.items() if key in said), controllers.RUNNING)


@wants_go
@render.wanted
class TrainerTest(PodCase):
    def given(self, docs):
        made = real.Controllers(self, NAMESPACE)
        made.apply(*of_kinds(docs, *TAKEN))
        self.assertIsNone(made.error)
        return made

    def base(self, change=lambda job, runtime: None):
        docs = overlay("trainer/base")
        change(of_kind(docs, "TrainJob"), of_kind(docs, "ClusterTrainingRuntime"))
        return docs

    def condition(self, made):
        return said_condition(made.of_kind("TrainJob")["mnist"])

    # ---- what is made of it ----

    def test_every_trainjob_becomes_the_jobset_and_the_jobs_of_the_tables(self):
        self.assertGreater(len(overlays()), 1)
        for folder in overlays():
            with self.subTest(overlay=folder.name):
                docs = render.kustomize(folder)
                made = self.given(docs)
                wanted, = controllers.trainjob_jobsets(docs)
                self.assertEqual(wanted["spec"]["failurePolicy"].pop("maxRestarts"), 0)  # which is not written
                self.assertEqual(list(said_again(wanted, made.of_kind("JobSet")["mnist"])), [])
                for doc in controllers.jobset_objects(controllers.trainjob_jobsets(docs)[0]):
                    got = made.of_kind(doc["kind"])[doc["metadata"]["name"]]
                    self.assertEqual(list(said_again(doc, got, doc["metadata"]["name"])), [])
                self.assertEqual(set(made.of_kind("Job")), {f"mnist-{role}-0" for role in ROLES})

    def test_each_function_that_is_cited_is_there(self):
        """In controllers.py and its test."""
        places = {"runtime": build.MODULE.sources("github.com/kubeflow/trainer/v2") / "pkg/runtime",
                  "jobset": build.MODULE.sources("sigs.k8s.io/jobset") / "pkg/controllers"}
        files = [pathlib.Path(controllers.__file__).with_name(name) for name in ("controllers.py", "controllers_test.py")]
        cited = {named for path in files
                 for named in re.findall(r"(?<![\w/])(runtime|jobset)/([\w/]+\.go) (\w+)", path.read_text())}
        self.assertGreater(len(cited), 5)
        for short, path, function in sorted(cited):
            with self.subTest(cited=f"{short}/{path} {function}"):
                self.assertRegex((places[short] / path).read_text(), re.compile(rf"^func (\([^)]*\) )?{function}\(", re.M))

    def names(self, made):
        """The names by which the pods of these Jobs are found: a headless Service chooses them by a label."""
        for job in made.of_kind("Job").values():
            template = job["spec"]["template"]
            service = made.of_kind("Service")[template["spec"]["subdomain"]]["spec"]
            self.assertEqual((service["clusterIP"], service["publishNotReadyAddresses"]), ("None", True))
            self.assertTrue(rules.matches(service["selector"], template["metadata"]["labels"]))
            for i in range(job["spec"]["completions"]):
                yield job, i, f"{job['metadata']['name']}-{i}.{template['spec']['subdomain']}:2222"

    def test_each_pod_knows_itself_and_finds_the_others_whatever_the_job_is_called(self):
        def renamed(job, _):
            job["metadata"]["name"] = "other"
        made, found = self.given(self.base(renamed)), {}
        every = list(self.names(made))
        for job, i, name in every:
            template = job["spec"]["template"]
            place = podspec.Place(name, NAMESPACE, template["metadata"]["labels"], {pods.INDEX_NOTE: str(i)})
            config = json.loads(podspec.environment(template["spec"]["containers"][0], place)["TF_CONFIG"])
            addresses = config["cluster"][config["task"]["type"]]
            own = addresses[config["task"]["index"]] if isinstance(addresses, dict) else addresses[int(config["task"]["index"])]
            self.assertEqual(own, name)
            found.setdefault(config["task"]["type"], []).append(name)
            self.assertEqual(config["cluster"]["ps"], [f"other-ps-0-{i}.other:2222" for i in (0, 1)])
            self.assertEqual(config["cluster"]["chief"], ["other-chief-0-0.other:2222"])
        self.assertEqual({kind: len(of) for kind, of in found.items()}, {"chief": 1, "ps": 2, "worker": 2})
        self.assertEqual(found["ps"], config["cluster"]["ps"])

    def test_numnodes_sets_the_workers_alone(self):
        def five(job, _):
            job["spec"]["trainer"]["numNodes"] = 5

        def none(job, _):
            del job["spec"]["trainer"]
        for change, nodes in ((five, 5), (none, 2)):
            with self.subTest(nodes=nodes):
                made = self.given(self.base(change))
                size = {name: (job["spec"]["completions"], job["spec"]["parallelism"]) for name, job in made.of_kind("Job").items()}
                self.assertEqual(size, {"mnist-chief-0": (1, 1), "mnist-ps-0": (2, 2), "mnist-node-0": (nodes, nodes)})

    def test_another_job_file_and_another_claim_for_a_second_job(self):
        """As docs/guides/trainer.md says."""
        text = re.search(r"^```yaml\n(apiVersion: trainer.*?)^```", (facts.ROOT / "docs/guides/trainer.md").read_text(), re.M | re.S)
        second = render.load(text[1])
        made = self.given(self.base())
        made.apply(second)
        self.assertIsNone(made.error)
        name = second["metadata"]["name"]
        mounted = {role: {v["name"]: v for v in made.job(f"{name}-{role}-0")["spec"]["template"]["spec"]["volumes"]}
                   for role in ROLES}
        self.assertEqual({mounted[role]["job"]["configMap"]["name"] for role in ROLES}, {f"{name}-job"})
        self.assertEqual(mounted["chief"]["output"]["persistentVolumeClaim"]["claimName"], f"{name}-output")
        self.assertIn("emptyDir", mounted["node"]["output"])
        self.assertEqual(mounted["chief"].keys(), mounted["node"].keys())

    # ---- what decides ----

    def test_the_job_has_succeeded_when_the_chief_has_and_not_before(self):
        made = self.given(self.base())
        made.ask(jobs={"mnist-node-0": COMPLETE, "mnist-ps-0": COMPLETE})
        self.assertEqual(self.condition(made), "Running")
        made.ask(jobs={"mnist-chief-0": COMPLETE})
        self.assertEqual(self.condition(made), "Succeeded")
        self.assertIsNone(made.error)

    def test_jobs_that_still_run_after_the_chief_are_deleted(self):
        made = self.given(self.base())
        made.ask(jobs={"mnist-chief-0": COMPLETE})
        self.assertEqual((self.condition(made), set(made.of_kind("Job"))), ("Succeeded", {"mnist-chief-0"}))

    def test_a_job_that_has_failed_fails_the_trainjob(self):
        for role in ROLES:
            with self.subTest(role=role):
                made = self.given(self.base())
                made.ask(jobs={f"mnist-{role}-0": FAILED})
                self.assertRegex(self.condition(made), rf"^Failed: .*mnist-{role}-0")
                self.assertEqual(set(made.of_kind("Job")), {f"mnist-{role}-0"})

    def test_a_trainjob_is_suspended_with_its_jobs_and_goes_on(self):
        docs = self.base()
        made = self.given(docs)
        for suspend, condition in ((True, "Suspended"), (False, "Running")):
            of_kind(docs, "TrainJob")["spec"]["suspend"] = suspend
            made.apply(of_kind(docs, "TrainJob"))
            self.assertEqual((self.condition(made), self.suspended(made), made.error), (condition, {suspend}, None))

    def suspended(self, made):
        return {job["spec"]["suspend"] for job in made.of_kind("Job").values()}

    # ---- what docs/guides/trainer.md says of Trainer 2.1 ----

    def test_numnodes_of_a_job_that_is_there_changes_nothing(self):
        docs = self.base()
        made = self.given(docs)
        of_kind(docs, "TrainJob")["spec"]["trainer"]["numNodes"] = 3
        made.apply(of_kind(docs, "TrainJob"))
        self.assertEqual((made.job("mnist-node-0")["spec"]["completions"], made.error), (2, None))
        of_kind(docs, "TrainJob")["spec"]["suspend"] = True
        made.apply(of_kind(docs, "TrainJob"))
        self.assertEqual(made.job("mnist-node-0")["spec"]["completions"], 2)
        self.assertIn("field is immutable", made.error)

    def test_workers_are_added_and_removed_in_their_job(self):
        made = self.given(self.base())
        job = copy.deepcopy(made.job("mnist-node-0"))
        job["spec"] |= {"completions": 3, "parallelism": 3}
        made.apply(job)
        self.assertEqual((made.job("mnist-node-0")["spec"]["completions"], made.error), (3, None))

    def test_a_jobset_that_is_deleted_at_the_end_would_train_again(self):
        """Therefore the runtime has no ttlSecondsAfterFinished."""
        runtime = of_kind(self.base(), "ClusterTrainingRuntime")
        self.assertNotIn("ttlSecondsAfterFinished", runtime["spec"]["template"]["spec"])

        def removed(_, runtime):
            runtime["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = 0
        made = self.given(self.base(removed))
        made.ask(jobs={"mnist-chief-0": {**COMPLETE, "completionTime": "2024-01-01T00:00:00Z"}})
        self.assertEqual({job["status"].get("succeeded") for job in made.of_kind("Job").values()}, {None})  # new ones

    def test_volcano_gets_a_group_of_all_pods(self):
        made = self.given(overlay("trainer/overlays/gang"))
        self.assertEqual(made.of_kind("PodGroup")["mnist"]["spec"]["minMember"], 5)
        for job in made.of_kind("Job").values():
            template = job["spec"]["template"]
            self.assertEqual((template["metadata"]["annotations"][rules.GROUP], template["spec"]["schedulerName"]),
                             ("mnist", "volcano"))

    def test_a_name_may_have_47_characters(self):
        for n, error in ((47, None), (48, "is too long|must be no more than 63 characters")):
            with self.subTest(characters=n):
                docs = self.base(lambda job, _: job["metadata"].update(name="n" * n))
                made = real.Controllers(self, NAMESPACE)
                made.apply(*of_kinds(docs, *TAKEN))
                if error:
                    self.assertRegex(made.error, error)
                else:
                    self.assertEqual((made.error, len(made.of_kind("Job"))), (None, 3))

    def test_what_does_not_fit_together_is_refused(self):
        def no_runtime(job, _):
            job["spec"]["runtimeRef"]["name"] = "none"

        def no_node(_, runtime):
            runtime["spec"]["template"]["spec"]["replicatedJobs"][2]["template"]["spec"]["template"]["spec"]["containers"][0][
                "name"] = "gradwire"

        def unknown(job, _):
            job["spec"]["trainer"]["workers"] = 3
        for change, why in ((no_runtime, "must be created before the TrainJob"), (no_node, "containers: Invalid value"),
                            (unknown, "unknown fields: spec.trainer.workers")):
            with self.subTest(why), self.assertRaisesRegex(real.Refused, why):
                self.given(self.base(change))

    # ---- Kueue ----

    def queued(self, docs, kind):
        """An object with the label of a queue, and the sizes of the pod sets that Kueue made of it."""
        made = real.Controllers(self, NAMESPACE)
        made.apply({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"},
                    "spec": {"nodeLabels": {"pool": "training"}}}, *of_kinds(docs, *TAKEN, "TFJob"))
        self.assertIsNone(made.error)
        workload, = made.of_kind("Workload").values()
        self.assertEqual(workload["spec"]["queueName"], "training")
        self.assertEqual(workload["metadata"]["ownerReferences"][0]["kind"], kind)
        return made, {pods["name"]: pods["count"] for pods in workload["spec"]["podSets"]}

    def test_kueue_holds_a_trainjob_starts_it_and_takes_its_room_again(self):
        for suspend in (True, False):  # Kueue suspends one that is not
            with self.subTest(suspend=suspend):
                docs = overlay("trainer/overlays/kueue")
                of_kind(docs, "TrainJob")["spec"]["suspend"] = suspend
                made, sizes = self.queued(docs, "TrainJob")
                self.assertEqual(sizes, {"chief": 1, "ps": 2, "node": 2})
                for room, condition in (("", "Suspended"), ("admit", "Running"), ("evict", "Suspended"), ("admit", "Running")):
                    made.ask(queue=room)
                    self.assertEqual((self.condition(made), self.suspended(made), made.error),
                                     (condition, {condition == "Suspended"}, None))
                for job in made.of_kind("Job").values():
                    self.assertEqual(job["spec"]["template"]["spec"]["nodeSelector"], {"pool": "training"})
                made.ask(jobs={"mnist-chief-0": COMPLETE})
                self.assertEqual((self.condition(made), made.error), ("Succeeded", None))

    def test_kueue_counts_the_workers_of_the_runtime(self):
        """Not those of the TrainJob: docs/guides/trainer.md."""
        docs = overlay("trainer/overlays/kueue")
        of_kind(docs, "TrainJob")["spec"]["trainer"]["numNodes"] = 5
        made, sizes = self.queued(docs, "TrainJob")
        self.assertEqual((sizes["node"], made.job("mnist-node-0")["spec"]["completions"]), (2, 5))

    def test_kueue_holds_a_tfjob_starts_it_and_takes_its_room_again(self):
        for suspend in (True, False):
            with self.subTest(suspend=suspend):
                docs = overlay("tfjob/overlays/kueue")
                given = of_kind(docs, "TFJob")["spec"]
                given["runPolicy"]["suspend"] = suspend
                made, sizes = self.queued(docs, "TFJob")
                self.assertEqual(sizes, {kind.lower(): spec["replicas"] for kind, spec in given["tfReplicaSpecs"].items()})
                for room, held in (("", True), ("admit", False), ("evict", True), ("admit", False)):
                    made.ask(queue=room)
                    job = made.of_kind("TFJob")["mnist"]["spec"]
                    self.assertEqual((job["runPolicy"]["suspend"], made.error), (held, None))
                    for spec in job["tfReplicaSpecs"].values():
                        self.assertEqual(spec["template"]["spec"].get("nodeSelector"), None if held else {"pool": "training"})


# ---- containers ----

class TrainersCluster(pods.Cluster):
    """The Jobs are those that the controllers of Trainer and JobSet make, when they make them."""

    def __init__(self, case, docs, args=(), secrets=()):
        super().__init__(case, docs, args, secrets, NAMESPACE)
        self.real, self.told = real.Controllers(case, NAMESPACE), {}
        self.real.apply(*of_kinds(docs, *TAKEN))

    def take_jobs(self):
        jobs = self.real.of_kind("Job")
        for owner in [owner for owner in self.owners if owner.name not in jobs]:
            for pod in [pod for pod in self.pods.values() if pod.owner is owner]:
                self.terminate(pod)
            self.owners.remove(owner)
        known = {owner.name: owner for owner in self.owners}
        for name, doc in jobs.items():
            if name in known:
                known[name].doc = doc
            else:
                self.owners.append(pods.Owner(doc))
        self.docs = [d for d in self.docs if d["kind"] != "Service"] + list(self.real.of_kind("Service").values())

    def status_of(self, owner):
        """As the Job's controller writes it."""
        mine = [pod for pod in self.pods.values() if pod.owner is owner and pod.there]
        count = sum(pod.phase == "Running" for pod in mine)
        status = {"active": count, "ready": count, "succeeded": sum(pod.phase == "Succeeded" for pod in mine)}
        if owner.status.condition == controllers.SUCCEEDED:
            return {**status, **COMPLETE}
        if owner.status.condition.startswith("Failed"):
            failed = {**FAILED["conditions"][0], "message": owner.status.condition}
            return {**status, "conditions": [failed]}
        return status

    def reconcile(self):
        while True:
            self.take_jobs()
            super().reconcile()
            now = {owner.name: self.status_of(owner) for owner in self.owners}
            if now == self.told:
                break
            self.told = now
            self.real.ask(jobs=now)
            self.case.assertIsNone(self.real.error)

    def condition(self):
        job, = self.real.of_kind("TrainJob").values()
        return said_condition(job)

    def resize(self, n):
        """kubectl patch job, as docs/guides/trainer.md has it."""
        job = copy.deepcopy(self.real.job("mnist-node-0"))
        job["spec"] |= {"completions": n, "parallelism": n}
        self.real.apply(job)
        self.reconcile()


@pods.wanted
@wants_go
@render.wanted
class TrainerContainersTest(PodCase):
    def runs(self, given, args=SMALL, secrets=(), meanwhile=lambda cluster: None):
        docs = overlay(given) if isinstance(given, str) else given
        cluster = TrainersCluster(self, docs, args, dict(secrets))
        cluster.start_all()
        meanwhile(cluster)
        summary = self.done(cluster)
        self.assertEqual((summary["ps"], summary["exact"]), (2, True))
        return summary, cluster

    def test_trainer_runs_the_base_to_the_same_bits(self):
        summary, cluster = self.runs("trainer/base")
        self.assertEqual(set(cluster.pods), {"mnist-chief-0-0", *(f"mnist-{role}-0-{i}" for role in ("ps", "node") for i in (0, 1))})
        self.assertEqual(summary["workers"], 3)
        self.assertEqual(summary["digest"], self.alone()["digest"])
        self.all_end_with(cluster, 0, 143)

    def test_trainer_replaces_a_killed_worker_and_a_ps_and_the_bits_stay(self):
        args = [*SMALL, "--epochs=16"]

        def lost(cluster):
            ps, worker = cluster.pods["mnist-ps-0-1"], cluster.pods["mnist-node-0-0"]
            cluster.until("a cut", lambda: self.cuts() > 1)
            cluster.kill(worker)
            cluster.until("it is made anew", lambda: worker.starts == 2)
            first = ps.address
            cluster.delete(ps)
            cluster.until("it is made anew", lambda: ps.starts == 2)
            self.assertNotEqual(ps.address, first)
        summary, _ = self.runs("trainer/base", args, meanwhile=lost)
        self.assertEqual(summary["digest"], self.alone(args)["digest"])

    def test_workers_of_a_running_trainjob_are_added_and_removed_and_the_bits_stay(self):
        args = [*SMALL, "--epochs=16"]

        def scaled(cluster):
            cluster.until("a cut", self.cuts)
            cluster.resize(3)
            cluster.until_said(cluster.pods["mnist-node-0-2"], "generation")
            cluster.resize(1)
            cluster.until("two are gone", lambda: {pod.code for name, pod in cluster.pods.items()
                                                   if name in ("mnist-node-0-1", "mnist-node-0-2")} == {143})
        summary, _ = self.runs("trainer/base", args, meanwhile=scaled)
        self.assertEqual(summary["digest"], self.alone(args)["digest"])

    def test_a_running_trainjob_is_suspended_and_goes_on_to_the_same_bits(self):
        args, docs = [*SMALL, "--epochs=12"], overlay("trainer/base")

        def suspended(cluster):
            job = of_kind(docs, "TrainJob")
            cluster.until("a cut", lambda: self.cuts() > 1)
            job["spec"]["suspend"] = True
            cluster.real.apply(job)
            cluster.until("no pod is there", lambda: not any(pod.there for pod in cluster.pods.values()))
            self.assertEqual((cluster.condition(), {pod.code for pod in cluster.pods.values()}), ("Suspended", {143}))
            job["spec"]["suspend"] = False
            cluster.real.apply(job)
        summary, _ = self.runs(docs, args, meanwhile=suspended)
        self.assertEqual(summary["digest"], self.alone(args)["digest"])

    def test_trainer_runs_with_the_token_behind_walls(self):
        def walls(cluster):
            stranger = cluster.stranger(NAMESPACE)
            cluster.until("a cut", self.cuts)
            ps, worker = cluster.pods["mnist-ps-0-0"], cluster.pods["mnist-node-0-0"]
            self.assertTrue(cluster.reaches(worker.host, ps.address, 2222))
            self.assertFalse(cluster.reaches(stranger, ps.address, 2222))
            command = pods.podman("exec", ps.container, "cat", "/proc/1/cmdline").stdout
            self.assertIn("--token_file=/run/secrets/gradwire/token", command)
        self.runs("trainer/overlays/secure", secrets=TOKEN, meanwhile=walls)

    def test_trainer_runs_with_tls(self):
        def encrypted(cluster):
            cluster.until("a cut", self.cuts)
            for pod in cluster.pods.values():
                self.assertEqual(self.metrics_of(cluster, pod)("gradwire_auth_info", auth="tls"), 1)
                self.speaks_tls(cluster, pod)
        secret = self.certificate(self.names_of("trainer/overlays/tls"))
        summary, _ = self.runs("trainer/overlays/tls", secrets=secret, meanwhile=encrypted)
        self.assertEqual(summary["workers"], 3)  # none was refused

    def test_a_trainjob_whose_worker_refuses_its_input_has_failed(self):
        docs = overlay("trainer/base")
        runtime = of_kind(docs, "ClusterTrainingRuntime")
        node = runtime["spec"]["template"]["spec"]["replicatedJobs"][2]["template"]["spec"]["template"]["spec"]["containers"][0]
        node["args"].append("--set=training.epochs=none")
        cluster = TrainersCluster(self, docs)
        cluster.start_all()
        self.assertRegex(cluster.run(300), r"^Failed: .*mnist-node-0", cluster.all_logs())


if __name__ == "__main__":
    unittest.main(verbosity=2)
