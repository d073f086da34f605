#!/usr/bin/env python3
"""Releases of the chart as helm itself installs, upgrades and uninstalls them, against an API server that keeps objects: what
a release leaves behind, and what the next one takes again."""
import copy
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import facts  # noqa: E402
import nightly_test  # noqa: E402
import pages  # noqa: E402
import releases  # noqa: E402
import render  # noqa: E402

CHART = facts.ROOT / "k8s/helm/gradwire"
BY_010 = {"labels": {"app.kubernetes.io/managed-by": "Helm"},
          "annotations": {"meta.helm.sh/release-name": "mnist", "meta.helm.sh/release-namespace": "team"}}


@facts.skip_without(render.helm(), f"helm {render.NO_TOOLS} (or: go install {render.HELM})")
class HelmReleaseTest(unittest.TestCase):
    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.tmp)
        self.cluster = nightly_test.serve(self, releases.Cluster())

    def helm(self, *words, values=()):
        sets = [word for value in values for word in ("--set", value)]
        return subprocess.run([render.helm(), *words, *sets, "--namespace=team", "--kubeconfig=/dev/null",
                               f"--kube-apiserver=http://127.0.0.1:{self.cluster.server_port}"], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.tmp)}, timeout=120)

    def done(self, *words, values=()):
        got = self.helm(*words, values=values)
        self.assertEqual(got.returncode, 0, got.stderr)
        return got.stdout

    def install(self, name="mnist", *values):
        return self.done("install", name, CHART, "--disable-openapi-validation", values=values)

    def claims(self):
        return self.cluster.of("PersistentVolumeClaim")

    def left(self):
        return sorted((kind, name) for _, kind, name in self.cluster.objects)

    def test_a_claim_outlives_its_release_and_the_next_one_takes_it(self):
        said = self.install()
        self.assertIn("`helm uninstall` keeps the claim mnist-output", said)
        self.assertIn("--auth=none", said)
        first = self.claims()["mnist-output"]
        self.done("uninstall", "mnist")
        self.assertEqual(self.left(), [("PersistentVolumeClaim", "mnist-output")])
        self.install("mnist", "claims.output.storage=20Gi")
        again = self.claims()["mnist-output"]
        self.assertEqual((again["metadata"]["uid"], again["spec"]["volumeName"]), (first["metadata"]["uid"], "pv-mnist-output"))
        self.assertEqual(again["spec"]["resources"]["requests"]["storage"], "20Gi")

    def test_with_keep_false_nothing_is_left(self):
        self.install("mnist", "claims.output.keep=false")
        self.done("uninstall", "mnist")
        self.assertEqual(self.left(), [])

    def test_another_release_takes_a_kept_claim_only_by_its_name_with_create_false(self):
        self.install()
        self.done("uninstall", "mnist")
        got = self.helm("install", "other", CHART, "--disable-openapi-validation", values=["claims.output.name=mnist-output"])
        self.assertNotEqual(got.returncode, 0)
        self.assertIn("invalid ownership metadata", got.stderr)
        self.install("other", "claims.output.name=mnist-output", "claims.output.create=false")
        self.assertEqual(set(self.claims()), {"mnist-output"})
        self.done("uninstall", "other")
        self.assertEqual(set(self.claims()), {"mnist-output"})

    def test_the_notes_name_each_secret_that_the_pods_wait_for(self):
        said = self.install("both", "token.required=true", "tls.secretName=mine")
        self.assertIn("kubectl create secret generic -n team both-token --from-literal=token=", said)
        self.assertIn("The pods wait for the Secret mine (docs/guides/kubernetes-tls.md).", said)
        self.assertNotIn("--auth=none", said)
        self.assertIn("The pods require no proof from each other (--auth=none).", self.install("neither"))

    def test_two_releases_in_one_namespace_have_nothing_in_common(self):
        for name in ("one", "two"):
            self.install(name)
        before = {key for key in self.left() if key[0] != "Secret"}
        self.done("uninstall", "one")
        self.assertEqual(before - set(self.left()), {(kind, name) for kind, name in before if name.startswith("one")}
                         - {("PersistentVolumeClaim", "one-output")})

    def test_an_upgrade_deletes_no_claim_of_the_first_chart(self):
        self.install()
        for name in ("gradwire-data", "gradwire-output"):
            self.cluster.stored(("team", "PersistentVolumeClaim", name), {
                "apiVersion": "v1", "metadata": copy.deepcopy(BY_010), "spec": {"accessModes": ["ReadWriteMany"]}})
        upgrade = "upgrade", "mnist", CHART, "--disable-openapi-validation"
        got = self.helm(*upgrade)
        self.assertNotEqual(got.returncode, 0)
        self.assertIn("this upgrade would delete the claim gradwire-data: keep it with `kubectl annotate pvc -n team gradwire-data "
                      "helm.sh/resource-policy=keep`", got.stderr)
        self.cluster.objects["team", "PersistentVolumeClaim", "gradwire-data"]["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep"
        self.assertIn("the claim gradwire-output", self.helm(*upgrade).stderr)
        self.done(*upgrade, values=["prefix=gradwire", "claims.output.accessModes={ReadWriteMany}"])
        self.assertEqual(set(self.claims()), {"gradwire-data", "gradwire-output", "mnist-output"})

    def test_the_pages_commands_do_what_it_says(self):
        (self.tmp / "helm").write_text(f"""#!/bin/sh
case $1 in install|upgrade) set -- "$@" --disable-openapi-validation ;; esac
exec {render.helm()} "$@" --kube-apiserver=http://127.0.0.1:{self.cluster.server_port}
""")
        (self.tmp / "kubectl").write_text("#!/bin/sh\n")
        for name in ("helm", "kubectl"):
            (self.tmp / name).chmod(0o755)
        (self.tmp / "k8s").symlink_to(facts.ROOT / "k8s")
        (self.tmp / "job.yaml").write_text("name: clicks\n")
        page = (facts.ROOT / "docs/guides/helm.md").read_text()
        blocks = [block.text for block in pages.split(page)[0] if block.is_run()]
        self.assertEqual(len(blocks), 6)
        for text in blocks:
            got = subprocess.run(["bash", "-euc", text], cwd=self.tmp, capture_output=True, text=True, timeout=300, env={
                "PATH": f"{self.tmp}:{os.environ['PATH']}", "HOME": str(self.tmp), "KUBECONFIG": "/dev/null", "HELM_NAMESPACE": "team"})
            self.assertEqual(got.returncode, 0, f"{text}{got.stderr}")
            if "uninstall" in text and "delete" in text:
                self.assertEqual(set(self.cluster.of("TFJob")), {"clicks"})
                self.install()  # for what follows


if __name__ == "__main__":
    unittest.main()
