"""A test for each page: its files are written, its commands run in order in one directory, and their output is compared."""
import gzip
import importlib.util
import os
import pathlib
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time

import pages
from cluster import BUILD, DEADLINE_S, LAUNCH, MODEL, ROOT, WORKER, Case, kernels

PACKAGES = "numpy", "torch", "safetensors", "keras", "jax", "pandas", "tensorboard", "onnxruntime", "tensorflow"  # of commands that say so: # needs NAME and NAME
SLOW_S, SLOW_DEADLINE_S = 30, 3600

# ./gradwire, when all is built: the programs of this build.
FRONT_DOOR = f"""#!/bin/sh
set -e
command=$1
case $command in
train | rank | status | stop | logs | old | --version) exec {LAUNCH} "$@" ;;
evaluate | predict | encode | export | import | compare) exec {MODEL} "$@" ;;
doctor | lr-finder)
    shift
    case ${{1:--}} in
    -*) ;;
    *)  job=$1
        shift
        set -- --job="$job" "$@" ;;
    esac
    case $command in
    doctor) exec {WORKER} --doctor "$@" ;;
    *) OPENBLAS_NUM_THREADS=1 exec {WORKER} --find_learning_rate "$@" ;;
    esac ;;
build) echo "gradwire: built in build" >&2 ;;
install) exec cmake --install {BUILD} --prefix "$3" --component library >/dev/null ;;
help) exec {ROOT}/gradwire help ;;
*) echo "the test knows no command $command" >&2; exit 2 ;;
esac
"""

# srun and mpirun: N ranks on this host, each with the environment that tells it which it is.
STARTER = """#!/bin/bash
n=1
while [[ $1 == -* ]]; do
    case $1 in
    -n | -np) n=$2; shift 2 ;;
    -n*) n=${1#-n}; shift ;;
    *) echo "the test's $(basename "$0") knows no $1" >&2; exit 2 ;;
    esac
done
for ((i = 0; i < n; i++)); do
    NAMES "$@" & pids+=($!)
done
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit $code
"""
STARTERS = {"srun": "SLURM_PROCID=$i SLURM_NTASKS=$n SLURM_JOB_ID=$$ SLURM_STEP_ID=0",
            "mpirun": "OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_SIZE=$n PMIX_NAMESPACE=prterun-$$@1"}

# Hosts node1, node2, ... of a page: addresses of this host, by an /etc/hosts of the block's own. ssh is a shell here.
NODES = "127.0.0.1 localhost\n" + "".join(f"127.0.0.{i + 1} node{i}\n" for i in range(1, 10))
ON_NODES = re.compile(r"\bnode\d\b|--hosts\b")
OWN_HOSTS = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c",
             'mount --bind "$0" /etc/hosts && exec "$@"']

# The package's function, by the library that gradwire is linked with.
XXHASH = """import ctypes
library = ctypes.CDLL("libxxhash.so.0")
library.XXH3_64bits_withSeed.restype = ctypes.c_uint64
library.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def xxh3_64_intdigest(data, seed=0):
    return library.XXH3_64bits_withSeed(data, len(data), seed)
"""


class Shell:
    """Runs blocks as one shell would: the directory and what is exported last."""

    def __init__(self, folder, bin_folder):
        self.folder, self.state, self.nodes = folder, bin_folder / "state", bin_folder / "nodes"
        self.nodes.write_text(NODES)
        self.environment = {**os.environ, "LC_ALL": "C", "HOME": str(folder), "GRADWIRE_RSH": str(bin_folder / "rsh"),
                            "PATH": f"{bin_folder}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", **kernels()}
        for name in list(self.environment):
            if name.startswith(("SLURM_", "OMPI_", "PMI", "TF_CONFIG")):
                del self.environment[name]
        self.kept = []

    def run(self, text, deadline_s):
        """(exit status, stdout, stdout and stderr as they came)"""
        script = f"trap '{{ echo \"cd $(printf %q \"$PWD\")\"; export -p; }} > {self.state}' EXIT\n{text}"
        if self.state.exists():
            script = f". {self.state}\n{script}"
        before = [*OWN_HOSTS, str(self.nodes)] if ON_NODES.search(text) else []
        process = subprocess.Popen([*before, "bash", "-euo", "pipefail", "-c", script], cwd=self.folder, env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        pidfd, out, both = os.pidfd_open(process.pid), b"", b""
        self.kept.append(process)  # a job in the background may write on
        end = time.monotonic() + deadline_s
        with selectors.DefaultSelector() as selector:
            for stream in process.stdout, process.stderr:
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ)
            selector.register(pidfd, selectors.EVENT_READ)
            ended = False
            while selector.get_map():
                ready = selector.select(0 if ended else max(0, end - time.monotonic()))
                if not ready and not ended:
                    os.kill(process.pid, signal.SIGKILL)
                    raise AssertionError(f"still running after {deadline_s} s: {text}{both.decode(errors='replace')}")
                if not ready:  # only a job in the background still writes
                    break
                for key, _ in ready:
                    if key.fd == pidfd:
                        ended = True
                        selector.unregister(pidfd)
                        continue
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        selector.unregister(key.fileobj)
                    both += data
                    out += data if key.fileobj is process.stdout else b""
        os.close(pidfd)
        return process.wait(), out.decode(errors="replace"), both.decode(errors="replace")

    def close(self):
        for process in self.kept:
            process.stdout.close()
            process.stderr.close()


class PageCase(Case):
    PROGRAMS = True
    SLOW = False  # blocks that take more than 30 s run, too

    def setUp(self):
        super().setUp()
        self.left_out, self.outputs, programs = [], [], self.tmp / ".bin"
        programs.mkdir()
        scripts = {"gradwire": FRONT_DOOR, "rsh": '#!/bin/sh\nexec sh -c "$2"\n', "xdg-open": "#!/bin/sh\n"}
        for name, names in STARTERS.items():
            scripts[name] = STARTER.replace("NAMES", names)
        for name, text in scripts.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        shutil.copy(programs / "gradwire", self.tmp / "gradwire")
        shutil.copytree(ROOT / "examples", self.tmp / "examples")
        for name, target in {"build": BUILD, "k8s": ROOT / "k8s", "docs": ROOT / "docs", "python": ROOT / "python"}.items():
            (self.tmp / name).symlink_to(target)
        if not importlib.util.find_spec("xxhash"):
            (self.tmp / "xxhash.py").write_text(XXHASH)
        self.shell = Shell(self.tmp, programs)
        self.addCleanup(self.shell.close)
        self.addCleanup(self.end_all)

    def end_all(self):
        """No process that a page has started outlives its test: each has a directory below the test's own, or had it."""
        for link in pathlib.Path("/proc").glob("[0-9]*/cwd"):
            try:
                if f"{link.readlink()}/".startswith(f"{self.tmp}/"):
                    os.kill(int(link.parent.name), signal.SIGKILL)
            except OSError:
                pass

    def lacks(self, block, files):
        """Why this block cannot run here, or None."""
        needs = re.findall(r"\w+", " ".join(re.findall("# needs (.*)", block.text)))
        package = next((name for name in PACKAGES if name in needs and not importlib.util.find_spec(name)), None)
        if package:
            return f"this Python has no {package}"
        if ON_NODES.search(block.text) and subprocess.run([*OWN_HOSTS, str(self.shell.nodes), "true"], capture_output=True).returncode:
            return "this user may not mount an /etc/hosts of his own, which hosts node1, node2 need"
        if "gradwire-predict" in block.text and BUILD != ROOT / "build":
            return "a program of the page cannot load a library with a sanitizer"
        for path, source in files.items():
            if path in block.text:
                if not os.environ.get("GRADWIRE_DATA"):
                    return "GRADWIRE_DATA is not set: it names the folder with the data sets"
                found = sorted(pathlib.Path(os.environ["GRADWIRE_DATA"]).glob(source))
                if not found:
                    return f"GRADWIRE_DATA has no {source}"
                for number, each in enumerate(found, 1):
                    self.give(self.tmp / path.replace("*", str(number)), each)
        return None

    def give(self, path, source):
        path.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".gz" and path.suffix != ".gz":
            path.write_bytes(gzip.decompress(source.read_bytes()))
        elif not path.exists():
            path.symlink_to(source.resolve())

    def run_block(self, page, block):
        expected = re.search(r"# exits (\d+)\s*$", block.text)
        begin = time.monotonic()
        code, out, both = self.shell.run(block.text, SLOW_DEADLINE_S if self.SLOW else DEADLINE_S)
        took = time.monotonic() - begin
        self.assertEqual(code, int(expected[1]) if expected else 0, f"{page}:{block.line}:\n{block.text}{both}")
        if took > SLOW_S / 2:
            print(f"{page}:{block.line}: {took:.0f} s", file=sys.stderr)
        return out, both

    def follow(self, page):
        """A page that continues another one runs in the directory in which that one has run."""
        for before in pages.continues(page):
            self.follow(before)
        blocks, _ = pages.split((ROOT / page).read_text())
        tables = [entry for entry in pages.not_run()[0] if entry.page == page and not (self.SLOW and entry.slow)]
        files = {entry.begins: entry.instead for entry in pages.data()[0] if entry.page == page}
        said = None
        for block in blocks:
            if block.file:
                path = self.tmp / block.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text)
            elif block.is_run():
                said, why = None, self.lacks(block, files)
                if why:
                    self.left_out.append(why)
                elif not any(entry.matches(block) for entry in tables):
                    said = self.run_block(page, block)
                    self.outputs.append((block, said[0]))
            elif block.is_output() and said:
                why = [pages.differs(each, block) for each in said]
                self.assertIn("", why, f"{why[0]}; {page}:{block.line} shows:\n{block.text}and it is:\n{said[1]}")
        if self.left_out:
            self.skipTest(f"{'; '.join(dict.fromkeys(self.left_out))}: those commands were left out")


def each_page(case, only=None):
    """Gives `case` a test for each page that has a command."""
    for page in pages.pages():
        blocks = pages.split((ROOT / page).read_text())[0]
        if any(block.is_run() for block in blocks) and (only is None or page in only):
            def test(self, page=page):
                self.follow(page)
            test.__doc__ = f"Each command of {page} runs, and prints what the page shows."
            setattr(case, "test_" + re.sub(r"\W+", "_", page.removesuffix(".md")).lower(), test)
