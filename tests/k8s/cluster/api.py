"""The API server's REST interface, as far as the tests' kubelets, provisioner and names need it: one request, and watches."""
import contextlib
import http.client
import json
import ssl
import threading

MERGE = "application/strategic-merge-patch+json"
AGAIN_S = 0.2  # after a watch that could not be had


class Refused(Exception):
    """An answer of 400 and above."""

    def __init__(self, code, what, said):
        super().__init__(f"{what}: {code}: {said.get('message', said)}")
        self.code = code


class Api:
    def __init__(self, host, port, authority, token):
        """`authority`: the file with the certificate that signs the server's."""
        self.host, self.port, self.authority, self.token = host, port, authority, token

    def connection(self, timeout_s):
        trust = ssl.create_default_context(cafile=self.authority)
        trust.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the server's own certificate lacks an extension
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=trust)

    def headers(self, kind="application/json"):
        return {"Authorization": f"Bearer {self.token}", "Content-Type": kind, "Accept": "application/json"}

    def call(self, method, path, body=None, kind="application/json"):
        """The object that the server answers with; Refused where it does not do it."""
        with contextlib.closing(self.connection(30)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), self.headers(kind))
            reply = connection.getresponse()
            said = json.loads(reply.read())
        if reply.status >= 400:
            raise Refused(reply.status, f"{method} {path}", said)
        return said

    def get(self, path):
        """The object, or None: it is not there."""
        try:
            return self.call("GET", path)
        except Refused as why:
            if why.code == 404:
                return None
            raise

    def healthy(self, path="/readyz"):
        try:  # its certificate may not be there yet, either
            with contextlib.closing(self.connection(5)) as connection:
                connection.request("GET", path, headers=self.headers())
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


class Watch(threading.Thread):
    """Lists the objects of `path`, then follows them: `objects` has them by uid; seen(kind, object) is called in this thread
    for each "ADDED", "MODIFIED" and "DELETED". A watch that breaks off begins again."""

    def __init__(self, api, path, seen):
        super().__init__(daemon=True)
        self.api, self.path, self.seen, self.objects = api, path, seen, {}
        self.over, self.socket = threading.Event(), None
        self.start()

    def run(self):
        while not self.over.is_set():
            try:
                self.follow()
            except (OSError, ValueError, http.client.HTTPException, Refused):
                self.over.wait(AGAIN_S)

    def take(self, kind, found):
        uid = found["metadata"]["uid"]
        if kind == "DELETED":
            self.objects.pop(uid, None)
        else:
            self.objects[uid] = found
        self.seen(kind, found)

    def follow(self):
        listed = self.api.call("GET", self.path)
        there = {found["metadata"]["uid"]: found for found in listed["items"]}
        for uid in [uid for uid in self.objects if uid not in there]:
            self.take("DELETED", self.objects[uid])
        for found in there.values():
            self.take("ADDED", found)
        with contextlib.closing(self.api.connection(None)) as connection:
            connection.request("GET", f"{self.path}?watch=1&resourceVersion={listed['metadata']['resourceVersion']}",
                               headers=self.api.headers())
            self.socket = connection.sock
            self.events(connection.getresponse())

    def events(self, reply):
        while line := reply.readline():
            event = json.loads(line)
            if event["type"] == "ERROR" or self.over.is_set():
                return
            self.take(event["type"], event["object"])

    def stop(self):
        self.over.set()
        if self.socket:
            try:
                self.socket.shutdown(2)
            except OSError:
                pass
        self.join()
