#!/usr/bin/env python3
"""The nightly pod, against a made-up API server that knows its Role: each night one TFJob, although the pod may be tried again,
and never a second one while one still exists."""
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402
import render  # noqa: E402

NIGHTLY, PLACE = "k8s/nightly", "/apis/kubeflow.org/v1/namespaces/team/tfjobs"
GROUP = {"name": "kubeflow.org", "versions": [{"groupVersion": "kubeflow.org/v1", "version": "v1"}]}
DISCOVERY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [{**GROUP, "preferredVersion": GROUP["versions"][0]}]},
    "/apis/kubeflow.org/v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "kubeflow.org/v1", "resources": [
        {"name": "tfjobs", "singularName": "tfjob", "namespaced": True, "kind": "TFJob",
         "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]}]},
    "/openapi/v3": {"paths": {"apis/kubeflow.org/v1": {"serverRelativeURL": "/openapi/v3/apis/kubeflow.org/v1"}}},
    "/openapi/v3/apis/kubeflow.org/v1": {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.31"}, "paths": {
        PLACE.replace("team", "{namespace}") + "/{name}": {"patch": {
            "parameters": [{"name": "fieldValidation", "in": "query"}],
            "x-kubernetes-group-version-kind": {"group": "kubeflow.org", "version": "v1", "kind": "TFJob"}}}}},
}
VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


def status(code, reason):
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason}


class ApiServer(http.server.ThreadingHTTPServer):
    """TFJobs of one namespace. `allowed`: the Role's verbs; `lose_replies`: how many creations answer as if it had been there."""

    def __init__(self, allowed):
        super().__init__(("127.0.0.1", 0), Handler)
        self.allowed, self.jobs, self.asked, self.lose_replies = allowed, {}, [], 0

    def answer(self, method, url, body):
        path = url.split("?")[0]
        if path in DISCOVERY:
            return 200, DISCOVERY[path]
        if not path.startswith(PLACE):
            return status(404, "NotFound")
        name = path.removeprefix(PLACE).lstrip("/") or body["metadata"].get("name", "")
        self.asked.append(VERBS[method])
        if VERBS[method] not in self.allowed:
            return status(403, "Forbidden")
        if method == "POST":
            there = name in self.jobs
            self.jobs.setdefault(name, {**body, "metadata": {"uid": "1", "resourceVersion": "1", **body["metadata"]}})
            lost, self.lose_replies = self.lose_replies > 0, max(0, self.lose_replies - 1)
            return status(409, "AlreadyExists") if there or lost else (201, self.jobs[name])
        return (200, self.jobs[name]) if name in self.jobs else status(404, "NotFound")


class Handler(http.server.BaseHTTPRequestHandler):
    decoded = staticmethod(json.loads)

    def reply(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.decoded(self.rfile.read(length)) if length else None
        code, answer = self.server.answer(self.command, self.path, body)
        data = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = reply

    def log_message(self, *_):
        pass


class Answers(http.server.ThreadingHTTPServer):
    """Objects to be read, by their paths."""

    def __init__(self, objects):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects = objects

    def answer(self, method, url, _):
        found = method == "GET" and self.objects.get(url.split("?")[0])
        return (200, found) if found else status(404, "NotFound")


def serve(case, server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    case.addCleanup(server.server_close)
    case.addCleanup(server.shutdown)
    return server


def kubectl(server, home, *words):
    return subprocess.run([shutil.which("kubectl"), *words, "--namespace=team", f"--server=http://127.0.0.1:{server.server_port}"],
                          capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "HOME": str(home), "KUBECONFIG": "/dev/null"})


@render.wanted
class NightlyTest(unittest.TestCase):
    def setUp(self):
        self.docs = {(d["kind"], d["metadata"]["name"]): d for d in render.kustomize(facts.ROOT / NIGHTLY)}
        self.pod = self.docs["CronJob", "gradwire-nightly"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        self.tmp = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.tmp)

    def serve(self):
        rule, = self.docs["Role", "gradwire-nightly"]["rules"]
        self.assertEqual((rule["apiGroups"], rule["resources"]), (["kubeflow.org"], ["tfjobs"]))
        return serve(self, ApiServer(rule["verbs"]))

    def mounted(self, container, text):
        """A path of the pod, as a path here."""
        for mount in container["volumeMounts"]:
            text = re.sub(f"(^|=){mount['mountPath']}(?=/|$)", rf"\g<1>{self.tmp}{mount['mountPath']}", text)
        return text

    def night(self, server, name):
        """Runs the pod of that night's Job: returns its exit code and its output."""
        make, = self.pod["initContainers"]
        create, = self.pod["containers"]
        for folder in ("nightly", "made"):
            (self.tmp / folder).mkdir(exist_ok=True)
        for key, text in self.docs["ConfigMap", "gradwire-nightly"]["data"].items():
            (self.tmp / "nightly" / key).write_text(text)
        env = {"PATH": "/usr/bin:/bin", "FROM": str(self.tmp / "nightly"), "TO": str(self.tmp / "made"), "NIGHT": name,
               **render.nightly(self.docs["CronJob", "gradwire-nightly"])}
        subprocess.run([self.mounted(make, word) for word in make["command"]], env=env, check=True)
        return kubectl(server, self.tmp, *[self.mounted(create, arg) for arg in create["args"]])

    def created(self, server):
        job, = server.jobs.values()
        return {args for spec in job["spec"]["tfReplicaSpecs"].values()
                for args in spec["template"]["spec"]["containers"][0]["args"] if "run" in args}

    @facts.skip_without(shutil.which("kubectl"), "kubectl is not there")
    def test_a_night_makes_one_tfjob_with_its_name_and_a_second_try_changes_nothing(self):
        server = self.serve()
        got = self.night(server, "gradwire-nightly-29384520")
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(self.created(server), {"--set=checkpoint.run=gradwire-nightly-29384520"})
        self.assertEqual(server.asked, ["get", "create"])
        got = self.night(server, "gradwire-nightly-29384520")
        self.assertEqual((got.returncode, got.stdout), (0, "tfjob.kubeflow.org/mnist unchanged\n"), got.stderr)
        self.assertEqual(server.asked, ["get", "create", "get"])

    @facts.skip_without(shutil.which("kubectl"), "kubectl is not there")
    def test_a_creation_whose_answer_was_lost_is_found_by_the_next_try(self):
        server = self.serve()
        server.lose_replies = 1
        got = self.night(server, "night-1")
        self.assertEqual(got.returncode, 1)
        self.assertIn("AlreadyExists", got.stderr)
        self.assertEqual(self.night(server, "night-1").returncode, 0)
        self.assertEqual(self.created(server), {"--set=checkpoint.run=night-1"})

    @facts.skip_without(shutil.which("kubectl"), "kubectl is not there")
    def test_where_another_nights_tfjob_is_still_there_it_goes_on_alone_and_the_pod_fails(self):
        server = self.serve()
        self.night(server, "night-1")
        got = self.night(server, "night-2")
        self.assertEqual(got.returncode, 1)
        self.assertIn("Forbidden", got.stderr)
        self.assertEqual(self.created(server), {"--set=checkpoint.run=night-1"})

    def test_the_tfjob_is_the_secure_overlays_with_a_run_and_bounds(self):
        mine, = render.created(self.docs.values())
        secure, = (d for d in render.kustomize(facts.ROOT / "k8s/tfjob/overlays/secure") if d["kind"] == "TFJob")
        secure = json.loads(json.dumps(secure))
        for spec in secure["spec"]["tfReplicaSpecs"].values():
            spec["template"]["spec"]["containers"][0].setdefault("args", []).append("--set=checkpoint.run=night-1")
        bounds = ("activeDeadlineSeconds", "ttlSecondsAfterFinished")
        secure["spec"]["runPolicy"].update({key: mine["spec"]["runPolicy"][key] for key in bounds})
        self.assertEqual(mine, secure)

    def test_a_nights_tfjob_is_gone_before_the_next_night(self):
        cron = self.docs["CronJob", "gradwire-nightly"]["spec"]
        policy = next(iter(render.created(self.docs.values())))["spec"]["runPolicy"]
        self.assertRegex(cron["schedule"], r"^\d+ \d+ \* \* \*$")  # once a day
        latest = cron["startingDeadlineSeconds"] + cron["jobTemplate"]["spec"]["activeDeadlineSeconds"]
        self.assertLess(latest + policy["activeDeadlineSeconds"] + policy["ttlSecondsAfterFinished"], 24 * 3600)


if __name__ == "__main__":
    unittest.main()
