#!/usr/bin/env python3
"""Convolutions on real digits, in the accuracy that Keras reaches with the same models; and the same bits for every split.

GRADWIRE_LONG=1 trains for as many epochs as the examples do (a quarter of an hour on two busy cores)."""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import ROOT, SANITIZED, SHORT, TrainCase  # noqa: E402

DATA = os.environ.get("GRADWIRE_DATA")
MNIST = pathlib.Path(DATA or "/nonexistent") / "mnist"
LONG = bool(os.environ.get("GRADWIRE_LONG"))
CNN, CONVNET = ROOT / "examples/mnist/cnn.yaml", ROOT / "examples/mnist/convnet.yaml"


class SplitTest(TrainCase):
    KEYS = {"data.synthetic_train_rows": 200 if SANITIZED else 1000, "data.synthetic_eval_rows": 50, "training.epochs": 1,
            "training.batch_size": 50, "training.microbatches": 4}

    def test_every_split_learns_the_same_bits(self):
        for job in (CNN,) if SHORT else (CNN, CONVNET):
            with self.subTest(job=job.name):
                digests = {self.digest(f"--ps={ps}", f"--workers={workers}", job=job,
                                       out=self.tmp / f"{job.stem}-{ps}-{workers}-{threads}",
                                       keys={"worker.threads": threads})
                           for ps, workers, threads in ((1, 1, 1), (1, 1, 3), (2, 2, 1), (3, 4, 2))}
                self.assertEqual(len(digests), 1, digests)


@unittest.skipUnless(DATA, "GRADWIRE_DATA is not set: it names the folder with mnist/train-*.gz and t10k-*.gz")
@unittest.skipIf(SANITIZED, "of the release build")
class MnistTest(TrainCase):
    KEYS = {"data.format": "idx", "data.train": MNIST / "train-*.gz", "data.eval": MNIST / "t10k-*.gz"}

    def learned(self, job, least, epochs):
        launched = self.launch("--ps=2", "--workers=2", job=job, out=self.tmp / job.stem,
                               keys={"training.epochs": epochs})
        self.assertEqual(launched.process.wait(1500 if LONG else 400), 0, launched.logs())
        s = launched.summary()
        print(f"{job.name}, {epochs} epochs: accuracy {s['eval']['accuracy']}, {s['examples_per_s']:.0f} examples/s",
              file=sys.stderr)
        self.assertGreaterEqual(s["eval"]["accuracy"], least)

    def test_cnn(self):
        self.learned(CNN, *(0.983, 10) if LONG else (0.965, 1))

    def test_convnet(self):
        self.learned(CONVNET, *(0.989, 12) if LONG else (0.965, 1))


if __name__ == "__main__":
    unittest.main()
