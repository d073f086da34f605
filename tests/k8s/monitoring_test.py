#!/usr/bin/env python3
"""Alerts and the dashboard: promtool accepts the rules, each alert fires and stays silent as alerts.py says, each metric is
one that our code has, and a real Prometheus that scrapes a real job has an answer to each of the dashboard's questions."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import urllib.parse

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not there")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import alerts  # noqa: E402
import facts  # noqa: E402
from certificates import Certificates  # noqa: E402
from cluster import TrainCase, free_ports  # noqa: E402
import watch  # noqa: E402
from watch import get, places  # noqa: E402

FOLDER = facts.ROOT / "k8s/tfjob/components/monitoring"
NAME = re.compile(r"\b(?:gradwire|process)_[a-z0-9_]+\b")
SCRAPE_S = 1
# An evaluator evaluates, `auto` may have no use for a codec that loses, and perhaps nothing limits memory.
EMPTY_HERE = {"Evaluation by the chief", "What compression loses", "Memory, share of the limit"}


def rule_groups():
    return yaml.safe_load((FOLDER / "prometheusrule.yaml").read_text())["spec"]["groups"]


def rules_of(kind):
    return {rule[kind]: rule for group in rule_groups() for rule in group["rules"] if kind in rule}


def panels():
    return json.loads((FOLDER / "dashboard.json").read_text())["panels"]


def series():
    """Every name that a page of ours can have: where the code opens a family, and what a histogram makes of it."""
    found = set()
    for path in (path for folder in ("common", "ps", "worker") for path in (facts.ROOT / folder).rglob("*.c")):
        text = re.sub(r"(?m)^\s*#include.*$", "", path.read_text())
        for name, kind in re.findall(r'"((?:gradwire|process)_[a-z0-9_]+)",\s*METRICS_([A-Z]+)', text):
            found |= {name + end for end in ("_bucket", "_sum", "_count")} if kind == "HISTOGRAM" else {name}
        found |= set(re.findall(r'metrics_(?:gauge|counter)\(\s*\w+,\s*"([a-z0-9_]+)"', text))
    return found


@facts.skip_without(shutil.which("promtool"), "promtool is not there (Debian package prometheus)")
class RulesTest(TrainCase):
    def promtool(self, *args):
        got = subprocess.run(["promtool", *args], capture_output=True, text=True, cwd=self.tmp)
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        return got.stdout

    def write_rules(self):
        (self.tmp / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups()}))

    def test_promtool_accepts_the_rules(self):
        self.write_rules()
        count = len(rules_of("alert")) + len(rules_of("record"))
        self.assertIn(f"SUCCESS: {count} rules", self.promtool("check", "rules", "rules.yaml"))

    def told(self, alert, labels, value):
        """Its annotations, with what stands for labels and the value put in."""
        def words(text):
            text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels.get(found[1], ""), text)
            return re.sub(r"\{\{ \$value[^}]*\}\}", value, text)
        return {key: words(text) for key, text in alert["annotations"].items()}

    def case(self, name, minute, series, expected):
        return {"interval": "1m", "input_series": [{"series": s, "values": v} for s, v in series.items()],
                "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": expected}]}

    def test_each_alert_fires_for_its_reason_and_stays_silent_for_what_comes_near_it(self):
        known, tests = rules_of("alert"), []
        self.assertEqual({name for name, *_ in alerts.CASES}, set(known))
        self.write_rules()
        for name, minute, fires, labels, value, silent in alerts.CASES:
            alert = known[name]
            tests.append(self.case(name, minute, fires, [{"exp_labels": {**labels, **alert["labels"]},
                                                          "exp_annotations": self.told(alert, labels, value)}]))
            tests.append(self.case(name, minute, silent, []))
        (self.tmp / "tests.yaml").write_text(yaml.safe_dump(
            {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}))
        self.assertIn("SUCCESS", self.promtool("test", "rules", "tests.yaml"))


class NamesTest(unittest.TestCase):
    def test_every_metric_of_rules_and_dashboard_is_one_of_ours(self):
        have = series()
        self.assertGreater(len(have), 60)
        expressions = [rule["expr"] for rule in (*rules_of("alert").values(), *rules_of("record").values())]
        expressions += [target["expr"] for panel in panels() for target in panel["targets"]]
        for expression in expressions:
            names = set(NAME.findall(re.sub(r'"[^"]*"|gradwire:\w+:\w+', "", expression)))
            with self.subTest(expression=expression):
                self.assertTrue(names or re.search(r"\bup\{|gradwire:", expression))
                self.assertEqual(names - have, set())

    def test_the_dashboard_asks_whatever_prometheus_is_there(self):
        text = (FOLDER / "dashboard.json").read_text()
        sources = re.findall(r'"uid": "([^"]*)"', text)
        self.assertEqual(set(sources), {"gradwire", "${datasource}"})  # the dashboard's own, and the variable
        self.assertEqual(len({panel["id"] for panel in panels()}), len(panels()))
        for panel in panels():
            self.assertEqual(panel["datasource"]["uid"], "${datasource}", panel["title"])
            for target in panel["targets"]:
                for selector in re.findall(r"\{([^}]*)\}", target["expr"]):
                    self.assertTrue(selector.startswith('namespace="$namespace", job="$job"'), target["expr"])


prometheus_wanted = facts.skip_without(shutil.which("prometheus"), "prometheus is not there (Debian package prometheus)")


class Scraped(TrainCase):
    """A job on this host whose processes a Prometheus of the test scrapes."""

    def targets(self, job, count):
        found = job.until("processes/http names all", lambda: len(p := places(self.out)) == count and p)
        return [{"targets": [address], "labels": {
            "namespace": "team", "job": "mnist", "pod": f"mnist-{name}", "app_kubernetes_io_name": "gradwire",
            "app_kubernetes_io_component": name.rsplit("-", 1)[0]}} for name, address in found.items()]

    def prometheus(self, targets, name="prometheus"):
        """Scrapes them, with our rules; its address."""
        (self.tmp / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups()}))
        (self.tmp / "prometheus.yaml").write_text(yaml.safe_dump({
            "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"}, "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "gradwire", "static_configs": targets}]}))
        address = f"127.0.0.1:{free_ports(1)[0]}"
        with open(self.tmp / f"{name}.log", "w") as log:
            process = subprocess.Popen(["prometheus", f"--config.file={self.tmp}/prometheus.yaml",
                                        f"--storage.tsdb.path={self.tmp}/{name}", f"--web.listen-address={address}"],
                                       stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.until("prometheus is ready", lambda: get(address, "/-/ready") and get(address, "/-/ready")[0] == 200)
        return address

    def ask(self, address, expression):
        status, text = get(address, "/api/v1/query?" + urllib.parse.urlencode({"query": expression})) or (0, "")
        self.assertEqual(status, 200, f"{expression}: {text}")
        return json.loads(text)["data"]["result"]


@prometheus_wanted
class PrometheusTest(Certificates, Scraped):
    KEYS = {**TrainCase.KEYS, "training.update": "async", "training.epochs": 100000, "checkpoint.every_steps": 400,
            "checkpoint.every_seconds": 1, "timeouts.grace_s": 5, "compression.push": "auto"}

    def test_each_question_of_the_dashboard_is_answered_or_its_panel_says_when_not(self):
        self.make_ca("ca")
        self.make("all", "IP:127.0.0.1", days=2)
        job = self.launch("--evaluator", "--workers=2", "--ps=2", *self.tls("all"))
        targets = self.targets(job, 5)
        address = self.prometheus(targets)
        self.until("all are scraped", lambda: len(self.ask(address, "up == 1")) == len(targets))
        job.until("a result of the evaluator", lambda: self.ask(address, "gradwire_evaluator_results_total > 0"))
        job.until("an age of a checkpoint", lambda: self.ask(address, "gradwire_job_cut_age_seconds"))
        self.assertLessEqual(EMPTY_HERE, {panel["title"] for panel in panels()})
        wanted = [(panel, target["expr"].replace("$namespace", "team").replace("$job", "mnist").replace(
            "$__rate_interval", f"{5 * SCRAPE_S}s")) for panel in panels() for target in panel["targets"]]
        for panel, expression in wanted:
            with self.subTest(panel=panel["title"], expression=expression):
                if panel["title"] in EMPTY_HERE:
                    self.assertIn("Empty", panel["description"])
                    self.ask(address, expression)  # it is understood
                else:
                    job.until(f"{expression} is answered", lambda: self.ask(address, expression))
        for target in targets:  # an evaluator's and TLS's families, too
            page = watch.text(target["targets"][0], "/metrics")
            got = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True)
            self.assertEqual((got.returncode, got.stdout + got.stderr), (0, ""))
        self.assertEqual(self.ask(address, 'ALERTS{alertstate="firing"}'), [])
        rules = json.loads(get(address, "/api/v1/rules")[1])["data"]["groups"]
        self.assertEqual({rule["health"] for group in rules for rule in group["rules"]}, {"ok"})


if __name__ == "__main__":
    unittest.main()
