"""Rules for manifests beyond their schemas: one function per rule, each returns lines with errors.

The schemas accept a replica type `Parameter`, `cleanPodPolicy: Sometimes`, a container named `main`, a selector that
selects nothing. An operator prunes or ignores them silently, and the job hangs."""
import re

OPERATOR_PORT, CONTAINER = "tfjob-port", "tensorflow"
REPLICA_TYPES = ("Chief", "Master", "PS", "Worker", "Evaluator")
NAME_MAX = 50  # -evaluator-N and the labels need the rest of 63
BY_HAND = "gradwire/by-hand"  # annotations that begin so: "Kind/name, ..", objects that somebody makes with kubectl
BY_ADMIN = "gradwire/by-admin"  # annotation: "Kind/name, ..", objects of k8s/admin


class Pod:
    """A pod template, with the labels that its pods will have."""

    def __init__(self, owner, where, labels, spec, annotations, count):
        self.owner, self.where, self.labels, self.spec, self.count = owner, where, labels, spec, count
        self.annotations = annotations
        notes = (owner["metadata"].get("annotations", {}), annotations)
        self.by_hand = {word.strip() for a in notes for key, value in a.items() if key.startswith((BY_HAND, BY_ADMIN))
                        for word in value.split(",")}

    @property
    def containers(self):
        return self.spec.get("containers", []) + self.spec.get("initContainers", [])

    def ports(self):
        return [port for c in self.spec.get("containers", []) for port in c.get("ports", [])]


def title(doc):
    return f"{doc['kind']} {doc['metadata'].get('name', '?')}"


def of_kind(docs, *kinds):
    return [doc for doc in docs if doc["kind"] in kinds]


def replica_specs(job):
    return job["spec"].get("tfReplicaSpecs", {})


def template_pod(owner, where, template, count, more={}):
    meta = template.get("metadata") or {}
    return Pod(owner, where, {**meta.get("labels", {}), **more}, template["spec"], meta.get("annotations", {}), count)


def pods(docs):
    for doc in docs:
        if doc["kind"] == "TFJob":
            for kind, spec in replica_specs(doc).items():
                labels = {"training.kubeflow.org/operator-name": "tfjob-controller",
                          "training.kubeflow.org/job-name": doc["metadata"]["name"],
                          "training.kubeflow.org/replica-type": kind.lower(), "training.kubeflow.org/replica-index": "0"}
                yield template_pod(doc, f"{title(doc)}: {kind}", spec["template"], spec.get("replicas", 1), labels)
        elif doc["kind"] in ("Job", "StatefulSet", "Deployment"):
            count = doc["spec"].get("parallelism" if doc["kind"] == "Job" else "replicas", 1)
            yield template_pod(doc, title(doc), doc["spec"]["template"], count)
        elif doc["kind"] == "JobSet":
            for replicated in doc["spec"]["replicatedJobs"]:
                job = replicated["template"]["spec"]
                labels = {"jobset.sigs.k8s.io/jobset-name": doc["metadata"]["name"],
                          "jobset.sigs.k8s.io/replicatedjob-name": replicated["name"]}
                yield template_pod(doc, f"{title(doc)}: {replicated['name']}", job["template"],
                                   replicated.get("replicas", 1) * job.get("parallelism", 1), labels)
        elif doc["kind"] == "CronJob":
            yield template_pod(doc, title(doc), doc["spec"]["jobTemplate"]["spec"]["template"], 1)


# ---- what the operator knows ----

def replica_types(docs):
    return [f"{title(job)}: {kind}: no such replica type; allowed: {', '.join(REPLICA_TYPES)}"
            for job in of_kind(docs, "TFJob") for kind in replica_specs(job) if kind not in REPLICA_TYPES]


ENUMS = {
    "TFJob": {("spec", "runPolicy", "cleanPodPolicy"): ("All", "Running", "None"),
              ("spec", "successPolicy"): ("", "AllWorkers"),
              ("spec", "tfReplicaSpecs", "*", "restartPolicy"): ("Always", "OnFailure", "Never", "ExitCode")},
    "Job": {("spec", "completionMode"): ("Indexed", "NonIndexed"),
            ("spec", "template", "spec", "restartPolicy"): ("Never", "OnFailure"),
            ("spec", "podFailurePolicy", "rules", "*", "action"): ("FailJob", "FailIndex", "Ignore", "Count")},
    "JobSet": {("spec", "successPolicy", "operator"): ("All", "Any"),
               ("spec", "replicatedJobs", "*", "template", "spec", "completionMode"): ("Indexed", "NonIndexed")},
    "StatefulSet": {("spec", "podManagementPolicy"): ("Parallel", "OrderedReady")},
    "CronJob": {("spec", "concurrencyPolicy"): ("Allow", "Forbid", "Replace"),
                ("spec", "jobTemplate", "spec", "template", "spec", "restartPolicy"): ("Never", "OnFailure")},
    "PersistentVolumeClaim": {("spec", "accessModes", "*"): ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany",
                                                            "ReadWriteOncePod")},
    "NetworkPolicy": {("spec", "policyTypes", "*"): ("Ingress", "Egress")},
}


def values_at(node, path):
    if not path:
        yield node
    elif path[0] == "*":
        for child in (node.values() if isinstance(node, dict) else node):
            yield from values_at(child, path[1:])
    elif isinstance(node, dict) and path[0] in node:
        yield from values_at(node[path[0]], path[1:])


def enums(docs):
    return [f"{title(doc)}: {'.'.join(path)}: {value!r} is not allowed; allowed: {', '.join(allowed)}"
            for doc in docs for path, allowed in ENUMS.get(doc["kind"], {}).items()
            for value in values_at(doc, path) if value not in allowed]


def containers_and_ports(docs):
    """TF_CONFIG is set on the container `tensorflow` alone, and its port is the one named tfjob-port."""
    for pod in pods(docs):
        names = [c["name"] for c in pod.spec["containers"]]
        tfjob = pod.owner["kind"] == "TFJob"
        if tfjob and names.count(CONTAINER) != 1:
            yield f"{pod.where}: no container is named {CONTAINER}, but {', '.join(names)}"
        for c in pod.containers:
            for port in c.get("ports", []):
                numbers = [p["containerPort"] for p in c["ports"]]
                if tfjob and c["name"] == CONTAINER and OPERATOR_PORT not in [p.get("name") for p in c["ports"]]:
                    yield f"{pod.where}: no port is named {OPERATOR_PORT}: 2222 would stay, whatever is said here"
                if numbers.count(port["containerPort"]) > 1:
                    yield f"{pod.where}: port {port['containerPort']} stands twice"
        known = {p.get("name") for p in pod.ports()}
        for c in pod.containers:
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                probe = c.get(kind, {})
                port = probe.get("httpGet", probe.get("tcpSocket", {})).get("port")
                if isinstance(port, str) and port not in known:
                    yield f"{pod.where}: {kind}: no port is named {port}"


def one_chief(docs):
    for job in of_kind(docs, "TFJob"):
        n = sum(spec.get("replicas", 1) for kind, spec in replica_specs(job).items() if kind in ("Chief", "Master"))
        if n > 1:
            yield f"{title(job)}: {n} chiefs (or masters); one is allowed"


GROUP = "scheduling.k8s.io/group-name"  # Volcano's


def whole_gang(docs):
    """Half of a job waits for the other half, and holds the nodes that it would need."""
    for job in of_kind(docs, "TFJob"):
        least = job["spec"].get("runPolicy", {}).get("schedulingPolicy", {}).get("minAvailable")
        total = sum(spec.get("replicas", 1) for spec in replica_specs(job).values())
        if least is not None and least != total:
            yield f"{title(job)}: schedulingPolicy.minAvailable is {least}, and the job has {total} pods"
    members = {}
    for pod in pods(docs):
        if group := pod.annotations.get(GROUP):
            members[group] = members.get(group, 0) + pod.count
            if ("PodGroup", group) not in [(doc["kind"], doc["metadata"]["name"]) for doc in docs]:
                yield f"{pod.where}: PodGroup {group} is not there"
            if pod.spec.get("schedulerName", "default-scheduler") == "default-scheduler":
                yield f"{pod.where}: the default scheduler knows no PodGroup"
    for doc in of_kind(docs, "PodGroup"):
        least, total = doc["spec"]["minMember"], members.get(doc["metadata"]["name"], 0)
        if least != total:
            yield f"{title(doc)}: minMember is {least}, and {total} pods are of it"


# ---- what must fit together ----

def referenced(pod):
    """(kind, name) of what a pod cannot start without."""
    for v in pod.spec.get("volumes", []):
        if not v.get("secret", {}).get("optional", "secret" not in v):
            yield "Secret", v["secret"]["secretName"]
        if "configMap" in v and not v["configMap"].get("optional"):
            yield "ConfigMap", v["configMap"]["name"]
        if "persistentVolumeClaim" in v:
            yield "PersistentVolumeClaim", v["persistentVolumeClaim"]["claimName"]
    for s in pod.spec.get("imagePullSecrets", []):
        yield "Secret", s["name"]
    for c in pod.containers:
        for env in c.get("env", []):
            source = env.get("valueFrom", {})
            for key, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
                if key in source and not source[key].get("optional"):
                    yield kind, source[key]["name"]
    if pod.spec.get("serviceAccountName", "default") != "default":
        yield "ServiceAccount", pod.spec["serviceAccountName"]
    if not pod.spec.get("priorityClassName", "system-").startswith("system-"):
        yield "PriorityClass", pod.spec["priorityClassName"]
    if pod.spec.get("subdomain"):
        yield "Service", pod.spec["subdomain"]


def references(docs):
    there = {(doc["kind"], doc["metadata"]["name"]) for doc in docs}
    for pod in pods(docs):
        for kind, name in referenced(pod):
            if (kind, name) not in there and f"{kind}/{name}" not in pod.by_hand:
                yield f"{pod.where}: {kind} {name} is not there"
        volumes = [v["name"] for v in pod.spec.get("volumes", [])]
        mounted = {m["name"] for c in pod.containers for m in c.get("volumeMounts", [])}
        yield from (f"{pod.where}: no volume is named {name}" for name in sorted(mounted - set(volumes)))
        yield from (f"{pod.where}: volume {name} is not mounted" for name in volumes if name not in mounted)
    for doc in of_kind(docs, "StatefulSet"):
        if ("Service", doc["spec"]["serviceName"]) not in there:
            yield f"{title(doc)}: Service {doc['spec']['serviceName']} is not there"
    for doc in of_kind(docs, "RoleBinding"):
        for it in [doc["roleRef"], *doc["subjects"]]:
            if (it["kind"], it["name"]) not in there:
                yield f"{title(doc)}: {it['kind']} {it['name']} is not there"
    for doc in of_kind(docs, "HorizontalPodAutoscaler", "ScaledObject"):
        target = doc["spec"]["scaleTargetRef"]
        if (target["kind"], target["name"]) not in there:
            yield f"{title(doc)}: {target['kind']} {target['name']} is not there"
        if target["kind"] not in ("StatefulSet", "Deployment"):
            yield f"{title(doc)}: a {target['kind']} has no scale subresource"
    for doc in of_kind(docs, "JobSet"):
        known = [replicated["name"] for replicated in doc["spec"]["replicatedJobs"]]
        for name in doc["spec"].get("successPolicy", {}).get("targetReplicatedJobs", []):
            if name not in known:
                yield f"{title(doc)}: no replicated job is named {name}"


def matches(selector, labels):
    return all(labels.get(key) == value for key, value in selector.items())


def chooses(selector, labels):
    """A label selector; what it says in a way that is not known here chooses nothing."""
    known = {"In": lambda value, values: value in values, "NotIn": lambda value, values: value not in values}
    return matches(selector.get("matchLabels", {}), labels) and all(
        known.get(e["operator"], lambda *_: False)(labels.get(e["key"]), e["values"])
        for e in selector.get("matchExpressions", []))


def monitored(docs, every, selector):
    """The pods behind the Services that a ServiceMonitor selects: the overlay's own, and the operator's, one per replica."""
    services = [doc["spec"].get("selector", {}) for doc in of_kind(docs, "Service")
                if chooses(selector, doc["metadata"].get("labels", {}))]
    return [pod for pod in every if any(matches(s, pod.labels) for s in services)
            or pod.owner["kind"] == "TFJob" and chooses(selector, {
                key: value for key, value in pod.labels.items() if key.startswith("training.kubeflow.org/")})]


ENDPOINTS = {"PodMonitor": "podMetricsEndpoints", "ServiceMonitor": "endpoints"}


def selectors(docs):
    """A selector for pods of the overlay selects some; an owner of pods selects its own."""
    every = list(pods(docs))
    for doc in docs:
        spec = doc.get("spec", {})
        if doc["kind"] in ("StatefulSet", "Deployment"):
            if not matches(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]):
                yield f"{title(doc)}: its selector does not match its own pods"
        if doc["kind"] not in ("Service", "NetworkPolicy", "PodDisruptionBudget", *ENDPOINTS):
            continue
        given = spec.get("podSelector" if doc["kind"] == "NetworkPolicy" else "selector", {})
        selector = {"matchLabels": given} if doc["kind"] == "Service" else given
        chosen = (monitored(docs, every, selector) if doc["kind"] == "ServiceMonitor" else
                  [pod for pod in every if chooses(selector, pod.labels)])
        if not chosen:
            yield f"{title(doc)}: selects no pod: {given}"
        wanted = ([p.get("targetPort", p["port"]) for p in spec.get("ports", [])] if doc["kind"] == "Service" else
                  [p["port"] for p in spec[ENDPOINTS[doc["kind"]]]] if doc["kind"] in ENDPOINTS else [])
        for port in wanted:
            for pod in chosen:
                if port not in [p.get("name") for p in pod.ports()] + [p["containerPort"] for p in pod.ports()]:
                    yield f"{title(doc)}: {pod.where} has no port {port}"
    for pod in every:
        for spread in pod.spec.get("topologySpreadConstraints", []):
            if not matches(spread["labelSelector"]["matchLabels"], pod.labels):
                yield f"{pod.where}: topologySpreadConstraints do not match the pod itself"


def budgets(docs):
    """These kinds have no scale subresource: maxUnavailable cannot be evaluated for their pods (kubernetes#129625)."""
    for doc in of_kind(docs, "PodDisruptionBudget"):
        chosen = [p for p in pods(docs) if chooses(doc["spec"]["selector"], p.labels)]
        scaled = [p for p in chosen if p.owner["kind"] not in ("TFJob", "Job", "JobSet")]
        least, count = doc["spec"].get("minAvailable"), sum(p.count for p in chosen)
        if len(scaled) < len(chosen) and least != count:
            yield f"{title(doc)}: minAvailable is {least!r}; allowed for these pods: their number, {count}"


# ---- numbers and names ----

FACTORS = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def quantity(text):
    number, unit = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(text)).groups()
    return float(number) * FACTORS[unit]


def ephemeral(pod):
    """The bytes that a pod's emptyDirs may have on the node's disk."""
    dirs = [v["emptyDir"] for v in pod.spec.get("volumes", []) if "emptyDir" in v]
    return sum(quantity(d.get("sizeLimit", 0)) for d in dirs if d.get("medium") != "Memory")


def disks(docs):
    """A node whose disk is full evicts first the pods that use more than they asked for; an emptyDir counts."""
    for pod in pods(docs):
        for c in pod.containers:
            given = c.get("resources", {})
            asked, most = (given.get(key, {}).get("ephemeral-storage") for key in ("requests", "limits"))
            if asked is None or most is None:
                yield f"{pod.where}: {c['name']}: ephemeral-storage has no request or no limit"
            elif quantity(asked) > quantity(most):
                yield f"{pod.where}: {c['name']}: ephemeral-storage: the request {asked} is above the limit {most}"
        most = sum(quantity(c.get("resources", {}).get("limits", {}).get("ephemeral-storage", 0)) for c in pod.spec["containers"])
        if most < ephemeral(pod):
            yield f"{pod.where}: its emptyDirs may be larger than its limit of ephemeral-storage"


def resources(docs):
    """A ps that is killed for memory costs the job all steps since the last checkpoint: it asks for all that it may use."""
    for pod in pods(docs):
        for c in pod.spec["containers"]:
            asked, most = (c.get("resources", {}).get(key, {}) for key in ("requests", "limits"))
            for what in sorted({"cpu", "memory"} | set(asked)):
                if what not in asked or what not in most:
                    yield f"{pod.where}: {what} has no request or no limit"
                elif quantity(asked[what]) > quantity(most[what]):
                    yield f"{pod.where}: {what}: the request {asked[what]} is above the limit {most[what]}"
            if pod.labels.get("app.kubernetes.io/component") == "ps" and asked.get("memory") != most.get("memory"):
                yield f"{pod.where}: a ps requests all of its memory limit"


DNS_1035 = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
DNS_1123 = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def names(docs):
    for doc in docs:
        name = doc["metadata"]["name"]
        strict = doc["kind"] in ("TFJob", "JobSet", "Service")
        if not (DNS_1035 if strict else DNS_1123).fullmatch(name):
            yield f"{title(doc)}: not a DNS-{1035 if strict else 1123} name"
        if len(name) > (NAME_MAX if doc["kind"] in ("TFJob", "JobSet", "Job", "StatefulSet") else 63):
            yield f"{title(doc)}: the name is longer than {NAME_MAX}"
        for key, value in doc["metadata"].get("labels", {}).items():
            if not isinstance(value, str) or not LABEL.fullmatch(value):
                yield f"{title(doc)}: label {key}: {value!r} is not allowed"
        if "app.kubernetes.io/name" not in doc["metadata"].get("labels", {}):
            yield f"{title(doc)}: no label app.kubernetes.io/name"


def images(docs):
    for pod in pods(docs):
        for c in pod.containers:
            tag = re.search(r"(@sha256:[0-9a-f]{64}|:([^/:]+))$", c.get("image", ""))
            if not tag or tag.group(2) == "latest":
                yield f"{pod.where}: image {c.get('image')}: a digest or a fixed tag is wanted"


# ---- what a careful cluster asks for ----

def hardened(docs):
    for pod in pods(docs):
        of_pod = pod.spec.get("securityContext", {})
        if not of_pod.get("runAsNonRoot") or of_pod.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{pod.where}: runAsNonRoot and seccompProfile RuntimeDefault are wanted"
        if pod.spec.get("automountServiceAccountToken") is not False and "serviceAccountName" not in pod.spec:
            yield f"{pod.where}: automountServiceAccountToken: false is wanted"
        for c in pod.containers:
            own = c.get("securityContext", {})
            if (own.get("allowPrivilegeEscalation") is not False or not own.get("readOnlyRootFilesystem")
                    or own.get("capabilities", {}).get("drop") != ["ALL"]):
                yield f"{pod.where}: {c['name']}: a read-only root, no capability and no privilege escalation are wanted"


def grace(docs):
    """SIGKILL must not come before the job's own bound for its last checkpoint."""
    bounds = [int(found.group(1)) for doc in of_kind(docs, "ConfigMap")
              for found in re.finditer(r"grace_s: *([0-9]+)", doc.get("data", {}).get("job.yaml", ""))]
    for pod in pods(docs):
        given = pod.spec.get("terminationGracePeriodSeconds", 30)
        if bounds and given <= max(bounds):
            yield f"{pod.where}: terminationGracePeriodSeconds is {given}, and timeouts.grace_s {max(bounds)}"


def restarts(docs):
    """Only ExitCode distinguishes permanent errors (1, 2) from those that a fresh start fixes (138, 143, a signal)."""
    for job in of_kind(docs, "TFJob"):
        for kind, spec in replica_specs(job).items():
            if spec.get("restartPolicy") != "ExitCode":
                yield f"{title(job)}: {kind}: restartPolicy is {spec.get('restartPolicy')}, ExitCode is wanted"
        policy = job["spec"].get("runPolicy", {})
        for key in ("cleanPodPolicy", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "backoffLimit"):
            if key not in policy:
                yield f"{title(job)}: runPolicy.{key} is not said"


WORKS = ("preprocess", "nightly")  # pods that do one thing and end: nobody waits for their names
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def probes(docs):
    """A process that hangs is killed; one that does not listen yet gets no traffic. Ready means that it listens, no more: a
    probe that waited for others would keep its own name from them."""
    for pod in pods(docs):
        if pod.labels.get("app.kubernetes.io/component") in WORKS:
            continue
        for c in pod.spec["containers"]:
            yield from (f"{pod.where}: {c['name']}: no {kind}" for kind in PROBES if kind not in c)
            ours = pod.labels.get("app.kubernetes.io/component") != "tensorboard"
            if ours and c.get("readinessProbe", {}).get("httpGet", {}).get("path", "/readyz") != "/readyz":
                yield f"{pod.where}: {c['name']}: readinessProbe: /readyz says whether it listens"


# ---- storage ----

def term_of(pod):
    """The required pod affinity to pods of the same node, as a selector; None: none."""
    affinity = pod.spec.get("affinity", {}).get("podAffinity", {})
    for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution", []):
        if term["topologyKey"] == "kubernetes.io/hostname":
            return term["labelSelector"]
    return None


def one_node(every):
    """These pods are on one node: a lone one, or a group of which each selects all, itself too. (A pod that selects only
    others waits for them; one that comes again must find those that stayed.)"""
    return sum(pod.count for pod in every) == 1 or all(
        term_of(pod) and all(chooses(term_of(pod), other.labels) for other in every) for pod in every)


def claims(docs):
    """Storage that one node can mount is what most clusters have; a claim that nothing mounts is Pending for ever."""
    every = list(pods(docs))
    for doc in of_kind(docs, "PersistentVolumeClaim") if every else ():
        mine = [pod for pod in every if ("PersistentVolumeClaim", doc["metadata"]["name"]) in referenced(pod)]
        if not mine:
            yield f"{title(doc)}: no pod mounts it"
        elif "ReadWriteOnce" in doc["spec"]["accessModes"] and not one_node(mine):
            yield f"{title(doc)}: ReadWriteOnce, and mounted by pods of several nodes: " + ", ".join(p.where for p in mine)


KEEP = "gradwire/keep"  # label of claims that `kubectl delete -k DIR -l '!gradwire/keep'` leaves


def kept(docs):
    for doc in of_kind(docs, "PersistentVolumeClaim"):
        if doc["metadata"].get("labels", {}).get(KEEP) != "true":
            yield f"{title(doc)}: without the label {KEEP}: \"true\" it is deleted with the job"


# ---- an administrator's part ----

def admins(docs):
    """A user who may create jobs may not create these, and deleting the job must not delete them for others."""
    if any(pods(docs)):
        yield from (f"{title(doc)}: an administrator's object: k8s/admin has these"
                    for doc in of_kind(docs, "PriorityClass", "ResourceQuota", "LimitRange"))


RESOLVERS = {"NodeLocal DNSCache": "169.254.20.10", "GKE's Cloud DNS": "169.254.169.254"}  # on each node: no selector finds them


def opens(rule, cidr):
    if not rule:
        return True
    ports = {(p.get("protocol", "TCP"), p.get("port")) for p in rule.get("ports", [])}
    return {("UDP", 53), ("TCP", 53)} <= ports and any(peer.get("ipBlock", {}).get("cidr") == cidr for peer in rule.get("to", []))


def ways_out(docs, labels):
    """The egress rules of all policies for pods with these labels; None: there is no such policy."""
    mine = [d["spec"].get("egress", []) for d in of_kind(docs, "NetworkPolicy")
            if "Egress" in d["spec"].get("policyTypes", []) and chooses(d["spec"]["podSelector"], labels)]
    return sum(mine, []) if mine else None


def resolvers(docs):
    for doc in of_kind(docs, "NetworkPolicy"):
        rules = ways_out(docs, doc["spec"]["podSelector"].get("matchLabels", {}))
        yield from (f"{title(doc)}: no way to {name}, {address}, port 53, by UDP and TCP" for name, address in RESOLVERS.items()
                    if rules is not None and not any(opens(rule, f"{address}/32") for rule in rules))


def api_servers(docs):
    """A pod with an account's token talks to the API server, whose address and port differ from cluster to cluster."""
    for pod in pods(docs):
        rules = ways_out(docs, pod.labels)
        if pod.spec.get("automountServiceAccountToken", True) and rules is not None and {} not in rules:
            yield f"{pod.where}: no way to the API server: an egress rule {{}} is wanted"


# ---- Pod Security Standards ----

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
SAFE_CAPABILITIES = {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
                     "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}


def beyond_baseline(pod):
    """The fields because of which the level `baseline` refuses a pod."""
    yield from (key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(key))
    yield from (f"volume {v['name']}" for v in pod.spec.get("volumes", []) if "hostPath" in v)
    yield from ("sysctls" for _ in pod.spec.get("securityContext", {}).get("sysctls", []))
    for c in pod.containers:
        own = c.get("securityContext", {})
        yield from ("hostPort" for port in c.get("ports", []) if port.get("hostPort"))
        yield from ("privileged" for _ in [0] if own.get("privileged"))
        yield from (f"capability {name}" for name in own.get("capabilities", {}).get("add", []) if name not in SAFE_CAPABILITIES)
    for whole in (pod.spec, *pod.containers):
        if whole.get("securityContext", {}).get("seccompProfile", {}).get("type") == "Unconfined":
            yield "seccompProfile"


def beyond_restricted(pod):
    """The fields, present or missing, because of which the level `restricted` refuses a pod."""
    yield from beyond_baseline(pod)
    whole = pod.spec.get("securityContext", {})
    yield from (f"volume {v['name']}" for v in pod.spec.get("volumes", []) if not VOLUMES & set(v))
    for c in pod.containers:
        own = c.get("securityContext", {})
        said = {**whole, **own}
        if not said.get("runAsNonRoot") or said.get("runAsUser") == 0:
            yield "runAsNonRoot"
        if said.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield "seccompProfile"
        if own.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        if "ALL" not in own.get("capabilities", {}).get("drop", []) or set(own["capabilities"].get("add", [])) - {"NET_BIND_SERVICE"}:
            yield "capabilities"


def pod_security(docs):
    """The strictest level of the Pod Security Standards that admits all pods: restricted, baseline or privileged."""
    every = list(pods(docs))
    return next((level for level, beyond in (("restricted", beyond_restricted), ("baseline", beyond_baseline))
                 if not any(list(beyond(pod)) for pod in every)), "privileged")


MESH = "sidecar.istio.io/inject"


def meshes(docs):
    """A mesh's proxy does not end, and so neither does the pod that it was put into; a pod in its host's network gets none."""
    for pod in pods(docs):
        of_pod = pod.labels.get(MESH), pod.annotations.get(MESH)
        if of_pod != ("false", "false") and not pod.spec.get("hostNetwork"):
            yield f"{pod.where}: {MESH}: \"false\" is wanted, as label and as annotation"


TIME_ZONE = re.compile(r"[A-Z][A-Za-z_+-]*(/[A-Za-z0-9_+-]+)*")


def schedules(docs):
    """Two nights must not overlap, and one that was missed must not be made up for by day; the hour is somebody's."""
    for doc in of_kind(docs, "CronJob"):
        spec, job = doc["spec"], doc["spec"]["jobTemplate"]["spec"]
        if spec.get("concurrencyPolicy") != "Forbid":
            yield f"{title(doc)}: concurrencyPolicy is {spec.get('concurrencyPolicy')}, Forbid is wanted"
        if not TIME_ZONE.fullmatch(spec.get("timeZone", "")) or "TZ=" in spec["schedule"]:
            yield f"{title(doc)}: timeZone is {spec.get('timeZone')!r}; a name like Europe/Zurich is wanted"
        for key in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            if key not in spec:
                yield f"{title(doc)}: {key} is not said"
        if "activeDeadlineSeconds" not in job:
            yield f"{title(doc)}: jobTemplate.spec.activeDeadlineSeconds is not said"


def privileges(docs):
    """A Role says what, not "all"."""
    for doc in of_kind(docs, "Role", "ClusterRole"):
        for rule in doc["rules"]:
            for key in ("apiGroups", "resources", "verbs"):
                if "*" in rule[key]:
                    yield f"{title(doc)}: {key}: * is too much"


def neighbours(docs):
    """Without PS replicas the pods of chief and workers run a ps on the next port, and a policy lets it through."""
    for job in of_kind(docs, "TFJob"):
        specs = replica_specs(job)
        if "PS" in specs or sum(spec.get("replicas", 1) for spec in specs.values()) == 1:
            continue
        for pod in pods([job]):
            own = next((p["containerPort"] for p in pod.ports() if p.get("name") == OPERATOR_PORT), 2222)
            if not pod.where.endswith(": Evaluator") and own + 1 not in [p["containerPort"] for p in pod.ports()]:
                yield f"{pod.where}: port {own + 1}, of its ps, is not said"


def policies(docs):
    """Pods of a job reach each other on each port on which one of them listens, but that for HTTP."""
    every = list(pods(docs))
    for doc in of_kind(docs, "NetworkPolicy"):
        chosen = [pod for pod in every if chooses(doc["spec"]["podSelector"], pod.labels)]
        wanted = {p["containerPort"] for pod in chosen for p in pod.ports() if "metrics" not in p.get("name", "")}
        for way, peers in (("ingress", "from"), ("egress", "to")):
            allowed = {p["port"] for rule in doc["spec"].get(way, []) for peer in rule.get(peers, [])
                       if "namespaceSelector" not in peer for p in rule.get("ports", [])}
            for port in sorted(wanted - allowed) if way.title() in doc["spec"]["policyTypes"] else ():
                yield f"{title(doc)}: {way}: port {port} is not allowed between the job's pods"


RULES = (replica_types, enums, containers_and_ports, one_chief, whole_gang, references, selectors, budgets, resources, names,
         images, hardened, grace, restarts, meshes, schedules, privileges, neighbours, policies, disks, probes, claims,
         kept, admins, resolvers, api_servers)
OURS = (resources, hardened, restarts, meshes, disks, probes)  # an operator runs pods without them, as its own examples do


def broken(docs, rules=RULES):
    return [f"{rule.__name__}: {line}" for rule in rules for line in rule(docs)]
