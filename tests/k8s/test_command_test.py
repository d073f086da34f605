#!/usr/bin/env python3
"""./gradwire test: whether the groups containers and operator get an image, and what is said if there can be none. The image,
the builds and ctest are stand-ins that note how they were started."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402

STUBS = """
set -euo pipefail
source "$TEST_SH"
say() { printf 'gradwire: %s\\n' "$*" >&2; }
die() { shift; say "$*"; exit 1; }
build() { :; }
build_dir() { printf '%s/build' "$ROOT"; }
packages_need() { :; }
PROGRAMS=(gradwire-ps)
test_all "$@"
"""
LEFT_OUT = "gradwire: operator: the tests that run containers of the operator's pods are left out"


class ImageOfGroupsTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def script(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_groups(self, *groups, image_here=0, **env):
        """The arguments of ctest: the directory of the image and the groups (None: ctest was not started). And stderr."""
        self.script("tests/k8s/image_here", f"#!/bin/sh\necho image_here >>'{self.root}/calls'\n"
                    f"[ {image_here} = 0 ] || echo 'gradwire: skipping containers: no root' >&2\nexit {image_here}\n")
        for code in ("operator", "trainer"):
            self.script(f"tests/k8s/{code}/build.py", "")
        self.script("bin/ctest", f"#!/bin/sh\necho \"${{GRADWIRE_IMAGE_STORAGE-none}} $*\" >'{self.root}/ctest'\n")
        got = subprocess.run(["bash", "-c", STUBS, "test", *groups], capture_output=True, text=True, env={
            "PATH": f"{self.root}/bin:{os.environ['PATH']}", "ROOT": str(self.root),
            "TEST_SH": str(facts.ROOT / "tools/test.sh"), **env})
        self.assertEqual(got.returncode, 0, got.stderr)
        started = self.root / "ctest"
        if not started.exists():
            return None, got.stderr
        words = started.read_text().split()
        return (words[0], words[words.index("--label-regex") + 1]), got.stderr

    def test_operator_alone_runs_its_containers(self):
        started, _ = self.run_groups("operator")
        self.assertEqual(started, (f"{self.root}/build/image", "^(operator)$"))

    def test_operator_says_what_it_leaves_out_without_an_image(self):
        started, said = self.run_groups("operator", image_here=3)
        self.assertEqual(started, ("none", "^(operator)$"))
        self.assertIn(LEFT_OUT, said.splitlines())
        self.assertIn("gradwire: skipping containers: no root", said.splitlines())

    def test_an_image_that_is_there_is_used(self):
        started, said = self.run_groups("operator", GRADWIRE_IMAGE_STORAGE="/its/own")
        self.assertEqual(started, ("/its/own", "^(operator)$"))
        self.assertFalse((self.root / "calls").exists())
        self.assertNotIn("left out", said)

    def test_both_groups_share_an_image(self):
        started, _ = self.run_groups("operator", "containers")
        self.assertEqual(started, (f"{self.root}/build/image", "^(operator|containers)$"))
        self.assertEqual((self.root / "calls").read_text(), "image_here\n")

    def test_containers_without_an_image_are_skipped_and_the_others_run(self):
        self.assertEqual(self.run_groups("containers", image_here=3)[0], None)
        started, said = self.run_groups("containers", "operator", image_here=3)
        self.assertEqual(started, ("none", "^(operator)$"))
        self.assertIn(LEFT_OUT, said.splitlines())

    def test_other_groups_need_no_image(self):
        self.assertEqual(self.run_groups("k8s")[0], ("none", "^(k8s)$"))
        self.assertFalse((self.root / "calls").exists())


if __name__ == "__main__":
    unittest.main()
