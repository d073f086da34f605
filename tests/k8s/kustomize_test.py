#!/usr/bin/env python3
# timeout: 1800
"""Every overlay is the same by kubectl and by kustomize: by the one that is there, and with GRADWIRE_GO_TOOLS=1 by those that
Go makes from its proxy (a minute or two each, the first time), that of kubectl 1.21 and that of 1.31."""
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402
import render  # noqa: E402

KUBECTL = shutil.which("kubectl") and ("kubectl", "kustomize")
PROGRAMS = [path for path in (shutil.which("kustomize"), *map(render.built, (render.OLDEST_KUSTOMIZE, render.KUSTOMIZE)))
            if path]


def objects(*words):
    """By kind and name: their order is the renderer's."""
    got = subprocess.run(words, capture_output=True, text=True)
    if got.returncode:
        raise AssertionError(got.stderr)
    found = render.objects(got.stdout)
    named = {(doc["kind"], doc["metadata"]["name"]): doc for doc in found}
    if not found or len(named) != len(found):
        raise AssertionError(f"none, or one twice: {[(doc['kind'], doc['metadata']['name']) for doc in found]}")
    return named


@facts.skip_without(KUBECTL, "kubectl is not there")
@facts.skip_without(PROGRAMS, f"kustomize {render.NO_TOOLS}")
class KustomizeTest(unittest.TestCase):
    def test_every_overlay_is_the_same_by_kubectl_and_by_kustomize(self):
        folders = render.overlays()
        self.assertGreater(len(folders), 15)
        for folder in folders:
            by_kubectl = objects(*KUBECTL, folder)
            for program in PROGRAMS:
                with self.subTest(overlay=str(folder.relative_to(facts.ROOT)), by=program):
                    self.assertEqual(objects(program, "build", folder), by_kubectl)


if __name__ == "__main__":
    unittest.main()
