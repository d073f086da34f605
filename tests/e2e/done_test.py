#!/usr/bin/env python3
# labels: short
"""What is left of a job that is done, where something starts again whatever exits: ps and worker that stay (--when_done=wait)
hold nothing and serve the next chief; who is started again says that the job is done and does not train."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import PS, SANITIZED, WORKER, Process, TrainCase, free_ports  # noqa: E402
from watch import get, metrics, text  # noqa: E402

WAIT = "--when_done=wait"
JOB = """
name: rest
data: {format: synthetic, scale: 255, synthetic_train_rows: 10000, synthetic_eval_rows: 100}
model:
  input: {shape: [28, 28]}
  layers:
    - flatten
    - dense: {units: 1024, activation: relu}
    - dense: {units: 10}
  loss: {sparse_categorical_crossentropy: {from_logits: true}}
training: {epochs: 1, batch_size: 250, microbatches: 4}
optimizer: adam
"""


class DoneTest(TrainCase):
    def setUp(self):
        super().setUp()
        self.ports = free_ports(7)
        (self.tmp / "job.yaml").write_text(JOB)

    def start(self, role, index, *more, out=None, job=None):
        """The chief is worker 0; ps and worker 1 answer by HTTP."""
        ps, workers = self.ports[:2], self.ports[2:4]
        http = self.ports[4 + index] if role == "ps" else self.ports[6]
        flags = [f"--http_port={http}", "--http_address=127.0.0.1"] if (role, index) != ("worker", 0) else []
        p = Process(self, [PS if role == "ps" else WORKER, f"--job_name={role}", f"--task_index={index}",
                           "--ps_hosts=" + ",".join(f"127.0.0.1:{port}" for port in ps),
                           "--worker_hosts=" + ",".join(f"127.0.0.1:{port}" for port in workers),
                           f"--job={job or self.tmp / 'job.yaml'}", f"--output={out or self.out}", *flags, *more], f"{role}-{index}")
        p.at = f"127.0.0.1:{http}"
        return p

    def until_state(self, p, state):
        def so():
            self.assertIsNone(p.process.poll(), p.log())
            return json.loads(text(p.at, "/status") or "{}").get("state") == state
        self.until(lambda: f"it is {state}\n{p.log()}", so)

    def resident(self, p):
        return metrics(p.at)("process_resident_memory_bytes")

    def end(self, p, code):
        p.process.terminate()
        p.wait(code)

    def test_who_waits_holds_nothing_and_serves_the_next_chief(self):
        stay = [self.start("ps", 0, WAIT), self.start("ps", 1, WAIT), self.start("worker", 1, WAIT)]
        chief = self.start("worker", 0)
        for p in stay:
            self.until_state(p, "training")
        self.until("all parameters are there", lambda: (m := metrics(stay[0].at)) and m.get("gradwire_shard_updates_total"))
        full = [self.resident(p) for p in stay]
        chief.wait(0)
        for p in stay:
            self.until_state(p, "done")
            self.assertEqual(get(p.at, "/readyz"), (200, "ready\n"))
        self.assertEqual(metrics(stay[0].at).get("gradwire_shard_elements"), None)
        if not SANITIZED:  # which keep what is freed
            block = 4 * 784 * 1024  # bytes of the weights; a ps had half of two blocks and two slots, the worker all its rows
            for p, before, least in zip(stay, full, (block, block, 784 * 10000 / 2)):
                self.assertLess(self.resident(p), before - least, p.log())

        chief = self.start("worker", 0, "--set=training.epochs=2")
        chief.wait(0)
        self.assertEqual((self.summary()["epochs"], self.summary()["steps"]), (2, 80))
        self.assertEqual([w["worker"] for w in self.summary()["per_worker"] if w["tasks"]], [0, 1])
        for p in stay:
            self.until_state(p, "done")
            self.end(p, 0)
            self.assertIn("told to go: the job is done", p.log())

    def test_who_is_started_again_does_not_train_again(self):
        for p in [self.start("ps", 0), self.start("ps", 1), self.start("worker", 1), self.start("worker", 0)][::-1]:
            p.wait(0)
        digest = self.summary()["digest"]
        worker = self.start("worker", 1).wait(0)
        ps = self.start("ps", 0, "--set=timeouts.start_s=1").wait(0)
        stays = [self.start("ps", 0, WAIT), self.start("worker", 1, WAIT)]
        for p in stays:
            self.until_state(p, "done")
        self.start("worker", 0, "--set=timeouts.start_s=1").wait(0)  # the chief too
        for p in stays:
            self.end(p, 0)
        for p in [worker, ps, *stays]:
            self.assertIn("the job is done: cut", p.log())
            self.assertNotIn("generation", p.log())
        self.assertEqual(self.summary()["digest"], digest)

    def test_without_storage_and_chief_they_wait_on(self):
        stay = [self.start(role, 1, WAIT, "--set=timeouts.start_s=1", out=self.tmp / "own") for role in ("ps", "worker")]
        for p in stay:
            self.until_state(p, "idle")
            self.assertEqual(get(p.at, "/readyz"), (200, "ready\n"))
            self.end(p, 143)

    def test_a_ps_without_time_for_a_snapshot_does_not_begin_one(self):
        keys = ["--set=training.epochs=100000", "--set=timeouts.grace_s=20", "--set=ps.threads=1"]
        slow = self.start("ps", 0, "--fault=disk:300000", "--grace_s=2", *keys, job=self.JOB)  # half of 1.2 MB in 2 s
        fast, chief, _ = (self.start(role, i, *keys, job=self.JOB) for role, i in (("ps", 1), ("worker", 0), ("worker", 1)))
        slow.until_said("warn ps 0: a snapshot of its 0.6 MiB takes about 3 s (0.3 MiB/s, as the last one), and the grace "
                        "after SIGTERM is 2 s: on SIGTERM it will not begin one")
        cuts = self.out / "checkpoints"
        self.until("cut 0 is published", lambda: (cuts / "cut-0000000000/manifest.gw").exists())
        self.end(slow, 143)
        self.assertIn("told to go: a snapshot of its 0.6 MiB takes about 3 s", slow.last_line())  # so the pod says it
        self.assertIn("the last published checkpoint stands", slow.last_line())
        self.end(chief, 143)
        self.assertEqual([cut.name for cut in cuts.iterdir() if cut.is_dir()], ["cut-0000000000"])
        self.assertNotIn("a snapshot of", fast.log())

    def test_wrong_uses_are_refused(self):
        self.assertIn("with the chief the job ends", self.start("worker", 0, WAIT).wait(2).log())
        self.assertIn("only a ps takes it", self.start("worker", 1, "--grace_s=60").wait(2).log())
        self.assertIn("allowed: exit, wait", self.start("ps", 0, "--when_done=stay").wait(2).log())


if __name__ == "__main__":
    unittest.main()
