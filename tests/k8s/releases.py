"""An API server that keeps objects in memory, for the real helm and kubectl: what they create, change, keep and delete.

It answers as kube-apiserver does in what these tests need: discovery, label selectors, a claim's defaults, and fields of a
claim that cannot change. A strategic merge patch is applied as a JSON merge patch: the lists of these objects are replaced."""
import base64
import http.server
import json
import re
import urllib.parse

import nightly_test

KINDS = {
    "v1": {"configmaps": "ConfigMap", "secrets": "Secret", "services": "Service", "persistentvolumeclaims": "PersistentVolumeClaim"},
    "apps/v1": {"deployments": "Deployment", "statefulsets": "StatefulSet"},
    "batch/v1": {"jobs": "Job"},
    "policy/v1": {"poddisruptionbudgets": "PodDisruptionBudget"},
    "networking.k8s.io/v1": {"networkpolicies": "NetworkPolicy"},
    "monitoring.coreos.com/v1": {"podmonitors": "PodMonitor", "servicemonitors": "ServiceMonitor"},
    "kubeflow.org/v1": {"tfjobs": "TFJob"},
    "jobset.x-k8s.io/v1alpha2": {"jobsets": "JobSet"},
}
PLACE = re.compile(r"/apis?/(?P<version>[^/]+(/v[^/]+)?)/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)(/(?P<name>[^/]+))?")
STEADY = ("accessModes", "storageClassName", "volumeName")  # of a claim's spec: no request changes them


def resources(version):
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [
        {"name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind,
         "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]} for plural, kind in KINDS[version].items()]}


def discovery():
    versions = [{"groupVersion": version, "version": version.split("/")[1]} for version in KINDS if "/" in version]
    groups = [{"name": v["groupVersion"].split("/")[0], "versions": [v], "preferredVersion": v} for v in versions]
    return {"/version": {"major": "1", "minor": "31", "gitVersion": "v1.31.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]}, "/api/v1": resources("v1"),
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
            **{f"/apis/{version}": resources(version) for version in KINDS if "/" in version}}


def merged(old, patch):
    """RFC 7386; a key like $setElementOrder is a strategic patch's, and says nothing new where lists are replaced."""
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    new = {**old, **{key: merged(old.get(key, {}), value) for key, value in patch.items() if not key.startswith("$")}}
    return {key: value for key, value in new.items() if value is not None}


# ---- helm sends its own Secrets, the releases' records, as protobuf ----

def varint(data, at):
    value = shift = 0
    while data[at] & 0x80:
        value, shift, at = value | (data[at] & 0x7F) << shift, shift + 7, at + 1
    return value | data[at] << shift, at + 1


def fields(data):
    """(number, value) of each field of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:  # bytes, of that length
            value, at = data[at:at + value], at + value
        yield key >> 3, value


def pairs(message, number):
    """A map<string, bytes>."""
    entries = [dict(fields(value)) for key, value in fields(message) if key == number]
    return {entry[1].decode(): entry.get(2, b"") for entry in entries}


def secret(data):
    """k8s.io/api/core/v1/generated.proto: Secret, in the envelope of k8s.io/apimachinery/pkg/runtime/generated.proto. None: it is
    something else, the options of a deletion."""
    envelope = dict(fields(data))
    if dict(fields(envelope[1]))[2] != b"Secret":
        return None
    message = envelope[2]
    kept = dict(fields(message))
    return {"apiVersion": "v1", "type": kept[3].decode(),
            "data": {key: base64.b64encode(value).decode() for key, value in pairs(message, 2).items()},
            "metadata": {"name": dict(fields(kept[1]))[1].decode(),
                         "labels": {key: value.decode() for key, value in pairs(kept[1], 11).items()}}}


class Handler(nightly_test.Handler):
    @staticmethod
    def decoded(data):
        return secret(data[4:]) if data.startswith(b"k8s\0") else json.loads(data)


class Cluster(http.server.ThreadingHTTPServer):
    """One cluster: objects by (namespace, kind, name)."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.discovery, self.changes = {}, discovery(), 0

    def of(self, kind):
        return {name: doc for (_, k, name), doc in self.objects.items() if k == kind}

    def stored(self, key, doc):
        self.changes += 1
        namespace, kind, name = key
        meta = {"uid": str(self.changes), **doc["metadata"], "name": name, "namespace": namespace,
                "resourceVersion": str(self.changes)}
        self.objects[key] = {**doc, "kind": kind, "metadata": meta}
        return self.objects[key]

    def changed(self, key, doc):
        if key[1] == "PersistentVolumeClaim" and any(doc["spec"].get(f) != self.objects[key]["spec"].get(f) for f in STEADY):
            return nightly_test.status(422, "Invalid")
        return 200, self.stored(key, doc)

    def created(self, key, doc):
        if key in self.objects:
            return nightly_test.status(409, "AlreadyExists")
        if key[1] == "PersistentVolumeClaim":
            doc = {**doc, "spec": {"storageClassName": "standard", "volumeName": f"pv-{key[2]}", **doc["spec"]}}
        return 201, self.stored(key, doc)

    def listed(self, namespace, kind, version, query):
        selector = [word.split("=", 1) for word in query.get("labelSelector", [""])[0].split(",") if "=" in word]
        items = [doc for (ns, k, _), doc in self.objects.items() if (ns, k) == (namespace, kind)
                 and all(doc["metadata"].get("labels", {}).get(key) == value for key, value in selector)]
        return 200, {"kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": items}

    def answer(self, method, url, body):
        address = urllib.parse.urlparse(url)
        if address.path in self.discovery:
            return 200, self.discovery[address.path]
        at = PLACE.fullmatch(address.path)
        kind = at and KINDS.get(at["version"], {}).get(at["plural"])
        if not kind:
            return nightly_test.status(404, "NotFound")
        key = at["namespace"], kind, at["name"] or (body or {}).get("metadata", {}).get("name")
        if method == "POST":
            return self.created(key, body)
        if method == "GET" and not at["name"]:
            return self.listed(at["namespace"], kind, at["version"], urllib.parse.parse_qs(address.query))
        if key not in self.objects:
            return nightly_test.status(404, "NotFound")
        if method == "DELETE":
            return 200, self.objects.pop(key)
        return {"GET": lambda: (200, self.objects[key]), "PUT": lambda: self.changed(key, body),
                "PATCH": lambda: self.changed(key, merged(self.objects[key], body))}[method]()
