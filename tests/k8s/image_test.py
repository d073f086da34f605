#!/usr/bin/env python3
"""The image: the line for docker, always; and where one is there (GRADWIRE_IMAGE_STORAGE=DIR of ./gradwire image --storage
DIR), its labels, its list of what is in it, its user, its size, and whether a second build is the same."""
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402
import pods  # noqa: E402

IMAGE = facts.ROOT / "k8s/image"
MAX_MIB = 112
TOOLS = ("sh", "awk", "gzip", "sed", "tail", "tar", "find", "getent")  # tar: kubectl cp
VERSION = re.search(r'^#define GRADWIRE_VERSION "(.*)"$', (facts.ROOT / "common/base/version.h").read_text(), re.M)[1]


class PrintTest(unittest.TestCase):
    def image(self, *args):
        return subprocess.run([IMAGE, *args], capture_output=True, text=True)

    def test_print_gives_the_line_for_docker_and_does_nothing(self):
        got = self.image("--print", "--tag=registry.example.com/ml/gradwire:1", "--base", "debian:12 slim")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        words = shlex.split(got.stdout)
        self.assertEqual(words[:6], ["cd", str(facts.ROOT), "&&", "DOCKER_BUILDKIT=1", "docker", "build"])
        flags = words[6:]
        self.assertEqual((flags[:4], flags[-1]), (["-t", "registry.example.com/ml/gradwire:1", "-f", "k8s/Dockerfile"], "."))
        given = dict(word.split("=", 1) for flag, word in zip(flags, flags[1:]) if flag == "--build-arg")
        self.assertEqual((given["BASE"], given["VERSION"]), ("debian:12 slim", VERSION))
        self.assertRegex(given["CREATED"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        asked = set(re.findall(r"^ARG (\w+)", (facts.ROOT / "k8s/Dockerfile").read_text(), re.M))
        self.assertEqual(set(given), asked)  # docker warns of one that the Dockerfile does not ask for, and builds

    def test_images_of_others_are_named_by_digest(self):
        line = self.image("--print").stdout
        self.assertRegex(line, r"BASE=docker\.io/library/debian@sha256:[0-9a-f]{64} ")
        for path in sorted((facts.ROOT / "k8s").rglob("*.yaml")):
            for name in re.findall(r"^\s*(?:- )?image:\s*['\"]?([^'\"\s#]+)", path.read_text(), re.M):
                if name not in ("@IMAGE@", f"localhost/gradwire:{VERSION}") and "{" not in name:
                    self.assertRegex(name, r"@sha256:[0-9a-f]{64}$", path)

    def test_the_line_is_one_that_a_shell_takes_to_docker(self):
        with open(pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "docker", "w") as file:
            file.write('#!/bin/sh\nprintf "%s\\n" "$DOCKER_BUILDKIT" "$PWD" "$@"\n')
            pathlib.Path(file.name).chmod(0o755)
        line = self.image("--print").stdout
        got = subprocess.run(["sh", "-c", line], env={"PATH": f"{pathlib.Path(file.name).parent}:/usr/bin:/bin"},
                             capture_output=True, text=True)
        lines = got.stdout.splitlines()
        self.assertEqual(lines[:3], ["1", str(facts.ROOT), "build"], got.stderr)
        self.assertIn(f"localhost/gradwire:{VERSION}", lines)

    def test_docker_gets_the_platforms(self):
        words = shlex.split(self.image("--print", "--platform", "linux/amd64,linux/arm64").stdout)
        self.assertEqual(words[5:8], ["build", "--platform", "linux/amd64,linux/arm64"])

    def test_flags_that_are_none_are_refused(self):
        for words, says in ((["--engine", "docker"], "buildah or podman"), (["--tagg=x"], "--tagg: no such flag"),
                            (["--tag"], "--tag: a value is missing"), (["--programs", "/nowhere"], "not a build directory"),
                            (["--programs", facts.BUILD], "docker compiles the programs"),
                            (["--platform", "linux/arm"], "--platform linux/arm: linux/amd64 or linux/arm64"),
                            (["--platform="], "--platform: a value is missing"), (["--save="], "--save: a value is missing"),
                            (["--save", "/nowhere/image.tar"], "--save /nowhere/image.tar: /nowhere is no directory that can be written"),
                            (["--platform=linux/arm64,linux/arm64"], "a platform is there twice")):
            got = self.image("--print", *words)
            self.assertEqual(got.returncode, 2)
            self.assertIn(says, got.stderr)


ENGINE = """#!/bin/sh
case $1 in
images) echo 100 MB ;;
push) # as the real ones: no archive that is there is written again
    file=${3#docker-archive:}; file=${file%%:*}
    [ ! -e "$file" ] || { echo "docker-archive doesn't support modifying existing images" >&2; exit 125; }
    [ ! -e "$(dirname "$0")/broken" ] || { echo half >"$file"; exit 125; }
    echo image >"$file" ;;
esac
"""


@unittest.skipIf(os.uname().machine == "aarch64", "its own image is one for arm64")
class BuildTest(unittest.TestCase):
    """With an engine that makes nothing."""

    def setUp(self):
        self.tmp = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.tmp / "buildah").write_text(ENGINE)
        (self.tmp / "buildah").chmod(0o755)
        self.archive = self.tmp / "gradwire.tar"

    def image(self, *args):
        return subprocess.run([IMAGE, "--engine=buildah", *args], capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{self.tmp}:{os.environ['PATH']}"})

    def test_an_archive_is_replaced_as_a_whole(self):
        self.archive.write_text("of yesterday")
        (self.tmp / "broken").touch()
        got = self.image("--base=debian:12", "--save", self.archive)
        self.assertEqual((got.returncode, self.archive.read_text()), (1, "of yesterday"))
        self.assertIn(f"--save {self.archive}: the archive was not written", got.stderr)
        (self.tmp / "broken").unlink()
        for _ in range(2):
            got = self.image("--base=debian:12", "--save", self.archive)
            self.assertEqual((got.returncode, self.archive.read_text()), (0, "image\n"), got.stderr)
        self.assertEqual({path.name for path in self.tmp.iterdir()}, {"buildah", "gradwire.tar"})

    def test_programs_without_those_of_arm64_are_refused_before_anything_is_made(self):
        (self.tmp / "CMakeCache.txt").write_text(f"CMAKE_BUILD_TYPE:STRING=Release\nCMAKE_CACHEFILE_DIR:INTERNAL={self.tmp}\n")
        got = self.image("--platform=linux/amd64,linux/arm64", "--programs", self.tmp)
        self.assertEqual(got.returncode, 2)
        self.assertEqual(got.stderr.splitlines(), [
            f"gradwire: image: --programs {self.tmp}: {self.tmp}/arm64 is not a build directory for arm64; ./gradwire build arm64 "
            "makes one"])


class ContextTest(unittest.TestCase):
    """The files that docker sends to the builder, in a directory of their own."""

    def test_they_are_enough_to_configure_each_target_that_the_image_builds(self):
        context = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        names = (facts.ROOT / "k8s/Dockerfile.dockerignore").read_text().split()
        self.assertEqual(names[0], "*")
        for name in (name.removeprefix("!") for name in names[1:]):
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            source = facts.ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, context / name)
        wanted = re.search(r"ninja -C /build (gradwire-[\w -]*?) *\\", (facts.ROOT / "k8s/Dockerfile").read_text())[1].split()
        self.assertIn("gradwire-model", wanted)
        for command in (["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"],
                        ["ninja", "-C", "build", "-n", *wanted]):
            got = subprocess.run(command, cwd=context, capture_output=True, text=True)
            self.assertEqual(got.returncode, 0, got.stdout + got.stderr)


class HereTest(unittest.TestCase):
    """tests/k8s/image_here: its exit codes and messages, on which ./gradwire test containers depends."""

    def here(self, **env):
        tools = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for tool in ("bash", "dirname", "readlink", "podman", "buildah", "runc", "dnsmasq", "nft"):  # no ip
            path = shutil.which(tool) if tool in ("bash", "dirname", "readlink") else "/bin/true"
            (tools / tool).symlink_to(path)
        return subprocess.run([facts.ROOT / "tests/k8s/image_here", facts.BUILD, tools / "image"], capture_output=True,
                              text=True, env={"PATH": str(tools), **env})

    def test_a_machine_that_cannot_run_containers_is_told_why(self):
        got = self.here()
        why = "ip is not there" if os.geteuid() == 0 else "they want root"
        self.assertEqual((got.returncode, got.stderr), (3, f"gradwire: skipping containers: {why}\n"))


@pods.wanted
class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("podman"):
            raise unittest.SkipTest("podman is not there")
        cls.image, = json.loads(pods.podman("inspect", pods.IMAGE).stdout)
        cls.config = cls.image["Config"]
        cls.labels = {key.removeprefix("org.opencontainers.image."): value for key, value in cls.config["Labels"].items()}

    @contextlib.contextmanager
    def mounted(self):
        """The image's files; no container is started."""
        try:
            yield pathlib.Path(pods.podman("image", "mount", pods.IMAGE).stdout.strip())
        finally:
            pods.podman("image", "unmount", pods.IMAGE)

    def read(self, path):
        with self.mounted() as root:
            return (root / path).read_text()

    def run_in(self, user, *words):
        return pods.podman("run", "--rm", "--pull=never", "--network", "none", "--read-only", "--user", user, "--ulimit",
                           "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--entrypoint", words[0], pods.IMAGE,
                           *words[1:]).stdout

    def test_its_labels_say_what_it_is_and_of_what(self):
        self.assertEqual({key: self.labels[key] for key in ("title", "licenses", "version")},
                         {"title": "gradwire", "licenses": "Apache-2.0", "version": VERSION})
        self.assertRegex(self.labels["revision"], r"^([0-9a-f]{40}|unknown)$")
        self.assertRegex(self.labels["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertTrue(self.labels["description"])

    def test_it_runs_the_entrypoint_as_nobody_without_a_command(self):
        self.assertEqual(self.config["Entrypoint"], ["/usr/local/bin/gradwire-entrypoint"])
        self.assertFalse(self.config.get("Cmd"))
        self.assertEqual(self.config["User"], "65532:65532")

    def test_a_worker_alone_exports_its_model_in_each_format(self):
        output = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        output.chmod(0o777)
        keys = {"export": "[onnx, savedmodel, keras, safetensors]", "data.synthetic_train_rows": 200,
                "data.synthetic_eval_rows": 50, "training.epochs": 1}
        pods.podman("run", "--rm", "--pull=never", "--network", "none", "--read-only", "--volume", f"{output}:/output",
                    "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", pods.IMAGE,
                    "--job=/usr/share/gradwire/examples/mnist/mlp.yaml", *(f"--set={key}={value}" for key, value in keys.items()))
        exports = json.loads((output / "summary.json").read_text())["export"]
        self.assertEqual([(e["format"], e["error"]) for e in exports],
                         [(name, None) for name in ("onnx", "savedmodel", "keras", "safetensors")])
        for e in exports:
            self.assertTrue((output / e["path"]).exists(), e)

    def test_its_sbom_lists_each_package_that_is_in_it(self):
        sbom = json.loads(self.read("usr/share/gradwire/sbom.spdx.json"))
        self.assertEqual(sbom["spdxVersion"], "SPDX-2.3")
        listed = {(p["name"], p["versionInfo"]) for p in sbom["packages"]}
        self.assertIn(("gradwire", VERSION), listed)
        paragraphs = [dict(re.findall(r"^(Package|Status|Version): (.*)$", text, re.M))
                      for text in self.read("var/lib/dpkg/status").split("\n\n") if text.strip()]
        installed = {(p["Package"], p["Version"]) for p in paragraphs if p["Status"] == "install ok installed"}
        self.assertGreater(len(installed), 40)
        self.assertEqual(installed - listed, set())
        ids = [p["SPDXID"] for p in sbom["packages"]]
        self.assertEqual(len(ids), len(set(ids)))

    def test_no_program_in_it_changes_its_user_or_installs_packages(self):
        with self.mounted() as root:
            found = [path.relative_to(root) for path in root.rglob("*")]
            self.assertGreater(len(found), 500)
            self.assertEqual([p for p in found if not (root / p).is_symlink() and (root / p).stat().st_mode & 0o6000], [])
            names = {p.name for p in found if p.parent.name in ("bin", "sbin")}
            self.assertEqual(names & {"apt", "apt-get", "dpkg", "perl", "perl-base", "su", "mount"}, set())
            self.assertEqual([p for p in found if str(p).startswith(("var/log/", "var/cache/"))], [])
            links = [root / p for p in found if (root / p).is_symlink()]
            self.assertEqual([link for link in links if not (root / os.readlink(link).lstrip("/")).exists()
                              and not link.parent.joinpath(os.readlink(link)).exists()], [])

    def test_it_has_what_scripts_and_kubectl_need(self):
        say = "; ".join(f"command -v {tool}" for tool in TOOLS) + "; getent passwd 65532; echo 1 | gzip | gzip -d"
        got = self.run_in("65532:65532", "sh", "-euc", say).splitlines()
        self.assertEqual([pathlib.Path(line).name for line in got[:len(TOOLS)]], list(TOOLS))
        self.assertTrue(got[-2].startswith("gradwire:x:65532:65532:"), got)
        self.assertEqual(got[-1], "1")

    def test_the_arbitrary_users_of_openshift_can_write_the_output(self):
        with self.mounted() as root:
            output = (root / "output").stat()
        self.assertEqual((output.st_uid, output.st_gid, output.st_mode & 0o777), (65532, 0, 0o775))

    def test_its_programs_do_not_name_the_directory_that_they_were_built_in(self):
        with self.mounted() as root:
            for program in (root / "usr/local/bin").iterdir():
                self.assertNotIn(str(facts.BUILD).encode(), program.read_bytes(), program.name)

    def test_a_second_build_is_the_same_to_the_bit(self):
        if os.environ.get("GRADWIRE_SHORT"):
            self.skipTest("it is not of the short part")
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=facts.ROOT, capture_output=True, text=True).stdout.strip()
        if self.labels["revision"] != head:
            self.skipTest("the image is of another commit")
        again = "localhost/gradwire-again:1"
        got = subprocess.run([IMAGE, "--engine", "buildah", "--base", self.labels["base.name"], "--programs", facts.BUILD,
                              "--storage", pods.STORAGE, "--tag", again], capture_output=True, text=True)
        if got.returncode == 3:
            self.skipTest(got.stderr.splitlines()[-1])
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        second, = json.loads(pods.podman("inspect", again).stdout)
        pods.podman("untag", again, again)  # one name: all names go
        self.assertEqual((second["RootFS"], second["Digest"]), (self.image["RootFS"], self.image["Digest"]))

    def test_it_is_at_most_112_mib(self):
        self.assertEqual(len(self.image["RootFS"]["Layers"]), 1)  # all that a node downloads
        self.assertLess(self.image["Size"] / 2**20, MAX_MIB)


if __name__ == "__main__":
    unittest.main()
