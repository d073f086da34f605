#!/usr/bin/env python3
"""Jobs on several hosts without a launcher: a rank of srun or mpirun, or a script that starts them by hand. The hosts are
network namespaces of the test's own, and srun is played by this test: it starts each rank with what srun tells it."""
import os
import pathlib
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from certificates import Certificates  # noqa: E402
from cluster import LAUNCH, ROOT, Process, TrainCase  # noqa: E402
from netns import Hosts  # noqa: E402

SCRIPT = ROOT / "examples/hosts/start-by-hand.sh"
NAMES = ("SLURM_", "OMPI_", "PMI_", "PMIX_")


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(NAMES)}
    return {**clean, **{k: str(v) for k, v in more.items()}}


def slurm(rank, size, job=17):
    return environment(SLURM_PROCID=rank, SLURM_NTASKS=size, SLURM_JOB_ID=job, SLURM_STEP_ID=0)


class RankTest(Certificates, TrainCase):
    """All on this host."""

    def rank(self, *flags, env, keys={}, before=()):
        return Process(self, [*before, LAUNCH, "rank", self.JOB, f"--output={self.out}", *self.sets(keys), *flags],
                       "rank", env)

    def all(self, size, *flags, env=slurm, **options):
        return [self.rank("--address=127.0.0.1", *flags, env=env(i, size), **options) for i in range(size)]

    def test_under_srun_the_first_ranks_are_ps_and_the_others_workers(self):
        ranks = self.all(5, "--ps=2")
        for r in ranks:
            r.wait(0)
        s = self.summary()
        self.assertEqual((s["digest"], s["ps"], s["workers"]), (self.undisturbed(), 2, 3))
        self.assertIn("info ps 1: the job is done", ranks[1].log())
        token = self.out / "rendezvous/slurm-17-0-0/token"  # of their own, for this user alone
        self.assertEqual((token.stat().st_mode & 0o777, len(token.read_text())), (0o600, 64))
        self.assertIn("info worker 0: generation 1", ranks[2].log())

    def test_status_tells_that_the_last_start_of_ranks_was_done(self):
        for r in self.all(2, "--ps=1"):
            r.wait(0)
        got = subprocess.run([LAUNCH, "status", self.out], stdout=subprocess.PIPE, text=True)
        self.assertEqual((got.returncode, "not running; the last run:\n" in got.stdout), (3, True), got.stdout)

    def test_under_mpirun_too(self):
        def mpi(rank, size):
            return environment(OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE=size, PMIX_NAMESPACE="prterun-1@1",
                               SLURM_PROCID=0, SLURM_NTASKS=1, SLURM_JOB_ID=3)
        for r in self.all(3, "--ps=1", env=mpi):
            r.wait(0)
        self.assertEqual(self.summary()["digest"], self.undisturbed())

    def test_what_a_former_attempt_left_does_no_harm_and_is_removed(self):
        old = self.out / "rendezvous/slurm-16-0-0"
        old.mkdir(parents=True)
        for i in range(3):
            (old / str(i)).write_text("127.0.0.1:1\n")
        os.utime(old, (0, 0))
        for job in (17, 18):  # the second resumes where the first ended
            ranks = self.all(3, "--ps=1", env=lambda rank, size, job=job: slurm(rank, size, job))
            for r in ranks:
                r.wait(0)
            self.assertEqual("nothing was trained: training.epochs is 1, and " in ranks[1].log(), job == 18)
            self.assertEqual([p.name for p in (self.out / "rendezvous").iterdir()], [f"slurm-{job}-0-0"])
        self.assertEqual(self.summary()["digest"], self.undisturbed())

    def test_a_refusal_by_the_chief_alone_that_cannot_heal_ends_the_start_at_once(self):
        self.make_ca("ca")
        self.make("here", "IP:127.0.0.1")
        self.make("friend", "DNS:friend")
        takes = "--tls_names=worker=friend"  # the chief does not have this flag
        ranks = [self.rank("--address=127.0.0.1", "--ps=1", *flags, env=slurm(i, 3), keys={"training.epochs": 100000})
                 for i, flags in enumerate(([*self.tls("here"), takes], self.tls("here"), [*self.tls("friend"), takes]))]
        self.assertRegex(ranks[2].wait(2).last_line(), "the chief and this process do not accept each other: .* its certificate names "
                                                       "DNS:friend")
        for r in ranks[:2]:  # as a scheduler does
            r.process.terminate()
            r.process.wait()

    def test_ranks_that_do_not_come_are_named(self):
        for bound in (1, 10, 60):  # on a loaded machine one may come later than the others wait
            ranks = [self.rank("--address=127.0.0.1", "--ps=2", env=slurm(i, 6, job=bound), keys={"timeouts.start_s": bound})
                     for i in (0, 1, 4)]
            said = [r.wait(1).last_line() for r in ranks]
            if all(line.endswith(": 2, 3, 5") for line in said):
                break
        for line in said:
            self.assertIn("these of the 6 ranks did not arrive", line)
            self.assertTrue(line.endswith(f"within {bound} s (timeouts.start_s): 2, 3, 5"), line)

    def test_of_two_starts_at_the_same_moment_one_trains_and_each_rank_of_the_other_says_who_uses_dir(self):
        keys = {"training.epochs": 1000000, "timeouts.start_s": 40}
        starts = {job: self.all(3, "--ps=1", env=lambda rank, size, job=job: slurm(rank, size, job), keys=keys) for job in (17, 18)}
        ended = self.until("a start has ended", lambda: [job for job, ranks in starts.items()
                                                         if all(r.process.poll() is not None for r in ranks)])
        other, = set(starts) - set(ended)
        chief = starts[other][1]
        for r in starts[ended[0]]:
            self.assertRegex(r.wait(1).last_line(), f"{self.out} is in use by the start slurm-{other}-0-0 "
                                                    rf"\(pid {chief.process.pid} on \S+\): wait until it has ended, or use another --output")
        chief.until_said("info worker 0: generation 1")
        got = subprocess.run([LAUNCH, "status", self.out], stdout=subprocess.PIPE, text=True)
        self.assertEqual((got.returncode, f"slurm-{other}-0-0" in got.stdout), (0, True), got.stdout)
        self.assertFalse([r for r in starts[other] if r.process.poll() is not None])

    def test_a_rank_that_has_come_twice_names_the_first(self):
        first = self.rank("--address=127.0.0.1", env=slurm(0, 2))
        self.until("the first has come", (self.out / "rendezvous/slurm-17-0-0/0").exists)
        second = self.rank("--address=127.0.0.1", env=slurm(0, 2))
        self.assertIn(f"rank 0 of the start slurm-17-0-0 has come already: pid {first.process.pid} on ", second.wait(2).last_line())
        self.rank("--address=127.0.0.1", env=slurm(1, 2)).wait(0)
        first.wait(0)

    def test_what_each_host_said_is_read_once_and_all_that_said_nothing_are_named(self):
        folder = self.out / "rendezvous/slurm-17-0-0"
        folder.mkdir(parents=True)
        for i in range(1, 13):
            (folder / str(i)).write_text(f"127.0.0.{i + 1}:1\nworker {i} 1 host{i}\n")
        os.mkfifo(folder / "verdict-1")  # only one open to read it ever returns
        teller = threading.Thread(target=(folder / "verdict-1").write_text, args=("\n",), daemon=True)
        teller.start()
        r = self.rank("--address=127.0.0.1", env=slurm(0, 13), keys={"timeouts.start_s": 1}).wait(1)
        self.assertTrue(r.last_line().endswith("within 1 s (timeouts.start_s): 2, 3, 4, 5, 6, 7, 8, 9 and 3 more"), r.last_line())
        teller.join()

    def test_a_rank_that_was_killed_in_the_middle_of_its_writing_is_not_read(self):
        folder = self.out / "rendezvous/slurm-17-0-0"
        folder.mkdir(parents=True)
        (folder / "2~").write_text("127.0")
        (folder / "2").write_text("127.0.0.1")  # no port: no address
        r = self.rank("--address=127.0.0.1", env=slurm(0, 3), keys={"timeouts.start_s": 1}).wait(1)
        self.assertTrue(r.last_line().endswith(": 1, 2"), r.last_line())

    def test_wrong_input_is_2(self):
        for flags, env, text in (
                ([], environment(), "no rank: none of OMPI_COMM_WORLD_RANK"),
                (["--ps=2"], slurm(0, 2), "--ps 2 leaves none of the 2 ranks to train"),
                (["--ps=0"], slurm(0, 2), "--ps: '0' is not allowed; allowed: 1 to 256"),
                ([], environment(PMI_RANK=0, PMI_SIZE=2), "the same new --attempt ID"),
                (["--ports=9-3"], slurm(0, 2), "--ports: '9-3' is not allowed; allowed: a range"),
                (["--workers=3"], slurm(0, 2), "unknown flag --workers"),
                (["--token-file=/nowhere/t"], slurm(0, 2), "--token_file=/nowhere/t: No such file"),
                (["--token-file=/dev/null"], slurm(0, 2), "a token has at least 16 bytes"),
                (["--address=a b"], slurm(0, 2), "--address: 'a b:"),
                (["--set=trainin.epochs=1"], slurm(0, 2), "trainin")):
            with self.subTest(text):
                self.assertIn(text, self.rank(*flags, env=env).wait(2).last_line())


class HostsTest(TrainCase):
    def setUp(self):
        super().setUp()
        self.hosts = Hosts(self, 3)

    def test_ranks_on_several_hosts_meet_in_dir_and_hold_a_token(self):
        (self.tmp / "secret").write_text("0123456789abcdef0123456789abcdef\n")
        ranks = [Process(self, self.hosts.command(i % 3, LAUNCH, "rank", self.JOB, "--ps=2", f"--output={self.out}",
                                                  f"--address={self.hosts.address(i % 3)}", "--ports=5000-5009",
                                                  f"--token-file={self.tmp}/secret", *self.sets({})),
                         "rank", slurm(i, 5)) for i in range(5)]
        for r in ranks:
            r.wait(0)
        self.assertEqual(self.summary()["digest"], self.undisturbed())
        left = [(self.out / "rendezvous/slurm-17-0-0/0").read_text()]
        self.assertRegex(left[0], rf"^{self.hosts.address(0)}:500\d\nps 0 {ranks[0].process.pid} \S+\n$")

    def test_the_same_line_of_the_script_on_every_host_trains(self):
        (self.tmp / "secret").write_text("0123456789abcdef0123456789abcdef\n")
        a = [self.hosts.address(i) for i in range(3)]
        line = [SCRIPT, self.JOB, self.out, f"{a[0]}:7000,{a[1]}:7000", ",".join(f"{host}:7100" for host in a),
                f"--token_file={self.tmp}/secret", *self.sets({})]
        env = dict(os.environ, GRADWIRE_BUILD=str(LAUNCH.parents[1]))
        for p in [Process(self, self.hosts.command(i, *line), f"script-{i}", env) for i in range(3)]:
            p.wait(0)
        s = self.summary()
        self.assertEqual((s["digest"], s["ps"], s["workers"]), (self.undisturbed(), 2, 3))
        self.assertEqual({p.name for p in (self.out / "by-hand").iterdir()},
                         {"ps-0.log", "ps-1.log", "worker-0.log", "worker-1.log", "worker-2.log"})

    def test_the_script_says_where_it_starts_nothing(self):
        env = dict(os.environ, GRADWIRE_BUILD=str(LAUNCH.parents[1]))
        got = Process(self, [SCRIPT, self.JOB, self.out, "elsewhere:1", "elsewhere:2"], "script", env).wait(2)
        self.assertIn("no address of elsewhere:1,elsewhere:2 is this host", got.last_line())
        self.assertIn("Run the same line on every host", Process(self, [SCRIPT], "script", env).wait(2).log())


if __name__ == "__main__":
    unittest.main()
