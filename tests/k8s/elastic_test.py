#!/usr/bin/env python3
"""plain/elastic, its pods' own arguments and TF_CONFIGs on this host: workers that nobody has listed join a job that runs,
one is taken away by SIGTERM, as an autoscaler does it, and what is learned is the same to the bit."""
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import facts  # noqa: E402
import render  # noqa: E402
from cluster import DEADLINE_S, Case, free_ports  # noqa: E402

NAME = re.compile(r"mnist-(\w+)-(\d+)\.mnist-\w+:2222")  # host:port of a pod


@render.wanted
class ElasticTest(Case):
    def setUp(self):
        super().setUp()
        self.places, self.running = {}, {}
        self.docs = self.rendered("plain/elastic")
        config, = (doc for doc in self.rendered("job") if doc["kind"] == "ConfigMap")
        (self.tmp / "job.yaml").write_text(config["data"]["job.yaml"])
        self.ports = iter(free_ports(8))
        self.addCleanup(self.stop)

    def rendered(self, folder):
        return render.kustomize(facts.ROOT / "k8s" / folder)

    def stop(self):
        for process in self.running.values():
            process.kill()
            process.wait()

    def here(self, text):
        """Each pod's name is a port of this host."""
        return NAME.sub(lambda name: self.places.get(name[0]) or self.places.setdefault(
            name[0], f"127.0.0.1:{next(self.ports)}"), text)

    def log(self, pod):
        return (self.tmp / f"{pod}.log").read_text()

    def start(self, kind, index, *more):
        owner, = (doc for doc in self.docs if doc["kind"] in ("StatefulSet", "Job")
                  and doc["metadata"]["name"] == f"mnist-{kind}")
        container, = owner["spec"]["template"]["spec"]["containers"]
        env = facts.container_env(container, index)
        args = [self.here(facts.expand(arg, env)) for arg in container["args"] if not arg.startswith("--http_port")]
        env = {key: self.here(value) for key, value in env.items()}
        pod = f"{kind}-{index}"
        with open(self.tmp / f"{pod}.log", "w") as log:
            self.running[pod] = subprocess.Popen(
                [facts.ENTRYPOINT, *args, f"--job={self.tmp}/job.yaml", f"--output={self.out}",
                 "--set=data.synthetic_train_rows=3000", "--set=data.synthetic_eval_rows=100", *more],
                env=facts.environment(**env), stdout=log, stderr=log)

    def joins(self, *pods):
        for pod in pods:
            self.until(f"{pod} is in", lambda: "generation 1" in self.log(pod))

    def ends(self, pod, code):
        self.assertEqual(self.running[pod].wait(DEADLINE_S), code, self.log(pod))

    def all_learned(self):
        """The chief ends the job, and everybody with it."""
        self.ends("chief-0", 0)
        for pod in [pod for pod, process in self.running.items() if process.poll() is None]:
            self.until(lambda: f"{pod} stays\n{self.log(pod)}", lambda: "idle until a chief connects" in self.log(pod))
            self.running[pod].send_signal(signal.SIGTERM)
            self.ends(pod, 0)
            self.assertIn("asked to stop: the job is done", self.log(pod))
        summary = self.summary()
        self.assertEqual((summary["status"], summary["exact"]), ("done", True))
        self.assertEqual(summary["batches"]["applied_min"], summary["batches"]["dealt"])
        return summary

    def start_least(self, epochs):
        self.start("worker", 1, f"--epochs={epochs}", "--fault=sleep:0.05")  # in sync all wait for it: time for the others
        for kind, index in (("ps", 0), ("ps", 1), ("chief", 0), ("worker", 0)):
            self.start(kind, index, f"--epochs={epochs}")

    def test_workers_that_nobody_has_listed_come_and_go_and_the_bits_stay(self):
        epochs = 8
        self.start_least(epochs)
        self.joins("worker-0", "worker-1")
        self.start("worker", 2, f"--epochs={epochs}")
        self.joins("worker-2")
        self.running["worker-2"].send_signal(signal.SIGTERM)
        self.ends("worker-2", 143)
        self.assertIn("the chief has taken back this worker's batches", self.log("worker-2"))
        self.assertIsNone(self.running["chief-0"].poll(), "the job ended before the worker was taken away: more epochs")
        self.ends("chief-0", 0)
        self.start("worker", 3, f"--epochs={epochs}", f"--output={self.tmp}/own")  # as in the pods: it sees no checkpoint
        self.until(lambda: f"ps 0 tells it\n{self.log('worker-3')}",
                   lambda: "ps 0 reports that the job is done" in self.log("worker-3"))
        many = self.all_learned()
        self.assertEqual(many["workers"], 4)  # the chief, and workers 0 to 2: worker 3 came too late
        self.out = self.tmp / "again"
        self.running.clear()
        for kind, index in (("ps", 0), ("ps", 1), ("chief", 0)):
            self.start(kind, index, f"--epochs={epochs}")
        self.assertEqual(self.all_learned()["digest"], many["digest"])

    def test_the_autoscaler_has_room_for_as_many_as_find_work(self):
        scaler, = (doc for doc in self.docs if doc["kind"] == "HorizontalPodAutoscaler")
        self.assertEqual((scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]), (2, 10))
        workers, = (doc for doc in self.docs if doc["metadata"]["name"] == "mnist-worker" and doc["kind"] == "StatefulSet")
        self.assertNotIn("replicas", workers["spec"])  # an apply would undo what the autoscaler did
        for doc in self.docs:
            if doc["kind"] in ("StatefulSet", "Job"):  # the chief trains, too
                self.assertIn("--set=training.microbatches=16", doc["spec"]["template"]["spec"]["containers"][0]["args"])
        self.assertLessEqual(scaler["spec"]["maxReplicas"] + 1, 16)


if __name__ == "__main__":
    unittest.main()
