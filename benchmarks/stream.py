"""gradwire bench stream: a click log in Criteo's shape, trained on with data.order: stream by 1, 2 and 4 workers, a logistic regression
in one epoch. The benchmark shows the time to the first step without and with a kept index, the rate, the peak memory of a worker,
and the bytes that the workers have read by the kernel's count (of the data's size; the chief indexes them, too).

MISSED means that a worker has taken more than 512 MiB, or a process other than the chief has read more than its part of the data
and a fifth. INVALID means that the digests of the jobs differ, or that a job failed.
"""
import os

from lib.click_jobs import WORKERS, EXAMPLES, parser_of, run_cases, write_log
from lib.job import summary_of
from lib.look import Looks
from lib.programs import Failed
from lib.report import number

JOB = """\
name: stream
model:
  input: {{shape: auto}}
  layers:
    - linear: {{inputs: "C{{1..26}}", name: wide}}
    - dense: {{inputs: "I{{1..13}}", units: 1, name: deep}}
    - add: [wide, deep]
    - sigmoid
  loss: binary_crossentropy
data:
  format: csv
  delimiter: tab
  train: {log}
  order: stream
  window: {window}
  memory_mb: {memory_mb}
  columns:
    - label: y
    - number: {{name: "I{{1..13}}", scale: log1p, missing: {{value: 0}}}}
    - key: "C{{1..26}}"
optimizer: {{adagrad: {{learning_rate: 0.01}}}}
training: {{epochs: 1, microbatches: 4, batch_size: {batch}}}
"""
ROW_BYTES = 258  # about; click_log says how many
MEMORY_MOST, READ_MOST = 512 << 20, 1.2


class Reading(Looks):
    """Bytes that each worker of a running job has read, as its last look in /proc had them."""

    def __init__(self, folder):
        super().__init__(every_s=0.02)
        self.pids = os.path.join(folder, "processes", "pids")
        self.bytes = {}

    def look(self):
        try:
            with open(self.pids, encoding="utf-8") as file:
                running = [line.split() for line in file]
        except OSError:
            return  # not yet, or not any more
        for role, index, pid, *_ in running:
            try:
                with open(f"/proc/{pid}/io", encoding="utf-8") as file:
                    if role == "worker":
                        self.bytes[int(index)] = int(file.read().split()[1])
            except OSError:
                pass  # it has ended


def train(job, workers, size):
    """A case of it."""
    looks = []

    def beside(folder):
        looks.append(Reading(folder))
        return looks[-1]

    summary = summary_of(job, 1, workers, {}, 24 * 3600, beside=beside)
    if summary["status"] != "done" or summary["restarts"]:
        raise Failed(f"train: {summary['status']}")
    memory = max(peak for name, peak in summary["peak_rss_bytes"].items() if name.startswith("worker"))
    read = [looks[0].bytes.get(i, 0) / size for i in range(workers)]
    return {"bench": "stream", "case": f"{workers} workers", "unit": "examples/s", "rate": summary["examples_per_s"],
            "first_step_s": summary["first_step_s"], "memory_bytes": memory, "read": read, "digest": summary["digest"],
            "missed": memory > MEMORY_MOST or any(part > READ_MOST / workers for part in read[1:])}


def show(case):
    read = ", ".join(f"{part:.2f}" for part in case["read"])
    print(f"{case['case']}: {number(case['rate'])} examples/s, first step after {case['first_step_s']:.2f} s, a worker takes up to "
          f"{case['memory_bytes'] / 2**20:.0f} MiB; they have read {read} of the data: "
          f"{'MISSED' if case['missed'] else 'as promised'}; digest {case['digest'][:12]}", flush=True)


def cases(options, folder, _):
    options.rows = int(options.gb * 1e9 / ROW_BYTES) if options.gb else options.rows
    log, _ = write_log(options, folder, "log")
    job = os.path.join(folder, "job.yaml")
    window = max(4096, min(32768, options.rows // 64))
    with open(job, "w", encoding="utf-8") as file:
        file.write(JOB.format(log=log, batch=WORKERS * EXAMPLES, window=window, memory_mb=max(32, min(400, options.rows // 8000))))
    digests = set()
    for workers in (1, 2, 4):
        case = train(job, workers, os.path.getsize(log))
        digests.add(case["digest"])
        show(case)
        yield case
    if len(digests) > 1:
        raise Failed(f"INVALID: the digests differ: {sorted(digests)}")


def main(arguments):
    parser = parser_of("stream", __doc__)
    parser.add_argument("--gb", type=float, help="so much text, in place of --rows")
    return run_cases(parser, arguments, cases)
