#!/usr/bin/env python3
"""The first job of somebody with a cluster: the bases run with `kubectl apply -k` alone, the image's name is in one place,
two jobs fit into one namespace, and what a component needs is said in its first lines."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import controllers  # noqa: E402
import facts  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402

K8S = facts.ROOT / "k8s"
BASES = ("tfjob/base", "plain/base", "plain/elastic", "jobset", "one-pod", "trainer/base")
RENAMED = ("tfjob", "plain", "jobset", "one-pod", "nightly", "preprocess")  # forms whose jobs can have another name
IMAGE = "registry.example.com/team/gradwire:2.0"


def label(folder):
    return str(folder.relative_to(K8S))


def overlays(*forms):
    return [folder for folder in render.overlays() if label(folder).split("/")[0] in forms]


def programs(folder):
    """For some overlays, the oldest one too."""
    oldest = label(folder) in ("tfjob/base", "tfjob/overlays/production", "nightly") and render.built(render.OLDEST_KUSTOMIZE)
    return [render.kustomizer(), *([(oldest, "build")] if oldest else [])]


def kustomize(folder, *words):
    got = subprocess.run([*(words or render.kustomizer()), folder], capture_output=True, text=True)
    if got.returncode:
        raise AssertionError(got.stderr)
    docs = render.objects(got.stdout)
    return docs + render.created(docs)


def base(name):
    """Its objects, and those that Trainer makes of them."""
    docs = render.kustomize(K8S / name)
    return docs + controllers.trainjob_jobsets(docs)


def selector_of(doc):
    """The labels by which an object of a job chooses pods, or None."""
    spec = doc.get("spec", {})
    if doc["kind"] == "Service":
        return {"matchLabels": spec.get("selector", {})}
    return spec.get({"NetworkPolicy": "podSelector", "PodDisruptionBudget": "selector", "PodMonitor": "selector"}.get(doc["kind"]))


def peers(policy):
    for rule in policy["spec"].get("ingress", []) + policy["spec"].get("egress", []):
        for peer in rule.get("from", []) + rule.get("to", []):
            if "podSelector" in peer and "namespaceSelector" not in peer:
                yield peer["podSelector"]


@render.wanted
class FirstTest(unittest.TestCase):
    def copy(self):
        tmp = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        shutil.copytree(K8S, tmp / "k8s")
        return tmp / "k8s"

    # ---- kubectl apply -k alone ----

    def test_a_base_needs_neither_a_secret_nor_storage_that_several_nodes_can_mount(self):
        for name in BASES:
            with self.subTest(base=name):
                docs = base(name)
                claims = rules.of_kind(docs, "PersistentVolumeClaim")
                self.assertEqual([(c["metadata"]["name"], c["spec"]["accessModes"]) for c in claims],
                                 [("gradwire-output", ["ReadWriteOnce"])])
                self.assertEqual(rules.broken(docs), [])
                for pod in rules.pods(docs):
                    wanted = {kind for kind, _ in rules.referenced(pod)}
                    self.assertLessEqual(wanted, {"ConfigMap", "PersistentVolumeClaim", "Service"}, pod.where)
                    lone = pod.count == 1 == len(list(rules.pods(docs)))
                    self.assertTrue(lone or "--auth=none" in pod.spec["containers"][0]["args"], pod.where)
                    self.assertNotIn("evaluator", pod.where.lower())
                    self.assertTrue([p for p in rules.of_kind(docs, "NetworkPolicy")
                                     if rules.chooses(p["spec"]["podSelector"], pod.labels)], pod.where)

    def test_a_base_fits_on_a_machine_with_4_cores_beside_the_cluster_itself(self):
        for name in BASES:
            for what, most in (("cpu", 2), ("memory", 5 << 30)):  # a kind cluster's own pods request almost 1 core
                asked = sum(pod.count * rules.quantity(c["resources"]["requests"][what])
                            for pod in rules.pods(base(name)) for c in pod.spec["containers"])
                self.assertLessEqual(asked, most, f"{name}: {what}")

    def test_with_its_secret_a_component_asks_for_proof_and_says_how_to_make_it(self):
        for path in sorted(K8S.glob("*/components/*/kustomization.yaml")):
            if path.parent.name in ("token", "tls") and label(path).split("/")[0] in RENAMED:
                with self.subTest(component=label(path.parent)):
                    first = "\n".join(path.read_text().splitlines()[2:7])
                    self.assertRegex(first, r"# +kubectl create secret generic gradwire-" + path.parent.name)
        for name in ("secure", "tls"):
            for pod in rules.pods(render.kustomize(K8S / "tfjob/overlays" / name)):
                auth = [arg for arg in pod.spec["containers"][0]["args"] if arg.startswith("--auth=")]
                self.assertEqual(auth[-1], "--auth=required", pod.where)  # of two, the last one counts

    # ---- the image's name ----

    def images(self, folder, *words):
        """All names of gradwire's image in an overlay, as text: also those within ConfigMaps."""
        text = subprocess.run([*(words or render.kustomizer()), folder], capture_output=True, text=True, check=True).stdout
        return set(re.findall(r"[\w./-]+/gradwire:[\w.]+", text))

    def test_the_image_has_its_name_from_one_place(self):
        k8s = self.copy()
        place = k8s / "image-name/kustomization.yaml"
        text = place.read_text()
        name, tag = IMAGE.split(":")
        place.write_text(text.replace("newName: localhost/gradwire", f"newName: {name}").replace("newTag: 0.1.0", f'newTag: "{tag}"'))
        for folder in overlays(*RENAMED):
            for words in programs(folder):
                with self.subTest(overlay=label(folder), by=words[0]):
                    self.assertLessEqual(self.images(k8s / label(folder), *words), {IMAGE})

    def test_an_overlay_of_ones_own_can_set_the_images_name(self):
        k8s = self.copy()
        (k8s / "mine").mkdir()
        name, tag = IMAGE.split(":")
        for folder in overlays("nightly", "preprocess") + [K8S / "tfjob/base"]:
            (k8s / "mine/kustomization.yaml").write_text(
                f"resources: [../{label(folder)}]\nimages: [{{name: localhost/gradwire, newName: {name}, newTag: '{tag}'}}]\n")
            for words in programs(folder):
                with self.subTest(overlay=label(folder), by=words[0]):
                    self.assertEqual(self.images(k8s / "mine", *words), {IMAGE})

    # ---- two jobs in one namespace ----

    def apart(self, one, other):
        """No object of the one is the other's; no selector of the one chooses pods of the other."""
        named = [{(doc["kind"], doc["metadata"]["name"]) for doc in docs} for docs in (one, other)]
        self.assertEqual({kind for kind, _ in named[0] & named[1]} - {"PrometheusRule"}, set(), named[0] & named[1])
        theirs = list(rules.pods(other))
        for doc in one:
            asked = [s for s in [selector_of(doc), *(peers(doc) if doc["kind"] == "NetworkPolicy" else ())] if s]
            for selector in asked:
                self.assertEqual([pod.where for pod in theirs if rules.chooses(selector, pod.labels)], [], rules.title(doc))
        monitors = rules.of_kind(one, "ServiceMonitor")
        self.assertEqual([m for m in monitors if rules.monitored(other, theirs, m["spec"]["selector"])], [])
        for pod in rules.pods(one):
            for spread in [c["labelSelector"] for c in pod.spec.get("topologySpreadConstraints", [])] + [rules.term_of(pod)]:
                self.assertFalse(spread and [p for p in theirs if rules.chooses(spread, p.labels)], pod.where)

    def test_with_a_prefix_and_a_suffix_a_job_is_whole_and_apart_from_another(self):
        k8s = self.copy()
        (k8s / "mine").mkdir()
        for folder in overlays(*RENAMED):
            (k8s / "mine/kustomization.yaml").write_text(f"resources: [../{label(folder)}]\nnamePrefix: a-\nnameSuffix: -b\n")
            upstream = label(folder) == "tfjob/overlays/dist-mnist"
            for words in programs(folder):
                with self.subTest(overlay=label(folder), by=words[0]):
                    mine = kustomize(k8s / "mine", *words)
                    self.assertEqual(rules.broken(mine, [r for r in rules.RULES if not upstream or r not in rules.OURS]), [])
                    first = kustomize(folder, *words)
                    self.apart(mine, first)
                    self.apart(first, mine)

    # ---- an overlay of one's own ----

    def test_components_combine_as_the_readme_says(self):
        k8s = self.copy()
        place = k8s / "image-name/kustomization.yaml"
        place.write_text(place.read_text().replace("newName: localhost/gradwire", "newName: registry.example.com/gradwire"))
        text, = re.findall(r"```yaml\n(apiVersion: kustomize.*?)```", (K8S / "README.md").read_text(), re.S)
        (k8s / "tfjob/overlays/mine").mkdir()
        for more in ("", ", ../../components/tls, ../../components/openshift, ../../components/no-ps"):
            (k8s / "tfjob/overlays/mine/kustomization.yaml").write_text(text.replace("evaluator]", f"evaluator{more}]"))
            docs = kustomize(k8s / "tfjob/overlays/mine")
            self.assertEqual(rules.broken(docs), [])
            for pod in rules.pods(docs):
                one, = pod.spec["containers"]
                self.assertEqual(one["image"].split(":")[0], "registry.example.com/gradwire", pod.where)
                self.assertEqual([a for a in one["args"] if a.startswith("--auth=")][-1], "--auth=required", pod.where)
                wanted = {name for kind, name in rules.referenced(pod) if kind == "Secret"}
                self.assertEqual(wanted, {"gradwire-token", *(["gradwire-tls"] if more else [])}, pod.where)
                reads = pod.labels["app.kubernetes.io/component"] != "ps"
                self.assertEqual(("PersistentVolumeClaim", "gradwire-data") in set(rules.referenced(pod)), reads, pod.where)
                self.assertEqual("runAsUser" in pod.spec["securityContext"], not more, pod.where)

    def test_containers_that_components_add_have_the_image_of_the_base(self):
        k8s = self.copy()
        place = k8s / "image-name/kustomization.yaml"
        place.write_text(place.read_text().replace("newName: localhost/gradwire", "newName: registry.example.com/gradwire"))
        for name in ("evaluator", "local-data"):
            images = [c["image"] for pod in rules.pods(kustomize(k8s / "tfjob/overlays" / name)) for c in pod.containers]
            self.assertEqual({image.split(":")[0] for image in images}, {"registry.example.com/gradwire"})

    # ---- as earlier releases had it ----

    def test_an_overlay_of_ones_own_with_components_of_earlier_releases_renders(self):
        k8s = self.copy()
        (k8s / "mine").mkdir()
        names = ("token", "network", "disruption", "priority", "placement", "pull-secret", "quota", "http", "service-monitor",
                 "monitoring")
        (k8s / "mine/kustomization.yaml").write_text(
            "resources: [../tfjob/base]\ncomponents: [" + ", ".join(f"../tfjob/components/{name}" for name in names) + "]\n")
        self.assertIn("ResourceQuota", {doc["kind"] for doc in kustomize(k8s / "mine")})
        for names in (("evaluator", "token", "gang"), ("local-data", "evaluator")):  # image-name had to be the last
            (k8s / "mine/kustomization.yaml").write_text("resources: [../tfjob/base]\ncomponents: [" + ", ".join(
                f"../tfjob/components/{name}" for name in names) + ", ../image-name]\n")
            self.assertEqual(rules.broken(kustomize(k8s / "mine")), [])

    def test_what_is_kept_is_what_a_selector_leaves(self):
        for folder in overlays(*RENAMED):
            docs = render.kustomize(folder)
            kept = [doc["kind"] for doc in docs if rules.KEEP in doc["metadata"].get("labels", {})]
            self.assertEqual(kept, ["PersistentVolumeClaim"] * len(rules.of_kind(docs, "PersistentVolumeClaim")), label(folder))

    def test_the_policy_that_keeps_claims_is_about_their_deletion_alone(self):
        policy, binding = render.kustomize(K8S / "admin/keep-claims")
        spec = policy["spec"]
        self.assertEqual(spec["matchConstraints"]["objectSelector"]["matchLabels"], {rules.KEEP: "true"})
        self.assertEqual(spec["matchConstraints"]["resourceRules"], [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["persistentvolumeclaims"]}])
        self.assertEqual([v["expression"] for v in spec["validations"]], ["false"])
        self.assertEqual((binding["spec"]["policyName"], binding["spec"]["validationActions"]), (policy["metadata"]["name"], ["Deny"]))


if __name__ == "__main__":
    unittest.main()
