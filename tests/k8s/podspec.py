"""A pod's spec as podman's flags: pure. A field that is not translated is refused by name; fields for a scheduler only are listed.

    containers(spec, place) -> the init containers, then the container: flags before the image, words after it"""
import json
import re

import rules

GRACE_S = 30  # terminationGracePeriodSeconds, when it is not said

SCHEDULING = {  # field of a pod: why nothing is to be done for it on one machine
    "nodeSelector": "there is one node",
    "affinity": "there is one node",
    "tolerations": "there is one node",
    "topologySpreadConstraints": "there is one node",
    "priorityClassName": "nobody is preempted",
    "schedulerName": "there is one node",
    "imagePullSecrets": "the image is there",
}
POD = {"containers", "initContainers", "volumes", "securityContext", "restartPolicy", "terminationGracePeriodSeconds",
       "subdomain", "hostname", "dnsPolicy", "hostNetwork", "automountServiceAccountToken", "enableServiceLinks"}
CONTAINER = {"name", "image", "imagePullPolicy", "command", "args", "env", "ports", "resources", "securityContext",
             "volumeMounts", "startupProbe", "livenessProbe", "readinessProbe", "terminationMessagePath"}
PORT = {"name", "containerPort", "hostPort", "protocol"}
POD_SECURITY = {"runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy", "seccompProfile",
                "supplementalGroups"}
SECURITY = {"allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities", "runAsUser", "runAsGroup", "runAsNonRoot",
            "seccompProfile"}
MOUNT = {"name", "mountPath", "readOnly", "subPath", "subPathExpr"}
PROBE = {"httpGet", "tcpSocket", "periodSeconds", "timeoutSeconds", "failureThreshold", "successThreshold", "initialDelaySeconds"}


class Refused(AssertionError):
    """A field, or a value of it, that would be lost on the way."""


def known(what, given, *allowed):
    if unknown := set(given) - set().union(*allowed):
        raise Refused(f"{what}: not translated: {', '.join(sorted(unknown))}")


def one_of(what, value, *allowed):
    if value not in allowed:
        raise Refused(f"{what}: {value!r} is not translated; translated: {', '.join(map(repr, allowed))}")
    return value


class Place:
    """The properties of a pod that are not in its spec."""

    def __init__(self, name, namespace="default", labels=None, annotations=None, ip="", image="", volume=None, key=None):
        self.name, self.namespace, self.labels, self.annotations = name, namespace, labels or {}, annotations or {}
        self.ip, self.image = ip, image
        self.volume = volume or (lambda v, group: None)  # its folder; None: an optional one that is not there
        self.key = key or (lambda kind, name, key: None)  # the text at a key of a Secret or ConfigMap, or None


class Container:
    def __init__(self, name, flags, words, env, probes):
        self.name, self.flags, self.words, self.env, self.probes = name, flags, words, env, probes


# ---- environment ----

def expand(text, env):
    """$(NAME) of what was said above it, as it stands where there is none; $$ is $."""
    return re.sub(r"\$\$|\$\(([-._a-zA-Z0-9]+)\)", lambda m: "$" if m[0] == "$$" else env.get(m[1], m[0]), text)


def field(path, place):
    named = re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path)
    if named:
        return getattr(place, named[1]).get(named[2], "")
    one_of("fieldRef", path, "metadata.name", "metadata.namespace", "status.podIP", "status.hostIP", "spec.nodeName")
    return {"metadata.name": place.name, "metadata.namespace": place.namespace, "spec.nodeName": "node-0"}.get(path, place.ip)


def from_source(name, source, place):
    known(f"env {name}: valueFrom", source, {"fieldRef", "secretKeyRef", "configMapKeyRef"})
    if "fieldRef" in source:
        known(f"env {name}: fieldRef", source["fieldRef"], {"fieldPath", "apiVersion"})
        return field(source["fieldRef"]["fieldPath"], place)
    (kind, ref), = source.items()
    known(f"env {name}: {kind}", ref, {"name", "key", "optional"})
    text = place.key(kind.removesuffix("KeyRef"), ref["name"], ref["key"])
    if text is None and not ref.get("optional"):
        raise Refused(f"env {name}: {kind} {ref['name']} has no key {ref['key']}")
    return text


def environment(container, place):
    env = {}
    for entry in container.get("env", []):
        known("env", entry, {"name", "value", "valueFrom"})
        text = (from_source(entry["name"], entry["valueFrom"], place) if "valueFrom" in entry else
                expand(entry.get("value", ""), env))
        if text is not None:
            env[entry["name"]] = text  # the last one wins
    return env


# ---- who it is, what it may use ----

def openshift(spec, uid):
    """The spec as OpenShift's restricted-v2 admits it (MustRunAsRange, fsGroup MustRunAs): the namespace's user `uid`, of
    group 0. It refuses a user or a group outside of the namespace's range."""
    given = spec.get("securityContext", {})
    for whole in (given, *(c.get("securityContext", {}) for c in spec["containers"] + spec.get("initContainers", []))):
        for key in ("runAsUser", "runAsGroup", "fsGroup"):
            if key in whole:
                raise Refused(f"restricted-v2: {key} {whole[key]} is not in the namespace's range")
    return {**spec, "securityContext": {**given, "runAsUser": uid, "fsGroup": uid}}


def security(whole, own):
    known("pod securityContext", whole, POD_SECURITY)
    known("securityContext", own, SECURITY)
    said = {**whole, **own}
    one_of("fsGroupChangePolicy", said.get("fsGroupChangePolicy", "Always"), "Always", "OnRootMismatch")  # all folders are ours
    flags = []
    if "runAsUser" in said:
        flags.append(f"--user={said['runAsUser']}:{said.get('runAsGroup', 0)}")
    elif "runAsGroup" in said:
        raise Refused("runAsGroup without runAsUser is not translated")
    if said.get("runAsNonRoot") and not said.get("runAsUser"):
        raise Refused("runAsNonRoot: runAsUser is wanted, and not 0")
    groups = [*whole.get("supplementalGroups", []), *([whole["fsGroup"]] if "fsGroup" in whole else [])]
    flags += [f"--group-add={group}" for group in groups]
    flags += ["--read-only", "--read-only-tmpfs=false"] if said.get("readOnlyRootFilesystem") else []
    known("capabilities", said.get("capabilities", {}), {"drop", "add"})
    flags += [f"--cap-drop={name}" for name in said.get("capabilities", {}).get("drop", [])]
    flags += [f"--cap-add={name}" for name in said.get("capabilities", {}).get("add", [])]
    flags += ["--security-opt=no-new-privileges"] if said.get("allowPrivilegeEscalation") is False else []
    profile = said.get("seccompProfile", {"type": "Unconfined"})
    known("seccompProfile", profile, {"type"})
    if one_of("seccompProfile", profile["type"], "RuntimeDefault", "Unconfined") == "Unconfined":
        flags.append("--security-opt=seccomp=unconfined")
    return flags


def resources(given):
    """A memory request is for the scheduler alone; a CPU request is a share, too."""
    known("resources", given, {"requests", "limits"})
    limits, asked = given.get("limits", {}), given.get("requests", {})
    known("limits", limits, {"cpu", "memory", "ephemeral-storage"})  # pods.py looks at each emptyDir
    known("requests", asked, {"cpu", "memory", "ephemeral-storage"})
    flags = [f"--cpus={rules.quantity(limits['cpu']):g}"] if "cpu" in limits else []
    if "memory" in limits:
        flags += [f"--memory={int(rules.quantity(limits['memory']))}", f"--memory-swap={int(rules.quantity(limits['memory']))}"]
    cpu = asked.get("cpu", limits.get("cpu"))
    return flags + ([f"--cpu-shares={max(2, int(1024 * rules.quantity(cpu)))}"] if cpu else [])


def mounts(container, volumes, group, env, place):
    flags = []
    for mount in container.get("volumeMounts", []):
        known("volumeMounts", mount, MOUNT)
        if mount["name"] not in volumes:
            raise Refused(f"volumeMounts: no volume is named {mount['name']}")
        volume = volumes[mount["name"]]
        folder = place.volume(volume, group)
        if folder is None:
            continue
        if below := mount.get("subPath") or expand(mount.get("subPathExpr", ""), env):
            folder = folder / below
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o2777)
        for_reading = mount.get("readOnly") or volume.get("persistentVolumeClaim", {}).get("readOnly")
        flags.append(f"--volume={folder}:{mount['mountPath']}{':ro' if for_reading else ''}")
    return flags


class Probe:
    """`path`: of httpGet; None: tcpSocket."""

    def __init__(self, kind, given, ports):
        known(kind, given, PROBE)
        action = next((word for word in ("httpGet", "tcpSocket") if word in given), None)
        if not action:
            raise Refused(f"{kind}: only httpGet and tcpSocket are translated")
        known(f"{kind}: {action}", given[action], {"port"} | ({"path"} if action == "httpGet" else set()))
        port = given[action]["port"]
        if isinstance(port, str) and port not in ports:
            raise Refused(f"{kind}: no port is named {port}")
        self.port, self.path = ports.get(port, port), given[action].get("path", "/") if action == "httpGet" else None
        self.delay_s, self.period_s = given.get("initialDelaySeconds", 0), given.get("periodSeconds", 10)
        self.timeout_s, self.failures = given.get("timeoutSeconds", 1), given.get("failureThreshold", 3)
        one_of(f"{kind}: successThreshold", given.get("successThreshold", 1), 1)


def probes(container):
    ports = {port["name"]: port["containerPort"] for port in container.get("ports", []) if "name" in port}
    return {kind: Probe(kind, container[kind], ports) for kind in ("startupProbe", "livenessProbe", "readinessProbe")
            if kind in container}


# ---- the whole ----

def image(name, place):
    if not re.search(r"(^|/)gradwire[:@]", name):
        raise Refused(f"image {name}: only gradwire's is here")
    return place.image


def container(given, spec, place):
    known(f"container {given['name']}", given, CONTAINER)
    one_of("imagePullPolicy", given.get("imagePullPolicy", "IfNotPresent"), "IfNotPresent", "Never")
    one_of("terminationMessagePath", given.get("terminationMessagePath", "/dev/termination-log"), "/dev/termination-log")
    for port in given.get("ports", []):
        known("ports", port, PORT)
        same = port.get("hostPort", port["containerPort"]) == port["containerPort"]
        if not same or "hostPort" in port and not spec.get("hostNetwork"):
            raise Refused(f"ports: hostPort {port['hostPort']} without hostNetwork is not translated")
    env = environment(given, place)
    whole, volumes = spec.get("securityContext", {}), {v["name"]: v for v in spec.get("volumes", [])}
    flags = security(whole, given.get("securityContext", {})) + resources(given.get("resources", {}))
    flags += mounts(given, volumes, whole.get("fsGroup"), env, place)
    flags += [f"--env={name}={text}" for name, text in env.items()]
    if "command" in given:
        flags.append("--entrypoint=" + json.dumps([expand(word, env) for word in given["command"]]))
    words = [image(given["image"], place), *[expand(word, env) for word in given.get("args", [])]]
    return Container(given["name"], flags, words, env, probes(given))


def containers(spec, place):
    """The init containers in their order, then the one container."""
    known("pod", spec, POD, SCHEDULING)
    one_of("dnsPolicy", spec.get("dnsPolicy", "ClusterFirst"), "ClusterFirst", "ClusterFirstWithHostNet")
    one_of("restartPolicy", spec.get("restartPolicy", "Never"), "Never", "OnFailure", "Always")
    one_of("automountServiceAccountToken", spec.get("automountServiceAccountToken", False), False)
    one_of("enableServiceLinks", spec.get("enableServiceLinks", False), False)
    one_of("hostNetwork", spec.get("hostNetwork", False), False, True)  # a pod's namespace is its node's
    if len(spec["containers"]) != 1:
        raise Refused("pod: one container is translated, not " + ", ".join(c["name"] for c in spec["containers"]))
    for first in spec.get("initContainers", []):
        known(f"init container {first['name']}", first, CONTAINER - {"startupProbe", "livenessProbe", "readinessProbe"})
    return [container(c, spec, place) for c in spec.get("initContainers", []) + spec["containers"]]


def grace_s(spec):
    return spec.get("terminationGracePeriodSeconds", GRACE_S)
