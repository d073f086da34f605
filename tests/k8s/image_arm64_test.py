#!/usr/bin/env python3
"""./gradwire image --platform: an image for amd64 and one for arm64 under one name. It wants the programs for arm64
(./gradwire build arm64). The one for arm64 trains, by qemu, where a user namespace can tell the kernel to use it."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402
import pods  # noqa: E402

NAME = "localhost/gradwire-platforms:1"
QEMU = shutil.which("qemu-aarch64-static")
AARCH64 = 183  # ELF's number of the machine
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
CLICKS = """
model:
  input: {shape: auto}
  layers: [linear: {inputs: "C{1..26}", name: wide}, sigmoid]
  loss: binary_crossentropy
data:
  format: synthetic
  synthetic: clicks
  synthetic_keys: 1000
  synthetic_train_rows: 5000
  synthetic_eval_rows: 500
  delimiter: tab
  columns: [label: clicked, ignore: {name: "I{1..13}"}, key: {name: "C{1..26}"}]
optimizer: {ftrl: {initial_accumulator_value: 0.000001}}
training: {epochs: 1, batch_size: 500, learning_rate: 0.1}
"""
# In a user namespace of its own: programs for arm64 run by qemu in the root directory $1.
EMULATE = r"""set -eu
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
printf '%s' ":arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:$2:F" \
    >/proc/sys/fs/binfmt_misc/register
root=$1
shift 2
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs none "$root/output"
mount -t tmpfs none "$root/tmp"
exec chroot "$root" "$@"
"""


def machine(path):
    """The machine that an ELF file names; None: the file is not ELF."""
    with open(path, "rb") as file:
        head = file.read(20)
    return int.from_bytes(head[18:20], "little") if head[:4] == b"\x7fELF" else None


def build(*words):
    return subprocess.run([facts.ROOT / "k8s/image", "--engine", "buildah", "--base", "debootstrap", "--programs", facts.BUILD,
                           "--storage", pods.STORAGE, *words], capture_output=True, text=True)


@pods.wanted
@facts.skip_without((facts.BUILD / "arm64/worker/worker").exists(), "no programs for arm64: ./gradwire build arm64 makes them")
@facts.skip_without(os.geteuid() == 0, "only root unpacks packages")
class PlatformsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        got = build("--platform", "linux/amd64,linux/arm64", "--tag", NAME)
        if got.returncode == 3:
            raise unittest.SkipTest(got.stderr.splitlines()[-1])
        if got.returncode:
            raise AssertionError(got.stdout + got.stderr)
        cls.addClassCleanup(pods.podman, "manifest", "rm", NAME, check=False)
        for arch in TRIPLETS:
            cls.addClassCleanup(pods.podman, "rmi", f"{NAME}-{arch}", check=False)

    @contextlib.contextmanager
    def mounted(self, arch):
        name = f"{NAME}-{arch}"
        try:
            yield pathlib.Path(pods.podman("image", "mount", name).stdout.strip())
        finally:
            pods.podman("image", "unmount", name)

    def inspect(self, arch):
        image, = json.loads(pods.podman("inspect", f"{NAME}-{arch}").stdout)
        return image

    def test_the_name_is_a_list_of_both(self):
        listed = json.loads(pods.podman("manifest", "inspect", NAME).stdout)["manifests"]
        self.assertEqual({(m["platform"]["os"], m["platform"]["architecture"], m["digest"]) for m in listed},
                         {("linux", arch, self.inspect(arch)["Digest"]) for arch in TRIPLETS})

    def test_both_say_the_same_of_themselves(self):
        said = [self.inspect(arch)["Config"] for arch in TRIPLETS]
        for config in said:
            config["Labels"].pop("org.opencontainers.image.base.name")
        self.assertEqual(*said)

    def test_both_have_the_same_files(self):
        found = {}
        for arch, triplet in TRIPLETS.items():
            with self.mounted(arch) as root:
                paths = {str(p.relative_to(root)).replace(triplet, "TRIPLET") for p in root.rglob("*")}
            found[arch] = {p for p in paths if p.startswith(("etc/", "output", "usr/bin/", "usr/local/", "usr/share/gradwire"))}
        only = found["amd64"] ^ found["arm64"]
        self.assertEqual(only - {"etc/ld.so.cache"}, {"etc/ld.so.conf.d/x86_64-linux-gnu.conf"} & only)
        self.assertGreater(len(found["arm64"]), 100)

    def test_all_programs_and_packages_are_those_of_arm64(self):
        with self.mounted("arm64") as root:
            programs = [p for folder in ("usr/local/bin", "usr/bin") for p in (root / folder).iterdir() if not p.is_symlink()]
            self.assertGreater(len(programs), 50)
            self.assertEqual({machine(p) for p in programs} - {None}, {AARCH64})
            self.assertEqual([p for p in programs if p.stat().st_mode & 0o6000], [])
            sbom = json.loads((root / "usr/share/gradwire/sbom.spdx.json").read_text())
            output = (root / "output").stat()
        kinds = {package["externalRefs"][0]["referenceLocator"].rpartition("arch=")[2]
                 for package in sbom["packages"] if "externalRefs" in package}
        self.assertEqual(kinds - {"all"}, {"arm64"})
        self.assertEqual((output.st_uid, output.st_gid, output.st_mode & 0o777), (65532, 0, 0o775))

    def test_a_second_build_is_the_same_to_the_bit(self):
        first = self.inspect("arm64")
        got = build("--platform=linux/arm64", "--tag", f"{NAME}-again")
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        second, = json.loads(pods.podman("inspect", f"{NAME}-again").stdout)
        pods.podman("untag", f"{NAME}-again", f"{NAME}-again")
        self.assertEqual((second["RootFS"], second["Digest"]), (first["RootFS"], first["Digest"]))

    @contextlib.contextmanager
    def emulated(self):
        """A function that runs a shell command in the image for arm64, and returns what it prints."""
        with self.mounted("arm64") as root:
            def run(text, *words):
                return subprocess.run(["unshare", "-Urm", "sh", "-c", EMULATE, "sh", root, QEMU or "", "/usr/bin/sh", "-euc", text,
                                       "sh", *words], capture_output=True, text=True, timeout=600)
            got = run("uname -m")
            if got.returncode:
                self.skipTest(f"programs for arm64 do not run here: {got.stderr.strip()}")
            self.assertEqual(got.stdout, "aarch64\n")
            yield run

    def train(self, run, text, keys):
        sets = [f"--set={key}={value}" for key, value in keys.items()]
        got = run("cd /output; printf %s \"$1\" >job.yaml; shift; "
                  "gradwire-entrypoint --job=job.yaml \"$@\" >log 2>&1 || cat log >&2; cat summary.json", text, *sets)
        self.assertEqual(got.returncode, 0, got.stderr)
        summary = json.loads(got.stdout)
        self.assertEqual((summary["status"], summary["exact"]), ("done", True))
        return summary

    def test_the_image_for_arm64_trains_and_exports(self):
        keys = {"export": "[onnx, keras]", "data.synthetic_train_rows": 200, "data.synthetic_eval_rows": 50, "training.epochs": 1}
        with self.emulated() as run:
            summary = self.train(run, (facts.ROOT / "examples/mnist/mlp.yaml").read_text(), keys)
        self.assertEqual([(e["format"], e["error"]) for e in summary["export"]], [("onnx", None), ("keras", None)])

    def test_a_job_without_matrix_products_has_the_same_digest_on_both_processors(self):
        output = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (output / "job.yaml").write_text(CLICKS)
        got = subprocess.run([facts.BUILD / "worker/worker", f"--job={output}/job.yaml", f"--output={output}/out"],
                             capture_output=True, text=True)
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        with self.emulated() as run:
            summary = self.train(run, CLICKS, {})
        self.assertEqual(summary["digest"], json.loads((output / "out/summary.json").read_text())["digest"])


if __name__ == "__main__":
    unittest.main()
