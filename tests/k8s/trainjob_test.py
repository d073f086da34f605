#!/usr/bin/env python3
"""k8s/trainer without Trainer's code, which tests/k8s/trainer has: names, and what its JobSet is made of."""
import itertools
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import controllers  # noqa: E402
import facts  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402

TRAINER = facts.ROOT / "k8s/trainer"
OVERLAYS = ["base", *sorted(f"overlays/{path.name}" for path in (TRAINER / "overlays").iterdir())]


@render.wanted
class TrainjobTest(unittest.TestCase):
    def each(self, check, head=""):
        self.assertGreater(len(OVERLAYS), 3)
        for name in OVERLAYS:
            with self.subTest(overlay=name), tempfile.TemporaryDirectory(dir=facts.BUILD) as folder:
                (pathlib.Path(folder) / "kustomization.yaml").write_text(
                    f"{head}resources: [{pathlib.Path(*['..'] * len(pathlib.Path(folder).resolve().parts[1:]))}{TRAINER.resolve()}/{name}]\n")
                docs = render.objects(render.text(pathlib.Path(folder)))
                check(docs + controllers.trainjob_jobsets(docs))

    def test_a_prefix_and_a_suffix_reach_every_name_and_the_rules_hold(self):
        """docs/guides/trainer.md: a second job in the namespace."""
        def check(docs):
            self.assertEqual({doc["metadata"]["name"].startswith("a-") and doc["metadata"]["name"].endswith("-z")
                              for doc in docs}, {True})
            self.assertEqual(rules.broken(docs), [])
        self.each(check, "namePrefix: a-\nnameSuffix: -z\n")

    def test_a_tag_of_the_image_reaches_every_role(self):
        def check(docs):
            self.assertEqual({c["image"] for pod in rules.pods(docs) for c in pod.containers}, {"registry/gradwire:9"})
        self.each(check, "images: [{name: localhost/gradwire, newName: registry/gradwire, newTag: '9'}]\n")

    def test_the_chief_alone_decides_and_alone_writes_to_the_claim(self):
        def check(docs):
            job, = rules.of_kind(docs, "JobSet")
            self.assertEqual(job["spec"]["successPolicy"], {"operator": "All", "targetReplicatedJobs": ["chief"]})
            claimed = [pod.where for pod in rules.pods(docs)
                       if any(not v.get("persistentVolumeClaim", {"readOnly": True}).get("readOnly") for v in pod.spec["volumes"])]
            self.assertEqual(claimed, ["JobSet mnist: chief"])
        self.each(check)

    def test_token_tls_and_data_reach_their_roles_in_any_order(self):
        wanted = {"token": {"chief", "ps", "node"}, "tls": {"chief", "ps", "node"}, "data": {"chief", "node"}}
        for parts in itertools.chain(itertools.permutations(wanted), [[part] for part in wanted], [["namespaced", *wanted]]):
            with self.subTest(components=parts):
                folder = render.overlay_on(self, "trainer/base", f"components: [{', '.join(f'@trainer/components/{part}@' for part in parts)}]")
                docs = render.kustomize(folder)
                docs += controllers.trainjob_jobsets(docs)
                self.assertEqual(rules.broken(docs), [])
                found = {part: set() for part in parts if part in wanted}
                for pod in rules.pods(docs):
                    role, args = pod.where.split(": ")[1], pod.containers[0]["args"]
                    self.assertEqual("--auth=required" in args, {"token", "tls"} & set(parts) != set())
                    for part, names in found.items():
                        if f"gradwire-{part}" in {name for _, name in rules.referenced(pod)}:
                            names.add(role)
                self.assertEqual(found, {part: wanted[part] for part in found})

    def test_exit_1_or_2_fails_the_job_and_any_other_code_replaces_the_pod(self):
        job = controllers.trainjob_jobsets(render.kustomize(TRAINER / "base"))[0]
        for doc in rules.of_kind(controllers.jobset_objects(job), "Job"):
            for code in (1, 2, 137, 138, 143):
                with self.subTest(job=doc["metadata"]["name"], code=code):
                    plan = controllers.job_plan(doc, [controllers.Seen("Job", 0, "Failed", code)])
                    self.assertEqual(controllers.finished(plan.status.condition), code in (1, 2))
                    self.assertEqual(("Job", 0) in plan.delete, code > 2)


if __name__ == "__main__":
    unittest.main()
