#!/usr/bin/env python3
# timeout: 3000
"""The forms of the job on a cluster: Kubernetes' own API server, scheduler and controllers (plane.py), and kubelets of ours
that run the real image (kubelet.py). `kubectl apply -k`, and kubectl says how it ended."""
import gzip
import json
import pathlib
import re
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (0, 1)]
import facts  # noqa: E402
import form  # noqa: E402
import podcase  # noqa: E402
import preprocess_test  # noqa: E402
import render  # noqa: E402
from form import Form, listed, operator, setUpModule  # noqa: E402,F401

ELSEWHERE = {"monitoring.coreos.com", "scheduling.volcano.sh", "keda.sh"}  # API groups of operators that are not here


class Accepted(Form):
    def overlays(self):
        """The folders, each with its objects of API groups that are here."""
        for name in ("jobset", "trainer", "training_operator"):
            operator(name)
        for folder in render.overlays():
            yield folder, [d for d in render.kustomize(folder) if d["apiVersion"].split("/")[0] not in ELSEWHERE]

    def refused(self, user, docs):
        """The resources, and their API groups, that this user may not apply."""
        got = self.kubectl("apply", "--dry-run=server", f"--as={user}", "-f", "-", text=listed(docs), check=False)
        return set(re.findall(r'cannot \w+ resource "(\w+)" in API group "([\w.-]+)"', got.stderr))

    def test_rights(self):
        """A user with Kubernetes' role `edit` misses the rights that the page lists."""
        self.kubectl("create", "rolebinding", "user", "--clusterrole=edit", "--user=user")
        missing = {str(folder.relative_to(facts.ROOT / "k8s")): self.refused("user", here) for folder, here in self.overlays()}
        page = re.findall(r"^\| `(\w+)` \| `([\w.-]+)` \|", (facts.ROOT / "docs/reference/kubernetes.md").read_text(), re.M)
        self.assertEqual(set().union(*(got for name, got in missing.items() if not name.startswith("admin"))), set(page))
        self.assertEqual([missing[name] for name in ("one-pod", "plain/base", "plain/elastic", "plain/hosts", "preprocess")],
                         [set()] * 5)

    def test_rights_by_the_page(self):
        """Its commands give a user with `edit` what is missing for a TFJob."""
        operator("training_operator")
        page = (facts.ROOT / "docs/reference/kubernetes.md").read_text()
        commands = re.search(r"```sh\n(kubectl -n team create role .*?)```", page, re.S)[1]
        job = render.kustomize(facts.ROOT / "k8s/tfjob/base")
        self.kubectl("create", "rolebinding", "edit", "--clusterrole=edit", "--user=ann")
        self.assertEqual(self.refused("ann", job), {("tfjobs", "kubeflow.org")})
        self.shell(commands.replace("-n team ", ""))
        self.assertEqual(self.refused("ann", job), set())

    def test_rights_for_nights(self):
        """Nobody gives rights that they do not have."""
        operator("training_operator")
        nightly = render.kustomize(facts.ROOT / "k8s/nightly")
        self.kubectl("create", "rolebinding", "admin", "--clusterrole=admin", "--user=admin")
        got = self.kubectl("apply", "--as=admin", "-f", "-", text=listed(nightly), check=False)
        self.assertIn("attempting to grant RBAC permissions not currently held", got.stderr)
        self.kubectl("create", "role", "tfjobs", "--verb=get,create", "--resource=tfjobs.kubeflow.org")
        self.kubectl("create", "rolebinding", "tfjobs", "--role=tfjobs", "--user=admin")
        self.kubectl("apply", "--as=admin", "-f", "-", text=listed(nightly))

    def make(self, docs):
        """Objects that last as long as the test."""
        if docs:
            self.kubectl("apply", "-f", "-", text=listed(docs))
            self.addCleanup(self.kubectl, "delete", "--ignore-not-found", "-f", "-", text=listed(docs))

    def test_every_overlay_is_accepted(self):
        """The server knows each field and admits each object; what says `restricted` warns of nothing."""
        form.plane.kubectl("label", "namespace", self.namespace, "pod-security.kubernetes.io/warn=restricted")
        for folder, here in self.overlays():
            with self.subTest(str(folder.relative_to(facts.ROOT))):
                self.make([d for d in here if d["kind"].endswith("TrainingRuntime")])  # a TrainJob is refused without it
                got = self.kubectl("apply", "--dry-run=server", "-f", "-", text=listed(here))
                if "# Pod Security: restricted" in (folder / "kustomization.yaml").read_text():
                    self.assertNotIn("violate PodSecurity", got.stderr)


class Kept(Form):
    def test_claims_are_kept(self):
        """With admin/keep-claims, deleting an overlay leaves its claim; without the label the claim goes."""
        form.plane.kubectl("apply", "-k", facts.ROOT / "k8s/admin/keep-claims")
        self.addCleanup(form.plane.kubectl, "delete", "-k", facts.ROOT / "k8s/admin/keep-claims")
        self.apply("one-pod")

        def refused():  # the API server reads a policy some time after it is there
            got = self.kubectl("delete", "--dry-run=server", "pvc", "gradwire-output", check=False)
            return got.returncode and got.stderr
        self.assertIn("claim gradwire-output is kept: to delete it, first kubectl label pvc gradwire-output gradwire/keep-",
                      form.plane.until("the policy is in force", refused))
        got = self.kubectl("delete", "-k", facts.ROOT / "k8s/one-pod", check=False)
        self.assertIn("claim gradwire-output is kept", got.stderr)
        left = self.kubectl("get", "job,configmap,networkpolicy,pvc", "-o", "name").stdout.split()
        self.assertEqual(left, ["configmap/kube-root-ca.crt", "persistentvolumeclaim/gradwire-output"])
        self.kubectl("label", "pvc", "gradwire-output", "gradwire/keep-")
        self.kubectl("delete", "pvc", "gradwire-output", "--timeout=120s")


class Plain(Form):
    def test_plain_base(self):
        self.apply("plain/base")
        self.succeeds("job/mnist-chief")
        self.succeeds("job/mnist-worker")
        self.trained()

    def test_one_pod(self):
        self.apply("one-pod")
        self.succeeds("job/mnist")
        self.trained()


    def test_plain_secure(self):
        self.by_hand("plain/components/token")
        self.apply("plain/overlays/secure")
        self.succeeds("job/mnist-chief")
        self.trained()

    def test_hosts(self):
        """Each pod in its node's own network, where no network policy is in force."""
        form.plane.kubectl("label", "--overwrite", "namespace", self.namespace, "pod-security.kubernetes.io/enforce=privileged")
        addresses = [form.nodes.addresses[name] for name in ("node-1", "node-2")]
        self.apply("plain/hosts", *zip(("192.0.2.11", "192.0.2.12"), addresses))
        self.succeeds("job/mnist-host-0")
        self.succeeds("job/mnist-host-1")
        self.trained()


class Preprocess(Form):
    JOB = preprocess_test.JOB.replace("DATA", "/data").replace("batch_size: 8", "batch_size: 8, microbatches: 4")

    def test_preprocess(self):
        """A claim with raw files; the step before the job; then a job whose pods read what it made."""
        self.shared_storage()
        self.apply("data")
        self.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/gradwire-data", "--timeout=60s")
        data = form.claims.folder / self.namespace / "gradwire-data"
        (data / "raw").mkdir()
        rows = [f"{i}.5,{'abc'[i % 3]},{'yes' if i % 2 else 'no'}\n" for i in range(205)]
        (data / "raw/a.csv").write_text("price,kind,bought\n" + "".join(rows))
        self.apply("preprocess")
        self.succeeds("job/gradwire-preprocess")
        self.assertEqual(gzip.decompress((data / "eval.csv.gz").read_bytes()).decode(), "".join(rows[9::10]))
        self.apply("plain/overlays/data", (form.job_file(), self.JOB))
        self.succeeds("job/mnist-chief")
        self.trained(self.JOB.replace("/data/", f"{data}/"))


class JobSet(Form):
    def finishes(self, directory):
        operator("jobset")
        self.apply(directory)
        self.succeeds("jobset/mnist", "Completed")
        self.trained()

    def test_jobset(self):
        self.finishes("jobset")

    def test_jobset_secure(self):
        self.by_hand("plain/components/token")
        self.finishes("plain/overlays/jobset")


class TFJob(Form):
    def finishes(self, directory, *changes):
        operator("training_operator")
        self.apply(f"tfjob/{directory}", *changes)
        self.succeeds("tfjob/mnist", "Succeeded")
        self.trained(*(job for _, job in changes))

    def test_tfjob_base(self):
        self.finishes("base")

    def test_no_ps(self):
        self.finishes("overlays/no-ps")


    def test_evaluator(self):
        """Its affinity leads both pods that mount the claim to one node."""
        self.finishes("overlays/evaluator")
        self.assertTrue(json.loads((self.claim / "eval.json").read_text())["results"][-1]["final"])

    def test_token(self):
        self.by_hand("tfjob/components/token")
        self.finishes("overlays/secure")

    def test_tls(self):
        folder = podcase.certificate(form.claims.folder / f"{self.namespace}-certificates", f"DNS:*.{self.namespace}.svc")
        self.by_hand("tfjob/components/tls", folder)
        self.finishes("overlays/tls", (form.job_file(), form.job_file(2)))

    def test_one_worker(self):
        self.finishes("overlays/one-worker")


class Nightly(Form):
    NIGHT = "gradwire-nightly-now"  # by hand, as docs/guides/nightly.md says

    def job_of_the_first_night(self):
        """The CronJob's own, which its schedule makes; the CronJob makes no second one."""
        def there():
            return self.kubectl("get", "job", "-l", "app.kubernetes.io/component=nightly", "-o", "name").stdout.split()
        name, = form.plane.until("a minute begins", there)
        self.kubectl("patch", "cronjob/gradwire-nightly", "--patch", '{"spec": {"suspend": true}}')
        return name

    def test_nightly(self):
        """Two nights: the second one finds the TFJob of the first and may not touch it; then that one is removed."""
        operator("training_operator")
        self.by_hand("tfjob/components/token")
        job = form.job_file(2)
        self.apply("nightly", (form.job_file(), job), ("0 1 * * *", "* * * * *"))
        first = self.job_of_the_first_night()
        self.succeeds(first)
        self.succeeds("tfjob/mnist", "Succeeded")
        self.trained(job)
        self.kubectl("create", "job", "--from=cronjob/gradwire-nightly", self.NIGHT)
        form.plane.until(lambda: f"the second night fails\n{self.said()}",
                         lambda: 'cannot patch resource "tfjobs"' in form.nodes.log(self.namespace))
        self.kubectl("delete", "tfjob/mnist")
        self.succeeds(f"job/{self.NIGHT}")
        self.succeeds("tfjob/mnist", "Succeeded")
        self.assertRegex(form.nodes.log(self.namespace), rf'run "{self.NIGHT}" begins with the weights of checkpoint \d+, '
                         rf'step \d+ of run "?{first.removeprefix("job.batch/")}')


class TrainJob(Form):
    def finishes(self, directory):
        operator("jobset")
        operator("trainer")
        self.apply(f"trainer/{directory}")
        self.succeeds("trainjob/mnist")
        self.trained()

    def test_trainer(self):
        self.finishes("base")

    def test_trainer_namespaced(self):
        self.finishes("overlays/namespaced")

    def test_trainer_secure(self):
        self.by_hand("trainer/components/token")
        self.finishes("overlays/secure")


if __name__ == "__main__":
    unittest.main(verbosity=2)
