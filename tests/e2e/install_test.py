#!/usr/bin/env python3
"""./gradwire install: another user trains with a read-only installed build. ./gradwire dist: the same commit gives the same
bytes. The packages that ./gradwire setup asks for are those that the package manager has."""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, DEADLINE_S, ROOT, Case, free_ports, kernels  # noqa: E402

DOOR = ROOT / "gradwire"
NOBODY = 65534
PROGRAMS = {"gradwire", "gradwire-hdf5", "gradwire-launch", "gradwire-model", "gradwire-ps", "gradwire-worker"}
OF_THE_TREE = ("setup", "build", "test", "bench", "lint", "fuzz", "mutate", "image", "install", "dist")
SMALL = ["--set=data.synthetic_train_rows=2000", "--set=data.synthetic_eval_rows=100", "--set=training.epochs=1"]
LONG = [*SMALL, "--set=training.epochs=10000"]


def run(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=DEADLINE_S, **options)


def listing(folder):
    """Each path below it, with all that a write would change."""
    return {str(p.relative_to(folder)): ((s := p.lstat()).st_mode, s.st_size, s.st_mtime_ns) for p in folder.rglob("*")}


@unittest.skipIf(BUILD != ROOT / "build", "install takes the release build")
class InstallTest(Case):
    PROGRAMS = True

    def setUp(self):
        super().setUp()
        self.tmp.chmod(0o755)

    def install(self, *flags, code=0, **more):
        got = run(DOOR, "install", *flags, umask=0o077, env={**os.environ, "DESTDIR": "", **more})
        self.assertEqual(got.returncode, code, got.stdout + got.stderr)
        return got.stderr

    def installed(self):
        """A prefix that nobody may write to."""
        prefix = self.tmp / "prefix"
        self.install(f"--prefix={prefix}")
        for path in [prefix, *prefix.rglob("*")]:
            path.chmod(path.stat().st_mode & 0o7555)
        self.addCleanup(run, "chmod", "-R", "u+w", prefix)
        return prefix

    def other_user(self, prefix):
        """Runs the installed command as another user where this one is root, in a folder of its own."""
        home = self.tmp / "home"
        home.mkdir()
        who = {}
        if os.geteuid() == 0:
            os.chown(home, NOBODY, NOBODY)
            who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        env = {"PATH": "/usr/bin:/bin", "HOME": str(home), **kernels()}

        def gradwire(*words, code=0, program=prefix / "bin/gradwire", **more):
            got = run(program, *words, cwd=home, env={**env, **more}, **who)
            self.assertEqual(got.returncode, code, f"{words}: {got.stdout}{got.stderr}")
            return got.stdout + got.stderr
        return home, gradwire

    def test_another_user_trains_with_a_read_only_build_that_was_installed_with_umask_077(self):
        prefix = self.installed()
        before, job = listing(prefix), prefix / "share/gradwire/examples/mnist/mlp.yaml"
        home, gradwire = self.other_user(prefix)
        self.assertIn("digest", gradwire("train", job, *SMALL))
        self.assertEqual(sorted(p.name for p in home.iterdir()), ["runs"])
        self.assertIn("mnist-mlp: done", gradwire("status", "runs/mnist-mlp", code=3))
        self.assertIn("generation 1", gradwire("logs", "runs/mnist-mlp", "worker-1"))
        self.assertIn("gradwire", gradwire("--version"))
        self.assertIn("ok   job", gradwire("doctor", job, "--output=new"))
        self.assertIn("suggested training.learning_rate", gradwire("lr-finder", job, "--output=rates", *SMALL))
        self.addCleanup(run, prefix / "bin/gradwire", "stop", home / "long")
        gradwire("train", job, "--detach", "--output=long", *LONG)
        gradwire("status", "long")
        gradwire("stop", "long")
        gradwire("status", "long", code=4)
        self.assertEqual(listing(prefix), before)
        self.assertTrue((prefix / "share/gradwire/python/gradwire_model.py").exists())

    def test_ranks_and_processes_started_by_hand_find_the_installed_programs(self):
        prefix = self.installed()
        job, script = prefix / "share/gradwire/examples/mnist/mlp.yaml", prefix / "share/gradwire/examples/hosts/start-by-hand.sh"
        home, gradwire = self.other_user(prefix)
        ps, worker = free_ports(2)
        gradwire(job, "by-hand", f"127.0.0.1:{ps}", f"127.0.0.1:{worker}", *SMALL, program=script)
        self.assertTrue((home / "by-hand/summary.json").exists())
        gradwire("-c", 'for rank in 0 1; do SLURM_PROCID=$rank "$@" & pids+=($!); done; for p in "${pids[@]}"; do wait $p; done',
                 "bash", prefix / "bin/gradwire", "rank", job, "--ps=1", "--address=127.0.0.1", "--output=ranks", *SMALL,
                 program="/bin/bash", SLURM_NTASKS="2", SLURM_JOB_ID="7", SLURM_STEP_ID="0")
        self.assertTrue((home / "ranks/summary.json").exists())

    def test_commands_of_the_source_tree_are_refused_in_one_line_that_says_where_they_work(self):
        _, gradwire = self.other_user(self.installed())
        for command in OF_THE_TREE:
            said = gradwire(command, code=2)
            self.assertEqual(said.count("\n"), 1, said)
            self.assertIn(f"needs a source tree of gradwire: run ./gradwire {command} there\n", said)
        self.assertNotIn("./gradwire", gradwire("help"))

    def test_the_manual_pages_are_installed(self):
        prefix = self.tmp / "prefix"
        self.install(f"--prefix={prefix}")
        for page in ("man1/gradwire.1", "man1/gradwire-ps.1", "man1/gradwire-worker.1", "man5/gradwire-job.5",
                     "man3/libgradwire-predict.3"):
            text = (prefix / "share/man" / page).read_text()
            self.assertIn(f"\n.Nm {page[5:-2]}\n", text)

    def test_a_newer_version_takes_away_pages_that_it_does_not_have(self):
        prefix = self.tmp / "prefix"
        self.install(f"--prefix={prefix}")
        old = prefix / "share/gradwire/docs/old.md"
        old.write_text("of the version before")
        self.install(f"--prefix={prefix}")
        self.assertFalse(old.exists())
        self.assertTrue((prefix / "share/gradwire/docs/guides/resume.md").exists())

    def test_destdir_stages_a_package_and_a_prefix_that_cannot_be_written_is_one_error(self):
        stage = self.tmp / "stage"
        said = self.install("--prefix", "/usr", DESTDIR=str(stage))
        self.assertIn(f"{stage}/usr/bin/gradwire", said)
        self.assertEqual({p.name for p in (stage / "usr/bin").iterdir()}, PROGRAMS)
        self.assertEqual([p.name for p in stage.iterdir()], ["usr"])
        file = self.tmp / "file"
        file.write_text("")
        said = self.install(f"--prefix={file}/below", code=1)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn(f"{file} is not a directory that", said)
        said = self.install("--prefix=/proc/below", code=1)  # root may write there, by its mode
        self.assertEqual(said.count("\n"), 1, said)
        if os.geteuid() != 0:
            stage.chmod(0o555)
            self.assertIn(f"{stage} is not a directory that", self.install(f"--prefix={stage}/new", code=1))
            stage.chmod(0o755)


class MovedTreeTest(Case):
    """A small tree with gradwire's own commands and targets, whose programs print what its source says."""

    PROGRAMS = True
    TARGETS = "gradwire-launch gradwire-worker gradwire-ps gradwire-model gradwire-hdf5 gradwire-predict gradwire-manual"

    def tree(self, name, says):
        tree = self.tmp / name
        tree.mkdir()
        shutil.copy(DOOR, tree)
        shutil.copytree(ROOT / "tools", tree / "tools")
        (tree / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(small C)\n"
            f"foreach(name {self.TARGETS})\nadd_executable(${{name}} main.c)\ninstall(TARGETS ${{name}})\nendforeach()\n"
            "install(FILES page.md DESTINATION share/gradwire/docs)\n")
        self.write(tree, says)
        return tree

    def write(self, tree, says):
        (tree / "main.c").write_text(f'#include <stdio.h>\nint main(void) {{ puts("{says}"); return 0; }}\n')
        (tree / "page.md").write_text(says)

    def built(self, tree):
        got = run(tree / "gradwire", "build")
        self.assertEqual(got.returncode, 0, got.stderr)
        return got.stderr, run(tree / "build/gradwire-ps").stdout.strip()

    def installed(self, tree):
        prefix = self.tmp / "prefix"
        shutil.rmtree(prefix, ignore_errors=True)
        got = run(tree / "gradwire", "install", f"--prefix={prefix}", env={**os.environ, "DESTDIR": ""})
        self.assertEqual(got.returncode, 0, got.stderr)
        return run(prefix / "bin/gradwire-ps").stdout.strip(), (prefix / "share/gradwire/docs/page.md").read_text()

    def test_a_built_tree_that_was_copied_or_moved_builds_and_installs_its_own_sources(self):
        old = self.tree("old", "old")
        self.assertEqual(self.built(old)[1], "old")
        copy, moved = self.tmp / "copy", self.tmp / "moved"
        shutil.copytree(old, copy)
        self.write(copy, "copy")
        said, printed = self.built(copy)
        self.assertEqual((printed, f"was made for the tree in {old}: building from scratch" in said), ("copy", True), said)
        self.assertNotIn("from scratch", self.built(copy)[0])
        self.assertEqual(self.installed(copy), ("copy", "copy"))
        old.rename(moved)
        self.assertEqual(self.installed(moved), ("old", "old"))
        self.assertNotIn("from scratch", self.built(moved)[0])

    def test_programs_for_the_image_are_not_taken_from_a_build_directory_that_was_moved(self):
        folder = self.tmp / "build"
        folder.mkdir()
        (folder / "CMakeCache.txt").write_text(f"CMAKE_BUILD_TYPE:STRING=Release\nCMAKE_CACHEFILE_DIR:INTERNAL={self.tmp}/old\n")
        got = run(DOOR, "image", "--programs", folder)
        self.assertEqual(got.returncode, 2, got.stderr)
        self.assertIn("this build directory was copied or moved", got.stderr)


@unittest.skipUnless(shutil.which("git"), "git is not installed")
@unittest.skipUnless((ROOT / ".git").exists(), "dist packs a commit, and this is no git checkout")
class DistTest(Case):
    IN_MEMORY = False

    def dist(self, root, **more):
        got = run(root / "gradwire", "dist", env={**os.environ, **more})
        self.assertEqual(got.returncode, 0, got.stderr)
        return pathlib.Path(got.stdout.strip())

    def test_a_commit_gives_the_same_tarball_to_everybody_and_it_needs_no_git(self):
        clone, home = self.tmp / "clone", self.tmp / "home"
        home.mkdir()
        config = home / ".gitconfig"
        config.write_text("[safe]\n\tdirectory = *\n")  # also for upload-pack, which takes no -c
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True, env={**os.environ, "HOME": str(home)})
        config.write_text("[tar]\n\tumask = 0\n[core]\n\tautocrlf = true\n")
        ours, theirs = self.dist(ROOT), self.dist(clone, HOME=str(home), TZ="Asia/Tokyo")
        self.assertEqual(ours.name, theirs.name)
        self.assertEqual(ours.read_bytes(), theirs.read_bytes())
        subprocess.run(["tar", "-C", self.tmp, "-xzf", ours], check=True)
        tree = self.tmp / ours.name.removesuffix(".tar.gz")
        tracked = run("git", "-C", clone, "ls-files", "-z").stdout.split("\0")[:-1]
        self.assertEqual(sorted(str(p.relative_to(tree)) for p in tree.rglob("*") if not p.is_dir()), sorted(tracked))
        self.assertIn("./gradwire train", run(tree / "gradwire").stdout)
        refused = run(tree / "gradwire", "dist")
        self.assertEqual((refused.returncode, refused.stderr.count("\n")), (1, 1), refused.stderr)


class PackagesTest(Case):
    """tools/packages.sh with package managers that are played: each writes its requests to `asked`."""

    PROGRAMS = True

    def packages(self, line, code=0, who={}, **programs):
        """The output, and the requests, of a line of shell that finds these programs and no others of their kind."""
        tools, asked = self.tmp / "bin", self.tmp / "asked"
        tools.mkdir()
        for tool in ("bash", "dirname", "mkdir", "sort", "touch", "env", "true"):
            (tools / tool).symlink_to(f"/usr/bin/{tool}")
        for name, text in {"sudo": 'shift; exec "$@"', **programs}.items():
            tool = tools / name.replace("_", "-")
            tool.write_text(f'#!/bin/bash\necho "{name} $*" >> {asked}\n{text}\n')
            tool.chmod(0o755)
        door = 'say() { echo "$*"; }; die() { shift; say "$*"; exit 1; }; quietly() { shift; "$@"; }'
        self.tmp.chmod(0o755)
        asked.write_text("")
        asked.chmod(0o666)
        got = run("/bin/bash", "-euc", f"{door}\n{(ROOT / 'tools/packages.sh').read_text()}\n{line}",
                  env={"PATH": str(tools), "ROOT": str(self.tmp)}, **who)
        self.assertEqual(got.returncode, code, got.stdout + got.stderr)
        return got.stdout, asked.read_text().splitlines()

    def test_of_several_names_the_one_is_installed_that_there_is_and_others_are_told(self):
        said, asked = self.packages("packages_install 'libclang-rt-dev|libclang-rt-14-dev' gcc sesame",
                                    apt_get="", dpkg_query="exit 1",
                                    apt_cache="[[ $3 == gcc || $3 == libclang-rt-14-dev ]]")
        self.assertIn("apt_get install -y --no-install-recommends libclang-rt-14-dev gcc", asked)
        self.assertIn("apt has no package sesame", said)

    def test_without_root_the_command_that_installs_is_printed(self):
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        said, asked = self.packages("packages_install 'a|b' c", code=1, who=who, sudo="exit 1", apt_get="", dpkg_query="")
        self.assertRegex(said, "run: (sudo apt-get update && )?sudo apt-get install -y --no-install-recommends a c\n$")
        self.assertEqual(asked, ["sudo -n true"])

    def test_what_is_installed_under_another_of_its_names_is_not_asked_for(self):
        said, asked = self.packages("packages_need fuzz", apt_get="", apt_cache="",
                                    dpkg_query="case $3 in clang | libclang-rt-14-dev) echo 'ii ' ;; *) exit 1 ;; esac")
        self.assertFalse([line for line in asked if line.startswith(("apt_get", "apt_cache"))], asked)

    def test_fedora_is_asked_by_its_own_names(self):
        said, asked = self.packages("packages_need build", rpm="[[ $3 == gcc ]]",
                                    dnf="[[ $2 != repoquery || $4 == libcmocka-devel ]] || echo known")
        (install,) = [line for line in asked if line.startswith("dnf install")]
        self.assertIn(" protobuf-c-devel ", install)
        self.assertIn(" cmocka-devel ", install)
        self.assertNotIn(" gcc ", install)


if __name__ == "__main__":
    unittest.main()
