#!/usr/bin/env python3
# labels: short
"""Checkpoints on disks that are full, torn, or of another job. Older ones stay intact, and the job resumes from them."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import LAUNCH, LONG_ROWS, MODEL, SANITIZED, SHORT, TSAN, Process, TrainCase, slow  # noqa: E402

KEYS = {"data.synthetic_train_rows": LONG_ROWS, "training.epochs": 4,
        "checkpoint.every_steps": 20, "checkpoint.every_seconds": 0}


def contents(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in folder.rglob("*") if p.is_file()}


def may_mount():
    probe = "mount -t tmpfs none /tmp"
    return not subprocess.run(["unshare", "--mount", "sh", "-c", probe], capture_output=True).returncode


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class CheckpointTest(TrainCase):
    def stopped(self):
        """A job that was stopped with at least two cuts after the first; returns it and its cuts."""
        job = self.launch(keys=KEYS)
        job.until_cut(2)
        job.signal(signal.SIGTERM)
        job.wait(143)
        self.assertGreaterEqual(len(job.cuts()), 2)
        return job, job.cuts()

    def cut(self, number):
        return self.out / f"checkpoints/cut-{number:010}"

    def goes_on_from(self, number, want, said=None):
        job = self.launch("--ps=1", "--workers=3", keys=KEYS).wait()
        self.assertIn(f"resuming from checkpoint {number} ", job.log("worker-0"))
        if said:
            self.assertIn(said, job.log("worker-0"))
        self.assertEqual(job.summary()["digest"], want, job.logs())

    def test_a_corrupt_newest_checkpoint_is_passed_over_and_said_so(self):
        want = self.undisturbed(keys=KEYS)
        _, cuts = self.stopped()
        shard = sorted(self.cut(cuts[-1]).glob("shard-*"))[0]
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 1
        shard.write_bytes(data)
        self.goes_on_from(cuts[-2], want, f"checkpoint {cuts[-1]} cannot be used, the one before it is tried: ")

    @unittest.skipIf(SHORT or SANITIZED, "the short run has the corrupt shard, and unit/checkpoint_test the manifest")
    def test_a_corrupt_manifest_is_passed_over_and_said_so(self):
        want = self.undisturbed(keys=KEYS)
        _, cuts = self.stopped()
        manifest = self.cut(cuts[-1]) / "manifest.gw"
        manifest.write_bytes(manifest.read_bytes()[:-1])
        self.goes_on_from(cuts[-2], want, f"checkpoint {cuts[-1]} cannot be used, the one before it is tried: ")

    def test_where_no_checkpoint_can_be_used_the_job_fails_and_does_not_begin_anew(self):
        _, cuts = self.stopped()
        for manifest in self.out.glob("checkpoints/cut-*/manifest.gw"):
            manifest.write_bytes(manifest.read_bytes()[:-1])
        job = self.launch(keys=KEYS).wait(1)
        summary = job.summary()
        self.assertEqual(summary["status"], "failed")
        self.assertIn("none of the job's checkpoints can be used", summary["error"])
        for cut in cuts:  # each file, where a user looks
            self.assertIn(f"cut-{cut:010}/manifest.gw: corrupt: ", summary["error"])
            self.assertIn(f"cut-{cut:010}/manifest.gw: corrupt: ", job.stderr())

    @unittest.skipIf(SHORT or SANITIZED, "the short run has the corrupt ones")
    def test_a_half_written_checkpoint_does_not_exist(self):
        want = self.undisturbed(keys=KEYS)
        _, cuts = self.stopped()
        half = self.cut(cuts[-1] + 1)  # as a chief leaves it that dies before it publishes
        shutil.copytree(self.cut(cuts[-1]), half)
        (half / "manifest.gw").unlink()
        shard = sorted(half.glob("shard-*"))[0]
        shard.write_bytes(shard.read_bytes()[:100])
        self.goes_on_from(cuts[-1], want, f"checkpoint {cuts[-1] + 1} has no manifest.gw, so it was not completed")

    @unittest.skipIf(SHORT or SANITIZED, "the short run has the corrupt ones")
    def test_without_a_shard_of_the_newest_the_one_before_is_taken(self):
        want = self.undisturbed(keys=KEYS)
        _, cuts = self.stopped()
        sorted(self.cut(cuts[-1]).glob("shard-*"))[1].unlink()
        self.goes_on_from(cuts[-2], want, f"checkpoint {cuts[-1]} cannot be used")

    def test_another_identity_is_refused_naming_key_old_and_new_and_touches_nothing(self):
        job, cuts = self.stopped()
        before = contents(self.out / "checkpoints")
        for key, old, new in (("model.layers[1].dense.units", "128", "64"), ("training.seed", "1", "2"),
                              ("training.batch_size", "64", "32"), ("training.update", "sync", "async"),
                              ("data.synthetic_train_rows", KEYS["data.synthetic_train_rows"], "900")):
            with self.subTest(key):
                job = self.launch(keys={**KEYS, key: new}).wait(2)
                self.assertIn(f"the job differs from that of its checkpoint {cuts[-1]}: {key} was {old}, is {new}",
                              job.stderr())
                self.assertNotIn("checkpoint.run", job.stderr())  # which begins where a job is done
                self.assertEqual(job.summary()["exit_code"], 2)
        self.assertEqual(contents(self.out / "checkpoints"), before)

    def test_a_changed_job_names_the_ways_out(self):
        self.train(keys={"training.epochs": 1})
        anew, run = "or start from scratch with --fresh or another --output", "; a new checkpoint.run starts with the learned weights"
        for keys, has_run in (({"training.seed": 2}, True), ({"model.layers[1].dense.units": 64}, False)):
            with self.subTest(keys):
                said = self.launch(keys={"training.epochs": 1, **keys}).wait(2).stderr()
                self.assertIn("restore the old value, " + anew, said)
                self.assertEqual(run in said, has_run, said)  # weights of another shape are of no use to it

    def test_a_resume_says_on_the_terminal_from_where_it_goes_on(self):
        _, cuts = self.stopped()
        job = self.launch(keys=KEYS).wait()
        per_epoch = job.summary()["steps"] // 4
        said = re.search(r"resuming from checkpoint (\d+): epoch (\d)/4, after step (\d+)/(\d+) \(step (\d+) in all\)",
                         job.stderr())
        self.assertTrue(said, job.stderr())
        cut, epoch, at, of, step = map(int, said.groups())
        self.assertEqual((cut, of, (epoch - 1) * per_epoch + at), (cuts[-1], per_epoch, step))
        self.assertGreaterEqual(step, 40)
        self.assertIn(said[0], job.log("worker-0"))
        self.assertNotIn("nothing was trained", job.stderr())

    def test_a_rerun_that_trains_nothing_says_so_and_why_and_what_to_do(self):
        first = self.train(keys={"training.epochs": 2}).summary()
        for epochs, rate in ((2, 0.5), (1, 0.001)):
            with self.subTest(epochs):
                job = self.launch(keys={"training.epochs": epochs, "training.learning_rate": rate}).wait()
                words = (f"nothing was trained: training.epochs is {epochs}, and checkpoint {job.cuts()[-1]} (step "
                         f"{first['steps']}) already has 2; to train more, set training.epochs above 2; to train from scratch (with "
                         "another rate, for example), use --fresh or another --output")
                self.assertIn(words, job.stderr())
                self.assertIn(words, job.log("worker-0"))
                result = (self.tmp / f"{job.out.name}.stdout").read_text().splitlines()[0]
                self.assertRegex(result, r": done before in [\d.]+ s, 2 epochs, \d+ steps; nothing was trained now$")
                self.assertEqual(job.summary()["digest"], first["digest"])

    def test_an_interrupted_job_that_is_to_end_before_where_it_stands_trains_nothing_and_says_where_it_ends(self):
        keys = {**KEYS, "optimizer.adam.use_ema": "true"}
        job = self.launch(*slow(0.005), keys={**keys, "training.epochs": 100})
        steps = -(-int(LONG_ROWS) // 64)
        job.until_cut(steps // 20 + 2)
        job.signal(signal.SIGTERM)
        job.wait(143)
        # Another name is no other job, for a checkpoint (docs/reference/comparisons.md).
        job = self.launch(keys={**keys, "training.epochs": 1, "name": "other"}).wait()
        self.assertIn("nothing was trained: training.epochs is 1, and checkpoint ", job.stderr())
        self.assertNotIn("resuming from checkpoint", job.stderr())
        s = job.summary()
        if s["steps"] % steps == 0:
            self.skipTest("it was stopped at an epoch's end")
        epochs = s["steps"] // steps
        self.assertIn(f" is already in the middle of epoch {epochs + 1}, so the model is not that of a job with training.epochs: 1; ", job.stderr())
        self.assertEqual((s["epochs"], s["exact"], s["inexact"]), (
            epochs, False, f"step {s['steps']}, in the middle of epoch {epochs + 1}: training.epochs was lowered to 1"))
        self.assertEqual(s["train"], s["history"][-1]["train"])
        self.assertNotEqual(s["eval"], s["history"][-1]["eval"])  # it is of the model, which has its averages
        out = subprocess.run([MODEL, "evaluate", self.out, "--json"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(json.loads(out)["eval"]["loss"], s["eval"]["loss"])
        s = self.train(keys={**keys, "training.epochs": epochs + 1}).summary()
        self.assertEqual((s["steps"], s["epochs"], s["exact"], s["inexact"]), ((epochs + 1) * steps, epochs + 1, True, None))

    def test_in_async_such_a_job_is_evaluated_as_of_the_epochs_that_it_has(self):
        keys = {**KEYS, "training.update": "async", "data.synthetic_train_rows": 2000}  # 32 batches
        job = self.launch(*slow(0.005), keys={**keys, "training.epochs": 100})
        job.until_cut(5)
        job.signal(signal.SIGTERM)
        job.wait(143)
        s = self.train(keys={**keys, "training.epochs": 1}).summary()
        self.assertGreater(s["epochs"], 1)
        self.assertEqual((s["batches"]["dealt"], s["batches"]["applied_min"], s["batches"]["applied_max"]), (s["steps"],) * 3)
        self.assertEqual((s["history"][-1]["epoch"], s["history"][-1]["eval"]), (s["epochs"], s["eval"]))
        self.assertEqual(json.loads((self.out / "model/manifest.json").read_text())["epoch"], s["epochs"])

    def test_without_keys_little_is_lost_with_a_ps_and_one_checkpoint_is_old(self):
        job = self.launch(*slow(0.4), keys={"training.epochs": 100000})  # 500 steps take 200 s
        job.until_cut(1)
        manifest = self.cut(0) / "manifest.gw"
        os.utime(manifest, (manifest.stat().st_atime, manifest.stat().st_mtime - 100))
        job.until_cut(3)
        job.kill("ps-0")
        lived = job.cuts()
        job.until_said("worker-0", "generation 2: resuming from checkpoint ")
        cut, step = map(int, re.search(r"resuming from checkpoint (\d+) \(step (\d+)\)", job.log("worker-0")).groups())
        self.assertGreaterEqual(cut, lived[-1])
        self.assertTrue(0 < step < 500, step)
        job.until_cut(cut + 2)
        job.signal(signal.SIGTERM)
        job.wait(143)
        self.assertEqual((len(job.cuts()), job.cuts()[0]), (3, 0), job.cuts())
        for cut in job.cuts()[1:]:
            self.cut(cut).rename(self.tmp / str(cut))
        job = self.launch(keys={"training.epochs": 1}).wait()
        self.assertIn("resuming from checkpoint 0 ", job.log("worker-0"))

    def test_a_job_whose_folder_is_removed_ends_and_another_job_there_is_undisturbed(self):
        want = self.undisturbed(keys={"training.seed": 2})
        first = self.launch(*slow(0.02), keys={"training.epochs": 1000, "checkpoint.every_steps": 5, "checkpoint.every_seconds": 0})
        first.until_cut(1)
        pids = list(first.pids().values())
        self.out.rename(self.tmp / "removed")  # as rm -r does, but at one moment
        second = Process(self, [LAUNCH, "train", self.JOB, f"--output={self.out}", *slow(0.02), *self.sets({"training.seed": 2})],
                         "second")
        first.wait(1)
        self.assertRegex(first.stderr(), rf"error .*{self.out} was removed or replaced: its lock is not the file that this job holds")
        self.gone(pids)
        second.wait(0)
        self.assertEqual((self.summary()["digest"], self.summary()["status"]), (want, "done"))
        self.assertNotIn("resuming", (self.out / "processes/worker-0.log").read_text())
        self.assertNotIn("training.epochs: 1000", (self.out / "checkpoints/job.yaml").read_text())

    def test_another_jobs_checkpoint_that_appears_in_mid_job_is_not_restored(self):
        _, cuts = self.stopped()
        other = shutil.copytree(self.cut(cuts[-1]), self.tmp / "other")
        for keys, text in (({"training.seed": 2}, f"in {self.out}/checkpoints belongs to another job: training.seed"),
                           ({}, "belongs to run ")):  # the same job, from scratch
            with self.subTest(text):
                shutil.rmtree(self.out)
                job = self.launch(*slow(0.02), keys={**KEYS, "checkpoint.every_steps": 100000, **keys})
                job.until_cut(0)
                shutil.copytree(other, self.cut(10000 + cuts[-1]))
                os.rename(self.cut(10000 + cuts[-1]), self.cut(cuts[-1]))
                job.kill("ps-0")
                job.wait(1)
                self.assertRegex(job.stderr(), f"error .*checkpoint {cuts[-1]} {text}")

    def test_fresh_starts_anew(self):
        self.stopped()
        before = contents(self.out / "checkpoints")
        other = {"training.seed": 2}
        want = self.undisturbed(keys=other)
        job = self.train("--fresh", keys=other)
        self.assertEqual(job.summary()["digest"], want)
        self.assertEqual(contents(self.tmp / "out.1/checkpoints"), before)

    def test_a_job_that_is_done_ends_at_once_and_more_epochs_reopen_it(self):
        want = self.undisturbed(keys={"training.epochs": 3})
        first = self.train(keys={"training.epochs": 2}).summary()
        shutil.rmtree(self.out / "model")
        again = self.launch("--ps=3", keys={"training.epochs": 2})
        s = again.wait().summary()
        self.assertEqual(again.log("worker-0").count("epoch 1/2:"), 1, again.logs())  # of the first: nothing is trained again
        self.assertIn("the job is done: checkpoint", again.log("worker-1"))
        self.assertEqual([s[k] for k in ("status", "digest", "steps", "epochs", "eval", "train")],
                         [first[k] for k in ("status", "digest", "steps", "epochs", "eval", "train")])
        self.assertTrue((self.out / "model/weights.safetensors").exists())
        s = self.train(keys={"training.epochs": 3}).summary()
        self.assertEqual((s["digest"], s["epochs"]), (want, 3))

    # ---- one night after the other ----

    STILL = {"training.learning_rate": 1e-30}  # a job that starts with weights ends with the same ones

    def night(self, name, keys=None, code=0, *flags):
        return self.launch(*flags, keys={"training.epochs": 1, "checkpoint.run": name, **(keys or {})}).wait(code)

    def test_a_run_begins_with_what_the_last_one_has_learned_on_other_data_too(self):
        other = {"data.synthetic_train_rows": 800}
        first = self.night("monday").summary()
        job = self.night("tuesday", {**self.STILL, **other}, 0, "--ps=3", "--workers=1")
        s = job.summary()
        self.assertIn(f'run "tuesday" begins with the weights of checkpoint {self.last_cut(job)}, step {first["steps"]} of run "monday"',
                      job.log("worker-0"))
        self.assertEqual((s["digest"], s["epochs"]), (first["digest"], 1))
        self.assertLess(s["steps"], first["steps"])  # of fewer rows
        again = self.night("tuesday", {**self.STILL, **other})  # it is done, and stays so
        self.assertEqual((again.summary()["digest"], again.summary()["steps"]), (s["digest"], s["steps"]))
        self.assertEqual(again.log("worker-0").count("begins with"), 1)
        last = self.night("wednesday", other).summary()
        self.assertNotEqual(last["digest"], s["digest"])

    def last_cut(self, job):
        line = [line for line in job.log("worker-0").splitlines() if "begins with the weights" in line][-1]
        number = int(line.split("of checkpoint ")[1].split(",")[0])
        self.assertEqual(min(job.cuts()) > number, True)  # no way back into the job before it
        return number

    def test_a_run_that_was_not_done_goes_on_under_the_next_ones_name(self):
        want = self.undisturbed(keys=KEYS)
        job = self.launch(*slow(0.02), keys={**KEYS, "checkpoint.run": "monday"})
        job.until_cut(2)
        job.signal(signal.SIGTERM)
        job.wait(143)
        job = self.launch(keys={**KEYS, "checkpoint.run": "tuesday"}).wait()
        self.assertNotIn("begins with", job.log("worker-0"))
        self.assertEqual(job.summary()["digest"], want)
        done = self.launch(keys={**KEYS, "checkpoint.run": "tuesday"}).wait()
        self.assertEqual(done.summary()["steps"], job.summary()["steps"])

    def test_a_run_of_another_model_is_refused_and_touches_nothing(self):
        self.night("monday")
        before = contents(self.out / "checkpoints")
        job = self.night("tuesday", {"model.layers[1].dense.units": 64}, 2)
        self.assertIn('run "tuesday" would begin with the weights in', job.stderr())
        self.assertIn("which has another model: model.layers[1].dense.units was 128, is 64", job.stderr())
        self.assertEqual(contents(self.out / "checkpoints"), before)

    @unittest.skipIf(SHORT or SANITIZED, "the short run has none")
    def test_an_evaluator_waits_for_the_new_jobs_checkpoints(self):
        self.night("monday", {}, 0, "--evaluator")
        s = self.night("tuesday", {"data.synthetic_train_rows": 4000}, 0, "--evaluator").summary()
        self.assertTrue(s["evaluator"]["final"])
        self.assertEqual(s["evaluator"]["step"], s["steps"])

    # ---- a full disk ----

    def on_a_disk_of(self, kib, keys, code):
        """Runs a job whose DIR/checkpoints is a small disk of its own, of which `kib` are free."""
        for name in ("checkpoints", "processes"):
            (self.out / name).mkdir(parents=True)
        script = f'mount -t tmpfs -o size={kib}k none "$1" && shift && exec "$@"'
        job = self.launch(before=["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
                                  str(self.out / "checkpoints")], keys=keys)
        job.wait(code)
        return job

    @unittest.skipUnless(may_mount(), "a disk that is full needs the right to mount one")
    def test_a_full_disk_fails_the_final_checkpoint_alone_and_that_ends_the_job(self):
        # Cut 0 compresses well; a cut of trained weights does not fit on the disk with it.
        job = self.on_a_disk_of(1000, {**KEYS, "training.epochs": 1}, code=1)
        chief = job.log("worker-0")
        self.assertIn("No space left on device", chief)
        self.assertIn("failed", chief)
        s = job.summary()
        self.assertEqual((s["status"], s["exit_code"]), ("failed", 1))
        self.assertIn("the final checkpoint failed", s["error"])
        self.assertIn("No space left on device", s["error"])
        self.assertEqual(s["restarts"], 0)

    @unittest.skipUnless(may_mount(), "a disk that is full needs the right to mount one")
    def test_a_disk_that_is_full_as_the_job_ends_and_has_room_5_s_later_fails_nothing(self):
        for name in ("checkpoints", "processes"):
            (self.out / name).mkdir(parents=True)
        # As above; the disk grows when the first attempt has failed.
        script = ('mount -t tmpfs -o size=1000k none "$1"; disk=$1; log=$2; shift 2; '
                  '{ until grep -qs "attempt 1 of 3 failed" "$log" || ! [ -d "${log%/*}" ]; do sleep 0.02; done; '
                  'mount -o remount,size=16m "$disk"; } & exec "$@"')
        job = self.launch(before=["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
                                  str(self.out / "checkpoints"), str(self.out / "processes/worker-0.log")],
                          keys={**KEYS, "training.epochs": 1})
        s = job.wait().summary()
        self.assertIn("the final checkpoint is tried again in 5 s", job.log("worker-0"))
        self.assertEqual((s["status"], s["restarts"]), ("done", 0), job.logs())

    @unittest.skipUnless(may_mount(), "a disk that is full needs the right to mount one")
    def test_a_full_disk_delays_a_checkpoint_and_the_job_goes_on(self):
        want = self.undisturbed(keys=KEYS)
        for name in ("checkpoints", "processes"):
            (self.out / name).mkdir(parents=True)
        disk = self.out / "checkpoints"
        # The disk is full until the chief has said so; then there is room.
        script = ('mount -t tmpfs -o size=16m none "$1"; dd if=/dev/zero of="$1/ballast" bs=1k count=15300; disk=$1; '
                  'log=$2; shift 2; { until grep -qs "No space left" "$log" || ! [ -d "${log%/*}" ]; do sleep 0.02; '
                  'done; rm "$disk/ballast"; } & exec "$@"')
        job = self.launch(before=["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
                                  str(disk), str(self.out / "processes/worker-0.log")], keys=KEYS)
        s = job.wait().summary()
        self.assertIn("No space left on device", job.log("worker-0"))
        self.assertEqual((s["digest"], s["restarts"]), (want, 0), job.logs())


if __name__ == "__main__":
    unittest.main()
