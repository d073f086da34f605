#!/usr/bin/env python3
"""model/manifest.json: what made a model and what it is, the same bytes each time, and there only while the model is
complete."""
import hashlib
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import TrainCase, notes  # noqa: E402
from tables_best_test import JOB as WIDE_DEEP  # noqa: E402


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class ManifestTest(TrainCase):
    def manifest(self, out=None, folder="model"):
        return json.loads(((out or self.out) / folder / "manifest.json").read_text())

    def files(self, folder):
        """Those that a manifest counts: all but itself."""
        return {str(p.relative_to(folder)): {"bytes": p.stat().st_size, "sha256": sha256(p)}
                for p in folder.rglob("*") if p.is_file() and p.name != "manifest.json"}

    def test_it_says_what_made_the_model_and_has_the_digests_of_its_files(self):
        summary = self.train(keys={"training.epochs": 2}).summary()
        m = self.manifest()
        self.assertEqual((m["format"], m["job"], m["run"], m["step"], m["epoch"]),
                         (1, "mnist-mlp", None, summary["steps"], 2))
        last = json.loads((self.out / "history.jsonl").read_text().splitlines()[-1])
        self.assertEqual((m["digest"], m["eval"], m["train"]), (summary["digest"], last["eval"], last["train"]))
        self.assertEqual((m["data"]["rows"], m["data"]["eval_rows"]), (2000, 100))
        self.assertNotEqual(m["data"]["fingerprint"], m["data"]["eval_fingerprint"])
        self.assertEqual(m["files"], self.files(self.out / "model"))
        self.assertIsNone(m["encoding"])
        self.assertEqual(m["model"]["input"], [28, 28])
        self.assertEqual([(i["layer"], i["shape"]) for i in m["model"]["layers"]],
                         [("flatten", [784]), ("dense", [128]), ("dropout", [128]), ("dense", [10])])
        self.assertEqual(m["model"]["layers"][1]["inputs"], [{"layer": "flatten"}])
        self.assertEqual(m["model"]["layers"][1]["options"]["units"], 128)
        self.assertIn({"name": "dense/kernel", "shape": [784, 128]}, m["model"]["tensors"])

    def test_the_same_job_writes_the_same_bytes_by_any_number_of_processes_and_when_it_runs_again(self):
        keys = {"worker.threads": 1, "ps.threads": 1}  # in job.yaml; their defaults are shares of the cores
        self.train("--ps=1", "--workers=1", keys=keys)
        first = (self.out / "model/manifest.json").read_bytes()
        self.train("--ps=2", "--workers=3", keys=keys, out=self.tmp / "other")
        self.assertEqual((self.tmp / "other/model/manifest.json").read_bytes(), first)
        (self.out / "model/manifest.json").unlink()
        self.train(keys=keys)
        self.assertEqual((self.out / "model/manifest.json").read_bytes(), first)

    def test_a_table_and_the_best_epoch_have_their_own(self):
        job = self.tmp / "job.yaml"
        job.write_text(WIDE_DEEP)
        self.KEYS = {}
        self.train(job=job)
        best, model = self.manifest(folder="best"), self.manifest()
        said = notes(self.out / "best/weights.safetensors")
        self.assertEqual((str(best["epoch"]), str(best["step"]), best["digest"], str(best["eval"]["loss"])),
                         (said["epoch"], said["step"], said["digest"], str(float(said["loss"]))))
        self.assertEqual((model["eval"], model["epoch"], model["digest"]), (best["eval"], best["epoch"], best["digest"]))
        for folder, m in (("best", best), ("model", model)):
            self.assertEqual(m["files"], self.files(self.out / folder))
            self.assertIn("tables/wide.safetensors", m["files"])
        self.assertEqual([model["encoding"], best["encoding"]], 2 * [sha256(self.out / "model/encoding.json")])
        layers = {layer["name"]: layer for layer in model["model"]["layers"]}
        self.assertEqual((layers["e"]["table"], layers["e"]["shape"], layers["e"]["inputs"]), ("e", [12], []))
        self.assertEqual(model["model"]["input"], [])

    def test_a_model_that_is_written_in_part_has_none(self):
        self.train()
        job = self.out / "model/job.yaml"
        job.unlink()
        job.mkdir()  # so it cannot be written
        self.train(code=1, keys={"training.epochs": 2})
        self.assertFalse((self.out / "model/manifest.json").exists())
        job.rmdir()
        self.train(keys={"training.epochs": 2})
        self.assertEqual(self.manifest()["epoch"], 2)


if __name__ == "__main__":
    unittest.main()
