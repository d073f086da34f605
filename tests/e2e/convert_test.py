#!/usr/bin/env python3
"""./gradwire convert: csv as Parquet teaches what the csv does, whatever it is compressed by; killed at any time it goes on, and DIR has the
same bytes; what it cannot write as it is, is refused by file and line.

labels: short
"""
import gzip
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, DEADLINE_S, MODEL, ROOT, TSAN, WORKER, TrainCase  # noqa: E402

FILES = ROOT / "tests/data/parquet"
MODULE = BUILD / "arrow/gradwire-arrow.so"
JOB = """name: rows
model:
  input: {shape: auto}
  layers:
    - linear: {inputs: [user, town, code, day, id, flag, tags, words, both], name: l}
    - dense: {inputs: [age, count, big, price, kind], units: 1, name: d}
    - add: [l, d]
    - sigmoid
  loss: binary_crossentropy
data:
  format: csv
  header: names
  train: "*.csv*"
  missing: ["", "-7"]
  columns:
    - label: y
    - number: age
    - number: {name: count, buckets: {quantiles: 3}}
    - number: {name: big, scale: min_max}
    - number: {name: price, scale: standard}
    - category: {name: kind}
    - key: user
    - key: town
    - key: code
    - key: day
    - key: {name: id, hash: false, missing: {key: 5}}
    - key: flag
    - keys: {name: tags, separator: " ", max_values: 3}
    - keys: {name: words, separator: "|", max_values: 3, missing: empty}
    - weight: w
    - cross: {name: both, of: [user, town]}
optimizer: adam
training: {batch_size: 8, epochs: 2, learning_rate: 0.02, microbatches: 4}
"""


@unittest.skipUnless(MODULE.exists(), "gradwire-arrow is not built: ./gradwire setup arrow")
@unittest.skipIf(TSAN, "Arrow is not built with it")
class ConvertTest(TrainCase):
    KEYS = {"timeouts.worker_rejoin_s": 2}

    def setUp(self):
        super().setUp()
        self.JOB = self.tmp / "job.yaml"
        self.JOB.write_text(JOB)
        self.dir = self.tmp / "parquet"

    def convert(self, *words, code=0, **options):
        """Returns its stdout, or stderr if the code is not 0."""
        got = subprocess.run([str(MODEL), "convert", *map(str, words), f"--output={self.dir}"], capture_output=True, text=True,
                             timeout=DEADLINE_S, cwd=self.tmp, **options)
        self.assertEqual(got.returncode, code, got.stdout + got.stderr)
        return got.stderr if code else got.stdout

    def write(self, text, name="a.csv"):
        (self.tmp / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    def refused(self, text, *words):
        said = self.convert(*words, code=2)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn(text, said)

    def parts(self):
        return {path.name: path.read_bytes() for path in sorted(self.dir.glob("*.parquet"))}

    def columns(self, *words):
        """The types that it prints."""
        return dict(line.split()[:2] for line in self.convert(*words).splitlines()[1:])

    def test_csv_gzip_zstd_and_parquet_train_to_one_digest(self):
        head, *lines = (FILES / "rows.csv").read_text().splitlines()
        r = random.Random(7)
        lines = [line + "," + r.choice(["red", "", '"a, ""b"""', " blue", "1", "-7"]) for line in r.choices(lines, k=700)]
        # in the middle of two floats, and one digit behind it
        for i, age in enumerate(40 * ["1.000000059604644775390625", "1.00000005960464477539062500001"]):
            lines[i] = ",".join([lines[i].split(",", 2)[0], age, lines[i].split(",", 2)[2]])
        names = (head + ",kind").split(",")
        for i, name in enumerate(("a.csv", "b.csv", "c.csv")):  # the last one in another order of its columns
            rows = lines[i * 200:i * 200 + 200 + 100 * (i == 2)]
            if i == 2:
                rows = [line.split(",", 1)[1] + "," + line.split(",", 1)[0] for line in rows]
                names = names[1:] + names[:1]
            self.write("\n".join([",".join(names)] + rows) + "\n" * (i != 1), name)
        want = self.digest(out=self.tmp / "csv")
        for packed, pack in (("", None), (".gz", gzip.compress), (".zst", shutil.which("zstd"))):
            if packed and not pack:
                continue
            for path in self.tmp.glob("?.csv"):
                data = path.read_bytes()
                if packed == ".gz":
                    data = pack(data[:1000]) + pack(data[1000:])
                elif packed:
                    data = subprocess.run([pack, "-q"], input=data, capture_output=True, check=True).stdout
                path.with_name(path.name + packed).write_bytes(data)
            shutil.rmtree(self.dir, ignore_errors=True)
            said = self.convert("?.csv" + packed, f"--job={self.JOB}", "--window=128", "--threads=3")
            self.assertTrue(said.startswith(f"{self.dir}: 700 rows in 1 file\n  y  double\n"), said)
            parquet = {"data.format": "parquet", "data.header": None, "data.train": self.dir}
            self.JOB.write_text(JOB.replace("  header: names\n", ""))
            self.assertEqual(self.digest(out=self.tmp / ("parquet" + packed), keys=parquet), want)
            self.JOB.write_text(JOB)

    def test_types_are_those_of_all_values_and_are_said(self):
        rows = ["id,zip,price,n,large,code,mark,none,,e", "1,07,1,,9007199254740993,12345678901234567890,?,,x,1e5",
                "-2,11,2.50,5,0.5,1,a,,y,2", "0,9,-.5e-3,6,1,+1,1.0,,,3"]
        self.write("\n".join(rows) + "\n", "b.csv")
        self.write("\n".join(rows[:1] + ["3,1,1,1,1,1,1,,1,1"] * 9000) + "\n")
        text = self.convert("a.csv", "b.csv")
        self.assertEqual(text.splitlines()[1:], [
            "  id  int64", '  zip  text  (b.csv:2: "07")', '  price  double  (b.csv:3: "2.50")', "  n  int64",
            '  large  text  (b.csv:3: "0.5")', '  code  text  (b.csv:2: "12345678901234567890")', '  mark  text  (b.csv:2: "?")',
            "  none  text", '  column_9  text  (b.csv:2: "x")', '  e  double  (b.csv:2: "1e5")'])
        self.assertIn("it is complete", self.convert("a.csv", "b.csv"))
        shutil.rmtree(self.dir)
        said = subprocess.run([str(MODEL), "convert", "b.csv", "b.csv", f"--output={self.dir}"], capture_output=True, text=True, cwd=self.tmp)
        self.assertEqual(said.stderr.count("b.csv is named twice"), 1, said.stderr)
        shutil.rmtree(self.dir)
        self.write("x\t7\n\ty\n", "c.csv")
        self.assertEqual(self.columns("c.csv", "--set=data.delimiter=tab", "--set=data.header=none", "--set=data.missing=x"),
                         {"column_1": "text", "column_2": "text"})

    def big(self, rows=60000):
        r = random.Random(3)
        self.write("y,x,word\n" + "".join(f"{i % 2},{r.random()},{r.choice('abcdef') * r.randrange(9)}\n" for i in range(rows)), "a.csv")
        (self.tmp / "b.csv.gz").write_bytes(gzip.compress((self.tmp / "a.csv").read_bytes(), 1))
        return ["a.csv", "b.csv.gz", "--window=16", "--threads=2"]

    def test_a_file_has_one_column_of_any_name(self):
        for name in ("x", "y", "age"):
            self.write(f"{name}\n1\n2\n")
            self.assertEqual(self.columns("a.csv"), {name: "int64"})
            shutil.rmtree(self.dir)

    def test_killed_at_any_time_it_goes_on_and_the_bytes_are_the_same(self):
        flags = self.big()
        self.convert(*flags)
        want, done = self.parts(), (self.dir / "_SUCCESS").read_bytes()
        self.assertGreater(len(want), 100)
        shutil.rmtree(self.dir)
        r, there = random.Random(5), {}
        for parts in (0, 1, 5, 30, 31, 60, 90):
            run = subprocess.Popen([str(MODEL), "convert", *flags, f"--output={self.dir}"], cwd=self.tmp, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + DEADLINE_S
            while run.poll() is None and len(list(self.dir.glob("*.parquet"))) < parts and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(r.random() * 0.01)
            run.kill()
            self.assertNotEqual(run.wait(), 0, f"it was done before it was killed at {parts} parts")
            for name, of in there.items():
                self.assertEqual(os.stat(self.dir / name).st_ino, of, f"{name} was made again")
            there = {path.name: path.stat().st_ino for path in self.dir.glob("*.parquet")}
            if parts == 60:  # the disk was full in the middle of a line
                state = self.dir / "_UNFINISHED"
                lines = state.read_text().splitlines()
                lines = [line for line in lines if not line.startswith("part ") or int(line.split()[1]) <= 59]
                self.assertRegex(lines[-1], r"^part 59 .* \d\d+$")
                state.write_text("\n".join(lines)[:-1] + "part 1\n")
            self.assertFalse((self.dir / "_SUCCESS").exists())
            if parts:
                got = subprocess.run([str(WORKER), "--doctor", f"--job={self.JOB}", "--set=data.format=parquet",
                                      "--set=data.header=none", f"--set=data.train={self.dir}"], capture_output=True, text=True)
                self.assertEqual(got.returncode, 2)
                self.assertIn("gradwire convert has not finished this directory: run it again", got.stdout)
                got = self.launch("--ps=1", "--workers=1", keys={"data.format": "parquet", "data.header": "none",
                                                                 "data.train": f"{self.dir}/part-*.parquet"}).wait(2)
                self.assertIn("has not finished this directory", got.logs())
        self.refused("it was begun by another convert: there \"window 16\", here \"window 32\"", *flags[:2], "--window=32")
        self.convert(*flags)
        for name, of in there.items():
            self.assertEqual(os.stat(self.dir / name).st_ino, of, f"{name} was made again")
        self.assertEqual(self.parts() == want, True)
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(["_SUCCESS", *want]))
        self.assertEqual((self.dir / "_SUCCESS").read_bytes(), done)
        os.utime(self.tmp / "a.csv", (1, 1))
        self.refused("it was begun by another convert: there \"input", *flags)

    def test_other_threads_write_the_same_bytes(self):
        flags = self.big(20000)
        self.convert(*flags)
        want = self.parts()
        shutil.rmtree(self.dir)
        self.convert(*flags[:-1], "--threads=7")
        self.assertEqual(self.parts() == want, True)
        shutil.rmtree(self.dir)
        self.convert(*flags, "--compression=snappy")
        self.assertNotEqual(self.parts(), want)

    def test_a_large_file_takes_little_memory(self):
        block = "".join(f"{i % 2},{i * 0.37:.3f},{'w%d' % (i % 999)},{'long text ' * 20}\n" for i in range(2000))
        with open(self.tmp / "a.csv", "w") as out:
            out.write("y,x,word,text\n" + block * 700)  # 330 MB
        command = [str(MODEL), "convert", "a.csv", f"--output={self.dir}", "--threads=1"]
        pid = os.spawnve(os.P_NOWAIT, "/bin/sh", ["sh", "-c", f"cd {self.tmp} && exec {' '.join(command)} >out"], os.environ)
        _, status, used = os.wait4(pid, 0)
        self.assertEqual(status, 0)
        self.assertLess(used.ru_maxrss, 300 << 10, "KiB")

    def test_what_it_cannot_write_is_named_by_file_and_line(self):
        job = f"--job={self.JOB}"
        head = (FILES / "rows.csv").read_text().splitlines()[0] + ",kind\n"
        row = "0,1,0,,5,,1,,,,,Oslo,b,22,,x,0.5,red\n"
        good = dict(zip(head.strip().split(","), "0,1,0,,5,,1,,,,Oslo,b,22,,x,0.5,red".split(",")))
        self.assertEqual(len(good), head.count(",") + 1, row)

        def lines(*changes):
            return head + "".join(",".join({**good, **change}.values()) + "\n" for change in changes)
        self.write(lines({}, {"age": "4x"}))
        self.refused('a.csv:3: column "age": "4x" is not a number', "a.csv", job)
        self.write(lines({}, {}, {"town": "a,b"}))
        self.refused("a.csv:4: it has 18 fields, its header has 17", "a.csv", job)
        self.write(lines({}, {"age": "-7.0"}))
        self.refused('a.csv:3: column "age": it is a number of data.missing in another spelling', "a.csv", job)
        self.write(lines({}, {"town": "Malm\xf6"}).encode("latin-1"))
        self.refused('a.csv:3: column "town": it is not UTF-8', "a.csv", job)
        self.write(lines({}, {"age": "4x"}, {"town": "Rome"}))
        said = self.convert("a.csv", job, "--set=data.bad_rows=skip")
        self.assertTrue(said.startswith(f"{self.dir}: 2 rows"), said)
        shutil.rmtree(self.dir)
        self.write(lines({}, *[{"age": "4x"}] * 3))
        self.refused("more than 2 bad rows (data.bad_rows_max)", "a.csv", job, "--set=data.bad_rows=skip", "--set=data.bad_rows_max=2")
        self.write("a,b\n1,2\n")
        self.refused('its header does not name "y"', "a.csv", job)
        self.write("a\n1\n", "b.csv")
        self.refused('b.csv: it has no column "b", which a.csv has', "a.csv", "b.csv")
        self.write("a,b,c\n1,2,3\n", "b.csv")
        self.refused('b.csv: it has a column "c", which a.csv has not', "a.csv", "b.csv")
        self.write("a,b,a\n1,2,3\n", "b.csv")
        self.refused('b.csv: its header names "a" twice', "b.csv")
        self.write("a,Gr\xf6\xdfe\n1,2\n".encode("latin-1"), "b.csv")
        self.refused("b.csv: the name of its column 2 is not UTF-8, which names of Parquet are; convert the file", "b.csv")
        self.write("a;b\n1;2\n", "b.csv")
        self.refused("b.csv: its first line has one field; with data.delimiter: semicolon it has 2", "b.csv")
        self.write(b"")
        self.refused("a.csv: it has no row", "a.csv")
        self.write("1 3:0.5 7:1\n", "b.csv")
        self.refused("b.csv: it is libsvm; libsvm cannot be converted", "b.csv")
        self.JOB.write_text("model: {input: {shape: auto}, layers: [{linear: {inputs: f}}], loss: mse}\noptimizer: sgd\n"
                            "data: {format: libsvm, train: a.csv, columns: [label, keys: {name: f, max_values: 9}]}\n")
        self.refused("libsvm cannot be converted", "a.csv", job)
        self.refused("no.csv: No such file", "no.csv")
        self.refused("-: stdin cannot be read again", "-")
        self.write("a,b\n1,2\n")
        shutil.rmtree(self.dir)
        self.dir.mkdir()
        for name in ("mine", "manifest.gw.tmp-1"):  # the second one is being written by another program
            (self.dir / name).write_text("")
        self.refused("it has files that convert has not made", "a.csv")
        self.assertEqual(sorted(os.listdir(self.dir)), ["manifest.gw.tmp-1", "mine"])

    def test_a_second_one_is_refused_while_the_first_looks_for_types(self):
        self.big(400000)
        first = subprocess.Popen([str(MODEL), "convert", "a.csv", f"--output={self.dir}", "--threads=1"], cwd=self.tmp,
                                 stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + DEADLINE_S
        while not self.dir.exists() and time.monotonic() < deadline:
            time.sleep(0.001)
        first.send_signal(signal.SIGSTOP)
        self.assertEqual(list(self.dir.glob("*")), [])
        self.write("y,x,word\n1,2,other\n", "b.csv")
        self.refused("another convert writes here", "b.csv")
        first.send_signal(signal.SIGCONT)
        self.assertIn("400000 rows", first.communicate(timeout=DEADLINE_S)[0])


if __name__ == "__main__":
    unittest.main()
