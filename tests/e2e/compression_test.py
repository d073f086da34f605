#!/usr/bin/env python3
"""Compressed jobs: what is lossless changes nothing, what is not learns all the same, and a kill is no harm."""
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import TSAN, TrainCase, slow  # noqa: E402
from watch import metrics, places  # noqa: E402

KEYS = {"data.synthetic_train_rows": 2000 if TSAN else 10000, "data.synthetic_eval_rows": 1000, "training.epochs": 2, "checkpoint.every_steps": 20,
        "checkpoint.every_seconds": 0,
        "timeouts.worker_rejoin_s": 100}  # with lossy pushes the result depends on which worker computed which leaves


class CompressionTest(TrainCase):
    def pushed(self, codec, **keys):
        out = self.tmp / f"{codec}-{len(keys)}"
        job = self.launch("--ps=2", "--workers=2", keys={**KEYS, "compression.push": codec, **keys}, out=out)
        return job.wait().summary()

    def bytes_out(self, summary):
        return sum(w["bytes_out"] for w in summary["per_worker"])

    def test_a_codec_of_pushes_is_smaller_and_learns_as_well(self):
        plain = self.pushed("none")
        self.assertTrue(plain["exact"])
        for codec, ratio in (("fp16", 0.52), ("bf16", 0.52), ("int8", 0.27), ("int8_zstd", 0.27), ("zstd", 0.97)):
            with self.subTest(codec):
                s = self.pushed(codec)
                self.assertLess(self.bytes_out(s), ratio * self.bytes_out(plain))
                self.assertGreater(s["eval"]["accuracy"], plain["eval"]["accuracy"] - 0.02)
                self.assertEqual(s["exact"], codec == "zstd")
                self.assertEqual(s["digest"] == plain["digest"], codec == "zstd")
                push = s["compression"]["push"]
                self.assertEqual(push["codec"], codec)
                self.assertLess(push["bytes"], ratio * push["raw_bytes"])
                self.assertGreater(push["encode_s"], 0)
                self.assertGreater(push["decode_s"], 0)
                self.assertEqual(push["error"] == 0, codec == "zstd")
                self.assertLess(push["error"], 0.1)

    def test_int8_rounds_the_same_way_each_time_and_for_any_split_with_the_same_nodes(self):
        first = self.pushed("int8")
        again = self.launch("--ps=1", "--workers=2", keys={**KEYS, "compression.push": "int8"},
                            out=self.tmp / "again").wait().summary()
        self.assertEqual(again["digest"], first["digest"])

    def test_whoever_is_killed_the_retry_sends_the_same(self):
        want = self.pushed("int8")
        job = self.launch("--ps=2", "--workers=2", *slow(0.005), keys={**KEYS, "compression.push": "int8"}, out=self.tmp / "kill")
        job.until_cut(1)
        job.kill("worker-1", signal.SIGKILL)
        s = job.wait().summary()
        self.assertEqual(s["digest"], want["digest"], job.logs())

    def test_replies_are_smaller_and_whoever_joins_or_dies_all_hold_the_same(self):
        """Replies that lose are a function of the weights alone: any split ends with the same digest."""
        plain = self.pushed("none")
        want = None
        for ps, workers, kill in ((1, 1, None), (2, 2, None), (2, 3, "worker-2")):
            with self.subTest(ps=ps, workers=workers, kill=kill):
                job = self.launch(f"--ps={ps}", f"--workers={workers}", *(slow(0.005, workers) if kill else ()),
                                  keys={**KEYS, "compression.reply": "int8"},
                                  out=self.tmp / f"reply-{ps}-{workers}")
                if kill:
                    job.until_cut(1)
                    job.kill(kill, signal.SIGKILL)
                s = job.wait().summary()
                want = want or s["digest"]
                self.assertEqual(s["digest"], want, job.logs())
                self.assertFalse(s["exact"])
                self.assertGreater(s["eval"]["accuracy"], plain["eval"]["accuracy"] - 0.02)
                if workers == 2:
                    self.assertLess(sum(w["bytes_in"] for w in s["per_worker"]),
                                    0.27 * sum(w["bytes_in"] for w in plain["per_worker"]))

    def test_lossless_replies_change_nothing(self):
        plain, packed = self.pushed("none"), self.pushed("zstd", **{"compression.reply": "zstd"})
        self.assertEqual(packed["digest"], plain["digest"])
        self.assertTrue(packed["exact"])

    def test_a_restored_job_goes_on_from_what_workers_held(self):
        job = self.launch("--ps=2", "--workers=2", *slow(0.005), out=self.tmp / "restore",
                          keys={**KEYS, "compression.push": "int8", "compression.reply": "int8"})
        job.until_cut(1)
        job.kill("ps-1", signal.SIGKILL)
        s = job.wait().summary()
        self.assertEqual({s["batches"][k] for k in ("dealt", "applied_min", "applied_max")}, {s["steps"]})
        self.assertGreater(s["eval"]["accuracy"], 0.6)
        inexact = (False, "generation 1 trained from step 0 on with compression.push: int8")
        self.assertEqual((s["exact"], s["inexact"]), inexact)
        s = self.train(out=job.out, keys={**KEYS, "training.epochs": 3}).summary()  # the weights of epoch 2 are rounded ones
        self.assertEqual((s["epochs"], s["exact"], s["inexact"]), (3, *inexact))

    def test_reads_of_ssp_are_smaller_and_the_evaluated_parameters_are_the_shards_own(self):
        keys = {"training.update": "ssp", "training.staleness": 2}
        plain = self.pushed("none", **keys)
        for codec, ratio in (("fp16", 0.55), ("zstd", 0.97)):
            with self.subTest(codec):
                job = self.launch("--ps=2", "--workers=2", out=self.tmp / f"ssp-{codec}",
                                  keys={**KEYS, **keys, "compression.reply": codec})
                s = job.wait().summary()
                self.assertEqual(s["batches"]["applied_min"], s["batches"]["dealt"])
                self.assertLess(sum(w["bytes_in"] for w in s["per_worker"]),
                                ratio * sum(w["bytes_in"] for w in plain["per_worker"]))
                self.assertGreater(s["eval"]["accuracy"], plain["eval"]["accuracy"] - 0.1)

    def test_differences_are_refused_where_each_worker_holds_something_else(self):
        job = self.launch("--ps=1", "--workers=1", keys={"training.update": "async", "compression.reply": "int8"},
                          out=self.tmp / "refused")
        self.assertIn("compression.reply", job.wait(2).stderr())

    SGD = {"optimizer": "sgd", "optimizer.sgd.momentum": 0.9, "training.learning_rate": 0.05}

    def test_top_k_learns_with_a_part_of_the_bytes(self):
        for update, accuracy in (("sync", 0.8), ("async", 0.5)):
            with self.subTest(update):
                job = self.launch("--ps=2", "--workers=2", out=self.tmp / f"top_k-{update}",
                                  keys={**KEYS, **self.SGD, "checkpoint.every_steps": 0, "training.update": update, "training.batch_size": 32,
                                        "compression.push": "top_k", "compression.push.top_k.ratio": 0.05})
                s = job.wait().summary()
                push = s["compression"]["push"]
                self.assertGreater(push["ratio"], 6 if TSAN else 9)  # of 10: what is left for a cut goes whole
                self.assertGreater(push["error"], 0)
                self.assertLess(push["error"], 1)
                self.assertEqual(push["residuals_lost"], 0)
                self.assertFalse(s["exact"])
                self.assertGreater(s["eval"]["accuracy"], 0.2 if TSAN else accuracy)

    def test_what_top_k_withheld_is_lost_with_its_worker_and_counted(self):
        job = self.launch("--ps=1", "--workers=2", "--evaluator", *slow(0.005), out=self.tmp / "lost",
                          keys={**KEYS, **self.SGD, "compression.push": "top_k"})
        job.until_cut(1)
        job.kill("evaluator-0", signal.SIGSTOP)  # the end waits for it
        job.kill("worker-1", signal.SIGKILL)
        chief = places(job.out)["worker-0"]
        job.until("the metric says it", lambda: (m := metrics(chief)) and m.get("gradwire_job_lost_residuals_total") == 1)
        job.kill("evaluator-0", signal.SIGCONT)
        s = job.wait().summary()
        self.assertEqual(s["compression"]["push"]["residuals_lost"], 1, job.logs())
        self.assertEqual(s["batches"]["applied_min"], s["batches"]["dealt"])

    def test_top_k_is_refused_where_parts_of_a_gradient_are_not_a_gradient(self):
        for keys, why in (({}, "adam divides"), ({**self.SGD, "training.update": "ssp"}, "training.update: ssp promises"),
                          ({**self.SGD, "training.update": "geo"}, "training.update: geo sends changes")):
            job = self.launch("--ps=1", "--workers=1", keys={"compression.push": "top_k", **keys}, out=self.tmp / "no")
            self.assertIn(why, job.wait(2).stderr())

    def test_a_gradient_that_is_not_finite_is_the_guards(self):
        for codec, keys, guard, counted in (("int8", {}, "skip", "rejected"), ("top_k", self.SGD, "rollback", "recoveries")):
            with self.subTest(codec=codec, guard=guard):
                job = self.launch("--ps=2", "--workers=2", "--fault=worker-1=nan:30", out=self.tmp / f"{codec}-{guard}",
                                  keys={**KEYS, **keys, "training.epochs": 1, "compression.push": codec,
                                        "training.nan_guard": guard})
                s = job.wait().summary()
                self.assertEqual(s["batches"][counted], 1)
                self.assertGreater(s["eval"]["accuracy"], 0.3)

    def test_auto_among_lossless_codecs_changes_nothing(self):
        plain, auto = self.pushed("none"), self.pushed("auto", **{"compression.reply": "auto"})
        self.assertEqual(auto["digest"], plain["digest"])
        self.assertTrue(auto["exact"])

    def test_async_takes_them_too(self):
        s = self.pushed("int8", **{"training.update": "async", "compression.reply": "fp16"})
        self.assertFalse(s["exact"])
        self.assertEqual(s["batches"]["applied_min"], s["batches"]["dealt"])


if __name__ == "__main__":
    unittest.main()
