#!/usr/bin/env python3
"""Wrong input: one clear line, and 2, before anything is trained."""
import gzip
import os
import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import LAUNCH, PS, WORKER, Process, TrainCase  # noqa: E402

JOB = """name: wrong
model:
  input: {shape: [2, 3]}
  layers: [flatten, {dense: {units: 3}}]
  loss: {sparse_categorical_crossentropy: {from_logits: true}}
data: {format: idx, train: [x.gz, y.idx]}
optimizer: sgd
training: {batch_size: 2}
"""


def large():
    """JOB with a model of which four workers (32 bytes a parameter) have more than the memory and swap of this machine."""
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    here = 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(("MemTotal:", "SwapTotal:")))
    return JOB.replace("[flatten, ", f"[flatten, {{dense: {{units: {1 << 24}}}}}, {{dense: {{units: {64 + here // (32 << 24)}}}}}, ")


def idx(shape, values):
    return bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + bytes(values)


class InputTest(TrainCase):
    PROGRAMS = True

    def setUp(self):
        super().setUp()
        self.job = self.tmp / "wrong.yaml"
        self.job.write_text(JOB)
        self.data(idx((4, 2, 3), range(24)), idx((4,), (0, 1, 2, 1)))

    def data(self, images, labels):
        (self.tmp / "x.gz").write_bytes(gzip.compress(images))
        (self.tmp / "y.idx").write_bytes(labels)

    def refused(self, *texts, flags=(), code=2):
        """The launcher and a worker by itself both say why in one line, and leave no checkpoint."""
        job = self.launch(*flags, job=self.job, keys=dict.fromkeys(self.KEYS)).wait(code)
        errors = [line for line in job.stderr().splitlines() if " info " not in line]
        self.assertEqual(len(errors), 1, job.logs())
        worker = Process(self, [WORKER, f"--job={self.job}", f"--output={self.tmp}/alone", *flags], "alone").wait(code)
        for said in (errors[0], worker.last_line()):
            for text in texts:
                self.assertIn(text, said)
        for out in (self.out, self.tmp / "alone"):
            self.assertFalse(list(out.glob("checkpoints/*/manifest.gw")))
        if (self.out / "summary.json").exists():
            s = job.summary()
            self.assertEqual((s["status"], s["exit_code"]), ("failed", code))
            self.assertIn(texts[-1], s["error"])

    def test_the_job_as_it_stands_trains(self):
        self.train(job=self.job, keys=dict.fromkeys(self.KEYS))

    def test_a_model_that_cannot_be_has_its_line_once(self):
        self.job.write_text(JOB.replace("{units: 3}", "{units: 1}"))
        self.refused("wrong.yaml:5: model.loss: sparse_categorical_crossentropy chooses among classes")
        self.assertFalse(self.out.exists())

    def seen_before_the_start(self, *texts, flags=(), job):
        self.job.write_text(job)
        got = self.launch(*flags, job=self.job, keys=dict.fromkeys(self.KEYS)).wait(2)
        for text in texts:
            self.assertIn(text, got.stderr())
        self.assertFalse(self.out.exists())

    def test_shapes_of_the_model_are_checked_before_a_process_starts(self):
        flat, dense = "[flatten, {dense: {units: 3}}]", "{dense: {units: 3}}"
        for layers, text in ((f"[{dense}]", "flatten"),
                             (f"[flatten, {{dense: {{units: 4, name: a}}}}, {{add: [a, flatten]}}, {dense}]",
                              "wrong.yaml:4: model.layers: add"),
                             ("[flatten, {reshape: {target_shape: [4]}}, " + dense + "]", "wrong.yaml:4: model.layers")):
            with self.subTest(layers):
                self.seen_before_the_start(text, job=JOB.replace(flat, layers))

    def test_shapes_are_checked_before_the_start_though_data_say_the_first(self):
        (self.tmp / "rows.csv").write_text("".join(f"{i},w{i},{i % 2}\n" for i in range(2000)))
        csv = """name: wrong
model:
  input: {shape: auto}
  layers:
    - dense: {units: 3, name: a}
    - dense: {units: 4, name: b, inputs: a}
    - add: [a, b]
    - dense: {units: 2}
  loss: {sparse_categorical_crossentropy: {from_logits: true}}
data: {format: csv, train: rows.csv, columns: [{number: n}, {category: w}, {label: y}]}
optimizer: sgd
training: {batch_size: 2}
"""
        self.seen_before_the_start("wrong.yaml:7: model.layers: add", job=csv)

    def test_a_model_that_no_host_has_memory_for_is_refused_before_the_start(self):
        self.seen_before_the_start("parameters, for which 2 ps and 30 workers need at least ", "--hosts",
                                   flags=["--workers=30"], job=large())

    def test_each_host_of_several_looks_at_its_memory_before_the_start(self):
        rsh = self.tmp / "rsh"
        rsh.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
        rsh.chmod(0o755)
        (self.tmp / "hosts").write_text("127.0.0.1 role=ps\nlocalhost role=worker\n")
        self.seen_before_the_start("localhost: the model has", "parameters, for which 30 workers need at least ",
                                   flags=["--workers=30", f"--hosts={self.tmp}/hosts", f"--rsh={rsh}"], job=large())

    def test_ranks_look_at_their_host_before_one_becomes_a_process(self):
        self.job.write_text(large())
        ranks = [Process(self, [LAUNCH, "rank", self.job, "--ps=2", "--address=127.0.0.1", f"--output={self.out}"], f"rank{i}",
                         {**os.environ, "SLURM_PROCID": str(i), "SLURM_NTASKS": "6", "SLURM_JOB_ID": "5"}) for i in range(6)]
        said = {r.wait(2).last_line() for r in ranks}
        self.assertEqual(len(said), 1, said)
        self.assertIn("parameters, for which 2 ps and 4 workers need at least ", said.pop())
        self.assertFalse((self.out / "checkpoints").exists())  # no chief has begun

    def test_a_wrong_key_has_its_line_and_the_nearest_name(self):
        self.job.write_text(JOB.replace("batch_size", "batchsize"))
        self.refused("wrong.yaml:8", "training.batchsize", "training.batch_size")
        self.assertFalse(self.out.exists())

    def test_a_wrong_value_has_its_line_and_what_is_allowed(self):
        self.job.write_text(JOB.replace("{batch_size: 2}", "{batch_size: 0}"))
        self.refused("wrong.yaml:8", "training.batch_size", "from 1")

    def test_a_wrong_set_is_named(self):
        self.refused("training.epoch", "training.epochs", flags=["--set=training.epoch=3"])

    def test_a_missing_file(self):
        (self.tmp / "y.idx").unlink()
        self.refused("data.train", "y.idx", "No such file")

    def test_a_missing_job_file(self):
        self.job = self.tmp / "nowhere.yaml"
        self.refused("nowhere.yaml", "No such file")

    def test_a_truncated_file(self):
        self.data(idx((4, 2, 3), range(23)), idx((4,), (0, 1, 2, 1)))
        self.refused("x.gz")
        whole = gzip.compress(idx((4, 2, 3), os.urandom(24)))
        (self.tmp / "x.gz").write_bytes(whole[:-12])
        self.refused("x.gz")

    def test_a_label_out_of_range(self):
        self.data(idx((4, 2, 3), range(24)), idx((4,), (0, 1, 3, 1)))
        self.refused("y.idx", "label at offset 10", "is 3")

    def test_a_shape_that_does_not_fit(self):
        self.data(idx((4, 3, 3), range(36)), idx((4,), (0, 1, 2, 1)))
        self.refused("x.gz", "model.input.shape")

    def test_labels_that_are_too_few(self):
        self.data(idx((4, 2, 3), range(24)), idx((3,), (0, 1, 2)))
        self.refused("y.idx")

    def test_a_model_that_does_not_fit_its_loss(self):
        self.refused("softmax", flags=["--set=model.layers[1].dense.activation=softmax"])

    def test_flags_of_the_processes(self):
        for program, flags, text in ((PS, ["--job_name=worker", "--task_index=0"], "ps"),
                                     (PS, [], "--job_name=ps"),
                                     (WORKER, ["--job_name=ps", "--task_index=0", "--ps_hosts=127.0.0.1:1"], "ps"),
                                     (WORKER, ["--no_such_flag=1"], "no_such_flag"),
                                     (WORKER, ["--job_name=worker", "--task_index=9", "--ps_hosts=127.0.0.1:1",
                                               "--worker_hosts=127.0.0.1:2"], "9")):
            with self.subTest(flags):
                got = Process(self, [program, f"--job={self.job}", f"--output={self.out}", *flags], "flags").wait(2)
                self.assertEqual(len(got.log().splitlines()), 1, got.log())
                self.assertIn(text, got.log())

    def test_a_wrong_tf_config_is_2(self):
        outside = '{"cluster": {"ps": ["127.0.0.1:1"]}, "task": {"type": "ps", "index": 3}}'
        for text, said in (("nonsense", "TF_CONFIG"), (outside, "this is ps 3, but the cluster lists 1")):
            for program in (PS, WORKER):
                with self.subTest(program=program, text=text):
                    got = Process(self, [program, f"--job={self.job}", f"--output={self.out}"], "tf_config",
                                  env=dict(os.environ, TF_CONFIG=text)).wait(2)
                    self.assertIn(said, got.last_line())


if __name__ == "__main__":
    unittest.main()
