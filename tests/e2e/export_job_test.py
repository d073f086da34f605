#!/usr/bin/env python3
"""`export:` in the job file: the formats are there when the job ends, a model that a format cannot express is refused before
training, and an export that fails does not fail the job."""
import os
import pathlib
import shutil
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, ROOT, WORKER, Process, TrainCase  # noqa: E402
from watch import get, places  # noqa: E402

BOTH = {"export": "[onnx, safetensors]"}
CENSUS = {"data.synthetic_train_rows": 500, "data.synthetic_eval_rows": 100, "training.microbatches": None}


class ExportJobTest(TrainCase):
    def exports(self, out=None):
        return {e["format"]: (e["path"], e["error"]) for e in self.summary(out)["export"] or []}

    def modified(self, path):
        return (self.out / path).stat().st_ino

    def test_the_model_is_in_each_format_when_the_job_ends(self):
        (self.out / "export").mkdir(parents=True)
        (self.out / "export/model.onnx.tmp-00000000").write_text("of an exporter that was killed")
        job = self.train(keys=BOTH)
        self.assertEqual(self.exports(), {"onnx": ("export/model.onnx", None), "safetensors": ("export/safetensors", None)})
        self.assertEqual(sorted(os.listdir(self.out / "export")), ["model.onnx", "safetensors"])
        for name in ("weights.safetensors", "job.yaml", "manifest.json"):
            self.assertEqual((self.out / "export/safetensors" / name).read_bytes(), (self.out / "model" / name).read_bytes())
        self.assertIn(f"exported {self.out}/export/model.onnx", job.stderr())
        self.assertEqual(self.summary()["status"], "done")

    def test_what_a_job_writes_has_the_modes_that_the_umask_leaves(self):
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        for mask in 0o000, 0o027, 0o077:
            os.umask(mask)
            out = self.tmp / f"out-{mask:o}"
            self.train(keys={"export": "[onnx, safetensors, savedmodel, keras]"}, out=out)
            modes = {str(path.relative_to(out)): (path.is_dir(), path.stat().st_mode & 0o777) for path in out.rglob("*")
                     if path.is_dir() or path.is_file()}
            self.assertGreater(len(modes), 20)
            wrong = {name: oct(mode) for name, (folder, mode) in modes.items()
                     if mode != (0o777 if folder else 0o666) & ~mask}
            self.assertEqual(wrong, {}, oct(mask))

    def test_without_the_key_nothing_is_exported(self):
        self.train()
        self.assertIsNone(self.summary()["export"])
        self.assertFalse((self.out / "export").exists())

    def test_a_finished_job_exports_what_is_missing_and_a_job_that_trains_on_exports_again(self):
        self.train()
        self.train(keys=BOTH)
        first = (self.out / "export/model.onnx").read_bytes()
        self.assertEqual(self.exports()["onnx"], ("export/model.onnx", None))
        shutil.rmtree(self.out / "export")
        self.train(keys=BOTH)
        self.assertEqual((self.out / "export/model.onnx").read_bytes(), first)
        self.train(keys={**BOTH, "training.epochs": 2})
        self.assertNotEqual((self.out / "export/model.onnx").read_bytes(), first)
        self.assertEqual((self.out / "export/safetensors/manifest.json").read_bytes(),
                         (self.out / "model/manifest.json").read_bytes())

    def test_what_export_warns_of_is_a_warning_of_the_job(self):
        job = self.train(job=ROOT / "examples/adult/mlp.yaml", keys={**CENSUS, "export": "[savedmodel]", "data.columns.0.number.name": "class"})
        self.assertIn('export: savedmodel: tf.saved_model.load cannot load it: the input "class" has the name of a keyword', job.stderr())

    def test_a_model_that_a_format_cannot_express_is_refused_before_training(self):
        keys = {**CENSUS, "export": "[onnx]", "data.columns.0.number.name": "dense_1"}
        job = self.train(code=2, job=ROOT / "examples/adult/mlp.yaml", keys=keys)
        self.assertRegex(job.stderr(), r'--set export: onnx: the column "dense_1" and the last layer have the same name')
        self.assertEqual(job.cuts(), [])
        found = Process(self, [WORKER, "--doctor", f"--job={ROOT}/examples/adult/mlp.yaml",
                               *self.sets(keys)], "doctor").wait(2)
        self.assertRegex(found.log(), r'(?m)^FAIL export: --set export: onnx: the column "dense_1"')

    def test_an_export_that_fails_is_told_and_the_job_is_done(self):
        self.out.mkdir()
        (self.out / "export").write_text("a file, where the directory would be")
        job = self.train(keys=BOTH)
        summary = self.summary()
        self.assertEqual((summary["status"], summary["exit_code"]), ("done", 0))
        for path, error in self.exports().values():
            self.assertIsNone(path)
            self.assertIn("export", error)
        self.assertIn("the job is done: run it again to export again", job.stderr())
        (self.out / "export").unlink()
        self.train(keys=BOTH)
        self.assertEqual(self.exports()["onnx"], ("export/model.onnx", None))

    def programs(self, script):
        """A directory of programs with another gradwire-model."""
        folder = self.tmp / "bin"
        folder.mkdir()
        for name in ("ps", "worker"):
            shutil.copy(BUILD / name / name, folder / f"gradwire-{name}")
        if script:
            (folder / "gradwire-model").write_text(f"#!/bin/sh\n{script}\n")
            (folder / "gradwire-model").chmod(0o755)
        return f"--bin_dir={folder}"

    def test_an_export_that_hangs_is_given_up(self):
        self.train(self.programs("while :; do sleep 1; done"), keys={**BOTH, "timeouts.export_s": 1})
        self.assertEqual({error for _, error in self.exports().values()}, {"gradwire-model: it was not done after 1 s"})

    def test_an_export_that_crashes_is_an_error_of_its_own(self):
        self.train(self.programs("kill -SEGV $$"), keys=BOTH)
        for _, error in self.exports().values():
            self.assertIn("signal 11", error)

    def test_a_job_that_is_stopped_while_it_exports_is_interrupted_and_the_next_run_exports(self):
        for stop, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(stop):
                job = self.launch(self.programs(f"touch {self.tmp}/begun; while :; do sleep 1; done"), keys=BOTH)
                job.until("the export has begun", (self.tmp / "begun").exists)
                job.signal(stop)
                job.wait(code)
                s = self.summary()
                self.assertEqual(s["status"], "interrupted")
                self.assertIn("asked to stop while it exported: the next run exports again", s["error"])
                self.assertIn("gradwire-model: interrupted", {error for _, error in self.exports().values()})
                shutil.rmtree(self.tmp / "bin")
                (self.tmp / "begun").unlink()
        s = self.train(keys=BOTH).summary()
        self.assertEqual((s["status"], self.exports()["onnx"]), ("done", ("export/model.onnx", None)))

    def test_under_a_launcher_a_chief_that_is_stopped_while_it_exports_is_started_again(self):
        once = f"test -e {self.tmp}/begun && exec {BUILD}/model/model \"$@\"; touch {self.tmp}/begun; while :; do sleep 1; done"
        job = self.launch(self.programs(once), keys=BOTH)
        job.until("the export has begun", (self.tmp / "begun").exists)
        job.kill("worker-0", signal.SIGTERM)
        job.wait()
        self.assertEqual(self.exports()["onnx"], ("export/model.onnx", None))

    def test_the_chief_answers_over_http_while_an_export_runs(self):
        job = self.launch(self.programs(f"touch {self.tmp}/begun; while :; do sleep 1; done"), keys=BOTH)
        job.until("the export has begun", (self.tmp / "begun").exists)
        self.assertEqual(get(places(self.out)["worker-0"], "/healthz")[0], 200)
        job.signal(signal.SIGINT)
        job.process.wait(60)

    def test_a_job_with_export_needs_the_program(self):
        job = self.train(self.programs(None), code=2, keys=BOTH)
        self.assertIn("contains neither gradwire-model nor model/model", job.stderr())
        self.assertEqual(job.cuts(), [])


if __name__ == "__main__":
    unittest.main()
