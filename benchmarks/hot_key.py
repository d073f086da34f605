"""gradwire bench hot-key: a click log in which one word of a key column is in 30 % of all rows, compared with a log in which
each column follows Zipf's law. The jobs have 2 ps, 2 workers, a table of 16 floats and no wide layers, so the shards have
much of the work. The benchmark measures the rate of the last epoch, and the CPU time of each ps for the same number of
steps.

MISSED means that a ps needs more than 1.3 times the CPU time that it needs for the other log, or that the rate is below
1 / 1.3 of the rate with the other log. INVALID means that the rates with the other log have quartiles that are more than
20 % apart, or that a result is wrong. The benchmark then does not judge the rate.
"""
import os
import statistics

from lib.cases import failed, finish
from lib.click_jobs import DATA, EXAMPLES, WORKERS, parser_of, run_cases, write_log
from lib.job import last_rate, summary_of
from lib.look import Looks
from lib.programs import Failed
from lib.report import number

PS, HOT_PERCENT = 2, 30
SLOWER_MOST = 1.3
LOSS_MOST = 0.72  # of all epochs; of words that say less than they did, too
JOB = """\
name: hot-key
model:
  input: {{shape: auto}}
  layers:
    - embedding: {{inputs: "C{{1..26}}", output_dim: 16, name: e}}
    - dense: {{inputs: [e, "I{{1..13}}"], units: 1}}
    - sigmoid
  loss: binary_crossentropy
""" + DATA + """\
training: {{epochs: 2}}
"""


class PsCpu(Looks):
    """CPU seconds of each ps of a running job, as its last look in /proc had them."""

    def __init__(self, folder):
        super().__init__(every_s=0.02)
        self.pids = os.path.join(folder, "processes", "pids")
        self.seconds = {}

    def look(self):
        try:
            with open(self.pids, encoding="utf-8") as file:
                running = [line.split() for line in file]
        except OSError:
            return  # not yet, or not any more
        for role, index, pid, *_ in running:
            if role == "ps":
                self.seconds[int(index)] = max(self.seconds.get(int(index), 0), cpu_seconds(pid))


def cpu_seconds(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    except OSError:
        return 0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def make(options, folder):
    """The job of the log as drawn, and of the one with the hot word."""
    jobs = {}
    for name, percent in (("drawn", 0), ("hot", HOT_PERCENT)):
        log, _ = write_log(options, folder, name, "--hot", percent)
        jobs[name] = os.path.join(folder, f"{name}.yaml")
        with open(jobs[name], "w", encoding="utf-8") as file:
            file.write(JOB.format(log=log))
    return jobs


def train(job, update, rows):
    """Examples a second, and the CPU seconds of each ps."""
    looks = []

    def beside(folder):
        looks.append(PsCpu(folder))
        return looks[-1]

    summary = summary_of(job, PS, WORKERS, {
        "training.update": update, "training.batch_size": EXAMPLES * (WORKERS if update == "sync" else 1), "ps.threads": 1,
        "checkpoint.every_steps": 0, "checkpoint.every_seconds": 0}, 600, beside=beside)
    cpu = [looks[0].seconds.get(i, 0) for i in range(PS)]
    if summary["status"] != "done" or summary["restarts"] or not summary["train"]["loss"] < LOSS_MOST or 0 in cpu:
        raise Failed(f"train: its result is wrong: {summary['status']}, loss {summary['train']['loss']}, CPU seconds {cpu}")
    return last_rate(summary, rows), cpu


def hot_case(options, jobs, update):
    case = {"bench": "hot-key", "case": update, "unit": "examples/s", "missed": False}
    rates, cpu = {name: [] for name in jobs}, {name: [] for name in jobs}
    try:
        for turn in range(options.rounds):
            for name in list(jobs)[::-1 if turn % 2 else 1]:
                rate, seconds = train(jobs[name], update, options.rows)
                rates[name].append(rate)
                cpu[name].append(seconds)
    except Failed as failure:
        return failed(case, failure)
    finish(case, rates["hot"], {"drawn": rates["drawn"]})
    median = {name: [statistics.median(of) for of in zip(*cpu[name])] for name in jobs}
    case["cpu_s"] = median
    case["cpu_slower"] = [hot / drawn for hot, drawn in zip(median["hot"], median["drawn"])]
    rate_slower = 0 if case["invalid"] else 1 / case["against"]["drawn"]["ratio"]
    case["missed"] = max(rate_slower, *case["cpu_slower"]) > SLOWER_MOST
    return case


def show(case):
    if case.get("failed"):
        print(f"{case['case']}: INVALID: {case['invalid']}", flush=True)
        return
    drawn = case["against"]["drawn"]
    print(f"{case['case']}: {number(case['ours']['median'])} examples/s with the hot word, {number(drawn['yardstick']['median'])} "
          f"without: {1 / drawn['ratio']:.2f} x the time")
    for i, slower in enumerate(case["cpu_slower"]):
        print(f"  ps {i}: {case['cpu_s']['hot'][i]:.2f} s of CPU time, {case['cpu_s']['drawn'][i]:.2f} without: {slower:.2f} x")
    told = "MISSED" if case["missed"] else "as promised"
    print(f"  {told}: at most {SLOWER_MOST} x" + (f"; INVALID: {case['invalid']}" if case["invalid"] else ""), flush=True)


def cases(options, folder, _):
    jobs = make(options, folder)
    for update in ("sync", "async"):
        case = hot_case(options, jobs, update)
        show(case)
        yield case


def main(arguments):
    return run_cases(parser_of("hot-key", __doc__), arguments, cases)
