#!/usr/bin/env python3
# timeout: 1800
"""Overlays as containers of the real image. It needs an image, as ./gradwire test containers makes it, or another, named by
GRADWIRE_IMAGE_STORAGE=DIR (./gradwire image --storage DIR), root, podman, runc and dnsmasq; without one it skips, saying
so."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402
import pods  # noqa: E402
import podspec  # noqa: E402
import render  # noqa: E402
from podcase import FEW, LONG, SMALL, TOKEN, PodCase, of_kind, overlay, tensorflow  # noqa: E402

JOB = {"app.kubernetes.io/name": "gradwire", "app.kubernetes.io/instance": "mnist"}


def tfjob(replicas, ports=(), dynamic=False, name="mnist", **more):
    """tfjob/overlays/evaluator with other replicas. Without a chief the workers have its claim: worker 0 is it."""
    docs = overlay("tfjob/overlays/evaluator")
    doc = of_kind(docs, "TFJob")
    base, doc["metadata"]["name"] = doc["spec"]["tfReplicaSpecs"], name
    led = "Chief" in replicas or "Master" in replicas
    like = {"Master": "Chief", "Worker": "Worker" if led else "Chief"}
    if not led:  # as tfjob/overlays/dynamic
        of_kind(docs, "PersistentVolumeClaim")["spec"]["accessModes"] = ["ReadWriteMany"]
        del base["Chief"]["template"]["spec"]["affinity"]
    specs = {kind: {**copy.deepcopy(base[like.get(kind, kind)]), "replicas": n} for kind, n in replicas.items()}
    for kind, port in dict(ports).items():
        tensorflow(specs[kind])["ports"][0]["containerPort"] = port
    for rule in [rule for way in ("ingress", "egress") for rule in of_kind(docs, "NetworkPolicy")["spec"][way]] if ports else ():
        if rule["ports"][0]["port"] == 2222:
            rule["ports"] = [{"protocol": "TCP", "port": port} for port in sorted({2222, *dict(ports).values()})]
    doc["spec"].update({"tfReplicaSpecs": specs, "enableDynamicWorker": dynamic, **more})
    return docs


@render.wanted
@pods.wanted
@facts.wanted
class ContainersTest(PodCase):
    # ---- golden cases ----

    RUNS = {"single worker: no TF_CONFIG", "dense 2 PS 3 workers", "dense chief+ps+worker+evaluator",
            "dense master (legacy chief)", "custom ports per replica type", "custom cluster domain",
            "dynamic worker (operator 1.1 - 1.6)"}
    REFUSES = {"single PS: no TF_CONFIG": (r"PS 0 exited with 2", "this is ps, and the cluster says nothing of it"),
               "dynamic worker (operator >= 1.7)": (r"(Chief|Evaluator) 0 exited with 2", "remove the Chief replica"),
               "dynamic worker without PS": (r"Worker \d exited with 2", "the workers cannot run the ps")}

    def golden(self, case, args=SMALL):
        given = case["in"]
        docs = tfjob(given["replicas"], given.get("ports", {}), given.get("dynamic", False), given["job"])
        operator = {key: given[key] for key in ("domain", "sparse_key") if key in given}
        cluster = self.cluster(docs, args, {}, namespace=given["ns"], operator=operator)
        cluster.start_all()
        for name, config in case["pods"].items():  # exactly as the operator sets it
            env = {e["name"]: e["value"] for e in cluster.pods[name].spec["containers"][0].get("env", [])}
            self.assertEqual(env.get("TF_CONFIG"), config)
        return cluster

    def test_every_golden_case_runs_or_is_refused(self):
        self.assertEqual({case["name"] for case in facts.cases()}, self.RUNS | set(self.REFUSES))

    def golden_case(self, name):
        case, = (case for case in facts.cases() if case["name"] == name)
        cluster = self.golden(case)
        if name in self.REFUSES:
            who, why = self.REFUSES[name]
            self.assertRegex(cluster.run(300), f"Failed: {who}", cluster.all_logs())
            self.assertIn(why, cluster.all_logs())
            return
        summary = self.done(cluster)
        replicas = case["in"]["replicas"]
        listed = sum(replicas.get(kind, 0) for kind in ("Chief", "Master", "Worker"))
        self.assertEqual(summary["ps"], replicas.get("PS", 1))
        late = case["in"].get("dynamic")  # worker 0 knows itself alone, and does not wait for the others
        self.assertIn(summary["workers"], range(1, listed + 1) if late else [listed])
        self.all_end_with(cluster, 0)

    def test_golden_a_single_worker(self):
        self.golden_case("single worker: no TF_CONFIG")

    def test_golden_2_ps_and_3_workers_without_a_chief(self):
        self.golden_case("dense 2 PS 3 workers")

    def test_golden_chief_ps_workers_and_evaluator(self):
        self.golden_case("dense chief+ps+worker+evaluator")

    def test_golden_a_master(self):
        self.golden_case("dense master (legacy chief)")

    @pods.short
    def test_golden_a_port_of_its_own_for_each_replica_type(self):
        self.golden_case("custom ports per replica type")

    def test_golden_names_with_a_domain(self):
        self.golden_case("custom cluster domain")

    def test_golden_the_sparse_cluster_of_operators_before_1_7(self):
        self.golden_case("dynamic worker (operator 1.1 - 1.6)")

    @pods.short
    def test_golden_a_single_ps_says_what_is_missing(self):
        self.golden_case("single PS: no TF_CONFIG")

    def test_golden_a_chief_under_dynamic_workers_is_refused(self):
        self.golden_case("dynamic worker (operator >= 1.7)")

    def test_golden_dynamic_workers_without_a_ps_are_refused(self):
        self.golden_case("dynamic worker without PS")

    def test_a_lone_chief_trains_alone(self):
        summary, cluster = self.trains(tfjob({"Chief": 1}), args=FEW, secrets={})
        self.assertNotIn("env", cluster.pods["mnist-chief-0"].spec["containers"][0])
        self.assertEqual(summary["workers"], 1)

    # ---- overlays ----

    def test_the_upstream_example_runs_as_it_is(self):
        cluster = self.cluster("tfjob/overlays/dist-mnist", args=[], secrets={})
        cluster.start_all()
        self.assertEqual(cluster.run(600), "Succeeded", cluster.all_logs())
        self.all_end_with(cluster, 0)

    def test_names_come_and_go_as_readyz_answers(self):
        cluster = self.cluster("tfjob/overlays/monitored")
        cluster.start_all()
        self.assertEqual(list(cluster.names.iterdir()), [])  # not ready yet
        live, ready = set(), set()

        def look():
            ready.update(path.name for path in cluster.names.iterdir())
            live.update(pod.name for pod in cluster.pods.values() if cluster.answers(pod, "livenessProbe"))
        self.done(cluster, meanwhile=look)
        self.assertEqual((live, ready), (set(cluster.pods), set(cluster.pods)))

    def test_the_evaluator_on_the_chiefs_node_has_the_last_word(self):
        _, cluster = self.trains("tfjob/overlays/evaluator", secrets={})
        self.all_end_with(cluster, 0)
        self.assertEqual(cluster.pods["mnist-evaluator-0"].node, cluster.pods["mnist-chief-0"].node)
        self.assertNotEqual(cluster.pods["mnist-ps-0"].node, cluster.pods["mnist-chief-0"].node)
        self.assertTrue((self.claim / "eval.json").exists())

    @pods.short
    def test_the_base_trains_with_a_claim_of_one_node_and_the_dns_of_each_node(self):
        cluster = self.cluster("tfjob/base", secrets={}, resolver="169.254.20.10")
        self.assertEqual(of_kind(cluster.docs, "PersistentVolumeClaim")["spec"]["accessModes"], ["ReadWriteOnce"])
        cluster.start_all()
        self.assertEqual(self.done(cluster)["exact"], True)
        self.all_end_with(cluster, 0)
        self.assertEqual(len({pod.node for pod in cluster.pods.values()}), 5)
        self.assertEqual(list((self.tmp / "volumes").glob("mnist-ps-*-output/checkpoints/*")), [])
        self.assertTrue(list((self.claim / "model").iterdir()))
        self.assertTrue(list((self.claim / "logs").rglob("*tfevents*")))

    def test_openshifts_users_train(self):
        docs = overlay("tfjob/overlays/openshift")
        for spec in of_kind(docs, "TFJob")["spec"]["tfReplicaSpecs"].values():
            spec["template"]["spec"] = podspec.openshift(spec["template"]["spec"], 1000650000)
        cluster = self.cluster(docs, FEW, {})
        cluster.start_all()
        self.done(cluster)
        for pod in cluster.pods.values():
            self.assertEqual((self.tmp / f"volumes/{pod.name}-1-tmp").stat().st_gid, 1000650000)
        image = pods.podman("run", "--rm", "--pull=never", "--network=none", "--user=1000650000:0", "--entrypoint=touch",
                            "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", pods.IMAGE, "/output/x", check=False)
        self.assertEqual((image.returncode, image.stderr), (0, ""))  # group 0 can write without a volume, too

    def test_one_worker_trains_alone(self):
        summary, _ = self.trains("tfjob/overlays/one-worker")
        self.assertEqual(summary["workers"], 1)

    def test_data_are_copied_to_the_pods_node_before_it_starts(self):
        cluster = self.cluster("tfjob/overlays/local-data", FEW)
        cluster.folder("gradwire-data", 65532)
        (self.tmp / "volumes/gradwire-data/rows.txt").write_text("1\n")
        cluster.start_all()
        self.done(cluster)
        for pod in (pod for pod in cluster.pods.values() if pod.kind != "PS"):
            self.assertEqual((self.tmp / f"volumes/{pod.name}-1-data/rows.txt").read_text(), "1\n")

    def test_all_that_a_shared_cluster_asks_for_runs_together(self):
        summary, cluster = self.trains("tfjob/overlays/production", args=FEW, secrets={**TOKEN, "registry": {}})
        self.assertEqual((summary["ps"], summary["workers"]), (2, 3))

    def test_without_an_operator_ordinals_do(self):
        summary, _ = self.trains("plain/base", secrets={})
        self.assertEqual((summary["ps"], summary["workers"]), (2, 3))

    def test_hosts_of_the_hosts_form_train(self):
        docs = overlay("plain/hosts")
        first, other = (doc for doc in docs if doc["kind"] == "Job")
        docs = [doc for doc in docs if doc["kind"] != "Job"]
        ips = ",".join(f"$(HOST_{i})" for i in range(4))
        jobs = [first, *(copy.deepcopy(other) for _ in range(3))]
        cluster = self.cluster(docs + jobs)
        for i, doc in enumerate(jobs):
            doc["metadata"]["name"] = cluster.owners[i].name = f"mnist-host-{i}"
            container, = doc["spec"]["template"]["spec"]["containers"]
            container["env"] = [{"name": f"HOST_{n}", "value": cluster.net.address(n)} for n in range(4)]
            container["env"].append({"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}})
            container["args"] = [f"--worker_ips={ips}", "--current_ip=$(HOST)", "--port=2222", "--http_port=8080"]
        cluster.start_all()
        summary = self.done(cluster)
        self.assertEqual((summary["ps"], summary["workers"]), (4, 4))

    # ---- inside ----

    @pods.short
    def test_inside_nobody_is_root_nothing_is_writable_and_sigterm_leaves_a_checkpoint(self):
        cluster = self.cluster("tfjob/overlays/secure", LONG)
        cluster.start_all()
        chief = cluster.pods["mnist-chief-0"]
        cluster.until("a cut", self.cuts)
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
            cluster.kill(pod, "TERM")
        self.assertEqual(set(cluster.wait_all(300).values()), {143}, cluster.all_logs())
        self.assertEqual(self.summary_of()["status"], "interrupted", cluster.log(chief))

    def test_threads_follow_the_cpu_limit_and_limits_are_told(self):
        docs, seen = overlay("tfjob/overlays/monitored"), {}
        specs = of_kind(docs, "TFJob")["spec"]["tfReplicaSpecs"]
        for cores in ("1", "2"):
            for spec in specs.values():
                tensorflow(spec)["resources"].update(limits={"cpu": cores, "memory": "1Gi"}, requests={})
            cluster = self.cluster(docs, LONG)
            cluster.start_all()
            chief, ps, worker = (cluster.pods[name] for name in ("mnist-chief-0", "mnist-ps-0", "mnist-worker-0"))
            cluster.until_said(chief, "generation 1: ")
            n = min(int(cores), len(os.sched_getaffinity(0)))
            self.assertIn(f"generation 1: {2 * n} shards on 2 ps, 4 microbatches, {n} threads", cluster.log(chief))
            cluster.until_said(worker, "generation 1: ")
            for pod in (ps, worker):
                metrics = self.metrics_of(cluster, pod)
                self.assertEqual(metrics("gradwire_cpu_limit_cores"), int(cores))
                self.assertEqual(metrics("gradwire_memory_limit_bytes"), 1 << 30)
                seen.setdefault(pod.name, []).append(metrics("process_threads"))
            cluster.close()
            cluster.net.remove()
            self.tmp = self.tmp / "again"  # a cluster of its own
            self.tmp.mkdir()
        for name, (one, more) in seen.items():  # no pool of BLAS's with as many threads as the machine has cores
            cores = min(2, len(os.sched_getaffinity(0))) - 1
            self.assertIn(more - one, (cores, 2 * cores) if "-ps-" in name else (cores,), name)  # a shard, and what it sends

    UNITS, ROWS = 10000, 1000

    def wide(self):
        """A model of some 30 MiB; its ps and workers have the memory that docs/reference/resources.md gives them."""
        docs = overlay("tfjob/base")
        config, job = of_kind(docs, "ConfigMap"), of_kind(docs, "TFJob")
        config["data"]["job.yaml"] = config["data"]["job.yaml"].replace("units: 128", f"units: {self.UNITS}")
        specs = job["spec"]["tfReplicaSpecs"]
        specs["PS"]["replicas"] = specs["Worker"]["replicas"] = 1
        return docs, specs

    def test_nobody_is_killed_for_memory_within_the_documented_budget(self):
        docs, specs = self.wide()
        parameters = 785 * self.UNITS + 10 * (self.UNITS + 1)
        block, threads, microbatches, rows, slots, workers = 4 * parameters, 2, 4, 16, 2, 2
        ps = (64 << 20) + block * (4 + 3 * slots + 2 * microbatches + workers)
        activations = threads * 4 * rows * 3 * (784 + self.UNITS + 10)
        worker = (48 << 20) + 784 * (self.ROWS + 100) + block * (3 + microbatches) + activations
        budget = {"PS": ps, "Worker": worker, "Chief": worker}
        for kind, n in budget.items():
            tensorflow(specs[kind])["resources"] = {"limits": {"cpu": "2", "memory": str(n)}}
        cluster = self.cluster(docs, [f"--set=data.synthetic_train_rows={self.ROWS}", "--set=data.synthetic_eval_rows=100",
                                      "--epochs=2", "--set=checkpoint.every_steps=5", "--set=checkpoint.every_seconds=0"], {})
        cluster.start_all()
        self.done(cluster)
        for pod in cluster.pods.values():
            self.assertEqual((pod.starts, pod.restarts), (1, 0), cluster.all_logs())
            state = json.loads(pods.podman("inspect", pod.container).stdout)[0]["State"]
            self.assertFalse(state["OOMKilled"], pod.name)

    def test_who_has_too_little_memory_is_killed_and_made_anew(self):
        docs, specs = self.wide()
        tensorflow(specs["PS"])["resources"] = {"limits": {"memory": "64Mi"}}
        cluster = self.cluster(docs, [f"--set=data.synthetic_train_rows={self.ROWS}", "--set=data.synthetic_eval_rows=100"], {})
        cluster.start_all()
        ps = cluster.pods["mnist-ps-0"]
        cluster.until("the ps is made anew", lambda: ps.starts > 1)
        self.assertRegex(cluster.all_logs(), r"mnist-ps-0, start 1, exit (137|138)")

    # ---- pods come and go ----

    @pods.short
    def test_a_ps_that_is_killed_comes_back_at_another_address_and_the_bits_stay(self):
        args = [*SMALL, "--epochs=16"]  # not over before the kill
        cluster = self.cluster("tfjob/overlays/secure", args)
        cluster.start_all()
        ps = cluster.pods["mnist-ps-1"]
        first = ps.address
        cluster.until("a cut", lambda: self.cuts() > 1)
        cluster.kill(ps)
        summary = self.done(cluster)
        self.assertEqual(ps.starts, 2)
        self.assertNotEqual(ps.address, first)
        self.assertEqual((summary["ps"], summary["workers"], summary["exact"]), (2, 3, True))
        self.assertNotIn("nothing to do", cluster.all_logs())  # each worker has a part of every batch
        self.all_end_with(cluster, 0)
        self.assertEqual(summary["digest"], self.alone(args)["digest"])

    def test_a_ps_that_is_restarted_in_place_keeps_its_address_and_the_bits_stay(self):
        docs = overlay("tfjob/overlays/secure")
        of_kind(docs, "TFJob")["spec"]["tfReplicaSpecs"]["PS"]["restartPolicy"] = "OnFailure"
        cluster = self.cluster(docs)
        cluster.start_all()
        ps = cluster.pods["mnist-ps-0"]
        first = ps.address
        cluster.until("a cut", lambda: self.cuts() > 1)
        cluster.kill(ps)
        summary = self.done(cluster)
        self.assertEqual((ps.starts, ps.restarts, ps.address), (1, 1, first))
        self.assertEqual(summary["digest"], self.alone()["digest"])

    def test_a_suspended_job_goes_on_at_other_addresses_to_the_same_bits(self):
        docs, args = overlay("tfjob/overlays/secure"), [*SMALL, "--epochs=12"]
        cluster = self.cluster(docs, args)
        cluster.start_all()
        before = {pod.address for pod in cluster.pods.values()}
        cluster.until("a cut", lambda: self.cuts() > 1)
        of_kind(docs, "TFJob")["spec"]["runPolicy"]["suspend"] = True
        cluster.until("no pod is there", lambda: not any(pod.there for pod in cluster.pods.values()))
        self.assertEqual(cluster.condition(), "Suspended")
        self.assertEqual({pod.code for pod in cluster.pods.values()}, {143}, cluster.all_logs())
        self.assertEqual(self.summary_of()["status"], "interrupted")
        of_kind(docs, "TFJob")["spec"]["runPolicy"]["suspend"] = False
        summary = self.done(cluster)
        self.assertFalse(before & {pod.address for pod in cluster.pods.values()})
        self.assertEqual(summary["digest"], self.alone(args)["digest"])

    def test_a_job_whose_ps_never_comes_ends_with_the_reason(self):
        cluster = self.cluster("tfjob/overlays/secure", [*SMALL, "--set=timeouts.start_s=5"])
        cluster.start_all(but=("mnist-ps-1",))
        self.assertRegex(cluster.run(300), r"Failed: \w+ \d exited with 1$", cluster.all_logs())
        cluster.wait_all(300)
        self.assertRegex(cluster.all_logs(), r"ps 1 was not available for 5 s \(timeouts.start_s\): Name or service not known")
        words = {name: pod.last_words.read_text() for name, pod in cluster.pods.items() if pod.container}
        self.assertIn("ps 1 was not available for 5 s (timeouts.start_s)", words["mnist-worker-0"])
        self.assertTrue(all(words.values()), words)

    @pods.short
    def test_a_job_whose_ps_is_killed_and_never_returns_ends_with_the_reason(self):
        cluster = self.cluster("tfjob/overlays/secure", [*LONG, "--set=timeouts.ps_rejoin_s=8"])
        cluster.start_all()
        ps = cluster.pods["mnist-ps-1"]
        cluster.until("a cut", self.cuts)
        cluster.unschedulable.add(ps.name)
        cluster.kill(ps)
        began = time.monotonic()
        self.assertRegex(cluster.run(180), r"Failed: \w+ \d exited with 1$", cluster.all_logs())
        self.assertLess(time.monotonic() - began, 150)  # far below the 600 s of the default
        self.assertEqual((ps.starts, ps.phase), (2, "Pending"), cluster.all_logs())
        cluster.wait_all(300)
        self.assertIn("timeouts.ps_rejoin_s", cluster.pods["mnist-chief-0"].last_words.read_text(), cluster.all_logs())

    def test_a_running_pod_that_is_deleted_fails_the_job_and_the_rest_is_cleaned_up(self):
        cluster = self.cluster("tfjob/overlays/secure", LONG)
        cluster.start_all()
        cluster.until("a cut", self.cuts)
        cluster.delete(cluster.pods["mnist-ps-0"])
        self.assertEqual(cluster.run(300, meanwhile=lambda: None), "Failed: PS 0 was deleted")
        cluster.clean()  # cleanPodPolicy Running
        codes = cluster.wait_all(300)
        self.assertFalse(any(pod.there and pod.phase == "Running" for pod in cluster.pods.values()), codes)
        self.assertEqual(codes["mnist-ps-0"], 143, cluster.all_logs())
        self.assertEqual(set(codes.values()), {143}, cluster.all_logs())

    def test_a_job_beyond_its_active_deadline_has_all_its_pods_deleted(self):
        docs = overlay("tfjob/overlays/secure")
        of_kind(docs, "TFJob")["spec"]["runPolicy"]["activeDeadlineSeconds"] = 8
        cluster = self.cluster(docs, LONG)
        cluster.start_all()
        self.assertEqual(cluster.run(300, meanwhile=lambda: None), "Failed: it was active longer than specified deadline")
        self.assertEqual(set(cluster.wait_all(300).values()), {143}, cluster.all_logs())
        self.assertFalse(any(pod.there for pod in cluster.pods.values()))

    # ---- scaled ----

    def test_workers_of_a_dynamic_job_come_and_go_with_its_replicas(self):
        docs = overlay("tfjob/overlays/dynamic")
        specs = of_kind(docs, "TFJob")["spec"]["tfReplicaSpecs"]
        tensorflow(specs["Worker"])["args"].append("--fault=straggle:5")
        args = [*FEW, "--epochs=60", "--set=training.microbatches=16"]
        cluster = self.cluster(docs, args)
        cluster.start_all()
        first, = (e["value"] for e in cluster.pods["mnist-worker-1"].spec["containers"][0]["env"])
        cluster.until_said(cluster.pods["mnist-worker-1"], "generation 1")
        specs["Worker"]["replicas"] = 3
        cluster.until("worker 2 is there", lambda: "mnist-worker-2" in cluster.pods)
        last = cluster.pods["mnist-worker-2"]
        cluster.until_said(last, "generation 1")
        self.assertEqual(cluster.pods["mnist-worker-1"].spec["containers"][0]["env"][0]["value"], first)  # its own stays
        specs["Worker"]["replicas"] = 2
        cluster.until("worker 2 is gone", lambda: not last.there and last.code is not None)
        self.assertEqual(last.code, 143, cluster.log(last))
        self.assertIn("the chief has taken back this worker's batches", cluster.log(last))
        summary = self.done(cluster)
        self.assertEqual(summary["batches"]["applied_min"], summary["batches"]["dealt"])
        self.assertEqual((last.starts, summary["exact"], summary["workers"]), (1, True, 3))
        self.all_end_with(cluster, 0, 143)
        self.assertEqual(summary["digest"], self.alone(args)["digest"])

    def test_elastic_workers_are_scaled_up_and_drained(self):
        docs = overlay("plain/overlays/elastic")  # with the token, a network policy, probes
        workers, = (d for d in docs if d["kind"] == "StatefulSet" and d["metadata"]["name"] == "mnist-worker")
        workers["spec"]["replicas"] = 2  # as the autoscaler has it
        workers["spec"]["template"]["spec"]["containers"][0]["args"].append("--fault=straggle:5")
        cluster = self.cluster(docs, [*FEW, "--epochs=100"])
        cluster.start_all()
        cluster.until_said(cluster.pods["mnist-worker-1"], "generation 1")
        workers["spec"]["replicas"] = 4
        cluster.until("workers 2 and 3 are there", lambda: "mnist-worker-3" in cluster.pods)
        for i in (2, 3):
            cluster.until_said(cluster.pods[f"mnist-worker-{i}"], "generation 1")
        workers["spec"]["replicas"] = 2
        gone = [cluster.pods[f"mnist-worker-{i}"] for i in (2, 3)]
        cluster.until("workers 2 and 3 are gone", lambda: not any(pod.there for pod in gone))
        self.assertEqual([pod.code for pod in gone], [143, 143], cluster.all_logs())
        summary = self.done(cluster)
        self.assertEqual((summary["exact"], summary["batches"]["applied_min"]), (True, summary["batches"]["dealt"]))
        self.assertEqual(summary["workers"], 5)  # the chief, and workers 0 to 3

    # ---- NetworkPolicies ----

    @pods.short
    def test_a_stranger_reaches_nothing_monitoring_the_metrics_and_the_job_itself(self):
        docs = overlay("tfjob/overlays/production")
        cluster = self.cluster(docs, LONG, {**TOKEN, "registry": {}})
        stranger, neighbour = cluster.stranger("team"), cluster.stranger("other", JOB)
        monitoring = cluster.stranger("monitoring")
        cluster.start_all()
        cluster.until("a cut", self.cuts)  # the job's own pods and DNS are let through
        for pod in (cluster.pods["mnist-ps-0"], cluster.pods["mnist-worker-0"]):
            for host in (stranger, neighbour):
                self.assertFalse(cluster.reaches(host, pod.address, 2222))
                self.assertFalse(cluster.reaches(host, pod.address, 8080))
            self.assertTrue(cluster.reaches(monitoring, pod.address, 8080))
            self.assertFalse(cluster.reaches(monitoring, pod.address, 2222))
        inside = cluster.pods["mnist-worker-0"].host
        self.assertTrue(cluster.reaches(inside, cluster.pods["mnist-ps-0"].address, 2222))
        self.assertFalse(cluster.reaches(inside, cluster.pods["mnist-ps-0"].address, 8080))
        for host in (stranger, monitoring):  # and it connects to no other host
            self.assertFalse(cluster.reaches(inside, cluster.net.address(host), 2222))
        ps = cluster.pods["mnist-ps-0"]
        subprocess.run(cluster.net.command(ps.host, "nft", "delete", "table", "inet", "gradwire"), check=True)
        self.assertTrue(cluster.reaches(stranger, ps.address, 2222))  # it was the rules


if __name__ == "__main__":
    unittest.main()
