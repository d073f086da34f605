"""Storage as clusters have it: StorageClasses whose provisioner makes folders, and the volumes of a pod as folders.

`standard` (the default) is as kind's and k3s' local-path: ReadWriteOnce alone, on the node where the first pod that mounts the
claim is scheduled. `shared` is as a file server: every access mode, from every node."""
import base64
import os
import time

import api
import podspec
import pods

PROVISIONER = "gradwire.test/folders"
SHARED = "shared"
NODE_NOTE = "volume.kubernetes.io/selected-node"
DEFAULT_NOTE = "storageclass.kubernetes.io/is-default-class"
TOKEN_S = 3607  # as the admission asks for


class Later(Exception):
    """A claim, ConfigMap or Secret of a volume is not there yet."""


def classes():
    for name, binding in (("standard", "WaitForFirstConsumer"), (SHARED, "Immediate")):
        yield {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": PROVISIONER,
               "metadata": {"name": name, "annotations": {DEFAULT_NOTE: str(name != SHARED).lower()}},
               "volumeBindingMode": binding, "reclaimPolicy": "Retain"}


class Provisioner:
    """Makes a PersistentVolume for each claim of its classes; the controller manager binds them. `refused`: why, by claim."""

    def __init__(self, scope, client):
        self.folder, self.api, self.refused = scope.tmp / "claims", client, {}
        for made in classes():
            client.call("POST", "/apis/storage.k8s.io/v1/storageclasses", made)
        scope.addCleanup(api.Watch(client, "/api/v1/persistentvolumeclaims", self.seen).stop)

    def seen(self, kind, claim):
        spec, meta = claim["spec"], claim["metadata"]
        node = meta.get("annotations", {}).get(NODE_NOTE)
        if kind == "DELETED" or claim["status"].get("phase") != "Pending" or "volumeName" in spec:
            return
        if spec.get("storageClassName") == SHARED:
            self.make(claim, None)
        elif spec.get("storageClassName") == "standard" and node:
            if set(spec["accessModes"]) - {"ReadWriteOnce"}:
                self.refused[meta["namespace"], meta["name"]] = f"{spec['accessModes']}: this storage has ReadWriteOnce alone"
            else:
                self.make(claim, node)

    def make(self, claim, node):
        meta, spec = claim["metadata"], claim["spec"]
        path = self.folder / meta["namespace"] / meta["name"]
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{meta['uid']}"}, "spec": {
            "capacity": spec["resources"]["requests"], "accessModes": spec["accessModes"], "hostPath": {"path": str(path)},
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": spec["storageClassName"],
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **{k: meta[k] for k in ("namespace", "name", "uid")}}}}
        if node:
            volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}
        try:
            self.api.call("POST", "/api/v1/persistentvolumes", volume)
        except api.Refused as why:
            if why.code != 409:  # made at an earlier look
                raise


class Volumes:
    """Of one pod, below `folder`."""

    def __init__(self, client, pod, folder):
        self.api, self.folder, self.meta, self.spec = client, folder, pod["metadata"], pod["spec"]
        self.core = f"/api/v1/namespaces/{self.meta['namespace']}"

    def owned(self, path, group):
        """As the kubelet does for fsGroup."""
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, 0, group or 0)
        path.chmod(0o777 if group is None else 0o2775)
        return path

    def path(self, volume, group):
        """A volume's folder; None: an optional one that is not there. Later: wait."""
        podspec.known("volume", volume, {"name", "persistentVolumeClaim", "emptyDir", "configMap", "secret", "projected"})
        kind = next(key for key in volume if key != "name")
        return getattr(self, kind)(volume[kind], self.folder / volume["name"], group)

    def emptyDir(self, given, path, group):
        podspec.known("emptyDir", given, {"sizeLimit"})
        return path if path.exists() else self.owned(path, group)

    def persistentVolumeClaim(self, given, path, group):
        podspec.known("persistentVolumeClaim", given, {"claimName", "readOnly"})
        claim = self.api.get(f"{self.core}/persistentvolumeclaims/{given['claimName']}")
        if not claim or claim["status"].get("phase") != "Bound":
            raise Later(f"claim {given['claimName']}")
        volume = self.api.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
        return self.owned(path.__class__(volume["spec"]["hostPath"]["path"]), group)

    def configMap(self, given, path, group):
        return self.texts("configmaps", given["name"], given, path, group)

    def secret(self, given, path, group):
        return self.texts("secrets", given["secretName"], given, path, group)

    def texts(self, kind, name, given, path, group):
        podspec.known(kind, given, {"name", "secretName", "optional", "defaultMode"})
        data = self.data(kind, name)
        if data is None:
            if given.get("optional"):
                return None
            raise Later(f"{kind} {name}")
        if not path.exists():
            pods.write_files(self.owned(path, group), data, given.get("defaultMode", 0o644), group)
        return path

    def data(self, kind, name):
        found = self.api.get(f"{self.core}/{kind}/{name}")
        if found and kind == "secrets":
            return {key: base64.b64decode(text).decode() for key, text in found.get("data", {}).items()}
        return found and found.get("data", {})

    def key(self, kind, name, key):
        return (self.data(f"{kind.lower()}s", name) or {}).get(key)

    def projected(self, given, path, group):
        """The volume that the API server's admission adds for a pod that talks to it: token, certificate, namespace."""
        data = {}
        for source in given["sources"]:
            podspec.known("projected", source, {"serviceAccountToken", "configMap", "downwardAPI"})
            if "serviceAccountToken" in source:
                data["token"] = self.token(source["serviceAccountToken"])
            elif "configMap" in source:
                data |= self.data("configmaps", source["configMap"]["name"]) or {}
            else:
                data["namespace"] = self.meta["namespace"]
        pods.write_files(self.owned(path, group), data, given.get("defaultMode", 0o644), group)
        return path

    def token(self, asked):
        made = self.api.call("POST", f"{self.core}/serviceaccounts/{self.spec['serviceAccountName']}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": asked.get("expirationSeconds", TOKEN_S), "boundObjectRef": {
                "apiVersion": "v1", "kind": "Pod", **{key: self.meta[key] for key in ("name", "uid")}}}})
        return made["status"]["token"]


def default_class(plane, name):
    """Which class claims have that name none."""
    for made in ("standard", SHARED):
        plane.kubectl("annotate", "--overwrite", "storageclass", made, f"{DEFAULT_NOTE}={str(made == name).lower()}")


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
