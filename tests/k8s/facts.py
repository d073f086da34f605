"""Where the facts about Kubernetes and its operators are: the folder named by GRADWIRE_K8S, with schemas/,
tf_config_cases.json and tfconfig.py. Without it the tests that want it skip, saying so."""
import importlib.util
import json
import os
import pathlib
import re
import sys
import unittest

FOLDER = os.environ.get("GRADWIRE_K8S")
ROOT = pathlib.Path(os.environ.get("GRADWIRE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build"))
PROGRAMS = {"ps": BUILD / "ps" / "ps", "worker": BUILD / "worker" / "worker"}
ENTRYPOINT = BUILD / "k8s" / "entrypoint"


def skip_without(value, why):
    """A test or a class of them that wants what may be missing; ctest's log says what."""
    if not value:
        print(f"skipping: {why}", file=sys.stderr)
    return unittest.skipUnless(value, why)


wanted = skip_without(FOLDER, "GRADWIRE_K8S is not set: the folder with schemas/ and tf_config_cases.json")


def cases():
    return json.loads((pathlib.Path(FOLDER) / "tf_config_cases.json").read_text())


def tf_config(*args, **named):
    """The TF_CONFIG that the operator sets (tfconfig.py of that folder), or None."""
    spec = importlib.util.spec_from_file_location("tfconfig", pathlib.Path(FOLDER) / "tfconfig.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.tf_config(*args, **named)


def environment(**more):
    """Ours, without what would say who a process is."""
    env = {key: value for key, value in os.environ.items() if key not in ("TF_CONFIG", "JOB_COMPLETION_INDEX")}
    return {**env, **{key: value for key, value in more.items() if value is not None}}


JOB_NAME = {"metadata.labels['jobset.sigs.k8s.io/jobset-name']": "mnist"}
POD_INDEX = ("metadata.labels['apps.kubernetes.io/pod-index']", "metadata.annotations['batch.kubernetes.io/job-completion-index']")


def container_env(container, index):
    """The environment that its `env` gives the pod of that ordinal: a name in $( ) stands for the value above it."""
    env = {}
    for entry in container.get("env", []):
        field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        said = re.sub(r"\$\((\w+)\)", lambda name: env.get(name[1], name[0]), entry.get("value", ""))
        env[entry["name"]] = str(index) if field in POD_INDEX else JOB_NAME.get(field, said)
    return env
