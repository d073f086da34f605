#!/usr/bin/env python3
# timeout: 1800
"""Releases of the chart as containers of the real image. It needs helm and what containers_test.py needs; without one it skips and
names it."""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402
import pods  # noqa: E402
import render  # noqa: E402
from podcase import FEW, PodCase, of_kind  # noqa: E402

CHART = facts.ROOT / "k8s/helm/gradwire"


@facts.skip_without(render.helm(), f"helm {render.NO_TOOLS}")
@pods.wanted
@facts.wanted
class HelmContainersTest(PodCase):
    def chart(self, name, args, *values):
        sets = [word for value in values for word in ("--set", value)]
        got = subprocess.run([render.helm(), "template", name, CHART, "--set-json", f"args={json.dumps(args)}", *sets],
                             capture_output=True, text=True)
        self.assertEqual(got.returncode, 0, got.stderr)
        return [doc for doc in render.objects(got.stdout) if doc]

    def test_two_releases_train_in_one_namespace_and_one_that_is_installed_again_goes_on(self):
        cluster = self.cluster(self.chart("one", FEW, "evaluator.replicas=1", "grace=100") +
                               self.chart("two", FEW, "networkPolicy.enabled=false", "http.enabled=false"), [], {})
        cluster.start_all()
        chief = cluster.pods["one-chief-0"]
        cluster.until("it has peers", lambda: cluster.pods["two-chief-0"].address and chief.address)
        self.assertFalse(cluster.reaches(chief.host, cluster.pods["two-ps-0"].address, 2222))  # another job's
        probed = [cluster.pods[name] for name in ("two-chief-0", "two-ps-0")]
        cluster.until("their TCP probes are answered", lambda: all(cluster.answers(pod, "readinessProbe") for pod in probed))
        for _ in range(20):  # connections that say nothing: no line of the log for each
            for pod in probed:
                cluster.answers(pod, "readinessProbe")
        self.assertEqual(cluster.run(600), "Succeeded", cluster.all_logs())
        self.all_end_with(cluster, 0)
        for pod in probed:
            self.assertNotRegex(cluster.log(pod), r" (warn|error) .*(connection|clos)")
        claims = [self.tmp / f"volumes/{name}-output" for name in ("one", "two")]
        one, two = map(self.summary_of, claims)
        self.assertEqual((one["digest"], one["steps"], one["epochs"]), (two["digest"], two["steps"], 2))
        for claim in claims:
            self.assertTrue(list((claim / "logs").rglob("events.out.tfevents*")), claim)
        self.assertTrue((claims[0] / "eval.json").exists())

        cluster.forget("one")
        cluster.apply(of_kind(self.chart("one", [*FEW, "--epochs=3"]), "TFJob"))
        self.assertEqual(cluster.run(600), "Succeeded", cluster.all_logs())
        again = self.summary_of(claims[0])
        self.assertEqual((again["steps"], again["epochs"]), (one["steps"] * 3 // 2, 3))
        self.assertIn("resum", cluster.log(cluster.pods["one-chief-0"]))


if __name__ == "__main__":
    unittest.main()
