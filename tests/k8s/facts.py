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


INDEX_NOTE = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def expand(text, env):
    """$(NAME) of the environment, as the kubelet does it in `env` and `args`."""
    return re.sub(r"\$\((\w+)\)", lambda name: env.get(name[1], name[0]), text)


def container_env(container, index, labels=None):
    """The environment that its `env` gives the pod of that ordinal, with these labels: a name in $( ) stands for the value above
    it."""
    labels = {"apps.kubernetes.io/pod-index": str(index), "jobset.sigs.k8s.io/jobset-name": "mnist", **(labels or {})}
    env = {}
    for entry in container.get("env", []):
        field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        label = re.fullmatch(r"metadata\.labels\['([^']+)'\]", field)
        env[entry["name"]] = (str(index) if field == INDEX_NOTE else labels.get(label[1], "") if label else
                              expand(entry.get("value", ""), env))
    return env
