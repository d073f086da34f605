#!/usr/bin/env python3
# labels: short
"""The command lines of all programs are read alike: --help, --version, a flag that is mistyped, wrong or missing."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, LAUNCH, PS, ROOT, WORKER  # noqa: E402

# name, how it is called, what its usage begins with, a flag of it, what is missing without any
PROGRAMS = (("ps", [PS], "ps --job=FILE", "output", "--job=FILE"),
            ("worker", [WORKER], "worker --job=FILE", "job_name", "--job=FILE"),
            ("entrypoint", [BUILD / "k8s/entrypoint"], "gradwire-entrypoint", "worker_ips", None),
            ("launch", [LAUNCH], "gradwire COMMAND", "version", "COMMAND"),
            ("train", [LAUNCH, "train"], "gradwire train JOB", "restarts", "JOB"),
            ("rank", [LAUNCH, "rank"], "gradwire rank JOB", "attempt", "JOB"),
            ("status", [LAUNCH, "status"], "gradwire status DIR", "version", "DIR"),
            ("stop", [LAUNCH, "stop"], "gradwire stop DIR", "version", "DIR"),
            ("logs", [LAUNCH, "logs"], "gradwire logs DIR", "follow", "DIR"))


class FlagsTest(unittest.TestCase):
    def each(self, check):
        for name, command, usage, flag, missing in PROGRAMS:
            with self.subTest(name):
                def run(*words, command=command):
                    got = subprocess.run([*command, *words], capture_output=True, text=True, timeout=60)
                    return got.returncode, got.stdout, got.stderr
                check(run, name, usage, flag, missing)

    def refused(self, got, says):
        """One line, after the program's name or a log's."""
        code, out, error = got
        self.assertEqual((code, out, len(error.splitlines())), (2, "", 1), error)
        self.assertRegex(error, f"^[^'\"]*: {re.escape(says)}$")

    def test_help_is_told_in_each_spelling(self):
        def check(run, name, usage, flag, missing):
            for word in "--help", "-h", "-help":
                code, out, error = run(word)
                self.assertEqual((code, error), (0, ""))
                self.assertTrue(out.startswith(f"Usage: {usage}"), out)
                self.assertIn("--" + flag, out)
        self.each(check)

    def test_version_names_the_program(self):
        def check(run, name, usage, flag, missing):
            code, out, error = run("--version")
            self.assertEqual((code, error), (0, ""))
            self.assertRegex(out, rf"^gradwire {name} \d+\.\d+\.\d+ \((commit|source archive of commit|sources without a commit).*\)\n$")
        self.each(check)

    def test_the_commit_is_that_of_the_checkout_or_of_the_archive(self):
        """tools/commit.cmake, in a checkout, after a change, in a source archive, and in a copy without git."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tmp, said = pathlib.Path(folder.name), []
        top = tmp / "top"

        def git(*words):
            who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main"]
            return subprocess.run(["git", *who, "-C", top, *words], check=True, capture_output=True).stdout

        def say(root):
            subprocess.run(["cmake", f"-DROOT={root}", f"-DOUT={tmp}/commit.c", "-P", ROOT / "tools/commit.cmake"], check=True,
                           capture_output=True)
            said.append((tmp / "commit.c").read_text().split('"')[1])

        (top / "tools").mkdir(parents=True)
        (top / "tools/commit.txt").write_text("$Format:%H$\n")
        (top / ".gitattributes").write_text("tools/commit.txt export-subst\n")
        say(top)
        git("init", "-q")
        git("add", ".")
        git("commit", "-qm", "one")
        commit = git("rev-parse", "HEAD").decode()[:12]
        say(top)
        (top / ".gitattributes").write_text("tools/commit.txt  export-subst\n")
        say(top)
        subprocess.run(["tar", "-x", "-C", tmp], input=git("archive", "--prefix=archive/", "HEAD"), check=True)
        say(tmp / "archive")
        self.assertEqual(said, ["sources without a commit", f"commit {commit}", f"commit {commit}, with changes",
                                f"source archive of commit {commit}"])

    def test_a_mistyped_flag_is_told_with_the_one_that_was_meant(self):
        def check(run, name, usage, flag, missing):
            typed = flag[:-2] + flag[-1] + flag[-2]
            self.refused(run(f"--{typed}"), f"unknown flag --{typed}, did you mean --{flag}?")
            self.refused(run("--zzzzzzz"), "unknown flag --zzzzzzz; --help lists all flags")
            self.refused(run("--help=yes"), "--help takes no value")
        self.each(check)

    def test_a_key_of_the_job_file_is_no_flag_and_is_told_as_a_key(self):
        for command in "train", "rank":
            for words, says in ((["--epochs", "3"], "unknown flag --epochs; --set training.epochs=VALUE sets that key"),
                                (["--lr=0.1"], "unknown flag --lr; --set training.learning_rate=VALUE sets"),
                                (["--batch-size=8"], "--set training.batch_size=VALUE"), (["--seed=8"], "--set training.seed=VALUE"),
                                (["--gpus=1"], "unknown flag --gpus; --help lists all flags"),
                                (["--set", "training.epochs", "=", "3"], "'=' is a second JOB; only one is allowed; write --set key=value")):
                got = subprocess.run([LAUNCH, command, "job.yaml", *words], capture_output=True, text=True)
                self.assertEqual((got.returncode, len(got.stderr.splitlines()), says in got.stderr), (2, 1, True), got.stderr)

    def test_a_flag_of_other_programs_is_told_with_ours(self):
        for words, says in ((["-o", "x"], "unknown flag --o, did you mean --output?"), (["--num-workers=3"], "did you mean --workers?"),
                            (["--hostfile=x"], "did you mean --hosts?"), (["--overwrite"], "did you mean --fresh?"),
                            (["--resume"], "train resumes by itself: run it again with the same --output")):
            got = subprocess.run([LAUNCH, "train", "job.yaml", *words], capture_output=True, text=True)
            self.assertEqual((got.returncode, len(got.stderr.splitlines()), says in got.stderr), (2, 1, True), got.stderr)

    def test_a_flag_of_the_tree_without_its_value_says_what_it_wants(self):
        for flag, says in (("--seconds", "--seconds needs a whole number from 1"), ("--seed", "--seed needs a whole number")):
            got = subprocess.run([ROOT / "gradwire", "fuzz", flag], capture_output=True, text=True, timeout=60)
            self.refused((got.returncode, got.stdout, got.stderr), says)

    def test_what_is_missing_is_named(self):
        def check(run, name, usage, flag, missing):
            if missing:
                code, out, error = run()
                shown = "" if missing.startswith("-") else f": {usage}"
                self.assertEqual((code, out, f"{missing} is missing{shown}" in error), (2, "", True), error)
                self.assertTrue(error.endswith("; --help lists all flags\n"), error)
        self.each(check)

    def test_a_command_that_is_mistyped_is_told_with_the_one_that_was_meant(self):
        for word, says in (("trian", "unknown command trian, did you mean train?"),
                           ("exprt", "unknown command exprt, did you mean export?"),
                           ("imports", "unknown command imports, did you mean import?"),
                           ("resume", "unknown command resume, did you mean train?"),
                           ("x", "unknown command x; --help lists them")):
            got = subprocess.run([LAUNCH, word, "--ps=1"], capture_output=True, text=True)
            self.refused((got.returncode, got.stdout, got.stderr), says)


if __name__ == "__main__":
    unittest.main()
