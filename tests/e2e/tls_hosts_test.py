#!/usr/bin/env python3
# labels: short
# runs with others
"""TLS on several hosts, which are network namespaces of the test's own: each has a certificate for its address alone,
under the same path as the others. `train --hosts`, and ranks of srun."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import certificates as certs  # noqa: E402
from cluster import LAUNCH, SANITIZED, TSAN, Process, TrainCase, kernels  # noqa: E402
from netns import Hosts  # noqa: E402

FLAGS = ["--tls_cert=tls/own.crt", "--tls_key=tls/own.key", "--tls_ca=tls/ca.crt"]


@unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
class TlsHostsTest(TrainCase):
    PROGRAMS = True

    def setUp(self):
        super().setUp()
        self.hosts = Hosts(self, 3)
        certs.make_ca(self.tmp)
        self.folders = [self.tmp / f"host-{i}" for i in range(3)]
        for i, folder in enumerate(self.folders):
            folder.mkdir()
            self.certificate(i, f"IP:{self.hosts.address(i)}")

    def certificate(self, i, names, **options):
        folder = self.folders[i] / "tls"
        folder.mkdir(exist_ok=True)
        (folder / "ca.crt").write_bytes((self.tmp / "ca.crt").read_bytes())
        certs.make(self.tmp, "own", names, **options)
        for name in ("own.crt", "own.key"):
            (self.tmp / name).rename(folder / name)

    def file(self, roles):
        path = self.tmp / "hosts"
        path.write_text("".join(f"{self.hosts.address(i)} workdir={folder} {roles.get(i, '')}\n"
                                for i, folder in enumerate(self.folders)))
        return path

    def on_hosts(self, *flags, roles={}, **options):
        # a path below the present folder: below the workdir there
        absolute = [flag.replace("=", f"={self.folders[0]}/") for flag in FLAGS]
        return self.launch(f"--hosts={self.file(roles)}", f"--rsh={self.hosts.rsh()}", "--ps=2", "--workers=3", *absolute,
                           *flags, cwd=self.folders[0], **options)

    def test_hosts_with_a_certificate_each_train_and_say_nothing_in_the_clear(self):
        keys = {"data.synthetic_train_rows": 3000, "training.epochs": 3 if SANITIZED else 12, "checkpoint.every_steps": 10,
                "checkpoint.every_seconds": 0}
        # a frame's four bytes can occur by chance in so much encrypted data, but not where a packet begins
        listening = [self.hosts.record(0, heard) for heard in (lambda payload: payload.startswith(b"GRW1"),
                                                               lambda payload: b"mnist-mlp" in payload,
                                                               lambda payload: b"\x17\x03\x03" in payload)]
        got = self.on_hosts(keys=keys)
        got.until_cut(1)
        got.until_pid("worker-2", other_than=got.kill("worker-2"))
        got.wait(0)
        s = self.summary()
        self.assertEqual((s["digest"], s["restarts"]), (self.undisturbed(keys=keys), 1))
        for process in ("ps-0", "ps-1", "worker-0"):
            self.assertIn("TLS: ", got.log(process))
        frames, names, records = (heard.got for heard in listening)
        self.assertEqual(([p[:64] for p in frames], names, bool(records)), ([], [], True))

    def test_what_is_wrong_with_a_hosts_certificate_is_told_with_its_line_before_anything_starts(self):
        (self.folders[0] / "tls/own.key").unlink()
        self.certificate(1, f"IP:{self.hosts.address(2)}")
        self.certificate(2, f"IP:{self.hosts.address(2)}", days=0)
        said = self.on_hosts().wait(2).stderr().splitlines()
        for i, text in enumerate((f"--tls_key={self.folders[0]}/tls/own.key: No such file or directory",
                                  f"--tls_cert={self.folders[1]}/tls/own.crt: it names IP:{self.hosts.address(2)}; "
                                  f"expected: {self.hosts.address(1)}, the host that others connect to",
                                  f"--tls_cert={self.folders[2]}/tls/own.crt: it expired on ")):
            self.assertTrue([line for line in said if f":{i + 1}: {self.hosts.address(i)}: {text}" in line], said)
        self.assertFalse((self.out / "processes/ps-0.log").exists())

    def test_a_host_of_another_ca_ends_the_start_at_once_and_names_it(self):
        certs.make_ca(self.tmp, "other")
        self.certificate(1, f"IP:{self.hosts.address(1)}", ca="other")
        (self.folders[1] / "tls/ca.crt").write_bytes((self.tmp / "other.crt").read_bytes())
        said = self.on_hosts(keys={"timeouts.start_s": 40}).wait(2).stderr()
        self.assertRegex(said, "do not accept each other: .*(issued by CN=|it refuses our certificate)")

    def test_a_host_of_the_evaluator_alone_wants_no_certificate_of_its_name(self):
        self.certificate(2, "DNS:nobody.example")  # nobody dials it
        roles = {2: "role=evaluator"}
        self.on_hosts("--evaluator", roles=roles).wait(0)
        self.assertEqual(self.summary()["status"], "done")
        self.certificate(1, "DNS:nobody.example")
        said = self.on_hosts("--evaluator", roles=roles, out=self.tmp / "other").wait(2).stderr()
        self.assertEqual(said.count("it names DNS:nobody.example; expected:"), 1, said)
        self.assertIn(f"expected: {self.hosts.address(1)}", said)

    def rank(self, i, size=3, keys={}):
        env = {**kernels(), "PATH": "/usr/bin:/bin", "SLURM_PROCID": str(i), "SLURM_NTASKS": str(size), "SLURM_JOB_ID": "17"}
        inside = f'cd "{self.folders[i]}" && exec "$@"'
        return Process(self, self.hosts.command(i, "sh", "-c", inside, "sh", LAUNCH, "rank", self.JOB, "--ps=1",
                                                f"--output={self.out}", f"--address={self.hosts.address(i)}", *FLAGS,
                                                *self.sets(keys)), f"rank-{i}", env)

    def test_ranks_with_a_certificate_each_train(self):
        for i, folder in enumerate(self.folders):
            (folder / "tls/own.key").chmod(0o644 if i == 1 else 0o600)
        ranks = [self.rank(i) for i in range(3)]
        for r in ranks:
            r.wait(0)
            self.assertIn("TLS: ", r.log())
        self.assertEqual([r.log().count("every user of this host can read the key") for r in ranks], [0, 1, 0])
        self.assertEqual(self.summary()["digest"], self.undisturbed())

    def test_a_rank_whose_certificate_has_another_name_says_so_at_once(self):
        self.certificate(1, "DNS:elsewhere.example")
        r = self.rank(1).wait(2)
        self.assertIn(f"--tls_cert=tls/own.crt: it names DNS:elsewhere.example; expected: {self.hosts.address(1)}",
                      r.last_line())


if __name__ == "__main__":
    unittest.main()
