#!/usr/bin/env python3
# labels: short
# runs with others
"""Which processes are served, and how that is shown: --auth, with and without a token, in and outside the image. A token shows
nowhere. 0.0.0.0 plays an address that others reach: it is every address of this host, and a process that connects to it reaches
this host."""
import base64
import json
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, PS, WORKER, Process, TrainCase, free_ports  # noqa: E402
from watch import get, metrics  # noqa: E402

ENTRYPOINT = BUILD / "k8s/entrypoint"
SECRET = "a-secret-0123456789-of-the-test-abcdef"
MEND = "which other hosts can reach, without a token: give --token_file=FILE"


class AuthCase(TrainCase):
    def setUp(self):
        super().setUp()
        self.ps_at, self.chief_at = (f"0.0.0.0:{port}" for port in free_ports(2))
        self.of = ["--task_index=0", f"--ps_hosts={self.ps_at}", f"--worker_hosts={self.chief_at}"]

    def start(self, program, name, *flags, keys={}, out=None, env=None):
        return Process(self, [program, f"--job={self.JOB}", f"--output={out or self.out}", *self.sets(keys), *flags],
                       name, {**os.environ, **(env or {})})

    def tf_config(self, role, index=0):
        return {"TF_CONFIG": json.dumps({"cluster": {"ps": [self.ps_at], "worker": [self.chief_at]},
                                         "task": {"type": role, "index": index}})}

    def shown(self, ports, auth):
        """The /status of the process at each of these ports, as soon as it answers."""
        for port in ports:
            at = f"127.0.0.1:{port}"
            status = self.until(f"{at} answers", lambda at=at: (r := get(at, "/status")) and r[0] == 200 and json.loads(r[1]))
            self.assertEqual(status["auth"], auth)
            page = self.until(f"{at} answers", lambda at=at: metrics(at))  # the end of the reading of data cuts answers off
            self.assertEqual(page.samples[("gradwire_auth_info", frozenset({("auth", auth)}))], 1)


class AuthTest(AuthCase):
    def test_without_a_token_only_loopback_is_served(self):
        for program, role in ((PS, "ps"), (WORKER, "worker")):
            for flags, env in (([f"--job_name={role}", *self.of], {}), ([], self.tf_config(role))):
                got = self.start(program, role, *flags, env=env).wait(2)
                self.assertIn(MEND, got.last_line())
                self.assertIn("or --auth=none", got.last_line())

    def test_a_name_in_tf_config_is_all_addresses_and_so_it_is_refused(self):
        self.ps_at = f"localhost.localdomain:{self.ps_at.split(':')[1]}"
        got = self.start(PS, "ps", env=self.tf_config("ps")).wait(2)
        self.assertIn(f"listen on [::]:{self.ps_at.split(':')[1]}, {MEND}".replace("[::]", "[::]"), got.last_line())

    def test_none_serves_everybody_and_shows_it(self):
        ports = free_ports(4)[2:]
        of = [*self.of, "--auth=none"]
        keys = {"training.epochs": 2000}
        ps = self.start(PS, "ps", "--job_name=ps", f"--http_port={ports[0]}", *of, keys=keys)
        worker = self.start(WORKER, "worker", "--job_name=worker", f"--http_port={ports[1]}", *of, keys=keys)
        self.shown(ports, "none")
        worker.until_said("generation 1")
        for p in worker, ps:
            p.process.send_signal(signal.SIGTERM)
        for p in worker, ps:
            p.wait(143)
            self.assertNotRegex(p.log(), "warn .*auth: none")

    def test_in_the_image_a_pod_is_served_with_one_warning(self):
        port = free_ports(3)[2]
        keys = {"training.epochs": 2000}
        ps = self.start(ENTRYPOINT, "ps", f"--http_port={port}", keys=keys, env=self.tf_config("ps"))
        worker = self.start(ENTRYPOINT, "worker", keys=keys, env=self.tf_config("worker"))
        worker.until_said("generation 1")
        self.shown([port], "none")
        for p in worker, ps:
            p.process.send_signal(signal.SIGTERM)
        for p in worker, ps:
            p.wait(143)
            self.assertEqual(p.log().count("auth: none"), 1, p.log())
            self.assertRegex(p.log(), r"warn \w+ 0: auth: none: every process that reaches 0.0.0.0:")

    def test_the_image_without_tf_config_is_no_pod(self):
        got = self.start(ENTRYPOINT, "ps", "--job_name=ps", *self.of, env={"GRADWIRE_POD": "1"}).wait(2)
        self.assertIn(MEND, got.last_line())

    def test_a_token_file_that_everybody_can_read_is_a_warning(self):
        secret = self.tmp / "secret"
        secret.write_text(SECRET)
        for mode, says in ((0o644, "can read the token"), (0o642, "can change the token"), (0o640, None), (0o600, None)):
            secret.chmod(mode)
            for program, role in ((PS, "ps"), (WORKER, "worker")):
                got = self.start(program, role, f"--job_name={role}", f"--token_file={secret}", "--set=data.train=/nowhere",
                                 "--set=no.such.key=1", *self.of).wait(2)
                warned = " warn " in got.log()
                self.assertEqual(warned, bool(says), got.log())
                self.assertIn(f"every user of this host {says}; set its mode to 0600 or 0440" if says else "", got.log())

    def test_required_without_a_token_ends_every_role_at_once(self):
        for program, role in ((PS, "ps"), (WORKER, "worker"), (WORKER, "evaluator"), (WORKER, None)):
            flags = [f"--job_name={role}", *self.of] if role else []
            got = self.start(program, role or "alone", "--auth=required", "--set=data.train=/nowhere", *flags).wait(2)
            self.assertIn("--auth=required needs a token: give --token_file=FILE", got.last_line())

    def test_what_contradicts_itself_is_refused(self):
        (self.tmp / "secret").write_text(SECRET)
        got = self.start(PS, "ps", "--job_name=ps", "--auth=none", f"--token_file={self.tmp}/secret", *self.of).wait(2)
        self.assertIn("--auth=none and a token are both given", got.last_line())
        got = self.start(PS, "ps", "--job_name=ps", "--auth=maybe", *self.of).wait(2)
        self.assertIn("'maybe' is not allowed; allowed: auto, required, none", got.last_line())


class SecretTest(AuthCase):
    """Of all places that are searched, only the file contains the token, in any spelling."""

    def spellings(self):
        raw = SECRET.encode()
        return [raw, raw[:16], raw[-16:], raw.hex().encode(), base64.b64encode(raw)[:-4]]

    def lacks(self, what, data):
        for spelling in self.spellings():
            self.assertNotIn(spelling, data, what)

    def test_the_token_is_in_no_page_log_command_line_environment_or_file(self):
        secret = self.tmp / "secret"
        secret.write_text(SECRET + "\n")
        ports = free_ports(5)[2:]
        words = self.tmp / "words"
        keys = {"training.epochs": 2000, "checkpoint.every_steps": 50, "checkpoint.every_seconds": 0}
        of = [*self.of, f"--token_file={secret}", "--auth=required", "--log_level=debug", "--evaluators=1",
              f"--termination_message={words}"]
        started = [self.start(program, role, f"--job_name={role}", f"--http_port={port}", *of, keys=keys)
                   for (program, role), port in zip(((PS, "ps"), (WORKER, "worker"), (WORKER, "evaluator")), ports)]
        bare = self.start(WORKER, "bare", "--job_name=worker", *self.of, "--auth=none", keys={"timeouts.start_s": 1},
                          out=self.tmp / "bare")  # is refused, and the chief logs it
        self.until("a cut", lambda: len(list((self.out / "checkpoints").glob("cut-*/manifest.gw"))) > 1)
        self.until("a result", lambda: (self.out / "eval.json").exists())
        self.shown(ports, "token")
        for port in ports:
            for path in ("/", "/status", "/metrics", "/healthz", "/readyz", "/none"):
                self.lacks(path, get(f"127.0.0.1:{port}", path)[1].encode())
        for p in started:
            for name in ("cmdline", "environ"):
                self.lacks(name, pathlib.Path(f"/proc/{p.process.pid}/{name}").read_bytes())
        bare.stop()
        for p in started:
            p.process.send_signal(signal.SIGTERM)
        for p in started:
            p.wait(143)
        seen = 0
        for path in self.tmp.rglob("*"):
            if path.is_file() and path != secret:
                self.lacks(path, path.read_bytes())
                seen += 1
        self.assertGreater(seen, 10)
        self.assertTrue(words.read_text())


if __name__ == "__main__":
    unittest.main()
