#!/usr/bin/env python3
# runs with others
"""doctor: each check prints ok, or names the fault and the fix; it exits with 2 if a check failed."""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import certificates as certs  # noqa: E402
from cluster import LAUNCH, PS, WORKER, Case, Process, TrainCase, free_ports  # noqa: E402
import hostile_test as wire  # noqa: E402

JOB = """name: patient
model:
  input: {shape: [4]}
  layers: [{dense: {units: %(units)d, activation: relu}}, {dense: {units: 2}}]
  loss: {sparse_categorical_crossentropy: {from_logits: true}}
data:
  format: csv
  train: rows-*.csv
  columns: [{number: a}, {number: b}, {number: c}, {number: d}, {label: y}]
optimizer: sgd
training: {batch_size: 8, learning_rate: 0.1, microbatches: 2, epochs: 1}
%(more)s"""
CLICKS = """name: clicks
model:
  input: {shape: auto}
  layers:
    - linear: {inputs: hour, name: w}
    - embedding: {inputs: ad, output_dim: 512, name: e}
    - dense: {inputs: e, units: 1}
    - add: [w, dense]
    - sigmoid
  loss: binary_crossentropy
data: {format: csv, train: clicks.csv, columns: [key: ad, key: hour, label: clicked]}
optimizer: sgd
training: {batch_size: 1000, learning_rate: 0.1, epochs: 1}
"""
CHECKS = ["version", "cluster", "job", "data", "token", "certificates", "names", "port", "peers", "versions", "clocks",
          "memory", "checkpoint", "grace"]


class DoctorTest(TrainCase):
    def setUp(self):
        super().setUp()
        self.job = self.tmp / "patient.yaml"
        self.write_job()
        for i in range(2):
            rows = "".join(f"{k % 7},{k % 5},{k % 3},{k},{k % 2}\n" for k in range(40))
            (self.tmp / f"rows-{i}.csv").write_text(rows)
        self.ports = free_ports(3)
        self.token = self.tmp / "token"
        self.token.write_text("0123456789abcdef0123456789abcdef")
        self.token.chmod(0o600)

    def write_job(self, units=4, more=""):
        self.job.write_text(JOB % {"units": units, "more": more})

    def cluster(self, role, index, ps=None):
        hosts = ps or [f"127.0.0.1:{self.ports[0]}"]
        return [f"--job_name={role}", f"--task_index={index}", "--ps_hosts=" + ",".join(hosts),
                f"--worker_hosts=127.0.0.1:{self.ports[1]},127.0.0.1:{self.ports[2]}"]

    def doctor(self, *flags, code=0, env=None, job=True):
        """{check: (verdict, text)}"""
        words = [WORKER, "--doctor", *([f"--job={self.job}"] if job else []), f"--output={self.out}", *flags]
        got = subprocess.run(list(map(str, words)), capture_output=True, text=True, cwd=self.tmp,
                             env=env or {k: v for k, v in os.environ.items() if k != "TF_CONFIG"})
        self.assertEqual(got.returncode, code, got.stdout + got.stderr)
        lines = {}
        *found, end = got.stdout.splitlines()
        self.assertTrue(end.startswith("The job cannot start: " if code else "The job can start"), end)
        for line in found:
            verdict, name, text = line.split(None, 2)
            lines[name.rstrip(":")] = (verdict, text)
        self.assertEqual("FAIL" in [v for v, _ in lines.values()], code == 2, got.stdout)
        return lines

    def says(self, lines, name, verdict, *texts):
        self.assertEqual(lines[name][0], verdict, lines)
        for text in texts:
            self.assertIn(text, lines[name][1])

    def test_its_help_is_its_own(self):
        got = subprocess.run([str(WORKER), "--doctor", "--help"], capture_output=True, text=True, timeout=60)
        self.assertEqual(got.returncode, 0, got.stderr)
        for what in ("Usage: gradwire doctor [JOB]", "--json", "--certificates=", "--job=FILE", "Exit codes: 0"):
            self.assertIn(what, got.stdout)

    def test_a_lone_worker_finds_all_that_it_needs(self):
        lines = self.doctor()
        self.assertEqual(list(lines), ["version", "cluster", "job", "data", "memory", "checkpoint", "grace"])
        self.assertEqual({v for v, _ in lines.values()}, {"ok"}, lines)
        self.says(lines, "data", "ok", "2 files, 80 rows")
        self.says(lines, "cluster", "ok", "on this host alone")
        self.assertFalse(self.out.exists())  # it changes nothing
        self.assertEqual(list(self.tmp.glob(".gradwire-doctor*")), [])

    def test_json_has_the_same_for_machines(self):
        got = subprocess.run([WORKER, "--doctor", "--json", f"--job={self.job}", "--task_index=9", "--job_name=worker",
                              "--ps_hosts=a:1", "--worker_hosts=b:1"], capture_output=True, text=True, cwd=self.tmp)
        self.assertEqual(got.returncode, 2)
        said = json.loads(got.stdout)
        self.assertFalse(said["ok"])
        cluster = next(c for c in said["checks"] if c["check"] == "cluster")
        self.assertEqual(cluster["verdict"], "fail")
        self.assertIn("worker 9", cluster["found"])

    def test_without_a_job_the_cluster_is_looked_at(self):
        lines = self.doctor(job=False)
        self.says(lines, "job", "warn", "no job file is given")
        self.assertNotIn("memory", lines)

    def test_a_wrong_tf_config_and_a_lone_ps(self):
        env = dict(os.environ, TF_CONFIG="nonsense")
        self.says(self.doctor(code=2, env=env), "cluster", "FAIL", "TF_CONFIG")
        outside = '{"cluster": {"ps": ["127.0.0.1:1"]}, "task": {"type": "ps", "index": 3}}'
        self.says(self.doctor(code=2, env=dict(os.environ, TF_CONFIG=outside)), "cluster", "FAIL", "this is ps 3")

    def test_a_wrong_job_file_and_data_that_are_wrong_or_missing(self):
        self.says(self.doctor("--set=training.epoch=3", code=2), "job", "FAIL", "training.epochs")
        (self.tmp / "rows-1.csv").write_text("1,2,3,4\n")
        wrong = self.doctor(code=2)
        self.says(wrong, "data", "FAIL", "rows-1.csv:1: it has 4 fields")
        self.assertNotIn("volume", wrong["data"][1])
        (self.tmp / "rows-1.csv").write_text("1,2,3,4,0\n1,2,3,x,0\n")
        self.says(self.doctor(code=2), "data", "FAIL", "rows-1.csv:2: ")
        for path in self.tmp.glob("rows-*.csv"):
            path.unlink()
        self.says(self.doctor(code=2), "data", "FAIL", "no file matches", "is the volume mounted")
        self.says(self.doctor(*self.cluster("ps", 0)), "data", "ok", "a ps reads none")

    def test_a_category_of_very_many_words_is_a_warning_that_names_key(self):
        clicks = self.tmp / "clicks.csv"
        text = CLICKS.replace("key: ad, key: hour", "category: ad, category: {name: hour, encode: id}")
        layers = "[embedding: {inputs: hour, input_dim: 5000, output_dim: 2}, flatten, {dense: {units: 1, activation: sigmoid}}]"
        self.job.write_text(text[:text.index("  layers:")] + f"  layers: {layers}\n" + text[text.index("  loss:"):])
        for words, verdict in ((999, "ok"), (1000, "warn")):
            clicks.write_text("".join(f"a{i % words},h{i % 2000},{i % 2}\n" for i in range(4000)))
            lines = self.doctor()
            self.says(lines, "data", verdict)
        self.says(lines, "data", "warn", "column ad has 1000 words, and a row has a feature for each of them: as - key: ad")
        self.assertNotIn("column hour has", lines["data"][1])

    def test_what_leaves_nothing_to_learn_is_a_warning(self):
        for path in self.tmp.glob("rows-*.csv"):
            path.write_text("1,2,3,4,1\n" * 40)
        self.says(self.doctor(), "data", "warn", "data.train: all rows have the label 1: from one class alone nothing can be learned")
        for path in self.tmp.glob("rows-*.csv"):
            path.write_text("1,2,3,4,1\n4,3,2,1,0\n" * 40)
        self.says(self.doctor("--set=model.layers=[dense: 3]"), "data", "warn",
                  "data.train: no row has the class 2, of the classes 0 to 2: it cannot be learned")
        self.says(self.doctor("--set=training.warmup_steps=1000"), "data", "warn", "training.warmup_steps: 1000, but the job has ")
        self.says(self.doctor("--set=optimizer={adamw: {exclude_from_weight_decay: [biass]}}"), "data", "warn",
                  'optimizer: exclude_from_weight_decay: no tensor or table has "biass" in its name; there are: dense')
        layers = "--set=model.layers=[batch_normalization, dense: 2]"
        self.says(self.doctor(layers, "--set=training.batch_size=2"), "job", "warn",
                  "batch_normalization takes its mean and variance from microbatches of 1 row (training.batch_size 2, microbatches 2)")
        self.says(self.doctor(layers), "job", "ok")

    def test_labels_that_the_model_does_not_have_are_found_where_the_data_say_its_shape(self):
        self.job.write_text(self.job.read_text().replace("[4]", "auto"))
        (self.tmp / "rows-1.csv").write_text("1,2,3,word,0\n")
        wrong = self.doctor("--set=data.eval=rows-0.csv", code=2)
        self.says(wrong, "data", "FAIL", 'rows-1.csv:1: column "d": "word" is not a number')
        self.assertEqual(wrong["data"][1].count("rows-1.csv:1"), 1)  # the eval part needs the training part
        self.says(wrong, "memory", "warn", "the data, which could not be read")
        (self.tmp / "rows-1.csv").write_text("1,2,3,4,2\n")
        self.says(self.doctor(code=2), "data", "FAIL",
                  'rows-1.csv:1: column "y": label 2, the model has 2 classes (labels 0 to 1)')

    def test_names_that_do_not_resolve_are_not_yet(self):
        lines = self.doctor(*self.cluster("worker", 1, ["no-such-ps.invalid:2222"]))
        self.says(lines, "names", "warn", "ps 0, no-such-ps.invalid:2222, not yet", "timeouts.start_s")

    def test_a_port_that_is_taken_is_told_with_its_holder(self):
        self.says(self.doctor(*self.cluster("ps", 0)), "port", "ok", f"127.0.0.1:{self.ports[0]} can be bound")
        with socket.create_server(("127.0.0.1", self.ports[0])):
            lines = self.doctor(*self.cluster("ps", 0), code=2)
        self.says(lines, "port", "FAIL", f"held by pid {os.getpid()}", "python", "use another port")

    def start_ps(self, *flags):
        ps = Process(self, [PS, f"--job={self.job}", f"--output={self.out}", *self.cluster("ps", 0), *flags], "ps")
        def listens():
            self.assertIsNone(ps.process.poll(), ps.log())
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", self.ports[0])) == 0
        self.until("ps 0 listens", listens)
        return ps

    def test_a_peer_that_is_not_there_yet_and_one_that_would_take_it(self):
        worker = self.cluster("worker", 1)
        self.says(self.doctor(*worker), "peers", "warn", "nothing listens there yet")
        ps = self.start_ps()
        lines = self.doctor(*worker)
        self.says(lines, "peers", "warn", "the chief at", "nothing listens there yet")
        self.says(lines, "versions", "ok", "1 of 2 peers reported theirs, which match")
        self.says(lines, "clocks", "ok", "1 of 2 peers reported theirs")
        self.says(self.doctor(*self.cluster("ps", 0)), "port", "warn", f"held by pid {ps.process.pid}, ps")
        self.assertNotIn("is refused", ps.log())

    def test_a_peer_whose_clock_is_another(self):
        server = socket.create_server(("127.0.0.1", self.ports[0]))
        self.addCleanup(server.close)

        def answer():  # as ps 0 does, an hour ago
            while True:
                try:
                    s = server.accept()[0]
                except OSError:
                    return
                with wire.Peer.__new__(wire.Peer) as peer:
                    peer.s = s
                    try:
                        peer.hear()
                    except EOFError:  # somebody only looked whether it listens
                        continue
                    peer.send(wire.frame(wire.HELLO_REPLY, {11: int((time.time() - 3600) * 1000)}))
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        lines = self.doctor(*self.cluster("worker", 1), code=2)
        self.says(lines, "clocks", "FAIL", "s behind")
        behind = re.search(r"that of ps 0 is (\d+)", lines["clocks"][1])
        self.assertAlmostEqual(int(behind[1]), 3600, delta=60)  # a loaded machine is slow to hear

    def test_a_peer_of_another_job_or_another_token_would_refuse_it(self):
        self.start_ps()
        worker = self.cluster("worker", 1)
        self.says(self.doctor(*worker, "--set=training.seed=7", code=2), "peers", "FAIL", "ps 0 at", "training.seed",
                  "same job file")
        self.says(self.doctor(*worker, "--set=name=other", code=2), "peers", "FAIL", "a process of job other connected to a ps of job patient")
        self.says(self.doctor(*worker, f"--token_file={self.token}", code=2), "peers", "FAIL", "does not request the job's token")

    def test_a_ps_with_a_token_refuses_who_has_none_or_another(self):
        self.start_ps(f"--token_file={self.token}")
        worker = self.cluster("worker", 1)
        lines = self.doctor(*worker, f"--token_file={self.token}")
        self.says(lines, "token", "ok", str(self.token))
        self.says(lines, "versions", "ok", "1 of 2")
        self.says(self.doctor(*worker, code=2), "peers", "FAIL", "ps 0 at", "token")
        other = self.tmp / "other"
        other.write_text("another token, which is as long")
        other.chmod(0o644)
        lines = self.doctor(*worker, f"--token_file={other}", code=2)
        self.says(lines, "peers", "FAIL", "token")
        self.says(lines, "token", "warn", "every user of this host can read it", "defaultMode: 0440")
        self.assertNotIn(other.read_text(), str(lines))

    def test_a_token_that_is_too_short_or_missing(self):
        self.token.write_text("short")
        self.says(self.doctor(f"--token_file={self.token}", code=2), "token", "FAIL", "at least 16 bytes")
        lines = self.doctor(*self.cluster("worker", 1, ["no-such-ps.invalid:2222"]))
        self.says(lines, "token", "warn", "none: any process that reaches a port can talk to the job", "--token_file")

    def test_an_auth_with_which_it_would_not_start(self):
        self.says(self.doctor("--auth=required", code=2), "certificates", "FAIL", "--auth=required needs a token")
        self.doctor("--auth=required", f"--token_file={self.token}")
        out = self.cluster("ps", 0, [f"0.0.0.0:{self.ports[0]}"])
        self.says(self.doctor(*out, code=2), "port", "FAIL", "which other hosts can reach, without a token")
        self.says(self.doctor(*out, "--auth=none"), "port", "ok", "can be bound")
        self.says(self.doctor(*out, "--auth=none", f"--token_file={self.token}", code=2), "certificates", "FAIL",
                  "--auth=none and a token are both given")
        env = {**{k: v for k, v in os.environ.items() if k != "TF_CONFIG"}, "GRADWIRE_POD": "1"}
        self.says(self.doctor(*out, env=env), "port", "ok", "can be bound")
        self.says(self.doctor(*out, "--auth=required", env=env, code=2), "certificates", "FAIL", "--auth=required")

    def test_memory_that_does_not_suffice(self):
        group = self.tmp / "cgroup"
        group.mkdir()
        (group / "memory.max").write_text(f"{300 << 20}\n")
        (group / "cgroup.controllers").write_text("memory\n")
        flags = [*self.cluster("ps", 0), f"--cgroup_root={group}"]
        self.says(self.doctor(*flags), "memory", "ok", "the cgroup allows 300 MiB")
        self.write_job(units=4 << 20)  # 29 M parameters
        self.says(self.doctor(*flags, code=2), "memory", "FAIL", "the cgroup allows 300 MiB", "take more ps")

    def write_clicks(self, rows, keys):
        self.job.write_text(CLICKS)
        (self.tmp / "clicks.csv").write_text("".join(f"{i * 7 % keys},{i % 9},{i % 2}\n" for i in range(rows)))

    def test_tables_are_estimated_by_the_keys_of_the_data(self):
        self.write_clicks(30000, 5000)
        rows = re.compile(r"about (\d+) rows in 2 tables: about (\S+) MiB of the memory (.*)")
        about, mib, of_whom = rows.match(self.doctor()["tables"][1]).groups()
        self.assertEqual(of_whom, "of a ps")
        self.assertLess(abs(int(about) - 5009), 0.05 * 5009)
        self.assertLess(abs(int(mib) - 2 * 5000 * 512 * 4 / (1 << 20)), 3)  # and as much again for a checkpoint
        job = self.train("--ps=2", "--workers=1", job=self.job, keys=dict.fromkeys(self.KEYS))
        again, _, of_whom = rows.search(job.stderr()).groups()
        self.assertEqual((again, of_whom), (about, "of each of 2 ps"))
        for table, keys in (("w", 9), ("e", 5000)):
            found = (self.out / f"model/tables/{table}.safetensors").read_bytes()
            self.assertEqual(json.loads(found[8:8 + int.from_bytes(found[:8], "little")])["keys"]["shape"], [keys])

    def test_tables_that_will_not_fit(self):
        self.write_clicks(30000, 20000)
        group = self.tmp / "cgroup"
        group.mkdir()
        (group / "memory.max").write_text(f"{300 << 20}\n")
        (group / "cgroup.controllers").write_text("memory\n")
        lines = self.doctor(f"--cgroup_root={group}")
        self.says(lines, "memory", "ok", "the cgroup allows 300 MiB")
        lines = self.doctor(f"--cgroup_root={group}", "--set=model.layers.1.embedding.output_dim=4096", code=2)
        self.says(lines, "memory", "FAIL", "the cgroup allows 300 MiB")
        self.says(self.doctor(*self.cluster("worker", 1)), "memory", "ok")  # its ps have the rows

    def test_a_grace_that_is_too_short(self):
        self.write_job(units=8 << 20, more="timeouts: {grace_s: 1}\n")
        lines = self.doctor(*self.cluster("ps", 0))
        self.says(lines, "grace", "warn", "timeouts.grace_s is 1,", "terminationGracePeriodSeconds")
        lines = self.doctor(*self.cluster("ps", 0), "--set=timeouts.grace_s=60", "--grace_s=1")
        self.says(lines, "grace", "warn", "--grace_s is 1,")

    def test_certificates_that_are_not_there(self):
        lines = self.doctor(f"--certificates={self.tmp}/a.crt,{self.tmp}/a.key,{self.tmp}/ca.crt", code=2)
        self.says(lines, "certificates", "FAIL", "a.crt: No such file")

    def test_each_thing_that_is_wrong_with_certificates_is_named(self):
        certs.make_ca(self.tmp)
        certs.make_ca(self.tmp, "other")
        for name, names, options in (("good", "IP:127.0.0.1", {}), ("soon", "IP:127.0.0.1", {"days": 3}),
                                     ("elsewhere", "DNS:elsewhere.example", {}), ("old", "IP:127.0.0.1", {"days": 0}),
                                     ("server", "IP:127.0.0.1", {"usage": "serverAuth"})):
            certs.make(self.tmp, name, names, **options)
        good, ps, worker = certs.flags(self.tmp, "good"), self.cluster("ps", 0), self.cluster("worker", 1)
        elsewhere = certs.flags(self.tmp, "elsewhere")
        expected = "elsewhere.crt: it names DNS:elsewhere.example; expected: 127.0.0.1"
        for flags, verdict, texts in (
                ([*ps, *good], "ok", ["good.crt, of good, is good until"]),
                ([*ps, *good, "--auth=required"], "ok", ["good.crt"]),
                ([*ps, *good, "--auth=none"], "FAIL", ["--auth=none and a token, or certificates, are both given"]),
                ([*ps, *certs.flags(self.tmp, "soon")], "warn", ["soon.crt expires on", "renew it"]),
                ([*ps, *certs.flags(self.tmp, "old")], "FAIL", ["old.crt: it expired on"]),
                ([*ps, *elsewhere], "FAIL", [expected, "subjectAltName"]),
                ([*worker, *elsewhere], "warn", [expected, "or --tls_names=worker=NAME"]),
                ([*worker, *elsewhere, "--tls_names=worker=elsewhere.example"], "ok", ["elsewhere.crt"]),
                ([*ps, *certs.flags(self.tmp, "good", ca="other")], "FAIL", ["good.crt is not signed by", "other.crt"]),
                ([*ps, *certs.flags(self.tmp, "server")], "FAIL", ["server.crt is not valid for both sides", "client auth"]),
                ([*ps, good[0], f"--tls_key={self.tmp}/soon.key", good[2]], "FAIL",
                 ["soon.key: it is not the key of the certificate in", "good.crt"]),
                ([*ps, *certs.flags(self.tmp, "none")], "FAIL", ["--tls_cert", "none.crt: No such file"]),
                ([*ps, good[0], good[1], f"--tls_ca={self.tmp}/none"], "FAIL", ["--tls_ca", "none: No such file"]),
                ([*ps, *good[:2]], "FAIL", ["--tls_ca is not; TLS needs all three"])):
            with self.subTest(flags=flags):
                self.says(self.doctor(*flags, code=2 if verdict == "FAIL" else 0), "certificates", verdict, *texts)

    def test_a_peer_with_tls_is_asked_under_tls(self):
        certs.make_ca(self.tmp)
        certs.make_ca(self.tmp, "other")
        certs.make(self.tmp, "good", "IP:127.0.0.1")
        certs.make(self.tmp, "strange", "IP:127.0.0.1", ca="other")
        self.start_ps(*certs.flags(self.tmp, "good"))
        worker = self.cluster("worker", 1)
        lines = self.doctor(*worker, *certs.flags(self.tmp, "good"))
        self.says(lines, "token", "ok", "none is needed with TLS")
        self.says(lines, "versions", "ok", "1 of 2 peers reported theirs")
        strange = certs.flags(self.tmp, "strange", ca="other")
        self.says(self.doctor(*worker, *strange, code=2), "peers", "FAIL", "ps 0 at", "issued by CN=ca) is not valid")
        strange[2] = certs.flags(self.tmp, "good")[2]
        self.says(self.doctor(*worker, *strange, code=2), "peers", "FAIL", "it refuses our certificate (IP:127.0.0.1)")
        self.says(self.doctor(*worker, code=2), "peers", "FAIL", "it uses TLS, but this process was started without")

    def test_the_folder_of_checkpoints(self):
        subprocess.run([LAUNCH, "train", self.job, f"--output={self.out}", "--ps=1", "--workers=1"], check=True,
                       capture_output=True, cwd=self.tmp)
        lines = self.doctor()
        self.says(lines, "checkpoint", "ok", "resumes from checkpoint", "format 1")
        self.says(self.doctor("--set=training.seed=7", code=2), "checkpoint", "FAIL", "of another job", "training.seed", "--fresh")
        night = ("--set=checkpoint.run=tuesday", "--set=training.seed=7")
        self.says(self.doctor(*night), "checkpoint", "ok", 'run "tuesday" begins with the weights of checkpoint')
        self.says(self.doctor(*night, "--set=optimizer=adam", code=2), "checkpoint", "FAIL", "which has another model: optimizer")
        manifest = sorted(self.out.glob("checkpoints/*/manifest.gw"))[-1]
        data = bytearray(manifest.read_bytes())
        data[7] = data[-1] = ord("3")
        manifest.write_bytes(data)
        self.says(self.doctor(code=2), "checkpoint", "FAIL", "in format 3", "reads formats 1 to 2", "start that release")

    @unittest.skipIf(os.geteuid() == 0, "root writes everywhere")
    def test_a_folder_that_cannot_be_written(self):
        self.out.mkdir(mode=0o555)
        self.says(self.doctor(code=2), "checkpoint", "FAIL", "cannot be written", "fsGroup")

    def test_a_folder_that_is_none(self):
        self.out.write_text("a file")
        self.says(self.doctor(code=2), "checkpoint", "FAIL", "cannot be written")

    def test_what_failed_is_left_for_kubectl_describe(self):
        words = self.tmp / "words"
        words.write_text("")
        self.doctor("--set=training.epoch=3", f"--termination_message={words}", code=2)
        self.assertRegex(words.read_text(), r"^FAIL job: .*training\.epochs")


del Case, TrainCase
if __name__ == "__main__":
    unittest.main()
