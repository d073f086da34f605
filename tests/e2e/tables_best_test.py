#!/usr/bin/env python3
# runs with others
"""The best epoch of a job with tables: best/ and model/ have the state of that epoch, rows and all, whoever is killed; in
async, too, the job ends early and best/ has what its cut has. The chief is killed between the end of an evaluation and the
end of the writing of what it has found to be the best, with tables and without: GRADWIRE_KILLS=100 times each; without it
a few times."""
import os
import pathlib
import random
import re
import shutil
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import SANITIZED, SHORT, TSAN, TrainCase, notes, slow  # noqa: E402

# So few rows, and so large a rate, that the evaluation soon gets worse.
JOB = """
name: wide-deep
data:
  format: synthetic
  synthetic: clicks
  synthetic_train_rows: 1500
  synthetic_eval_rows: 600
  synthetic_keys: 400
  synthetic_fields: 4
  delimiter: tab
  columns: [label: click, ignore: {name: "I{1..13}"}, key: {name: "C{1..4}"}]
model:
  input: {shape: auto}
  layers:
    - linear: {inputs: "C{1..4}", name: wide}
    - embedding: {inputs: "C{1..4}", output_dim: 3, name: e}
    - dense: {units: 1, inputs: e, use_bias: false, name: deep}
    - add: [wide, deep]
    - sigmoid
  loss: binary_crossentropy
  metrics: [auc]
optimizer: {adagrad: {learning_rate: 0.6}}
training: {batch_size: 100, epochs: 30, monitor: loss}
early_stopping: {patience: 3, restore_best_weights: true}
timeouts: {worker_rejoin_s: 2}
checkpoint: {every_steps: 0, every_seconds: 0, keep: 1}
"""
SLOW = slow(0.03)


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class TablesBestTest(TrainCase):
    KEYS = {}

    def setUp(self):
        super().setUp()
        self.job = self.tmp / "job.yaml"
        self.job.write_text(JOB)

    def notes(self, out=None):
        """The metadata of best/."""
        return notes((out or self.out) / "best/weights.safetensors")

    def said(self, out=None):
        """The same of model/."""
        return notes((out or self.out) / "model/weights.safetensors")

    def files(self, folder, out=None):
        """{name: bytes} of the rows of best/ or model/."""
        return {p.name: p.read_bytes() for p in sorted(((out or self.out) / folder / "tables").iterdir())}

    def check(self, summary, out=None):
        """Returns the best epoch."""
        losses = [epoch["eval"]["loss"] for epoch in summary["history"]]
        best = losses.index(min(losses))
        self.assertTrue(0 < best < len(losses) - 1, losses)
        notes = self.notes(out)
        self.assertEqual(int(notes["epoch"]), best + 1)
        self.assertEqual(summary["eval"]["loss"], losses[best])
        self.assertEqual(self.files("best", out), self.files("model", out))
        return best + 1

    def undisturbed(self):
        if not hasattr(self, "calm"):
            self.calm = self.train("--ps=1", "--workers=1", job=self.job, out=self.tmp / "calm").summary()
        return self.calm

    def test_in_sync_best_is_the_state_at_the_end_of_its_epoch(self):
        s = self.undisturbed()
        calm = self.tmp / "calm"
        best = self.check(s, calm)
        self.assertEqual(s["epochs"], best + 3)
        notes = self.notes(calm)
        self.assertEqual(int(notes["cut_step"]), 15 * best)
        self.assertEqual(notes["cut_step"], notes["step"])
        self.assertEqual(self.said(calm), {"job": "wide-deep", "step": notes["step"], "digest": s["digest"]})
        self.assertEqual((notes["job"], notes["digest"], notes["monitor"]), ("wide-deep", s["digest"], "loss"))
        keys = {"training.monitor": "none", "training.epochs": best, "early_stopping.patience": 0,
                "early_stopping.restore_best_weights": "false"}
        short = self.train("--ps=2", "--workers=2", job=self.job, keys=keys).summary()
        self.assertEqual(short["digest"], s["digest"])
        self.assertEqual(short["eval"], s["eval"])
        self.assertEqual(self.files("model"), self.files("best", calm))

    def test_without_restoring_model_has_the_last_epoch_and_best_the_best(self):
        keys = {"early_stopping.restore_best_weights": "false"}
        s = self.train("--ps=2", "--workers=2", job=self.job, keys=keys).summary()
        self.undisturbed()
        self.assertNotEqual(s["digest"], self.calm["digest"])
        self.assertEqual(self.said(), {"job": "wide-deep", "step": str(s["steps"]), "digest": s["digest"]})
        self.assertEqual(self.notes()["digest"], self.calm["digest"])
        self.assertNotEqual(self.files("model"), self.files("best"))
        self.assertEqual(self.files("best"), self.files("best", self.tmp / "calm"))
        kept = self.files("model")
        shutil.rmtree(self.out / "best")
        again = self.train("--ps=1", "--workers=1", job=self.job, keys=keys).summary()  # it is done, also without best/
        self.assertEqual((again["digest"], self.files("model")), (s["digest"], kept))

    def test_a_job_that_is_done_goes_on_with_more_patience_and_stays_done_without(self):
        s = self.undisturbed()
        calm = self.tmp / "calm"
        kept = self.files("model", calm)
        again = self.train("--ps=2", "--workers=1", job=self.job, out=calm).summary()
        self.assertEqual((again["digest"], again["history"], self.files("model", calm)), (s["digest"], s["history"], kept))
        more = self.train("--ps=2", "--workers=2", job=self.job, out=calm, keys={"early_stopping.patience": 5}).summary()
        self.assertEqual((more["digest"], more["epochs"]), (s["digest"], s["epochs"] + 2))

    def test_training_waits_while_a_cut_before_it_is_written(self):
        keys = {"checkpoint.every_steps": 1, "training.batch_size": 10, "training.learning_rate": 0.05}  # there always is one
        job = self.train("--ps=1", "--workers=1", job=self.job, keys=keys)
        said = re.findall(r"epoch (\d+) is the best: its rows are in checkpoint \d+, step (\d+)", job.log("worker-0"))
        self.assertGreater(len(said), 3)
        self.assertEqual([int(step) for _, step in said], [150 * int(epoch) for epoch, _ in said])

    def disturbed(self, name):
        keys = {"checkpoint.every_steps": 7}
        job = self.launch("--ps=2", "--workers=2", *SLOW, job=self.job, keys=keys, out=self.tmp / name)
        job.until("an epoch was the best", (self.tmp / name / "best/weights.safetensors").exists)
        job.kill(name)
        got = job.wait().summary()
        self.assertEqual((got["digest"], got["epochs"], got["eval"]),
                         (self.calm["digest"], self.calm["epochs"], self.calm["eval"]), job.logs())
        self.assertEqual(self.files("best", self.tmp / name), self.files("best", self.tmp / "calm"))

    def test_who_is_killed_changes_nothing(self):
        self.undisturbed()
        for name in ("ps-1",) if SHORT or SANITIZED else ("ps-1", "worker-0", "worker-1"):
            with self.subTest(name):
                self.disturbed(name)

    def test_in_async_and_ssp_it_ends_early_and_best_has_what_its_cut_has(self):
        for update in ("async", "ssp"):
            with self.subTest(update):
                # Epochs that end while one is evaluated are passed over, so the patience may take many.
                keys, out = {"training.update": update, "training.epochs": 3000}, self.tmp / update
                s = self.train("--ps=2", "--workers=2", job=self.job, out=out, keys=keys).summary()
                self.assertLess(s["epochs"], 3000)
                self.assertEqual(self.files("best", out), self.files("model", out))
                notes = self.notes(out)
                self.assertGreaterEqual(int(notes["cut_step"]), 15 * int(notes["epoch"]) - 30)
                again = self.train("--ps=1", "--workers=1", job=self.job, out=out, keys=keys).summary()
                self.assertEqual((again["steps"], again["digest"]), (s["steps"], s["digest"]))

    def test_best_without_its_cut_is_not_used(self):
        self.undisturbed()
        calm = self.tmp / "calm"
        cut = calm / "checkpoints" / f"cut-{int(self.notes(calm)['cut']):010d}"
        self.assertTrue(cut.exists())
        (cut / "manifest.gw").unlink()
        job = self.train("--ps=1", "--workers=1", job=self.job, out=calm, keys={"training.epochs": 40}, code=1)
        self.assertIn("its rows cannot be read", job.log("worker-0"))
        self.assertIn("the weights of its best epoch, ", job.summary()["error"])


# Without tables: a rate at which the evaluation soon gets no better.
DENSE = {"data.synthetic_train_rows": 1000, "data.synthetic_eval_rows": 400, "training.epochs": 60,
         "training.learning_rate": 0.02, "training.monitor": "loss", "early_stopping.patience": 3,
         "early_stopping.restore_best_weights": "true", "checkpoint.every_steps": 7, "checkpoint.every_seconds": 0,
         "checkpoint.keep": 1}


def best_epochs(job):
    """Those that were said to be the best so far."""
    return [int(epoch) for epoch in re.findall(r"epoch (\d+)/.* best so far", job.stderr())]


@unittest.skipIf(SANITIZED, "aims at moments that take so long only there")
class AimedTest(TrainCase):
    IN_MEMORY = False  # there a cut takes no time
    KEYS = {}
    KILLS = int(os.environ.get("GRADWIRE_KILLS", 3))

    def setUp(self):
        super().setUp()
        self.job = self.tmp / "job.yaml"
        self.job.write_text(JOB)

    def cuts(self, file):
        return {p.parent for p in (self.out / "checkpoints").glob(f"cut-*/{file}")}

    def aim(self, job, moment, epoch):
        """Waits for a moment after this epoch, of the best so far, is said to be that."""
        job.until("a best epoch", lambda: epoch in best_epochs(job))
        files, manifests = self.cuts("shard-*"), self.cuts("manifest.gw")
        if moment == "files":  # of a cut that is being written
            job.until("a cut is written", lambda: self.cuts("shard-*") - files)
        elif moment == "manifest":
            job.until("a cut is published", lambda: self.cuts("manifest.gw") - manifests)
        else:
            time.sleep(moment)

    def sweep(self, **options):
        undisturbed = self.train("--ps=1", "--workers=1", out=self.tmp / "calm", **options)
        calm, best = undisturbed.summary(), best_epochs(undisturbed)
        seed = int(os.environ.get("GRADWIRE_SEED", 27))
        rng = random.Random(seed)
        for i in range(self.KILLS):
            # the moment itself is what is tried: up to 40 ms cover all of them on a quick disk
            moment = rng.choice(["files", "manifest", rng.uniform(0, 0.04), rng.uniform(0, 0.04)])
            epoch = rng.choice(best)
            with self.subTest(seed=seed, kill=i, moment=moment, epoch=epoch):
                shutil.rmtree(self.out, ignore_errors=True)
                job = self.launch("--ps=2", "--workers=2", *slow(0.002), **options)  # else it ends before the kill
                self.aim(job, moment, epoch)
                job.kill("worker-0")
                got = job.wait().summary()
                self.assertEqual([got[k] for k in ("digest", "epochs", "eval", "exact")],
                                 [calm[k] for k in ("digest", "epochs", "eval", "exact")], job.logs())
                for k in ("epoch", "train", "eval"):
                    self.assertEqual([line[k] for line in got["history"]], [line[k] for line in calm["history"]])

    def test_with_tables_a_best_that_its_chief_did_not_keep_is_found_again(self):
        self.sweep(job=self.job, keys={"checkpoint.every_steps": 7})

    def test_without_tables_a_best_that_its_chief_did_not_keep_is_found_again(self):
        self.sweep(keys=DENSE)

    def test_a_published_checkpoint_of_the_best_epoch_is_taken_up(self):
        calm = self.train("--ps=1", "--workers=1", job=self.job, out=self.tmp / "calm").summary()
        job = self.launch("--ps=1", "--workers=1", *slow(0.05, 1), job=self.job)
        job.until("the first epoch is the best", (self.out / "best/weights.safetensors").exists)
        job.kill("launcher-0")
        self.lock_is_free()
        shutil.rmtree(self.out / "best")
        again = self.train("--ps=2", "--workers=2", job=self.job)
        said = again.log("worker-0")
        taken_up = "epoch 1 is the best: its rows are in checkpoint 1, step 15"
        self.assertEqual(said.count(taken_up), 2, said)
        self.assertLess(said.rindex(taken_up), said.index("resuming from checkpoint"), said)
        self.assertEqual(again.summary()["digest"], calm["digest"])


if __name__ == "__main__":
    unittest.main()
