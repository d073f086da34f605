#!/usr/bin/env python3
"""The steps before a job, as in its pod, on this host: k8s/preprocess turns raw CSV files into the files that a job trains on,
and the local-data component's container copies a claim."""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import facts  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402
from cluster import Case  # noqa: E402

JOB = """
name: shop
model:
  input: {shape: auto}
  layers: [{dense: {units: 1, activation: sigmoid}}]
  loss: binary_crossentropy
data:
  format: csv
  train: DATA/train-*.csv.gz
  eval: DATA/eval.csv.gz
  columns: [{number: {name: price, scale: standard}}, {category: kind}, {label: {name: bought, classes: [no, yes]}}]
optimizer: adam
training: {epochs: 1, batch_size: 8}
"""


@render.wanted
class PreprocessTest(Case):
    def rendered(self, folder):
        return render.kustomize(facts.ROOT / "k8s" / folder)

    def here(self, container):
        """Its command and environment; the folders of its pod are below self.tmp."""
        folders = {mount["mountPath"]: str(self.tmp / mount["mountPath"].strip("/")) for mount in container["volumeMounts"]}
        for folder in folders.values():
            os.makedirs(folder, exist_ok=True)

        def local(text):
            top = next((path for path in folders if text == path or text.startswith(path + "/")), None)
            return folders[top] + text[len(top):] if top else text
        env = {key: local(value) for key, value in facts.container_env(container, 0).items()}
        return [local(word) for word in container["command"]], facts.environment(**env)

    def preprocess(self, code=0):
        docs = self.rendered("preprocess")
        command, env = self.here(next(doc for doc in docs if doc["kind"] == "Job")["spec"]["template"]["spec"]["containers"][0])
        for doc in docs:
            if doc["kind"] == "ConfigMap" and doc["metadata"]["name"] == "gradwire-preprocess":
                (self.tmp / "scripts/split.sh").write_text(doc["data"]["split.sh"])
        got = subprocess.run(command, env=env, capture_output=True, text=True)
        self.assertEqual(got.returncode, code, got.stderr)
        return got.stdout + got.stderr

    def rows(self, pattern):
        return [row for path in sorted((self.tmp / "data").glob(pattern))
                for row in gzip.decompress(path.read_bytes()).decode().splitlines()]

    def test_raw_files_become_what_a_job_trains_on(self):
        raw = self.tmp / "data/raw"
        raw.mkdir(parents=True)
        rows = [f"{i}.5,{'abc'[i % 3]},{'yes' if i % 2 else 'no'}" for i in range(205)]
        head = "price,kind,bought\n"
        (raw / "a.csv").write_text(head + "\n".join(rows[:100]) + "\n\n  \n")
        (raw / "b.csv.gz").write_bytes(gzip.compress((head + "\n".join(rows[100:]) + "\n").encode()))
        for _ in range(2):  # the second one replaces what the first one made
            self.assertIn("205 rows: 185 to train on, 20 to evaluate on", self.preprocess())
            self.assertEqual(sorted(self.rows("train-*.csv.gz") + self.rows("eval.csv.gz")), sorted(rows))
            self.assertEqual(self.rows("eval.csv.gz"), rows[9::10])
            (self.tmp / "data/train-99.csv.gz").write_bytes(b"of an earlier one, with more parts")
        (self.tmp / "data/train-99.csv.gz").unlink()
        (self.tmp / "job.yaml").write_text(JOB.replace("DATA", str(self.tmp / "data")))
        got = subprocess.run([facts.ENTRYPOINT, f"--job={self.tmp}/job.yaml", f"--output={self.out}"],
                             env=facts.environment(), capture_output=True, text=True)
        self.assertEqual(got.returncode, 0, got.stderr)
        summary = json.loads((self.out / "summary.json").read_text())
        self.assertEqual((summary["status"], summary["steps"]), ("done", 185 // 8 + 1))

    def test_without_rows_or_with_half_a_file_it_fails_and_what_is_there_stays(self):
        (self.tmp / "data/raw").mkdir(parents=True)
        (self.tmp / "data/train-0.csv.gz").write_bytes(b"mine")
        self.assertIn("too few rows in", self.preprocess(code=1))
        (self.tmp / "data/raw/a.csv").write_text("x\n" + "1\n" * 100)
        (self.tmp / "data/raw/b.csv.gz").write_bytes(gzip.compress(b"x\n" + b"1\n" * 100)[:-9])
        self.assertIn("unexpected end of file", self.preprocess(code=1))
        self.assertEqual((self.tmp / "data/train-0.csv.gz").read_bytes(), b"mine")

    def test_a_claim_is_copied_to_the_node(self):
        (self.tmp / "claim/raw").mkdir(parents=True)
        (self.tmp / "claim/raw/a.csv").write_text("1,a,yes\n")
        copied = []
        for pod in rules.pods(self.rendered("tfjob/overlays/local-data")):
            for container in pod.spec.get("initContainers", []):
                command, env = self.here(container)
                subprocess.run(command, env=env, check=True)
                self.assertEqual((self.tmp / "data/raw/a.csv").read_text(), "1,a,yes\n")
                reader, = pod.spec["containers"]
                self.assertIn({"name": "data", "mountPath": "/data", "readOnly": True}, reader["volumeMounts"])
                shutil.rmtree(self.tmp / "data")
                copied.append(pod.where.split(": ")[1])
        self.assertEqual(sorted(copied), ["Chief", "Worker"])  # a ps reads no data


if __name__ == "__main__":
    unittest.main()
