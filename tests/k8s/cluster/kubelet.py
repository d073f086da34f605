"""The kubelets of a cluster without nodes: they watch the pods that the scheduler has bound to a node, run their containers
from the real image in network namespaces, and say in the API what became of them. With them come names, as the
EndpointSlices of headless Services say (dnsmasq), and NetworkPolicies (nft).

A pod is a thread: storage -> address -> init containers -> container, again and again as restartPolicy says -> its end, or
its deletion (SIGTERM, grace, SIGKILL). It waits for descriptors: its container's end, its deletion; a probe's time.
Failure modes: a field that is not translated (podspec.py), or any fault here, is the pod's phase Failed with the reason
`Kubelet`, and in Nodes.faults. Not here: kubectl logs and exec; images (the one of the tests is on each node); evictions by
the kubelet itself."""
import os
import pathlib
import select
import shutil
import subprocess
import threading
import time
import traceback

import api
import cluster
import controllers
import netpolicy
import podspec
import pods
import storage
import watch

NODES = ("node-1", "node-2", "node-3")
ROOM = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "200Gi", "pods": "110"}
ADDRESSES = 60
NAMES_READY_S = 30
WAIT_S = 0.2  # until the next look at a volume that is not there yet
BACKOFF_S, BACKOFF_MAX_S = 10, 300  # of restarts in place: the first one is immediate
KUBECTL = "registry.k8s.io/kubectl:"
DEFAULTS = {"priority", "preemptionPolicy", "serviceAccountName", "serviceAccount", "nodeName",
            "automountServiceAccountToken"}  # the server adds them, and the volume with the token
PHASES_LAST = ("Succeeded", "Failed")


def node(name):
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": storage.now(),
             "lastTransitionTime": storage.now()}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                                                  "kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": name}},
            "status": {"capacity": ROOM, "allocatable": ROOM, "conditions": [ready]}}


def as_written(spec):
    """A pod's spec without what the API server adds and podspec.py does not know."""
    def probe(given):
        http = {key: value for key, value in given.get("httpGet", {}).items() if key != "scheme"}
        return {**given, "httpGet": http} if "httpGet" in given else given

    def container(given):
        kept = {key: value for key, value in given.items() if key != "terminationMessagePolicy"}
        return {key: probe(value) if key.endswith("Probe") else value for key, value in kept.items()}
    kept = {key: value for key, value in spec.items() if key not in DEFAULTS}
    return {**kept, **{key: [container(c) for c in spec[key]] for key in ("initContainers", "containers") if key in spec}}


class Going(Exception):
    """The pod's object is being deleted."""


class PodOfNode(threading.Thread):
    def __init__(self, nodes, pod):
        super().__init__(daemon=True)
        self.nodes, self.pod, self.meta = nodes, pod, pod["metadata"]
        self.name, self.namespace, self.uid = self.meta["name"], self.meta["namespace"], self.meta["uid"]
        self.spec, self.node = as_written(pod["spec"]), pod["spec"]["nodeName"]
        self.on_host = self.spec.get("hostNetwork", False)
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self.folder = nodes.folder / self.uid
        self.volumes = storage.Volumes(nodes.api, pod, self.folder / "volumes")
        self.woken, self.grace_s = os.eventfd(0, os.EFD_NONBLOCK), None
        self.host, self.address, self.container, self.runs, self.log = None, "", None, 0, ""
        self.status = {"hostIP": nodes.net.own, "startTime": storage.now()}
        self.states, self.ready, self.missed = {}, False, {}

    # ---- what the API says ----

    def report(self, phase=None, **more):
        """Writes the status as it is now; a pod that is no more is not an error."""
        self.status.update(more, **({"phase": phase} if phase else {}))
        started = self.status.get("phase", "Pending") != "Pending"
        conditions = {"PodReadyToStartContainers": bool(self.address), "Initialized": started, "Ready": self.ready,
                      "ContainersReady": self.ready}
        status = {**self.status, "conditions": [
            {"type": name, "status": str(value), "lastTransitionTime": storage.now()} for name, value in conditions.items()]}
        for key, field in (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")):
            status[field] = [self.states[c["name"]] for c in self.spec.get(key, []) if c["name"] in self.states]
        self.nodes.ask("PATCH", f"{self.path}/status", {"metadata": {"uid": self.uid}, "status": status}, api.MERGE)

    def state(self, made, restarts=0, ready=False, **state):
        """Notes a container's part of the status."""
        before = self.states.get(made.name, {})
        self.states[made.name] = {
            "name": made.name, "image": pods.IMAGE, "imageID": pods.IMAGE, "ready": ready, "restartCount": restarts,
            "started": "running" in state, "state": state, "containerID": f"podman://{self.container}",
            "lastState": before.get("state", {}) if restarts > before.get("restartCount", 0) else before.get("lastState", {})}

    # ---- its course ----

    def go(self, grace_s):
        """It is being deleted; the caller has the nodes' lock."""
        if self.grace_s is None:
            self.grace_s = grace_s
            os.eventfd_write(self.woken, 1)

    def run(self):
        try:
            self.live()
        except Going:
            pass
        except Exception:  # of any kind: the test says it
            self.nodes.faults.append(f"{self.namespace}/{self.name}: {traceback.format_exc()}")
            self.report("Failed", reason="Kubelet", message=traceback.format_exc(limit=1))
        finally:
            self.leave()

    def live(self):
        place = podspec.Place(self.name, self.namespace, self.meta.get("labels", {}), self.meta.get("annotations", {}), "",
                              pods.IMAGE, self.volumes.path, self.volumes.key)
        self.wait_for_volumes()
        self.address = place.ip = self.nodes.enter(self)
        self.report("Pending", podIP=self.address, podIPs=[{"ip": self.address}])
        *first, main = self.containers(place)
        policy = self.spec["restartPolicy"]
        for made in first:
            if self.to_its_end(made, "OnFailure" if policy == "Always" else policy) != "Succeeded":
                return self.report("Failed")
        self.report(self.to_its_end(main, policy))

    def containers(self, place):
        """As podspec.py translates them. An image of kubectl's is ours, with this machine's kubectl in it."""
        theirs = {c["name"] for c in self.spec["containers"] if c["image"].startswith(KUBECTL)}
        spec = {**self.spec, "containers": [{**c, "image": pods.IMAGE, "command": ["/kubectl"]} if c["name"] in theirs else c
                                            for c in self.spec["containers"]]}
        made = podspec.containers(spec, place)
        for one in made:
            if one.name in theirs:
                one.flags.append(f"--volume={os.path.realpath(shutil.which('kubectl'))}:/kubectl:ro")
        return made

    def wait_for_volumes(self):
        group = self.spec.get("securityContext", {}).get("fsGroup")
        for volume in self.spec.get("volumes", []):
            while True:
                try:
                    self.volumes.path(volume, group)
                    break
                except storage.Later:
                    self.pause(WAIT_S)

    def pause(self, seconds, *descriptors):
        """Until one of these can be read, at most so long; Going: the pod is deleted meanwhile."""
        poll = select.poll()
        for end in (self.woken, *descriptors):
            poll.register(end, select.POLLIN | select.POLLHUP)
        got = [end for end, _ in poll.poll(None if seconds is None else max(0, seconds) * 1000)]
        if self.woken in got:
            raise Going
        return got

    def to_its_end(self, made, policy):
        """A container, until it is not started again: the phase of a pod that has only this one."""
        restarts = 0
        while True:
            code = self.once(made, restarts)
            after = controllers.after_container(policy, code)
            if after != controllers.IN_PLACE:
                return after
            restarts += 1
            if restarts > 1:
                self.pause(min(BACKOFF_S * 2 ** (restarts - 2), BACKOFF_MAX_S))

    def once(self, made, restarts):
        end = self.start_container(made)
        began = storage.now()
        try:
            self.missed = {}
            self.ready = "readinessProbe" not in made.probes and made.name in self.main_names()
            self.state(made, restarts, self.ready, running={"startedAt": began})
            self.report("Running" if made.name in self.main_names() else "Pending")
            while not self.pause(self.probe(made), end):
                pass
        except Going:
            self.stop_container()
            self.ended(made, restarts, began)
            self.report("Succeeded" if self.code == 0 else "Failed")
            raise
        finally:
            os.close(end)
        self.ended(made, restarts, began)
        return self.code

    def main_names(self):
        return [c["name"] for c in self.spec["containers"]]

    def ended(self, made, restarts, began):
        self.code, self.ready = int(pods.podman("wait", self.container).stdout), False
        self.state(made, restarts, terminated={
            "exitCode": self.code, "reason": "Completed" if self.code == 0 else "Error", "startedAt": began,
            "finishedAt": storage.now(), "message": self.last_words.read_text()[-4096:],
            "containerID": f"podman://{self.container}"})
        self.remove_container()

    # ---- containers ----

    def start_container(self, made):
        """Returns a descriptor that can be read when the container has ended."""
        self.runs += 1
        self.container = f"gwt{os.getpid()}-{self.uid}-{self.runs}"
        self.folder.mkdir(parents=True, exist_ok=True)
        monitor, self.last_words = self.folder / f"{self.runs}.monitor", self.folder / f"{self.runs}.termination"
        self.last_words.touch()
        self.last_words.chmod(0o666)
        pods.podman("run", "--detach", f"--conmon-pidfile={monitor}", f"--volume={self.last_words}:/dev/termination-log",
                    *self.flags(), *made.flags, *made.words)
        try:
            return os.pidfd_open(int(monitor.read_text()))
        except ProcessLookupError:
            end, other = os.pipe()
            os.close(other)
            return end

    def flags(self):
        search = [f"{self.namespace}.svc.{pods.DOMAIN}", f"svc.{pods.DOMAIN}", pods.DOMAIN]
        return [f"--name={self.container}", "--pull=never", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
                f"--network=ns:/run/netns/{self.nodes.net.name(self.host)}",
                f"--hostname={self.spec.get('hostname', self.name)}", "--no-hosts", f"--dns={self.nodes.net.own}",
                *[f"--dns-search={s}" for s in search], "--dns-option=ndots:5",
                *[f"--env={key}={text}" for key, text in {**cluster.kernels(), **self.nodes.server}.items()]]

    def stop_container(self):
        grace_s = podspec.GRACE_S if self.grace_s is None else self.grace_s
        pods.podman("stop", f"--time={grace_s}", self.container, check=False)

    def remove_container(self):
        if self.container:
            got = pods.podman("logs", self.container, check=False)
            self.log += f"--- {self.namespace}/{self.name}, run {self.runs}\n{got.stdout}{got.stderr}"
            pods.podman("rm", "--force", "--time=0", self.container, check=False)
            self.container = None

    def leave(self):
        self.remove_container()
        self.nodes.left(self)
        os.close(self.woken)
        if self.grace_s is not None:
            self.nodes.forget(self.pod)

    # ---- probes ----

    def probe(self, made):
        """Asks those that are due. Returns the seconds until the next is, or None: there are none."""
        started = "startupProbe" not in made.probes or self.missed.get("startupProbe") == 0
        due = [(kind, probe) for kind, probe in made.probes.items() if started != (kind == "startupProbe")]
        for kind, probe in due:
            got = watch.get(f"{self.address}:{probe.port}", probe.path, probe.timeout_s)
            self.missed[kind] = 0 if got and got[0] == 200 else self.missed.get(kind, 0) + 1
            often = self.missed[kind] * min(probe.period_s, 1) >= probe.failures * probe.period_s
            if kind != "readinessProbe":
                if often:
                    pods.podman("kill", "--signal=KILL", self.container, check=False)
            elif (self.missed[kind] == 0) != self.ready and (often or self.missed[kind] == 0):
                self.ready = not self.ready
                self.states[made.name]["ready"] = self.ready
                self.report()
        return min((min(probe.period_s, 1) for _, probe in due), default=None)


class Nodes:
    """All of them. `log()`: what the containers of a namespace's pods said."""

    def __init__(self, scope, plane, net):
        self.api, self.net, self.folder = plane.api, net, scope.tmp / "pods"
        self.server = {"KUBERNETES_SERVICE_HOST": plane.address, "KUBERNETES_SERVICE_PORT": str(plane.port)}
        self.lock, self.free, self.pods, self.gone, self.faults = threading.RLock(), list(range(net.n)), {}, [], []
        self.own = {name: self.free.pop(0) for name in NODES}  # the network of the pods with hostNetwork
        self.addresses = {name: net.address(host) for name, host in self.own.items()}
        for name in NODES:
            self.api.call("POST", "/api/v1/nodes", node(name))
        self.names = Names(scope, net.own)
        scope.addCleanup(self.close)
        self.policies = api.Watch(self.api, "/apis/networking.k8s.io/v1/networkpolicies", lambda *_: self.apply_policies())
        self.watches = [self.policies, api.Watch(self.api, "/apis/discovery.k8s.io/v1/endpointslices", self.names.seen),
                        api.Watch(self.api, "/api/v1/pods", self.seen)]

    def close(self):
        for one in reversed(self.watches):
            one.stop()
        with self.lock:
            left = list(self.pods.values())
            for pod in left:
                pod.go(0)
        for pod in left:
            pod.join()

    def running(self):
        with self.lock:
            return list(self.pods.values())

    def seen(self, kind, pod):
        """The API has something new about a pod."""
        meta, uid = pod["metadata"], pod["metadata"]["uid"]
        with self.lock:
            there, going = self.pods.get(uid), "deletionTimestamp" in meta
            if there and (kind == "DELETED" or going):
                there.go(0 if kind == "DELETED" else meta.get("deletionGracePeriodSeconds", podspec.GRACE_S))
            elif there or kind == "DELETED" or not pod["spec"].get("nodeName"):
                return
            elif going:  # its container ended before
                self.forget(pod)
            elif pod.get("status", {}).get("phase") not in PHASES_LAST:
                self.pods[uid] = PodOfNode(self, pod)
                self.pods[uid].start()

    def forget(self, pod):
        """The last thing that a kubelet does for a pod."""
        meta = pod["metadata"]
        self.ask("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}",
                 {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}})

    def ask(self, *words):
        """A request about an object that may be no more, or another one of that name by now."""
        try:
            self.api.call(*words)
        except api.Refused as why:
            if why.code not in (404, 409):
                raise

    def enter(self, pod):
        """A network namespace for the pod, or its node's: its address."""
        with self.lock:
            pod.host = self.own[pod.node] if pod.on_host else self.free.pop(0)
            pod.address = self.net.address(pod.host)
        self.apply_policies()
        return pod.address

    def left(self, pod):
        with self.lock:
            self.pods.pop(pod.uid, None)
            self.gone.append(pod)
            if pod.host is not None and not pod.on_host:
                self.free.append(pod.host)
        self.apply_policies()

    def apply_policies(self):
        """Writes all pods' rules again: a policy or an address has changed."""
        with self.lock:
            of = {pod: netpolicy.Host(pod.address, pod.namespace, tuple(pod.meta.get("labels", {}).items()))
                  for pod in self.pods.values() if pod.address and not pod.on_host}
            dns = netpolicy.Host(self.net.own, "kube-system", (("k8s-app", "kube-dns"),))
            policies = list(self.policies.objects.values())
            for pod, host in of.items():
                text = netpolicy.ruleset(policies, host, [*of.values(), dns], self.net.own)
                subprocess.run(self.net.command(pod.host, "nft", "-f", "-"), input=text, text=True, capture_output=True,
                               check=True)

    def log(self, namespace):
        return "\n".join(pod.log[-4000:] for pod in [*self.gone, *self.running()] if pod.namespace == namespace)


class Names:
    """Of headless Services: each ready endpoint's, and the Service's for all of its own."""

    def __init__(self, scope, address):
        self.folder, ready = scope.tmp / "names", scope.tmp / "dnsmasq.pid"
        self.folder.mkdir()
        self.dns = subprocess.Popen(
            ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root",
             f"--hostsdir={self.folder}", "--local=/#/", "--bind-interfaces", f"--listen-address={address}",
             "--local-ttl=0", f"--pid-file={ready}", "--except-interface=lo"], stderr=subprocess.DEVNULL)
        scope.addCleanup(self.close)
        end = time.monotonic() + NAMES_READY_S
        while not ready.exists():  # before that SIGHUP ends it
            if self.dns.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"dnsmasq on {address}: not ready, code {self.dns.poll()}")
            time.sleep(0.01)

    def close(self):
        self.dns.kill()
        self.dns.wait()

    def seen(self, kind, piece):
        meta, lines = piece["metadata"], []
        service = f"{meta.get('labels', {}).get('kubernetes.io/service-name')}.{meta['namespace']}.svc.{pods.DOMAIN}"
        for end in piece.get("endpoints") or []:
            if end.get("conditions", {}).get("ready"):
                host = [f"{end['hostname']}.{service}"] if "hostname" in end else []
                lines += [f"{address} {' '.join([*host, service])}\n" for address in end["addresses"]]
        path = pathlib.Path(self.folder, f"{meta['namespace']}-{meta['name']}")
        if kind == "DELETED" or not lines:
            path.unlink(missing_ok=True)
        else:
            path.write_text("".join(lines))
        if self.dns.poll() is None:
            self.dns.send_signal(1)
