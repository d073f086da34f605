#!/usr/bin/env python3
"""./gradwire test: whether the groups containers and operator get an image, and what is said if there can be none. The image,
the builds and ctest are stand-ins that note how they were started."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402

STUBS = """
set -euo pipefail
source "$TEST_SH"
GO_PLACES=()
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
        (self.root / "tools").mkdir()  # this machine's, except those that a test leaves out
        for tool in ("bash", "sh", "python3", "env", "nproc", "uname", "cat", "dirname"):
            (self.root / "tools" / tool).symlink_to(shutil.which(tool))
        self.path = self.root / "tools"

    def script(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_groups(self, *groups, image_here=0, without=(), **env):
        """The arguments of ctest: the directory of the image and the groups (None: ctest was not started). And stderr."""
        shutil.rmtree(self.root / "bin", ignore_errors=True)
        (self.root / "ctest").unlink(missing_ok=True)
        self.script("tests/k8s/image_here", f"#!/bin/sh\necho image_here >>'{self.root}/calls'\n"
                    f"[ {image_here} = 0 ] || echo 'gradwire: skipping containers: no root' >&2\nexit {image_here}\n")
        for path in ("operator/build.py", "trainer/build.py", "cluster/programs.py"):
            self.script(f"tests/k8s/{path}", f"open({str(self.root / 'calls')!r}, 'a').write({path!r} + '\\n')\n")
        for tool in {"go", "kubectl"} - set(without):
            self.script(f"bin/{tool}", "#!/bin/sh\n")
        self.script("bin/ctest", f"#!/bin/sh\necho \"${{GRADWIRE_IMAGE_STORAGE-none}} $*\" >'{self.root}/ctest'\n")
        got = subprocess.run(["bash", "-c", STUBS, "test", *groups], capture_output=True, text=True, env={
            "PATH": f"{self.root}/bin:{self.path}", "ROOT": str(self.root),
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
        self.assertNotIn("image_here", (self.root / "calls").read_text())
        self.assertNotIn("left out", said)

    def test_both_groups_share_an_image(self):
        started, _ = self.run_groups("operator", "containers")
        self.assertEqual(started, (f"{self.root}/build/image", "^(operator|containers)$"))
        self.assertEqual((self.root / "calls").read_text().count("image_here"), 1)

    def test_containers_without_an_image_are_skipped_and_the_others_run(self):
        self.assertEqual(self.run_groups("containers", image_here=3)[0], None)
        started, said = self.run_groups("containers", "operator", image_here=3)
        self.assertEqual(started, ("none", "^(operator)$"))
        self.assertIn(LEFT_OUT, said.splitlines())

    def test_without_an_image_nothing_is_compiled_for_a_cluster(self):
        self.assertIsNone(self.run_groups("cluster", image_here=3)[0])
        self.assertEqual((self.root / "calls").read_text(), "image_here\n")

    def test_without_go_or_kubectl_a_group_is_skipped_with_one_line_and_nothing_is_made(self):
        for groups, tool, left in ((("operator",), "go", None), (("cluster",), "go", None), (("cluster",), "kubectl", None),
                                   (("cluster", "operator", "k8s"), "go", "^(k8s)$"), (("operator", "k8s"), "go", "^(k8s)$")):
            with self.subTest(groups=groups, without=tool):
                started, said = self.run_groups(*groups, without=[tool])
                self.assertEqual(started and started[1], left)
                which = [group for group in groups if group != "k8s"]
                self.assertEqual([line for line in said.splitlines() if "skipping" in line],
                                 [f"gradwire: skipping {group}: {tool} is not there" for group in which])
                self.assertFalse((self.root / "calls").exists())

    def test_other_groups_need_no_image(self):
        self.assertEqual(self.run_groups("k8s")[0], ("none", "^(k8s)$"))
        self.assertFalse((self.root / "calls").exists())


if __name__ == "__main__":
    unittest.main()
