#!/usr/bin/env python3
"""The objects that remain when kubectl deletes an overlay, as docs/reference/kubernetes.md lists them: kubectl itself, against
an API server that keeps objects."""
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402
import nightly_test  # noqa: E402
import releases  # noqa: E402
import render  # noqa: E402

FORMS = "tfjob/base", "tfjob/overlays/secure", "tfjob/overlays/data", "plain/base", "jobset", "one-pod"


@facts.skip_without(shutil.which("kubectl"), "kubectl is not there")
class KeptTest(unittest.TestCase):
    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.tmp)

    def deleted(self, folder, *words):
        """(objects before, objects after) as sets of (kind, name)."""
        cluster = nightly_test.serve(self, releases.Cluster())
        for doc in render.kustomize(folder):
            cluster.stored(("team", doc["kind"], doc["metadata"]["name"]), doc)
        before = {key[1:] for key in cluster.objects}
        got = nightly_test.kubectl(cluster, self.tmp, "delete", "--wait=false", "-k", str(folder), *words)
        self.assertEqual(got.returncode, 0, got.stderr)
        return before, {key[1:] for key in cluster.objects}

    def test_claims_outlive_an_overlay_that_is_deleted_without_them(self):
        for form in FORMS:
            with self.subTest(form=form):
                before, after = self.deleted(facts.ROOT / "k8s" / form, "-l", "!gradwire/keep")
                self.assertEqual(after, {key for key in before if key[0] == "PersistentVolumeClaim"})
                self.assertIn(("PersistentVolumeClaim", "gradwire-output"), after)

    def test_the_claims_of_every_overlay_have_the_label_and_nothing_else_has_it(self):
        seen = 0
        for folder in render.overlays():
            for doc in render.kustomize(folder):
                with self.subTest(overlay=str(folder.relative_to(facts.ROOT)), name=doc["metadata"]["name"]):
                    is_kept = "gradwire/keep" in doc["metadata"].get("labels", {})
                    self.assertEqual(is_kept, doc["kind"] == "PersistentVolumeClaim")
                    seen += is_kept
        self.assertGreater(seen, 20)

    def test_an_overlay_is_deleted_with_its_claims(self):
        for form in FORMS:
            with self.subTest(form=form):
                self.assertEqual(self.deleted(facts.ROOT / "k8s" / form)[1], set())


if __name__ == "__main__":
    unittest.main()
