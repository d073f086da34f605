#!/usr/bin/env python3
# timeout: 1800
"""The forms without an operator, TLS and nights, as containers of the real image; as containers_test.py, which has the rest
of the overlays, it needs an image, root, podman, runc, dnsmasq and nft; without one it skips and names it."""
import copy
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import facts  # noqa: E402
import nightly_test  # noqa: E402
import pods  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402
import watch  # noqa: E402
from podcase import FEW, SMALL, PodCase, of_kind, overlay  # noqa: E402

GUIDE = facts.ROOT / "docs/guides/kubernetes.md"
NODES = {"node-1": "192.0.2.11", "node-2": "192.0.2.12"}  # as plain/hosts has them
HTTP = "--http_port=8080"


def shape(line):
    return re.sub(r"\d+(\.\d+)?", "N", re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", " ".join(line.split())))


@render.wanted
@pods.wanted
@facts.wanted
class FormsTest(PodCase):
    # ---- the guide ----

    def describe(self, pod):
        """The output of kubectl for it. Reason: pkg/kubelet/kuberuntime/kuberuntime_container.go toKubeContainerStatus."""
        ended = {"exitCode": pod.code, "reason": "Error" if pod.code else "Completed", "message": pod.last_words.read_text()}
        name = pod.spec["containers"][0]["name"]
        answers = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
                {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get"], "shortNames": ["po"]}]},
            "/api/v1/namespaces/team/events": {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": []},
            f"/api/v1/namespaces/team/pods/{pod.name}": {
                "apiVersion": "v1", "kind": "Pod", "spec": pod.spec,
                "metadata": {"name": pod.name, "namespace": "team", "labels": pod.labels, "annotations": pod.annotations},
                "status": {"phase": pod.phase, "containerStatuses": [
                    {"name": name, "ready": False, "restartCount": pod.restarts, "image": "", "imageID": "",
                     "state": {"terminated": ended}}]}}}
        server = nightly_test.serve(self, nightly_test.Answers(answers))
        got = nightly_test.kubectl(server, self.tmp, "describe", "pod", pod.name)
        self.assertEqual(got.returncode, 0, got.stderr)
        return got.stdout

    def assertTold(self, told, said):
        """Each line of the guide was said, except for its numbers and spaces."""
        shapes = {shape(line) for line in said.splitlines()}
        self.assertEqual([line for line in told.splitlines() if shape(line) not in shapes], [], said)

    @facts.skip_without(shutil.which("kubectl"), "kubectl is not there")
    def test_the_guide_shows_what_pods_say(self):
        walk = GUIDE.read_text()
        told = re.findall(r"\b(?:info|warn|error) (?:chief|evaluator|ps \d|worker \d): .*$", walk, re.M)
        self.assertGreater(len(told), 6)

        cluster = self.cluster("tfjob/base", secrets={})
        late = "mnist-ps-1"
        cluster.start_all(but=(late,))
        self.assertEqual(set(re.findall(r"^(mnist-\S+-\d) ", walk, re.M)), set(cluster.pods))
        claims = {doc["metadata"]["name"] for doc in cluster.docs if doc["kind"] == "PersistentVolumeClaim"}
        self.assertEqual(set(re.findall(r"(gradwire-\w+) +Bound", walk)), claims)
        cluster.until_said(cluster.pods["mnist-chief-0"], "waiting 10 s for")
        cluster.unschedulable.clear()
        cluster.create(cluster.pods[late])
        self.done(cluster)
        self.all_end_with(cluster, 0)
        said = {shape(line.split(" ", 1)[1]) for pod in cluster.pods.values() for line in cluster.log(pod).splitlines()}
        self.assertEqual([line for line in told if shape(line) not in said], [], cluster.all_logs())
        self.assertEqual({pod.last_words.read_text() for pod in cluster.pods.values()}, {"done"})
        done, failed = re.findall(r"^kubectl describe pod (\S+)\n```\n\n```console\n((?: {4}.*\n)+)", walk, re.M)
        self.assertTold(done[1], self.describe(cluster.pods[done[0]]))
        pod = cluster.pods[failed[0]]
        pod.code = 1
        pod.last_words.write_text("ps 1 was not available for 9 s (timeouts.start_s)")  # as where a ps never comes
        self.assertTold(failed[1], self.describe(pod))
        for name in re.findall(r"`([^`]+)`", re.search(r"The claim `gradwire-output` now has .*\n\n((?:- .*\n)+)", walk)[1]):
            self.assertTrue((self.claim / name).exists(), name)

    # ---- certificates ----

    def command_line(self, pod):
        return pods.podman("exec", pod.container, "cat", "/proc/1/cmdline").stdout.split("\0")

    def trains_with_tls(self, name, *more, meanwhile=lambda cluster: None, edit=lambda docs: None, **given):
        docs = overlay(name)
        edit(docs)
        cluster = self.cluster(docs, [*SMALL, HTTP, *more], self.certificate(self.names_of(name)), **given)
        cluster.start_all()
        cluster.until("a cut", self.cuts)
        for pod in cluster.pods.values():  # where a host has both, of its ps
            metrics = self.metrics_of(cluster, pod)
            self.assertEqual(metrics("gradwire_auth_info", auth="tls"), 1)
            if pod.kind != "Evaluator":  # which reads checkpoints and speaks to nobody
                self.speaks_tls(cluster, pod)
        meanwhile(cluster)
        summary = self.done(cluster)
        self.assertEqual(summary["ps"], 2)
        self.assertNotIn("its certificate names", cluster.all_logs())  # a job whose workers are refused trains, too
        cluster.clean()
        return cluster

    def test_a_tfjob_with_tls_trains_and_takes_a_new_certificate_while_it_runs(self):
        def renewed(cluster):
            def expires():
                return self.metrics_of(cluster, cluster.pods["mnist-ps-0"])("gradwire_tls_certificate_expires_timestamp_seconds")
            before = expires()
            cluster.change("gradwire-tls", self.certificate("DNS:*.team.svc")["gradwire-tls"])
            cluster.until("the new certificate is taken", lambda: expires() > before)
        cluster = self.trains_with_tls("tfjob/overlays/tls", meanwhile=renewed)
        self.all_end_with(cluster, 0, 143)

    def test_a_certificate_for_another_namespace_is_refused_by_name(self):
        cluster = self.cluster("tfjob/overlays/tls", [*FEW, "--set=timeouts.start_s=3"], self.certificate("DNS:*.other.svc"))
        cluster.start_all()
        self.assertRegex(cluster.run(300), r"Failed: \w+ \d exited with 1$", cluster.all_logs())
        cluster.wait_all(300)
        self.assertRegex(cluster.all_logs(), r"its certificate names DNS:\*\.other\.svc; expected: mnist-ps-\d\.team\.svc")

    def test_a_stateful_set_and_a_job_train_with_tls(self):
        self.trains_with_tls("plain/overlays/tls")

    def test_workers_that_nobody_has_listed_train_with_tls(self):
        def two(docs):  # as the autoscaler has it
            next(d for d in docs if d["kind"] == "StatefulSet" and d["metadata"]["name"] == "mnist-worker")["spec"]["replicas"] = 2
        self.trains_with_tls("plain/overlays/elastic-tls", edit=two)

    def test_hosts_train_with_tls(self):
        self.trains_with_tls("plain/overlays/hosts-tls", nodes=NODES)

    def test_a_jobset_trains_with_tls(self):
        self.trains_with_tls("plain/overlays/jobset-tls")

    # ---- without an operator ----

    def all_answer(self, cluster, **more):
        """Until its end; who was live and who was ready meanwhile."""
        live, ready = set(), set()

        def look():
            for seen, probe in ((live, "livenessProbe"), (ready, "readinessProbe")):
                seen.update(name for name, pod in cluster.pods.items() if name not in seen and cluster.answers(pod, probe))
        summary = self.done(cluster, meanwhile=look, **more)
        self.assertEqual((live, ready), (set(cluster.pods), set(cluster.pods)), cluster.all_logs())
        return summary

    def behind_walls(self, name, **more):
        """Trains, while a pod of another job reaches no ps, and a worker does."""
        cluster = self.cluster(name, **more)
        stranger = cluster.stranger("team")
        cluster.start_all()
        cluster.until("a cut", self.cuts)
        ps, worker = (next(pod for pod in cluster.pods.values() if role in pod.name) for role in ("-ps-", "-worker-"))
        self.assertIn("--token_file=/run/secrets/gradwire/token", self.command_line(ps))
        self.assertTrue(cluster.reaches(worker.host, ps.address, 2222))
        self.assertFalse(cluster.reaches(stranger, ps.address, 2222))
        summary = self.done(cluster)
        self.assertEqual((summary["ps"], summary["workers"]), (2, 3))
        return cluster

    def test_a_stateful_set_and_a_job_train_with_the_token_behind_walls(self):
        cluster = self.behind_walls("plain/overlays/secure")
        self.assertTrue(all(pod.running for pod in cluster.pods.values() if pod.kind == "StatefulSet"), cluster.all_logs())

    def test_with_a_prefix_and_a_suffix_the_plain_form_trains(self):
        docs = render.kustomize(render.overlay_on(self, "plain/base", "namePrefix: exp-", "nameSuffix: -v2"))
        cluster = self.cluster(docs, FEW, {})
        cluster.start_all()
        self.assertEqual(cluster.run(300), "Succeeded", cluster.all_logs())
        self.assertEqual(set(cluster.pods), {"exp-mnist-chief-v2-0", *(f"exp-mnist-{role}-v2-{i}" for role in ("ps", "worker") for i in (0, 1))})
        self.assertEqual(self.summary_of(self.tmp / "volumes/exp-gradwire-output-v2")["workers"], 3)

    def test_one_pod_trains(self):
        summary, _ = self.trains("one-pod", args=FEW, secrets={})
        self.assertEqual((summary["ps"], summary["workers"]), (1, 1))

    def test_a_user_of_openshift_trains(self):
        docs = overlay("plain/overlays/openshift")
        for pod in rules.pods(docs):  # as the admission of restricted-v2 writes them: the namespace's range, group 0
            pod.spec["securityContext"] |= {"runAsUser": 1000680000, "runAsGroup": 0, "fsGroup": 1000680000}
        cluster = self.cluster(docs, FEW, {})
        cluster.start_all()
        self.assertEqual(self.done(cluster)["workers"], 3)

    def test_an_output_that_is_not_writable_is_told_with_the_way_out(self):
        docs = overlay("one-pod")
        spec = of_kind(docs, "Job")["spec"]["template"]["spec"]
        del spec["securityContext"]["fsGroup"]
        cluster = self.cluster(docs, FEW, {})
        self.claim.mkdir(parents=True, mode=0o755)  # as a new file system has it: of root
        cluster.start_all()
        self.assertEqual(cluster.run(300), "Failed: mnist: a pod exited with 1", cluster.all_logs())
        pod, = cluster.pods.values()
        self.assertRegex(pod.last_words.read_text(), r"/output/lock: Permission denied: this process \(user 65532, group 65532\) "
                         r"cannot write to /output; give it that directory, or in a pod set securityContext\.fsGroup$")

    def test_probes_of_the_plain_form_answer(self):
        cluster = self.cluster("plain/overlays/monitored")
        cluster.start_all()
        self.all_answer(cluster)

    def test_hosts_of_the_manifest_train_with_the_token(self):
        cluster = self.cluster("plain/overlays/hosts", FEW, nodes=NODES)
        cluster.start_all()
        summary = self.done(cluster)
        self.assertEqual((summary["ps"], summary["workers"]), (2, 2))
        self.all_end_with(cluster, 0)

    def test_both_processes_of_a_host_answer(self):
        cluster = self.cluster("plain/overlays/hosts-monitored", nodes=NODES)
        cluster.start_all()
        cluster.until("a cut", self.cuts)
        ports = [e["port"] for e in of_kind(cluster.docs, "PodMonitor")["spec"]["podMetricsEndpoints"]]
        for pod in cluster.pods.values():
            container, = pod.spec["containers"]
            numbers = {port["name"]: port["containerPort"] for port in container["ports"]}
            builds = [watch.metrics(f"{pod.address}:{numbers[port]}")("gradwire_build_info") for port in ports]
            self.assertEqual(builds, [1, 1], cluster.log(pod))
        self.all_answer(cluster)

    # ---- JobSet ----

    def test_a_jobset_trains_by_the_names_of_its_one_service(self):
        summary, cluster = self.trains("jobset", args=FEW, secrets={})
        self.assertEqual(set(cluster.pods), {"mnist-chief-0-0", *(f"mnist-{role}-0-{i}" for role in ("ps", "worker") for i in (0, 1))})
        self.assertEqual((summary["ps"], summary["workers"]), (2, 3))
        cluster.clean()  # as JobSet does with a ps that still runs
        self.all_end_with(cluster, 0, 143)

    def test_a_jobset_trains_with_the_token_behind_walls(self):
        self.behind_walls("plain/overlays/jobset")

    def test_probes_of_a_jobset_answer(self):
        cluster = self.cluster("plain/overlays/jobset-monitored")
        cluster.start_all()
        self.all_answer(cluster)

    def test_a_jobset_whose_worker_fails_for_good_has_failed_and_its_ps_go(self):
        docs = overlay("jobset")
        worker = of_kind(docs, "JobSet")["spec"]["replicatedJobs"][1]
        worker["template"]["spec"]["template"]["spec"]["containers"][0]["args"].append("--set=training.epochs=none")
        cluster = self.cluster(docs, [], {})
        cluster.start_all()
        self.assertEqual(cluster.run(300), "Failed: mnist-worker-0: a pod exited with 2", cluster.all_logs())
        cluster.clean()
        codes = cluster.wait_all(300)
        self.assertEqual({codes[f"mnist-ps-0-{i}"] for i in (0, 1)}, {143}, cluster.all_logs())
        self.assertFalse(any(pod.there for pod in cluster.pods.values() if "-ps-" in pod.name))

    # ---- before and after a queue ----

    def is_let_go(self, name, kind, spec):
        """Created suspended; Kueue, when its queue has room, takes that away."""
        docs = overlay(name)
        cluster = self.cluster(docs, FEW)
        cluster.start_all()
        self.assertEqual((cluster.condition(), cluster.pods), ("Suspended", {}))
        self.assertEqual(of_kind(docs, kind)["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "training")
        spec(of_kind(docs, kind))["suspend"] = False
        self.assertEqual(self.done(cluster)["ps"], 2)

    def test_a_tfjob_that_kueue_lets_go_trains(self):
        self.is_let_go("tfjob/overlays/kueue", "TFJob", lambda job: job["spec"]["runPolicy"])

    def test_a_jobset_that_kueue_lets_go_trains(self):
        self.is_let_go("plain/overlays/jobset-kueue", "JobSet", lambda job: job["spec"])

    def test_the_image_has_what_preprocessing_wants(self):
        cluster = self.cluster("preprocess", [], {})
        data = cluster.folder("gradwire-data", 65532)
        (data / "raw").mkdir()
        (data / "raw/a.csv").write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(100)))
        cluster.start_all()
        self.assertEqual(cluster.run(300), "Succeeded", cluster.all_logs())
        self.assertEqual({path.name for path in data.iterdir()},
                         {"raw", "eval.csv.gz", *(f"train-{i}.csv.gz" for i in range(8))}, cluster.all_logs())

    # ---- every night ----

    def night(self, cluster, server, name):
        """The CronJob's Job of that night: its first container in the image, and kubectl on this host."""
        cron = of_kind(cluster.docs, "CronJob")
        job = {"apiVersion": "batch/v1", "kind": "Job", **copy.deepcopy(cron["spec"]["jobTemplate"])}
        job["metadata"]["name"] = name
        spec = job["spec"]["template"]["spec"]
        kubectl, = spec["containers"]
        spec["containers"] = spec.pop("initContainers")
        del spec["serviceAccountName"], spec["automountServiceAccountToken"]  # kubectl's, not this container's
        cluster.apply(job)
        cluster.wait(f"{name} has made a TFJob", lambda: not cluster.pods[f"{name}-0"].running, 60)
        pod = cluster.pods[f"{name}-0"]
        self.assertEqual(pod.code, 0, cluster.log(pod))
        made = self.tmp / f"volumes/{name}-0-1-made"
        args = [arg.replace("/made/", f"{made}/") for arg in kubectl["args"]]
        got = nightly_test.kubectl(server, self.tmp, *args)
        self.assertEqual(got.returncode, 0, got.stderr)
        cluster.apply(server.jobs["mnist"])

    @facts.skip_without(shutil.which("kubectl"), "kubectl is not there")
    def test_a_night_begins_with_what_the_last_one_learned(self):
        cluster = self.cluster("nightly", FEW)
        rule, = of_kind(cluster.docs, "Role")["rules"]
        server = nightly_test.serve(self, nightly_test.ApiServer(rule["verbs"]))
        digests = []
        for name in ("gradwire-nightly-1", "gradwire-nightly-2"):
            self.night(cluster, server, name)
            digests.append(self.done(cluster)["digest"])
            self.all_end_with(cluster, 0)
            said = cluster.log(cluster.pods["mnist-chief-0"])
            if name.endswith("1"):
                self.assertNotIn("begins with the weights", said)
            else:
                self.assertRegex(said, r'run "gradwire-nightly-2" begins with the weights of checkpoint \d+, step \d+ of run '
                                 r'"?gradwire-nightly-1')
            cluster.forget("mnist")  # its ttlSecondsAfterFinished
            server.jobs.clear()
        self.assertNotEqual(*digests)


if __name__ == "__main__":
    unittest.main()
