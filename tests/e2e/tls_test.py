#!/usr/bin/env python3
# labels: short
# runs with others
"""TLS between real processes: what is learned is the same, whoever is killed; who has another name, another CA or no TLS
is refused, and both sides say why."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from certificates import Certificates  # noqa: E402
from cluster import PS, SANITIZED, TSAN, WORKER, Process, TrainCase, command_line, free_ports  # noqa: E402
from watch import metrics, text  # noqa: E402


class TlsTest(Certificates, TrainCase):
    def setUp(self):
        super().setUp()
        self.make_ca("ca")
        self.make("all", "IP:127.0.0.1,DNS:localhost")

    def start(self, program, name, *flags, keys={}):
        return Process(self, [program, f"--job={self.JOB}", f"--output={self.out}", *self.sets(keys), *flags], name)

    def of(self, worker_host="127.0.0.1", workers=1):
        ps, *ports = free_ports(1 + workers)
        return [f"--ps_hosts=127.0.0.1:{ps}", "--worker_hosts=" + ",".join(f"{worker_host}:{p}" for p in ports)]

    def status(self, name):
        address = next(line.split()[2] for line in (self.out / "processes/http").read_text().splitlines()
                       if line.split()[:2] == name.split("-"))
        return json.loads(text(address, "/status") or "{}")

    def test_a_ps_and_a_worker_are_killed_and_the_digest_is_that_without_tls(self):
        keys = {"data.synthetic_train_rows": 4000, "training.epochs": 4 if SANITIZED else 12, "checkpoint.every_steps": 20,
                "checkpoint.every_seconds": 0}
        job = self.launch(*self.tls("all"), keys=keys)
        job.until_cut(1)
        job.kill("ps-1")
        job.until_said("worker-0", "generation", times=2)
        tls = job.until("ps-0 has the chief's connection, and data of both workers", lambda: (
            tls := self.status("ps-0").get("tls")) and tls["connections"] >= 3 and tls)
        self.assertEqual((tls["names"], sum(tls["refused"].values())), ("IP:127.0.0.1, DNS:localhost", 0))
        self.assertNotIn(b"PRIVATE", command_line(job.pids()["ps-0"]))
        job.kill("worker-1")
        job.wait(0)
        self.assertEqual(job.summary()["restarts"], 2)
        self.assertEqual(job.summary()["digest"], self.undisturbed(keys=keys))

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_who_is_not_who_it_says_to_be_is_refused_and_both_say_so(self):
        self.make_ca("other")
        self.make("address", "IP:127.0.0.1")
        self.make("stranger", "IP:127.0.0.1,DNS:localhost", ca="other")
        of, keys = self.of("localhost"), {"timeouts.start_s": 2}
        ps = self.start(PS, "ps", *of, "--job_name=ps", "--task_index=0", *self.tls("all"))
        role = [*of, "--job_name=worker", "--task_index=0"]
        for flags, at_ps, at_worker in (
                (self.tls("address"), ["it claims to be the chief", "names IP:127.0.0.1; expected: localhost"],
                 ["names IP:127.0.0.1; expected: localhost"]),
                (self.tls("stranger"), ["issued by CN=other) is not valid"],
                 ["it refuses our certificate (IP:127.0.0.1, DNS:localhost): unknown CA"]),
                (self.tls("stranger", ca="other"), ["it refuses our certificate (IP:127.0.0.1, DNS:localhost): unknown CA"],
                 ["issued by CN=ca) is not valid"]),
                ([], ["it does not use TLS: was it started without --tls_cert?"],
                 ["it uses TLS, but this process was started without --tls_cert"])):
            with self.subTest(flags=flags):
                worker = self.start(WORKER, "worker", *role, *flags, keys=keys).wait(1)
                for text in ["ps 0 was not available for 2 s", *at_worker] if flags != self.tls("address") else at_worker:
                    self.assertIn(text, worker.last_line())
                for text in at_ps:
                    self.assertIn(text, ps.log())
        self.start(WORKER, "worker", *role, *self.tls("all")).wait(0)  # which finds the ps as it was
        ps.wait(0)
        self.assertEqual(self.summary()["digest"], self.undisturbed())

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_an_idle_worker_and_an_evaluator_take_new_certificates_and_tell_of_them(self):
        http = free_ports(2)
        for i, role in enumerate((["--job_name=worker", "--task_index=1", "--when_done=wait"], ["--job_name=evaluator"])):
            self.start(WORKER, f"waits-{i}", *self.of(workers=2), *role, f"--http_port={http[i]}",
                       "--http_address=127.0.0.1", *self.tls("all"), keys={"timeouts.start_s": 1 if i == 0 else 60})

        def tell(names):
            def told():
                said = [json.loads(text(f"127.0.0.1:{port}", "/status") or "{}") for port in http]
                return all((s.get("tls") or {}).get("names") == names for s in said) and said
            return self.until(f"both tell of {names}", told)
        self.until("the worker is idle", lambda: tell("IP:127.0.0.1, DNS:localhost")[0]["state"] == "idle")
        self.make("all", "IP:127.0.0.1,DNS:renewed")
        for s in tell("IP:127.0.0.1, DNS:renewed"):
            self.assertGreater(s["tls"]["reloads"], 0)
        for port in http:
            self.assertTrue(metrics(f"127.0.0.1:{port}")("gradwire_tls_certificate_expires_timestamp_seconds"))

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_tls_to_a_plain_ps_and_files_that_do_not_fit_are_named(self):
        of = self.of()
        ps = self.start(PS, "ps", *of, "--job_name=ps", "--task_index=0")
        role = [*of, "--job_name=worker", "--task_index=0"]
        worker = self.start(WORKER, "worker", *role, *self.tls("all"), keys={"timeouts.start_s": 2}).wait(1)
        self.assertIn("it closed the connection instead of starting TLS: was it started without --tls_cert?", worker.last_line())
        self.assertIn("it uses TLS, but this process was started without --tls_cert", ps.log())
        ps.stop()
        self.make("next", "IP:127.0.0.1")
        for flags, says in ((self.tls("all")[:2], "--tls_ca is not; TLS needs all three"),
                            ([self.tls("all")[0], self.tls("next")[1], self.tls("all")[2]],
                             f"--tls_key={self.tmp}/next.key: it is not the key of the certificate in {self.tmp}/all.crt"),
                            (self.tls("nobody"), "nobody.crt: No such file or directory")):
            for program, role_flags in ((PS, ["--job_name=ps"]), (WORKER, ["--job_name=worker"])):
                got = self.start(program, "wrong", *of, "--task_index=0", *role_flags, *flags).wait(2)
                self.assertIn(says, got.last_line())
            self.assertIn(says, self.launch(*flags).wait(2).stderr())

    def test_a_ca_that_has_not_signed_the_certificate_ends_train_before_anything_starts(self):
        self.make_ca("other")
        self.make("client", "IP:127.0.0.1", usage="clientAuth")
        for flags, why in ((self.tls("all", ca="other"), "does not verify it: unable to get local issuer certificate; give"),
                           (self.tls("client"), "create it without extended key usage, or with server auth and client auth")):
            said = self.launch(*flags).wait(2).stderr()
            self.assertIn(why, said)
        self.assertFalse((self.out / "processes/ps-0.log").exists())


if __name__ == "__main__":
    unittest.main()
