#!/usr/bin/env python3
"""The training-operator's code, compiled by Go (main.go), of each version that we say we run under. Run by itself
(./gradwire test operator does so first) it makes all of them and says what it does.

The first time Go fetches modules from its proxy and compiles some 800 packages for each version (three minutes of CPU). Go's
own cache keeps the compiled packages: an interrupted run continues from there, and a second run compiles nothing."""
import functools
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import facts  # noqa: E402
import render  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
FLAGS = {"v1.7": ["-modfile=v1.7.mod", "-tags=operator_1_7"], "v1.8": ["-modfile=v1.8.mod"], "v1.9": []}
ENV = {**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
SAY_EVERY_S = 15


def say(version, what):
    print(f"operator {version}: {what}", file=sys.stderr, flush=True)


def go(*words):
    return subprocess.run([render.go(), *words], cwd=HERE, env=ENV, capture_output=True, text=True)


def stale(version):
    """How many packages are to be compiled, in addition to main.go; None if their modules are not available."""
    got = go("list", "-deps", "-f", '{{if and .Stale (ne .Name "main")}}{{.ImportPath}}{{end}}', *FLAGS[version], ".")
    if got.returncode == 0:
        return len(got.stdout.split())
    proxy = go("list", "-m", "-versions", "sigs.k8s.io/yaml")
    if proxy.returncode == 0:
        raise AssertionError(got.stderr)
    say(version, f"no Go proxy is to be had: {proxy.stderr.strip().splitlines()[-1]}")
    return None


def compiled(version, out, n):
    """Runs `go build`, which names each package that it has to compile."""
    words = [render.go(), "build", "-v", *FLAGS[version], "-ldflags=-s -w", "-o", out, "."]
    began = said = time.monotonic()
    with subprocess.Popen(words, cwd=HERE, env=ENV, stderr=subprocess.PIPE, text=True) as made:
        lines = []
        for line in made.stderr:
            lines.append(line)
            if time.monotonic() - said > SAY_EVERY_S:
                said = time.monotonic()
                say(version, f"{len(lines)} of {n} packages")
    if made.returncode:
        raise AssertionError("".join(lines))
    if n:
        say(version, f"compiled in {time.monotonic() - began:.0f} s")


@functools.cache
def program(version):
    """The path of what has this version's code; raises SkipTest where it cannot be had."""
    out = facts.BUILD / "operator" / version
    n = stale(version)
    if n is None:
        raise unittest.SkipTest("no Go proxy is to be had")
    if n:
        say(version, f"compiling {n} packages; what is done stays done")
    compiled(version, out, n)
    return out


def folder(version):
    """Where this version's sources are."""
    program(version)
    got = go("list", "-m", "-f", "{{.Dir}}", *FLAGS[version], "github.com/kubeflow/training-operator")
    if got.returncode:
        raise AssertionError(got.stderr)
    return pathlib.Path(got.stdout.strip())


def main():
    if not render.go():
        print("operator: skipped: Go is not there", file=sys.stderr)
        return
    for version in FLAGS:
        say(version, "looking what is to be compiled (modules that are not here come from Go's proxy)")
        try:
            program(version)
        except unittest.SkipTest:
            return


if __name__ == "__main__":
    main()
