"""The controllers of Trainer, JobSet and Kueue (main.go), asked as kubectl would: objects in, objects out."""
import json
import subprocess

import build

OF_THE_CLUSTER = ("ClusterTrainingRuntime", "Namespace", "ResourceFlavor")


class Refused(Exception):
    """The API server, or a webhook, did not accept an object."""


class Controllers:
    """One cluster's. `error`: what the controllers logged at their last look."""

    def __init__(self, case, namespace):
        self.namespace, self.objects, self.error = namespace, [], None
        self.process = subprocess.Popen([build.program(), *build.crds()], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        case.addCleanup(self.close)
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, **words):
        """Sends a request; the controllers work until nothing changes."""
        try:
            self.process.stdin.write(json.dumps(words) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise AssertionError(f"the controllers' code ended with {self.process.wait()} at {json.dumps(words)}")
        got = json.loads(line)
        if "refused" in got:
            raise Refused(got["refused"])
        self.objects, self.error = got["objects"], got.get("error")

    def apply(self, *docs):
        """kubectl apply."""
        self.ask(apply=[doc if doc["kind"] in OF_THE_CLUSTER else
                        {**doc, "metadata": {"namespace": self.namespace, **doc["metadata"]}} for doc in docs])

    def of_kind(self, kind):
        """By name."""
        return {o["metadata"]["name"]: o for o in self.objects if o["kind"] == kind}

    def job(self, name):
        return self.of_kind("Job")[name]
