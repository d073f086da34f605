#!/usr/bin/env python3
"""The forms without an operator, as they render, in addition to first_test.py: one pod mounts the claim; components and
prefixes change each form completely."""
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import controllers  # noqa: E402
import facts  # noqa: E402
import kustomize_test  # noqa: E402
import render  # noqa: E402
import rules  # noqa: E402

K8S = facts.ROOT / "k8s"
BASES = ("plain/base", "plain/elastic", "plain/hosts", "jobset", "one-pod")
PREFIXED = [base for base in BASES if base != "plain/hosts"]  # its hosts have addresses
CLAIM = "PersistentVolumeClaim"


def ours():
    """Every folder of these forms that renders."""
    return [folder for folder in render.overlays() if folder.relative_to(K8S).parts[0] in ("plain", "jobset", "one-pod")]


def claims_of(pod):
    return [name for kind, name in rules.referenced(pod) if kind == CLAIM]


def last(args, flag):
    return [arg.split("=", 1)[1] for arg in args if arg.startswith(flag + "=")][-1:]


def proofs(docs):
    """The last --auth of each pod, which wins."""
    return {pod.where: last(pod.spec["containers"][0].get("args", []), "--auth") for pod in rules.pods(docs)}


class Job:
    """The pods of objects, as their controllers make them: name, domain, environment and arguments."""

    def __init__(self, docs):
        self.docs, self.pods = list(docs), {}
        for doc in docs:
            for made in controllers.jobset_objects(doc) if doc["kind"] == "JobSet" else [doc]:
                if made["kind"] in ("Job", "StatefulSet"):
                    self.add(made)
                elif made is not doc:
                    self.docs.append(made)

    def add(self, doc):
        spec, template = doc["spec"], doc["spec"]["template"]
        domain = spec.get("serviceName", template["spec"].get("subdomain"))
        for i in range(spec.get("replicas", spec.get("completions", 1))):
            container, = template["spec"]["containers"]
            numbered = doc["kind"] != "Job" or spec.get("completionMode") == "Indexed"
            index = {"JOB_COMPLETION_INDEX": str(i)} if numbered else {}
            env = {**index, **facts.container_env(container, i, template["metadata"]["labels"])}
            args = [facts.expand(arg, env) for arg in container.get("args", [])]
            self.pods[f"{doc['metadata']['name']}-{i}"] = domain, env, args

    def hosts(self):
        """The names that resolve: POD.SERVICE, if there is such a Service."""
        services = {doc["metadata"]["name"] for doc in self.docs if doc["kind"] == "Service"}
        return {f"{pod}.{domain}" for pod, (domain, _, _) in self.pods.items() if domain in services}

    def asked(self):
        """The hosts that the entrypoint of each pod gives to its program."""
        found = set()
        for env, args in ((env, args) for _, env, args in self.pods.values()):
            got = subprocess.run([facts.ENTRYPOINT, *args, "--print"], env=facts.environment(**env), capture_output=True, text=True)
            if got.returncode:
                raise AssertionError(got.stderr)
            found |= set(re.findall(r"([\w.-]+):2222", env.get("TF_CONFIG", "") + got.stdout))
        return found


@render.wanted
class PlainTest(unittest.TestCase):
    def with_component(self, base, name):
        return render.kustomize(render.overlay_on(self, base, f"components: [@plain/components/{name}@]"))

    # ---- applied alone ----

    def test_a_base_needs_one_claim_that_one_pod_mounts_and_no_secret(self):
        for base in BASES:
            with self.subTest(base=base):
                docs = render.kustomize(K8S / base)
                claim, = rules.of_kind(docs, CLAIM)
                self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteOnce"])
                mounting = [pod for pod in rules.pods(docs) if claims_of(pod)]
                self.assertEqual([(claims_of(pod), pod.count) for pod in mounting], [([claim["metadata"]["name"]], 1)])
                self.assertEqual([pod.where for pod in rules.pods(docs) for v in pod.spec["volumes"] if "secret" in v], [])

    def test_a_base_says_that_it_has_no_proof_and_a_component_requires_one(self):
        for base in BASES[:-1]:  # the processes of one pod talk on loopback
            with self.subTest(base=base):
                self.assertEqual({tuple(said) for said in proofs(render.kustomize(K8S / base)).values()}, {("none",)})
                for component in ("token", "tls"):
                    docs = self.with_component(base, component)
                    self.assertEqual({tuple(said) for said in proofs(docs).values()}, {("required",)}, component)
                    self.assertEqual(rules.broken(docs), [])

    def test_a_policy_is_in_force_for_every_pod_that_has_a_network_of_its_own(self):
        for folder in ours():
            docs = render.kustomize(folder)
            chosen = [doc["spec"]["podSelector"] for doc in rules.of_kind(docs, "NetworkPolicy")]
            for pod in rules.pods(docs):
                with self.subTest(overlay=folder.name, pod=pod.where):
                    self.assertEqual(any(rules.chooses(s, pod.labels) for s in chosen), not pod.spec.get("hostNetwork"))

    # ---- components ----

    def test_data_is_a_claim_for_those_who_read_it(self):
        for base in BASES:
            with self.subTest(base=base):
                docs = self.with_component(base, "data")
                self.assertEqual(rules.broken(docs), [])
                for pod in rules.pods(docs):
                    reads = any(m["mountPath"] == "/data" for m in pod.spec["containers"][0]["volumeMounts"])
                    self.assertEqual("gradwire-data" in claims_of(pod), reads, pod.where)
                    self.assertEqual([v for v in pod.spec["volumes"] if len(v) != 2], [])

    def test_on_openshift_no_pod_asks_for_a_user_or_a_group(self):
        for base in PREFIXED:
            for pod in rules.pods(self.with_component(base, "openshift")):
                with self.subTest(base=base, pod=pod.where):
                    self.assertEqual(set(pod.spec["securityContext"]), {"runAsNonRoot", "fsGroupChangePolicy", "seccompProfile"})

    # ---- names ----

    def test_with_a_prefix_and_a_suffix_every_host_is_the_name_of_a_pod(self):
        for base in PREFIXED:
            plain = Job(render.kustomize(K8S / base))
            folder = render.overlay_on(self, base, "namePrefix: exp-", "nameSuffix: -v2")
            for program in [render.kustomizer(), *((p, "build") for p in kustomize_test.PROGRAMS)]:
                with self.subTest(base=base, by=program):
                    got = subprocess.run([*program, folder], capture_output=True, text=True)
                    self.assertEqual(got.returncode, 0, got.stderr)
                    docs = render.objects(got.stdout)
                    self.assertEqual(rules.broken(docs), [])
                    job = Job(docs)
                    self.assertTrue(all(re.fullmatch(r"exp-mnist.*-v2(-\w+-0)?-\d+", pod) for pod in job.pods), set(job.pods))
                    self.assertLessEqual(job.asked(), job.hosts())
                    self.assertEqual((len(job.pods), len(job.asked())), (len(plain.pods), len(plain.asked())))

    def test_the_hosts_of_a_base_are_the_names_of_its_pods(self):
        for base in PREFIXED:
            with self.subTest(base=base):
                job = Job(render.kustomize(K8S / base))
                self.assertLessEqual(job.asked(), job.hosts())
        self.assertEqual(len(Job(render.kustomize(K8S / "plain/base")).asked()), 5)


if __name__ == "__main__":
    unittest.main()
