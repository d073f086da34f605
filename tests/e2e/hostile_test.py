#!/usr/bin/env python3
# labels: short
"""A peer that sends anything wrong: the process that receives it closes that connection, logs why, and still serves the others.

Random messages come from a seed that is printed; HOSTILE_SEED replays one."""
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from certificates import Certificates  # noqa: E402
from cluster import DEADLINE_S, LAUNCH, MODEL, PS, SANITIZED, TSAN, WORKER, Case, Process, TrainCase, free_ports, slow  # noqa: E402
from watch import places  # noqa: E402

SEED = int(os.environ.get("HOSTILE_SEED", random.SystemRandom().randrange(1 << 32)))
ROUNDS = 150 if SANITIZED else 400
HEADER = struct.Struct("<IHHIIQ")
MAGIC = 0x31575247
HELLO, HELLO_REPLY, REFUSE, ENTER, ENTERED, PUSH, REPLY, PULL = 1, 2, 3, 10, 11, 20, 21, 22
CUT, CUT_AT, CUT_ENDED, FENCE, LEASE_NOTE = 30, 32, 35, 36, 38
WELCOME, LEASE_ASK, HELD, GOING, DONE, DONE_ACK, VITALS = 50, 52, 55, 57, 59, 60, 61
ARRIVAL = 4  # a role in HELLO
EDGES = (0, 1, 2, 63, 64, 4095, 4096, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


def varint(n):
    out = b""
    while n > 127:
        out += bytes((n & 127 | 128,))
        n >>= 7
    return out + bytes((n,))


class Fixed64(int):
    """A number whose wire type is fixed64."""


def message(fields):
    """{number: value or list of values} -> protobuf: int, float (32 bits), Fixed64, str, bytes, dict."""
    out = b""
    for number, values in fields.items():
        for v in values if isinstance(values, list) else [values]:
            if isinstance(v, Fixed64):
                out += varint(number << 3 | 1) + struct.pack("<Q", v)
            elif isinstance(v, int):
                out += varint(number << 3) + varint(v % 2**64)
            elif isinstance(v, float):
                out += varint(number << 3 | 5) + struct.pack("<f", v)
            else:
                v = message(v) if isinstance(v, dict) else v.encode() if isinstance(v, str) else v
                out += varint(number << 3 | 2) + varint(len(v)) + v
    return out


def frame(kind, head=b"", body=b""):
    head = message(head) if isinstance(head, dict) else head
    return HEADER.pack(MAGIC, 1, kind, len(head), 0, len(body)) + head + body


class Peer:
    """A connection that speaks frames, well or badly."""

    def __init__(self, port):
        self.s = socket.create_connection(("127.0.0.1", port), 30)
        self.s.settimeout(30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()

    def send(self, data):
        try:
            self.s.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def exactly(self, n):
        got = b""
        while len(got) < n:
            more = self.s.recv(n - len(got))
            if not more:
                raise EOFError
            got += more
        return got

    def hear(self):
        """(type, head, body) of the next frame."""
        magic, _, kind, head, _, body = HEADER.unpack(self.exactly(HEADER.size))
        assert magic == MAGIC
        return kind, self.exactly(head), self.exactly(body)

    def hear_kind(self, wanted):
        while (got := self.hear())[0] != wanted:
            pass
        return got

    def until_closed(self):
        try:
            while self.s.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass


def fields_of(data):
    """The fields of a protobuf head, the other way: {number: value}, submessages as bytes."""
    out, i = {}, 0

    def number():
        nonlocal i
        n = shift = 0
        while True:
            b = data[i]
            i += 1
            n |= (b & 127) << shift
            shift += 7
            if b < 128:
                return n
    while i < len(data):
        key = number()
        if key & 7 == 0:
            value = number()
        elif key & 7 == 1:
            value, i = Fixed64(struct.unpack_from("<Q", data, i)[0]), i + 8
        elif key & 7 == 5:
            value, i = struct.unpack_from("<f", data, i)[0], i + 4
        else:
            n = number()
            value, i = data[i:i + n], i + n
        out[key >> 3] = value
    return out


JOB = """name: hostile
model:
  input: {shape: [28, 28]}
  layers:
    - flatten
    - dense: {units: 10}
  loss: {sparse_categorical_crossentropy: {from_logits: true}}
data: {format: synthetic, scale: 255, synthetic_train_rows: 64}
optimizer: sgd
training: {epochs: 1, batch_size: 8, microbatches: 2, learning_rate: 0.1, update: %s}
ps: {threads: 1}
"""
ELEMS = 8192  # 8 chunks of 1024
GENERATION = {1: 1, 2: Fixed64(77)}


def plan(**over):
    tensor = {1: "w", 2: [ELEMS], 3: 0, 4: ELEMS, 5: 0}
    return {1: over.get("tensors", [tensor]), 2: over.get("elems", ELEMS), 3: over.get("threads", [1])}


def settings(update):
    return {1: update, 2: 0, 3: 0.5, 9: 1, 10: 2, 11: 8, 12: 8, 13: 1, 14: 0}


def enter(update=0, **over):
    return {**{1: GENERATION, 2: "u" * 36, 3: 0, 4: plan(), 5: settings(update)}, **over.get("fields", {})}


class PsCase(Case):
    """A ps by hand, and what a real worker's hello to it says."""

    UPDATE = "sync"
    FLAGS = ()

    def setUp(self):
        super().setUp()
        print(f"HOSTILE_SEED={SEED}", end=" ", flush=True)
        self.random = random.Random(SEED)
        self.job = self.tmp / "hostile.yaml"
        self.job.write_text(JOB % self.UPDATE)
        self.port = free_ports(1)[0]
        self.hosts = f"127.0.0.1:{self.port}"
        self.hello = self.hello_of_a_worker()
        self.ps = Process(self, [PS, "--job_name=ps", "--task_index=0", f"--ps_hosts={self.hosts}",
                                 f"--job={self.job}", f"--output={self.out}", *self.FLAGS], "ps",
                          {**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1",
                           "TSAN_OPTIONS": "allocator_may_return_null=1"})

        def listens():
            try:
                Peer(self.port).s.close()
                return True
            except ConnectionRefusedError:
                return False
        self.until("the ps listens", listens)

    def hello_of_a_worker(self):
        with socket.create_server(("127.0.0.1", self.port)) as server:
            server.settimeout(DEADLINE_S)
            worker = Process(self, [WORKER, "--job_name=worker", "--task_index=1", f"--ps_hosts={self.hosts}",
                                    "--worker_hosts=127.0.0.1:1,127.0.0.1:2", f"--job={self.job}",
                                    f"--output={self.out}"], "worker")
            hello = {5: ARRIVAL}
            while hello[5] == ARRIVAL:  # which may have ended before it said so
                peer = Peer.__new__(Peer)
                peer.s = server.accept()[0]
                with peer, contextlib.suppress(EOFError, ConnectionResetError):
                    kind, head, _ = peer.hear()
                    self.assertEqual(kind, HELLO)
                    hello = fields_of(head)
            worker.stop()
        del hello[50]  # its checksum: a Peer speaks without
        return hello

    def a_hello(self, **fields):
        numbers = {"uuid": 4, "role": 5, "worker": 6, "incarnation": 7, "generation": 8, "shard": 9,
                   "ps_index": 10, "hosts": 11, "chief": 12}
        return {**self.hello, **{numbers[k]: v for k, v in fields.items()}}

    def chief(self, reply=True):
        peer = Peer(self.port)
        peer.send(frame(HELLO, self.a_hello(role=0, worker=0, shard=-1, chief="127.0.0.1:9")))
        if reply:
            self.assertEqual(peer.hear()[0], HELLO_REPLY)
        self.addCleanup(peer.s.close)
        return peer

    def worker(self, worker=1, incarnation=1):
        peer = Peer(self.port)
        peer.send(frame(HELLO, self.a_hello(worker=worker, incarnation=incarnation, generation=GENERATION, shard=0)))
        self.assertEqual(peer.hear()[0], HELLO_REPLY)
        self.addCleanup(peer.s.close)
        return peer

    def still_serves(self):
        self.assertIsNone(self.ps.process.poll(), self.ps.log())
        self.chief().s.close()

    def entered(self):
        chief = self.chief()
        chief.send(frame(ENTER, enter(1 if self.UPDATE == "async" else 0)))
        kind, head, _ = chief.hear()
        self.assertEqual((kind, fields_of(head).get(3, b"")), (ENTERED, b""))
        return chief

    def mutate(self, fields, depth=2):
        """Some fields of a head become what nobody expects."""
        out = dict(fields)
        for number in list(out):
            luck = self.random.random()
            if luck < 0.2:
                del out[number]
            elif luck < 0.5 and isinstance(out[number], int):
                out[number] = type(out[number])(self.random.choice(EDGES))
            elif luck < 0.5 and isinstance(out[number], dict) and depth:
                out[number] = self.mutate(out[number], depth - 1)
            elif luck < 0.3:
                out[number] = self.random.choice((b"", b"\x00", b"\xff" * 40, "%s%n", [], [1, 2, 3] * 100))
        return out


class Bytes(PsCase):
    def test_garbage_before_the_hello_closes_that_connection_alone(self):
        hello = frame(HELLO, self.a_hello(role=0, shard=-1))
        bad = [b"GET / HTTP/1.1\r\nHost: ps\r\n\r\n", os.urandom(4096), HEADER.pack(0, 1, HELLO, 0, 0, 0),
               HEADER.pack(MAGIC, 2, HELLO, 0, 0, 0), HEADER.pack(MAGIC, 1, 0, 0, 0, 0),
               HEADER.pack(MAGIC, 1, 999, 0, 0, 0), HEADER.pack(MAGIC, 1, HELLO, 2**32 - 1, 0, 0),
               HEADER.pack(MAGIC, 1, HELLO, 0, 1, 0), HEADER.pack(MAGIC, 1, HELLO, 0, 0, 2**64 - 1),
               HEADER.pack(MAGIC, 1, HELLO, 0, 0, 4) + b"body", frame(HELLO, b"\xff" * 64), frame(HELLO),
               frame(ENTER, enter()), frame(PUSH), hello + hello, hello + frame(PUSH, {}, b"1234"),
               hello + frame(CUT, b"\xff")]
        for data in bad:
            with Peer(self.port) as peer:
                peer.send(data)
                peer.until_closed()
        self.still_serves()

    def test_hellos_of_others_are_refused(self):
        for fields in ({1: "9.9"}, {2: "another\n2026-01-01T00:00:00.000Z info ps 0: false"}, {3: b""}, {3: b"x" * 32}, {3: b"x" * 4000}, {10: 7}, {11: []},
                       {11: [b"x" * 300] * 100}, {9: 4096}, {9: 2**62}, {5: 0, 6: 2}, {1: b"\xff\xfe%n" * 300, 2: b"%s" * 900}):
            with Peer(self.port) as peer:
                peer.send(frame(HELLO, {**self.a_hello(shard=0), **fields}))
                self.assertEqual(peer.hear()[0], REFUSE, fields)
                peer.until_closed()
        self.still_serves()
        self.assertIn("of job another?2026", self.ps.log())


class Chief(PsCase):
    def test_orders_that_make_no_sense_are_answered_or_closed(self):
        orders = [{}, {1: GENERATION}, enter(fields={4: {}}), enter(fields={5: {}}), enter(fields={2: "u" * 5000}),
                  enter(fields={4: plan(threads=[])}), enter(fields={4: plan(threads=[0])}),
                  enter(fields={4: plan(threads=[2**32 - 1] * 3)}), enter(fields={4: plan(elems=0)}),
                  enter(fields={4: plan(elems=2**40, tensors=[])}), enter(fields={4: plan(elems=2**63, tensors=[])}),
                  enter(fields={4: plan(tensors=[{}])}), enter(fields={4: plan(tensors=[{1: "w", 4: ELEMS}] * 2)}),
                  enter(fields={4: plan(tensors=[{1: "w" * 9999, 2: [ELEMS], 4: ELEMS}])}),
                  enter(fields={4: plan(tensors=[{1: "w", 2: [2**16] * 5, 4: ELEMS}])}),
                  enter(fields={4: plan(tensors=[{1: "w", 2: [ELEMS], 3: 2**64 - 1, 4: ELEMS}])}),
                  *(enter(fields={5: {**settings(0), k: v}}) for k in (2, 10, 12, 14) for v in (3, 0, 4096, 2**32 - 1)),
                  enter(fields={3: 1, 6: 2**64 - 1}), enter(fields={3: 2}), enter(fields={3: 99})]
        chief = self.chief()
        for number, order in enumerate(orders, 1):
            if 1 in order:
                order[1] = {1: number, 2: Fixed64(number)}
            chief.send(frame(ENTER, order))
            try:
                self.assertEqual(chief.hear()[0], ENTERED, order)
            except (EOFError, ConnectionResetError):
                chief = self.chief()
        self.still_serves()

    def test_random_orders_leave_it_serving(self):
        chief, generation = self.chief(), 1
        for _ in range(ROUNDS):
            kind = self.random.choice((ENTER, CUT, CUT_AT, CUT_ENDED, FENCE, LEASE_NOTE))
            ranges = [{1: self.random.choice(EDGES), 2: self.random.choice(EDGES)} for _ in range(self.random.choice((1, 9, 5000)))]
            now = {1: generation, 2: Fixed64(77)}
            head = {ENTER: {**enter(), 1: {1: generation + 1, 2: Fixed64(77)}}, CUT: {1: now, 2: 5},
                    CUT_AT: {1: now, 2: 5, 3: 0}, CUT_ENDED: {1: now, 2: 5, 3: 1},
                    FENCE: {1: now, 2: 1, 3: 9}, LEASE_NOTE: {1: now, 2: 1, 3: ranges}}[kind]
            if kind == ENTER:
                generation += 1
            elif self.random.random() < 0.7:
                head = self.mutate(head)
            chief.send(frame(kind, head))
            if self.random.random() < 0.1:
                chief.s.close()
                chief = self.chief()
        self.still_serves()


class Worker(PsCase):
    PUSH = {1: GENERATION, 2: 0, 3: 0, 4: 0, 5: 8, 6: 0, 7: 8}

    def push(self, fields, body, **who):
        with self.worker(**who) as peer:
            peer.send(frame(PUSH, fields, body))
            peer.send(frame(PULL, {1: GENERATION, 2: 1}))
            try:
                while True:
                    kind, head, got = peer.hear()
                    if kind == REPLY and fields_of(head).get(8):
                        self.assertEqual(len(got), 4 * ELEMS)
                        return True
            except (EOFError, ConnectionResetError):
                return False

    def test_pushes_beyond_the_plan_close_that_connection_alone(self):
        self.entered()
        whole = bytes(4 * ELEMS)
        self.assertTrue(self.push(self.PUSH, whole))
        for fields, body in (({7: 9}, whole), ({6: 8}, whole), ({6: 2**32 - 1, 7: 2}, whole), ({7: 0}, b""),
                             ({7: 2**32 - 1}, whole), ({}, whole[4:]), ({}, b""), ({8: 3}, whole), ({2: 2**64 - 1}, whole),
                             ({3: 9}, whole), ({3: 1, 4: 1}, whole), ({3: 2**32 - 1, 4: 2**32 - 1}, whole),
                             ({10: struct.pack("<9d", *range(9))}, whole)):
            if self.UPDATE == "async" and set(fields) & {3, 4}:
                continue  # nodes are sync's
            self.assertFalse(self.push({**self.PUSH, **fields}, body), fields)
        self.still_serves()

    def test_a_push_of_another_generation_is_refused_and_the_connection_stays(self):
        self.entered()
        for generation in ({}, {1: 2, 2: Fixed64(77)}, {1: 1, 2: Fixed64(78)}):
            self.assertTrue(self.push({**self.PUSH, 1: generation, 7: 77}, b"\x00" * 12345))

    def test_half_a_push_holds_up_nobody_and_its_workers_next_process_takes_its_place(self):
        self.entered()
        whole = frame(PUSH, self.PUSH, struct.pack("<f", 1) * ELEMS)
        silent = self.worker()
        silent.send(whole[:len(whole) // 2])
        self.assertTrue(self.push({**self.PUSH, 1: {1: 9}}, b"\x00" * 12345, worker=0))  # heard and refused: it serves
        self.assertTrue(self.push(self.PUSH, whole[-4 * ELEMS:], incarnation=2))  # and what was half has changed nothing
        silent.until_closed()

    def test_random_pushes_and_pulls_leave_it_serving(self):
        self.entered()
        peer = self.worker()
        for _ in range(ROUNDS):
            first = self.random.randrange(8)
            count = self.random.randrange(1, 9 - first)
            head = {**self.PUSH, 3: self.random.randrange(2), 6: first, 7: count, 2: self.random.randrange(3)}
            kind = self.random.choice((PUSH, PUSH, PULL))
            head = head if kind == PUSH else {1: GENERATION, 2: self.random.randrange(2), 3: self.random.randrange(4)}
            if self.random.random() < 0.3:
                head = self.mutate(head)
            body = self.random.randbytes(4096 * count) if kind == PUSH and self.random.random() < 0.95 else b""
            peer.send(frame(kind, head, body))
            if self.random.random() < 0.2:
                peer.s.close()
                peer = self.worker(self.random.randrange(4))
        self.still_serves()

    def test_who_never_reads_costs_what_the_limits_say(self):
        self.entered()
        with self.worker() as deaf:
            deaf.s.setblocking(False)
            pull = frame(PULL, {1: GENERATION, 2: 1})
            try:
                for _ in range(100000):
                    deaf.s.send(pull)
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass
            self.still_serves()
        rss = int(pathlib.Path(f"/proc/{self.ps.process.pid}/statm").read_text().split()[1]) * 4096
        self.assertLess(rss, (8 if SANITIZED else 2) << 28)


class AsyncWorker(Worker):
    UPDATE = "async"


class Guests(TrainCase):
    """Unauthenticated peers at the ports of a job that runs: they do not change its result."""

    def test_a_job_with_strangers_at_its_ports_ends_as_it_would_have(self):
        rng = random.Random(SEED)
        print(f"HOSTILE_SEED={SEED}", end=" ", flush=True)
        keys = {"training.epochs": 20}
        undisturbed = self.undisturbed(keys=keys)
        job = self.launch("--ps=2", "--workers=2", keys=keys)
        job.until("it listens", lambda: job.stderr().count(" on 127.0.0.1:") >= 4)
        ports = [int(line.rsplit(":", 1)[1]) for line in job.stderr().splitlines() if " on 127.0.0.1:" in line]
        heads = [b"", b"\xff" * 9, message({1: GENERATION, 2: [{1: a, 2: b} for a in EDGES for b in EDGES]}),
                 message({1: "0.1", 2: "mnist-mlp", 3: b"x" * 32, 6: 2**32 - 1, 9: -1})]
        stop = threading.Event()

        def strangers():
            while not stop.is_set():
                try:
                    with Peer(rng.choice(ports)) as peer:
                        peer.send(frame(rng.choice((HELLO, LEASE_ASK, HELD, GOING, DONE_ACK, WELCOME, 59)), rng.choice(heads)))
                        peer.until_closed()
                except OSError:
                    pass
        thread = threading.Thread(target=strangers)
        thread.start()
        try:
            job.wait(0)
        finally:
            stop.set()
            thread.join()
        self.assertEqual(job.summary()["digest"], undisturbed)


def client_hello():
    """The first record of a TLS handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(received, sent).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return sent.read()


CLIENT_HELLO = client_hello()
GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
GARBAGE = {
    "random bytes": bytes(random.Random(SEED).randbytes(5000)),
    "zeros": bytes(70000),
    "a record of no length": b"\x16\x03\x01\x00\x00" * 50,
    "a record that is too long": b"\x16\x03\x01\xff\xff" + bytes(70000),
    "a record that is longer than it says": CLIENT_HELLO[:3] + b"\x00\x04" + CLIENT_HELLO[5:],
    "a handshake that is longer than its record": CLIENT_HELLO[:6] + b"\xff\xff\xff" + CLIENT_HELLO[9:] * 30,
    "data before the handshake": b"\x17\x03\x03\x00\x05hello",
    "alerts": b"\x15\x03\x01\x00\x02\x01\x00" * 100,
    "two hellos": CLIENT_HELLO * 2,
    "SSL 2": b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + bytes(37),
    "a request": GET + b"\r\n",
    "a frame": frame(HELLO, {1: "0.1", 2: "mnist-mlp", 3: b"x" * 32}),
    "a frame of any length": HEADER.pack(MAGIC, 1, HELLO, 2**32 - 1, 0, 2**64 - 1) + bytes(70000),
    "a request without an end": GET + b"A: " + b"a" * 70000,
    "headers without an end": GET + b"".join(b"H%d: x\r\n" % i for i in range(9000)),
    "a body of any length": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % 2**63 + bytes(70000),
    "a negative body": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    "chunks of any length": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + bytes(70000),
    "a path of any length": b"GET /" + b"%2e/" * 20000 + b" HTTP/1.1\r\n\r\n",
}
HALF = {"nothing": b"", "half a handshake": CLIENT_HELLO[:len(CLIENT_HELLO) // 2], "a handshake that does not go on": CLIENT_HELLO,
        "half a request": GET, "half a frame": HEADER.pack(MAGIC, 1, HELLO, 100, 0, 0)[:13]}


class Strangers:
    """Sends garbage to ports until stop(); holds connections open, `idle` of them at each port."""

    def __init__(self, test, ports, idle):
        self.idle, self.held, self.done, self.over = idle, [], set(), threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(port,)) for port in ports]
        for thread in self.threads:
            thread.start()
        test.addCleanup(self.stop)

    def say(self, port, data):
        try:
            with Peer(port) as peer:
                peer.s.settimeout(10)
                peer.send(data)
                peer.s.shutdown(socket.SHUT_WR)
                peer.until_closed()
        except OSError:
            pass  # it was closed before, or is no longer there

    def hold(self, port, data):
        try:
            peer = Peer(port)
            self.held.append(peer)
            peer.s.setblocking(False)
            peer.s.send(data)
        except OSError:
            pass

    def run(self, port):
        for i in range(self.idle):
            self.hold(port, [*HALF.values()][i % len(HALF)])
        while not self.over.is_set():
            for data in GARBAGE.values():
                if self.over.is_set():
                    return
                self.say(port, data)
            self.done.add(port)

    def all_have_been(self):
        return len(self.done) == len(self.threads)

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        for peer in self.held:
            peer.s.close()


@unittest.skipIf(TSAN, "its threads are tried above")
class Ports(Certificates, TrainCase):
    """Garbage at each port of a job: TLS or not, HTTP or not. The job ends as it would have, within its memory and descriptors,
    and its logs stay short."""
    DESCRIPTORS, IDLE = 160, 60
    LIMITED = "prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"

    def setUp(self):
        super().setUp()
        print(f"HOSTILE_SEED={SEED}", end=" ", flush=True)

    def memory(self, pid):
        """The most that it has had, in MB."""
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) >> 10

    def flood(self, ports, pids, stopped):
        """Sends all to all ports, while a worker stands still, so that the job lasts."""
        os.kill(stopped, signal.SIGSTOP)
        before = {pid: self.memory(pid) for pid in pids}
        strangers = Strangers(self, ports, self.IDLE)
        self.until("each garbage has been at each port", strangers.all_have_been)
        for pid in pids:
            self.assertLess(len(os.listdir(f"/proc/{pid}/fd")), self.DESCRIPTORS)
            self.assertLess(self.memory(pid) - before[pid], 256 if SANITIZED else 32)
        return strangers

    def logs_are_short(self, texts):
        """Each line has our form, and the lines that the garbage causes are few."""
        for name, text in texts.items():
            lines = text.splitlines()
            for line in lines:
                self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\S+Z (info|warn|error) [a-z]+( \d+)?: ", name)
            caused = [line for line in lines if "127.0.0.1:" in line or " more " in line]
            spans = {line[:18] for line in caused}  # of 10 s
            self.assertLess(len(caused), 3 * 20 * (2 + len(spans)), name)  # LOG_BURST of each kind

    def job_with_strangers(self, *flags):
        """A job on this host. Its ps and its chief accept connections; all its processes but worker 1, which stands still,
        answer HTTP."""
        job = self.launch("--ps=2", "--workers=2", "--evaluator", *flags, *slow(0.03), before=self.LIMITED)
        job.until("all are there, and have pages", lambda: len(places(self.out)) == 5 and len(self.pids()) >= 5)
        job.until_said("worker-0", "generation 1")
        ports = [int(p) for p in re.findall(r"launcher: (?:ps \d|worker 0): pid \d+ on 127\.0\.0\.1:(\d+)", job.stderr())]
        ports += [int(at.rsplit(":", 1)[1]) for name, at in places(self.out).items() if name != "worker-1"]
        self.assertEqual(len(ports), 7)
        pids = {name: pid for name, pid in self.pids().items() if "launcher" not in name}
        strangers = self.flood(ports, pids.values(), pids["worker-1"])
        job.kill("worker-1")  # the next one comes through the crowd
        job.wait(0)
        strangers.stop()
        self.logs_are_short({name: job.log(name) for name in pids})
        return job.summary()["digest"]

    def test_garbage_at_each_port_of_a_job_changes_nothing(self):
        self.assertEqual(self.job_with_strangers(), self.undisturbed())

    def test_garbage_at_each_port_of_a_job_with_tls_changes_nothing(self):
        self.make_ca("ca")
        self.make("all", "IP:127.0.0.1,DNS:localhost")
        self.assertEqual(self.job_with_strangers(*self.tls("all")), self.undisturbed())

    def test_garbage_at_the_launchers_page_of_a_job_on_hosts_changes_nothing(self):
        rsh = self.tmp / "rsh"
        rsh.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
        rsh.chmod(0o755)
        (self.tmp / "hosts").write_text("127.0.0.1\n")
        job = self.launch(f"--hosts={self.tmp}/hosts", f"--rsh={rsh}", "--workers=2", "--ps=1", *slow(0.03), before=self.LIMITED)
        job.until("the page is there", lambda: places(self.out).get("worker-0"))
        job.until_said("worker-0", "generation 1")
        port = int(places(self.out)["worker-0"].rsplit(":", 1)[1])
        strangers = self.flood([port], [job.process.pid], self.pids()["worker-1"])
        job.kill("worker-1")
        job.wait(0)
        strangers.stop()
        self.assertEqual(job.summary()["digest"], self.undisturbed())

    def test_garbage_at_a_rank_that_waits_for_the_others_changes_nothing(self):
        keys = {"training.epochs": 40}  # time to stop a worker
        command = [*self.LIMITED, LAUNCH, "rank", self.JOB, f"--output={self.out}", "--address=127.0.0.1", "--ps=1",
                   *self.sets(keys)]

        def rank(i):
            return Process(self, command, f"rank{i}", {**os.environ, "SLURM_PROCID": str(i), "SLURM_NTASKS": "3", "SLURM_JOB_ID": "5"})
        first, port = rank(0), lambda i: (file := self.out / f"rendezvous/slurm-5-0-0/{i}").exists() and int(
            file.read_text().splitlines()[0].rsplit(":", 1)[1])
        early = Strangers(self, [self.until("rank 0 has a port", lambda: port(0))], self.IDLE)
        self.until("they wait there", lambda: len(early.held) == self.IDLE)
        others = [rank(i) for i in (1, 2)]
        others[0].until_said("generation 1")
        chief = self.until("rank 1 has a port", lambda: port(1))
        strangers = self.flood([chief], [first.process.pid, others[0].process.pid], others[1].process.pid)
        self.until("each has been at the ps, too", early.all_have_been)
        others[1].process.send_signal(signal.SIGCONT)
        for process in (first, *others):
            process.wait(0)
        strangers.stop()
        early.stop()
        self.assertEqual(self.summary()["digest"], self.undisturbed(keys=keys))
        self.logs_are_short({process.log_path.name: process.log() for process in (first, *others)})


def zstd(*flags, data):
    flags = flags or [f"--stream-size={len(data)}"]
    return subprocess.run(["zstd", "-q", "-c", *flags], input=data, capture_output=True, check=True).stdout


def packed(numbers):
    return b"".join(map(varint, numbers))


def unpacked(data):
    numbers, n, shift = [], 0, 0
    for byte in data:
        n |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(n)
            n = shift = 0
    return numbers


class CheckpointFile:
    """A file of a checkpoint: magic, frames, a protobuf head, a tail of the head's size, its CRC and the magic."""

    def __init__(self, path):
        self.path, data = path, path.read_bytes()
        self.magic, n = data[:8], struct.unpack("<I", data[-16:-12])[0]
        self.head, self.frames = fields_of(data[-16 - n:-16]), data[8:-16 - n]

    def write(self):
        """With checksums that are right. Returns the bytes of the file, and the CRC of its head."""
        head = message(self.head)
        data = self.magic + self.frames + head + struct.pack("<II", len(head), zlib.crc32(head)) + self.magic
        self.path.write_bytes(data)
        return len(data), zlib.crc32(head)


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class Checkpoints(TrainCase):
    """A ps, or whoever can write to its storage, makes a checkpoint with right checksums that asks for too much, or for what it
    should not have: each program refuses it, names it and stays small."""
    MORE = [f"--set={k}={v}" for k, v in {**TrainCase.KEYS, "training.epochs": 2}.items()]

    def setUp(self):
        super().setUp()
        self.train("--ps=1", "--workers=1", keys={"ps.threads": 1})
        *older, self.cut = sorted((self.out / "checkpoints").glob("cut-*"))
        for cut in older:  # to which a job would go back
            shutil.rmtree(cut)
        self.files = {path: path.read_bytes() for path in self.cut.iterdir()}
        (self.tmp / "shard-0.gw").write_bytes(self.files[self.cut / "shard-0.gw"])

    def frame(self, shard, change):
        """Puts change(its values) in place of the first frame."""
        sizes = unpacked(shard.head[8])
        data = change(zstd("-d", data=shard.frames[:sizes[0]]))
        shard.frames = data + shard.frames[sizes[0]:]
        shard.head[8] = packed([len(data), *sizes[1:]])
        shard.head[9] = struct.pack("<I", zlib.crc32(data)) + shard.head[9][4:]

    def make(self, manifest=None, file=None, head=None, frame=None):
        """The checkpoint with these fields of its manifest, of the manifest's entry for its shard, and of the shard's head; and
        the shard's first frame as `frame` makes it of the values."""
        for path, data in self.files.items():
            path.write_bytes(data)
        m, shard = CheckpointFile(self.cut / "manifest.gw"), CheckpointFile(self.cut / "shard-0.gw")
        entry = fields_of(m.head[20])
        if frame:
            self.frame(shard, frame)
        shard.head.update(head or {})
        size, crc = shard.write()
        entry.update({4: size, 5: struct.unpack("<f", struct.pack("<I", crc))[0], **(file or {})})
        m.head.update({20: entry, **(manifest or {})})
        m.write()

    def ends(self, code, says, *command):
        child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.tmp)
        said = child.stdout.read()
        child.stdout.close()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, code, said)
        self.assertIn(says, said)
        self.assertLess(used.ru_maxrss >> 10, 2000 if SANITIZED else 400)

    def train_more(self, says):
        self.ends(1, says, LAUNCH, "train", self.JOB, *self.MORE, f"--output={self.out}")

    def refused(self, says, **changes):
        self.make(**changes)
        self.ends(2, says, MODEL, "evaluate", self.cut)
        self.ends(2, says, MODEL, "predict", self.cut, f"--output={self.tmp}/scores.csv")
        if "frame" not in changes:  # doctor reads no values
            self.ends(2, says, WORKER, "--doctor", f"--job={self.JOB}", *self.MORE, f"--output={self.out}")
        self.train_more(says)
        self.assertFalse((self.tmp / "scores.csv").exists())

    def test_checkpoints_that_ask_for_too_much_are_refused_by_all_who_read_them(self):
        self.refused("manifest.gw: corrupt", file={1: "../../../shard-0.gw"})
        self.refused("manifest.gw: corrupt", file={3: 2**63})
        self.refused("shard-0.gw: corrupt", file={4: 2**64 - 1})
        self.refused("manifest.gw: corrupt", manifest={9: 2**64 - 1}, file={3: 2**64 - 1})
        self.refused("corrupt", manifest={9: 2**47}, file={3: 2**47}, head={5: 2**47})
        self.refused("manifest.gw: corrupt", manifest={10: 2**32 - 1})
        self.refused("shard-0.gw: corrupt", head={8: packed([2**64 - 1])})
        self.refused("shard-0.gw: corrupt", head={7: 2**31})
        self.refused("shard-0.gw: corrupt", frame=lambda plain: zstd(data=plain)[:-9])
        self.refused("shard-0.gw: corrupt", frame=lambda plain: zstd("--ultra", "-20", data=bytes(300 << 20)))
        self.refused("shard-0.gw: corrupt", frame=lambda plain: zstd("--stream-size=%d" % (300 << 20), data=bytes(300 << 20)))

    def test_values_that_are_no_numbers_do_not_train_on(self):
        self.make(frame=lambda plain: zstd(data=b"\x01\x00\xc0\x7f" * (len(plain) // 4)))
        self.ends(0, "loss nan", MODEL, "evaluate", self.cut)
        self.train_more("not finite")


if __name__ == "__main__":
    unittest.main(verbosity=2)
