"""Programs of the build: run with a deadline, ended for certain, their JSON believed only where their own check holds."""
import json
import os
import signal
import subprocess

ROOT = os.environ.get("GRADWIRE_ROOT") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("GRADWIRE_BUILD") or os.path.join(ROOT, "build")
EXIT_INPUT = 2  # the request is wrong
EXIT_INTERRUPTED = 130  # Ctrl-C


class Failed(Exception):
    """A program failed, timed out, or found its own result wrong."""

    def __init__(self, text, code=None):
        super().__init__(text)
        self.code = code  # the exit code, where there is one


# Each process has a group of its own, ended by its number and reaped.
def end(child):
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, how)
        except ProcessLookupError:
            pass
        try:
            return child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue
    raise Failed(f"process {child.pid} cannot be ended")


def run(command, deadline_s):
    """Runs it; returns its stdout."""
    name = os.path.basename(command[0])
    try:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                                 start_new_session=True)
    except OSError as error:
        raise Failed(f"{name}: {error}") from None
    try:
        out, err = child.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        raise Failed(f"{name}: not done after {deadline_s} s") from None
    finally:
        end(child)
    if child.returncode != 0:
        said = (err.strip().splitlines() or ["no word"])[-1]
        raise Failed(f"{name}: exit {child.returncode}: {said}", child.returncode)
    return out


def measure(deadline_s, name, *flags):
    """Run a program of benchmarks/; the JSON that it printed, if its check of the result holds."""
    out = run([os.path.join(BUILD, "benchmarks", name), *(str(flag) for flag in flags)], deadline_s)
    try:
        result = json.loads(out)
    except ValueError:
        raise Failed(f"{name}: it printed no JSON: {out!r}") from None
    if not result.get("valid"):
        raise Failed(f"{name}: its check of the result fails: {out.strip()}")
    return result
