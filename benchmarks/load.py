"""gradwire bench load: a whole job on a click log in Criteo's shape (csv, 13 numbers, 26 keys), with 4 workers on this host, which
have one copy of the rows, and in turn the same job with 1 worker. Both have 1 ps.

  memory      the peak of the proportional sizes (Pss) of all workers together
  first step  the seconds until the first step is trained

MISSED means that the memory of 4 workers is more than 1.3 times that of one, or that their first step comes later.
"""
import os
import re

from lib.cases import failed, finish
from lib.click_jobs import DATA, parser_of, run_cases, write_log
from lib.job import summary_of
from lib.look import Looks
from lib.programs import Failed
from lib.report import number

MANY = 4
JOB = """\
name: load
model:
  input: {{shape: auto}}
  layers:
    - linear: {{inputs: "C{{1..26}}"}}
    - sigmoid
  loss: binary_crossentropy
training: {{batch_size: 4096, epochs: 1}}
""" + DATA
MOST = {"memory": 1.3, "first step": 1.0}  # times that of one worker
PSS = re.compile(r"^Pss:\s+(\d+) kB", re.M)


class Memory(Looks):
    """The peak of the workers' memory."""

    def __init__(self, out):
        super().__init__(0.2)
        self.out, self.peak = out, 0

    def look(self):
        try:
            with open(os.path.join(self.out, "processes", "pids"), encoding="utf-8") as file:
                pids = [line.split()[2] for line in file if line.startswith("worker ")]
        except OSError:
            return
        now = 0
        for pid in pids:
            try:
                with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
                    found = PSS.search(file.read())
                now += int(found[1]) << 10 if found else 0
            except OSError:  # it has ended
                pass
        self.peak = max(self.peak, now)


def measured(job, workers):
    """{"memory": bytes, "first step": seconds, "digest": of what was learned}"""
    looks = []

    def beside(out):
        looks.append(Memory(out))
        return looks[0]
    summary = summary_of(job, 1, workers, {}, 1800, beside=beside)
    if summary["status"] != "done" or summary["restarts"]:
        raise Failed(f"train: {summary['status']}, {summary['restarts']} restarts")
    return {"memory": looks[0].peak, "first step": summary["first_step_s"], "digest": summary["digest"]}


def cases(options, folder, _cores):
    log, _ = write_log(options, folder, "log")
    job = os.path.join(folder, "job.yaml")
    with open(job, "w", encoding="utf-8") as file:
        file.write(JOB.format(log=log))
    sides = {1: [], MANY: []}
    try:
        for turn in range(options.rounds):
            for workers in sorted(sides, reverse=turn % 2 == 1):
                sides[workers].append(measured(job, workers))
        if len({side["digest"] for values in sides.values() for side in values}) > 1:
            raise Failed("4 workers learned another model than one")
    except Failed as failure:
        yield failed({"bench": "load"}, failure)
        return
    for what, most in MOST.items():
        case = finish({"bench": "load", "case": what}, [side[what] for side in sides[MANY]],
                      {"1 worker": [side[what] for side in sides[1]]})
        ratio = case["against"]["1 worker"]["ratio"]
        case["missed"] = ratio > most
        unit = 1 << 20 if what == "memory" else 1
        print(f"load {what}: {MANY} workers {number(case['ours']['median'] / unit)}, 1 worker "
              f"{number(case['against']['1 worker']['yardstick']['median'] / unit)} {'MiB' if unit > 1 else 's'}: "
              f"{ratio:.2f} x (at most {most})" + (" MISSED" if case["missed"] else "")
              + (f" INVALID: {case['invalid']}" if case["invalid"] else ""), flush=True)
        yield case


def main(arguments):
    return run_cases(parser_of("load", __doc__), arguments, cases)
