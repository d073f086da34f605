"""A control plane of a test's own: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, each a process.

    plane = Plane(scope, address) -> plane.api, plane.kubectl("get", "pods"): as the administrator

`scope` has tmp and addCleanup: all of it lasts until the cleanup. The server listens at `address`. There is no kubelet:
kubelet.py has the nodes."""
import json
import os
import subprocess
import time

import api
import programs
from cluster import free_ports

TOKEN = "administrator-of-the-tests"
ISSUER = "https://kubernetes.default.svc"
SERVICES = "10.255.0.0/16"
READY_S = 180


class Plane:
    def __init__(self, scope, address):
        self.scope, self.address, self.processes = scope, address, []
        self.folder = scope.tmp / "plane"
        self.folder.mkdir()
        self.programs = programs.folder("plane")
        self.port, *self.etcd_ports = free_ports(3)
        scope.addCleanup(self.close)
        self.keys()
        self.etcd()
        self.apiserver()
        self.api = api.Api(address, self.port, self.folder / "apiserver.crt", TOKEN)
        self.until("the API server is ready", self.api.healthy)
        self.controllers()

    def close(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()

    def start(self, program, *flags, name=None, **env):
        """One of the control plane's processes, or an operator's (its path); its log is in a file of its name."""
        with (self.folder / f"{name or program}.log").open("w") as log:
            self.processes.append(subprocess.Popen([self.programs / program, *flags], stdout=log, stderr=log, cwd=self.folder,
                                                   env={**os.environ, **env}))

    def until(self, what, so, deadline_s=READY_S):
        """Waits until so() is true; `what` says, or is asked for, what that is."""
        end = time.monotonic() + deadline_s
        while not (got := so()):
            gone = [process for process in self.processes if process.poll() is not None]
            if gone or time.monotonic() > end:
                raise AssertionError(f"{gone} ended before, or {deadline_s} s are over: "
                                     f"{what() if callable(what) else what}\n{self.logs()}")
            time.sleep(0.05)
        return got

    def logs(self):
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.folder.glob("*.log")))

    def keys(self):
        """The key that signs service accounts' tokens, who the administrator is, and how kubectl finds the server."""
        self.key = self.folder / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", self.key, "2048"], check=True, capture_output=True)
        (self.folder / "tokens.csv").write_text(f"{TOKEN},administrator,administrator,system:masters\n")
        self.config = self.kubeconfig("administrator", TOKEN)

    def kubeconfig(self, user, token):
        """The path of a file with which kubectl finds the server, and is this user."""
        server = {"server": f"https://{self.address}:{self.port}", "certificate-authority": str(self.folder / "apiserver.crt")}
        path = self.folder / f"{user}.config"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": server}], "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": user}}]}))
        return path

    def etcd(self):
        client, peer = (f"http://127.0.0.1:{port}" for port in self.etcd_ports)
        self.start("server", f"--data-dir={self.folder}/etcd", f"--listen-client-urls={client}",
                   f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                   f"--initial-cluster=default={peer}", "--unsafe-no-fsync", "--log-level=warn")

    def apiserver(self):
        """It makes its own certificate. Nodes are ready from the first: no node controller takes their taint away."""
        self.start("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.etcd_ports[0]}", f"--bind-address={self.address}",
                   f"--advertise-address={self.address}", f"--secure-port={self.port}", f"--cert-dir={self.folder}",
                   f"--token-auth-file={self.folder}/tokens.csv", "--authorization-mode=RBAC",
                   f"--service-account-issuer={ISSUER}", f"--service-account-signing-key-file={self.key}",
                   f"--service-account-key-file={self.key}", f"--service-cluster-ip-range={SERVICES}",
                   "--disable-admission-plugins=TaintNodesByCondition", "--endpoint-reconciler-type=none")

    def controllers(self):
        """All of Kubernetes' controllers but those of nodes: no kubelet renews a lease."""
        self.start("kube-controller-manager", f"--kubeconfig={self.config}", "--leader-elect=false", "--secure-port=0",
                   "--controllers=*,-node-lifecycle-controller", f"--service-account-private-key-file={self.key}",
                   f"--root-ca-file={self.folder}/apiserver.crt", "--kube-api-qps=200", "--kube-api-burst=300")
        self.start("kube-scheduler", f"--kubeconfig={self.config}", "--leader-elect=false", "--secure-port=0")

    def kubectl(self, *words, check=True, timeout_s=120, text=None):
        got = subprocess.run(["kubectl", f"--kubeconfig={self.config}", f"--cache-dir={self.folder}/cache", *map(str, words)],
                             input=text, capture_output=True, text=True, timeout=timeout_s)
        if check and got.returncode:
            raise AssertionError(f"kubectl {' '.join(map(str, words))}: {got.stdout}{got.stderr}")
        return got
