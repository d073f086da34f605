#!/usr/bin/env python3
"""The components of k8s/ in any order: two orders that kustomize renders give the same objects, and an order that would give
others is refused in words that say which order is right."""
import functools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import controllers  # noqa: E402
import facts  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402

K8S = facts.ROOT / "k8s"
FORMS = {"tfjob/base": "tfjob", "plain/base": "plain", "jobset": "plain", "plain/elastic": "plain", "plain/hosts": "plain",
         "trainer/base": "trainer"}
APART = {"tfjob/components/quota",  # an administrator's objects
         "plain/components/http-hosts"}  # a part of plain/hosts
LOCAL_DATA, NO_PS, EVALUATOR = (f"tfjob/components/{name}" for name in ("local-data", "no-ps", "evaluator"))
QUIET = {"image-name", "tfjob/components/network", "plain/components/network"}  # they change nothing
KEPT = {("plain/hosts", "plain/components/http"),  # has its annotations
        ("plain/elastic", "plain/components/gang")}  # counts the fewest workers, which the autoscaler has
SEED, PERMUTATIONS = 27, int(os.environ.get("GRADWIRE_PERMUTATIONS", "3"))


def components(form):
    return sorted({f"{form}/components/{path.name}" for path in (K8S / form / "components").iterdir()} - APART) + ["image-name"]


def last_wins(args):
    return [arg for i, arg in enumerate(args) if arg.startswith("--set=") or
            arg.split("=")[0] not in [later.split("=")[0] for later in args[i + 1:]]]


def meaning(node):
    """Without what Kubernetes does not distinguish: the order of lists, and flags that a later one overrides."""
    if isinstance(node, dict):
        return {key: meaning(last_wins(value) if key == "args" else value) for key, value in node.items()}
    return sorted(map(meaning, node), key=lambda it: json.dumps(it, sort_keys=True)) if isinstance(node, list) else node


def roles(job):
    return job["spec"]["tfReplicaSpecs"]


@functools.cache
def rendered(base, *parts):
    """The objects, by kind and name, or kustomize's error."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder).resolve()
        below = [os.path.relpath(K8S / name, path) for name in (base, *parts)]
        (path / "kustomization.yaml").write_text(f"resources: [{below[0]}]\ncomponents: [{', '.join(below[1:])}]\n")
        got = subprocess.run([*render.kustomizer(), path], capture_output=True, text=True)
    if got.returncode:
        return got.stderr
    docs = render.objects(got.stdout)
    for doc in docs:  # of several components of Trainer the last one names the runtime (docs/guides/trainer.md)
        if doc["kind"] in (*controllers.RUNTIMES, "TrainJob"):
            (doc["metadata"] if "template" in doc["spec"] else doc["spec"]["runtimeRef"])["name"] = "gradwire"
    return {(doc["kind"], doc["metadata"]["name"]): doc for doc in docs + controllers.trainjob_jobsets(docs)}


def fitting(base):
    """The components with which a base renders."""
    return [part for part in components(FORMS[base]) if not isinstance(rendered(base, part), str)]


@render.wanted
class ComponentsTest(unittest.TestCase):
    def good(self, base, *parts):
        docs = rendered(base, *parts)
        self.assertNotIsInstance(docs, str, docs)
        if (base, *parts) not in KEPT:
            self.assertEqual(rules.broken(docs.values()), [])
        return meaning(docs)

    def test_a_component_keeps_the_rules_and_changes_something_or_is_refused(self):
        for base, form in FORMS.items():
            for part in components(form):
                with self.subTest(base=base, component=part):
                    docs = rendered(base, part)
                    if isinstance(docs, str):
                        self.assertIn(part.split("/")[-1], ("keda", "kueue", "gang"), docs)
                    elif (base, part) not in KEPT:
                        self.assertEqual(self.good(base, part) == self.good(base), part in QUIET)

    def test_all_components_give_the_same_in_any_order(self):
        shuffle = random.Random(SEED).shuffle
        for base in FORMS:
            for alternative in ({LOCAL_DATA}, {"tfjob/components/data"}) if base == "tfjob/base" else ({"plain/components/gang"},):
                parts = [part for part in fitting(base) if part not in {NO_PS, *alternative}]
                first = self.good(base, *parts)
                for _ in range(PERMUTATIONS):
                    shuffle(parts)
                    with self.subTest(base=base, seed=SEED, components=parts):
                        self.assertEqual(self.good(base, *parts), first)

    def test_beside_no_ps_a_component_gives_the_same_in_both_orders_or_one_is_refused(self):
        refused = set()
        for part in fitting("tfjob/base"):
            if part != NO_PS:
                with self.subTest(component=part):
                    before = self.good("tfjob/base", part, NO_PS)
                    after = rendered("tfjob/base", NO_PS, part)
                    if isinstance(after, str):
                        refused.add(part)
                    else:
                        self.assertEqual(meaning(after), before)
        self.assertEqual({part.split("/")[-1] for part in refused},
                         {"token", "tls", "openshift", "http", "priority", "placement", "pull-secret",
                          "evaluator", "disruption", "pod-monitor", "service-monitor"})

    def test_an_evaluator_is_the_chief_under_another_role_whatever_comes_before_or_after(self):
        parts = [part for part in fitting("tfjob/base") if part not in {NO_PS, LOCAL_DATA, EVALUATOR}]
        for order in ((*parts, EVALUATOR), (EVALUATOR, *parts), (LOCAL_DATA, EVALUATOR), (EVALUATOR, LOCAL_DATA)):
            with self.subTest(components=order):
                specs = meaning(roles(rendered("tfjob/base", *order)["TFJob", "mnist"]))
                labels = specs["Evaluator"]["template"]["metadata"]["labels"]
                self.assertEqual(labels["app.kubernetes.io/component"], "evaluator")
                labels["app.kubernetes.io/component"] = "chief"
                self.assertEqual(specs["Evaluator"], specs["Chief"])

    def test_an_evaluator_before_no_ps_has_no_ps(self):
        specs = roles(rendered("tfjob/base", EVALUATOR, NO_PS)["TFJob", "mnist"])
        container, = specs["Evaluator"]["template"]["spec"]["containers"]
        self.assertEqual([port["name"] for port in container["ports"]], ["tfjob-port", "metrics"])

    def test_where_no_ps_comes_too_early_the_error_says_so(self):
        for name in ("disruption", "pod-monitor", "service-monitor", "evaluator"):
            with self.subTest(component=name):
                self.assertIn(f"list component {name} before no-ps", rendered("tfjob/base", NO_PS, f"tfjob/components/{name}"))

    def test_without_ps_replicas_what_a_component_does_for_the_ps_it_does_for_the_pods_that_run_one(self):
        parts = [f"tfjob/components/{name}" for name in ("evaluator", "disruption", "gang", "priority", "placement")]
        for given in (parts, parts[1:]):
            docs = rendered("tfjob/base", *given, NO_PS)
            self.assertEqual(rules.broken(docs.values()), [])
            job, budget = docs["TFJob", "mnist"], docs["PodDisruptionBudget", "mnist-ps"]["spec"]
            chosen = [pod for pod in rules.pods(docs.values()) if rules.chooses(budget["selector"], pod.labels)]
            self.assertEqual((sum(pod.count for pod in chosen), budget["minAvailable"]), (3, 3))
            self.assertNotIn("minAvailable", job["spec"]["runPolicy"]["schedulingPolicy"])  # the operator counts its pods
            for role in ("Chief", "Worker"):
                spec = roles(job)[role]["template"]["spec"]
                self.assertEqual(spec["priorityClassName"], "gradwire-ps")
                self.assertNotIn("tolerations", spec)
                self.assertIn("requiredDuringSchedulingIgnoredDuringExecution", spec["affinity"]["nodeAffinity"])

    def test_no_component_takes_an_annotation_of_the_job_away(self):
        for base in ("tfjob/base", "plain/base", "jobset"):
            with self.subTest(base=base):
                mine = render.overlay_on(self, base, "patches:", "- target: {kind: (TFJob|StatefulSet|Job|JobSet)}",
                                         "  patch: |-", "    - {op: add, path: /metadata/annotations, value: {team: a}}")
                listed = ", ".join(f"@{FORMS[base]}/components/{part}@" for part in ("token", "tls"))
                for doc in render.kustomize(render.overlay_on(self, str(mine), f"components: [{listed}]")):
                    if doc["kind"] in ("TFJob", "StatefulSet", "Job", "JobSet"):
                        self.assertEqual(doc["metadata"]["annotations"].get("team"), "a", rules.title(doc))


if __name__ == "__main__":
    unittest.main()
