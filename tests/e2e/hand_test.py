#!/usr/bin/env python3
# runs with others
"""ps and worker started by hand, without a launcher: by flags, by TF_CONFIG, alone; on ports that are taken, wrong, or
full of garbage."""
import contextlib
import json
import os
import pathlib
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, PS, SANITIZED, SHORT, TSAN, WORKER, Process, TrainCase, free_ports  # noqa: E402


class HandCase(TrainCase):
    HOST = "127.0.0.1"

    def addresses(self, n):
        return [f"{self.HOST}:{port}" for port in free_ports(n)]

    def start(self, program, name, *flags, keys={}, out=None, env=None, pass_fds=()):
        return Process(self, [program, f"--job={self.JOB}", f"--output={out or self.out}", *self.sets(keys), *flags],
                       name, env, pass_fds)

    def cluster(self, ps, workers, keys={}, out=None):
        """Processes by flags: (ps, workers, address of the first ps, address of the chief)."""
        hosts = self.addresses(ps + workers)
        self.hosts = of = [f"--ps_hosts={','.join(hosts[:ps])}", f"--worker_hosts={','.join(hosts[ps:])}"]
        return ([self.start(PS, f"ps-{i}", "--job_name=ps", f"--task_index={i}", *of, keys=keys, out=out)
                 for i in range(ps)],
                [self.start(WORKER, f"worker-{i}", "--job_name=worker", f"--task_index={i}", *of, keys=keys, out=out)
                 for i in range(workers)], hosts[0], hosts[ps])

    def all_done(self, *processes):
        for p in processes:
            p.wait(0)
        return self.summary()


class Changer(threading.Thread):
    """A proxy at `port` that changes a few bits of what passes: one in each of `changes` stretches of bytes, as long as each of
    them says, of any connection and direction."""

    def __init__(self, case, port, to, changes):
        super().__init__(daemon=True)
        self.to, self.changes, self.lock, self.passed = to, list(changes), threading.Lock(), 0
        self.listener = socket.create_server((case.HOST, port))
        case.addCleanup(self.listener.close)
        self.start()

    def changed(self, data):
        with self.lock:
            self.passed += len(data)
            if self.changes and self.passed >= self.changes[0]:
                self.passed -= self.changes.pop(0)
                at = len(data) // 2
                return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:]
        return data

    def move(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(16384):
                other.sendall(self.changed(data))
        for end in one, other:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def carry(self, one):
        with one, socket.create_connection(self.to) as other:
            back = threading.Thread(target=self.move, args=(other, one), daemon=True)
            back.start()
            self.move(one, other)
            back.join()

    def run(self):
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                threading.Thread(target=self.carry, args=(self.listener.accept()[0],), daemon=True).start()


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class ChecksumsTest(HandCase):
    """Between 127.0.0.1 and this address connections have checksums, as between two hosts."""
    HOST = "127.0.0.2"

    def test_bits_that_change_between_workers_and_ps_change_nothing(self):
        listener = socket.create_server((self.HOST, 0))
        ps, *workers = self.addresses(3)
        changer = Changer(self, int(ps.split(":")[1]), listener.getsockname(), [1000, 5000, *[1 << 20] * 5])
        hosts = [f"--ps_hosts={ps}", f"--worker_hosts={','.join(workers)}"]
        server = self.start(PS, "ps", "--job_name=ps", "--task_index=0", *hosts, f"--listen_fd={listener.fileno()}",
                            pass_fds=(listener.fileno(),))
        listener.close()
        both = [self.start(WORKER, f"worker-{i}", "--job_name=worker", f"--task_index={i}", *hosts) for i in (0, 1)]
        s = self.all_done(*both, server)
        self.assertEqual(changer.changes, [])
        self.assertTrue(s["exact"])
        self.assertEqual(s["digest"], self.undisturbed())
        self.assertRegex("".join(p.log() for p in (server, *both)),
                         r"warn (ps|worker) .: .*: the checksum of .* does not match: its bytes were changed on the way; closing")

    def test_what_a_worker_says_before_the_next_chief_has_answered_waits_for_the_answer(self):
        """The next chief waits for a ps, and a worker tells it that it does not reach that ps."""
        keys = {"training.epochs": 100}  # the kills come before the end
        ps, (chief, worker), _, _ = self.cluster(2, 2, keys=keys)
        self.until("training", lambda: "epoch 1/" in chief.log())
        for p in ps[1], chief:
            p.process.send_signal(signal.SIGKILL)
            p.wait(-signal.SIGKILL)
        chief = self.start(WORKER, "next", "--job_name=worker", "--task_index=0", *self.hosts, keys=keys)
        self.until("the worker's message", lambda: "ps 1 has not been reachable for" in worker.log())
        ps[1] = self.start(PS, "again", "--job_name=ps", "--task_index=1", *self.hosts, keys=keys)
        self.assertEqual(self.all_done(chief, worker, *ps)["digest"], self.undisturbed(keys=keys))
        self.assertNotIn("no checksums", chief.log())


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class HandTest(HandCase):
    def test_flags_alone_make_a_cluster(self):
        ps, workers, _, _ = self.cluster(2, 2)
        s = self.all_done(*workers, *ps)
        self.assertEqual(s["digest"], self.undisturbed())
        self.assertEqual((s["ps"], s["workers"], s["restarts"]), (2, 2, 0))

    def is_result(self, line):
        """A chief's last line, of a job that is done: the result that its summary has."""
        s = self.summary()
        self.assertRegex(line, rf" info (chief|worker 0): done: {s['epochs']} epochs?, eval loss ")
        said = re.fullmatch(r"loss (\S+) accuracy (\S+), digest (\w+), model in (.*)", line.split(", eval ")[1])
        self.assertEqual(said.groups(), (*(f"{s['eval'][key]:.9g}" for key in ("loss", "accuracy")), s["digest"],
                                         f"{self.out}/model"))

    def test_the_last_line_of_a_chief_is_its_result(self):
        for _ in "trained", "done before":
            ps, workers, _, _ = self.cluster(2, 2)
            self.all_done(*workers, *ps)
            self.is_result(workers[0].last_line())
        self.out = self.tmp / "alone"
        self.is_result(self.start(WORKER, "alone", keys={"training.epochs": 2}).wait(0).last_line())
        self.out = self.tmp / "launched"
        self.is_result(self.train("--chief", "--workers=2", keys={"training.epochs": 2}).log("chief-0").splitlines()[-1])

    def test_the_summary_says_failed_where_a_finished_job_cannot_write_its_model_again(self):
        keys = {"training.epochs": 1, "data.synthetic_train_rows": 1000}
        self.start(WORKER, "alone", keys=keys).wait(0)
        (self.out / "model").rename(self.tmp / "model")
        (self.out / "model").write_text("no directory")
        why = self.start(WORKER, "again", keys=keys).wait(1).last_line().split("worker 0: ")[1]
        self.assertIn(f"{self.out}/model: ", why)
        s = self.summary()
        self.assertEqual((s["status"], s["exit_code"], s["error"], s["epochs"]), ("failed", 1, why, 1))
        (self.out / "model").unlink()
        self.start(WORKER, "third", keys=keys).wait(0)
        self.assertEqual(self.summary()["status"], "done")

    def test_a_new_chief_brings_its_clip_norm_to_running_shards(self):
        keys = {"data.synthetic_train_rows": 16000, "training.epochs": 4, "checkpoint.every_steps": 20,
                "checkpoint.every_seconds": 0}
        ps, workers, _, _ = self.cluster(2, 2, keys=keys)
        self.until("a cut", lambda: len(list((self.out / "checkpoints").glob("cut-*/manifest.gw"))) > 1)
        workers[0].process.kill()
        workers[0].process.wait()
        chief = self.start(WORKER, "chief", "--job_name=worker", "--task_index=0", *self.hosts,
                           keys={**keys, "training.clip_norm": 0.001})
        s = self.all_done(chief, workers[1], *ps)
        self.assertIn("taking over", chief.log())
        self.assertEqual(s["steps"], 4 * 250)
        self.assertGreater(s["batches"]["clipped"], 0)

    def test_a_chief_that_takes_over_without_the_runs_past_goes_on_and_says_that_the_job_is_not_exact(self):
        """The first two chiefs have one folder, and the last two another one, which begins empty."""
        keys = {"training.epochs": 4, "training.monitor": "loss"}
        ps, worker = self.addresses(2)
        of = [f"--ps_hosts={ps}", f"--worker_hosts={worker}", "--task_index=0"]
        ps = self.start(PS, "ps", "--job_name=ps", *of, keys=keys)
        chiefs = []
        for i, out in enumerate([self.out] * 2 + [self.tmp / "other"] * 2):
            chief = self.start(WORKER, f"chief-{i}", "--job_name=worker", "--fault=sleep:0.01", *of, keys=keys, out=out)
            chiefs.append(chief)
            if i < 3:
                chief.until_said(f"epoch {i + 1}/4: ")
                chief.process.send_signal(signal.SIGKILL)
                chief.process.wait()
        chiefs[3].wait(0)
        ps.wait(0)
        said = [[line for line in c.log().splitlines() if "of this run's past" in line] for c in chiefs]
        self.assertEqual([len(lines) for lines in said], [0, 0, 1, 0], said)
        self.assertIn(f" warn worker 0: generation 3: {self.tmp}/other lacks a part of this run's past (it is not the directory of "
                      "the chief before): the job goes on, but is never exact again, and its best epoch is only the best of those known there; ",
                      said[2][0])
        s = self.summary(self.tmp / "other")
        self.assertEqual((s["status"], s["exact"]), ("done", False))
        self.assertRegex(s["inexact"], r"^generation 3 took over at step \d+ without a part of the run's past: it is not the ")
        self.assertGreater(s["history"][0]["epoch"], 1)

    def test_a_worker_that_connects_to_a_chief_as_it_dies_is_in_time_at_the_next_one_at_another_address(self):
        """With a token, who connects waits for the chief's first message. A stopped chief accepts, but never sends it."""
        secret = self.tmp / "secret"
        secret.write_text("0123456789abcdef" * 2)
        secret.chmod(0o600)
        ps, worker, *chiefs = self.addresses(4)

        def start(program, name, chief, *flags):
            return self.start(program, name, f"--job_name={name.split('-')[0]}", f"--ps_hosts={ps}", f"--worker_hosts={chief},{worker}",
                              f"--token_file={secret}", *flags, keys={"training.epochs": 1000, "timeouts.worker_rejoin_s": 2})

        def connected():
            here = f":{int(chiefs[0].split(':')[1]):04X}"
            lines = map(str.split, pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:])
            return {local for _, local, remote, state, *_ in lines if remote.endswith(here) and state == "01"}

        ps_0 = start(PS, "ps-0", chiefs[0], "--task_index=0")
        first = start(WORKER, "worker-0", chiefs[0], "--task_index=0")
        ps_0.until_said("generation 1:")  # a chief that stops before would leave the next one to be generation 1
        first.process.send_signal(signal.SIGSTOP)
        before = connected()
        late = start(WORKER, "worker-1", chiefs[0], "--task_index=1")
        self.until("worker 1 connects to the stopped chief", lambda: connected() - before)
        first.stop()
        second = start(WORKER, "worker-0", chiefs[1], "--task_index=0", "--fault=sleep:0.05")
        late.until_said("generation 2:")
        self.assertNotIn("worker 1 was away", second.log())

    @unittest.skipIf(SANITIZED, "a sanitizer takes more address space than there is")
    def test_a_worker_without_address_space_for_its_products_ends_with_1_and_names_the_limit(self):
        env = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
        hosts = self.addresses(2)
        of = [f"--ps_hosts={hosts[0]}", f"--worker_hosts={hosts[1]}", f"--job={self.JOB}", f"--output={self.out}",
              *self.sets({"worker.threads": 2})]
        me = [WORKER, "--job_name=worker", "--task_index=0", *of]
        small = Process(self, ["prlimit", "--as=260000000", *me], "small", env).wait(1)
        self.assertIn("error worker 0: no address space for the matrix products of 2 threads, 128 MiB each: raise ulimit -v, "
                      "or lower worker.threads; ulimit -v is 253906 KiB", small.last_line())
        Process(self, [PS, "--job_name=ps", "--task_index=0", *of], "ps")  # the other one would have ended it
        large = Process(self, ["prlimit", f"--as={1200 << 20}", *me], "large", env).wait(0)
        self.assertEqual(self.summary()["digest"], self.undisturbed(), large.log())

    def test_a_worker_by_hand_gives_openblas_one_thread_before_it_is_loaded(self):
        env = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
        worker = self.start(WORKER, "alone", keys={"training.epochs": 1000}, env=env)
        worker.until_said("generation 1")
        proc = pathlib.Path(f"/proc/{worker.process.pid}")
        self.assertIn(b"OPENBLAS_NUM_THREADS=1", (proc / "environ").read_bytes().split(b"\0"))
        self.assertEqual((proc / "comm").read_text(), WORKER.name + "\n")

    def test_a_chief_whose_folder_is_removed_ends_with_1_and_tells_the_others_and_writes_nothing_more(self):
        ps, workers, _, _ = self.cluster(1, 2, keys={"training.epochs": 100000, "checkpoint.every_steps": 5})
        workers[0].until_said("generation 1:")
        self.until("a cut", lambda: list((self.out / "checkpoints").glob("cut-*/manifest.gw")))
        self.out.rename(self.tmp / "removed")
        text = f"{self.out} was removed or replaced: its lock is not the file that this job holds, so this job ends"
        for p in workers + ps:
            self.assertIn(text, p.wait(1).last_line())
        self.assertFalse(self.out.exists())
        self.assertFalse((self.tmp / "removed/summary.json").exists())

    def test_a_ps_that_loses_the_common_folder_ends_with_1_and_so_does_the_job(self):
        keys = {"training.epochs": 1000000, "checkpoint.every_steps": 5, "checkpoint.every_seconds": 0, "timeouts.ps_rejoin_s": 1}
        self.out.mkdir(exist_ok=True)
        (self.tmp / "seen").symlink_to(self.out)  # the ps's mount of the common storage
        hosts = self.addresses(2)
        of = [f"--ps_hosts={hosts[0]}", f"--worker_hosts={hosts[1]}", "--task_index=0"]
        ps = self.start(PS, "ps-0", "--job_name=ps", *of, keys=keys, out=self.tmp / "seen")
        chief = self.start(WORKER, "worker-0", "--job_name=worker", *of, keys=keys)
        self.until("a cut", lambda: list((self.out / "checkpoints").glob("cut-*/manifest.gw")))
        (self.tmp / "empty").mkdir()
        (self.tmp / "other").symlink_to(self.tmp / "empty")
        (self.tmp / "other").rename(self.tmp / "seen")
        self.assertIn(f"{self.tmp}/seen was removed or replaced: its lock is not the file that this job holds", ps.wait(1).last_line())
        self.assertIn("ps 0 was not available for 1 s", chief.wait(1).last_line())

    def two_of(self, name, index, keys, out=None, chief=None):
        """A job of one ps and two workers, and a second process of one of these."""
        ps, workers, first, at = self.cluster(1, 2, keys=keys)
        workers[1].until_said("generation 1:")
        hosts = [f"--ps_hosts={first}", f"--worker_hosts={chief or at},{self.addresses(1)[0]}"]
        return ps[0], workers, self.start(WORKER, name, "--job_name=worker", f"--task_index={index}", *hosts,
                                          keys={**keys, "timeouts.start_s": 2}, out=out), at

    def test_a_second_chief_with_a_folder_of_its_own_is_refused_and_told_of_the_first(self):
        keys = {"training.epochs": 1000000}
        elsewhere, other = self.tmp / "elsewhere", self.addresses(1)[0]
        ps, workers, second, at = self.two_of("second", 0, keys, elsewhere, other)
        text = f"the chief at {other} was started, but ps 0 belongs to the chief at {at}; end one of them"
        self.assertIn(f"ps 0 was not available for 2 s (timeouts.start_s): ps 0 refused: {text}", second.wait(1).last_line())
        workers[0].until_said(f"ps 0 refuses a process: {text}")
        self.assertNotIn("generation 2", workers[0].log())
        self.assertFalse(list(elsewhere.glob("checkpoints/cut-*")))
        workers[0].process.kill()  # then the other one may take over
        workers[0].process.wait()
        third = self.start(WORKER, "third", "--job_name=worker", "--task_index=0", *self.hosts, keys=keys)
        third.until_said("generation 2: taking over from the last chief")

    def test_of_two_processes_of_one_worker_the_first_ends_and_names_the_second_and_the_result_is_right(self):
        ps, workers, second, _ = self.two_of("second", 1, {"training.epochs": 20})
        self.assertRegex(workers[1].wait(138).last_line(), r"another process at 127.0.0.1:\d+ has replaced this one as worker 1$")
        s = self.all_done(workers[0], second, ps)
        self.assertEqual(s["digest"], self.undisturbed(keys={"training.epochs": 20}))

    def test_a_lone_worker_starts_a_ps_for_itself_and_both_end(self):
        worker = self.start(WORKER, "alone").wait(0)
        ps = int(worker.log().split("one runs on 127.0.0.1:")[1].split("pid ")[1].split()[0])
        self.gone([ps])
        self.assertEqual(self.summary()["digest"], self.undisturbed())
        again = self.start(WORKER, "again").wait(0)
        self.assertEqual(self.summary()["digest"], self.undisturbed(), again.log())

    def test_a_lone_worker_that_is_killed_leaves_no_ps(self):
        worker = self.start(WORKER, "alone", keys={"training.epochs": 1000})
        worker.until_said("generation 1")
        ps = int(worker.log().split("one runs on 127.0.0.1:")[1].split("pid ")[1].split()[0])
        worker.process.kill()
        worker.process.wait()
        self.gone([ps])

    def test_a_lone_worker_told_to_go_leaves_a_checkpoint_and_goes_on(self):
        keys = {"training.epochs": 3, "data.synthetic_train_rows": 20000}
        for sig in (signal.SIGTERM, signal.SIGINT):
            worker = self.start(WORKER, "alone", keys=keys)
            worker.until_said("generation")
            worker.process.send_signal(sig)
            worker.wait(143)
            self.assertEqual((self.summary()["status"], self.summary()["exit_code"]), ("interrupted", 143))
        self.start(WORKER, "alone", keys=keys).wait(0)
        self.assertEqual(self.summary()["digest"], self.undisturbed(keys=keys))

    # ---- TF_CONFIG ----

    def tf_config(self, cluster, role, index, **more):
        return dict(os.environ, TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": role, "index": index},
                                                      **more}))

    def test_a_dense_tf_config_with_a_chief_of_its_own(self):
        a = self.addresses(5)
        cluster = {"ps": a[:2], "worker": a[2:4], "chief": a[4:]}
        processes = [self.start(PS if role == "ps" else WORKER, f"{role}-{i}", env=self.tf_config(cluster, role, i))
                     for role, hosts in cluster.items() for i in range(len(hosts))]
        s = self.all_done(*processes)
        self.assertEqual((s["digest"], s["ps"], s["workers"]), (self.undisturbed(), 2, 3))

    def test_a_sparse_tf_config(self):
        a = self.addresses(4)
        start = [(WORKER, "worker", 0, {"ps": a[:2], "worker": {"0": a[2]}}),
                 (WORKER, "worker", 1, {"ps": a[:2], "worker": {"1": a[3]}}),
                 (PS, "ps", 0, {"ps": a[:1], "worker": {}}), (PS, "ps", 1, {"ps": a[1:2], "worker": {}})]
        processes = []
        for program, role, index, cluster in start:
            env = dict(os.environ, TF_CONFIG=json.dumps({"sparseCluster": cluster,
                                                         "task": {"type": role, "index": index}}))
            processes.append(self.start(program, f"{role}-{index}", env=env))
        s = self.all_done(*processes)
        came = [0, 1][:1 + ("generation 1" in processes[1].log())]  # the chief's own list has one, for which it waits
        self.assertEqual((s["digest"], s["workers"]), (self.undisturbed(), len(came)))
        # a worker that comes as the job ends confirms the end, and has done nothing
        self.assertEqual([w["worker"] for w in s["per_worker"] if w["tasks"] or w["worker"] in came], came)

    # ---- ports ----

    def test_a_port_in_use_is_waited_for_and_then_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            other, = self.addresses(1)
            ps = self.start(PS, "ps", "--job_name=ps", "--task_index=0", f"--ps_hosts={address}",
                            f"--worker_hosts={other}")
            chief = self.start(WORKER, "chief", "--job_name=worker", "--task_index=0", f"--ps_hosts={other}",
                               f"--worker_hosts={address}")
            for p in (ps, chief):
                p.wait(1)
                self.assertIn(f"{address}: the port is still in use after 10 s", p.last_line())

    def test_a_ps_that_cannot_be_reached_ends_workers_with_its_name_and_why(self):
        keys = {"timeouts.start_s": 2}
        ps, *hosts = self.addresses(3)
        of = [f"--ps_hosts={ps}", f"--worker_hosts={','.join(hosts)}", "--job_name=worker"]
        chief = self.start(WORKER, "chief", *of, "--task_index=0", keys=keys)
        worker = self.start(WORKER, "worker", *of, "--task_index=1", keys=keys)
        for p in (chief, worker):
            p.wait(1)
            self.assertIn("ps 0 was not available for 2 s (timeouts.start_s): Connection refused", p.last_line())
        s = self.summary()
        self.assertEqual((s["status"], s["exit_code"]), ("failed", 1))

    # A server on the address of ps 0 -> the reason in the last lines of the chief and of a worker.
    STRANGERS = {"http": (lambda s: (s.recv(100000), s.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")),
                          "magic 0x50545448, not a gradwire peer"),
                 "ssh": (lambda s: (s.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), s.recv(1)),
                         "magic 0x2d485353, not a gradwire peer"),
                 "garbage": (lambda s: (s.sendall(b"\xff" * 4096), s.recv(100000)), "magic 0xffffffff, not a gradwire peer"),
                 "tls": (lambda s: (s.recv(100000), s.sendall(b"\x15\x03\x03\0\2\2\x46")), "it uses TLS, but this process was started without --tls_cert"),
                 "hangs up": (lambda s: s.recv(100000), "the peer closed the connection"),
                 "silent": (lambda s: s.makefile("rb").read(), "is connected, but ")}

    def stranger(self, says):
        """The address of a server that does this with each connection."""
        def serve():
            while True:
                try:
                    connection = server.accept()[0]
                except OSError:
                    return  # it is closed
                threading.Thread(target=one, args=(connection,), daemon=True).start()

        def one(connection):
            with connection, contextlib.suppress(OSError):
                says(connection)

        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        self.addCleanup(server.shutdown, socket.SHUT_RD)
        threading.Thread(target=serve, daemon=True).start()
        return "127.0.0.1:%d" % server.getsockname()[1]

    def test_what_is_no_ps_on_the_address_of_a_ps_stands_in_the_last_line(self):
        ended = []
        for name, (says, why) in self.STRANGERS.items():
            of = [f"--ps_hosts={self.stranger(says)}", f"--worker_hosts={','.join(self.addresses(2))}", "--job_name=worker"]
            ended += [(why, self.start(WORKER, f"{name}-{i}", *of, f"--task_index={i}", keys={"timeouts.start_s": 2},
                                       out=self.tmp / name)) for i in (0, 1)]
        for why, process in ended:
            self.assertRegex(process.wait(1).last_line(), rf"was not available for \d s \(timeouts.start_s\): .*{re.escape(why)}")

    def test_a_ps_that_never_comes_back_ends_all_with_the_reason(self):
        ps, workers, _, _ = self.cluster(2, 2, keys={"training.epochs": 100000, "timeouts.ps_rejoin_s": 2})
        for worker in workers:
            worker.until_said("generation 1")
        ps[1].process.kill()
        for p in (*workers, ps[0]):
            p.wait(1)
            self.assertIn("ps 1 was not available for 2 s (timeouts.ps_rejoin_s)", p.last_line())
        self.assertIn(": Connection refused", workers[0].last_line())  # the process that connected
        s = self.summary()
        self.assertEqual((s["status"], s["exit_code"]), ("failed", 1))
        self.assertIn("ps 1 was not available", s["error"])

    def test_a_worker_whose_ps_and_chief_stay_away_gives_up_by_itself(self):
        ps, workers, _, _ = self.cluster(1, 2, keys={"training.epochs": 100000, "timeouts.ps_rejoin_s": 2})
        workers[1].until_said("generation 1")
        for p in (workers[0], ps[0]):
            p.process.kill()
        workers[1].wait(1)
        self.assertIn("ps 0 was not available for 2 s (timeouts.ps_rejoin_s): Connection refused", workers[1].last_line())
        self.assertIn("the job may be done", workers[1].last_line())

    def test_a_chief_that_is_silent_is_left_for_the_one_that_shards_have_heard_of(self):
        ps, workers, _, chief = self.cluster(1, 2, keys={"training.epochs": 100000})
        workers[1].until_said("generation 1")
        workers[0].process.send_signal(signal.SIGSTOP)  # its connections stay, as after a loss of power
        (other,) = self.addresses(1)
        self.start(WORKER, "chief", "--job_name=worker", "--task_index=0", *(h.replace(chief, other) for h in self.hosts),
                   keys={"training.epochs": 100000}, out=self.tmp / "other").until_said("generation 2")
        workers[1].until_said("generation 2")

    def test_a_ps_without_a_chief_ends_too(self):
        a, b = self.addresses(2)
        ps = self.start(PS, "ps", "--job_name=ps", "--task_index=0", f"--ps_hosts={a}", f"--worker_hosts={b}",
                        keys={"timeouts.start_s": 1}).wait(1)
        self.assertRegex(ps.last_line(), r"no chief for \d s \(timeouts.start_s\)")

    def says(self, address, data):
        """Sends it to what listens there, as soon as something does."""
        def sent():
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(address.split(":")) as s:
                s.sendall(data)
                return True
        self.until(f"{address} listens", sent)

    def test_a_ps_without_a_chief_says_whom_it_has_refused(self):
        keys = {"timeouts.start_s": 2}
        for name, secret in (("secret", "0123456789abcdef" * 2), ("other", "f" * 32)):
            (self.tmp / name).write_text(secret + "\n")
        of = [[f"--ps_hosts={ps}", f"--worker_hosts={chief}", "--task_index=0"] for ps, chief in [self.addresses(2) for _ in range(3)]]
        ps = [self.start(PS, f"ps-{i}", "--job_name=ps", *of[i], *flags, keys=keys, out=self.tmp / f"out-{i}")
              for i, flags in enumerate(([f"--token_file={self.tmp}/secret"], [], []))]
        chief = self.start(WORKER, "chief", "--job_name=worker", f"--token_file={self.tmp}/other", *of[0], keys=keys)
        self.says(of[1][0].split("=")[1], b"\x16\x03\x01\2\0\1" + b"\0" * 32)
        self.says(of[2][0].split("=")[1], b"x" * 64)
        for p, why in zip(ps, ("another token than the job's: ", "it uses TLS, but this process was started without --tls_cert",
                               "magic 0x78787878, not a gradwire peer")):
            self.assertRegex(p.wait(1).last_line(),
                             rf"no chief for \d s \(timeouts.start_s\); the last process that was refused: .*{re.escape(why)}")
        self.assertIn("ps 0 refused: another token than the job's", chief.wait(1).last_line())

    def test_another_jobs_ps_is_refused_naming_both(self):
        ps, chief = self.addresses(2)
        of = [f"--ps_hosts={ps}", f"--worker_hosts={chief}", "--task_index=0"]
        first = self.start(PS, "first", "--job_name=ps", *of)
        for keys, texts in (({"training.seed": 4}, ("training.seed was 1, is 4",)),
                            ({"name": "other"}, ("a process of job other connected to a ps of job mnist-mlp",))):
            got = self.start(WORKER, "second", "--job_name=worker", *of, keys={**keys, "timeouts.start_s": 2},
                             out=self.tmp / "second").wait(1)
            for text in ("ps 0 belongs to another job", *texts):
                self.assertIn(text, got.last_line())
        self.start(WORKER, "chief", "--job_name=worker", *of).wait(0)  # its own chief finds it as it was
        first.wait(0)
        self.assertEqual(self.summary()["digest"], self.undisturbed())

    # ---- lists that differ ----

    def test_a_worker_whose_list_of_ps_differs_is_named_by_the_chief_and_does_not_end_with_0(self):
        for wrong, reached, words in ((lambda of: of[::-1], 1, "{1} as ps 0 (2 ps in all), ps 1 has {0} (2 in all)"),
                                      (lambda of: of[:1], 0, "nothing as ps 1 (1 ps in all), ps 0 has {1} (2 in all)")):
            self.out = self.tmp / f"out-{reached}"
            hosts = self.addresses(4)
            of = ["--job_name=worker", f"--worker_hosts={hosts[2]}"]  # it waits for no other
            good = f"--ps_hosts={','.join(hosts[:2])}"
            ps = [self.start(PS, f"ps-{i}", "--job_name=ps", f"--task_index={i}", good) for i in (0, 1)]
            worker = self.start(WORKER, "wrong", "--task_index=1", of[0], f"{of[1]},{hosts[3]}", f"--ps_hosts={','.join(wrong(hosts[:2]))}")
            ps[reached].until_said("is refused: the lists of ps differ")
            chief = self.start(WORKER, "chief", "--task_index=0", *of, good)
            self.all_done(chief, *ps)
            said = "the lists of ps differ: worker 1 has " + words.format(*hosts)
            self.assertIn(f"the job has ended without this worker: ps 0 refused: {said}", worker.wait(2).last_line())
            self.assertIn(f"ps {reached} refuses a process: {said}", chief.log())

    def test_a_list_of_more_workers_than_the_chief_has_is_said_and_its_worker_trains(self):
        hosts = self.addresses(3)
        of = dict(keys={"training.epochs": 100000})
        listed = ["--job_name=worker", f"--ps_hosts={hosts[0]}"]
        self.start(PS, "ps", "--job_name=ps", "--task_index=0", f"--ps_hosts={hosts[0]}", **of)
        chief = self.start(WORKER, "chief", "--task_index=0", f"--worker_hosts={hosts[1]}", *listed, **of)
        worker = self.start(WORKER, "second", "--task_index=1", f"--worker_hosts={hosts[1]},{hosts[2]}", *listed, **of)
        chief.until_said("the lists of workers differ: worker 1 has 2 of them, the chief 1;")
        worker.until_said("generation 1")

    def test_a_chief_whose_list_of_ps_differs_ends_with_the_reason_and_so_do_the_ps(self):
        keys = {"timeouts.start_s": 2}
        hosts = self.addresses(3)
        ps = self.start(PS, "ps", "--job_name=ps", "--task_index=0", f"--ps_hosts={hosts[0]}", keys=keys)
        chief = self.start(WORKER, "chief", "--job_name=worker", "--task_index=0", f"--ps_hosts={hosts[0]},{hosts[1]}",
                           f"--worker_hosts={hosts[2]}", keys=keys).wait(1)
        differ = "the lists of ps differ: the chief has "
        self.assertIn(differ, chief.last_line())
        self.assertIn(differ, ps.wait(1).last_line())

    # ---- the token ----

    def test_processes_that_hold_a_token_train_and_who_lacks_it_is_told(self):
        secret = self.tmp / "secret"
        secret.write_text("0123456789abcdef0123456789abcdef\n")
        ps, chief = self.addresses(2)
        of = [f"--ps_hosts={ps}", f"--worker_hosts={chief}", "--task_index=0"]
        keys = {"timeouts.start_s": 7}
        with_token = self.start(PS, "ps", "--job_name=ps", f"--token_file={secret}", *of)
        got = self.start(WORKER, "bare", "--job_name=worker", *of, keys=keys, out=self.tmp / "bare").wait(1)
        self.assertIn("the job's token is required: --token_file=FILE or --token_fd=N", got.last_line())
        (self.tmp / "wrong").write_text("f" * 32 + "\n")
        got = self.start(WORKER, "wrong", "--job_name=worker", f"--token_file={self.tmp}/wrong", *of,
                         keys={"timeouts.start_s": 2}, out=self.tmp / "bare").wait(1)
        self.assertIn("ps 0 refused: another token than the job's", got.last_line())
        self.start(WORKER, "worker", "--job_name=worker", f"--token_file={secret}", *of).wait(0)
        with_token.wait(0)
        self.assertEqual(self.summary()["digest"], self.undisturbed())
        bare = self.start(PS, "bare-ps", "--job_name=ps", *of)
        got = self.start(WORKER, "other", "--job_name=worker", f"--token_file={secret}", *of, keys=keys,
                         out=self.tmp / "other").wait(1)
        self.assertIn("it does not request the job's token", got.last_line())
        bare.stop()

    def test_a_lone_worker_needs_no_token_and_takes_one(self):
        (self.tmp / "secret").write_text("0123456789abcdef0123456789abcdef\n")
        self.start(WORKER, "alone", f"--token_file={self.tmp}/secret").wait(0)
        self.assertEqual(self.summary()["digest"], self.undisturbed())

    # ---- processes of another job ----

    def pester(self, addresses, stop):
        """Talks nonsense to the addresses until told to stop; returns how often somebody hung up on it."""
        junk = (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(4096), b"\0" * 4096, b"", b"GRW1",
                # a frame's header: right magic, a head of 4 GiB; a body of 2^63 bytes
                b"GRW1" + struct.pack("<HHIIQ", 1, 1, 0xffffffff, 0, 0),
                b"GRW1" + struct.pack("<HHIIQ", 1, 1, 8, 0, 1 << 63) + b"\xff" * 8)
        hung_up = 0
        while not stop.is_set():
            for address in addresses:
                host, port = address.split(":")
                for said in junk:
                    try:
                        with socket.create_connection((host, int(port)), timeout=1) as s:
                            s.sendall(said)
                            s.shutdown(socket.SHUT_WR)
                            if select.select([s], [], [], 1)[0]:
                                hung_up += s.recv(1) == b""
                    except OSError:
                        hung_up += 1
        self.hung_up = hung_up

    def test_garbage_on_the_ports_of_the_ps_and_the_chief_disturbs_nobody(self):
        keys = {"data.synthetic_train_rows": 8000, "training.epochs": 4}
        ps, workers, ps_at, chief_at = self.cluster(1, 2, keys=keys)
        workers[0].until_said("generation 1")
        stop = threading.Event()
        thread = threading.Thread(target=self.pester, args=((ps_at, chief_at), stop))
        thread.start()
        try:
            s = self.all_done(*workers, *ps)
        finally:
            stop.set()
            thread.join()
        self.assertGreater(self.hung_up, 0)
        self.assertEqual((s["digest"], s["status"]), (self.undisturbed(keys=keys), "done"))

    def test_told_to_go_at_any_moment_of_its_start_a_process_ends_with_143(self):
        for _ in range(5):
            for p in (*(c := self.cluster(1, 1, keys={"training.epochs": 100000}))[0], *c[1]):
                self.until(lambda p=p: f"takes SIGTERM:\n{p.log()}", lambda p=p: p.takes(signal.SIGTERM))
                p.process.send_signal(signal.SIGTERM)
                p.wait(143)

    def test_told_to_go_before_its_main_it_ends_with_143(self):
        """As the image's entrypoint leaves it: the signal waits until somebody handles it."""
        def leave_it_pending():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            os.kill(os.getpid(), signal.SIGTERM)
        for program in (PS, WORKER):
            held = subprocess.Popen([program], stderr=subprocess.DEVNULL, preexec_fn=leave_it_pending)
            self.assertEqual(held.wait(DEADLINE_S), 143)

    @unittest.skipIf(SHORT or SANITIZED, "the launcher's tests have it")
    def test_a_cluster_told_to_go_ends_with_143_and_goes_on(self):
        keys = {"data.synthetic_train_rows": 8000, "training.epochs": 4}
        ps, workers, _, _ = self.cluster(2, 2, keys=keys)
        for worker in workers:
            worker.until_said("generation 1")
        for p in (*ps, *workers):
            p.process.send_signal(signal.SIGTERM)
        for p in (*ps, *workers):
            p.wait(143)
            self.assertNotIn("the grace of", p.log())
        self.assertIn("a checkpoint with everything learned is published", ps[0].log())
        ps, workers, _, _ = self.cluster(1, 3, keys=keys)
        self.assertEqual(self.all_done(*workers, *ps)["digest"], self.undisturbed(keys=keys))


if __name__ == "__main__":
    unittest.main()
