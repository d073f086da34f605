#!/usr/bin/env python3
"""The main job on real input: MNIST, in the accuracy that Keras reaches with the same model, in little time and memory.

GRADWIRE_LONG=1: every mode, and async with more seeds (four minutes on two cores)."""
import gzip
import os
import pathlib
import statistics
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import SANITIZED, TrainCase  # noqa: E402

DATA = os.environ.get("GRADWIRE_DATA")
MNIST = pathlib.Path(DATA or "/nonexistent") / "mnist"
MIB = 1 << 20
LEAST = 0.974  # of modes that are not exact
LEAST_GEO = 0.97  # its rounds are averaged: as sync with n times the batch, which has 0.9765 with 4 workers, by 0.002 less
LONG = bool(os.environ.get("GRADWIRE_LONG"))


@unittest.skipUnless(DATA, "GRADWIRE_DATA is not set: it names the folder with mnist/train-*.gz and t10k-*.gz")
@unittest.skipIf(SANITIZED, "of the release build")
class MnistTest(TrainCase):
    KEYS = {"data.format": "idx", "data.train": MNIST / "train-*.gz", "data.eval": MNIST / "t10k-*.gz"}

    def trained(self, workers, **keys):
        s = self.train("--ps=2", "--workers", workers, out=self.tmp / "-".join(map(str, keys.values())),
                       keys={k if "." in k else f"training.{k}": v for k, v in keys.items()}).summary()
        accuracy = s["eval"]["accuracy"]
        print(f"{keys}: accuracy {accuracy}, {s['examples_per_s']:.0f} examples/s, first step {s['first_step_s']:.2f} s,"
              f" memory {s['peak_rss_bytes']}", file=sys.stderr)
        self.assertEqual(s["epochs"], 10)
        return s

    def typical(self, workers, least=LEAST, **keys):
        """The summary of a run, and its accuracy: the order of arrival makes a point or two of a thousand, so that of a run
        below what is wanted the median of three decides."""
        s = self.trained(workers, **keys)
        accuracy = [s["eval"]["accuracy"]]
        if accuracy[0] < least:
            accuracy += [self.trained(workers, **{**keys, "seed": keys.get("seed", 1) + more})["eval"]["accuracy"] for more in (1, 2)]
        return s, statistics.median(accuracy)

    def learned(self, least, s, accuracy):
        self.assertGreaterEqual(accuracy, least)
        self.assertLess(s["first_step_s"], 20)  # on a quiet machine 2 s are plenty: printed above
        train, evaluation = (sum(len(gzip.open(p).read()) for p in MNIST.glob(f"{part}-*.gz"))
                             for part in ("train", "t10k"))
        data = {"ps 0": 0, "ps 1": 0, "worker 0": train + evaluation, "worker 1": train}
        for name, peak in s["peak_rss_bytes"].items():
            self.assertLessEqual(peak - data[name], 64 * MIB, name)

    def test_sync_reaches_0_976_with_seeds_1_2_and_3(self):
        for seed in (1, 2, 3):
            with self.subTest(seed=seed):
                s = self.trained(2, seed=seed)
                self.learned(0.976, s, s["eval"]["accuracy"])

    def test_async_reaches_0_974(self):
        for seed in (1, 2, 3) if LONG else (1,):
            with self.subTest(seed=seed):
                self.learned(LEAST, *self.typical(2, seed=seed, update="async"))

    def test_every_mode_learns_with_four_workers_at_the_job_s_own_rate(self):
        modes = ({"update": "geo"}, {"update": "sync", "microbatches": 4, "sync.replicas_to_aggregate": 3},
                 {"update": "sync"}, {"update": "async"}, {"update": "async", "delay_compensation": 0.04},
                 {"update": "async", "staleness_rate": "true"}, {"update": "ssp", "staleness": 0},
                 {"update": "ssp", "staleness": 2}, {"update": "ssp"}, {"update": "ssp", "staleness": 8})
        for mode in modes if LONG else modes[:2]:
            with self.subTest(mode):
                least = LEAST_GEO if mode["update"] == "geo" else LEAST
                self.assertGreaterEqual(self.typical(4, least, **mode)[1], least)


if __name__ == "__main__":
    unittest.main()
