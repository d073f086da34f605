#!/usr/bin/env python3
# timeout: 900
"""Overlays as containers of the real image. It wants an image (./gradwire image --storage DIR), named by
GRADWIRE_IMAGE_STORAGE=DIR, root, podman, runc and dnsmasq; without one it skips, saying so."""
import json
import pathlib
import re
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not there")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import facts  # noqa: E402
import pods  # noqa: E402
from cluster import Case  # noqa: E402

TOKEN = {"gradwire-token": {"token": "0123456789abcdef0123456789abcdef\n"}}
SMALL = ["--set=data.synthetic_train_rows=20000", "--epochs=4", "--set=checkpoint.every_steps=20",
         "--set=checkpoint.every_seconds=0"]


def overlay(name):
    got = subprocess.run(["kubectl", "kustomize", facts.ROOT / "k8s" / name], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(got.stdout))


@pods.wanted
@facts.wanted
class ContainersTest(Case):
    IN_MEMORY = False

    def cluster(self, name, args=SMALL, secrets=TOKEN):
        return pods.Cluster(self, overlay(name), args, secrets)

    def output(self, cluster):
        return json.loads((self.tmp / "volumes/gradwire-output/summary.json").read_text())

    def done(self, cluster, deadline_s=120, **more):
        self.assertEqual(cluster.run(deadline_s, **more), "Succeeded", cluster.all_logs())
        summary = self.output(cluster)
        self.assertEqual((summary["status"], summary["exit_code"]), ("done", 0))
        return summary

    def test_the_upstream_example_runs_as_it_is(self):
        cluster = self.cluster("tfjob/overlays/dist-mnist", args=[], secrets={})
        cluster.start_all()
        self.assertEqual(cluster.run(240), "Succeeded", cluster.all_logs())
        self.assertEqual(set(cluster.wait_all(30).values()), {0})

    def test_a_secure_job_trains_and_a_ps_that_is_killed_comes_back_at_another_address(self):
        cluster = self.cluster("tfjob/overlays/secure")
        cluster.start_all()
        ps = cluster.pods["mnist-ps-1"]
        cuts = self.tmp / "volumes/gradwire-output/checkpoints"
        first = ps.address

        def kill_once():
            if ps.starts == 1 and len(list(cuts.glob("cut-*/manifest.gw"))) > 1:
                pods.podman("kill", ps.container, check=False)
        summary = self.done(cluster, meanwhile=kill_once)
        self.assertEqual(ps.starts, 2)
        self.assertNotEqual(ps.address, first)
        self.assertEqual((summary["ps"], summary["workers"], summary["exact"]), (2, 3, True))
        self.assertEqual(set(cluster.wait_all(30).values()), {0})
        again = self.cluster_alone()
        self.assertEqual(summary["digest"], again["digest"])

    def cluster_alone(self):
        """The same job in one process tree on this host: the same bits."""
        config, = (doc for doc in overlay("job") if doc["kind"] == "ConfigMap")
        (self.tmp / "job.yaml").write_text(config["data"]["job.yaml"])
        subprocess.run([facts.ENTRYPOINT, f"--job={self.tmp}/job.yaml", f"--output={self.tmp}/alone", *SMALL], check=True,
                       env=facts.environment(), capture_output=True)
        return json.loads((self.tmp / "alone/summary.json").read_text())

    def test_inside_nobody_is_root_nothing_is_writable_and_sigterm_leaves_a_checkpoint(self):
        cluster = self.cluster("tfjob/overlays/secure", [*SMALL, "--epochs=2000"])
        cluster.start_all()
        chief = cluster.pods["mnist-chief-0"]
        self.until("a cut", lambda: list((self.tmp / "volumes/gradwire-output/checkpoints").glob("cut-*/manifest.gw")))
        for pod in cluster.pods.values():
            status = pods.podman("exec", pod.container, "cat", "/proc/1/status", "/proc/1/cmdline").stdout
            self.assertRegex(status, r"Uid:\s+65532\s+65532")
            self.assertRegex(status, r"CapEff:\s+0000000000000000")
            self.assertRegex(status, r"CapBnd:\s+0000000000000000")
            self.assertRegex(status, r"NoNewPrivs:\s+1")
            self.assertRegex(status, r"Seccomp:\s+2")
            self.assertIn("/usr/local/bin/gradwire-" + ("ps" if pod.kind == "PS" else "worker"), status)  # it is PID 1
            for path in ("/x", "/etc/gradwire/x", "/run/x"):
                self.assertNotEqual(pods.podman("exec", pod.container, "touch", path, check=False).returncode, 0, path)
        for pod in cluster.pods.values():
            pods.podman("kill", "--signal=TERM", pod.container)
        self.assertEqual(set(cluster.wait_all(60).values()), {143}, cluster.all_logs())
        self.assertEqual(self.output(cluster)["status"], "interrupted", cluster.log(chief))

    def test_a_suspended_job_goes_on_at_other_addresses_to_the_same_bits(self):
        cluster = self.cluster("tfjob/overlays/secure")
        cluster.start_all()
        cuts = self.tmp / "volumes/gradwire-output/checkpoints"
        self.until("a cut", lambda: len(list(cuts.glob("cut-*/manifest.gw"))) > 1)
        for pod in cluster.pods.values():
            pods.podman("kill", "--signal=TERM", pod.container)
        self.assertEqual(set(cluster.wait_all(60).values()), {143}, cluster.all_logs())
        for pod in cluster.pods.values():
            cluster.take_down(pod)
        cluster.start_all()
        self.assertEqual(self.done(cluster)["digest"], self.cluster_alone()["digest"])

    def trains(self, name):
        cluster = self.cluster(name)
        cluster.start_all()
        return self.done(cluster), cluster

    def test_names_come_and_go_as_readyz_answers(self):
        cluster = self.cluster("tfjob/overlays/monitored")
        cluster.start_all()
        live, ready = set(), set()

        def look():
            cluster.probe_all()
            ready.update(path.name for path in cluster.names.iterdir())
            live.update(pod.name for pod in cluster.pods.values() if cluster.answers(pod, "livenessProbe"))
        self.done(cluster, meanwhile=look)
        self.assertEqual((live, ready), (set(cluster.pods), set(cluster.pods)))

    def test_the_evaluator_has_the_last_word_and_curves_are_in_the_claim_for_logs(self):
        cluster = self.cluster("tfjob/base")
        cluster.start_all()
        self.done(cluster)
        self.assertEqual(set(cluster.wait_all(60).values()), {0}, cluster.all_logs())
        self.assertTrue(list((self.tmp / "volumes/gradwire-logs").rglob("*tfevents*")))
        self.assertTrue((self.tmp / "volumes/gradwire-output/eval.json").exists())

    def test_one_worker_trains_alone(self):
        summary, _ = self.trains("tfjob/overlays/one-worker")
        self.assertEqual(summary["workers"], 1)

    def test_a_dynamic_job_trains_with_worker_0_as_the_chief(self):
        summary, cluster = self.trains("tfjob/overlays/dynamic")
        self.assertEqual(summary["ps"], 2)
        self.assertEqual(set(cluster.wait_all(30).values()), {0})
        self.assertIn("generation 1", cluster.log(cluster.pods["mnist-worker-1"]))

    def test_with_one_claim_the_chief_has_all_of_a_checkpoint(self):
        _, cluster = self.trains("tfjob/overlays/one-claim")
        self.assertEqual(set(cluster.wait_all(30).values()), {0})
        self.assertEqual(list((self.tmp / "volumes").glob("mnist-ps-*-output/checkpoints/*")), [])
        self.assertTrue(list((self.tmp / "volumes/gradwire-output/model").iterdir()))

    def test_without_an_operator_ordinals_do(self):
        summary, _ = self.trains("plain/base")
        self.assertEqual((summary["ps"], summary["workers"]), (2, 2))

    def test_hosts_of_the_hosts_form_train(self):
        docs = overlay("plain/hosts")
        one, _ = (doc for doc in docs if doc["kind"] == "Job")
        four = [json.loads(json.dumps(one)) for _ in range(4)]
        cluster = pods.Cluster(self, [doc for doc in docs if doc["kind"] != "Job"], SMALL, TOKEN)
        cluster.docs.append(one)
        ips = ",".join(cluster.net.address(i) for i in range(4))
        for i, doc in enumerate(four):
            container = doc["spec"]["template"]["spec"]["containers"][0]
            container["args"] = [f"--worker_ips={ips}", "--current_ip=$(HOST)", "--port=2222"]
            pod = pods.Pod(f"mnist-host-{i}", f"mnist-host-{i}.team.svc", "Job", i, doc["spec"]["template"]["spec"], {})
            cluster.add_pod(pod)
        cluster.start_all()
        summary = self.done(cluster)
        self.assertEqual((summary["ps"], summary["workers"]), (4, 4))

    def test_a_job_whose_ps_never_comes_ends_with_the_reason(self):
        cluster = self.cluster("tfjob/overlays/secure", [*SMALL, "--set=timeouts.start_s=5"])
        cluster.start_all(but=("mnist-ps-1",))
        verdict = cluster.run(30)
        self.assertRegex(verdict, r"Failed: \w+ \d exited with 1", cluster.all_logs())
        why = r"ps 1 was not there for 5 s \(timeouts.start_s\): Name or service not known"
        self.assertRegex(cluster.all_logs(), why)
        cluster.wait_all(60)
        words = {name: pod.last_words.read_text() for name, pod in cluster.pods.items() if pod.container}
        self.assertIn("ps 1 was not there for 5 s (timeouts.start_s)", words["mnist-worker-0"])
        self.assertTrue(all(words.values()), words)


if __name__ == "__main__":
    unittest.main()
