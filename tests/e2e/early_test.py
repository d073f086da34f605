#!/usr/bin/env python3
"""Early stopping and the best epoch's weights: exact in sync however the job is split or disturbed, known to a job that
is started again, and refused where there is nothing to look at. The learning-rate finder."""
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, DEADLINE_S, PS, ROOT, WORKER, TrainCase, notes, slow  # noqa: E402

# A rate at which the evaluation soon gets no better.
KEYS = {"data.synthetic_train_rows": 2000, "data.synthetic_eval_rows": 400, "training.epochs": 60,
        "training.learning_rate": 0.01, "training.monitor": "loss", "early_stopping.patience": 3,
        "early_stopping.restore_best_weights": "true"}


class EarlyTest(TrainCase):
    def best(self, out=None):
        """The metadata of DIR/best."""
        data = ((out or self.out) / "best/weights.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        return notes((out or self.out) / "best/weights.safetensors"), data[8 + size:]

    def check(self, summary, out=None):
        history = summary["history"]
        losses = [epoch["eval"]["loss"] for epoch in history]
        best, weights = self.best(out)
        lowest = min(losses)
        self.assertEqual(best["monitor"], "loss")
        self.assertAlmostEqual(float(best["loss"]), lowest, places=12)
        self.assertEqual(int(best["epoch"]), history[losses.index(lowest)]["epoch"])
        self.assertAlmostEqual(summary["eval"]["loss"], lowest, places=12)
        path = (out or self.out) / "model/weights.safetensors"
        self.assertEqual(notes(path), {"job": "mnist-mlp", "step": best["step"], "digest": summary["digest"]})
        self.assertEqual((best["job"], best["digest"]), ("mnist-mlp", summary["digest"]))
        model = path.read_bytes()
        self.assertTrue(model.endswith(weights))
        return history

    def test_in_sync_it_ends_three_epochs_after_the_best_whatever_the_split(self):
        digests = set()
        for ps, workers in ((1, 1), (2, 3)):
            got = self.train(f"--ps={ps}", f"--workers={workers}", "--fresh", keys=KEYS)
            s = got.summary()
            history = self.check(s)
            self.assertLess(s["epochs"], 60)
            self.assertEqual(history[-1]["epoch"], int(self.best()[0]["epoch"]) + 3)
            self.assertEqual(s["epochs"], history[-1]["epoch"])
            self.assertEqual(history[-1]["train"], s["train"])
            digests.add(s["digest"])
            self.assertRegex(got.stderr(), f"epoch {s['epochs'] - 3}/60 done .*; best so far\n")
            self.assertRegex(got.stderr(), rf"; best: epoch {s['epochs'] - 3} \(eval loss .*\), 3 of 3 epochs without a better one")
            self.assertIn(f"early stopping: epoch {s['epochs']}: no better evaluation for 3 epochs", got.stderr())
        self.assertEqual(len(digests), 1)
        again = self.train(keys=KEYS)  # it is done: nothing is trained
        self.assertEqual((again.summary()["digest"], again.summary()["history"]), (digests.pop(), s["history"]))
        self.assertIn(f"nothing was trained: training had stopped early, after {s['epochs']} of 60 epochs (checkpoint "
                      f"{again.cuts()[-1]}, step {s['steps']}); to train more, set early_stopping.patience above 3; ", again.stderr())

    def test_a_chief_that_is_killed_stops_at_the_same_epoch(self):
        keys = {**KEYS, "checkpoint.every_steps": 20, "checkpoint.every_seconds": 0}
        calm = self.tmp / "calm"
        want = self.train(keys=keys, out=calm).summary()
        job = self.launch(*slow(0.01), keys=keys)
        job.until_cut(3)
        job.kill("worker-0", signal.SIGKILL)
        got = job.wait().summary()
        self.assertEqual((got["digest"], got["epochs"], got["restarts"]), (want["digest"], want["epochs"], 1))
        self.assertEqual((got["exact"], got["inexact"]), (True, None))

    def test_a_best_epoch_that_cannot_be_kept_makes_the_job_inexact(self):
        job = self.launch(*slow(0.01), keys={**KEYS, "training.learning_rate": 0.001, "training.epochs": 15,
                                              "early_stopping.restore_best_weights": "false"})
        best, away = self.out / "best", self.out / "away"
        job.until("an epoch is kept", (best / "weights.safetensors").exists)
        best.rename(away)
        best.write_text("")
        job.until("one is not", lambda: "is the best, but could not be kept: " in job.logs())
        best.unlink()
        away.rename(best)
        s = job.wait().summary()
        self.assertFalse(s["exact"])
        self.assertRegex(s["inexact"], r"^epoch \d+ is the best, but could not be kept: .*/best[:/]")

    def test_a_best_epoch_whose_file_is_damaged_does_not_matter_if_a_later_one_beats_it(self):
        keys = {**KEYS, "training.learning_rate": 0.001}
        want = self.train(keys={**keys, "training.epochs": 3}, out=self.tmp / "calm").summary()
        self.train(keys={**keys, "training.epochs": 2})
        os.truncate(self.out / "best/weights.safetensors", 100)
        got = self.train(keys={**keys, "training.epochs": 3}).summary()
        self.assertEqual((got["exact"], got["inexact"], got["digest"]), (True, None, want["digest"]))
        self.check(got)

    def test_a_best_epoch_whose_file_is_lost_is_missed_by_a_job_that_is_done_or_continues(self):
        first = self.train(keys=KEYS).summary()
        model = self.out / "model/weights.safetensors"
        right = model.read_bytes()
        best = self.out / "best/weights.safetensors"
        flipped = bytearray(best.read_bytes())
        flipped[-3] ^= 4
        for damage in (lambda: best.write_bytes(flipped), lambda: shutil.rmtree(self.out / "best")):
            damage()
            job = self.train(code=1, keys=KEYS)
            self.assertIn(f"{self.out}/best: the job is done, but the weights of its best epoch, {first['epochs'] - 3}, which belong into "
                          "model/, are gone", job.stderr())
            self.assertEqual(model.read_bytes(), right)
            self.assertEqual(job.summary()["status"], "failed")
        s = self.train(keys={**KEYS, "early_stopping.patience": 6}).summary()
        self.assertFalse(s["exact"])
        self.assertRegex(s["inexact"], f"^epoch {first['epochs'] - 3} is the best, but could not be kept: its weights in best/ are gone")

    def test_a_history_that_lacks_epochs_may_lack_the_best_one(self):
        """best/ and history.jsonl are copies from when the first epoch was the best."""
        self.train(keys={**KEYS, "training.epochs": 1})
        shutil.copytree(self.out / "best", self.tmp / "best")
        shutil.copy(self.out / "history.jsonl", self.tmp)
        s = self.train(keys=KEYS).summary()
        self.assertGreater(int(self.best()[0]["epoch"]), 1)
        right = (self.out / "model/weights.safetensors").read_bytes()
        shutil.rmtree(self.out / "best")
        shutil.copytree(self.tmp / "best", self.out / "best")
        shutil.copy(self.tmp / "history.jsonl", self.out)
        job = self.train(code=1, keys=KEYS)
        self.assertIn("the job is done, but history.jsonl has no line of epoch 2, so the best epoch", job.stderr())
        self.assertEqual((self.out / "model/weights.safetensors").read_bytes(), right)
        more = self.train(keys={**KEYS, "early_stopping.patience": 13}).summary()
        self.assertGreater(more["epochs"], s["epochs"])
        self.assertEqual((more["exact"], more["inexact"]),
                         (False, "history.jsonl had no line of epoch 2 when the job started again, so the best epoch may be another one"))

    def test_a_best_epoch_of_a_training_that_is_undone_is_undone(self):
        keys = {**KEYS, "checkpoint.every_steps": 20, "checkpoint.every_seconds": 0, "checkpoint.keep": 100}
        other = {**keys, "training.learning_rate": 0.001}
        begun = self.train(keys={**keys, "training.epochs": 1}).cuts()[-1]
        for cut in self.train(keys=keys).cuts():
            if cut > begun:
                shutil.rmtree(self.out / f"checkpoints/cut-{cut:010}")
        got = self.train(keys=other)
        self.train(keys={**keys, "training.epochs": 1}, out=self.tmp / "calm")
        want = self.train(keys=other, out=self.tmp / "calm").summary()
        self.assertEqual(got.summary()["digest"], want["digest"])
        self.check(got.summary())

    def test_a_job_that_is_done_needs_no_best_epoch_that_it_does_not_restore(self):
        keys = {**KEYS, "training.epochs": 2, "early_stopping.restore_best_weights": "false"}
        s = self.train(keys=keys).summary()
        shutil.rmtree(self.out / "best")
        again = self.train(keys=keys).summary()
        self.assertEqual((again["digest"], again["exact"]), (s["digest"], True))

    def test_a_monitor_that_the_evaluation_data_do_not_have_ends_the_job_at_the_first_epoch(self):
        (self.tmp / "rows.csv").write_text("0.5,0\n-0.5,1\n" * 20)
        (self.tmp / "eval.csv").write_text("0.5,0\n" * 10)
        (self.tmp / "weighted.csv").write_text("0.5,0,1\n-0.5,1,1\n" * 20)
        (self.tmp / "weighted_eval.csv").write_text("0.5,0,2\n-0.5,1,0\n" * 10)
        text = """name: one-class
data: {format: csv, train: rows.csv, eval: eval.csv, header: none, columns: [number: x, label: y]}
model: {input: {shape: auto}, layers: [{dense: {units: 1}}, sigmoid], loss: binary_crossentropy, metrics: [auc]}
training: {batch_size: 10, epochs: 2, microbatches: 2}
optimizer: sgd
"""
        (self.tmp / "job.yaml").write_text(text)
        (self.tmp / "weighted.yaml").write_text(
            text.replace("rows.csv", "weighted.csv").replace("eval.csv", "weighted_eval.csv").replace("label: y", "label: y, weight: w"))
        for name, epochs, update in (("auc", 1, "sync"), ("auc", 3, "async"), ("normalized_entropy", 3, "sync")):
            with self.subTest(name, epochs=epochs, update=update):
                keys, out = {**dict.fromkeys(self.KEYS), "training.update": update, "training.epochs": epochs,
                             "training.monitor": name, "model.metrics": f"[{name}]"}, self.tmp / f"{name}-{update}"
                weighted = name == "normalized_entropy"
                job_file = self.tmp / ("weighted.yaml" if weighted else "job.yaml")
                above = " with a weight above 0" if weighted else ""
                said = f": training.monitor: the rows of data.eval{above} have no {name}, because they are all of one class"
                first = "epoch 1" if update == "sync" else "epoch "  # in async the chief may pass over the first one
                for begins in first, "epoch ":  # again: it can continue with a checkpoint
                    job = self.train("--ps=1", "--workers=2", job=job_file, keys=keys, out=out, code=2)
                    s = job.summary()
                    self.assertRegex(s["error"], rf"^{begins}\d?{said}")
                    self.assertIn(said, job.stderr())
                    self.assertIn(f'{name} is not defined, and shown as "-": all rows of data.eval{above} have one class', job.logs())
                    self.assertEqual((s["status"], s["exit_code"], s["restarts"]), ("failed", 2, 0))
                    self.assertFalse((out / "model/weights.safetensors").exists())

    def test_in_every_other_mode_it_ends_early_and_a_finished_job_stays_finished(self):
        for update in ("async", "ssp", "geo"):
            with self.subTest(update):
                keys, out = {**KEYS, "training.update": update}, self.tmp / update
                s = self.train(keys=keys, out=out).summary()
                self.assertLess(s["epochs"], 60)
                self.assertEqual(s["batches"]["applied_min"], s["batches"]["dealt"])
                again = self.train(keys=keys, out=out).summary()
                self.assertEqual((again["steps"], again["digest"]), (s["steps"], s["digest"]))

    def test_a_job_without_checkpoints_begins_anew_whatever_an_earlier_one_has_left(self):
        keys, another = {**KEYS, "training.nan_guard": "rollback"}, {"training.seed": 9, "training.learning_rate": 0.003}
        self.train(keys=keys)
        shutil.rmtree(self.out / "checkpoints")
        (self.out / "checkpoints").mkdir()
        (self.out / "checkpoints/journal").write_text("rejected batch 3 generation 1 cut 0: of the earlier job\n")
        got = self.train(keys={**keys, **another}).summary()
        want = self.train(keys={**keys, **another}, out=self.tmp / "empty").summary()
        self.assertEqual((got["digest"], got["epochs"], got["batches"]["rejected"]), (want["digest"], want["epochs"], 0))

    def test_a_ps_that_is_killed_while_training_stops_early_or_after_a_new_best_changes_nothing(self):
        for every, when in ((0, "training stops early"), (120, "epoch 4/60 done")):
            with self.subTest(when):
                keys, out = {**KEYS, "checkpoint.every_steps": every, "checkpoint.every_seconds": 0}, self.tmp / f"at-{every}"
                want = self.train("--ps=1", keys=keys, out=self.tmp / f"calm-{every}").summary()
                job = self.launch("--ps=1", *slow(0.002), keys=keys, out=out)
                job.until(when, lambda: when in job.logs() + job.stderr())  # noqa: B023
                job.kill("ps-0", signal.SIGKILL)
                got = job.wait().summary()
                self.assertEqual((got["digest"], got["epochs"], got["exact"], got["inexact"]),
                                 (want["digest"], want["epochs"], True, None))

    def went_back(self, keys, longer, out):
        """A job that was done is continued, its newer checkpoints are removed, and it runs again as at first."""
        done = self.train(keys=keys, out=out).cuts()[-1]
        for cut in self.train(keys=longer, out=out).cuts():
            if cut > done:
                shutil.rmtree(out / f"checkpoints/cut-{cut:010}")
        return self.train(code=1, keys=keys, out=out)

    def test_a_job_that_went_back_to_where_it_was_done_does_not_get_a_later_best_epoch(self):
        for update in "sync", "async", "geo":
            with self.subTest(update):
                keys = {**KEYS, "training.learning_rate": 0.001, "checkpoint.keep": 100, "training.update": update}
                job = self.went_back({**keys, "training.epochs": 2}, {**keys, "training.epochs": 4}, self.tmp / update)
                self.assertRegex(job.stderr(), "the weights of its best epoch, [12], which belong into model/, are gone")

    def test_a_job_that_went_back_to_where_it_stopped_early_is_done_there(self):
        keys = {**KEYS, "training.learning_rate": 0.001, "checkpoint.keep": 100}
        job = self.went_back({**keys, "early_stopping.min_delta": 0.5}, {**keys, "training.epochs": 7}, self.out)
        self.assertRegex(job.stderr(), r"the weights of its best epoch, \d, which belong into model/, are gone")


    def test_a_job_that_is_done_can_continue_with_a_monitor(self):
        none = {**KEYS, "training.monitor": "none", "early_stopping.patience": 0, "early_stopping.restore_best_weights": "false"}
        self.train(keys={**none, "training.epochs": 4})
        s = self.train(keys=KEYS).summary()
        self.assertGreater(s["epochs"], 4)
        self.assertEqual([epoch["epoch"] for epoch in s["history"]], list(range(1, s["epochs"] + 1)))
        again = self.train(keys=KEYS).summary()
        self.assertEqual((again["digest"], again["epochs"]), (s["digest"], s["epochs"]))

    def test_more_patience_reopens_the_job(self):
        first = self.train(keys=KEYS).summary()
        more = self.train(keys={**KEYS, "early_stopping.patience": 6}).summary()
        self.assertGreater(more["epochs"], first["epochs"])

    def test_wrong_keys_are_refused(self):
        for keys, text in (({"training.monitor": "none"}, "early_stopping.patience"),
                           ({"training.monitor": "mae"}, "training.monitor"),
                           ({"training.monitor": "speed"}, "training.monitor")):
            self.assertIn(text, self.train(code=2, keys={**KEYS, **keys}).stderr())


class LearningRateTest(TrainCase):
    def find(self, *flags, code=0):
        got = subprocess.run([WORKER, "--find_learning_rate", f"--job={self.JOB}", f"--output={self.out}",
                              *self.sets({}), *flags], capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(got.returncode, code, got.stderr)
        return got

    def test_the_suggested_rates_train_and_far_larger_ones_do_not(self):
        got = self.find("--set=optimizer=sgd")
        suggested = float(got.stdout.split("training.learning_rate: ")[1].split(",")[0])
        losses = {}
        for rate in (suggested, suggested * 1000, suggested / 1000):
            keys = {"optimizer": "sgd", "training.learning_rate": rate, "training.epochs": 2}
            losses[rate] = self.train("--fresh", keys=keys).summary()["eval"]["loss"] or float("inf")
        self.assertEqual(min(losses, key=losses.get), suggested, losses)

    def test_it_gives_the_same_on_any_number_of_threads(self):
        tables = set()
        for threads in (1, 2):
            self.find(f"--set=worker.threads={threads}")
            tables.add((self.out / "learning-rates.csv").read_text())
        self.assertEqual(len(tables), 1)

    def test_schedule_and_warm_up_of_the_job_do_not_bend_the_rates(self):
        tables = set()
        for flags in ((), ("--set=training.learning_rate_schedule={cosine_decay: {decay_steps: 20}}",),
                      ("--set=training.warmup_steps=500",)):
            self.find(*flags)
            tables.add((self.out / "learning-rates.csv").read_text())
        self.assertEqual(len(tables), 1)

    @unittest.skipUnless(BUILD == ROOT / "build", "the front door has the release build")
    def test_the_front_door_has_it(self):
        got = subprocess.run([ROOT / "gradwire", "lr-finder", self.JOB, f"--output={self.out}", *self.sets({}),
                              "--set", "optimizer=sgd"], capture_output=True, text=True, timeout=DEADLINE_S,
                             stdin=subprocess.DEVNULL)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(got.stdout, self.find("--set=optimizer=sgd").stdout)
        wrong = subprocess.run([ROOT / "gradwire", "lr-finder", self.JOB, f"--output={self.out}", "--set", "optimiser=sgd"],
                               capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual((wrong.returncode, "optimiser" in wrong.stderr), (2, True), wrong.stderr)

    def test_it_is_a_worker_s_and_wants_a_job(self):
        got = subprocess.run([PS, "--find_learning_rate", f"--job={self.JOB}"], capture_output=True, text=True,
                             timeout=DEADLINE_S)
        self.assertEqual((got.returncode, "worker" in got.stderr), (2, True))
        self.assertIn("no-such.yaml", self.find("--job=no-such.yaml", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
