#!/usr/bin/env python3
"""The chart gives what Kustomize gives, object by object, and refuses values that it does not know."""
import json
import pathlib
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not there")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402

CHART = facts.ROOT / "k8s/helm/gradwire"
SECURE = ["token.required=true", "networkPolicy.enabled=true"]
TLS = ["tls.secretName=gradwire-tls", "networkPolicy.enabled=true"]
MONITORED = [*SECURE, "http.enabled=true", "podMonitor.enabled=true"]
CLUSTER_WIDE = ("PrometheusRule", "gradwire"), ("ConfigMap", "gradwire-dashboard")  # not of one job: not in the chart


def objects(text):
    found = [doc for doc in yaml.safe_load_all(text) if doc]
    named = {(doc["kind"], doc["metadata"]["name"]): doc for doc in found}
    if len(named) != len(found):
        raise AssertionError("an object stands there twice")
    return named


def kustomized(folder):
    return objects(render.text(facts.ROOT / "k8s" / folder))


@facts.skip_without(render.helm(), f"helm {render.NO_TOOLS} (or: go install {render.HELM})")
@render.wanted
class HelmTest(unittest.TestCase):
    def helm(self, *args, values=()):
        sets = [word for value in values for word in ("--set", value)]
        return subprocess.run([render.helm(), *args, CHART, *sets], capture_output=True, text=True)

    def rendered(self, *values):
        got = self.helm("template", "mnist", values=values)
        self.assertEqual(got.returncode, 0, got.stderr)
        return objects(got.stdout)

    def equal(self, folder, values, but=()):
        ours, theirs = self.rendered(*values), kustomized(folder)
        for key in but:
            del theirs[key]
        self.assertEqual(set(ours), set(theirs))
        for key, doc in ours.items():
            with self.subTest(folder=folder, object=key):
                self.assertEqual(doc, theirs[key])

    def test_the_chart_gives_the_overlays_object_by_object(self):
        self.equal("tfjob/base", ())
        self.equal("tfjob/overlays/secure", SECURE)
        self.equal("tfjob/overlays/tls", TLS)
        self.equal("tfjob/overlays/monitored", MONITORED, but=CLUSTER_WIDE)

    def test_other_values_keep_the_rules(self):
        docs = self.rendered(*MONITORED, "ps.replicas=5", "evaluator.replicas=0", "prefix=other", "image=registry/gradwire:0.1.0",
                             "args={--epochs=20,--set=training.update=async}", "claims.data.storageClassName=fast",
                             "worker.pod.tolerations[0].key=spot", "worker.pod.tolerations[0].operator=Exists",
                             "runPolicy.suspend=true")
        self.assertEqual([line for line in rules.broken(list(docs.values())) if "other-token" not in line], [])
        job = docs["TFJob", "mnist"]["spec"]
        specs = job["tfReplicaSpecs"]
        self.assertEqual({kind: spec["replicas"] for kind, spec in specs.items()}, {"Chief": 1, "PS": 5, "Worker": 2})
        self.assertTrue(job["runPolicy"]["suspend"])
        self.assertEqual(specs["Worker"]["template"]["spec"]["tolerations"], [{"key": "spot", "operator": "Exists"}])
        self.assertEqual(specs["Chief"]["template"]["spec"]["containers"][0]["args"],
                         ["--logs=/logs", "--http_port=8080", "--epochs=20", "--set=training.update=async"])
        self.assertEqual(docs["PersistentVolumeClaim", "other-data"]["spec"]["storageClassName"], "fast")
        self.assertNotIn(("PersistentVolumeClaim", "other-logs"), self.rendered("prefix=other", "claims.logs.create=false"))

    def test_values_that_have_no_effect_are_refused(self):
        for value, says in (("ps.replica=3", "replica"), ("workers=3", "workers"), ("ps.replicas=0", "minimum"),
                            ("evaluator.replicas=2", "maximum"), ("worker.pod.volumes[0].name=x", "volumes"),
                            ("claims.data.accessModes={Many}", "accessModes"), ("runPolicy.cleanPodPolicy=Some", "cleanPodPolicy"),
                            ("tls.enabled=true", "enabled"), ("tls.secretName=Big", "secretName"),
                            ("podMonitor.enabled=true", "podMonitor.enabled wants http.enabled")):
            with self.subTest(value=value):
                got = self.helm("template", "mnist", values=[value])
                self.assertNotEqual(got.returncode, 0, got.stdout[:500])
                self.assertIn(says, got.stderr)

    def test_helm_finds_nothing_to_say(self):
        got = self.helm("lint", "--strict")
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)

    def test_every_value_is_in_the_schema(self):
        known = json.loads((CHART / "values.schema.json").read_text())["properties"]
        self.assertEqual(set(yaml.safe_load((CHART / "values.yaml").read_text())), set(known) - {"global"})


if __name__ == "__main__":
    unittest.main()
