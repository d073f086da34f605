#!/usr/bin/env python3
"""The programs of a cluster: etcd and Kubernetes' own, and the managers of the operators, compiled by Go from its proxy's
modules, in the build directory's `cluster`. Run by itself (./gradwire test cluster does so first) it makes them and says what
it does. The first time, some 3,000 packages are compiled (15 minutes of two cores)."""
import functools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import facts  # noqa: E402
import gomodule  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
VERSION = {"gitVersion": "v1.34.4", "gitMajor": "1", "gitMinor": "34"}
MODULES = {  # a folder of programs: the module that has them
    "plane": gomodule.Module(HERE, "cluster", ["-trimpath"], ["tool"],
                             " ".join(f"-X k8s.io/component-base/version.{name}={text}" for name, text in VERSION.items())),
    "training-operator": gomodule.Module(HERE.parent / "operator", "training-operator", packages=["./manager"]),
    "trainer": gomodule.Module(HERE.parent / "trainer", "trainer", packages=["tool"]),
}


@functools.cache
def folder(name):
    """Where a module's programs are; raises SkipTest where they cannot be had."""
    out = facts.BUILD / "cluster" / name
    out.mkdir(parents=True, exist_ok=True)
    MODULES[name].program(f"{out}/")
    return out


if __name__ == "__main__":
    gomodule.main(MODULES, folder)
