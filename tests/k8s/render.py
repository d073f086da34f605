"""The programs that render the overlays and the chart: kubectl and helm, or, if one is missing, kustomize and helm as Go builds
them from its proxy (GRADWIRE_GO_TOOLS=1: the first time that takes minutes)."""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not there")
    sys.exit(0)

import facts

KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5@v5.4.3"  # as kubectl 1.31 has it
OLDEST_KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v4@v4.0.5"  # kubectl 1.21
HELM = "helm.sh/helm/v3/cmd/helm@v3.19.5"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
NO_TOOLS = "is not there, and GRADWIRE_GO_TOOLS is not set: with it Go makes one from its proxy"


def go():
    return shutil.which("go") or next((p for p in ("/usr/local/go/bin/go", "/usr/lib/go/bin/go") if os.access(p, os.X_OK)), None)


def run_go(folder, *words, **env):
    """Runs go. Returns the error, or None."""
    got = subprocess.run([go(), *words], cwd=folder, capture_output=True, text=True,
                         env={**os.environ, "GOFLAGS": "-mod=mod", **env})
    return (got.stderr.strip().splitlines() or ["?"])[-1] if got.returncode else None


def made(package, program):
    """Go builds a package's program. Returns the error, or None."""
    why = run_go(None, "install", package, GOBIN=str(program.parent))
    if not why or "the main module" not in why:
        return why
    with tempfile.TemporaryDirectory() as folder:  # a module that excludes others must be the main module
        (pathlib.Path(folder) / "go.mod").write_text("module tools\n\ngo 1.16\n")
        return run_go(folder, "get", package) or run_go(folder, "build", "-o", str(program), package.split("@")[0])


@functools.cache
def built(package):
    """The program of a package@version, as Go makes it; None where that cannot be: no Go, or no network."""
    if not os.environ.get("GRADWIRE_GO_TOOLS") or not go():
        return None
    path, version = package.split("@")
    program = facts.BUILD / "go-tools" / version / [word for word in path.split("/") if not word.startswith("v")][-1]
    if not program.exists():
        print(f"Go makes {package}: minutes, the first time", file=sys.stderr, flush=True)
        if why := made(package, program):
            print(f"{package} cannot be made: {why}", file=sys.stderr)
            return None
    return str(program)


@functools.cache
def kustomizer():
    """The words of a command that renders the folder behind them, or None."""
    if shutil.which("kubectl"):
        return ("kubectl", "kustomize")
    program = shutil.which("kustomize") or built(KUSTOMIZE)
    return (program, "build") if program else None


@functools.cache
def helm():
    return shutil.which("helm") or built(HELM)


wanted = facts.skip_without(kustomizer(), f"kubectl (1.21 or later renders the overlays) {NO_TOOLS}")


@functools.cache
def text(folder):
    got = subprocess.run([*kustomizer(), folder], capture_output=True, text=True)
    if got.returncode:
        raise AssertionError(got.stderr)
    return got.stdout


def load(text_of_one):
    return yaml.load(text_of_one, LOADER)


def objects(text_of_all):
    return list(yaml.load_all(text_of_all, LOADER))


def kustomize(folder):
    """The objects of an overlay, fresh ones each time."""
    return objects(text(pathlib.Path(folder)))


def overlay_on(case, base, *lines):
    """A folder with an overlay of that base; `@NAME@` in the lines is the folder NAME of k8s."""
    folder = tempfile.TemporaryDirectory()
    case.addCleanup(folder.cleanup)
    path = pathlib.Path(folder.name).resolve()

    def below(name):
        return os.path.relpath(facts.ROOT / "k8s" / name, path)
    text = re.sub(r"@(\S+?)@", lambda name: below(name[1]), "\n".join((f"resources: [@{base}@]", *lines)))
    (path / "kustomization.yaml").write_text(f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n{text}\n")
    return path


def overlays():
    """The folders that render by themselves; components do not."""
    return sorted(path.parent for path in (facts.ROOT / "k8s").rglob("kustomization.yaml")
                  if "kind: Kustomization\n" in path.read_text())


def created(docs):
    """The objects that pods of these objects create: the TFJobs that are texts of ConfigMaps, as on one night."""
    names = {"NIGHT": "night-1", **{key: value for doc in docs if doc["kind"] == "CronJob" for key, value in nightly(doc).items()}}
    return [load(re.sub("@([A-Z_]+)@", lambda m: names[m[1]], body)) for doc in docs if doc["kind"] == "ConfigMap"
            for name, body in doc.get("data", {}).items() if name == "tfjob.yaml"]


def nightly(cron):
    """The names that the first container of a CronJob's pod is given."""
    template = cron["spec"]["jobTemplate"]["spec"]["template"]
    first, = template["spec"]["initContainers"]
    return {"NAME": template["metadata"]["labels"]["app.kubernetes.io/instance"],
            **{e["name"]: e["value"] for e in first["env"] if "value" in e}}
