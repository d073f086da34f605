#!/usr/bin/env python3
# labels: short
"""The properties of every mode of training.update: it trains to the end and ends by itself; a process that dies is replaced and
the counts are right; a job that was stopped resumes; if one worker makes the same updates as sync, the digest is the same."""
import json
import pathlib
import signal
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import SANITIZED, SHORT, TSAN, TrainCase, slow  # noqa: E402

ROWS, BATCH, EPOCHS = 8000 if SANITIZED else 16000, 64, 3
TOTAL = EPOCHS * (ROWS // BATCH)
LEAST_ACCURACY = 0.3 if SANITIZED else 0.5  # of ten classes; in half the steps geo's three workers may be below a half

# keys of training. and others; exact: each batch is applied once whoever dies; alone: one worker with one microbatch is
# sync
MODES = {
    "sync": {"keys": {"update": "sync"}, "exact": True, "alone": True},
    "async": {"keys": {"update": "async"}, "exact": True, "alone": True},
    "async-compensated": {"keys": {"update": "async", "delay_compensation": 0.04}, "exact": True, "alone": True},
    "async-by-staleness": {"keys": {"update": "async", "staleness_rate": "true"}, "exact": True, "alone": True},
    "ssp-0": {"keys": {"update": "ssp", "staleness": 0}, "exact": True, "alone": True},
    "geo": {"keys": {"update": "geo"}, "exact": False, "alone": False},
    "backup": {"keys": {"update": "sync", "microbatches": 4}, "others": {"sync.replicas_to_aggregate": 2},
               "exact": False, "alone": False},
    "ssp-2": {"keys": {"update": "ssp", "staleness": 2}, "exact": True, "alone": True},
    "ssp-8": {"keys": {"update": "ssp", "staleness": 8}, "exact": True, "alone": True},
    "backup-redo": {"keys": {"update": "sync", "microbatches": 4},
                    "others": {"sync.replicas_to_aggregate": 2, "sync.dropped": "redo"}, "exact": False, "alone": False},
}


class ModesTest(TrainCase):
    KEYS = {"data.synthetic_train_rows": ROWS, "data.synthetic_eval_rows": 500, "training.epochs": EPOCHS,
            "training.batch_size": BATCH, "checkpoint.every_steps": 50, "checkpoint.every_seconds": 0,
            "timeouts.worker_rejoin_s": 2}

    def keys(self, mode, **more):
        return {**{f"training.{k}": v for k, v in {**MODES[mode]["keys"], **more}.items()},
                **MODES[mode].get("others", {})}

    def each(self, *modes):
        for mode in modes or MODES:
            with self.subTest(mode):
                yield mode

    def assert_trained(self, job, mode):
        s = job.summary()
        b = s["batches"]
        redoes = MODES[mode].get("others", {}).get("sync.dropped") == "redo"  # in extra steps, as many as it takes
        total = s["steps"] if redoes else TOTAL
        self.assertEqual((s["status"], s["exit_code"], s["steps"], s["update"]),
                         ("done", 0, total, MODES[mode]["keys"]["update"]), job.logs())
        self.assertEqual((b["dealt"], b["applied_min"] + b["lost"], b["applied_max"] + b["lost"]), (total,) * 3, job.logs())
        if redoes:
            self.assertGreaterEqual(total, TOTAL)
            self.assertEqual(b["redone"], b["dropped"])
        if MODES[mode]["exact"]:
            self.assertEqual(b["lost"], 0)
        self.assertGreater(s["eval"]["accuracy"], LEAST_ACCURACY, job.logs())
        return s

    def disturbed(self, mode, *names, sig=signal.SIGKILL):
        job = self.launch("--ps=2", "--workers=3", *slow(0.002, 3), keys=self.keys(mode), out=self.tmp / "-".join((mode, *names)))
        job.until_cut(1)
        for name in names:
            job.kill(name, sig)
        job.wait()
        self.assertGreaterEqual(job.summary()["restarts"], len(names), job.logs())
        self.assert_trained(job, mode)

    def test_it_trains_to_the_end(self):
        for mode in self.each(*(("geo", "backup") if SANITIZED else ())):
            self.assert_trained(self.train("--ps=2", "--workers=3", keys=self.keys(mode), out=self.tmp / mode), mode)

    def test_it_outlives_the_death_of_a_worker(self):
        for mode in self.each(*(("ssp-2",) if SHORT or SANITIZED else ())):
            self.disturbed(mode, "worker-1")

    @unittest.skipIf(SHORT or SANITIZED, "the short run has the worker's death")
    def test_it_outlives_the_death_of_a_ps(self):
        for mode in self.each():
            self.disturbed(mode, "ps-1")

    @unittest.skipIf(SHORT or SANITIZED, "the short run has the worker's death")
    def test_it_outlives_the_death_of_the_chief(self):
        for mode in self.each():
            self.disturbed(mode, "worker-0")

    @unittest.skipIf(SHORT or SANITIZED, "the short run has the worker's death")
    def test_it_goes_on_without_a_worker_that_leaves(self):
        for mode in self.each():
            self.disturbed(mode, "worker-2", sig=signal.SIGTERM)

    def test_the_statistics_of_a_late_worker_leave_variances_above_0_in_geo(self):
        layers = "[flatten: , dense: {units: 16, activation: relu}, batch_normalization: {momentum: 0.9}, dense: 10]"
        keys = {"model.layers": layers, "training.update": "geo", "data.synthetic_train_rows": 4000,
                "data.synthetic_eval_rows": 500, "training.batch_size": 32, "checkpoint.every_steps": 50}
        s = self.train("--workers=2", "--fault=worker-1=sleep:0.01", keys=keys).summary()
        self.assertGreater(s["eval"]["accuracy"], LEAST_ACCURACY)
        weights = (self.out / "model" / "weights.safetensors").read_bytes()
        size = int.from_bytes(weights[:8], "little")
        start, end = json.loads(weights[8:8 + size])["batch_normalization/moving_variance"]["data_offsets"]
        for (variance,) in struct.iter_unpack("<f", weights[8 + size + start:8 + size + end]):
            self.assertGreater(variance, 0)

    def test_geo_goes_on_by_the_merge_that_it_began_with(self):
        keys = {"training.update": "geo", "data.synthetic_train_rows": 2000, "data.synthetic_eval_rows": 100}
        one = {"training.epochs": 1, "training.geo_merge": "paddle"}
        self.train("--workers=2", keys={**keys, **one})
        going_on = self.train("--workers=2", keys={**keys, "training.epochs": 2})
        self.assertIn("rounds merge by training.geo_merge: paddle", going_on.logs())
        self.assertRegex(self.train("--workers=2", code=2, keys={**keys, "training.epochs": 4, "training.geo_merge": "average"}).stderr(),
                         "training.geo_merge was paddle, is average")

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_it_goes_on_from_where_it_was_stopped_with_other_numbers_of_ps_and_workers(self):
        for mode in self.each(*(("ssp-2",) if SHORT or SANITIZED else ())):
            out = self.tmp / f"{mode}-stopped"
            job = self.launch("--ps=2", "--workers=3", *slow(0.002, 3), keys=self.keys(mode), out=out)
            job.until_cut(1)
            job.signal(signal.SIGTERM)
            s = job.wait(143).summary()
            self.assertEqual(s["batches"]["applied_min"], s["batches"]["applied_max"], job.logs())
            self.assertLess(s["steps"], TOTAL)
            self.assert_trained(self.train("--ps=1", "--workers=2", keys=self.keys(mode), out=out), mode)

    @unittest.skipIf(SANITIZED, "slow, and has no other threads than the rest")
    def test_one_worker_with_one_microbatch_has_the_digest_of_sync(self):
        alone = {"microbatches": 1}
        want = self.digest("--ps=1", "--workers=1", keys=self.keys("sync", **alone), out=self.tmp / "alone-sync")
        for mode in self.each(*(mode for mode in MODES if MODES[mode]["alone"] and mode != "sync")):
            got = self.digest("--ps=2", "--workers=1", keys=self.keys(mode, **alone), out=self.tmp / f"alone-{mode}")
            self.assertEqual(got, want)


if __name__ == "__main__":
    unittest.main()
