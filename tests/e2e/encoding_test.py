#!/usr/bin/env python3
# runs with others
"""One night after the other on data whose rows come in another order, and with words that are new: what rows mean belongs to
the checkpoint (checkpoint.run, data.encoding)."""
import hashlib
import json
import pathlib
import shutil
import subprocess
import struct
import sys
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster import DEADLINE_S, PS, WORKER, Process, TrainCase, free_ports  # noqa: E402
from hand_test import HandCase  # noqa: E402

JOB = """name: people
model:
  input: {shape: auto}
  layers: [{dense: {units: 8, activation: relu}}, {dense: {units: 1, activation: sigmoid}}]
  loss: binary_crossentropy
  metrics: [accuracy, auc]
data:
  format: csv
  train: people.csv
  eval: people.eval
  columns:
    - number: {name: age, scale: standard}
    - number: {name: size, buckets: {quantiles: 4}}
    - category: town
    - label: {name: rich, classes: ["no", "yes"]}
optimizer: adam
training: {batch_size: 32, epochs: 12, learning_rate: 0.02, microbatches: 4}
"""
IDS = """name: people
model:
  input: {shape: auto}
  layers:
    - embedding: {input_dim: 6, output_dim: 4, inputs: [town]}
    - flatten
    - dense: {units: 1, activation: sigmoid}
  loss: binary_crossentropy
  metrics: [accuracy, auc]
data:
  format: csv
  train: people.csv
  eval: people.eval
  columns: [ignore, ignore, category: {name: town, encode: id}, label: {name: rich, classes: ["no", "yes"]}]
optimizer: adam
training: {batch_size: 32, epochs: 8, learning_rate: 0.05, microbatches: 4}
"""
TOWNS = ["Rome", "Oslo", "Bern", "Kyiv"]
STILL = {"training.learning_rate": 1e-30, "training.epochs": 1}  # a job that starts with weights ends with the same ones


def people(first, rows, towns=TOWNS):
    """The rich are the old ones of two of the towns."""
    lines = []
    for i in range(first, first + rows):
        age, town = i * 7 % 80, i * 13 % len(towns)
        lines.append(f"{age},{i * 11 % 50},{towns[town]},{'yes' if age > 40 and town < 2 else 'no'}")
    return lines


class NightsCase(TrainCase):
    def setUp(self):
        super().setUp()
        self.JOB = self.tmp / "people.yaml"
        self.JOB.write_text(JOB)
        self.write(people(0, 800))
        (self.tmp / "people.eval").write_text("\n".join(people(2000, 400)) + "\n")

    def write(self, lines):
        (self.tmp / "people.csv").write_text("\n".join(lines) + "\n")

    def night(self, name, *flags, code=0, **keys):
        keys = {key.replace("__", "."): value for key, value in keys.items()}
        return self.launch(*(flags or ("--ps=1", "--workers=2")), keys={"checkpoint.run": name, **keys}).wait(code)

    def monday(self):
        first = self.night("monday").summary()
        self.assertGreater(first["eval"]["auc"], 0.95)
        return first

    def tuesday(self, *flags, code=0, **keys):
        return self.night("tuesday", *flags, code=code, **{**STILL, **keys})

    def said(self, job):
        return job.stderr() + job.log("worker-0")

    def encoding(self):
        return json.loads((self.out / "model/encoding.json").read_text())["columns"]


class EncodingTest(NightsCase):
    def test_rows_in_another_order_mean_what_they_meant(self):
        first, was = self.monday(), self.encoding()
        self.write(sorted(people(0, 800), reverse=True)[:600])  # other words first, another mean
        s = self.tuesday("--ps=2", "--workers=3", "--evaluator").summary()
        self.assertEqual((s["digest"], s["eval"]), (first["digest"], first["eval"]))
        self.assertEqual(self.encoding(), was)
        again = self.night("tuesday", **{**STILL, "training.epochs": 2}).summary()  # it goes on in the same way
        self.assertEqual((again["eval"], again["epochs"]), (first["eval"], 2))

    def test_an_evaluator_that_has_learned_other_words_reads_its_rows_by_the_cut(self):
        first = self.monday()
        (self.out / "eval.json").unlink(missing_ok=True)
        self.write(sorted(people(0, 800), reverse=True))
        evaluator = Process(self, [WORKER, f"--job={self.JOB}", f"--output={self.out}", "--job_name=evaluator",
                                   f"--ps_hosts=127.0.0.1:{free_ports(1)[0]}",
                                   *self.sets({"checkpoint.run": "tuesday", "data.encoding": "learn", **STILL})], "evaluator")
        evaluator.until_said("evaluating the checkpoints of")
        s = self.tuesday().summary()
        evaluator.wait(0)
        result = json.loads((self.out / "eval.json").read_text())["results"][-1]
        self.assertEqual(s["eval"], first["eval"])
        for key, value in s["eval"].items():
            self.assertAlmostEqual(result[key], value, places=12)
        self.assertIn("reading the data again, with the encoding of the newest checkpoint", evaluator.log())

    def test_learn_begins_with_words_and_scales_of_its_own(self):
        first, was = self.monday(), self.encoding()
        self.write(sorted(people(0, 800), reverse=True))
        s = self.tuesday(data__encoding="learn").summary()
        self.assertNotEqual(s["eval"]["auc"], first["eval"]["auc"])
        self.assertNotEqual(self.encoding()[2]["category"]["words"], was[2]["category"]["words"])

    def test_learn_refuses_columns_that_change_places(self):
        numbers = "    - number: {name: age, scale: standard}\n    - number: {name: size, scale: standard}\n"
        began = JOB.replace("    - number: {name: age, scale: standard}\n    - number: {name: size, buckets: {quantiles: 4}}\n",
                            numbers)
        self.JOB.write_text(began)
        self.night("monday", training__epochs=1)
        self.JOB.write_text(began.replace(numbers, "".join(reversed(numbers.splitlines(keepends=True)))))
        self.assertIn("column age was input column 1, is now input column 2",
                      self.said(self.tuesday(code=2, data__encoding="learn")))

    def test_new_words_get_features_and_the_others_keep_theirs(self):
        first = self.monday()
        self.write(people(0, 800, ["Lima", *TOWNS, "Cali"]))
        job = self.tuesday("--ps=2", "--workers=3", "--evaluator")
        self.assertEqual(job.summary()["eval"], first["eval"])  # its words are known
        for said in (job.log("worker-0"), job.stderr()):
            self.assertIn("column town has 6 words, of which 2 are new", said)
        self.assertEqual(self.encoding()[2]["category"]["words"], [*TOWNS, "Lima", "Cali"])
        s = self.night("wednesday").summary()
        self.assertGreater(s["eval"]["auc"], 0.95)

    def test_a_layer_that_new_words_would_change_is_refused_by_name_and_keep_reads_them_as_unknown(self):
        self.JOB.write_text(JOB.replace("layers: [", "layers: [{batch_normalization: {name: norm}}, "))
        first, was = self.night("monday").summary(), self.encoding()
        self.write(people(0, 800, [*TOWNS, "Lima"]))
        cuts = sorted(p.name for p in self.out.glob("checkpoints/cut-*"))
        job = self.tuesday(code=2)
        self.assertIn("layer norm reads the features of words, and new words would change its output", self.said(job))
        self.assertIn("data.encoding: keep", self.said(job))
        self.assertEqual(sorted(p.name for p in self.out.glob("checkpoints/cut-*")), cuts)
        self.write(people(0, 800))
        self.JOB.write_text(JOB)
        first, was = self.night("monday", "--fresh", "--ps=1").summary(), self.encoding()
        self.write(people(0, 800, [*TOWNS, "Lima"]))
        s = self.tuesday(data__encoding="keep").summary()
        self.assertEqual((s["digest"], s["eval"]), (first["digest"], first["eval"]))
        self.assertEqual(self.encoding(), was)

    def test_new_words_of_ids_get_numbers_behind_the_others(self):
        self.JOB.write_text(IDS)
        first = self.night("monday").summary()
        self.write(people(0, 800, ["Lima", *TOWNS]))
        job = self.tuesday("--ps=2", "--workers=2")
        self.assertEqual((job.summary()["digest"], job.summary()["eval"]), (first["digest"], first["eval"]))
        self.assertIn('column town has 5 words, of which 1 are new since the last run; the first new one is "Lima"', job.log("worker-0"))
        self.assertEqual(self.encoding()[2]["category"]["words"], [*TOWNS, "Lima"])
        self.write(people(0, 800, ["Cali", *TOWNS]))
        job = self.night("wednesday", code=2, **STILL)
        self.assertIn("column town has 6 words with the new ones, so ids from 0 to 6", self.said(job))
        self.assertIn("use input_dim 7 in a job that starts from scratch", self.said(job))

    def as_an_earlier_release_has_written_it(self):
        """Of the newest manifest go the fields of later releases, and the file that one of them names."""
        cut = max(self.out.glob("checkpoints/cut-*"))
        data = (cut / "manifest.gw").read_bytes()
        magic, head = data[:8], data[8:-16]
        at = head.rindex(b"\xf2\x07")  # field 126, of a length
        self.assertIn(len(head) - (at + 3 + head[at + 2]), range(1, 10))  # 127 and 128, of the journal
        head = head[:at]
        (cut / "manifest.gw").write_bytes(magic + head + struct.pack("<II", len(head), zlib.crc32(head)) + magic)
        (cut / "encoding.json").unlink()

    def test_of_a_checkpoint_of_an_earlier_release_the_models_encoding_is_read(self):
        first, was = self.monday(), self.encoding()
        self.as_an_earlier_release_has_written_it()
        self.write(sorted(people(0, 800), reverse=True))
        kept = (self.out / "model/encoding.json").rename(self.tmp / "kept.json")
        job = self.tuesday(code=2)
        self.assertIn("has the words and scales with which they were learned", self.said(job))
        self.assertIn("data.encoding: learn", self.said(job))
        kept.rename(self.out / "model/encoding.json")
        s = self.tuesday().summary()
        self.assertEqual((s["digest"], s["eval"]), (first["digest"], first["eval"]))
        self.assertEqual(self.encoding(), was)

    def with_the_fingerprint_of_an_earlier_release(self, text):
        """The SHA-256 of the SHA-256 of each piece of the text, which is short."""
        was = bytes.fromhex(json.loads((self.out / "model/manifest.json").read_text())["data"]["fingerprint"])
        for path in self.out.glob("checkpoints/cut-*/manifest.gw"):
            data = path.read_bytes()
            magic, head = data[:8], data[8:-16]
            self.assertEqual(head.count(was), 1)
            head = head.replace(was, hashlib.sha256(hashlib.sha256(text.encode()).digest()).digest())
            path.write_bytes(magic + head + struct.pack("<II", len(head), zlib.crc32(head)) + magic)

    def test_a_checkpoint_of_an_earlier_release_knows_its_text_by_another_fingerprint(self):
        self.monday()
        text = (self.tmp / "people.csv").read_text()
        self.with_the_fingerprint_of_an_earlier_release(text)
        (self.tmp / "people.csv").write_text(text.replace("Rome", "Nice", 1))
        said = self.said(self.night("monday", code=2, **{"training.epochs": 13}))
        self.assertIn("the data differ from those of its checkpoint", said)
        (self.tmp / "people.csv").write_text(text)
        job = self.night("monday", **{"training.epochs": 13})
        self.assertIn("reading the text once more", self.said(job))
        self.assertEqual(job.summary()["epochs"], 13)
        self.assertIn(b"\x20x3", max(self.out.glob("checkpoints/cut-*/manifest.gw")).read_bytes())

    def test_another_scale_or_column_is_refused_by_name(self):
        self.monday()
        for old, new, said in (("scale: standard", "scale: log1p", "column age had scale standard, has log1p now"),
                               ("scale: standard", "scale: min_max", "column age had scale standard, has min_max now"),
                               ("scale: standard", "scale: none", "column age had scale standard, has none now"),
                               ('["no", "yes"]', '["yes", "no"]', 'class "no" was class 0, is class 1 now'),
                               ("quantiles: 4", "borders: [1, 2, 3]", "input column 2 (size): its list of borders"),
                               ("name: size", "name: height", "input column 2 (height): its name")):
            with self.subTest(new):
                self.JOB.write_text(JOB.replace(old, new))
                self.assertIn(said, self.said(self.tuesday(code=2)))
                resumed = self.said(self.night("monday", code=2))
                self.assertIn("restore the old value, or start from scratch", resumed)
                self.assertNotIn("checkpoint.run", resumed)  # a new run would refuse it too
        self.JOB.write_text(JOB.replace("scale: standard", "scale: min_max"))
        self.assertIn("; restore it, or start from scratch with another --output", self.said(self.tuesday(code=2)))
        self.tuesday(data__encoding="learn")  # the scale of the new data
        self.launch("--ps=1", "--workers=2", out=self.tmp / "scratch", keys={"checkpoint.run": "tuesday", **STILL}).wait(0)

    def doctor(self, code=0, **keys):
        keys = {"checkpoint.run": "tuesday", **{key.replace("__", "."): value for key, value in keys.items()}}
        got = subprocess.run([WORKER, "--doctor", f"--job={self.JOB}", f"--output={self.out}", *self.sets(keys)],
                             capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(got.returncode, code, got.stdout + got.stderr)
        return next(line for line in got.stdout.splitlines() if line.split()[1] == "data:")

    def test_doctor_reads_rows_by_the_checkpoint_and_refuses_what_train_refuses(self):
        self.monday()
        self.write(people(0, 800, ["Lima", *TOWNS, "Cali"]))
        self.assertIn("uses the encoding of checkpoint 1: 6 words of column town, 2 of them new", self.doctor())
        self.assertIn("uses the encoding of checkpoint 1: 4 words of column town", self.doctor(data__encoding="keep"))
        self.assertNotIn("encoding", self.doctor(data__encoding="learn"))
        self.JOB.write_text(JOB.replace("scale: standard", "scale: log1p"))
        self.assertIn("checkpoint 1: column age had scale standard, has log1p now; restore it, or start from scratch", self.doctor(code=2))
        self.write(people(0, 800))
        self.JOB.write_text(IDS)
        self.night("monday", "--fresh", "--ps=1")
        self.write(people(0, 800, ["Lima", "Cali", *TOWNS]))
        self.assertIn("use input_dim 7 in a job that starts from scratch", self.doctor(code=2))


class ApartTest(NightsCase, HandCase):
    """Hosts that share no storage: each process has a DIR of its own, and the chief's alone has checkpoints."""

    def apart(self, name, keys, code=0, stays=False, **others):
        """A ps, which may stay, and two workers; returns worker 1, whose DIR is empty, and which has `others` of keys."""
        hosts = self.addresses(3)
        (self.tmp / "token").write_text("0123456789abcdef0123456789abcdef")
        of = [f"--ps_hosts={hosts[0]}", f"--worker_hosts={hosts[1]},{hosts[2]}", f"--token_file={self.tmp}/token"]
        keys = {"checkpoint.run": name, "timeouts.start_s": 40, "timeouts.worker_rejoin_s": 100, **keys}
        ps = self.start(PS, "ps-0", "--job_name=ps", "--task_index=0", *of, *["--when_done=wait"] * stays, keys=keys,
                        out=self.tmp / f"ps-{name}")

        def worker(i, more, *flags):
            return self.start(WORKER, f"worker-{i}", "--job_name=worker", f"--task_index={i}", *of, *flags,
                              keys={**keys, **more}, out=self.tmp / f"worker-{name}" if i else self.out)
        self.worker = worker
        chief, last = worker(0, {}), worker(1, others)
        last.wait(code)
        for p in () if code else (chief,) if stays else (chief, ps):
            p.wait(0)
        return last

    def test_a_worker_that_sees_no_checkpoint_has_the_meaning_of_rows_from_the_chief(self):
        self.monday()
        self.write(people(0, 800, ["Lima", *reversed(TOWNS), "Cali"]))
        shutil.copytree(self.out, self.tmp / "shared")
        for epochs in (1, 2):  # a new run; then it goes on, by a cut of its own
            keys = {"training.epochs": epochs}
            worker = self.apart("tuesday", keys)
            self.assertIn("reading the data again, with the encoding of the chief's checkpoint", worker.log())
            shared = self.launch("--ps=1", "--workers=2", keys={"checkpoint.run": "tuesday", **keys},
                                 out=self.tmp / "shared").wait(0).summary()
            self.assertEqual((self.summary()["digest"], self.summary()["epochs"]), (shared["digest"], epochs))
            self.assertGreater(next(w["tasks"] for w in self.summary()["per_worker"] if w["worker"] == 1), 0)

    def test_a_worker_whose_rows_have_fewer_words_than_the_model_features_asks_the_chief(self):
        self.JOB.write_text(JOB.replace("shape: auto", "shape: [9]"))  # age, 4 of size, 4 towns
        self.monday()
        self.write(people(0, 800, TOWNS[:3]))
        worker = self.apart("tuesday", {"training.epochs": 1}, stays=True)
        self.assertIn("asking the chief for the encoding of the rows: data.train: data.columns has rows of shape [8], "
                      "model.input.shape is [9]", worker.log())
        self.assertGreater(next(w["tasks"] for w in self.summary()["per_worker"] if w["worker"] == 1), 0)
        late = self.worker(1, {"timeouts.start_s": 5}).wait(0)
        self.assertIn("the job is done, and no chief has connected to continue training", late.last_line())
        stays = self.worker(1, {}, "--when_done=wait")
        stays.until_said("idle until a chief connects")
        stays.process.terminate()
        stays.wait(0)
        early = self.worker(1, {"training.epochs": 2})  # it waits for the chief that trains on
        early.until_said("asking the chief for")
        self.worker(0, {"training.epochs": 2}).wait(0)
        early.wait(0)
        self.assertGreater(next(w["tasks"] for w in self.summary()["per_worker"] if w["worker"] == 1), 0)

    def test_a_worker_of_other_data_is_told_so(self):
        (self.tmp / "others.csv").write_text("\n".join(people(0, 800, [*TOWNS, "Lima"])) + "\n")
        worker = self.apart("monday", {"training.epochs": 400}, code=2, **{"data.train": self.tmp / "others.csv"})
        self.assertIn("worker 1 has other training data than the chief: ", worker.last_line())


if __name__ == "__main__":
    unittest.main()
