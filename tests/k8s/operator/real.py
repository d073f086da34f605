"""The real operator (main.go) in place of controllers.py: asked in the same words, it answers with a controllers.Plan, and
with the pods and Services that it would create."""
import atexit
import copy
import functools
import json
import os
import subprocess

import build
import controllers

CREATED = "2024-01-01T00:00:00Z"


class Operator:
    """A process that reconciles one TFJob after the other."""

    def __init__(self, version, domain=""):
        self.process = subprocess.Popen([build.program(version)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "CUSTOM_CLUSTER_DOMAIN": domain})
        atexit.register(self.close)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def reconcile(self, job, status=None, pods=(), services=()):
        """The operator's answer to a TFJob: {"refused"}, or {"job", "status", "pods", "services", "deleted",
        "services_deleted", "removed", "error"}."""
        job = {**job, "metadata": {**job["metadata"], "uid": job["metadata"]["name"]}}
        return self.answer({"job": json.dumps(job), "status": status or {}, "pods": list(pods), "services": list(services)})

    def pytorch_pods(self, job):
        """The pods of a PyTorchJob, by name, with the variables that the operator sets."""
        return self.answer({"pytorch": json.dumps(job)})["pods"]

    def answer(self, asked):
        try:
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise AssertionError(f"the operator's code ended with {self.process.wait()} at {json.dumps(asked)}")
        return json.loads(line)


@functools.cache
def operator(version, domain=""):
    return Operator(version, domain)


def shown(pod, seen):
    """A pod that the operator made, as the API shows it when it is as `seen`."""
    pod = copy.deepcopy(pod)
    ended = seen.phase in ("Succeeded", "Failed") and seen.code != controllers.NO_EXIT_CODE
    state = {"terminated": {"exitCode": seen.code}} if ended else {"running": {}} if seen.phase == "Running" else {}
    pod["metadata"]["creationTimestamp"] = CREATED
    if seen.deleting:
        pod["metadata"]["deletionTimestamp"] = CREATED
    pod["status"] = {"phase": seen.phase, "containerStatuses": [
        {"name": "tensorflow", "restartCount": seen.restarts, "state": state}] if state else []}
    return pod


def condition(status):
    """controllers.py's word for a TFJob's conditions."""
    said = {c["type"]: c["message"] for c in status.get("conditions") or [] if c["status"] == "True"}
    if "Failed" in said:
        return controllers.failed(said["Failed"])
    order = (controllers.SUCCEEDED, controllers.SUSPENDED, controllers.RESTARTING, controllers.RUNNING)
    return next((word for word in order if word in said), controllers.CREATED)


def key(job, name):
    """A pod's name, as controllers.py has it: (replica type, index)."""
    kinds = {kind.lower(): kind for kind in job["spec"]["tfReplicaSpecs"]}
    kind, index = name.removeprefix(job["metadata"]["name"] + "-").rsplit("-", 1)
    return kinds[kind], int(index)


class Controller:
    """One TFJob's: it remembers its status and what it made."""

    def __init__(self, operator, job):
        self.operator, self.job, self.status, self.pods, self.services, self.error = operator, job, {}, {}, {}, None

    def plan(self, seen):
        """The operator's plan, as controllers.tfjob_plan gives it. `seen`: the pods that it sees, of those that it made."""
        there = [shown(self.pods[pod.key], pod) for pod in seen]
        got = self.operator.reconcile(self.job, self.status, there, self.services.values())
        if "refused" in got:
            raise AssertionError(got["refused"])
        self.error = got.get("error")
        self.status, self.services = got["status"], {**self.services, **got["services"]}
        made = {key(self.job, name): pod for name, pod in got["pods"].items()}
        self.pods.update(made)
        for name in got["services_deleted"]:
            self.services.pop(name, None)
        return controllers.Plan(controllers.Status(condition(self.status)), tuple(key(self.job, name) for name in got["deleted"]),
                                tuple(made))
