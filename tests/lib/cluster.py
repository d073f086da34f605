"""Shared code of the e2e tests: jobs in a folder of their own, launchers in the background, waits for events.

Nothing here waits by sleeping: it waits for an event (a file, an exit, a lock, a line of a log), with a deadline. Every
process that a test starts is gone when the test ends."""
import fcntl
import functools
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(os.environ.get("GRADWIRE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build"))
LAUNCH = BUILD / "launch" / "launch"
PS = BUILD / "ps" / "ps"
WORKER = BUILD / "worker" / "worker"
MODEL = BUILD / "model" / "model"
SANITIZED = BUILD.name in ("asan", "tsan")
TSAN = BUILD.name == "tsan"  # some thirty times slower
SHORT = bool(os.environ.get("GRADWIRE_SHORT"))
DEADLINE_S = 900 if SANITIZED else 400  # of what must come, on a machine with much else to do
LONG_ROWS = 2000 if TSAN else 5000 if SANITIZED else 16000  # an epoch with time to look at, and to be killed in


def slow(seconds, workers=2):
    """Flags of a job that lasts, whoever comes late: each computation takes so long. In sync that is a step's."""
    return [f"--fault=worker-{i}=sleep:{seconds}" for i in range(workers)]


def notes(path):
    """The metadata of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    return json.loads(data[8:8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})


def command_line(pid):
    """As bytes with NULs; empty for a process that is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:  # a zombie that nobody reaps is not alive
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


PORTS, PORT_BLOCKS = 100, 100  # of a test, and of all


def first_port():
    """10,000 ports below those that connect() picks by itself, where there are so many."""
    try:
        picked = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        picked = 32768
    room = PORTS * PORT_BLOCKS
    return min(picked, 30000) - room if picked >= room + 1024 else 20000


@functools.cache
def own_ports():
    """The ports of this test, one after the other, again and again. They are its own until it ends: a name that only one
    process can hold stands for them."""
    for i in range(PORT_BLOCKS):
        block, name = (os.getpid() + i) % PORT_BLOCKS, socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0gradwire-test-ports-{block}")
        except OSError:
            name.close()
            continue
        first = first_port() + block * PORTS
        own_ports.name = name  # as long as this process
        return itertools.cycle(range(first, first + PORTS))
    raise AssertionError(f"{PORT_BLOCKS} tests have taken all ports")


def free_ports(n):
    """Ports of 127.0.0.1 that are free now, and that neither another test nor connect() takes."""
    found = []
    while len(found) < n:
        port = next(own_ports())
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                found.append(port)
            except OSError:
                pass
    return found


def memory_folder(for_programs):
    """A folder in memory, where cuts take steps and not a disk's time; None: there is none, or too little of it, or no program
    may be run there (as in a container)."""
    folder = "/dev/shm"
    try:
        stat = os.statvfs(folder)
    except OSError:
        return None
    if for_programs and stat.f_flag & os.ST_NOEXEC:
        return None
    return folder if os.access(folder, os.W_OK) and stat.f_bavail * stat.f_frsize >= 256 << 20 else None


class Case(unittest.TestCase):
    """A test with a folder of its own, self.tmp; its jobs write to self.out unless told otherwise."""

    IN_MEMORY = True
    PROGRAMS = False  # it runs what it writes to its folder

    def setUp(self):
        folder = memory_folder(self.PROGRAMS) if self.IN_MEMORY else None
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-e2e-", dir=folder))
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.out = self.tmp / "out"

    def until(self, what, condition, deadline_s=DEADLINE_S):
        end = time.monotonic() + deadline_s
        while not (got := condition()):
            if time.monotonic() > end:
                self.fail(f"still not so after {deadline_s} s: {what() if callable(what) else what}")
            time.sleep(0.002)
        return got

    def gone(self, pids):
        """Waits until none of them is alive: who ends lets go of a lock, or of its network, a moment before."""
        self.until(lambda: f"all of {pids} are gone", lambda: not any(map(alive, pids)))

    def pids(self, out=None):
        """{"ps-0": pid, .., "launcher-0": pid} of the job that runs on `out`."""
        try:
            lines = ((out or self.out) / "processes/pids").read_text().splitlines()
        except FileNotFoundError:
            return {}
        return {f"{words[0]}-{words[1]}": int(words[2]) for words in map(str.split, lines)}  # a host may stand behind it

    def summary(self, out=None):
        return json.loads(((out or self.out) / "summary.json").read_text())

    def lock_is_free(self, out=None):
        """Waits until no process of the job is left: each holds DIR/lock."""
        with open((out or self.out) / "lock") as lock:
            def free():
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
                except BlockingIOError:
                    return False
            self.until("the lock is free", free)


class Launched:
    """A launcher in the background, or one that has ended."""

    def __init__(self, case, process, out, err_path):
        self.case, self.process, self.out, self.err_path = case, process, out, err_path

    def stderr(self):
        return self.err_path.read_text(errors="replace")

    def log(self, name):
        path = self.out / "processes" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self):
        """All that was said, for a failing test's message."""
        texts = [self.stderr()] + [f"--- {p.name}\n{p.read_text(errors='replace')}"
                                   for p in sorted((self.out / "processes").glob("*.log"))]
        return "\n".join(text[-6000:] for text in texts)

    def pids(self):
        return self.case.pids(self.out)

    def summary(self):
        return self.case.summary(self.out)

    def cuts(self):
        """Numbers of the cuts whose manifests are published, the oldest first."""
        return sorted(int(p.parent.name[4:]) for p in (self.out / "checkpoints").glob("cut-*/manifest.gw"))

    def until(self, what, condition):
        """Waits for a condition; fails immediately when the job ends before it is so."""
        def so():
            got = condition()
            if not got and self.process.poll() is not None and not (got := condition()):
                self.case.fail(f"the job ended with {self.process.returncode} before: {what}\n{self.logs()}")
            return got
        return self.case.until(lambda: f"{what}\n{self.logs()}", so)

    def until_cut(self, cut):
        return self.until(f"cut {cut} is published", lambda: (c := self.cuts()) and c[-1] >= cut)

    def until_said(self, name, text, times=1):
        """Waits until the log of a process ("launcher": its stderr) has said the text so often."""
        said = self.stderr if name == "launcher" else lambda: self.log(name)
        return self.until(f"{name} says: {text}", lambda: said().count(text) >= times)

    def until_pid(self, name, other_than=None):
        return self.until(f"{name} runs", lambda: (p := self.pids().get(name)) != other_than and p)

    def kill(self, name, sig=signal.SIGKILL):
        """Signals a process by name; returns its pid."""
        pid = self.until_pid(name)
        os.kill(pid, sig)
        return pid

    def signal(self, sig):
        self.process.send_signal(sig)

    def wait(self, code=0):
        try:
            got = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.case.fail(f"still running after {DEADLINE_S} s\n{self.logs()}")
        self.case.assertEqual(got, code, self.logs())
        return self

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            self.case.lock_is_free(self.out)


class TrainCase(Case):
    """Real jobs: the MNIST example on few drawn digits unless told otherwise."""

    JOB = ROOT / "examples/mnist/mlp.yaml"
    KEYS = {"data.synthetic_train_rows": 2000, "data.synthetic_eval_rows": 100, "training.epochs": 1,
            "training.microbatches": 4, "timeouts.worker_rejoin_s": 2}

    def sets(self, keys):
        return [f"--set={k}={v}" for k, v in {**self.KEYS, **keys}.items() if v is not None]

    def launch(self, *flags, out=None, job=None, before=(), keys={}, cwd=None):
        """Starts a launcher. `keys`: --set, over KEYS; None leaves one out."""
        out = out or self.out
        command = [*before, str(LAUNCH), "train", str(job or self.JOB), f"--output={out}", *self.sets(keys),
                   *map(str, flags)]
        err_path = self.tmp / f"{out.name}.stderr"
        with open(err_path, "w") as err, open(self.tmp / f"{out.name}.stdout", "w") as stdout:
            launched = Launched(self, subprocess.Popen(command, stdout=stdout, stderr=err, cwd=cwd or self.tmp), out,
                                err_path)
        self.addCleanup(launched.stop)
        return launched

    def train(self, *flags, code=0, **options):
        """Runs a job to its end, which is to be `code`."""
        return self.launch(*flags, **options).wait(code)

    def digest(self, *flags, **options):
        """Trains; returns the digest of what was learned."""
        s = self.train(*flags, **options).summary()
        self.assertEqual(s["status"], "done")
        self.assertTrue(s["digest"])
        return s["digest"]

    def undisturbed(self, **options):
        """The digest of one worker and one ps: what every other cluster is held to."""
        return self.digest("--ps=1", "--workers=1", out=self.tmp / "undisturbed", **options)


def kernels():
    """Of this environment, what decides which kernels OpenBLAS picks: a process that is started without the rest of it learns
    the same bits only with them."""
    return {name: text for name, text in os.environ.items() if name.startswith("OPENBLAS_")}


class Process:
    """A ps or a worker that a test starts by hand."""

    def __init__(self, case, command, name, env=None, pass_fds=()):
        self.case, self.log_path = case, case.tmp / f"{name}.{len(os.listdir(case.tmp))}.log"
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT,
                                            cwd=case.tmp, env=env, pass_fds=pass_fds)
        case.addCleanup(self.stop)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def takes(self, number):
        """Has a handler for this signal: it is past its exec and the first line of main."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("SigCgt:")[1].split()[0], 16) >> (number - 1) & 1

    def until_said(self, text):
        def so():
            if text not in self.log() and self.process.poll() is not None and text not in self.log():
                self.case.fail(f"ended with {self.process.returncode} before it said {text!r}:\n{self.logs()}")
            return text in self.log()
        self.case.until(lambda: f"said {text!r}:\n{self.logs()}", so)

    def logs(self):
        """All that was said, for a failing test's message: the cause is often in another process's log."""
        others = sorted(path for path in self.case.tmp.glob("*.log") if path != self.log_path)
        return "\n".join([self.log(), *(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in others)])

    def wait(self, code=0):
        try:
            got = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.case.fail(f"still running after {DEADLINE_S} s\n{self.logs()}")
        if got != code:
            self.case.fail(f"ended with {got}, not with {code}\n{self.logs()}")
        return self

    def last_line(self):
        return self.log().splitlines()[-1]

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
