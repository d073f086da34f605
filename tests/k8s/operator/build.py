#!/usr/bin/env python3
"""The training-operator's code, compiled by Go (main.go), of each version that we say we run under. Run by itself
(./gradwire test operator does so first) it makes all of them and says what it does. The first time, some 800 packages are
compiled for each version (three minutes of CPU)."""
import functools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import facts  # noqa: E402
import gomodule  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
FLAGS = {"v1.7": ["-modfile=v1.7.mod", "-tags=operator_1_7"], "v1.8": ["-modfile=v1.8.mod"], "v1.9": []}
MODULES = {version: gomodule.Module(HERE, f"operator {version}", flags) for version, flags in FLAGS.items()}


@functools.cache
def program(version):
    """The path of what has this version's code; raises SkipTest where it cannot be had."""
    return MODULES[version].program(facts.BUILD / "operator" / version)


def folder(version):
    """Where this version's sources are."""
    program(version)
    return MODULES[version].sources("github.com/kubeflow/training-operator")


if __name__ == "__main__":
    gomodule.main(MODULES, program)
