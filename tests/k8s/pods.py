"""A cluster without a cluster: pod specs become containers of the real image, in network namespaces of their own, with a
DNS server in which names come and go as their pods do.

Happy path: Cluster(case, docs) -> start() each pod of a TFJob, Job or StatefulSet -> run() plays the controllers: what
ends is left, made anew (same name, new address), or ends the job, as controllers.py says -> "Succeeded" or why not.
Failure modes: a field that is not translated is refused by name; a machine that cannot do this skips the test, saying
why; a job that does not end within its bound fails the test with all logs."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import controllers  # noqa: E402
import facts  # noqa: E402
import netns  # noqa: E402
import rules  # noqa: E402

STORAGE = os.environ.get("GRADWIRE_IMAGE_STORAGE")
IMAGE = os.environ.get("GRADWIRE_IMAGE", "localhost/gradwire:0.1.0")
NAMESPACE, DOMAIN = "team", "cluster.local"
ADDRESSES = 16
wanted = facts.skip_without(STORAGE, "GRADWIRE_IMAGE_STORAGE is not set: DIR of ./gradwire image --storage DIR")


def podman(*words, check=True):
    root = ["--root", f"{STORAGE}/storage", "--runroot", f"{STORAGE}/run", "--storage-driver", "overlay"]
    got = subprocess.run(["podman", *root, "--runtime", "runc", "--cgroup-manager", "cgroupfs", *map(str, words)],
                         capture_output=True, text=True)
    if check and got.returncode:
        raise AssertionError(f"podman {' '.join(map(str, words))}: {got.stderr}")
    return got


# ---- a pod spec as podman's flags ----

IGNORED = {  # what makes no difference to a container on one machine
    "pod": {"automountServiceAccountToken", "enableServiceLinks", "terminationGracePeriodSeconds", "restartPolicy", "subdomain",
            "hostNetwork", "dnsPolicy", "nodeSelector", "volumes", "containers", "securityContext", "priorityClassName",
            "topologySpreadConstraints", "affinity", "tolerations", "imagePullSecrets"},
    "container": {"name", "image", "imagePullPolicy", "ports", "args", "env", "resources", "securityContext", "volumeMounts",
                  "startupProbe", "livenessProbe", "readinessProbe"},
    "pod security": {"runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy", "seccompProfile"},
    "security": {"allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"},
    "mount": {"name", "mountPath", "readOnly"},
}


def refuse_unknown(what, given):
    if unknown := set(given) - IGNORED[what]:
        raise AssertionError(f"{what}: not translated: {', '.join(sorted(unknown))}")


def quota(limits):
    cpus, memory = rules.quantity(limits["cpu"]), int(rules.quantity(limits["memory"]))
    return [f"--cpus={cpus}", f"--memory={memory}", f"--memory-swap={memory}"]


def container_flags(spec, volume):
    """`volume` gives the folder of a volume, or None where an optional one is not there."""
    container, = spec["containers"]
    refuse_unknown("pod", spec)
    refuse_unknown("container", container)
    whole, own = spec.get("securityContext", {}), container.get("securityContext", {})
    refuse_unknown("pod security", whole)
    refuse_unknown("security", own)
    flags = [f"--user={whole['runAsUser']}:{whole['runAsGroup']}"] if "runAsUser" in whole else []
    flags += ["--read-only", "--read-only-tmpfs=false"] if own.get("readOnlyRootFilesystem") else []
    flags += [f"--cap-drop={name}" for name in own.get("capabilities", {}).get("drop", [])]
    flags += ["--security-opt=no-new-privileges"] if own.get("allowPrivilegeEscalation") is False else []
    flags += quota(container["resources"]["limits"]) if "limits" in container.get("resources", {}) else []
    volumes = {v["name"]: v for v in spec.get("volumes", [])}
    for mount in container.get("volumeMounts", []):
        refuse_unknown("mount", mount)
        folder = volume(volumes[mount["name"]], whole.get("fsGroup"))
        if folder:
            flags.append(f"--volume={folder}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}")
    return flags


class Pod:
    """One pod: a container at a time, under one name."""

    def __init__(self, name, dns, kind, index, template, env):
        self.name, self.dns, self.kind, self.index, self.template, self.env = name, dns, kind, index, template, env
        self.starts, self.container, self.address, self.code, self.last_words = 0, None, None, None, None


class Cluster:
    def __init__(self, case, docs, args=(), secrets=()):
        self.case, self.docs, self.args, self.secrets = case, docs, list(args), dict(secrets)
        for tool in ("podman", "runc", "dnsmasq"):
            if not shutil.which(tool):
                raise unittest.SkipTest(f"{tool} is not there")
        case.tmp.chmod(0o755)
        self.net = netns.Hosts(case, ADDRESSES)
        self.next, self.pods, self.claims, self.logs = 0, {}, {}, []
        self.names = case.tmp / "names"
        self.names.mkdir()
        case.addCleanup(self.close)
        self.dns = subprocess.Popen(
            ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root",
             f"--hostsdir={self.names}", f"--local=/{DOMAIN}/svc/", "--bind-interfaces", f"--listen-address={self.net.own}",
             "--local-ttl=0", "--pid-file=", "--except-interface=lo"], stderr=subprocess.PIPE, text=True)
        for doc in docs:
            self.add(doc)

    def close(self):
        for pod in self.pods.values():
            self.take_down(pod)
        self.dns.kill()
        self.dns.wait()
        self.dns.stderr.close()

    # ---- objects ----

    def add(self, doc):
        name = doc["metadata"]["name"]
        if doc["kind"] == "TFJob":
            replicas = {kind: spec.get("replicas", 1) for kind, spec in doc["spec"]["tfReplicaSpecs"].items()}
            for kind, spec in doc["spec"]["tfReplicaSpecs"].items():
                for i in range(replicas[kind]):
                    config = facts.tf_config(name, NAMESPACE, replicas, kind, i,
                                             dynamic=doc["spec"].get("enableDynamicWorker", False))
                    pod = f"{name}-{kind.lower()}-{i}"
                    self.add_pod(Pod(pod, f"{pod}.{NAMESPACE}.svc", kind, i, spec["template"]["spec"],
                                     {"TF_CONFIG": config} if config else {}))
        elif doc["kind"] in ("StatefulSet", "Job"):
            indexed = doc["spec"].get("completionMode") == "Indexed"
            template = doc["spec"]["template"]["spec"]
            service = doc["spec"].get("serviceName", template.get("subdomain", name))
            for i in range(doc["spec"].get("replicas", doc["spec"].get("parallelism", 1))):
                self.add_pod(Pod(f"{name}-{i}", f"{name}-{i}.{service}.{NAMESPACE}.svc", doc["kind"], i, template,
                                 {"JOB_COMPLETION_INDEX": i} if indexed else {}))

    def add_pod(self, pod):
        self.pods[pod.name] = pod

    # ---- volumes ----

    def folder(self, name, group):
        path = self.case.tmp / "volumes" / name
        if not path.exists():
            path.mkdir(parents=True)
            if group is not None:  # as the kubelet does for fsGroup
                os.chown(path, 0, group)
                path.chmod(0o2775)
        return path

    def volume_of(self, pod):
        def volume(v, group):
            if "persistentVolumeClaim" in v:
                return self.folder(v["persistentVolumeClaim"]["claimName"], group)
            if "emptyDir" in v:
                return self.folder(f"{pod.name}-{pod.starts}-{v['name']}", group)
            if "configMap" in v:
                config, = (d for d in self.docs if d["kind"] == "ConfigMap" and d["metadata"]["name"] == v["configMap"]["name"])
                return self.files(v["configMap"]["name"], config["data"], 0o644, group)
            name = v["secret"]["secretName"]
            if name not in self.secrets:
                self.case.assertTrue(v["secret"].get("optional"), f"Secret {name} is not there")
                return None
            return self.files(name, self.secrets[name], v["secret"].get("defaultMode", 0o644), group)
        return volume

    def files(self, name, data, mode, group):
        path = self.folder(name, group)
        if any(path.iterdir()):  # another pod reads it
            return path
        for key, text in data.items():
            (path / key).write_text(text)
            os.chown(path / key, 0, group or 0)
            (path / key).chmod(mode)
        return path

    # ---- pods come and go ----

    def start(self, pod):
        host, self.next = self.next, self.next + 1
        self.case.assertLess(host, ADDRESSES, "no more addresses: a pod is made anew over and over")
        pod.starts += 1
        pod.address, pod.code = self.net.address(host), None
        pod.container = f"{self.net.name(host)}-{pod.name}"
        env = [f"--env={key}={value}" for key, value in pod.env.items()]
        search = [f"{NAMESPACE}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN]
        args = pod.template["containers"][0].get("args", [])
        args = [arg.replace("$(HOST)", pod.address) for arg in args]
        last_words = self.case.tmp / f"{pod.container}.termination"
        last_words.touch()
        last_words.chmod(0o666)
        pod.last_words = last_words
        podman("run", "--detach", f"--name={pod.container}", f"--volume={last_words}:/dev/termination-log", "--pull=never", "--ulimit=nofile=1024:1024",
               "--ulimit=nproc=1024:1024", f"--network=ns:/run/netns/{self.net.name(host)}", f"--hostname={pod.name}",
               "--no-hosts", f"--dns={self.net.own}", *[f"--dns-search={s}" for s in search], "--dns-option=ndots:5",
               *container_flags(pod.template, self.volume_of(pod)), *env, IMAGE, *args, *self.args)
        if not self.probe(pod, "readinessProbe"):
            self.publish(pod)

    def probe(self, pod, kind):
        """The URL of a probe, or None: the pod is ready as soon as it runs."""
        container, = pod.template["containers"]
        get = container.get(kind, {}).get("httpGet")
        ports = {p["name"]: p["containerPort"] for p in container.get("ports", [])}
        return f"http://{pod.address}:{ports[get['port']]}{get['path']}" if get else None

    def answers(self, pod, kind):
        if not self.probe(pod, kind):
            return False
        try:
            with urllib.request.urlopen(self.probe(pod, kind), timeout=1) as got:
                return got.status == 200
        except OSError:
            return False

    def probe_all(self):
        """Names come and go as /readyz answers; for `meanwhile`."""
        for pod in self.pods.values():
            if pod.container and pod.code is None and self.probe(pod, "readinessProbe"):
                (self.publish if self.answers(pod, "readinessProbe") else self.unpublish)(pod)

    def publish(self, pod):
        """Ready: the name resolves, to the pod's present address."""
        (self.names / pod.name).write_text(f"{pod.address} {pod.dns}.{DOMAIN}\n")
        self.dns.send_signal(1)

    def unpublish(self, pod):
        (self.names / pod.name).unlink(missing_ok=True)
        if self.dns.poll() is None:
            self.dns.send_signal(1)

    def log(self, pod):
        got = podman("logs", pod.container, check=False)
        return got.stdout + got.stderr

    def take_down(self, pod):
        if pod.container:
            self.unpublish(pod)
            self.logs.append(f"--- {pod.name}, start {pod.starts}\n{self.log(pod)[-3000:]}")
            podman("rm", "--force", "--time=0", pod.container, check=False)
            pod.container = None

    def ended(self):
        """Pods whose container has ended since the last look, with its exit code."""
        running = [pod for pod in self.pods.values() if pod.container and pod.code is None]
        if not running:
            return
        states = json.loads(podman("inspect", *[pod.container for pod in running]).stdout)
        for pod, state in zip(running, states):
            if state["State"]["Status"] in ("exited", "stopped"):
                pod.code = state["State"]["ExitCode"]
                self.unpublish(pod)
                yield pod

    def all_logs(self):
        return "\n".join(self.logs + [f"--- {p.name}: {p.code}\n{self.log(p)[-3000:]}" for p in self.pods.values() if p.container])

    # ---- the controllers ----

    def start_all(self, but=()):
        for pod in self.pods.values():
            if pod.name not in but:
                self.start(pod)

    def run(self, deadline_s, meanwhile=lambda: None):
        """Until the job has ended: "Succeeded", or "Failed: why". `meanwhile` is called between looks."""
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            meanwhile()
            for pod in self.ended():
                verdict = controllers.verdict(self.docs, pod.kind, pod.index, pod.code,
                                              {(p.kind, p.index): p.code for p in self.pods.values()})
                if verdict == controllers.RESTART:
                    self.take_down(pod)
                    self.start(pod)
                elif verdict != controllers.LEAVE:
                    return verdict
            time.sleep(0.1)
        self.case.fail(f"the job has not ended after {deadline_s} s\n{self.all_logs()}")

    def wait_all(self, deadline_s):
        """What still runs ends by itself; exit codes by name."""
        end = time.monotonic() + deadline_s
        while any(pod.container and pod.code is None for pod in self.pods.values()):
            list(self.ended())
            self.case.assertLess(time.monotonic(), end, f"still running after {deadline_s} s\n{self.all_logs()}")
            time.sleep(0.1)
        return {pod.name: pod.code for pod in self.pods.values()}
