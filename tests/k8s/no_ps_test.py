#!/usr/bin/env python3
# timeout: 900
"""TFJobs without PS replicas as containers of the real image: a ps in the pod of the chief and of each worker, under the names,
the DNS and the policy that they have in a cluster."""
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import facts  # noqa: E402
import pods  # noqa: E402
import render  # noqa: E402
import watch  # noqa: E402
from cluster import command_line  # noqa: E402
from podcase import FEW, LONG, SMALL, TOKEN, PodCase, of_kind, overlay  # noqa: E402

NO_PS = "tfjob/overlays/no-ps"


@render.wanted
@pods.wanted
@facts.wanted
class NoPsTest(PodCase):
    def with_components(self, *names):
        """An overlay of a user's own: the base, these components, and the last one."""
        folder, k8s = self.tmp / "overlay", facts.ROOT / "k8s/tfjob"
        folder.mkdir()
        paths = [os.path.relpath(k8s / "components" / name, folder.resolve()) for name in (*names, "no-ps")]
        (folder / "kustomization.yaml").write_text(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
            f"resources: [{os.path.relpath(k8s / 'base', folder.resolve())}]\ncomponents: [{', '.join(paths)}]\n")
        return render.kustomize(folder)

    @pods.short
    def test_a_killed_pod_was_a_worker_and_a_ps_and_the_bits_stay(self):
        args = [*SMALL, "--epochs=16"]  # not over before the kill
        cluster = self.cluster(NO_PS, args, {})
        stranger = cluster.stranger("team")
        cluster.start_all()
        pod = cluster.pods["mnist-worker-1"]
        first = pod.address
        cluster.until("a cut", lambda: self.cuts() > 1)
        chief = cluster.pods["mnist-chief-0"]
        for host, reaches in ((pod.host, True), (stranger, False)):
            self.assertEqual([cluster.reaches(host, chief.address, port) for port in (2222, 2223)], [reaches, reaches])
        self.assertTrue(cluster.reaches(chief.host, first, 2223))
        cluster.kill(pod)
        summary = self.done(cluster)
        self.assertEqual((pod.starts, pod.address == first), (2, False))
        self.assertEqual((summary["ps"], summary["workers"], summary["exact"]), (3, 3, True))
        self.assertIn("resuming from checkpoint", cluster.log(pod))
        self.all_end_with(cluster, 0)
        self.assertEqual(summary["digest"], self.alone(args)["digest"])

    def test_the_chiefs_ps_that_is_killed_ends_its_pod_and_is_its_last_word(self):
        cluster = self.cluster(NO_PS, [*SMALL, "--epochs=16"], {})
        cluster.start_all()
        chief = cluster.pods["mnist-chief-0"]
        cluster.until("a cut", lambda: self.cuts() > 1)
        words = chief.last_words
        pid = pods.podman("inspect", "--format={{.State.Pid}}", chief.container).stdout.strip()
        children = [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        ps, = (child for child in children if command_line(child).split(b"\0")[0].endswith(b"/gradwire-ps"))
        os.kill(ps, signal.SIGKILL)
        self.done(cluster)
        self.assertEqual(chief.starts, 2)
        self.assertEqual(words.read_text(), "gradwire-ps was killed by signal 9 (Killed)")
        self.all_end_with(cluster, 0)

    def test_sigterm_ends_both_processes_of_each_pod_with_143(self):
        cluster = self.cluster(NO_PS, LONG, {})
        cluster.start_all()
        cluster.until("a cut", self.cuts)
        for pod in cluster.pods.values():
            cluster.kill(pod, "TERM")
        self.assertEqual(set(cluster.wait_all(300).values()), {143}, cluster.all_logs())
        self.assertEqual(self.summary_of()["status"], "interrupted")

    def test_without_a_chief_the_first_worker_is_it_and_an_evaluator_has_no_ps(self):
        docs = self.with_components("evaluator")
        specs = of_kind(docs, "TFJob")["spec"]["tfReplicaSpecs"]
        specs["Worker"] = {**specs.pop("Chief"), "replicas": 2}
        cluster = self.cluster(docs, SMALL, {})
        cluster.start_all()
        summary = self.done(cluster)
        self.assertEqual((summary["ps"], summary["workers"]), (2, 2))
        self.assertNotIn("ps ", cluster.log(cluster.pods["mnist-evaluator-0"]))
        cluster.clean()
        self.all_end_with(cluster, 0, 143)

    def test_a_master_is_the_chief(self):
        docs = overlay(NO_PS)
        specs = of_kind(docs, "TFJob")["spec"]["tfReplicaSpecs"]
        specs["Master"] = specs.pop("Chief")
        cluster = self.cluster(docs, FEW, {})
        cluster.start_all()
        self.assertEqual(self.done(cluster)["ps"], 3)
        self.all_end_with(cluster, 0)

    def test_with_tls_a_pods_certificate_is_its_ps_too(self):
        docs = self.with_components("tls", "pod-monitor")
        cluster = self.cluster(docs, [*SMALL, "--epochs=16"], self.certificate("DNS:*.team.svc"))
        cluster.start_all()
        for pod in cluster.pods.values():
            for port in (8080, 8081):
                def connected(address=f"{pod.address}:{port}"):
                    metrics = watch.metrics(address)
                    return metrics and metrics("gradwire_tls_connections_total") and metrics
                metrics = cluster.until(f"{pod.name}:{port} has connections", connected)
                self.assertEqual(metrics("gradwire_auth_info", auth="tls"), 1)
        self.assertEqual(self.done(cluster)["ps"], 3)
        self.all_end_with(cluster, 0)

    def test_with_the_token_both_processes_of_a_pod_prove_it(self):
        cluster = self.cluster(self.with_components("token"), FEW, TOKEN)
        cluster.start_all()
        self.assertEqual(self.done(cluster)["ps"], 3)
        self.assertNotIn("auth: none", cluster.all_logs())
        self.all_end_with(cluster, 0)


if __name__ == "__main__":
    unittest.main()
