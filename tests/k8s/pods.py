"""A cluster without a cluster: pod specs become containers of the real image, in network namespaces of their own, with a
DNS server in which names come and go as their pods do, and NetworkPolicies in force.

Happy path: Cluster(case, docs) -> start_all(): the controllers of controllers.py are asked what to create -> run(): a
container ends -> its kubelet, then its controller, decide its next state -> "Succeeded" or why not. A test edits the
objects (`replicas`, `suspend`) and calls reconcile(), kills containers, deletes pods.
Failure modes: a field that is not translated is refused by name (podspec.py, netpolicy.py); a machine that cannot do this
skips the test, saying why; a job that does not end within its bound fails the test with all logs.

Waiting: the end of a container is an event (a descriptor of its monitor's process). A state that only polling can find (a file
exists, a probe answers) is polled every LOOK_S, in Cluster.wait alone."""
import copy
import os
import pathlib
import select
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import cluster  # noqa: E402
import controllers  # noqa: E402
import facts  # noqa: E402
import netns  # noqa: E402
import netpolicy  # noqa: E402
import podspec  # noqa: E402
import rules  # noqa: E402
import watch  # noqa: E402

STORAGE = os.environ.get("GRADWIRE_IMAGE_STORAGE")
IMAGE = os.environ.get("GRADWIRE_IMAGE", "localhost/gradwire:0.1.0")
DOMAIN = "cluster.local"
LOOK_S = 0.05
TF_CONTAINER, TF_PORT = "tensorflow", "tfjob-port"
INDEX_NOTE, JOB_LABEL = "batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-name"
ADDRESSES = 20
TOOLS = ("podman", "runc", "dnsmasq")
wanted = facts.skip_without(STORAGE, "GRADWIRE_IMAGE_STORAGE is not set: ./gradwire test containers sets it")


def short(test):
    """One of the few that `./gradwire test containers --short` runs."""
    test.short = True
    return test


def command(*words):
    root = ["--root", f"{STORAGE}/storage", "--runroot", f"{STORAGE}/run", "--storage-driver", "overlay"]
    return ["podman", *root, "--runtime", "runc", "--cgroup-manager", "cgroupfs", *map(str, words)]


def podman(*words, check=True):
    got = subprocess.run(command(*words), capture_output=True, text=True, cwd=STORAGE)  # conmon leaves a file `oom` there
    if check and got.returncode:
        raise AssertionError(f"podman {' '.join(map(str, words))}: {got.stderr}")
    return got


def write_files(path, data, mode, group):
    """As the kubelet writes a ConfigMap or Secret (pkg/volume/util/atomic_writer.go): a folder for each state of it, which
    `..data` names; the files are links through that."""
    before = [p for p in path.iterdir() if p.is_dir() and not p.is_symlink()]
    state = path / f"..{time.monotonic_ns()}"
    state.mkdir()
    state.chmod(0o755)
    for key, text in data.items():
        (state / key).write_text(text)
        os.chown(state / key, 0, group or 0)
        (state / key).chmod(mode)
        if not (path / key).is_symlink():
            (path / key).symlink_to(f"..data/{key}")
    (path / "..data_tmp").symlink_to(state.name)
    (path / "..data_tmp").rename(path / "..data")
    for old in before:
        shutil.rmtree(old)


class Pod:
    """A name, and the pod that has it at present: a container at a time."""

    def __init__(self, owner, name, dns, kind, index, early=False):
        self.owner, self.name, self.dns, self.kind, self.index = owner, name, dns, kind, index
        self.early = early  # publishNotReadyAddresses
        self.spec, self.labels, self.annotations = None, {}, {}
        self.there, self.phase, self.deleting, self.disrupted = False, "Pending", False, False
        self.starts, self.restarts, self.runs = 0, 0, 0  # pods, restarts in place, containers of that name
        self.container, self.host, self.address, self.code, self.last_words = None, None, None, None, None
        self.node = None
        self.probes, self.probed, self.missed = {}, {}, {}

    @property
    def running(self):
        return self.container is not None and self.code is None

    def seen(self):
        code = controllers.NO_EXIT_CODE if self.code is None else self.code
        return controllers.Seen(self.kind, self.index, self.phase, code, self.restarts, self.deleting, self.disrupted)


class Owner:
    """A TFJob, Job, StatefulSet or JobSet, and what its controller remembers of it. `of`: the JobSet of a Job."""

    def __init__(self, doc, of=None):
        self.doc, self.name, self.kind, self.of = doc, doc["metadata"]["name"], doc["kind"], of
        self.status, self.since = controllers.Status(), time.monotonic()

    def template(self, kind):
        spec = self.doc["spec"]
        return spec["tfReplicaSpecs"][kind]["template"] if self.kind == "TFJob" else spec["template"]


class Cluster:
    def __init__(self, case, docs, args=(), secrets=(), namespace="team", operator=(), nodes=(), resolver=None):
        """`args`: appended to every container's. `operator`: tf_config's `domain` and `sparse_key`. `nodes`: addresses of
        nodes by name, for pods in their node's network. `resolver`: the address of a DNS server that no selector finds, as
        each node has it with NodeLocal DNSCache or Cloud DNS."""
        self.case, self.docs, self.args, self.secrets = case, list(docs), list(args), dict(secrets)
        self.namespace, self.operator, self.nodes = namespace, dict(operator), dict(nodes)
        for tool in TOOLS:
            if not shutil.which(tool):
                raise unittest.SkipTest(f"{tool} is not there")
        self.policies = [{**d, "metadata": {"namespace": namespace, **d["metadata"]}} for d in docs
                         if d["kind"] == "NetworkPolicy"]
        if self.policies and not shutil.which("nft"):
            raise unittest.SkipTest("nft is not there (Debian: nftables), and a NetworkPolicy wants it")
        if os.environ.get("GRADWIRE_SHORT") and not getattr(getattr(case, case._testMethodName), "short", False):
            raise unittest.SkipTest("it is not of the short part")
        case.tmp.chmod(0o755)
        self.net, self.resolver = netns.Hosts(case, ADDRESSES), resolver
        if resolver:
            netns.ip("addr", "add", f"{resolver}/32", "dev", self.net.bridge)
            for i in range(ADDRESSES):
                netns.ip("-n", self.net.name(i), "route", "add", f"{resolver}/32", "dev", "eth0")
        self.next, self.pods, self.logs, self.strangers, self.unschedulable = 0, {}, [], [], set()
        self.owners, self.sets = [], []
        for doc in docs:
            self.own(doc)
        self.ends, self.poll = {}, select.poll()  # descriptor of a container's monitor: its pod
        self.stopping = []
        self.names = case.tmp / "names"
        self.names.mkdir()
        case.addCleanup(self.close)
        self.dns = subprocess.Popen(
            ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root",
             f"--hostsdir={self.names}", "--local=/#/", "--bind-interfaces", f"--listen-address={resolver or self.net.own}",
             "--local-ttl=0", "--pid-file=", "--except-interface=lo"], stderr=subprocess.PIPE, text=True)

    def own(self, doc):
        if doc["kind"] == "JobSet":
            self.sets.append(Owner(doc))
            made = controllers.jobset_objects(doc)
            self.docs += made
            self.owners += [Owner(d, of=self.sets[-1]) for d in made if d["kind"] == "Job"]
        elif doc["kind"] in controllers.PLANS:
            self.owners.append(Owner(doc))

    def apply(self, doc):
        """kubectl create, while the cluster runs."""
        self.docs.append(doc)
        self.own(doc)
        self.reconcile()

    def forget(self, name):
        """An object that has ended is removed, with its pods: its ttlSecondsAfterFinished is over."""
        owner = self.owner(name)
        self.case.assertTrue(controllers.finished(owner.status.condition), owner.status)
        for pod in [pod for pod in self.pods.values() if pod.owner is owner]:
            self.case.assertFalse(pod.running, f"{pod.name} still runs\n{self.all_logs()}")
            self.gone(pod)
        self.owners.remove(owner)
        self.docs.remove(owner.doc)

    def close(self):
        for pod in self.pods.values():
            self.take_down(pod)
        for process in self.stopping:
            process.wait()
        for end in self.ends:
            os.close(end)
        self.ends = {}
        self.dns.kill()
        self.dns.wait()
        self.dns.stderr.close()

    def owner(self, name):
        owner, = (o for o in self.owners if o.name == name)
        return owner

    # ---- what the controllers write into a pod ----

    def pod_of(self, owner, kind, index):
        """The Pod of that name; its spec is as the owner's template is now."""
        name = f"{owner.name}-{kind.lower()}-{index}" if owner.kind == "TFJob" else f"{owner.name}-{index}"
        if name not in self.pods:
            self.pods[name] = Pod(owner, name, *self.dns_of(owner, name), kind, index)
            self.pods[name].early = self.publishes_early(owner)
        pod, template = self.pods[name], copy.deepcopy(owner.template(kind))
        pod.owner = owner  # its last one may have been removed
        meta = template.get("metadata") or {}
        pod.labels, pod.annotations = dict(meta.get("labels", {})), dict(meta.get("annotations", {}))
        pod.spec = template["spec"]
        if owner.kind == "TFJob":
            self.write_tfjob(owner, pod)
        elif owner.kind == "StatefulSet":
            pod.labels["apps.kubernetes.io/pod-index"] = str(index)
        else:
            self.write_job(owner, pod)
        pod.spec["restartPolicy"] = controllers.policy_of(owner.doc, kind)
        return pod

    def write_job(self, owner, pod):
        pod.labels[JOB_LABEL] = owner.name
        if owner.doc["spec"].get("completionMode") != "Indexed":
            return
        pod.annotations[INDEX_NOTE] = str(pod.index)
        for c in pod.spec["containers"]:
            c.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": {
                "fieldRef": {"fieldPath": f"metadata.annotations['{INDEX_NOTE}']"}}})

    def write_tfjob(self, owner, pod):
        specs = owner.doc["spec"]["tfReplicaSpecs"]
        pod.labels |= {"training.kubeflow.org/operator-name": "tfjob-controller",
                       "training.kubeflow.org/job-name": owner.name, "training.kubeflow.org/replica-type": pod.kind.lower(),
                       "training.kubeflow.org/replica-index": str(pod.index)}
        ports = {kind: port["containerPort"] for kind, spec in specs.items() for c in spec["template"]["spec"]["containers"]
                 for port in c.get("ports", []) if c["name"] == TF_CONTAINER and port.get("name") == TF_PORT}
        config = facts.tf_config(owner.name, self.namespace, {kind: spec.get("replicas", 1) for kind, spec in specs.items()},
                                 pod.kind, pod.index, ports=ports, dynamic=owner.doc["spec"].get("enableDynamicWorker", False),
                                 **self.operator)
        for c in pod.spec["containers"]:
            if config and c["name"] == TF_CONTAINER:
                c.setdefault("env", []).append({"name": "TF_CONFIG", "value": config.replace("$", "$$")})

    def dns_of(self, owner, name):
        if owner.kind == "TFJob":  # a Service for each pod, of its name
            return (f"{name}.{self.namespace}.svc",)
        service = owner.doc["spec"].get("serviceName", owner.template(None)["spec"].get("subdomain", owner.name))
        return (f"{name}.{service}.{self.namespace}.svc",)

    def publishes_early(self, owner):
        if owner.kind == "TFJob":  # the operator's Services do not
            return False
        service = owner.doc["spec"].get("serviceName", owner.template(None)["spec"].get("subdomain"))
        return any(d["kind"] == "Service" and d["metadata"]["name"] == service and d["spec"].get("publishNotReadyAddresses")
                   for d in self.docs)

    # ---- volumes ----

    def folder(self, name, group):
        path = self.case.tmp / "volumes" / name
        if not path.exists():
            path.mkdir(parents=True)
            if group is not None:  # as the kubelet does for fsGroup
                os.chown(path, 0, group)
                path.chmod(0o2775)
            else:
                path.chmod(0o777)
        return path

    def attach(self, pod, name):
        """A ReadWriteOnce claim is on one node at a time: a pod on another one would wait for it for ever."""
        claim, = (d for d in self.docs if d["kind"] == "PersistentVolumeClaim" and d["metadata"]["name"] == name)
        there = {other.name: other.node for other in self.pods.values() if other is not pod and other.running and any(
            v.get("persistentVolumeClaim", {}).get("claimName") == name for v in other.spec.get("volumes", []))}
        if not {"ReadWriteMany", "ReadOnlyMany"} & set(claim["spec"]["accessModes"]):
            self.case.assertLessEqual(set(there.values()), {pod.node}, f"{pod.name}: Multi-Attach error: claim {name} is "
                                      f"ReadWriteOnce, and mounted by {', '.join(there)} on another node")

    def volume(self, pod, v, group):
        podspec.known("volume", v, {"name", "persistentVolumeClaim", "emptyDir", "configMap", "secret"})
        if "persistentVolumeClaim" in v:
            podspec.known("persistentVolumeClaim", v["persistentVolumeClaim"], {"claimName", "readOnly"})
            self.attach(pod, v["persistentVolumeClaim"]["claimName"])
            return self.folder(v["persistentVolumeClaim"]["claimName"], group)
        if "emptyDir" in v:  # its sizeLimit: looked at when the pod is gone
            podspec.known("emptyDir", v["emptyDir"], {"sizeLimit"})
            return self.folder(f"{pod.name}-{pod.starts}-{v['name']}", group)
        kind, name = ("configMap", v["configMap"]["name"]) if "configMap" in v else ("secret", v["secret"]["secretName"])
        podspec.known(kind, v[kind], {"name", "secretName", "optional", "defaultMode"})
        data = self.data(kind, name)
        if data is None:
            self.case.assertTrue(v[kind].get("optional"), f"{kind} {name} is not there")
            return None
        return self.files(name, data, v[kind].get("defaultMode", 0o644), group)

    def data(self, kind, name):
        if kind == "secret":
            return self.secrets.get(name)
        found = [d["data"] for d in self.docs if d["kind"] == "ConfigMap" and d["metadata"]["name"] == name]
        return found[0] if found else None

    def files(self, name, data, mode, group):
        path = self.folder(name, group)
        if not any(path.iterdir()):  # otherwise another pod reads it
            write_files(path, data, mode, group)
        return path

    def change(self, name, data):
        """A Secret that pods have mounted has new contents, and the kubelets have seen it."""
        self.secrets[name] = data
        path = self.case.tmp / "volumes" / name
        was = next(iter((path / "..data").iterdir())).stat()
        write_files(path, data, was.st_mode & 0o777, was.st_gid)

    def check_sizes(self, pod):
        """The kubelet evicts a pod whose emptyDir is above its sizeLimit: no pod of ours comes there."""
        for v in pod.spec.get("volumes", []):
            if limit := v.get("emptyDir", {}).get("sizeLimit"):
                folder = self.case.tmp / "volumes" / f"{pod.name}-{pod.starts}-{v['name']}"
                used = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) if folder.exists() else 0
                self.case.assertLessEqual(used, rules.quantity(limit), f"{pod.name}: emptyDir {v['name']}")

    # ---- pods come and go ----

    def create(self, pod):
        """A pod object; its container, too, unless nobody has room for it."""
        pod.starts, pod.restarts = pod.starts + 1, 0
        pod.there, pod.phase, pod.deleting, pod.disrupted, pod.code = True, "Pending", False, False, None
        if pod.name in self.unschedulable:
            return
        before, pod.host, self.next = pod.host, self.next, self.next + 1
        self.case.assertLess(pod.host, ADDRESSES, f"no more addresses: a pod is made anew over and over\n{self.all_logs()}")
        pod.address = self.net.address(pod.host)
        if pod.spec.get("hostNetwork"):
            self.take_node(pod, before)
        pod.node = self.node_of(pod)
        self.apply_policies()
        self.start(pod)

    def node_of(self, pod):
        """As a cluster with enough nodes schedules it: a node of its own, or that of the pods that its affinity selects."""
        named = pod.spec.get("nodeSelector", {}).get("kubernetes.io/hostname")
        selector = rules.term_of(pod)
        near = [other.node for other in self.pods.values()
                if selector and other is not pod and other.there and other.node and rules.chooses(selector, other.labels)]
        self.case.assertTrue(near or not selector or rules.chooses(selector, pod.labels),
                             f"{pod.name}: no node has a pod that its affinity selects")
        return named or (near or [f"node-of-{pod.name}-{pod.starts}"])[0]

    def take_node(self, pod, before):
        """The namespace of a pod is its node's: it has that one's address, too."""
        address = self.nodes.get(pod.spec.get("nodeSelector", {}).get("kubernetes.io/hostname"))
        if address and before is not None:
            netns.ip("-n", self.net.name(before), "addr", "delete", f"{address}/24", "dev", "eth0")
        if address:
            netns.ip("-n", self.net.name(pod.host), "addr", "add", f"{address}/24", "dev", "eth0")

    def start(self, pod):
        pod.runs, pod.code, pod.probed, pod.missed = pod.runs + 1, None, {}, {}
        place = podspec.Place(pod.name, self.namespace, pod.labels, pod.annotations, pod.address, IMAGE,
                              lambda v, group: self.volume(pod, v, group),
                              lambda kind, name, key: (self.data(kind, name) or {}).get(key))
        *first, main = podspec.containers(pod.spec, place)
        for made in first:
            got = podman("run", "--rm", *self.pod_flags(pod, f"{pod.name}-{made.name}"), *made.flags, *made.words, check=False)
            self.logs.append(f"--- {pod.name}, {made.name}\n{got.stdout}{got.stderr}")
            if got.returncode:
                pod.phase, pod.code = "Failed", got.returncode
                return
        pod.last_words = self.case.tmp / f"{pod.name}-{pod.runs}.termination"
        pod.last_words.touch()
        pod.last_words.chmod(0o666)
        monitor = self.case.tmp / f"{pod.name}-{pod.runs}.monitor"
        pod.container = f"gwt{os.getpid()}-{pod.name}-{pod.runs}"
        podman("run", "--detach", f"--conmon-pidfile={monitor}", f"--volume={pod.last_words}:/dev/termination-log",
               *self.pod_flags(pod, pod.container), *main.flags, *main.words, *self.args)
        pod.phase, pod.probes = "Running", main.probes
        self.watch(pod, int(monitor.read_text()))
        if pod.early or not pod.probes.get("readinessProbe"):
            self.publish(pod)

    def pod_flags(self, pod, name):
        search = [f"{self.namespace}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN]
        return [f"--name={name}", "--pull=never", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
                f"--network=ns:/run/netns/{self.net.name(pod.host)}", f"--hostname={pod.name}", "--no-hosts",
                f"--dns={self.resolver or self.net.own}", *[f"--dns-search={s}" for s in search], "--dns-option=ndots:5",
                *[f"--env={key}={text}" for key, text in cluster.kernels().items()]]

    def watch(self, pod, pid):
        try:
            end = os.pidfd_open(pid)
        except ProcessLookupError:  # it has ended already: a descriptor that is readable
            end, other = os.pipe()
            os.close(other)
        self.ends[end] = pod, pod.container
        self.poll.register(end, select.POLLIN | select.POLLHUP)

    def publish(self, pod):
        """Ready: the name resolves, to the pod's present address."""
        (self.names / pod.name).write_text(f"{pod.address} {pod.dns}.{DOMAIN}\n")
        self.dns.send_signal(1)

    def unpublish(self, pod):
        (self.names / pod.name).unlink(missing_ok=True)
        if self.dns.poll() is None:
            self.dns.send_signal(1)

    def log(self, pod):
        if not pod.container:
            return "\n".join(text for text in self.logs if text.startswith(f"--- {pod.name},"))
        got = podman("logs", pod.container, check=False)
        return got.stdout + got.stderr

    def remove_container(self, pod):
        if pod.container:
            self.unpublish(pod)
            self.logs.append(f"--- {pod.name}, start {pod.starts}, exit {pod.code}\n{self.log(pod)[-6000:]}")
            podman("rm", "--force", "--time=0", pod.container, check=False)
            pod.container = None
            if pod.code is None:
                pod.code = 137

    def take_down(self, pod):
        """Immediately, without asking anyone."""
        self.remove_container(pod)
        pod.there = False

    def delete(self, pod, disrupted=False):
        """kubectl delete, or a drain; the controllers see immediately that it is going."""
        self.terminate(pod, disrupted)
        self.reconcile()

    def terminate(self, pod, disrupted=False):
        """SIGTERM, the grace period, SIGKILL; the object goes with the container."""
        if pod.deleting or not pod.there:
            return
        pod.deleting, pod.disrupted = True, disrupted
        if not pod.early:
            self.unpublish(pod)
        if pod.running:
            self.stopping.append(subprocess.Popen(command("stop", f"--time={podspec.grace_s(pod.spec)}", pod.container),
                                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        else:
            self.gone(pod)

    def gone(self, pod):
        self.remove_container(pod)
        self.check_sizes(pod)
        pod.there = False
        self.apply_policies()

    def ended(self, pod):
        """A container has ended: what its kubelet does."""
        pod.code = int(podman("wait", pod.container).stdout)
        self.unpublish(pod)
        if pod.deleting:
            self.gone(pod)
            return
        pod.phase = controllers.after_container(pod.spec["restartPolicy"], pod.code)
        if pod.phase == controllers.IN_PLACE:
            self.remove_container(pod)
            pod.restarts, pod.phase = pod.restarts + 1, "Running"
            self.start(pod)

    def kill(self, pod, sig="KILL"):
        podman("kill", f"--signal={sig}", pod.container, check=False)

    # ---- probes ----

    def answers(self, pod, kind):
        probe = pod.probes.get(kind)
        if not probe or not pod.running:
            return False
        if probe.path is None:
            return watch.accepts(pod.address, probe.port, probe.timeout_s)
        got = watch.get(f"{pod.address}:{probe.port}", probe.path, probe.timeout_s)
        return got is not None and got[0] == 200

    def probe_all(self):
        """The probes that are due, once a second or oftener: a name comes and goes with readiness; a pod without liveness for
        periodSeconds x failureThreshold is killed."""
        for pod in self.pods.values():
            for kind, probe in pod.probes.items() if pod.running else ():
                started = "startupProbe" not in pod.probes or pod.missed.get("startupProbe") == 0
                if started == (kind == "startupProbe") or time.monotonic() < pod.probed.get(kind, 0):
                    continue
                every_s = min(probe.period_s, 1)
                pod.probed[kind] = time.monotonic() + every_s
                pod.missed[kind] = 0 if self.answers(pod, kind) else pod.missed.get(kind, 0) + 1
                too_often = pod.missed[kind] * every_s >= probe.failures * probe.period_s
                if kind != "readinessProbe":
                    if too_often:
                        self.kill(pod)
                elif not pod.deleting and not pod.early:
                    if pod.missed[kind] == 0 and not (self.names / pod.name).exists():
                        self.publish(pod)
                    elif too_often:
                        self.unpublish(pod)

    # ---- NetworkPolicies ----

    def stranger(self, namespace, labels=()):
        """A host of another, without a container: its number, for net.command()."""
        host, self.next = self.next, self.next + 1
        self.strangers.append(netpolicy.Host(self.net.address(host), namespace, tuple(dict(labels).items())))
        self.apply_policies()
        return host

    def apply_policies(self):
        """Writes all hosts' rules again: addresses have changed."""
        if not self.policies:
            return
        there = [pod for pod in self.pods.values() if pod.there and pod.address]
        of = {pod.name: netpolicy.Host(pod.address, self.namespace, tuple(pod.labels.items())) for pod in there}
        dns = [] if self.resolver else [netpolicy.Host(self.net.own, "kube-system", (("k8s-app", "kube-dns"),))]
        hosts = [*of.values(), *dns, *self.strangers]
        for pod in there:
            text = netpolicy.ruleset(self.policies, of[pod.name], hosts, self.net.own)
            got = subprocess.run(self.net.command(pod.host, "nft", "-f", "-"), input=text, text=True, capture_output=True)
            self.case.assertEqual(got.returncode, 0, f"{got.stderr}\n{text}")

    def reaches(self, host, address, port):
        """From a host's namespace, a connection within a second."""
        code = f"import socket; socket.create_connection(({address!r}, {port}), timeout=1)"
        return subprocess.run(self.net.command(host, sys.executable, "-c", code), capture_output=True).returncode == 0

    # ---- the controllers ----

    def plan(self, owner, mine):
        """The actions that the owner's controller plans."""
        return controllers.PLANS[owner.kind](owner.doc, [pod.seen() for pod in mine], owner.status,
                                             active_s=time.monotonic() - owner.since)

    def reconcile(self):
        """Asks every controller until none has anything to do."""
        for owner in self.owners:
            if owner.of:
                owner.doc["spec"]["suspend"] = owner.of.doc["spec"].get("suspend", False)
            while True:
                mine = [pod for pod in self.pods.values() if pod.owner is owner and pod.there]
                was = owner.status
                plan = self.plan(owner, mine)
                if was.condition == controllers.SUSPENDED and plan.status.condition != controllers.SUSPENDED:
                    owner.since = time.monotonic()
                owner.status = plan.status
                if controllers.finished(was.condition) or not plan.delete and not plan.create:
                    break  # clean() does what cleanPodPolicy says
                self.carry_out(owner, mine, plan)

        for owner in self.sets:
            owner.status = controllers.jobset_plan(owner.doc, self.jobs_of(owner), owner.status).status

    def jobs_of(self, owner):
        return {o.name: (o.doc["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"], o.status.condition)
                for o in self.owners if o.of is owner}

    def carry_out(self, owner, mine, plan):
        for key in plan.delete:
            self.terminate(next(pod for pod in mine if (pod.kind, pod.index) == key))
        for kind, index in sorted(plan.create, key=lambda new: (new[0] in ("Chief", "Master"), new[1] == 0)):
            self.create(self.pod_of(owner, kind, index))  # the leader is last: a short job is not over before all are there

    def clean(self):
        """The controllers' next look after a job's end: cleanPodPolicy; the Jobs that a JobSet has no more use for."""
        for owner in self.sets:
            for name in controllers.jobset_plan(owner.doc, self.jobs_of(owner), owner.status).delete:
                for pod in [pod for pod in self.pods.values() if pod.owner is self.owner(name)]:
                    self.terminate(pod)
                self.owners.remove(self.owner(name))
        for owner in self.owners:
            mine = [pod for pod in self.pods.values() if pod.owner is owner and pod.there]
            plan = self.plan(owner, mine)
            if controllers.finished(owner.status.condition):
                self.carry_out(owner, mine, plan)

    def condition(self):
        """Of all jobs together."""
        said = [owner.status.condition for owner in self.owners + self.sets
                if owner.kind != "StatefulSet" and not owner.of]
        bad = [condition for condition in said if condition.startswith("Failed")]
        going_on = [condition for condition in said if condition != controllers.SUCCEEDED]
        return (bad + going_on + [controllers.SUCCEEDED])[0]

    def start_all(self, but=()):
        self.unschedulable |= set(but)
        self.reconcile()

    def look(self, timeout_s):
        """Waits for a container's end, at most so long; true: one has ended."""
        got = self.poll.poll(timeout_s * 1000)
        for end, _ in got:
            self.poll.unregister(end)
            os.close(end)
            pod, container = self.ends.pop(end)
            if pod.container == container:
                self.ended(pod)
        return bool(got)

    def wait(self, what, until, deadline_s, controllers_too=True, by_looks=True):
        """Until it is so. Between looks containers end, and the controllers do their work."""
        end = time.monotonic() + deadline_s
        if controllers_too:
            self.reconcile()  # a test may have edited an object
        while not (got := until()):
            left = end - time.monotonic()
            self.case.assertGreater(left, 0, f"still not so after {deadline_s} s: {what}\n{self.all_logs()}")
            looks = by_looks or any(pod.probes for pod in self.pods.values())
            ended = self.look(min(left, LOOK_S) if looks else left)
            self.probe_all()
            if controllers_too and (ended or looks):
                self.reconcile()
        return got

    def run(self, deadline_s, meanwhile=None):
        """Until the job has ended: "Succeeded", or "Failed: why". `meanwhile` is called between looks."""
        def so():
            if meanwhile:
                meanwhile()
            return controllers.finished(self.condition()) and self.condition()
        return self.wait("the job has ended", so, deadline_s, by_looks=bool(meanwhile))

    def until(self, what, so, deadline_s=400):
        """Waits while the job runs; that it has ended is an error."""
        def either():
            self.case.assertFalse(controllers.finished(self.condition()), f"{self.condition()} before: {what}\n{self.all_logs()}")
            return so()
        return self.wait(what, either, deadline_s)

    def until_said(self, pod, text, deadline_s=400):
        return self.until(f"{pod.name} says {text!r}", lambda: text in self.log(pod), deadline_s)

    def wait_all(self, deadline_s):
        """Pods that still run end by themselves, and no controller creates them again; returns exit codes by name."""
        self.wait("all have ended", lambda: not any(pod.running for pod in self.pods.values()), deadline_s,
                  controllers_too=False, by_looks=False)
        return {pod.name: pod.code for pod in self.pods.values() if pod.starts}

    def all_logs(self):
        return "\n".join(self.logs + [f"--- {p.name}: {p.phase} {p.code}\n{self.log(p)[-3000:]}"
                                      for p in self.pods.values() if p.container])
