#!/usr/bin/env python3
# runs with others
"""data.order: stream: no process reads what it does not train on, the digest is the same for any number of workers, kills and
resumes, and wrong input is refused by its name."""
import gzip
import json
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, MODEL, PS, SANITIZED, SHORT, TSAN, WORKER, Process, TrainCase, free_ports, slow  # noqa: E402
from validation_test import WAYS, held_rows  # noqa: E402

JOB = """name: log
data: {format: csv, train: "DIR/day-*.csv", eval: DIR/eval.csv, order: stream, window: 64, header: names, columns: [
  {number: {name: "I{1..2}", scale: log1p, missing: {value: 0}}}, {number: {name: I3, scale: standard}}, {label: clicked},
  {key: {name: "C{1..3}"}}]}
model:
  input: {shape: auto}
  layers:
    - linear: {inputs: "C{1..3}", name: wide}
    - dense: {inputs: "I{1..3}", units: 4, activation: relu, name: d}
    - dense: {units: 1, use_bias: false, name: deep}
    - add: [wide, deep]
    - sigmoid
  loss: binary_crossentropy
  metrics: [auc, logloss]
training: {batch_size: 40, epochs: 2, microbatches: 4, learning_rate: 0.05}
optimizer: {adagrad: {initial_accumulator_value: 0.000001}}
timeouts: {worker_rejoin_s: 2}
"""
ROWS, SEED = 1500 if SANITIZED else 6000, 5
SLOW = slow(0.02)
DISTURBED = {"checkpoint.every_steps": 20, "checkpoint.every_seconds": 0}


def line(r):
    numbers = [r.randrange(1000) if r.random() > 0.1 else "" for _ in range(3)]
    keys = [f"k{int(r.expovariate(0.02))}" for _ in range(3)]
    clicked = int(r.random() < (0.7 if keys[0] < "k3" else 0.2))
    return ",".join(map(str, [*numbers[:2], clicked, numbers[2], *keys]))


def zstd(data):
    return subprocess.run(["zstd", "-q"], input=data, capture_output=True, check=True).stdout


class StreamCase(TrainCase):
    KEYS = {}

    def setUp(self):
        super().setUp()
        r = random.Random(3)
        for day, share in enumerate((0.2, 0.5, 0.3)):
            self.put(f"day-{day}.csv", [line(r) for _ in range(int(ROWS * share))])
        self.put("eval.csv", [line(r) for _ in range(300)])
        self.JOB = self.tmp / "log.yaml"
        self.JOB.write_text(JOB.replace("DIR", str(self.tmp)))

    def put(self, name, lines):
        (self.tmp / name).write_text("I1,I2,clicked,I3,C1,C2,C3\n" + "".join(f"{one}\n" for one in lines))


class StreamTest(StreamCase):
    def test_the_digest_is_the_same_for_any_number_of_workers(self):
        first = self.train("--ps=1", "--workers=1", out=self.tmp / "one").summary()
        self.assertGreater(first["eval"]["auc"], 0.6)
        self.assertTrue(first["exact"])
        self.assertEqual(first["steps"], 2 * ROWS // 40)
        for ps, workers in ((2, 2),) if SHORT or SANITIZED else ((1, 2), (2, 4)):
            with self.subTest(workers=workers):
                s = self.train("--ps", ps, "--workers", workers, out=self.tmp / f"{workers}").summary()
                self.assertEqual((s["digest"], s["eval"]), (first["digest"], first["eval"]))

    def disturbed(self, name):
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys=DISTURBED, out=self.tmp / name)
        job.until_cut(1)
        job.kill(name)
        s = job.wait().summary()
        self.assertGreaterEqual(s["restarts"], 1, job.logs())
        self.assertEqual(s["digest"], self.want["digest"], job.logs())

    def test_who_is_killed_in_mid_epoch_changes_nothing(self):
        self.want = self.train("--ps=1", "--workers=1", keys=DISTURBED, out=self.tmp / "whole").summary()
        for name in ("worker-1",) if SHORT or SANITIZED else ("worker-1", "worker-0", "ps-1"):
            with self.subTest(name):
                self.disturbed(name)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_a_checkpoint_goes_on_with_another_number_of_workers(self):
        want = self.train("--ps=1", "--workers=1", keys=DISTURBED, out=self.tmp / "whole").summary()
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys=DISTURBED)
        job.until_cut(1)
        job.signal(signal.SIGTERM)
        self.assertLess(job.wait(143).summary()["steps"], want["steps"])
        index = (self.out / "checkpoints/data.index").stat()
        self.assertEqual(self.train("--ps=1", "--workers=3", keys=DISTURBED).summary()["digest"], want["digest"])
        self.assertEqual((self.out / "checkpoints/data.index").stat().st_ino, index.st_ino)  # it was kept

    def test_files_that_are_held_out_are_evaluated_on(self):
        held = {"data.eval": None, "data.validation.files": self.tmp / "day-2.csv"}
        self.JOB.write_text(self.JOB.read_text().replace(f"eval: {self.tmp}/eval.csv, ", ""))
        s = self.train("--ps=1", "--workers=2", keys={**held, "training.epochs": 1}).summary()
        self.assertEqual(s["steps"], -(-int(ROWS * 0.7) // 40))
        self.assertIn("auc", s["eval"])

    def evaluated(self, out, *data):
        done = subprocess.run([MODEL, "evaluate", out, *data, "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        return {**got["eval"], "rows": got["rows"]}

    def test_rows_that_are_held_out_are_absent_and_evaluated_on(self):
        """As where they are bad, or behind the end of the data; and the same ones as of shuffled data."""
        heads, *_ = (self.tmp / "day-0.csv").read_text().split()
        lines = [row for day in range(3) for row in (self.tmp / f"day-{day}.csv").read_text().split()[1:]]
        job = self.JOB.read_text().replace(f"eval: {self.tmp}/eval.csv, ", "")
        self.JOB.write_text(job)
        for way, text in WAYS.items():
            held = held_rows(way, [row.split(",")[4] for row in lines], seed=SEED)
            if way == "last":
                left = [row for row, one in zip(lines, held) if not one]
            else:
                left = [",".join([*row.split(",")[:2], "bad", *row.split(",")[3:]]) if one else row for row, one in zip(lines, held)]
            self.put(f"{way}.left.csv", left)
            self.put(f"{way}.held.csv", [row for row, one in zip(lines, held) if one])
            apart = {"data.train": self.tmp / f"{way}.left.csv", "data.eval": self.tmp / f"{way}.held.csv", "data.bad_rows": "skip",
                     "data.bad_rows_max": ROWS, "training.seed": SEED}
            keys = {"data.validation": text.replace("user", "C1"), "training.seed": SEED}
            want = self.train("--ps=1", "--workers=1", keys=apart, out=self.tmp / f"{way}-apart").summary()
            for flags in (("--workers=1",),) if SHORT or SANITIZED else (("--workers=1",), ("--workers=2", "--evaluator")):
                out = self.tmp / f"{way}{len(flags)}"
                s = self.train("--ps=1", *flags, keys=keys, out=out).summary()
                self.assertEqual((s["digest"], s["eval"]), (want["digest"], want["eval"]), (way, flags))
            self.assertEqual(self.evaluated(out), self.evaluated(out, self.tmp / f"{way}.held.csv"), way)
            self.assertEqual(self.evaluated(out)["rows"], sum(held), way)

    def test_scales_and_means_are_learned_from_all_rows(self):
        numbers = [int(row.split(",")[3]) for day in range(3)
                   for row in (self.tmp / f"day-{day}.csv").read_text().split()[1:] if row.split(",")[3]]
        self.train("--ps=1", "--workers=2", keys={"training.epochs": 1})
        columns = {c["name"]: c for c in json.loads((self.out / "model/encoding.json").read_text())["columns"]}
        learned = columns["I3"]["number"]
        self.assertAlmostEqual(learned["shift"], statistics.fmean(numbers), places=9)
        self.assertAlmostEqual(learned["divisor"], statistics.pstdev(numbers), places=9)
        self.assertEqual(learned["missing"], learned["shift"])

    def learn_words(self):
        self.JOB.write_text(self.JOB.read_text().replace('{key: {name: "C{1..3}"}}', '{category: C1}, {key: {name: "C{2..3}"}}')
                            .replace('inputs: "C{1..3}"', 'inputs: "C{2..3}"').replace('inputs: "I{1..3}"', "inputs: [I1, I2, I3, C1]"))

    def test_words_are_those_that_shuffled_data_teach(self):
        self.learn_words()
        self.JOB.write_text(self.JOB.read_text().replace(f"eval: {self.tmp}/eval.csv, ", ""))
        keys = {"data.validation": WAYS["share"], "training.epochs": 1}
        words, digests = [], []
        for out, job in (("one", self.JOB), ("two", self.JOB), ("shuffled", self.shuffled())):
            digests.append(self.train("--ps=1", "--workers", 1 if out == "one" else 2, keys=keys, job=job, out=self.tmp / out).summary()["digest"])
            columns = {c["name"]: c for c in json.loads((self.tmp / out / "model/encoding.json").read_text())["columns"]}
            words.append(columns["C1"])
        self.assertEqual(digests[0], digests[1])
        self.assertEqual(words[0], words[2])
        self.assertIn("k0", str(words[0]))

    @unittest.skipIf(SANITIZED, "slow, and has no other threads than the rest")
    def test_an_earlier_job_s_encoding_is_used_where_words_are_learned(self):
        self.learn_words()
        buckets = {"data.columns": "[ignore: I1, ignore: I2, {number: {name: I3, buckets: log_squared}}, label: clicked, {key: {name: 'C{1..3}'}}]",
                   "model.layers": "[{linear: {inputs: 'C{1..3}', name: wide}}, {dense: {inputs: I3, units: 1, name: d}}, add: [wide, d], sigmoid]"}
        why = self.train("--ps=1", "--workers=2", code=2, keys=buckets, out=self.tmp / "none").stderr()
        self.assertIn("column I3 would learn its buckets", why)
        self.train("--ps=1", "--workers=1", keys={"data.order": "shuffled", "data.window": None,
                                                  "data.train": self.tmp / "day-1.csv"}, job=self.shuffled())
        s = self.train("--ps=1", "--workers=2", keys={"checkpoint.run": "next", "data.encoding": "keep"})
        self.assertEqual(s.summary()["status"], "done")

    def shuffled(self):
        """The job without the keys of a stream."""
        path = self.tmp / "shuffled.yaml"
        path.write_text(self.JOB.read_text().replace("order: stream, window: 64, ", ""))
        return path


class CompressedTest(StreamCase):
    """Members of gzip, frames of zstd, and a plain file: the digest is that of plain files, and one continues from the other."""

    def setUp(self):
        super().setUp()
        self.want = self.train("--ps=1", "--workers=1", keys=DISTURBED, out=self.tmp / "plain").summary()
        self.packed = {**DISTURBED, "data.train": f"[{', '.join(str(self.pack(day)) for day in range(3))}]"}

    def pack(self, day):
        data, to = (self.tmp / f"day-{day}.csv").read_bytes(), self.tmp / f"packed-{day}.csv"
        pack = (gzip.compress, zstd if shutil.which("zstd") else gzip.compress, bytes)[day]
        to.write_bytes(pack(data[:1000]) + pack(data[1000:]))
        return to

    def test_the_digest_is_that_of_plain_files_for_any_number_of_workers_and_kills(self):
        for workers in (2,) if SHORT or SANITIZED else (1, 4):
            s = self.train("--ps=1", "--workers", workers, keys=self.packed, out=self.tmp / f"{workers}").summary()
            self.assertEqual((s["digest"], s["eval"]), (self.want["digest"], self.want["eval"]))
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys=self.packed, out=self.tmp / "killed")
        job.until_cut(1)
        job.kill("worker-1")
        self.assertEqual(job.wait().summary()["digest"], self.want["digest"], job.logs())

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_a_checkpoint_of_plain_files_goes_on(self):
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys=DISTURBED)
        job.until_cut(1)
        job.signal(signal.SIGTERM)
        self.assertLess(job.wait(143).summary()["steps"], self.want["steps"])
        self.assertEqual(self.train("--ps=1", "--workers=3", keys=self.packed).summary()["digest"], self.want["digest"])
        path = self.tmp / "packed-0.csv"
        for name, damaged, why in (("cut", path.read_bytes()[:-9], "the gzip data ends early"),
                                   ("more", path.read_bytes() + b"more", "bytes of another kind follow")):
            path.write_bytes(damaged)
            said = self.train("--ps=1", "--workers=2", code=2, keys=self.packed, out=self.tmp / name).logs()
            self.assertRegex(said, f"packed-0.csv: .*{why}")


class LeasedTest(StreamCase):
    """training.update: async and ssp, of a log in which each row has a key of its own: the table has a row for each that was
    trained on."""

    def setUp(self):
        super().setUp()
        self.keys = set()
        for day in range(3):
            path = self.tmp / f"day-{day}.csv"
            lines = [f"{one.rpartition(',')[0]},d{day}r{i}" for i, one in enumerate(path.read_text().splitlines()[1:])]
            self.put(path.name, lines)
            self.keys.update((column, key) for one in lines for column, key in enumerate(one.split(",")[4:]))

    def trained(self, s, update="async"):
        """The job is done, and has trained on each row of each epoch."""
        self.assertEqual((s["status"], s["update"], s["steps"]), ("done", update, 2 * ROWS // 40))
        self.assertEqual(s["tables"]["wide"]["rows"], len(self.keys))
        self.assertGreater(s["eval"]["auc"], 0.6)

    def test_each_row_is_trained_on_once_an_epoch(self):
        for update, workers in (("async", 3), ("ssp", 2)):
            with self.subTest(update):
                keys = {"training.update": update, "training.microbatches": 16, "evaluate.every_steps": 40}
                s = self.train("--ps=2", "--workers", workers, keys=keys, out=self.tmp / update).summary()
                self.trained(s, update)
                self.assertEqual(sum(one["examples"] for one in s["per_worker"]), 2 * ROWS)
                self.assertEqual(s["history"][0]["epoch"], 1)
                self.assertTrue(s["evaluations"] or SANITIZED, s)

    def test_the_windows_of_a_dead_worker_are_taken_over(self):
        for name in ("worker-1",) if SHORT or SANITIZED else ("worker-1", "worker-0", "ps-1"):
            with self.subTest(name):
                job = self.launch("--ps=2", "--workers=2", *SLOW, keys={**DISTURBED, "training.update": "async"}, out=self.tmp / name)
                job.until_cut(1)
                job.kill(name)
                self.trained(job.wait().summary())

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_a_checkpoint_in_mid_epoch_goes_on_with_another_number_of_workers(self):
        keys = {**DISTURBED, "training.update": "async"}
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys=keys)
        job.until_cut(1)
        job.signal(signal.SIGTERM)
        self.assertLess(job.wait(143).summary()["steps"], 2 * ROWS // 40)
        self.trained(self.train("--ps=1", "--workers=3", keys=keys).summary())


@unittest.skipUnless((BUILD / "arrow/gradwire-arrow.so").exists(), "gradwire-arrow is not built: ./gradwire setup arrow")
class ParquetTest(StreamCase):
    """The rows of the csv as Parquet, in row groups that are larger than a window: the same digest."""

    def setUp(self):
        super().setUp()
        self.want = self.train("--ps=1", "--workers=1", keys=DISTURBED, out=self.tmp / "csv").summary()
        for name in ("day-0", "day-1", "day-2", "eval"):
            self.convert(name)
        text = self.JOB.read_text()
        self.JOB.write_text(text.replace("format: csv", "format: parquet").replace(".csv", ".parquet").replace(", header: names", ""))

    def convert(self, name, again=""):
        (self.tmp / "csv.yaml").write_text(JOB.replace("DIR", str(self.tmp)))
        out = self.tmp / f"as-{name}{again}"
        said = subprocess.run([str(MODEL), "convert", f"{self.tmp}/{name}.csv", f"--job={self.tmp}/csv.yaml", "--window=500",
                               f"--output={out}"], capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr)
        (out / "part-00000.parquet").rename(self.tmp / f"{name}.parquet")

    def test_the_digest_is_that_of_csv_for_any_number_of_workers_and_kills(self):
        said = subprocess.run([str(WORKER), "--doctor", f"--job={self.JOB}"], capture_output=True, text=True)
        self.assertIn("its row groups have up to 500 rows, and a window 64: they are decoded about 2 times an epoch", said.stdout)
        for workers in (1, 2) if SHORT or SANITIZED else (1, 2, 4):
            s = self.train("--ps=1", "--workers", workers, keys=DISTURBED, out=self.tmp / f"{workers}").summary()
            self.assertEqual((s["digest"], s["eval"]), (self.want["digest"], self.want["eval"]))
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys=DISTURBED, out=self.tmp / "killed")
        for cut, name in ((1, "worker-1"),) if SHORT or SANITIZED else ((1, "worker-1"), (3, "worker-0"), (6, "ps-1")):
            job.until_cut(cut)
            job.kill(name)
        self.assertEqual(job.wait().summary()["digest"], self.want["digest"], job.logs())

    def test_the_rows_that_are_held_out_are_those_of_csv(self):
        of_csv = self.tmp / "of-csv.yaml"
        of_csv.write_text(JOB.replace("DIR", str(self.tmp)).replace(f"eval: {self.tmp}/eval.csv, ", ""))
        self.JOB.write_text(self.JOB.read_text().replace(f"eval: {self.tmp}/eval.parquet, ", ""))
        runs = [self.train("--ps=1", "--workers=2", out=self.tmp / f"{i}", job=job,
                           keys={"data.validation": WAYS["column"].replace("user", "C1")}).summary()
                for i, job in enumerate((of_csv, self.JOB))]
        self.assertEqual(*((s["digest"], s["eval"]) for s in runs))

    def test_a_checkpoint_goes_on_with_another_number_of_workers(self):
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys=DISTURBED)
        job.until_cut(1)
        job.signal(signal.SIGTERM)
        self.assertLess(job.wait(143).summary()["steps"], self.want["steps"])
        self.assertEqual(self.train("--ps=1", "--workers=3", keys=DISTURBED).summary()["digest"], self.want["digest"])

    def test_a_bad_row_and_files_that_are_held_out_are_those_of_csv(self):
        text = (self.tmp / "day-1.csv").read_text().splitlines()
        text[700] = "1,2,7,3,a,b,c"
        (self.tmp / "day-1.csv").write_text("\n".join(text) + "\n")
        self.convert("day-1", again="-again")
        job = self.launch("--ps=1", "--workers=2", keys={"data.window": 8}, out=self.tmp / "stops")
        self.assertIn(job.process.wait(100), (1, 2))
        self.assertIn("day-1.parquet: row group 1, row 199: column \"clicked\": label 7, the model has 2 classes", job.logs())
        self.JOB.write_text(self.JOB.read_text().replace(f"eval: {self.tmp}/eval.parquet, ", ""))
        was = []
        for kind, header in (("csv", "names"), ("parquet", None)):
            held = {"data.format": kind, "data.header": header, "data.bad_rows": "skip", "training.epochs": 1, "data.eval": None,
                    "data.train": f"{self.tmp}/day-*.{kind}", "data.validation.files": self.tmp / f"day-2.{kind}"}
            job = self.train("--ps=1", "--workers=2", keys=held, out=self.tmp / f"held-{kind}")
            self.assertIn("1 bad rows of those that this process read are left out", job.logs())
            was.append([job.summary()[key] for key in ("digest", "eval", "steps")])
        self.assertEqual(*was)

    def test_columns_of_paths_and_absent_ones_are_those_of_csv(self):
        keys = {"data.columns": '[{number: {name: "I{1..3}", scale: log1p, missing: {value: 0}}}, {label: clicked}, {key: {name: "C{1..3}"}}, key: day]'}
        self.JOB.write_text(self.JOB.read_text().replace('linear: {inputs: "C{1..3}"', 'linear: {inputs: [C1, C2, C3, day]').replace(
            f"eval: {self.tmp}/eval.parquet, ", ""))
        csv, files = [], []
        for day, of in enumerate(("day=0/", "", "day=2/")):
            head, *lines = (self.tmp / f"day-{day}.csv").read_text().splitlines()
            csv.append(self.tmp / f"more-{day}.csv")
            csv[-1].write_text("".join(f"{one}\n" for one in (f"{head},day", *(f"{one},{of[4:5]}" for one in lines))))
            files.append(self.tmp / of / f"day-{day}.parquet")
            files[-1].parent.mkdir(exist_ok=True)
            (self.tmp / f"day-{day}.parquet").rename(files[-1])
        digests = [self.train("--ps=1", "--workers=2", out=self.tmp / f"paths-{i}",
                              keys={**keys, **more, "data.train": f"[{', '.join(map(str, names))}]"}).summary()["digest"]
                   for i, (names, more) in enumerate(((csv, {"data.format": "csv", "data.header": "names"}), (files, {"data.absent_columns": "missing"})))]
        self.assertEqual(*digests)

    def test_files_that_do_not_fit_or_change_are_named(self):
        path = self.tmp / "day-1.parquet"
        whole = path.read_bytes()
        broken = bytearray(whole)
        middle = len(whole) // 3
        broken[middle:middle + 2000] = bytes(2000)
        for name, data, code in (("cut", whole[:-9], (2,)), ("broken", bytes(broken), (1, 2))):
            path.write_bytes(data)
            job = self.launch("--ps=1", "--workers=2", keys={"data.window": 8}, out=self.tmp / name)
            self.assertIn(job.process.wait(100), code, job.logs())
            self.assertRegex(job.logs(), r"day-1.parquet: (its footer cannot be read|row group \d+: )")
        path.write_bytes(whole)
        keys = {**DISTURBED, "data.window": 8}
        job = self.launch("--ps=1", "--workers=2", *SLOW, keys=keys)
        job.until_cut(1)
        other = self.tmp / "other"
        other.write_bytes((self.tmp / "day-2.parquet").read_bytes())
        other.rename(path)
        self.assertEqual(job.process.wait(100), 1, job.logs())
        self.assertIn("day-1.parquet: it changed while it was read", job.logs())
        job = self.train("--ps=1", "--workers=2", code=2, keys=keys)
        self.assertIn("the data differ from those of its checkpoint", job.logs())


@unittest.skipIf(SANITIZED, "memory and bytes are those of a plain build")
class LargeTest(StreamCase):
    """A log that is many times as large as the memory for its rows."""

    def setUp(self):
        super().setUp()
        r = random.Random(4)
        lines = [line(r) for _ in range(5000)]
        for day in range(3):
            self.put(f"day-{day}.csv", [r.choice(lines) + "-" * 400 for _ in range(20000 if SHORT else 100000)])
        self.bytes = sum((self.tmp / f"day-{day}.csv").stat().st_size for day in range(3))

    def watch(self, job):
        """For each process: what it has read by the kernel's count, in all and when the index was made, and its most memory in KiB,
        taken while it is there."""
        read, memory, indexed = {}, {}, None
        while job.process.poll() is None:
            is_indexed = not indexed and "which teach words, scales and means" in job.logs()
            for name, pid in job.pids().items():
                try:
                    bytes_read = pathlib.Path(f"/proc/{pid}/io").read_text()
                    status = pathlib.Path(f"/proc/{pid}/status").read_text()
                    read[name] = int(bytes_read.split("rchar:")[1].split()[0])
                    memory[name] = int(status.split("VmHWM:")[1].split()[0])
                except (OSError, IndexError):
                    pass  # it has ended
            if is_indexed:
                indexed = dict(read)  # the workers wait now for the chief, which learns
            time.sleep(0.01)
        job.wait()
        return read, memory, indexed

    def test_each_process_reads_its_part_and_holds_its_windows(self):
        keys = {"training.epochs": 1, "training.batch_size": 400, "data.window": 4096, "data.memory_mb": 4}
        digests, indexes, shares = set(), set(), []
        for workers in (1, 2, 4):
            job = self.launch("--ps=1", f"--workers={workers}", *slow(0.01, workers), keys=keys, out=self.tmp / f"{workers}")
            read, memory, indexed = self.watch(job)
            digests.add(job.summary()["digest"])
            indexes.add((job.out / "checkpoints/data.index").read_bytes())
            parts = [round(read[f"worker-{i}"] / self.bytes, 2) for i in range(workers)]
            scanned = [indexed[f"worker-{i}"] for i in range(1, workers)]
            # the chief alone looks at the beginning and learns; a window is read with the cells at its ends
            for part, of_index in zip(parts[1:], scanned):
                self.assertLess(part - of_index / self.bytes, 1.7 / workers)
            self.assertLess(parts[0], 2 + 1.6 + 32e6 / self.bytes)
            said = job.logs().split("other workers have scanned ")[1:]
            self.assertAlmostEqual(sum(scanned), sum(float(one.split()[0]) for one in said) * (1 << 20), delta=2e6 * workers)
            shares.append(sum(scanned) / self.bytes)
            self.assertLess(max(memory[f"worker-{i}"] for i in range(workers)), 80 << 10)
        self.assertEqual((len(digests), len(indexes)), (1, 1))
        if not SHORT:  # the chief waits for no worker, and few parts are soon scanned
            self.assertGreater(max(shares), 0.1)

    def test_a_window_that_is_leased_is_read_by_one_process(self):
        keys = {"training.epochs": 1, "training.batch_size": 400, "training.update": "async", "data.window": 4096, "data.memory_mb": 4}
        job = self.launch("--ps=1", "--workers=3", *slow(0.01, 3), keys=keys)
        read, memory, _ = self.watch(job)
        parts = [read[f"worker-{i}"] / self.bytes for i in range(3)]
        self.assertLess(sum(parts), 2 + 1.7 + 32e6 / self.bytes, parts)  # the chief looks at the beginning, indexes, and learns
        self.assertLess(max(memory[f"worker-{i}"] for i in range(3)), 80 << 10)


class BadInputTest(StreamCase):
    """Wrong input is named: with 2 before training, later with 1."""

    def refuses(self, why, code=2, **options):
        job = self.train("--ps=1", "--workers=2", code=code, **options)
        self.assertIn(why, job.logs())
        return job

    def test_what_does_not_fit_a_stream_is_refused_by_name(self):
        for keys, why in (({"training.microbatches": 16}, "training.microbatches: 16 does not divide training.batch_size: 40"),
                          ({"training.update": "geo"}, "stream needs training.update: sync, async or ssp"),
                          ({"sync.dropped": "redo"}, "sync.dropped: with data.order: stream only lost"),
                          ({"data.window": 1000000, "data.memory_mb": 1, "data.mix": 256}, "make the windows smaller"),
                          ({"data.train": self.tmp / "no-*.csv"}, "no-*.csv")):
            with self.subTest(why):
                self.refuses(why, keys=keys)
        self.put("day-1.csv", [])
        for day in (0, 2):
            self.put(f"day-{day}.csv", [])
        self.refuses("it has no row")

    def test_a_large_frame_of_zstd_is_refused_by_name(self):
        text, empty = (self.tmp / "day-0.csv").read_bytes()[:10000].rpartition(b"\n")[0] + b"\n", 520  # a block as it is, and blocks of 128 KiB of newlines
        blocks = [(len(text) << 3, text), *[(1 << 20 | 2 | (i == empty - 1), b"\n") for i in range(empty)]]
        path = self.tmp / "day-1.csv"
        path.write_bytes(b"\x28\xb5\x2f\xfd\xa0" + (len(text) + (empty << 17)).to_bytes(4, "little")
                         + b"".join(head.to_bytes(3, "little") + body for head, body in blocks))
        why = "day-1.csv: the zstd data has a frame of more than 64 MiB of text"
        self.refuses(why)
        said = subprocess.run([WORKER, "--doctor", f"--job={self.JOB}"], capture_output=True, text=True, timeout=60)
        self.assertEqual(said.returncode, 2, said.stdout)
        self.assertIn(why, said.stdout + said.stderr)

    def test_a_bad_row_ends_the_job_with_its_line_or_is_left_out(self):
        text = (self.tmp / "day-1.csv").read_text().splitlines()
        text[700] = "1,2,maybe,3,a,b,c"
        (self.tmp / "day-1.csv").write_text("\n".join(text) + "\n")
        job = self.launch("--ps=1", "--workers=2", keys={"data.window": 8}, out=self.tmp / "stops")
        self.assertIn(job.process.wait(100), (1, 2))
        self.assertIn("day-1.csv:701: column \"clicked\": the label \"maybe\"", job.logs())
        skips = {"data.bad_rows": "skip", "data.window": 8}
        job = self.train("--ps=1", "--workers=2", keys=skips, out=self.tmp / "skips")
        self.assertIn("day-1.csv:701: this row is left out", job.logs())
        self.assertIn("1 bad rows of those that this process read are left out", job.logs())
        job = self.launch("--ps=1", "--workers=2", keys={**skips, "data.bad_rows_max": 0}, out=self.tmp / "many")
        self.assertIn(job.process.wait(100), (1, 2))
        self.assertIn("more than 0 bad rows (data.bad_rows_max)", job.logs())

    def test_a_file_that_changes_is_refused_by_name(self):
        keys = {**DISTURBED, "data.window": 8}
        job = self.launch("--ps=1", "--workers=2", *SLOW, keys=keys)
        job.until_cut(1)
        path = self.tmp / "day-1.csv"
        path.write_text(path.read_text().replace("k1", "k2"))
        self.assertEqual(job.process.wait(100), 1, job.logs())
        self.assertIn("day-1.csv: it changed while it was read", job.logs())
        self.refuses("the data differ from those of its checkpoint", keys=keys)

    def hosts(self, train, before=()):
        """A chief, begun by the command `before`, and a worker whose files are elsewhere: (worker, chief, ps)."""
        ports = free_ports(3)
        at = [f"127.0.0.1:{port}" for port in ports]
        flags = [f"--job={self.JOB}", f"--ps_hosts={at[0]}", f"--worker_hosts={at[1]},{at[2]}", *self.sets({})]
        ps = Process(self, [PS, "--job_name=ps", "--task_index=0", f"--output={self.tmp}/ps", *flags], "ps")
        worker = Process(self, [WORKER, "--job_name=worker", "--task_index=1", f"--output={self.tmp}/there", *flags,
                                f"--set=data.train={train}"], "worker")
        chief = Process(self, [*before, WORKER, "--job_name=worker", "--task_index=0", f"--output={self.tmp}/here", *flags], "chief")
        return worker, chief, ps

    def test_a_worker_s_files_can_be_elsewhere_and_are_the_chief_s_or_named(self):
        there = self.tmp / "there-data"
        there.mkdir()
        for day in range(3):
            (there / f"part-{day}.csv").write_bytes((self.tmp / f"day-{day}.csv").read_bytes())
        for one in self.hosts(f"{there}/part-*.csv"):
            one.wait()
        (there / "part-1.csv").write_text((there / "part-1.csv").read_text() + "1,2,0,3,a,b,c\n")
        worker, *others = self.hosts(f"{there}/part-*.csv")
        self.assertIn("part-1.csv: it has", worker.wait(2).last_line())
        self.assertIn("data.train must name the same data everywhere", worker.last_line())
        for one in others:
            one.stop()

    def test_a_chief_that_has_not_read_its_data_is_waited_for_by_start_s(self):
        worker, chief, ps = self.hosts(f"{self.tmp}/day-*.csv", ["sh", "-c", 'kill -STOP $$; exec "$@"', "sh"])
        more = [*worker.process.args, "--set=timeouts.start_s=1"]
        self.assertRegex(Process(self, more, "impatient").wait(1).last_line(),
                         r"has named no chief for 1 s \(timeouts.start_s\)$")
        patient = Process(self, [*more, "--when_done=wait"], "patient")
        patient.until_said("idle until a chief connects")
        patient.stop()
        self.until("stopped", lambda: pathlib.Path(f"/proc/{chief.process.pid}/stat").read_text().split()[2] == "T")
        chief.process.send_signal(signal.SIGCONT)
        for one in (worker, chief, ps):
            one.wait()

    def test_a_quote_that_is_not_closed_and_a_long_row_are_refused(self):
        path = self.tmp / "day-1.csv"
        text = path.read_text()
        path.write_text(text + '1,2,0,3,"a,b,c\n')
        self.refuses(f"day-1.csv:{text.count(chr(10)) + 1}: ", out=self.tmp / "quote")
        path.write_text(text + "1,2,0,3,a,b," + "c" * 1200000 + "\n")
        self.refuses("a row of more than 524288 bytes", out=self.tmp / "long")


if __name__ == "__main__":
    unittest.main()
