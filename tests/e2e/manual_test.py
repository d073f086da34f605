#!/usr/bin/env python3
"""The manual pages that the worker prints: formatters have nothing to report, and every flag of the help is in them."""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, DEADLINE_S, LAUNCH, MODEL, Case  # noqa: E402

WORKER, PS = BUILD / "worker/worker", BUILD / "ps/ps"
OF_MODEL = ("evaluate", "predict", "encode", "export", "compare", "convert")
PAGES = ("gradwire", "gradwire-ps", "gradwire-worker", "gradwire-job")


def output(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, timeout=DEADLINE_S,
                          **options).stdout


def manual(page):
    return output(WORKER, f"--print_manual={page}")


class ManualTest(Case):
    IN_MEMORY = False

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc_has_nothing_to_report(self):
        for page in PAGES:
            got = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=manual(page), capture_output=True, text=True,
                                 timeout=DEADLINE_S)
            self.assertEqual(got.stdout + got.stderr, "", page)

    @unittest.skipUnless(shutil.which("man") and shutil.which("groff"), "man or groff is not installed")
    def test_man_has_nothing_to_report(self):
        for page in PAGES:
            path = self.tmp / page
            path.write_text(manual(page))
            got = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", path], capture_output=True, text=True,
                                 timeout=DEADLINE_S, env={"PATH": "/usr/bin:/bin", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
            self.assertEqual((got.returncode, got.stderr), (0, ""), page)
            self.assertIn(page, got.stdout)

    def test_every_flag_of_the_help_is_in_the_page(self):
        for program, page in ((PS, "gradwire-ps"), (WORKER, "gradwire-worker")):
            text = manual(page)
            flags = re.findall(r"^  --(\w+)", output(program, "--help"), re.M)
            self.assertGreater(len(flags), 20)
            for flag in flags:
                self.assertIn(f"\n.It Fl \\-{flag}", text)

    def test_every_command_of_the_help_is_in_the_page_with_its_flags_and_exit_codes(self):
        commands = dict(part.split("\n", 1) for part in manual("gradwire").split("\n.Ss ")[1:])
        self.assertEqual(set(commands), {"train", "rank", "lr-finder", "doctor", "status", "logs", "stop", "old", *OF_MODEL})
        for command in commands.keys() - {"lr-finder", "doctor"}:
            text = output(MODEL if command in OF_MODEL else LAUNCH, command, "--help")
            for flag in set(re.findall(r"^  --(\w+)", text, re.M)) - {"help", "version"}:
                self.assertIn(f".It Fl \\-{flag}", commands[command], command)
            for code in re.findall(r"\b(\d+) [a-z]", text.partition("Exit codes:")[2]):
                self.assertIn(f"\n.It {code}\n", commands[command], command)

    def test_each_page_has_the_sections_that_man_pages_have(self):
        for page, own in (("gradwire", "COMMANDS ENVIRONMENT FILES EXAMPLES"), ("gradwire-ps", "OPTIONS ENVIRONMENT EXIT"),
                          ("gradwire-worker", "OPTIONS ENVIRONMENT EXIT")):
            found = re.findall(r"^\.Sh (\w+)", manual(page), re.M)
            self.assertEqual(found, ["NAME", "SYNOPSIS", "DESCRIPTION", *own.split(), "SEE"], page)

    def test_the_page_of_the_job_file_has_every_row_of_the_reference(self):
        text = manual("gradwire-job")
        keys = [key.replace(" ", "\\ ").replace("-", "\\-") for key in
                re.findall(r"^\| `([^`]*)` \|(?!.*\n\|--)", output(WORKER, "--print_job_reference"), re.M)]
        self.assertGreater(len(keys), 150)
        for key in keys:
            self.assertIn(f".It Sy \\&{key}\n", text)
        self.assertNotIn("```", text)


if __name__ == "__main__":
    unittest.main()
