#!/usr/bin/env python3
# timeout: 3000
"""Jobs that are disturbed while they train, on the cluster of form.py: workers come and go as kubectl says, pods are deleted and
evicted. Each job ends, with the bits of a job that nobody disturbed."""
import json
import pathlib
import re
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (0, 1)]
import facts  # noqa: E402
import form  # noqa: E402
from form import Form, operator, setUpModule  # noqa: E402,F401

EPOCHS = 40  # enough for what happens meanwhile


class Changed(Form):
    def begins(self, directory):
        """A job of EPOCHS that trains."""
        self.job = form.job_file(EPOCHS)
        self.apply(directory, (form.job_file(), self.job))
        self.trains()

    def made_anew(self, role, disturb):
        """disturb(the name of a ready pod of the role): another pod comes for it, and the job goes on."""
        before = self.pods(role)
        uid, name = next(iter(sorted(before.items(), key=lambda pod: pod[1])))
        disturb(name)
        self.ready(role, len(before), [uid])
        self.trains()

    def delete(self, pod):
        self.kubectl("delete", "pod", pod, "--timeout=120s")


class Scaled(Changed):
    def test_elastic(self):
        """From 2 workers to 4 and back; without metrics the HPA takes care of the 2 alone."""
        self.begins("plain/elastic")
        self.ready("worker", 2)
        for n in (4, 2):
            self.kubectl("scale", "statefulset/mnist-worker", f"--replicas={n}")
            self.ready("worker", n)
            self.trains()
        self.succeeds("job/mnist-chief")
        self.assertEqual(self.trained(self.job, "--set=training.microbatches=16")["workers"], 5)

    def test_dynamic(self):
        operator("training_operator")
        self.shared_storage()
        self.begins("tfjob/overlays/dynamic")
        for n in (3, 2):
            change = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": n}}}}
            self.kubectl("patch", "tfjob/mnist", "--type=merge", "--patch", json.dumps(change))
            self.ready("worker", n)
            self.trains()
        self.succeeds("tfjob/mnist", "Succeeded")
        self.assertEqual(self.trained(self.job)["workers"], 3)


class Disturbed(Changed):
    def budget(self, key, n):
        """Waits for a number in the status of the PodDisruptionBudget: before that no pod is evicted."""
        self.kubectl("wait", f"--for=jsonpath={{.status.{key}}}={n}", "pdb/mnist-ps", "--timeout=60s")

    def test_plain(self):
        """One ps at a time is evicted, as the form's PodDisruptionBudget says."""
        self.begins("plain/base")
        self.budget("disruptionsAllowed", 1)
        self.evict("mnist-ps-0")
        self.assertIn("violate the pod's disruption budget", self.evict("mnist-ps-1", check=False).stderr)
        self.ready("ps", 2)
        for role in ("worker", "chief"):
            self.made_anew(role, self.evict)
        for role in ("ps", "worker"):
            self.made_anew(role, self.delete)
        self.succeeds("job/mnist-chief")
        self.trained(self.job)

    def test_jobset(self):
        operator("jobset")
        self.begins("jobset")
        self.made_anew("ps", self.delete)
        self.made_anew("worker", self.evict)
        self.succeeds("jobset/mnist", "Completed")
        self.trained(self.job)

    def test_trainer(self):
        operator("jobset")
        operator("trainer")
        self.begins("trainer/base")
        self.made_anew("ps", self.evict)
        self.made_anew("worker", self.delete)
        self.succeeds("trainjob/mnist")
        self.trained(self.job)

    def test_tfjob(self):
        """The operator fails a job whose running pod is deleted: with component disruption no ps is evicted. Before a drain
        the job is suspended, with the commands of the guide, and resumed."""
        operator("training_operator")
        self.begins("tfjob/base")
        self.kubectl("apply", "-f", facts.ROOT / "k8s/tfjob/components/disruption/poddisruptionbudget.yaml")
        self.budget("currentHealthy", 2)
        self.assertIn("violate the pod's disruption budget", self.evict("mnist-ps-0", check=False).stderr)
        commands = re.search(r"```sh\n(kubectl patch tfjob [^`]*)```", (facts.ROOT / "docs/guides/kubernetes.md").read_text())
        self.shell(commands[1])
        self.trains()
        self.succeeds("tfjob/mnist", "Succeeded")
        self.trained(self.job)

    def test_deleted_pod_of_a_tfjob(self):
        operator("training_operator")
        self.begins("tfjob/base")
        self.delete("mnist-worker-0")
        self.assertEqual(self.first_true("tfjob/mnist", "Succeeded", "Failed"), "Failed")


if __name__ == "__main__":
    unittest.main(verbosity=2)
