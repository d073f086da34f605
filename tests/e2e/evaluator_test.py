#!/usr/bin/env python3
# runs with others
"""The evaluator: what it finds is what the chief would have found; it may come late, die, or never come. TensorBoard's event
files: an independent reader, and TensorBoard's own where it is installed, find there what the summary says."""
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, PS, WORKER, Process, TrainCase, free_ports, slow  # noqa: E402
from tfevents import Run, hyperparameters  # noqa: E402
from watch import get, places, text  # noqa: E402

KEYS = {"training.epochs": 3, "checkpoint.every_steps": 20, "checkpoint.every_seconds": 0, "worker.threads": 1}
CALM = {}
TENSORBOARD = ["tensorboard==2.18.0", "setuptools<81"]  # it imports pkg_resources
WITH_TENSORBOARD = "import tensorboard.backend.event_processing.plugin_event_multiplexer"


def has_tensorboard(python):
    return subprocess.run([python, "-c", WITH_TENSORBOARD], capture_output=True).returncode == 0


def tensorboard_python():
    """A Python that has tensorboard: this one, GRADWIRE_TENSORBOARD's, or, where that is `pip`, one of a virtual environment
    that is made of what pip gets. Without one the test skips."""
    wanted = os.environ.get("GRADWIRE_TENSORBOARD", sys.executable)
    if wanted != "pip":
        if not has_tensorboard(wanted):
            raise unittest.SkipTest(f"{wanted} has no tensorboard: GRADWIRE_TENSORBOARD names a Python that has, or is pip")
        return wanted
    folder = BUILD / "tensorboard-venv"
    python = folder / "bin/python"
    if not (python.exists() and has_tensorboard(python)):
        for words in ([sys.executable, "-m", "venv", folder], [python, "-m", "pip", "install", "--quiet", *TENSORBOARD]):
            got = subprocess.run(words, capture_output=True, text=True)
            if got.returncode:
                raise unittest.SkipTest(f"tensorboard cannot be had: {(got.stderr or got.stdout).strip().splitlines()[-1]}")
    return python


def whole_job(chief):
    return json.loads(text(chief, "/status") or "{}").get("whole_job") or {}


class EvaluatorTest(TrainCase):
    def results(self, out=None):
        log = json.loads(((out or self.out) / "eval.json").read_text())
        results = log["results"]
        self.assertEqual(sorted({r["step"] for r in results}), [r["step"] for r in results])
        return results

    def same(self, a, b):
        """The same numbers; a launcher writes them again, with one digit less."""
        self.assertEqual(a.keys(), b.keys())
        for key in a:
            self.assertTrue(math.isclose(a[key], b[key], rel_tol=1e-14), (key, a, b))

    def calm(self, keys=KEYS):
        """The summary of a run without an evaluator, which is made once for all tests."""
        epochs = keys["training.epochs"]
        if epochs not in CALM:
            CALM[epochs] = self.train(out=self.tmp / "calm", keys=keys).summary()
        return CALM[epochs]

    def check(self, summary, calm):
        last = self.results()[-1]
        self.assertEqual(summary["digest"], calm["digest"])
        self.same(summary["eval"], calm["eval"])
        self.same({k: last[k] for k in calm["eval"]}, calm["eval"])
        self.assertEqual(summary["evaluator"], {"cut": last["cut"], "step": calm["steps"], "final": True})
        self.assertTrue(last["final"])

    def test_it_finds_what_the_chief_would_have_found(self):
        calm = self.calm()
        self.assertIsNone(calm["evaluator"])
        job = self.train("--evaluator", "--chief", "--workers=1", keys=KEYS)
        self.check(job.summary(), calm)
        self.assertIn("evaluator: step", job.stderr())
        self.assertIn("the final checkpoint is evaluated: done", job.log("evaluator-0"))
        last, names = self.results()[-1], [name for name in calm["eval"] if name not in ("loss", "step")]
        words = f": eval loss {last['loss']:.9g}" + "".join(f" {name} {last[name]:.9g}" for name in names)  # as the chief's
        self.assertIn(f" (final){words}, in ", job.log("evaluator-0"))
        self.assertIn(f"evaluator: step {last['step']}{words}", job.stderr())
        self.assertIn(f" done: 3 epochs, eval loss {calm['eval']['loss']:.9g} ", job.log("chief-0").splitlines()[-1])
        # A job that is done stays so, and its evaluator's word too.
        again = self.train("--evaluator", "--chief", "--workers=1", keys=KEYS).summary()
        self.check(again, calm)
        events = Run(self.out / "logs/eval")
        self.assertEqual(events.twice, [])
        self.assertTrue(math.isclose(events.scalars["epoch_loss"][calm["steps"]], calm["eval"]["loss"], rel_tol=1e-6))

    def final(self):
        return sorted(self.out.glob("checkpoints/cut-*"))[-1]

    def damage_final(self):
        """The job goes back, and its next final checkpoint gets a number above this one's."""
        shard = self.final() / "shard-0.gw"
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 4
        shard.write_bytes(data)

    def test_a_result_of_a_final_checkpoint_that_was_undone_is_not_that_of_the_next_one(self):
        only_final = {**KEYS, "checkpoint.every_steps": 0}  # others can be left out, so numbers would differ
        self.train("--evaluator", keys={**only_final, "training.epochs": 2})
        before = self.train("--evaluator", keys=only_final).summary()
        shutil.rmtree(self.final())  # the next one gets the same number
        chief = self.tmp / "chief"
        shutil.copytree(self.out, chief)
        keys = {**only_final, "training.learning_rate": 0.1}
        calm = self.train(out=chief, keys=keys).summary()
        job = self.train("--evaluator", keys=keys)
        self.check(job.summary(), calm)
        self.assertNotEqual(job.summary()["eval"], before["eval"])
        self.assertEqual(job.summary()["evaluator"]["cut"], before["evaluator"]["cut"])
        made = json.loads((self.out / "model/manifest.json").read_text())
        self.same(made["eval"], calm["eval"])
        want = json.loads((chief / "model/manifest.json").read_text())["data"]
        self.assertEqual({k: made["data"][k] for k in ("eval_rows", "eval_fingerprint")},
                         {k: want[k] for k in ("eval_rows", "eval_fingerprint")})
        self.damage_final()
        self.check(self.train("--evaluator", keys=keys).summary(), calm)
        # Without its word the result of an earlier checkpoint is none of the model's, and said to be an earlier one's.
        self.damage_final()
        alone = Process(self, [WORKER, f"--job={self.JOB}", f"--output={self.out}", "--evaluators=1", *self.sets(only_final),
                               "--set=timeouts.evaluator_s=1"], "alone")
        alone.wait(0)
        self.assertFalse(self.summary()["evaluator"]["final"])
        self.assertLess(self.summary()["evaluator"]["step"], self.summary()["steps"])
        self.assertEqual(set(json.loads((self.out / "model/manifest.json").read_text())["eval"].values()), {None})

    def test_killed_it_is_started_again_and_goes_on(self):
        keys = {**KEYS, "checkpoint.every_steps": 10, "training.epochs": 16}
        calm = self.calm(keys)
        job = self.launch("--evaluator", keys=keys)
        job.until("there are results", lambda: (self.out / "eval.json").exists() and self.results())
        job.kill("evaluator-0", signal.SIGKILL)
        self.check(job.wait().summary(), calm)
        self.assertEqual(job.summary()["restarts"], 1)
        self.assertEqual(Run(self.out / "logs/eval").twice, [])

    def test_it_may_come_late(self):
        calm = self.calm()
        ports = free_ports(2)
        hosts = [f"--ps_hosts=127.0.0.1:{ports[0]}", f"--worker_hosts=127.0.0.1:{ports[1]}", f"--job={self.JOB}",
                 f"--output={self.out}", "--evaluators=1", *self.sets(KEYS)]
        Process(self, [PS, "--job_name=ps", *hosts[:-len(self.sets(KEYS)) - 1], *self.sets(KEYS)], "ps")
        worker = Process(self, [WORKER, "--job_name=worker", "--task_index=0", *hosts], "worker")
        self.until("the final cut is published", lambda: (self.out / "model/weights.safetensors").exists())
        self.assertIsNone(worker.process.poll())
        evaluator = Process(self, [WORKER, "--job_name=evaluator", *hosts], "evaluator")
        evaluator.wait(0)
        worker.wait(0)
        self.check(self.summary(), calm)
        # Started again it does not wait for what only a newer release can read.
        manifest = sorted(self.out.glob("checkpoints/*/manifest.gw"))[-1]
        data = bytearray(manifest.read_bytes())
        data[7] = data[-1] = ord("3")
        manifest.write_bytes(data)
        again = Process(self, [WORKER, "--job_name=evaluator", *hosts], "evaluator-again")
        again.wait(2)
        self.assertIn("in format 3", again.last_line())

    def test_a_chief_that_comes_back_writes_its_late_word_into_the_manifest(self):
        ports = free_ports(2)
        flags = [f"--ps_hosts=127.0.0.1:{ports[0]}", f"--worker_hosts=127.0.0.1:{ports[1]}", f"--job={self.JOB}", *self.sets(KEYS)]
        here = [*flags, f"--output={self.out}", "--evaluators=1"]
        Process(self, [PS, "--job_name=ps", *flags], "ps")
        chief = Process(self, [WORKER, "--job_name=worker", *here], "chief")
        self.until("the final cut is published", (self.out / "model/weights.safetensors").exists)
        chief.process.kill()  # it waits for the evaluator
        chief.process.wait()
        chief = Process(self, [WORKER, "--job_name=worker", *here], "chief-again")
        chief.until_said("waiting for the evaluator's result")
        Process(self, [WORKER, "--job_name=evaluator", *here], "evaluator").wait(0)
        chief.wait(0)
        self.check(self.summary(), self.calm())
        self.same(json.loads((self.out / "model/manifest.json").read_text())["eval"], self.summary()["eval"])

    def test_it_ends_where_its_folder_is_replaced_and_writes_nothing_there(self):
        ports = free_ports(2)
        hosts = [f"--ps_hosts=127.0.0.1:{ports[0]}", f"--worker_hosts=127.0.0.1:{ports[1]}", f"--job={self.JOB}",
                 f"--output={self.out}", "--evaluators=1", *self.sets({**KEYS, "training.epochs": 100000})]
        ps = Process(self, [PS, "--job_name=ps", *hosts], "ps")
        chief = Process(self, [WORKER, "--job_name=worker", "--task_index=0", *hosts], "chief")
        evaluator = Process(self, [WORKER, "--job_name=evaluator", *hosts], "evaluator")
        self.until("a result", (self.out / "eval.json").exists)
        chief.stop()
        shutil.copytree(self.out, self.tmp / "copy", ignore=shutil.ignore_patterns("*.tmp-*"))
        self.out.rename(self.tmp / "removed")
        (self.tmp / "copy").rename(self.out)
        before = (self.out / "eval.json").read_bytes()
        self.assertIn(f"{self.out} was removed or replaced: its lock is not the file that this job holds, so this job ends",
                      evaluator.wait(1).last_line())
        self.assertEqual((self.out / "eval.json").read_bytes(), before)
        ps.stop()

    def test_without_keys_the_next_checkpoint_follows_its_result(self):
        job = self.launch("--evaluator", *slow(0.2), keys={"training.epochs": 100000, "worker.threads": 1})
        job.until_cut(2)
        result = self.results()[-1]
        self.assertGreaterEqual(result["cut"], 1)  # each was evaluated before the next one
        self.assertLess(result["step"], 500)
        job.signal(signal.SIGTERM)
        job.wait(143)

    def test_it_answers_over_http(self):
        job = self.launch("--evaluator", keys={**KEYS, "training.epochs": 100000})
        job.until_said("launcher", "evaluator: step")
        address = places(self.out)["evaluator-0"]
        for path in ("/healthz", "/readyz"):
            self.assertEqual(get(address, path)[0], 200)
        self.assertIn('gradwire_evaluator_result{name="accuracy"} ', text(address, "/metrics"))
        last = json.loads(text(address, "/status"))["last"]
        chief = places(self.out)["worker-0"]
        whole = job.until("the chief shows a result of the evaluator", lambda: (w := whole_job(chief)).get("eval") and w)
        self.assertEqual([point[0] for point in whole["evaluator_curve"]][-1], whole["eval"]["step"])
        self.assertIn("gradwire_job_eval_loss ", text(chief, "/metrics"))
        job.signal(signal.SIGTERM)
        job.wait(143)
        self.assertIn((last["step"], last["accuracy"]), [(r["step"], r["accuracy"]) for r in self.results()])

    def test_without_its_word_the_job_ends_and_says_so(self):
        keys = {**KEYS, "timeouts.evaluator_s": 1, "training.epochs": 1}
        alone = Process(self, [WORKER, f"--job={self.JOB}", f"--output={self.out}", "--evaluators=1", *self.sets(keys)],
                        "alone")
        alone.wait(0)
        self.assertIn("the evaluator has no result for the final checkpoint", alone.log())
        s = self.summary()
        self.assertEqual((s["status"], s["evaluator"]), ("done", {"cut": None, "step": None, "final": False}))
        self.assertEqual(s["eval"], {"loss": None, "accuracy": None})

    def test_what_cannot_be_with_it_is_refused(self):
        job = self.train("--evaluator", keys={"training.monitor": "loss"}, code=2)
        self.assertIn("--set training.monitor: it needs the chief's evaluation", job.stderr())
        again = Process(self, [WORKER, "--job_name=evaluator", "--ps_hosts=127.0.0.1:1", "--task_index=1", f"--job={self.JOB}"],
                        "second")
        again.wait(2)
        self.assertIn("the evaluator's task index is 1; allowed: 0", again.log())

    def lone(self, keys):
        """The last line of an evaluator whose ps is not there."""
        return Process(self, [WORKER, "--job_name=evaluator", "--ps_hosts=127.0.0.1:1", f"--job={self.JOB}",
                              f"--output={self.out}", *self.sets({**KEYS, **keys})], "lone").wait(1).last_line()

    def test_one_that_sees_no_checkpoint_says_what_it_wants(self):
        self.assertIn("no checkpoint after 1 s (timeouts.start_s): the evaluator needs the chief's output directory",
                      self.lone({"timeouts.start_s": 1}))

    def test_one_whose_chief_fails_ends_with_its_reason(self):
        ports = free_ports(2)
        flags = [f"--ps_hosts=127.0.0.1:{ports[0]}", f"--worker_hosts=127.0.0.1:{ports[1]}", f"--job={self.JOB}",
                 f"--output={self.out}", "--evaluators=1", *self.sets(KEYS)]

        def evaluator(name):
            p = Process(self, [WORKER, "--job_name=evaluator", *flags], name)
            p.until_said("evaluating the checkpoints")
            return p
        (self.out / "history.jsonl").mkdir(parents=True)  # the chief finds it before it has connected
        p, ps = evaluator("early"), Process(self, [PS, "--job_name=ps", *flags[:4], *self.sets(KEYS)], "ps")
        Process(self, [WORKER, "--job_name=worker", *flags], "fails").wait(1)
        ps.wait(1)
        self.assertRegex(p.wait(1).last_line(), "the chief ended the job: .*history.jsonl")
        self.assertEqual((self.summary()["status"], self.summary()["exit_code"]), ("failed", 1))

        (self.out / "history.jsonl").rmdir()
        p = evaluator("late")  # and does not take the last run's failure for the next one's
        Process(self, [WORKER, "--job_name=worker", *flags, "--set=timeouts.start_s=1"], "waits").wait(1)
        self.assertIn("the chief ended the job: ps 0 was not available for 1 s (timeouts.start_s)", p.wait(1).last_line())

    def test_one_whose_ps_stays_away_says_why(self):
        self.train(keys={**KEYS, "training.epochs": 1})
        self.assertIn("ps 0 at 127.0.0.1:1 was not available for 1 s (timeouts.ps_rejoin_s): Connection refused; the last "
                      "checkpoint is not the final one", self.lone({"timeouts.ps_rejoin_s": 1}))


class EventsTest(TrainCase):
    def interrupted(self):
        """A job that was ended by SIGTERM and went on."""
        job = self.launch(keys={**KEYS, "training.epochs": 30})
        job.until_cut(3)
        job.signal(signal.SIGTERM)
        job.wait(143)
        (self.out / "logs/events.out.tfevents.0").write_bytes(b"")
        return self.train(keys={**KEYS, "training.epochs": 4 + job.summary()["epochs"]}).summary()

    def test_a_reader_finds_what_the_summary_says(self):
        s = self.interrupted()
        steps = s["steps"] // s["epochs"]
        train, evaluation, session = (Run(self.out / "logs" / run) for run in ("train", "eval", ""))
        ends = [steps * epoch for epoch in range(1, s["epochs"] + 1)]
        self.assertEqual(len(train.files), 2)
        self.assertEqual((train.twice, evaluation.twice), ([], []))
        self.assertEqual(sorted(evaluation.scalars["epoch_loss"]), ends)
        self.assertLessEqual(set(ends[-4:]), set(train.scalars["epoch_loss"]))
        for run, part in ((train, "train"), (evaluation, "eval")):
            for name, value in s[part].items():
                self.assertAlmostEqual(run.scalars[f"epoch_{name}"][s["steps"]], value, places=5)
        self.assertAlmostEqual(train.scalars["epoch_learning_rate"][s["steps"]], s["learning_rate"], places=9)
        self.assertGreater(train.scalars["epoch_examples_per_second"][s["steps"]], 0)
        kernel = train.histograms["dense/kernel"][s["steps"]]
        self.assertEqual((kernel["num"], sum(kernel["counts"])), (784 * 128, 784 * 128))
        self.assertEqual(kernel["limits"][-1], kernel["max"])
        gradient = train.histograms["dense/kernel_grad"][s["steps"]]
        self.assertEqual(gradient["num"], 784 * 128)
        self.assertTrue(gradient["min"] < 0 < gradient["max"], gradient)
        self.assertIn("name: mnist-mlp", train.texts["job"])
        self.assertEqual(set(session.plugins["hparams"]),
                         {f"_hparams_/{tag}" for tag in ("experiment", "session_start_info", "session_end_info")})
        self.assertEqual((hyperparameters(session)["epochs"], len(session.files)), (s["epochs"], 2))
        self.assertTrue((self.out / "logs/events.out.tfevents.0").exists())  # it is not ours

    def test_a_disk_that_takes_nothing_ends_nothing(self):
        self.out.mkdir()
        (self.out / "logs").write_text("no folder")
        job = self.train(keys={"training.epochs": 2})
        self.assertEqual(job.log("worker-0").count("TensorBoard's files are incomplete"), 1)
        self.assertTrue(job.summary()["digest"])
        self.train("--fresh", keys={"logs.tensorboard": "false"})
        self.assertFalse((self.out / "logs").exists())

    def test_tensorboard_reads_them(self):
        python = tensorboard_python()
        s = self.interrupted()
        reader = pathlib.Path(__file__).resolve().parents[1] / "lib/tensorboard_reader.py"
        got = json.loads(subprocess.run([python, reader, self.out], capture_output=True, text=True, check=True).stdout)
        self.assertEqual(set(got["runs"]), {"logs", "logs/train", "logs/eval"})
        for run in ("train", "eval"):
            points = got["runs"][f"logs/{run}"]["epoch_loss"]
            self.assertAlmostEqual(dict(points)[s["steps"]], s[run]["loss"], places=5)
            self.assertEqual(len(points), len(dict(points)))
        self.assertEqual({tag: got["plugins"][tag] for tag in ("epoch_loss", "dense/kernel", "dense/kernel_grad", "job")},
                         {"epoch_loss": "scalars", "dense/kernel": "histograms", "dense/kernel_grad": "histograms", "job": "text"})
        for tag in ("dense/kernel", "dense/kernel_grad"):
            rows = dict(got["histograms"][tag])[s["steps"]]
            self.assertEqual(sum(row[2] for row in rows), 784 * 128)
            self.assertTrue(rows[0][0] < 0 < rows[-1][1], rows)
        self.assertIn("name: mnist-mlp", got["texts"]["job"])
        self.assertEqual([got["hparams"][key] for key in ("optimizer", "learning_rate", "epochs")], ["adam", 0.001, s["epochs"]])


if __name__ == "__main__":
    unittest.main()
