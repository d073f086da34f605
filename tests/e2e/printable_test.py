#!/usr/bin/env python3
"""Files, names and paths can have any bytes: each message that quotes them is text, in a terminal, a log and JSON."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, LAUNCH, MODEL, WORKER, TrainCase  # noqa: E402

HOSTILE = b"Gr\xf6\xdfe\x1b[2J\xe2\x82"  # Latin-1, an order to a terminal, and a character without its end
SHOWN = "Gr??e?[2J?"
JOB = """name: cafe
data: {format: csv, header: skip, train: "data/*.csv", eval: "data/*.csv", columns: [number: caf\u00e9, label: y]}
model: {input: {shape: auto}, layers: [{dense: {units: 1}}, sigmoid], loss: binary_crossentropy}
training: {batch_size: 4, epochs: 2, microbatches: 2}
optimizer: {sgd: {learning_rate: 0.1}}
"""


class PrintableTest(TrainCase):
    def setUp(self):
        super().setUp()
        self.place = os.fsencode(self.tmp)
        os.mkdir(self.at("data"))
        self.write("job.yaml", JOB.encode())
        self.rows(b"x,y\n" + b"1,0\n2,1\n" * 8)

    def at(self, *names):
        return os.path.join(self.place, *map(os.fsencode, names))

    def write(self, name, data):
        with open(self.at(name), "wb") as f:
            f.write(data)

    def rows(self, data):
        self.write(b"data/" + HOSTILE + b".csv", data)

    def read(self, *names):
        with open(self.at(*names), "rb") as f:
            return f.read()

    def text(self, data):
        """UTF-8 without a control character, other than the ends of lines."""
        text = data.decode()
        self.assertFalse([c for c in text if (c < " " and c != "\n") or "\x7f" <= c < "\xa0"], text)
        return text

    def call(self, program, *words, code=0, says=SHOWN):
        got = subprocess.run([program, *words], cwd=self.place, capture_output=True, timeout=DEADLINE_S)
        out, err = self.text(got.stdout), self.text(got.stderr)
        self.assertEqual(got.returncode, code, out + err)
        self.assertIn(says, out + err)
        return out, err

    def train(self, *words, code=0, says=SHOWN):
        return self.call(LAUNCH, "train", "job.yaml", "--ps=1", "--workers=1", b"--output=" + HOSTILE, *words, code=code, says=says)

    def test_an_error_that_quotes_any_bytes_is_in_the_summary_the_status_and_the_logs(self):
        self.rows(b"x,y\n1,0\n" + HOSTILE + b",1\n")
        value = SHOWN.replace("?[", "<U+001B>[")  # of a value, characters that cannot be seen are named
        said = f'{SHOWN}.csv:3: column "caf\u00e9": "{value}" is not a number'
        self.train(code=2, says=said)
        s = json.loads(self.read(HOSTILE, "summary.json"))
        self.assertEqual((s["status"], s["exit_code"]), ("failed", 2))
        self.assertIn(said, s["error"])
        self.call(LAUNCH, "status", HOSTILE, code=1, says=said)
        log = self.text(self.read(HOSTILE, "processes/worker-0.log"))
        self.assertIn(said, log)
        _, err = self.call(WORKER, "--job=job.yaml", "--output=alone", "--log_format=json", code=2)
        self.assertIn(said, [json.loads(line)["message"] for line in err.splitlines()][-1])

    def test_every_command_shows_names_and_paths_as_text(self):
        self.train()
        json.loads(self.read(HOSTILE, "summary.json"))
        for command, code in (("status", 3), ("stop", 0), ("old", 0)):
            self.call(LAUNCH, command, HOSTILE, code=code)
        self.call(LAUNCH, "logs", HOSTILE, HOSTILE, code=2)
        self.call(LAUNCH, HOSTILE, code=2)
        self.call(LAUNCH, "status", b"no-" + HOSTILE, code=2)
        self.call(MODEL, HOSTILE, code=2)
        self.call(MODEL, "evaluate", HOSTILE)
        self.call(MODEL, "compare", HOSTILE, HOSTILE)
        out, _ = self.call(MODEL, "compare", "--json", HOSTILE, HOSTILE)
        self.assertEqual(json.loads(out)["jobs"][0]["path"], SHOWN)
        self.call(MODEL, "predict", HOSTILE, b"no-" + HOSTILE, code=2)
        self.call(MODEL, "encode", HOSTILE, b"--output=" + HOSTILE + b".npz")
        self.call(MODEL, "export", HOSTILE, "--format=onnx")
        self.call(MODEL, "import", b"no-" + HOSTILE + b".onnx", "--output=imported", code=2)
        self.rows(b"x,y\n" + HOSTILE + b",1\n")
        self.call(WORKER, "--doctor", "--job=job.yaml", code=2)
        out, _ = self.call(WORKER, "--doctor", "--json", "--job=job.yaml", code=2)
        self.assertIn(SHOWN, " ".join(c["found"] for c in json.loads(out)["checks"]))
        self.train("--hosts=" + os.fsdecode(HOSTILE), code=2)
        self.train("--set=data.train=" + os.fsdecode(HOSTILE), code=2)


if __name__ == "__main__":
    unittest.main()
