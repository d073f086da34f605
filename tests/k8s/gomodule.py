"""Programs of a Go module of these tests, which link other projects' own code. The first time Go fetches modules from its
proxy and compiles some hundred packages. Go's own cache keeps the compiled packages: an interrupted run continues from there,
and a second run compiles nothing."""
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import render  # noqa: E402

ENV = {**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
SAY_EVERY_S = 15


class Module:
    """The module in a folder. `name`: for messages; `flags`: of each go command; `packages`: its programs; `linked`: more words
    for the linker."""

    def __init__(self, folder, name, flags=(), packages=(".",), linked=""):
        self.folder, self.name, self.flags = folder, name, list(flags)
        self.packages, self.linked = packages, linked

    def say(self, what):
        print(f"{self.name}: {what}", file=sys.stderr, flush=True)

    def go(self, *words):
        return subprocess.run([render.go(), *words], cwd=self.folder, env=ENV, capture_output=True, text=True)

    def stale(self):
        """How many packages are to be compiled, in addition to main; None if their modules are not available."""
        got = self.go("list", "-deps", "-f", '{{if and .Stale (ne .Name "main")}}{{.ImportPath}}{{end}}', *self.flags,
                      *self.packages)
        if got.returncode == 0:
            return len(got.stdout.split())
        proxy = self.go("list", "-m", "-versions", "sigs.k8s.io/yaml")
        if proxy.returncode == 0:
            raise AssertionError(got.stderr)
        self.say(f"no Go proxy is to be had: {proxy.stderr.strip().splitlines()[-1]}")
        return None

    def compiled(self, out, n):
        """Runs `go build`, which names each package that it has to compile."""
        words = [render.go(), "build", "-v", *self.flags, f"-ldflags=-s -w {self.linked}", "-o", out, *self.packages]
        began = said = time.monotonic()
        with subprocess.Popen(words, cwd=self.folder, env=ENV, stderr=subprocess.PIPE, text=True) as made:
            lines = []
            for line in made.stderr:
                lines.append(line)
                if time.monotonic() - said > SAY_EVERY_S:
                    said = time.monotonic()
                    self.say(f"{len(lines)} of {n} packages")
        if made.returncode:
            raise AssertionError("".join(lines))
        if n:
            self.say(f"compiled in {time.monotonic() - began:.0f} s")

    def program(self, out):
        """Makes the program `out`, or several in the folder `out`; raises SkipTest where they cannot be had."""
        n = self.stale()
        if n is None:
            raise unittest.SkipTest("no Go proxy is to be had")
        if n:
            self.say(f"compiling {n} packages; what is done stays done")
        self.compiled(out, n)
        return out

    def sources(self, package):
        """Where a module's sources are, once it has been fetched."""
        got = self.go("list", "-m", "-f", "{{.Dir}}", *self.flags, package)
        if got.returncode:
            raise AssertionError(got.stderr)
        return pathlib.Path(got.stdout.strip())


def main(modules, make):
    """Makes the program of each named module, and says what it does."""
    if not render.go():
        print("skipped: Go is not there", file=sys.stderr)
        return
    for name, module in modules.items():
        module.say("looking what is to be compiled (modules that are not here come from Go's proxy)")
        try:
            make(name)
        except unittest.SkipTest:
            return
