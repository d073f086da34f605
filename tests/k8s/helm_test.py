#!/usr/bin/env python3
"""The chart gives what Kustomize gives, object by object, keeps the rules with other values, and refuses values that it does
not know."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not there")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402
import netpolicy  # noqa: E402
import overlays_test  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402

CHART = facts.ROOT / "k8s/helm/gradwire"
AS_THE_BASE = ["prefix=gradwire"]  # the names of the base
SECURE = ["token.required=true"]
TLS = ["tls.secretName=gradwire-tls"]
MONITORED = [*SECURE, "podMonitor.enabled=true"]
CLUSTER_WIDE = ("PrometheusRule", "gradwire"), ("ConfigMap", "gradwire-dashboard")  # not of one job: not in the chart
TENSORBOARD = ["tensorboard.enabled=true", "tensorboard.image=registry/tensorboard:2.20.0"]
SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "prometheus.io/path": "/metrics"}
ROLES = "Chief", "PS", "Worker", "Evaluator"


def objects(text):
    found = [doc for doc in yaml.safe_load_all(text) if doc]
    named = {(doc["kind"], doc["metadata"]["name"]): doc for doc in found}
    if len(named) != len(found):
        raise AssertionError("an object stands there twice")
    return named


def kustomized(folder):
    return objects(render.text(facts.ROOT / "k8s" / folder))


def run(*args, values=(), of_json=()):
    words = [word for value in values for word in ("--set", value)] + [word for value in of_json for word in ("--set-json", value)]
    return subprocess.run([render.helm(), *args, CHART, *words], capture_output=True, text=True)


def tensorboard():
    """The program tensorboard: of the PATH, next to the Python that GRADWIRE_TENSORBOARD names, or, where that is `pip`, of the
    virtual environment that tests/e2e/evaluator_test.py has made."""
    wanted = os.environ.get("GRADWIRE_TENSORBOARD", sys.executable)
    near = (facts.BUILD / "tensorboard-venv/bin" if wanted == "pip" else pathlib.Path(wanted).parent) / "tensorboard"
    return shutil.which("tensorboard") or (str(near) if near.exists() else None)


def last_wins(args):
    """The arguments as the program understands them: of a flag that is given twice, the last one. --set adds up."""
    flags = {}
    for arg in args:
        flags.pop(arg if arg.startswith("--set=") else arg.split("=")[0], None)
        flags[arg if arg.startswith("--set=") else arg.split("=")[0]] = arg
    return sorted(flags.values())


def pod_of(docs, kind):
    return docs["TFJob", "mnist"]["spec"]["tfReplicaSpecs"][kind]["template"]


def spec_of(docs, kind):
    return pod_of(docs, kind)["spec"]


def container_of(docs, kind):
    return spec_of(docs, kind)["containers"][0]


class ChartCase(unittest.TestCase):
    maxDiff = None

    def rendered(self, *values, name="mnist", of_json=()):
        got = run("template", name, values=values, of_json=of_json)
        self.assertEqual(got.returncode, 0, got.stderr)
        return objects(got.stdout)

    def refused(self, says, *values, name="mnist", of_json=()):
        got = run("template", name, values=values, of_json=of_json)
        self.assertNotEqual(got.returncode, 0, got.stdout[:500])
        self.assertIn(says, got.stderr)


@facts.skip_without(render.helm(), f"helm {render.NO_TOOLS} (or: go install {render.HELM})")
@render.wanted
class HelmTest(ChartCase):
    def equal(self, folder, values, but=(), of_json=()):
        ours, theirs = self.rendered(*AS_THE_BASE, *values, of_json=of_json), kustomized(folder)
        for key in but:
            del theirs[key]
        self.assertEqual(set(ours), set(theirs))
        for key, doc in ours.items():
            theirs[key]["metadata"]["labels"].pop("gradwire/evaluator", None)  # kustomize's alone
            if doc["metadata"].get("annotations") == {"helm.sh/resource-policy": "keep"}:
                del doc["metadata"]["annotations"]  # helm's alone
            for each in (doc, theirs[key]):
                if "job.yaml" in each.get("data", {}):  # the comments may differ
                    each["data"]["job.yaml"] = yaml.safe_load(each["data"]["job.yaml"])
                for spec in each.get("spec", {}).get("tfReplicaSpecs", {}).values():
                    for container in spec["template"]["spec"]["containers"]:
                        container["args"] = last_wins(container["args"])
            with self.subTest(folder=folder, object=key):
                self.assertEqual(doc, theirs[key])

    def test_the_chart_gives_the_overlays_object_by_object(self):
        self.equal("tfjob/base", ())
        self.equal("tfjob/overlays/secure", SECURE)
        self.equal("tfjob/overlays/tls", TLS)
        self.equal("tfjob/overlays/monitored", MONITORED, but=CLUSTER_WIDE, of_json=[f"pod={json.dumps({'annotations': SCRAPED})}"])
        self.equal("tfjob/overlays/evaluator", ["evaluator.replicas=1"])
        self.equal("tfjob/overlays/openshift", ["openshift=true"])
        self.equal("tfjob/overlays/data", ["claims.data.create=true"])

    @facts.wanted
    def test_every_object_passes_the_schemas(self):
        most = [*TENSORBOARD, *SECURE, *TLS, "podDisruptionBudget.enabled=true", "evaluator.replicas=1", "openshift=true",
                "claims.data.create=true", "claims.logs.create=true", "labels.a=b", "annotations.a=b", "runPolicy.suspend=true"]
        seen = 0
        for values in ((), (*most, "podMonitor.enabled=true"), (*most, "serviceMonitor.enabled=true")):
            for key, doc in self.rendered(*values).items():
                for name, validator in overlays_test.schemas_of(doc):
                    self.assertIsNotNone(validator, f"{key}: no schema in {name}")
                    self.assertEqual([e.message[:200] for e in validator.iter_errors(doc)], [], (key, name, values))
                    seen += 1
        self.assertGreater(seen, 30)

    # ---- a first installation ----

    def test_a_first_installation_needs_nothing_that_is_not_in_it(self):
        docs = self.rendered()
        self.assertEqual(rules.broken(list(docs.values())), [])
        self.assertEqual({key for key in docs if key[0] == "PersistentVolumeClaim"}, {("PersistentVolumeClaim", "mnist-output")})
        self.assertEqual(docs["PersistentVolumeClaim", "mnist-output"]["spec"]["accessModes"], ["ReadWriteOnce"])
        self.assertEqual(set(docs["TFJob", "mnist"]["spec"]["tfReplicaSpecs"]), {"Chief", "PS", "Worker"})
        for kind in ("Chief", "PS", "Worker"):
            volumes = {v["name"]: v for v in spec_of(docs, kind)["volumes"]}
            self.assertFalse([v for v in volumes.values() if "secret" in v], kind)
            self.assertEqual("persistentVolumeClaim" in volumes["output"], kind == "Chief")
            self.assertIn("--auth=none", container_of(docs, kind)["args"])
            self.assertIn("readinessProbe", container_of(docs, kind))
        self.assertIn("--logs=/output/logs", container_of(docs, "Chief")["args"])
        self.assertIn(("NetworkPolicy", "mnist"), docs)

    def test_every_name_is_of_the_release(self):
        mine, others = (set(self.rendered(*TENSORBOARD, *MONITORED, "podDisruptionBudget.enabled=true", "claims.data.create=true",
                                          "claims.logs.create=true", name=name)) for name in ("one", "two"))
        self.assertEqual(len(mine), 10)
        self.assertEqual(mine & others, set())
        self.assertEqual({(kind, name.replace("two", "one", 1)) for kind, name in others}, mine)

    def test_a_release_name_that_no_service_can_have_is_refused(self):
        self.rendered(name="a" * 50)
        for name in ("1st", "a.b", "a" * 51):
            self.refused(f'release name "{name}": ', name=name)

    def test_claims_outlive_the_release_unless_told_otherwise(self):
        every = ("claims.data.create=true", "claims.logs.create=true")
        for docs, keeps in ((self.rendered(*every), True),
                            (self.rendered(*every, *(f"claims.{c}.keep=false" for c in ("data", "output", "logs"))), False)):
            claims = [doc for doc in docs.values() if doc["kind"] == "PersistentVolumeClaim"]
            self.assertEqual(len(claims), 3)
            for doc in claims:
                kept = doc["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
                self.assertEqual(kept, keeps, doc["metadata"]["name"])

    # ---- values ----

    def test_grace_reaches_pod_ps_and_job(self):
        docs = self.rendered("grace=300")
        self.assertEqual(spec_of(docs, "Worker")["terminationGracePeriodSeconds"], 300)
        self.assertIn("--grace_s=300", container_of(docs, "PS")["args"])
        for kind in ("Chief", "PS", "Worker"):
            self.assertIn("--set=timeouts.grace_s=225", container_of(docs, kind)["args"])
            self.assertNotIn("--grace_s=300", container_of(docs, kind)["args"] if kind != "PS" else [])
            self.assertFalse([a for a in container_of(self.rendered(), kind)["args"] if a.startswith("--set")], "the file says it")
        for job in ("name: own", "timeouts:", "[", "timeouts: {grace_s: 50}"):
            own = self.rendered(of_json=[f"jobFile={json.dumps(job)}"])
            self.assertIn("--set=timeouts.grace_s=45", container_of(own, "Worker")["args"], job)
        last = container_of(self.rendered("grace=300", "args={--set=timeouts.grace_s=200}"), "PS")["args"]
        self.assertEqual(last[-1], "--set=timeouts.grace_s=200")

    @facts.skip_without(facts.ENTRYPOINT.exists(), f"{facts.ENTRYPOINT} is not there")
    @facts.wanted
    def test_the_ps_and_the_job_know_the_grace(self):
        docs = self.rendered("grace=300")
        with tempfile.TemporaryDirectory() as tmp:
            job = pathlib.Path(tmp) / "job.yaml"
            job.write_text(docs["ConfigMap", "mnist-job"]["data"]["job.yaml"])
            config = facts.tf_config("mnist", "team", {"Chief": 1, "PS": 2, "Worker": 2}, "PS", 0)
            got = subprocess.run([facts.ENTRYPOINT, "doctor", *container_of(docs, "PS")["args"], f"--job={job}", f"--output={tmp}"],
                                 env=facts.environment(TF_CONFIG=config), capture_output=True, text=True)
        self.assertIn("ok   grace: timeouts.grace_s is 225,", got.stdout, got.stderr)

    def test_pods_that_mount_a_claim_of_one_node_are_together(self):
        docs = self.rendered("evaluator.replicas=1", *TENSORBOARD, "chief.pod.affinity.nodeAffinity.x=y")
        self.assertEqual(rules.broken(list(docs.values())), [])
        seen = 0
        for pod in rules.pods(docs.values()):
            for term in pod.spec.get("affinity", {}).get("podAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", []):
                chosen = {p.labels["app.kubernetes.io/component"] for p in rules.pods(docs.values())
                          if rules.chooses(term["labelSelector"], p.labels)}
                self.assertEqual(chosen, {"chief", "evaluator", "tensorboard"}, pod.where)
                self.assertEqual(term["topologyKey"], "kubernetes.io/hostname")
                seen += 1
        self.assertEqual(seen, 3)
        self.assertEqual(spec_of(docs, "Chief")["affinity"]["nodeAffinity"], {"x": "y"})
        self.assertNotIn("affinity", spec_of(self.rendered(), "Chief"))
        self.refused("ReadWriteOncePod", "claims.output.accessModes={ReadWriteOncePod}", "evaluator.replicas=1")

    def test_a_claim_of_several_nodes_is_written_by_the_ps(self):
        shared = self.rendered("evaluator.replicas=1", "claims.output.accessModes={ReadWriteMany}")
        self.assertNotIn("affinity", spec_of(shared, "Evaluator"))
        for kind in ("Chief", "PS", "Evaluator"):
            self.assertIn({"name": "output", "persistentVolumeClaim": {"claimName": "mnist-output"}}, spec_of(shared, kind)["volumes"])

    def test_claims_are_created_expected_or_left_out(self):
        docs = self.rendered("claims.data.create=false", "claims.data.name=common", "claims.logs.create=true",
                             "claims.logs.storageClassName=fast", "claims.output.create=false", "evaluator.replicas=1")
        self.assertEqual([name for kind, name in docs if kind == "PersistentVolumeClaim"], ["mnist-logs"])
        self.assertEqual(docs["PersistentVolumeClaim", "mnist-logs"]["spec"]["storageClassName"], "fast")
        for kind, claims in (("Chief", {"common", "mnist-output", "mnist-logs"}), ("Worker", {"common"}), ("PS", set()),
                             ("Evaluator", {"common", "mnist-output", "mnist-logs"})):
            self.assertEqual({v["persistentVolumeClaim"]["claimName"] for v in spec_of(docs, kind)["volumes"]
                              if "persistentVolumeClaim" in v}, claims, kind)
        self.assertIn("--logs=/logs", container_of(docs, "Chief")["args"])
        self.refused("claims.data: there is no such claim", "claims.data.storageClassName=fast")

    def test_pods_get_what_is_said_for_all_and_for_a_role(self):
        everything = {"labels": {"team": "a"}, "annotations": {"note": "all"}, "env": [{"name": "A", "value": "1"}],
                      "volumes": [{"name": "nfs", "emptyDir": {}}], "volumeMounts": [{"name": "nfs", "mountPath": "/nfs"}],
                      "nodeSelector": {"disk": "ssd", "zone": "1"}, "tolerations": [{"key": "x", "operator": "Exists"}]}
        own = {"annotations": {"note": "ps"}, "env": [{"name": "B", "value": "2"}], "nodeSelector": {"zone": "2"},
               "tolerations": [{"key": "y", "operator": "Exists"}], "priorityClassName": "system-node-critical",
               "affinity": {"nodeAffinity": {}}}
        docs = self.rendered("labels.cost=42x", "annotations.owner=me", *TENSORBOARD,
                             of_json=[f"pod={json.dumps(everything)}", f"ps.pod={json.dumps(own)}"])
        self.assertEqual(rules.broken(list(docs.values())), [])
        for doc in docs.values():
            self.assertEqual((doc["metadata"]["labels"]["cost"], doc["metadata"]["annotations"]["owner"]), ("42x", "me"))
        ps, worker = pod_of(docs, "PS"), pod_of(docs, "Worker")
        board = docs["Deployment", "mnist-tensorboard"]["spec"]["template"]
        for pod, note, env, zone, keys in ((ps, "ps", "AB", "2", "xy"), (worker, "all", "A", "1", "x"), (board, "all", "A", "1", "x")):
            self.assertEqual((pod["metadata"]["labels"]["team"], pod["metadata"]["labels"]["cost"]), ("a", "42x"))
            self.assertEqual((pod["metadata"]["annotations"]["note"], pod["metadata"]["annotations"]["owner"]), (note, "me"))
            container = pod["spec"]["containers"][0]
            self.assertEqual([e["name"] for e in container["env"] if e["name"] != "HOME"], list(env))
            self.assertEqual(pod["spec"]["nodeSelector"], {"disk": "ssd", "zone": zone})
            self.assertEqual([t["key"] for t in pod["spec"]["tolerations"]], list(keys))
            self.assertIn({"name": "nfs", "mountPath": "/nfs"}, container["volumeMounts"])
        self.assertEqual(ps["spec"]["affinity"], {"nodeAffinity": {}})
        self.refused("ps.pod.labels: app.kubernetes.io/name is set by the chart", r"ps.pod.labels.app\.kubernetes\.io/name=x")
        self.refused("ps.pod.labels: a is set by the chart or by a value for all objects", "labels.a=b", "ps.pod.labels.a=c")
        self.refused('worker.pod.volumes: the name "tmp" is the chart\'s', "worker.pod.volumes[0].name=tmp")

    def test_a_monitor_gets_the_label_by_which_prometheus_selects(self):
        for value, kind in (("podMonitor", "PodMonitor"), ("serviceMonitor", "ServiceMonitor")):
            docs = self.rendered(f"{value}.enabled=true", f"{value}.labels.release=kube-prometheus", "networkPolicy.monitoring=prom")
            self.assertEqual(rules.broken(list(docs.values())), [])
            self.assertEqual(docs[kind, "mnist"]["metadata"]["labels"]["release"], "kube-prometheus")
            _, scraped = docs["NetworkPolicy", "mnist"]["spec"]["ingress"]
            self.assertEqual(scraped["from"], [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prom"}}}])
        self.refused("choose one", "podMonitor.enabled=true", "serviceMonitor.enabled=true")

    def test_the_disruption_budget_counts_the_ps(self):
        docs = self.rendered("podDisruptionBudget.enabled=true", "ps.replicas=3")
        self.assertEqual(rules.broken(list(docs.values())), [])
        self.assertEqual(docs["PodDisruptionBudget", "mnist-ps"]["spec"]["minAvailable"], 3)

    def test_tensorboard_reads_the_chiefs_files(self):
        for values, claim, logs in (((), "mnist-output", "/output/logs"), (("claims.logs.create=true",), "mnist-logs", "/logs")):
            docs = self.rendered(*TENSORBOARD, *values)
            self.assertEqual(rules.broken(list(docs.values())), [])
            pod = docs["Deployment", "mnist-tensorboard"]["spec"]["template"]["spec"]
            self.assertIn(f"--logdir={logs}", pod["containers"][0]["command"])
            self.assertIn(f"--logs={logs}", container_of(docs, "Chief")["args"])
            self.assertEqual([v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v], [claim])
            self.assertTrue(all(m.get("readOnly") for m in pod["containers"][0]["volumeMounts"] if m["name"] != "tmp"))
            self.assertEqual("affinity" in pod, claim == "mnist-output")
        self.refused("tensorboard.enabled needs tensorboard.image", "tensorboard.enabled=true")

    @facts.skip_without(facts.ENTRYPOINT.exists(), f"{facts.ENTRYPOINT} is not there")
    @facts.skip_without(tensorboard(), "tensorboard is not there: GRADWIRE_TENSORBOARD names a Python that has it")
    def test_tensorboard_shows_a_job_by_the_deployments_command(self):
        docs = self.rendered(*TENSORBOARD)
        with tempfile.TemporaryDirectory() as tmp:
            (pathlib.Path(tmp) / "job.yaml").write_text(docs["ConfigMap", "mnist-job"]["data"]["job.yaml"])
            logs, = (a for a in container_of(docs, "Chief")["args"] if a.startswith("--logs="))
            trained = subprocess.run([facts.ENTRYPOINT, f"--job={tmp}/job.yaml", f"--output={tmp}/output", "--epochs=1",
                                      logs.replace("=/", f"={tmp}/"), "--set=data.synthetic_train_rows=64"], env=facts.environment(),
                                     capture_output=True, text=True)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            program, *words = docs["Deployment", "mnist-tensorboard"]["spec"]["template"]["spec"]["containers"][0]["command"]
            self.assertEqual(program, "tensorboard")
            words = [word.replace("=/", f"={tmp}/").replace("--port=6006", "--port=0") for word in words]
            with subprocess.Popen([tensorboard(), *words], env={"PATH": "/usr/bin:/bin", "HOME": tmp}, stderr=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, text=True) as board:
                try:
                    port, = next(found for found in map(re.compile(r" at http://[^ ]*:(\d+)/").findall, board.stderr) if found)
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as page:
                        self.assertIn("TensorBoard", page.read().decode())
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/environment", timeout=60) as page:
                        self.assertEqual(json.load(page)["data_location"], f"{tmp}/output/logs")
                finally:
                    board.kill()
            self.assertTrue(list(pathlib.Path(tmp, "output/logs").rglob("events.out.tfevents*")))

    def test_openshift_chooses_the_user_and_answers_names(self):
        docs = self.rendered("openshift=true", *TENSORBOARD)
        self.assertEqual(rules.broken(list(docs.values())), [])
        pods = list(rules.pods(docs.values()))
        self.assertEqual(len(pods), 4)
        for pod in pods:
            self.assertEqual(set(pod.spec["securityContext"]) & {"runAsUser", "runAsGroup", "fsGroup"}, set(), pod.where)
        policy = docs["NetworkPolicy", "mnist"]
        policy["metadata"]["namespace"] = "team"
        worker = netpolicy.Host("10.0.0.2", "team", (("training.kubeflow.org/job-name", "mnist"),))
        dns = netpolicy.Host("10.0.9.9", "openshift-dns", ())
        self.assertTrue(netpolicy.allows([policy], worker, dns, "UDP", 5353))

    def test_without_http_the_roles_that_listen_are_ready_when_they_do(self):
        """A worker and an evaluator listen on no port, and a TCP probe cannot see that a process hangs."""
        docs = self.rendered("http.enabled=false", "evaluator.replicas=1")
        self.assertEqual([line for line in rules.broken(list(docs.values())) if "Probe" not in line], [])
        for kind in ROLES:
            container = container_of(docs, kind)
            found = {key: value for key, value in container.items() if key.endswith("Probe")}
            listens = kind in ("Chief", "PS")
            self.assertEqual(found, {"readinessProbe": {"tcpSocket": {"port": "tfjob-port"}, "periodSeconds": 2}} if listens else {}, kind)
            self.assertNotIn("--http_port=8080", container["args"])

    def test_other_values_keep_the_rules(self):
        docs = self.rendered(*MONITORED, "ps.replicas=5", "prefix=other", "image=registry/gradwire:0.1.0",
                             "args={--epochs=20,--set=training.update=async}", "claims.output.storageClassName=fast",
                             "worker.pod.tolerations[0].key=spot", "worker.pod.tolerations[0].operator=Exists",
                             "runPolicy.suspend=true")
        self.assertEqual(rules.broken(list(docs.values())), [])
        job = docs["TFJob", "mnist"]["spec"]
        specs = job["tfReplicaSpecs"]
        self.assertEqual({kind: spec["replicas"] for kind, spec in specs.items()}, {"Chief": 1, "PS": 5, "Worker": 2})
        self.assertTrue(job["runPolicy"]["suspend"])
        self.assertEqual(specs["Worker"]["template"]["spec"]["tolerations"], [{"key": "spot", "operator": "Exists"}])
        self.assertEqual(container_of(docs, "Chief")["args"][-2:], ["--epochs=20", "--set=training.update=async"])
        self.assertEqual(docs["PersistentVolumeClaim", "other-output"]["spec"]["storageClassName"], "fast")

    def test_the_values_of_the_first_chart_are_still_known(self):
        docs = self.rendered("prefix=gradwire", "evaluator.replicas=1", *(
            f"claims.{name}.{rest}" for name in ("data", "output", "logs")
            for rest in ("create=true", "accessModes={ReadWriteMany}", "storage=5Gi", "storageClassName=fast")),
            "token.required=true", "networkPolicy.enabled=false", "http.enabled=false", "grace=90", "runPolicy.backoffLimit=3")
        wanted = [rule for rule in rules.RULES if rule is not rules.probes]  # http.enabled=false: that chart had none without it
        self.assertEqual(rules.broken(list(docs.values()), wanted), [])
        self.assertEqual({name for kind, name in docs if kind == "PersistentVolumeClaim"},
                         {"gradwire-data", "gradwire-output", "gradwire-logs"})
        for kind in ROLES:
            mounts = {m["mountPath"] for m in container_of(docs, kind)["volumeMounts"]}
            self.assertEqual(mounts - {"/tmp", "/etc/gradwire", "/run/secrets/gradwire"},
                             {"/output", *(["/data"] if kind != "PS" else []), *(["/logs"] if kind in ("Chief", "Evaluator") else [])})

    def test_values_that_have_no_effect_are_refused(self):
        for value, says in (("ps.replica=3", "replica"), ("workers=3", "workers"), ("ps.replicas=0", "minimum"),
                            ("evaluator.replicas=2", "maximum"), ("worker.pod.hostNetwork=true", "hostNetwork"),
                            ("claims.data.accessModes={Many}", "accessModes"), ("runPolicy.cleanPodPolicy=Some", "cleanPodPolicy"),
                            ("tls.enabled=true", "enabled"), ("tls.secretName=Big", "secretName"), ("grace=0", "grace"),
                            ("claims.output.create=null", "create"), ("pod.env[0].value=x", "name"),
                            ("labels.a=has space", "labels"), ("tensorboard.port=1", "port"), ("image=a name", "image"),
                            ("claims.output.storage=lots", "storage"),
                            ("claims.output.accessModes={ReadOnlyMany}", "accessModes"), ("claims.output.storage=10G B", "storage"),
                            ("worker.resources.requests.memory=lots", "memory"), ("ps.resources.limits.cpu=2 cores", "cpu")):
            with self.subTest(value=value):
                self.refused(says, value)
        self.rendered("worker.resources.requests.memory=1.5Gi", "worker.resources.limits.cpu=2500m", "ps.resources.limits.cpu=2",
                      "claims.output.storage=100G")
        for monitor in ("podMonitor", "serviceMonitor"):
            self.refused(f"{monitor}.enabled needs http.enabled", f"{monitor}.enabled=true", "http.enabled=false")

    def test_helm_finds_nothing_to_say(self):
        got = run("lint", "--strict")
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)

    def test_every_value_is_in_the_schema(self):
        schema = json.loads((CHART / "values.schema.json").read_text())

        def same(values, given, where):
            while "$ref" in given:
                given = schema["definitions"][given["$ref"].split("/")[-1]]
            known = given.get("properties")
            if isinstance(values, dict) and known is not None and where != "pod" and not where.endswith(".pod"):
                self.assertEqual(set(values), set(known) - {"global"} - ({"suspend", "schedulingPolicy"} if where == "runPolicy" else set()),
                                 where)
                for key, value in values.items():
                    same(value, known[key], f"{where}.{key}".lstrip("."))
        same(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "")


if __name__ == "__main__":
    unittest.main()
