#!/usr/bin/env python3
"""plain/elastic scales by our own metric: what the Prometheus adapter and KEDA ask has the right answer for a real job, and
the autoscaler's formula leads to the share that the manifests name."""
import math
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not there")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import facts  # noqa: E402
import monitoring_test  # noqa: E402
import pages  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402
from monitoring_test import Scraped, prometheus_wanted  # noqa: E402

FOLDER = facts.ROOT / "k8s/plain/elastic"


def adapter_rule():
    rule, = yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text())["rules"]["custom"]
    return rule


def adapter_query(pods):
    """As the adapter fills it in for pods of a namespace: pkg/naming/metrics_query.go of prometheus-adapter."""
    matchers = f'namespace="team",pod=~"{"|".join(pods)}"'
    return adapter_rule()["metricsQuery"].replace("<<.LabelMatchers>>", matchers).replace("<<.GroupBy>>", "pod")


def scaled_object(root=facts.ROOT):
    docs = render.kustomize(root / "k8s/plain/overlays/elastic-keda")
    scaled, = rules.of_kind(docs, "ScaledObject")
    assert not rules.of_kind(docs, "HorizontalPodAutoscaler")  # KEDA makes its own
    return scaled["spec"]


def keda_query():
    trigger, = scaled_object()["triggers"]
    return trigger["metadata"]["query"].replace('namespace="default"', 'namespace="team"')


def autoscaler():
    scaler, = rules.of_kind(render.kustomize(FOLDER), "HorizontalPodAutoscaler")
    return scaler["spec"]


def target():
    metric, = autoscaler()["metrics"]
    return rules.quantity(metric["pods"]["target"]["averageValue"])


def desired(workers, busy):
    """podautoscaler/replica_calculator.go GetMetricReplicas, with the tolerance of 0.1; then the bounds."""
    ratio = busy / target()
    wanted = workers if abs(ratio - 1) <= 0.1 else math.ceil(workers * ratio)
    return max(autoscaler()["minReplicas"], min(autoscaler()["maxReplicas"], wanted))


@render.wanted
class ManifestTest(unittest.TestCase):
    def test_the_autoscaler_asks_for_the_metric_that_the_adapter_serves(self):
        metric, = autoscaler()["metrics"]
        self.assertEqual((metric["type"], metric["pods"]["metric"]["name"]), ("Pods", adapter_rule()["name"]["as"]))

    def test_keda_scales_as_the_autoscaler_does(self):
        scaler, scaled = autoscaler(), scaled_object()
        trigger, = scaled["triggers"]
        self.assertEqual(scaled["scaleTargetRef"], scaler["scaleTargetRef"])
        self.assertEqual((scaled["minReplicaCount"], scaled["maxReplicaCount"]), (scaler["minReplicas"], scaler["maxReplicas"]))
        self.assertEqual(scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"], scaler["behavior"])
        self.assertEqual((trigger["metricType"], trigger["metadata"]["threshold"]), ("AverageValue", f"{target():.1f}"))

    def test_the_pages_command_writes_the_namespace_into_each_part_of_kedas_query(self):
        """KEDA gives a query no namespace, and the render may have none: without the command it asks about another one."""
        page = (facts.ROOT / "docs/guides/kubernetes.md").read_text()
        commands = [block.text for block in pages.split(page)[0] if block.text.startswith("sed -i")]
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(facts.ROOT / "k8s", pathlib.Path(folder) / "k8s")
            subprocess.run(["sh", "-e", "-c", "".join(commands)], cwd=folder, check=True)
            trigger, = scaled_object(pathlib.Path(folder))["triggers"]
        query = trigger["metadata"]["query"]
        self.assertEqual(re.findall(r'namespace="(\w+)"', query), ["team"] * query.count("gradwire_"))

    def test_the_metrics_are_ours(self):
        names = set(re.findall(r"\b(?:gradwire|process)_\w+", f'{adapter_query(["a"])} {keda_query()}'))
        self.assertEqual(names - monitoring_test.series(), set())

    def test_the_formula_leads_to_the_share(self):
        """In sync, n workers share a step's work, and then wait for ps and network: the more workers, the more they wait."""
        for computed_s, waited_s in ((1, 0.01), (1, 0.1), (0.4, 0.1), (0.01, 0.1)):
            ends = set()
            for workers in (2, 5, 10):
                for _ in range(10):
                    busy = computed_s / workers / (computed_s / workers + waited_s)
                    workers = desired(workers, busy)
                ends.add(workers)
            with self.subTest(computed_s=computed_s, waited_s=waited_s):
                ideal = computed_s / waited_s * (1 - target()) / target()  # where the busy share is the target
                for workers in ends:
                    self.assertLessEqual(abs(workers - min(10, max(2, ideal))), 2, (ends, ideal))


@facts.skip_without(shutil.which("promtool"), "promtool is not there (Debian package prometheus)")
@render.wanted
class QueryTest(Scraped):
    def test_pods_that_do_not_train_count_as_workers_that_only_wait(self):
        def labels(pod):
            return f'namespace="team",job="mnist",app_kubernetes_io_component="worker",pod="{pod}"'
        series = [{"series": f'gradwire_step_phase_seconds_sum{{phase="{phase}",{labels("mnist-worker-0")}}}', "values": values}
                  for phase, values in (("compute", "0+12x20"), ("wait", "0+3x20"))]
        series += [{"series": f'gradwire_state{{state="{state}",{labels(pod)}}}', "values": "1x20" if on else "0x20"}
                   for pod, now in (("mnist-worker-0", "training"), ("mnist-worker-1", "idle"))
                   for state in ("training", "idle") for on in (state == now,)]
        expected = [{"labels": f'{{pod="mnist-worker-{i}"}}', "value": value} for i, value in ((0, 0.8), (1, 0))]
        idle = [one for one in series if "worker-1" in one["series"]]

        def case(given, query, samples):
            return {"interval": "15s", "input_series": given,
                    "promql_expr_test": [{"expr": query, "eval_time": "4m", "exp_samples": samples}]}
        pods = ["mnist-worker-0", "mnist-worker-1"]
        (self.tmp / "tests.yaml").write_text(yaml.safe_dump({"tests": [
            case(series, adapter_query(pods), expected), case(series, keda_query(), [{"labels": "{}", "value": 0.8}]),
            case(idle, keda_query(), [{"labels": "{}", "value": 0}])]}))
        got = subprocess.run(["promtool", "test", "rules", "tests.yaml"], capture_output=True, text=True, cwd=self.tmp)
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)


@prometheus_wanted
@render.wanted
class RealTest(Scraped):
    KEYS = {**Scraped.KEYS, "training.epochs": 100000, "training.microbatches": 2}
    PODS = ["mnist-worker-0", "mnist-worker-1"]

    def shares(self, name, *flags):
        """Of a job that trains: the answers to the adapter's query, KEDA's, and the time in all phases of a step, as shares."""
        self.out = self.tmp / name
        job = self.launch("--workers=2", "--ps=1", *flags)
        address = self.prometheus(self.targets(job, 3), f"{name}-prometheus")
        self.until("both workers are scraped for a while",
                   lambda: len(self.ask(address, "count_over_time(gradwire_tasks_total[10s]) >= 8")) == 2)

        def values(query):
            asked = self.ask(address, query.replace("[2m]", "[10s]"))
            return {one["metric"].get("pod", ""): float(one["value"][1]) for one in asked}
        busy, workers = values(adapter_query(self.PODS)), values(keda_query())[""]
        phases = values(adapter_query(self.PODS).replace('phase="compute"', 'phase=~"compute|push|wait"'))
        job.signal(signal.SIGTERM)
        job.wait(143)
        return busy, workers, phases

    def test_a_worker_that_waits_for_another_is_less_busy(self):
        busy, workers, phases = self.shares("alike")
        self.assertEqual(set(busy), set(self.PODS))
        self.assertAlmostEqual(workers, sum(busy.values()), delta=0.3)  # a scrape may have come between the two questions
        for pod in self.PODS:
            self.assertTrue(0 < busy[pod] < phases[pod] < 1.1, (busy, phases))
        waits, _, _ = self.shares("waits", "--fault=worker-1=sleep:0.05")
        self.assertLess(waits["mnist-worker-0"], busy["mnist-worker-0"] / 2)


if __name__ == "__main__":
    unittest.main()
