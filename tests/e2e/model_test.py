#!/usr/bin/env python3
"""Models as graphs, with statistics, penalties and metrics that are no means: from the job file to the summary."""
import json
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import SANITIZED, SHORT, TrainCase  # noqa: E402

RESIDUAL = {
    "model.layers": "[flatten, dense: {units: 24, use_bias: false, kernel_initializer: he_normal}, batch_normalization, "
                    "activation: {activation: relu, name: trunk}, "
                    "dense: {units: 24, activation: gelu, kernel_regularizer: {l2: 0.001}}, "
                    "dense: {units: 24, name: branch}, batch_normalization, add: [trunk, batch_normalization_1], "
                    "layer_normalization, leaky_relu, dropout: 0.1, dense: 10]",
    "training.class_weight": "{3: 2, 7: 0.5}", "training.microbatches": 4}


class ModelTest(TrainCase):
    def test_a_residual_batch_norm_model_has_one_digest_for_every_split(self):
        want = self.digest("--ps=1", "--workers=1", keys=RESIDUAL, out=self.tmp / "one")
        splits = ((2, 2, 1), (1, 3, 2), (3, 4, 1))
        for ps, workers, threads in splits[:2] if SHORT or SANITIZED else splits:
            with self.subTest(ps=ps, workers=workers, threads=threads):
                got = self.digest("--ps", ps, "--workers", workers, keys={**RESIDUAL, "worker.threads": threads},
                                  out=self.tmp / f"{ps}-{workers}-{threads}")
                self.assertEqual(got, want)

    def test_the_exported_model_has_moving_statistics(self):
        out = self.tmp / "statistics"
        self.digest("--ps=2", "--workers=1", keys=RESIDUAL, out=out)
        raw = (out / "model" / "weights.safetensors").read_bytes()
        size = int.from_bytes(raw[:8], "little")
        head = json.loads(raw[8:8 + size])
        start, end = head["batch_normalization/moving_variance"]["data_offsets"]
        self.assertEqual(end - start, 24 * 4)
        self.assertNotEqual(raw[8 + size + start:8 + size + end], bytes.fromhex("0000803f") * 24)
        self.assertIn("batch_normalization_1/moving_mean", head)

    def table(self, rows, ids):
        """Rows `number,id,label`: the label is mostly number > 0."""
        made, path = random.Random(1), self.tmp / f"{rows}-{ids}.csv"
        with open(path, "w") as f:
            for _ in range(rows):
                x = made.uniform(-1, 1)
                f.write(f"{x:.4f},{made.randrange(ids)},{int(x + made.gauss(0, 0.3) > 0)}\n")
        return path

    def keys(self, path, layers):
        return {"data.format": "csv", "data.train": path, "data.eval": path,
                "data.columns": "[number, number, label]", "data.scale": 1, "model.input.shape": "[2]",
                "model.layers": layers, "model.loss": "binary_crossentropy", "training.batch_size": 64}

    def test_auc_is_of_evaluations_and_precision_and_recall_of_sums(self):
        keys = self.keys(self.table(2000, 4), "[dense: {units: 8, activation: elu}, dense: {units: 1, activation: sigmoid}]")
        keys["model.metrics"] = "[auc, precision, recall, logloss, mse, accuracy, normalized_entropy, calibration]"
        keys["training.epochs"] = 8
        results = []
        for workers in (1, 2):
            s = self.launch("--ps=1", "--workers", workers, keys=keys, out=self.tmp / f"auc{workers}").wait().summary()
            self.assertIsNone(s["train"]["auc"])
            self.assertGreater(s["eval"]["auc"], 0.85)
            self.assertGreater(s["eval"]["auc"], s["eval"]["accuracy"])
            for part in ("train", "eval"):
                for name in ("precision", "recall", "accuracy"):
                    self.assertTrue(0.5 < s[part][name] <= 1, (part, name, s[part]))
            self.assertAlmostEqual(s["eval"]["logloss"], s["eval"]["loss"], places=6)
            for part in ("train", "eval"): # the rate of labels is about a half, whose entropy is log 2
                self.assertAlmostEqual(s[part]["normalized_entropy"], s[part]["logloss"] / 0.6931, delta=0.03)
                self.assertAlmostEqual(s[part]["calibration"], 1, delta=0.2)
            results.append((s["digest"], s["eval"]))
        self.assertEqual(*results)

    def test_weighted_rows_and_numbers_in_buckets_have_one_digest_for_every_split(self):
        made, path = random.Random(2), self.tmp / "weighted.tsv"
        weights = [made.choice((0, 1, 2.5)) for _ in range(2000)]
        path.write_text("".join(f"{int(made.expovariate(0.01))}\t{made.randrange(2)}\t{w}\n" for w in weights))
        keys = self.keys(path, "[dense: {units: 1, activation: sigmoid}]")
        keys.update({"data.delimiter": "tab", "model.input.shape": "auto", "model.metrics": "[logloss, auc]",
                     "data.columns": "[number: {buckets: {quantiles: 8}}, label, weight]"})
        seen = []
        for workers in (1, 2):
            s = self.launch("--ps=1", "--workers", workers, keys=keys, out=self.tmp / f"w{workers}").wait().summary()
            self.assertAlmostEqual(s["eval"]["loss"] * len(weights), s["eval"]["logloss"] * sum(weights), delta=0.01)
            seen.append((s["digest"], s["eval"]))
        self.assertEqual(*seen)

    def test_an_id_that_is_not_in_the_table_ends_the_job_with_2(self):
        layers = ("[embedding: {input_dim: 4, output_dim: 3}, flatten, dense: {units: 1, activation: sigmoid}]")
        path = self.tmp / "ids.csv"
        path.write_text("".join(f"{i % 4},{i % 3},{i % 2}\n" for i in range(200)))
        s = self.launch("--ps=1", "--workers=1", keys=self.keys(path, layers), out=self.tmp / "good").wait().summary()
        self.assertEqual(s["exit_code"], 0)
        path.write_text("".join(f"{i % 4},{i % 5},{i % 2}\n" for i in range(200)))
        job = self.launch("--ps=1", "--workers=1", keys=self.keys(path, layers), out=self.tmp / "bad").wait(2)
        self.assertIn("ids.csv:5: column 2: 4 is not an id: the embedding that reads it has rows 0 to 3", job.logs())


if __name__ == "__main__":
    unittest.main()
