"""The operators of a cluster: their CustomResourceDefinitions and webhooks, as their modules have them, and their
managers, as processes. In a cluster a Service leads to a webhook, and a certificate is rotated; here it is an address, and a
certificate of the tests'."""
import base64
import json
import socket
import subprocess

import programs
import render
from cluster import free_ports

HOST = "127.0.0.1"
OFF = {"metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": "0"}, "leaderElection": {"leaderElect": False}}
QUICK = {"clientConnection": {"qps": 500, "burst": 500}}


def certificate(folder):
    """A folder as controller-runtime looks for it below TMPDIR, with a certificate for HOST; the certificate's text."""
    there = folder / "k8s-webhook-server" / "serving-certs"
    there.mkdir(parents=True)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=webhook",
                    "-addext", f"subjectAltName=IP:{HOST}", "-keyout", there / "tls.key", "-out", there / "tls.crt"],
                   check=True, capture_output=True)
    return there, (there / "tls.crt").read_text()


def at(port, authority, configuration, name):
    """A module's webhook configuration, for a webhook that listens at this port."""
    configuration["metadata"] = {"name": name}
    for hook in configuration["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": f"https://{HOST}:{port}{path}",
                                "caBundle": base64.b64encode(authority.encode()).decode()}
    return configuration


class Managers:
    """Those of one plane. `scope`: as the plane's."""

    def __init__(self, plane):
        self.plane, self.folder = plane, plane.folder / "managers"
        self.folder.mkdir()
        self.certificates, self.authority = certificate(self.folder)

    def start(self, name, program, crds, webhooks, rbac, flags):
        """An operator: flags(port) are its program's. It is ready when its webhook answers."""
        port, = free_ports(1)
        for path in crds:
            self.plane.kubectl("apply", "--server-side", "-f", path)
        for path in crds:  # a manager that starts before ends
            self.plane.until(f"{path.name} is established", lambda path=path: self.established(path))
        self.plane.start(program, *flags(port), name=name, KUBECONFIG=str(self.account(name, rbac)), TMPDIR=str(self.folder))
        for i, found in enumerate(d for d in render.kustomize(webhooks) if d["kind"].endswith("WebhookConfiguration")):
            path = self.folder / f"{name}-{i}.json"
            path.write_text(json.dumps(at(port, self.authority, found, name)))
            self.plane.kubectl("apply", "-f", path)
        self.plane.until(f"{name}'s webhook answers", lambda: answers(port))

    def account(self, name, folder):
        """The kubeconfig of the manager's ServiceAccount, which may do no more than its module says."""
        made = [doc for path in sorted(folder.glob("*.yaml")) for doc in render.objects(path.read_text())
                if doc and doc.get("kind") in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")]
        account, = (doc["metadata"] for doc in made if doc["kind"] == "ServiceAccount")
        namespace = f"{name}-system"
        for place in (account, *(who for doc in made for who in doc.get("subjects", []))):
            place["namespace"] = namespace
        self.plane.kubectl("create", "namespace", namespace)
        self.plane.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": made}))
        token = self.plane.kubectl("-n", namespace, "create", "token", account["name"], "--duration=24h").stdout.strip()
        return self.plane.kubeconfig(name, token)

    def established(self, path):
        shown = json.loads(self.plane.kubectl("get", "-o", "json", "-f", path).stdout)
        return any((c["type"], c["status"]) == ("Established", "True")
                   for c in shown.get("status", {}).get("conditions") or ())

    def configured(self, name, group, port, **more):
        """The flags of a program that reads all from a file."""
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({"apiVersion": f"{group}/v1alpha1", "kind": "Configuration", **OFF, **QUICK,
                                    "webhook": {"port": port, "host": HOST}, **more}))
        return [f"--config={path}"]

    def training_operator(self):
        manifests = programs.MODULES["training-operator"].sources("github.com/kubeflow/training-operator") / "manifests/base"
        self.start("training-operator", programs.folder("training-operator") / "manager",
                   [manifests / "crds/kubeflow.org_tfjobs.yaml"], manifests / "webhook", manifests / "rbac",
                   lambda port: [f"--port={port}", f"--certificates={self.certificates}"])

    def jobset(self):
        parts = programs.MODULES["trainer"].sources("sigs.k8s.io/jobset") / "config/components"
        self.start("jobset", programs.folder("trainer") / "jobset", [parts / "crd/bases/jobset.x-k8s.io_jobsets.yaml"],
                   parts / "webhook", parts / "rbac",
                   lambda port: self.configured("jobset", "config.jobset.x-k8s.io", port,
                                                internalCertManagement={"enable": False}))

    def trainer(self):
        manifests = programs.MODULES["trainer"].sources("github.com/kubeflow/trainer/v2") / "manifests/base"
        self.start("trainer", programs.folder("trainer") / "trainer-controller-manager",
                   sorted(manifests.glob("crds/trainer.kubeflow.org_*.yaml")), manifests / "webhook", manifests / "rbac",
                   lambda port: self.configured("trainer", "config.trainer.kubeflow.org", port,
                                                certManagement={"enable": False}))


def answers(port):
    try:
        socket.create_connection((HOST, port), timeout=1).close()
        return True
    except OSError:
        return False
