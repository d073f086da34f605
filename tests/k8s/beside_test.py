#!/usr/bin/env python3
# runs with others
"""A TF_CONFIG of chief and workers without ps: each pod's entrypoint runs a ps and a worker. --print shows what
the two programs get. The jobs are real processes; each pod has a loopback address of its own, because all pods have the same
port."""
import json
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import subprocess  # noqa: E402

import facts  # noqa: E402
from cluster import TSAN, Process, TrainCase, alive, free_ports, kernels  # noqa: E402

NO_JOB = "/no/such/job.yaml"


def config(kind, index, cluster):
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"})


class PlaceTest(unittest.TestCase):
    """Which ps each process has."""
    CLUSTER = {"chief": ["j-chief-0.n.svc:2222"], "evaluator": ["j-evaluator-0.n.svc:2222"],
               "worker": ["j-worker-0.n.svc:3333", "j-worker-1.n.svc:3333"]}
    PS = ["j-chief-0.n.svc:2223", "j-worker-0.n.svc:3334", "j-worker-1.n.svc:3334"]

    def run_entrypoint(self, kind, index, *args, cluster=None):
        return subprocess.run([facts.ENTRYPOINT, f"--job={NO_JOB}", *args], capture_output=True, text=True,
                              env=facts.environment(TF_CONFIG=config(kind, index, cluster or self.CLUSTER)))

    def printed(self, kind, index, *args, cluster=None):
        """The TF_CONFIG that the programs get, and their command lines."""
        got = self.run_entrypoint(kind, index, *args, "--print", cluster=cluster)
        self.assertEqual(got.returncode, 0, got.stderr)
        first, *commands = got.stdout.splitlines()
        return json.loads(first.removeprefix("TF_CONFIG=")), [line.split() for line in commands]

    def refused(self, says, kind, index, *args, cluster=None):
        got = self.run_entrypoint(kind, index, *args, cluster=cluster)
        self.assertEqual((got.returncode, len(got.stderr.splitlines())), (2, 1), got.stderr)
        self.assertIn(says, got.stderr)

    def test_each_chief_and_worker_has_a_ps_on_its_next_port_the_chiefs_first(self):
        for kind, index, number in (("chief", 0, 0), ("worker", 0, 1), ("worker", 1, 2)):
            given, (ps, worker) = self.printed(kind, index)
            self.assertEqual(given, json.loads(config(kind, index, {**self.CLUSTER, "ps": self.PS})))
            self.assertTrue(ps[0].endswith("/ps/ps") and worker[0].endswith("/worker/worker"), (ps, worker))
            self.assertEqual(ps[-2:], ["--job_name=ps", f"--task_index={number}"])
            self.assertFalse([word for word in worker if word.startswith(("--job_name", "--task_index"))], worker)

    def test_without_a_chief_worker_0_has_ps_0(self):
        workers = {"worker": ["a:2222", "b:2222"]}
        for index in (0, 1):
            given, (ps, _) = self.printed("worker", index, cluster=workers)
            self.assertEqual(given["cluster"], {**workers, "ps": ["a:2223", "b:2223"]})
            self.assertEqual(ps[-1], f"--task_index={index}")

    def test_a_master_is_a_chief(self):
        given, (ps, _) = self.printed("master", 0, cluster={"master": ["m:2222"], "worker": ["a:2222"], "ps": []})
        self.assertEqual((given["cluster"]["ps"], ps[-1]), (["m:2223", "a:2223"], "--task_index=0"))
        given, (ps, _) = self.printed("worker", 0, cluster={"master": ["m:2222"], "worker": ["[fd00::1]:2222"], "ps": None})
        self.assertEqual((given["cluster"]["ps"], ps[-1]), (["m:2223", "[fd00::1]:2223"], "--task_index=1"))

    def test_an_evaluator_has_none_and_knows_those_of_the_others(self):
        given, (only,) = self.printed("evaluator", 0)
        self.assertEqual(given["cluster"]["ps"], self.PS)
        self.assertTrue(only[0].endswith("/worker/worker"), only)

    def test_a_chief_and_an_evaluator_alone_have_one_ps(self):
        cluster = {"chief": ["c:2222"], "evaluator": ["e:2222"]}
        given, (ps, _) = self.printed("chief", 0, cluster=cluster)
        self.assertEqual((given["cluster"]["ps"], ps[-1]), (["c:2223"], "--task_index=0"))
        self.assertEqual(self.printed("evaluator", 0, cluster=cluster)[0]["cluster"]["ps"], ["c:2223"])

    def test_a_process_that_is_alone_or_has_ps_gets_none(self):
        for cluster in ({"worker": ["a:2222"]}, {"worker": ["a:2222", "b:2222"], "ps": ["p:2222"]}):
            got = self.run_entrypoint("worker", 0, "--print", cluster=cluster)
            self.assertEqual(len(got.stdout.splitlines()), 1, got.stdout)

    def test_flags_that_name_the_cluster_are_not_overridden(self):
        for flag in ("--ps_hosts=p:2222", "--job_name=worker", "--task_index=1", "--chief_host=c:2222", "--worker_hosts=a:1,b:1"):
            got = self.run_entrypoint("worker", 0, flag, "--print", cluster={"worker": ["a:2222", "b:2222"]})
            self.assertEqual(len(got.stdout.splitlines()), 1, got.stdout)

    def test_the_worker_has_the_http_port_and_its_ps_the_next(self):
        _, (ps, worker) = self.printed("worker", 0, "--http_port=8080")
        self.assertEqual([word for word in worker if "http" in word], ["--http_port=8080"])
        self.assertEqual([word for word in ps if "http" in word], ["--http_port=8080", "--http_port=8081"])  # the last wins
        _, (only,) = self.printed("evaluator", 0, "--http_port=2222")
        self.assertEqual([word for word in only if "http" in word], ["--http_port=2222"])
        for taken in (2221, 2222, 2223):
            self.refused(f"--http_port={taken} and the next meet port 2222 of TF_CONFIG and the next", "chief", 0,
                         f"--http_port={taken}")
        self.refused("--http_port: '65535' is not allowed; allowed: 1 to 65534 (the ps has the next)", "worker", 0,
                     "--http_port=65535")

    def test_the_grace_period_is_for_the_ps(self):
        _, (ps, worker) = self.printed("worker", 0, "--grace_s=60")
        self.assertEqual([word for word in ps if "grace" in word], ["--grace_s=60"])
        self.assertEqual([word for word in worker if "grace" in word], ["--grace_s=60", "--grace_s=0"])  # the last wins
        hosts = ["--worker_ips=10.0.0.1", "--current_ip=10.0.0.1", "--port=7000", "--grace_s=60", "--print"]
        got = subprocess.run([facts.ENTRYPOINT, *hosts], env=facts.environment(), capture_output=True, text=True)
        self.assertIn(" --grace_s=0", got.stdout.splitlines()[1])

    def test_a_port_without_a_next_one_is_refused(self):
        self.refused("TF_CONFIG: b:65535: its ps needs the next port; use a port up to 65534", "worker", 0,
                     cluster={"worker": ["a:1", "b:65535"]})

    def test_a_worker_that_knows_only_itself_is_refused(self):
        self.refused("with dynamic workers TF_CONFIG gives this worker no address but its own, so the workers "
                     "cannot run the ps: add PS replicas, or remove enableDynamicWorker", "worker", 1,
                     cluster={"worker": {"1": "j-worker-1.n.svc:2222"}, "ps": None})

    def test_an_index_beyond_the_cluster_is_refused(self):
        self.refused("this is worker 2, but the cluster lists 2 of them; allowed: 0 to 1", "worker", 2)


@unittest.skipIf(TSAN, "slow, and the programs have no other threads than in the other tests")
class TrainTest(TrainCase):
    """Each pod: an entrypoint in a session of its own, with an output folder of its own, on an address of its own."""
    LONG = {"data.synthetic_train_rows": 16000, "training.epochs": 4, "checkpoint.every_steps": 20,
            "checkpoint.every_seconds": 0}

    def setUp(self):
        super().setUp()
        self.port, self.pods = self.free_pair(), {}

    @staticmethod
    def free_pair():
        """A port whose next is free, too."""
        ports = free_ports(2)
        while ports[1] != ports[0] + 1:
            ports = [ports[1], *free_ports(1)]
        return ports[0]

    def start(self, name, keys=None, *flags, **cluster):
        """Starts, or starts again, the pod of that name ("worker-1")."""
        hosts = iter(range(2, 250))
        listed = {kind: [f"127.0.0.{next(hosts)}:{self.port}" for _ in range(n)] for kind, n in cluster.items()}
        kind, index = name.split("-")
        env = {**facts.environment(), **kernels(), "TF_CONFIG": config(kind, int(index), listed)}
        out = self.out if name == next(iter(cluster)) + "-0" else self.tmp / name
        command = ["setsid", facts.ENTRYPOINT, f"--job={self.JOB}", f"--output={out}", *self.sets(keys or {}), *flags]
        self.pods[name] = Process(self, command, name, env)
        self.addCleanup(self.kill, name)
        return self.pods[name]

    def start_all(self, keys=None, **cluster):
        for kind, n in cluster.items():
            for i in range(n):
                self.start(f"{kind}-{i}", keys, **cluster)

    def children(self, name):
        """{"ps": pid, "worker": pid} of a pod."""
        pid = self.pods[name].process.pid
        found = {}
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found[pathlib.Path(os.readlink(f"/proc/{child}/exe")).name] = int(child)
        return found

    def both(self, name):
        """The two programs of a pod, when they run: a child is the entrypoint until it has become its program."""
        return self.until("both run", lambda: (found := self.children(name)).keys() == {"ps", "worker"} and found)

    def kill(self, name):
        """The whole pod, as a node's loss would."""
        process = self.pods[name].process
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def cuts(self):
        return len(list((self.out / "checkpoints").glob("cut-*/manifest.gw")))

    def all_done(self):
        for pod in self.pods.values():
            pod.wait(0)
        return self.summary()

    def test_a_chief_and_two_workers_train_with_a_ps_each(self):
        self.start_all(chief=1, worker=2)
        s = self.all_done()
        self.assertEqual((s["ps"], s["workers"], s["exact"]), (3, 3, True))
        self.assertEqual(s["digest"], self.undisturbed())

    def test_the_first_worker_is_the_chief_where_there_is_none(self):
        self.start_all(worker=2)
        s = self.all_done()
        self.assertEqual((s["ps"], s["workers"]), (2, 2))
        self.assertEqual(s["digest"], self.undisturbed())

    def test_pods_of_a_job_that_is_done_end_with_0(self):
        self.start_all(chief=1, worker=1)
        digest = self.all_done()["digest"]
        self.start_all(chief=1, worker=1)
        self.assertEqual(self.all_done()["digest"], digest)

    def test_a_worker_that_is_too_late_for_a_job_that_is_done_ends_with_its_ps(self):
        cluster = {"chief": 1, "worker": 1}
        self.start_all(**cluster)
        digest = self.all_done()["digest"]
        late = self.start("worker-0", {"timeouts.start_s": 60}, **cluster)
        worker = self.both("worker-0")["worker"]
        os.kill(worker, signal.SIGSTOP)
        self.start("chief-0", {"timeouts.start_s": 60}, **cluster).wait(0)
        os.kill(worker, signal.SIGCONT)
        late.wait(0)
        self.assertIn("the job is done: ending the worker, which connected too late to learn this", late.log())
        self.assertEqual(self.summary()["digest"], digest)

    def again(self, name, keys, **cluster):
        self.pods[name].process.wait()
        self.start(name, keys, **cluster)

    def test_pods_that_die_come_back_and_the_bits_stay(self):
        cluster = {"chief": 1, "worker": 2}
        self.start_all(self.LONG, **cluster)
        self.until("a cut", lambda: self.cuts() > 1)
        self.kill("worker-1")
        self.again("worker-1", self.LONG, **cluster)
        self.pods["worker-1"].until_said("generation 2")
        self.kill("chief-0")
        self.again("chief-0", self.LONG, **cluster)
        s = self.all_done()
        self.assertEqual(s["digest"], self.undisturbed(keys=self.LONG), self.pods["chief-0"].log())

    def test_one_of_two_that_dies_ends_its_pod_with_its_code_and_the_other_goes_too(self):
        cluster = {"worker": 2}
        self.start_all(self.LONG, **cluster)
        for name, program in (("worker-1", "ps"), ("worker-0", "worker"), ("worker-0", "ps"), ("worker-1", "worker")):
            self.pods[name].until_said("generation ")
            both = self.both(name)
            os.kill(both[program], signal.SIGKILL)
            self.pods[name].wait(137)
            self.assertFalse(any(map(alive, both.values())))
            self.start(name, self.LONG, **cluster)
        s = self.all_done()
        self.assertEqual(s["digest"], self.undisturbed(keys=self.LONG), self.pods["worker-0"].log())

    def test_told_to_go_all_end_with_143_and_the_job_goes_on_later(self):
        cluster = {"chief": 1, "worker": 1}
        self.start_all(self.LONG, **cluster)
        self.until("a cut", lambda: self.cuts() > 1)
        for pod in self.pods.values():
            pod.process.terminate()
        for pod in self.pods.values():
            pod.wait(143)
        self.assertEqual(self.summary()["status"], "interrupted")
        self.start_all(self.LONG, **cluster)
        s = self.all_done()
        self.assertIn("resuming from checkpoint", self.pods["chief-0"].log())
        self.assertEqual(s["digest"], self.undisturbed(keys=self.LONG))

    def last_words(self, keys, *flags):
        """Of a pod that ends by itself; both programs write to the file, the one that gets SIGTERM last."""
        words = self.tmp / "words"
        words.touch()
        pod = self.start("worker-0", keys, f"--termination_message={words}", *flags, worker=2)
        return pod, words

    def test_the_pods_last_word_is_the_reason_of_the_first_that_failed(self):
        pod, words = self.last_words({"data.format": "idx", "data.train": "/no/such"})  # the ps reads no data
        pod.wait(2)
        self.assertIn("/no/such: No such file", words.read_text(), pod.log())

    def test_the_pods_last_word_names_the_program_that_was_killed(self):
        pod, words = self.last_words({})
        both = self.both("worker-0")
        os.kill(both["ps"], signal.SIGKILL)
        pod.wait(137)
        self.assertEqual(words.read_text(), "ps was killed by signal 9 (Killed)", pod.log())


if __name__ == "__main__":
    unittest.main()
