#!/usr/bin/env python3
# runs with others
"""A job that is done, under a supervisor that restarts every process that exits: ps and workers that stay (--when_done=wait)
hold no memory and serve the next chief; a process that is restarted reports that the job is done and does not train."""
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, PS, SANITIZED, WORKER, Process, TrainCase, free_ports  # noqa: E402
import hostile_test as wire  # noqa: E402
from watch import get, metrics, text  # noqa: E402

WAIT = "--when_done=wait"
SLOW = "--fault=sleep:0.15"  # 40 steps that last while the others are looked at
KILLS = int(os.environ.get("GRADWIRE_KILLS", 0))  # of each sweep: the long form
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
# Each thread keeps some memory of its own: the bounds below are for these, not for one for each core.
ps: {threads: 2}
worker: {threads: 2}
"""


class ByHand(TrainCase):
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


class DoneTest(ByHand):
    def until_state(self, p, state):
        def so():
            self.assertIsNone(p.process.poll(), p.log())
            return json.loads(text(p.at, "/status") or "{}").get("state") == state
        self.until(lambda: f"it is {state}\n{p.log()}", so)

    def until_alone(self, p, seconds):
        """The chief is away for so long; or p has left before, and with 0."""
        def so():
            if p.process.poll() is not None:
                return not self.assertEqual(p.process.returncode, 0, p.log())
            return json.loads(text(p.at, "/status") or "{}").get("chief", {}).get("away_s", 0) > seconds
        self.until(lambda: f"it is alone\n{p.log()}", so)

    def resident(self, p):
        return metrics(p.at)("process_resident_memory_bytes")

    def end(self, p, code):
        p.process.terminate()
        p.wait(code)

    def test_who_waits_holds_nothing_and_serves_the_next_chief(self):
        stay = [self.start("ps", 0, WAIT), self.start("ps", 1, WAIT), self.start("worker", 1, WAIT)]
        chief = self.start("worker", 0, SLOW)
        for p in stay:
            self.until_state(p, "training")
        self.until("all parameters are there", lambda: (m := metrics(stay[0].at)) and m.get("gradwire_shard_updates_total"))
        full = [self.resident(p) for p in stay]
        chief.wait(0)
        for p in stay:
            self.until_state(p, "done")
            self.until("it is ready", lambda p=p: get(p.at, "/readyz") == (200, "ready\n"))
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
            self.assertIn("asked to stop: the job is done", p.log())

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
            self.assertIn("the job is done: checkpoint", p.log())
            self.assertNotIn("generation", p.log())
        self.assertEqual(self.summary()["digest"], digest)
        # A job that was stopped early can resume with another patience, and needs its ps again.
        ps = self.start("ps", 0, "--set=training.epochs=2", "--set=training.monitor=loss", "--set=early_stopping.patience=3")
        ps.until_said("it was stopped early")
        ps.until_said("waiting for a chief that continues training")
        self.end(ps, 143)

    def test_a_job_that_asks_for_more_is_not_done_where_its_chief_goes_again(self):
        for p in [self.start("ps", 0), self.start("ps", 1), self.start("worker", 1), self.start("worker", 0)][::-1]:
            p.wait(0)
        server = socket.create_server(("127.0.0.1", self.ports[0]))
        self.addCleanup(server.close)
        calls = threading.Event()

        def answer(s):
            peer = wire.Peer.__new__(wire.Peer)
            peer.s = s
            hello = wire.fields_of(peer.hear()[1])
            if hello.get(5) == wire.ARRIVAL:
                return
            if hello.get(22):  # idle
                calls.wait()
                calls.clear()
            peer.send(wire.frame(wire.HELLO_REPLY, {1: "u" * 36, 2: {1: 1, 2: wire.Fixed64(7)}, 3: 1,
                                                    6: f"127.0.0.1:{self.ports[2]}"}))

        def serve():  # a ps 0 that knows of a chief which nobody can reach
            while True:
                try:
                    s, _ = server.accept()
                except OSError:
                    return
                with s, contextlib.suppress(OSError):
                    answer(s)
                    s.recv(1)  # until it hangs up
        threading.Thread(target=serve, daemon=True).start()
        self.addCleanup(calls.set)
        worker = self.start("worker", 1, WAIT, "--set=timeouts.start_s=1")
        self.until_state(worker, "done")
        (self.tmp / "job.yaml").write_text(JOB.replace("epochs: 1", "epochs: 2"))
        calls.set()
        self.until_state(worker, "idle")
        self.end(worker, 143)

    def test_where_no_storage_is_shared_ps_0_says_that_the_job_is_done(self):
        own = self.tmp / "own"
        stay = [self.start("ps", i, WAIT, out=own / f"ps-{i}") for i in (0, 1)]
        self.start("worker", 0, "--set=timeouts.worker_rejoin_s=1").wait(0)
        for p in stay:
            self.until_state(p, "done")
        worker = self.start("worker", 1, WAIT, out=own)
        self.until_state(worker, "done")
        self.assertIn("ps 0 reports that the job is done", worker.log())
        worker.until_said("idle until a chief connects")  # and takes signals again
        self.end(worker, 0)
        # One that would not stay leaves as a ps does, and with 0: nothing failed.
        worker = self.start("worker", 1, "--set=timeouts.start_s=1", out=own).wait(0)
        self.assertIn("the job is done, and no chief has connected to continue training", worker.last_line())
        # Told to go meanwhile it does not wait the rest, and nothing failed either.
        worker = self.start("worker", 1, out=own)
        worker.until_said("ps 0 reports that the job is done")
        self.end(worker, 0)
        self.assertNotIn("the chief was not available", worker.log())
        # More epochs, or another run, are no job that is done.
        for more in "training.epochs=2", "checkpoint.run=another":
            worker = self.start("worker", 1, f"--set={more}", "--set=timeouts.start_s=1", out=own).wait(1)
            self.assertNotIn("is done", worker.log())
            self.assertIn("the chief was not available for 1 s", worker.last_line())
        # The chief of a job that was done tells them, too; a process that waits takes part in a job that is not done.
        for p in stay:
            self.end(p, 0)
        stay = [self.start("ps", i, WAIT, out=own / f"ps-{i}") for i in (0, 1)]
        self.start("worker", 0).wait(0)
        self.until_state(stay[0], "done")
        worker = self.start("worker", 1, WAIT, out=own)
        self.until_state(worker, "done")
        self.start("worker", 0, "--set=training.epochs=2").wait(0)
        self.until_state(worker, "done")
        self.assertEqual([w["worker"] for w in self.summary()["per_worker"] if w["tasks"]], [0, 1])

    def test_a_worker_that_loses_the_chief_behind_the_final_checkpoint_finds_it(self):
        keys = ["--set=timeouts.ps_rejoin_s=4", "--set=timeouts.evaluator_s=100", "--evaluators=1"]
        for i in 0, 1:
            self.start("ps", i, *keys)
        chief = self.start("worker", 0, *keys)
        worker = self.start("worker", 1, *keys)
        self.until(lambda: f"the final checkpoint is published\n{chief.log()}",
                   (self.out / "model" / "weights.safetensors").exists)
        chief.process.kill()  # it waits for an evaluator that does not come
        worker.wait(0)
        self.assertIn("the job is done", worker.last_line())

    def test_a_worker_that_misses_the_end_and_sees_no_checkpoint_hears_it_of_ps_0(self):
        stays = 30 if SANITIZED else 10  # so long waits the chief, and behind it ps 0: by then the worker below is to ask
        keys = [f"--set=timeouts.worker_rejoin_s={stays}", "--set=timeouts.evaluator_s=3", "--evaluators=1"]
        patience = 60 if SANITIZED else 4  # of a ps, for a chief, which one that stays does not await
        chief = self.start("worker", 0, *keys)
        chief.until_said("retrying")  # it dials them
        ps = [self.start("ps", i, *keys, f"--set=timeouts.start_s={patience}", f"--set=timeouts.ps_rejoin_s={patience}")
              for i in (0, 1)]
        worker = self.start("worker", 1, *keys, out=self.tmp / "own")
        self.until(lambda: f"the final checkpoint is published\n{chief.log()}",
                   (self.out / "model" / "weights.safetensors").exists)
        worker.process.kill()  # it cannot confirm the end, which waits for the evaluator
        chief.wait(0)
        again = self.start("worker", 1, *keys, "--set=timeouts.start_s=60", out=self.tmp / "own")
        again.until_said("ps 0 reports that the job is done")
        self.assertIn(f"staying {stays} s to answer workers", ps[0].log())
        if patience < stays:
            self.until_alone(ps[0], patience + 2)
        self.end(ps[0], 0)
        self.assertNotIn("staying", ps[1].wait(0).log())

    def test_an_idle_worker_tries_again_and_reads_its_job_again(self):
        refused = hellos = 0  # of an idle worker
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        self.ports[0] = server.getsockname()[1]
        job = self.tmp / "mine.yaml"
        job.write_text(JOB)

        def serve():  # a ps 0 that refuses twice and then names a chief who is not there
            nonlocal refused, hellos
            while True:
                try:
                    s, _ = server.accept()
                except OSError:
                    return
                peer = wire.Peer.__new__(wire.Peer)
                peer.s = s
                self.addCleanup(s.close)
                hello = wire.fields_of(peer.hear()[1])
                if hello.get(5) == wire.ARRIVAL:
                    continue
                idle = hello.get(22)
                if idle and refused < 2:
                    refused += 1
                    peer.send(wire.frame(wire.REFUSE, {1: 5, 2: "not yet"}))
                    peer.until_closed()
                    continue
                hellos += bool(idle)
                if hellos == 2:
                    job.write_text("name: [")
                peer.send(wire.frame(wire.HELLO_REPLY, {1: "u" * 36, 2: {1: 1, 2: wire.Fixed64(7)}, 3: 1,
                                                        6: f"127.0.0.1:{self.ports[2]}"}))
        threading.Thread(target=serve, daemon=True).start()
        worker = self.start("worker", 1, WAIT, "--set=timeouts.start_s=1", out=self.tmp / "own", job=job)
        worker.wait(2)
        self.assertEqual(worker.log().count("a chief has connected, with generation 1"), 2, worker.log())
        self.assertEqual(worker.log().count("refused: not yet"), 1, worker.log())
        self.assertIn("mine.yaml", worker.last_line())

    def test_without_storage_and_chief_they_wait_on(self):
        stay = [self.start(role, 1, WAIT, "--set=timeouts.start_s=1", out=self.tmp / "own") for role in ("ps", "worker")]
        for p in stay:
            self.until_state(p, "idle")  # between two lives an answer may be cut off
            self.until("it is ready", lambda p=p: get(p.at, "/readyz") == (200, "ready\n"))
            self.end(p, 143)

    def test_told_to_go_between_two_lives_they_say_so(self):
        stay = {}
        for role in "ps", "worker":
            job, said = self.tmp / f"{role}.yaml", self.tmp / f"{role}.said"
            job.write_text(JOB)
            stay[role] = self.start(role, 1, WAIT, f"--termination_message={said}", job=job), job, said
        last = self.start("ps", 0), self.start("worker", 0, SLOW)
        for p, job, _ in stay.values():
            self.until_state(p, "training")
            job.unlink()
            os.mkfifo(job)  # a process that has rested reads its job again, and this file never ends
        for p in last:
            p.wait(0)

        def reads(job):
            try:
                self.addCleanup(os.close, os.open(job, os.O_WRONLY | os.O_NONBLOCK))
                return True
            except OSError:  # nobody does
                return False
        for p, job, said in stay.values():
            self.until(lambda p=p: f"it reads its job again\n{p.log()}", lambda job=job: reads(job))
            self.end(p, 143)
            self.assertEqual(said.read_text(), "asked to stop: the job is done")

    def test_a_ps_without_time_for_a_snapshot_does_not_begin_one(self):
        keys = ["--set=training.epochs=100000", "--set=timeouts.grace_s=20", "--set=ps.threads=1"]
        slow = self.start("ps", 0, "--fault=disk:300000", "--grace_s=3", *keys, job=self.JOB)  # half of 1.2 MB in 2 s
        fast, chief, _ = (self.start(role, i, *keys, job=self.JOB) for role, i in (("ps", 1), ("worker", 0), ("worker", 1)))
        words = re.compile(r"warn ps 0: a snapshot of its 0\.6 MiB takes about (\d+) s \((\d\.\d) MiB/s, the rate of the last one\), and "
                           r"the grace after SIGTERM is 3 s: on SIGTERM it would not begin one")
        took = self.until(lambda: f"it says so\n{slow.log()}", lambda: words.search(slow.log()))
        self.assertGreaterEqual(int(took[1]), 3)  # more on a loaded machine
        self.assertLessEqual(float(took[2]), 0.3)
        cuts = self.out / "checkpoints"
        self.until("cut 0 is published", lambda: (cuts / "cut-0000000000/manifest.gw").exists())
        self.end(slow, 143)
        self.assertIn(f"asked to stop: a snapshot of its 0.6 MiB takes about {took[1]} s", slow.last_line())  # so the pod says it
        self.assertIn("the last published checkpoint remains", slow.last_line())
        self.end(chief, 143)
        self.assertEqual([cut.name for cut in cuts.iterdir() if cut.is_dir()], ["cut-0000000000"])
        self.assertNotIn("a snapshot of", fast.log())

    def test_wrong_uses_are_refused(self):
        self.assertIn("the chief and the evaluator end with the job", self.start("worker", 0, WAIT).wait(2).log())
        self.assertIn("only a ps accepts it", self.start("worker", 1, "--grace_s=60").wait(2).log())
        self.assertIn("allowed: exit, wait", self.start("ps", 0, "--when_done=stay").wait(2).log())


class ArrivalsCase(wire.PsCase):
    """A ps and processes that read their data."""

    def say_hello(self, waits=False, **fields):
        peer = wire.Peer(self.port)
        self.addCleanup(peer.s.close)
        idle = {22: 1} if fields["role"] == wire.ARRIVAL else {}
        peer.send(wire.frame(wire.HELLO, {**self.a_hello(**fields), **idle, 43: int(waits)}))
        return peer

    def arrival(self, worker, **fields):
        return self.say_hello(role=wire.ARRIVAL, worker=worker, **fields)


class ArrivalsTest(ArrivalsCase):
    def named(self, peer):
        """The address of the chief that ps 0 names."""
        kind, head, _ = peer.hear()
        self.assertEqual(kind, wire.HELLO_REPLY)
        return wire.fields_of(head)[6]

    def test_they_meet_at_the_chief_that_reads_its_data_until_one_is_connected(self):
        worker = self.say_hello(role=1, worker=1)  # has read its data
        before = self.arrival(2)
        loading = self.arrival(0, chief="127.0.0.1:5")
        self.assertEqual(self.named(before), b"127.0.0.1:5")
        self.assertEqual(self.named(self.arrival(3)), b"127.0.0.1:5")
        again = self.arrival(0, chief="127.0.0.1:6")  # the next process of the chief, before the end of the first is known
        loading.s.close()
        self.assertEqual(self.named(self.arrival(2)), b"127.0.0.1:6")
        other = self.arrival(0, chief="127.0.0.1:7")  # one that was started by mistake
        self.assertEqual(self.named(self.arrival(2)), b"127.0.0.1:7")
        other.s.close()
        self.until("ps 0 names the first one again", lambda: self.named(self.arrival(2)) == b"127.0.0.1:6")
        again.s.close()
        after = self.arrival(3)
        self.entered()
        for peer in worker, after, self.arrival(2):
            self.assertEqual(self.named(peer), b"127.0.0.1:9")
        self.arrival(0, chief="127.0.0.1:5")  # of another process of the chief, as one that was started by mistake
        self.assertEqual(self.named(self.arrival(2)), b"127.0.0.1:9")


class ReadingChiefTest(ArrivalsCase):
    FLAGS = ("--set=timeouts.start_s=2",)

    def test_the_time_for_which_a_chief_reads_its_data_does_not_count_and_workers_hear_of_it(self):
        chief = self.arrival(0, chief="127.0.0.1:5")
        worker = self.say_hello(role=1, worker=1, waits=True)
        evaluator = Process(self, [WORKER, "--job_name=evaluator", f"--ps_hosts={self.hosts}", f"--job={self.job}",
                                   f"--output={self.out}", *self.FLAGS], "evaluator")
        for _ in range(5):  # one each second
            kind, head, _ = worker.hear()
            self.assertEqual((kind, wire.fields_of(head)), (wire.HELLO_REPLY, {17: 1}))
        self.assertIsNone(self.ps.process.poll(), self.ps.log())
        self.assertIsNone(evaluator.process.poll(), evaluator.log())
        evaluator.stop()
        chief.s.close()
        self.assertRegex(self.ps.wait(1).log(), r"no chief for 3 s \(timeouts.start_s\)")


class ArrivalTest(TrainCase):
    """A worker that reads its data, between a ps 0 and chiefs that a test plays."""

    def server(self):
        s = socket.create_server(("127.0.0.1", 0))
        s.settimeout(DEADLINE_S)
        self.addCleanup(s.close)
        return s, f"127.0.0.1:{s.getsockname()[1]}"

    def accepted(self, server):
        peer = wire.Peer.__new__(wire.Peer)
        peer.s, _ = server.accept()
        self.addCleanup(peer.s.close)
        kind, head, _ = peer.hear()
        self.assertEqual((kind, wire.fields_of(head).get(5)), (wire.HELLO, wire.ARRIVAL))
        return peer, wire.fields_of(head)

    def named(self, ps, address):
        """Ps 0 is asked, and names the chief."""
        peer, hello = self.accepted(ps)
        self.assertEqual(hello.get(22), 1)  # idle: it is not counted among those that have heard of a failure
        peer.send(wire.frame(wire.HELLO_REPLY, {6: address}))
        peer.until_closed()

    def met(self, chief):
        peer, hello = self.accepted(chief)
        self.assertFalse({22, 24, 27} & set(hello))  # not idle; it has no digests yet
        peer.send(wire.frame(wire.HELLO_REPLY))
        kind, head, _ = peer.hear()
        self.assertEqual(kind, wire.VITALS)
        self.assertIn(20, wire.fields_of(head))
        return peer

    def test_it_follows_the_chief_and_ends_when_the_data_are_read(self):
        (ps, at_ps), (one, at_one), (next_one, at_next) = self.server(), self.server(), self.server()
        worker = Process(self, [WORKER, "--job_name=worker", "--task_index=1", f"--ps_hosts={at_ps}",
                                "--worker_hosts=127.0.0.1:1,127.0.0.1:2", f"--job={self.JOB}", f"--output={self.out}",
                                *self.sets({"data.synthetic_train_rows": 100000})], "worker")
        self.named(ps, at_one)
        self.met(one).s.close()  # the chief dies, and the next one has another address
        self.named(ps, at_next)
        peer = self.met(next_one)
        peer.until_closed()
        s, _ = ps.accept()
        self.addCleanup(s.close)
        hello = wire.Peer.__new__(wire.Peer)
        hello.s = s
        self.assertEqual(wire.fields_of(hello.hear()[1])[5], 1)  # as a worker
        worker.process.terminate()
        worker.wait(143)

    def test_a_worker_that_waits_does_not_count_the_time_for_which_a_chief_reads_its_data(self):
        ps, at_ps = self.server()
        worker = Process(self, [WORKER, "--job_name=worker", "--task_index=1", f"--ps_hosts={at_ps}", "--worker_hosts=127.0.0.1:1,127.0.0.1:2",
                                f"--job={self.JOB}", f"--output={self.out}", *self.sets({"timeouts.start_s": 2})], "worker")
        hello, peer = {}, wire.Peer.__new__(wire.Peer)
        while hello.get(5) != 1:  # before, it is an arrival
            peer.s, _ = ps.accept()
            self.addCleanup(peer.s.close)
            with contextlib.suppress(EOFError, ConnectionResetError):
                hello = wire.fields_of(peer.hear()[1])
        self.assertEqual(hello.get(43), 1)
        for _ in range(8):  # twice as long as start_s
            peer.send(wire.frame(wire.HELLO_REPLY, {17: 1}))
            time.sleep(0.5)
        self.assertIsNone(worker.process.poll(), worker.log())
        self.assertIn("was not available for 2 s (timeouts.start_s)", worker.wait(1).last_line())


class ToldToGoCase(wire.PsCase):
    def setUp(self):
        super().setUp()
        self.chief = self.entered()
        self.ps.process.terminate()
        self.chief.hear_kind(wire.GOING)

class ToldToGoAtTheEndTest(ToldToGoCase):
    FLAGS = (WAIT, "--grace_s=100")

    def test_it_does_not_wait_when_the_job_is_done_meanwhile(self):
        self.chief.send(wire.frame(wire.DONE, {1: 0}))
        self.ps.wait(0)


class ToldToGoTest(ToldToGoCase):
    FLAGS = (WAIT, "--grace_s=3")

    def test_without_a_cut_it_leaves_before_it_is_killed(self):
        self.ps.wait(143)
        said = self.ps.log()
        self.assertIn("the grace of 3 s ended before a checkpoint was published, or the job was done", said)
        # By its own clock a second is left (unit/grace_test), of which a loaded machine may take more; the job's grace is longer.
        told, left = (datetime.datetime.fromisoformat(next(line for line in said.splitlines() if words in line).split()[0].rstrip("Z"))
                      for words in ("asked to stop", "the grace of 3 s ended"))
        self.assertLess((left - told).total_seconds(), 20, said)


class ChiefThatFailsTest(ByHand):
    """The processes that wait for a chief that fails hear why, and end with it: none waits for the next one."""

    def end_with(self, reason, code, chief, others):
        chief.wait(code)
        self.assertIn(reason, chief.log())
        for p in others:
            p.wait(code)
            self.assertIn(reason, p.log())

    def others(self, *more, job=None):
        return [self.start(role, index, *more, job=job) for role, index in (("ps", 0), ("ps", 1), ("worker", 1))]

    def test_a_chief_that_fails_before_it_has_connected_is_heard_by_all(self):
        (self.tmp / "rows.csv").write_text("a,b,label\n" + "1,2,1\n3,4,0\n" * 8)
        csv = self.tmp / "csv.yaml"
        csv.write_text("name: rest\ndata: {format: csv, train: rows.csv, eval: none.csv, header: names, columns: [number: a, number: b, "
                       "label: label]}\nmodel:\n  input: {shape: auto}\n  layers:\n    - dense: {units: 1}\n"
                       "  loss: {binary_crossentropy: {from_logits: true}}\n"
                       "training: {epochs: 1, batch_size: 4, microbatches: 4}\noptimizer: sgd\n")
        self.end_with("none.csv", 2, self.start("worker", 0, job=csv), self.others(job=csv))

        (self.out / "history.jsonl").mkdir(parents=True)  # the chief finds it when its rows are read
        others = self.others()
        self.end_with("history.jsonl", 1, self.start("worker", 0), others)

    def test_a_worker_that_comes_after_a_failed_chief_hears_it_of_ps_0(self):
        (self.out / "history.jsonl").mkdir(parents=True)
        ps = [self.start("ps", 0), self.start("ps", 1)]
        self.start("worker", 0).wait(1)
        ps[0].until_said("staying 30 s")
        self.end_with("history.jsonl", 1, ps[1], [self.start("worker", 1), ps[0]])

    def test_a_chief_that_fails_beside_one_that_trains_ends_nothing(self):
        rows = "--set=data.synthetic_train_rows=5000"
        others, chief = self.others(rows), self.start("worker", 0, rows, SLOW)
        for p in others:
            p.until_said("generation 1")
        (self.tmp / "else/history.jsonl").mkdir(parents=True)
        self.ports[2:3] = free_ports(1)
        self.start("worker", 0, rows, out=self.tmp / "else").wait(1)
        others[0].until_said("another process of the chief has failed")
        for p in [chief, *others]:
            p.wait(0)

    def test_a_chief_that_is_killed_at_any_moment_is_waited_for_within_a_bound_that_is_said(self):
        """GRADWIRE_KILLS=40: as many kills, spread over the life of the chief."""
        rows = "--set=data.synthetic_train_rows=2500"
        keys = (rows, "--set=timeouts.start_s=2", "--set=timeouts.ps_rejoin_s=2")
        began, others = time.monotonic(), self.others(rows)
        self.end_with("", 0, self.start("worker", 0, rows), others)
        life = time.monotonic() - began
        kills = max(1, KILLS)
        for kill in range(kills):
            shutil.rmtree(self.out, ignore_errors=True)
            self.ports = free_ports(7)
            others, chief = self.others(*keys), self.start("worker", 0, *keys)
            with self.subTest(kill=kill):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    chief.process.wait((kill + 0.5) / kills * life)
                chief.stop()
                killed = time.monotonic()
                for p in others:
                    code = p.process.wait(DEADLINE_S)
                    self.assertLess(time.monotonic() - killed, 20, p.log())
                    self.assertIn("waiting for the chief, at most 2 s (timeouts.start_s)", p.log())
                    if code:  # otherwise it has heard that the job is done, or sees it on disk
                        self.assertRegex(p.last_line(), r"error .*timeouts\.(start|ps_rejoin)_s")
                        self.assertEqual(code, 1, p.log())

    def test_model_that_cannot_be_written_is_said_to_all_before_the_job_is_done(self):
        self.out.mkdir()
        (self.out / "model").write_text("no directory")
        rows = "--set=data.synthetic_train_rows=1000"
        self.end_with("/model: ", 1, self.start("worker", 0, rows), self.others(rows))
        self.assertIn('"status": "failed"', (self.out / "summary.json").read_text())


@unittest.skipIf(SANITIZED, "aims at a moment that is long only there")
class KilledAtTheEndTest(ByHand):
    """Worker 1 is killed after its last step; its next process sees that the job is done. GRADWIRE_KILLS=40: so many kills."""

    IN_MEMORY = False  # there the final checkpoint takes no time
    REJOIN_S = 60

    def end_job(self, update, *more, kills=True):
        """Seconds from the last step to the end of the chief, with or without a kill of worker 1 in between."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.ports = free_ports(7)
        job = self.tmp / "end.yaml"
        job.write_text(JOB + f"timeouts: {{worker_rejoin_s: {self.REJOIN_S}}}\n")
        keys = (f"--set=training.update={update}", "--set=data.synthetic_train_rows=2500")
        ps = [self.start("ps", i, *keys, job=job) for i in range(2)]
        chief, worker = (self.start("worker", i, *keys, job=job) for i in range(2))
        chief.until_said("epoch 1/1")
        began = time.monotonic()
        if kills:
            worker.stop()
            self.until("the job is done", lambda: len(list(self.out.glob("checkpoints/cut-*/manifest.gw"))) > 1)
            worker = self.start("worker", 1, *keys, *more, job=job)
        chief.wait()
        seconds = time.monotonic() - began
        if kills:
            self.assertIn("worker 1 has found the job done", chief.log())
            self.assertIn("the job is done", worker.log())
        for p in ps:
            p.wait()
        worker.stop()
        return seconds

    def test_its_next_process_tells_the_chief_who_ends_within_3_s_of_the_undisturbed_job_in_every_mode(self):
        updates = ("sync", "async", "ssp", "geo")
        undisturbed = {update: self.end_job(update, kills=False) for update in updates}
        modes = [(update, ()) for update in updates] + [("sync", (WAIT,))]
        for update, more in modes * max(1, KILLS // len(modes)):
            with self.subTest(update=update, more=more):
                self.assertLess(self.end_job(update, *more) - undisturbed[update], 3)


del TrainCase


if __name__ == "__main__":
    unittest.main()
