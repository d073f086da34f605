#!/usr/bin/env python3
"""The controllers of Kubeflow Trainer, JobSet and Kueue (main.go), compiled by Go. Run by itself (./gradwire test operator
does so first) it makes the program and says what it does."""
import functools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import facts  # noqa: E402
import gomodule  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
MODULE = gomodule.Module(HERE, "trainer")
CRDS = (("github.com/kubeflow/trainer/v2", "manifests/base/crds/trainer.kubeflow.org_*.yaml"),
        ("sigs.k8s.io/jobset", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"))


@functools.cache
def program():
    """The path of the program; raises SkipTest where it cannot be had."""
    return MODULE.program(facts.BUILD / "operator" / "trainer")


@functools.cache
def crds():
    """The files of the CustomResourceDefinitions, as the modules have them."""
    return [str(path) for module, pattern in CRDS for path in sorted(MODULE.sources(module).glob(pattern))]


if __name__ == "__main__":
    gomodule.main({"trainer": MODULE}, lambda name: program())
