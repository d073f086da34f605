"""The HTTP pages of a process, for the e2e tests."""
import re
import socket
import urllib.error
import urllib.request

# Where the environment names a proxy, a process of this machine is not behind it.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def get(address, path, timeout_s=30):
    """(status, text) of a GET; None: nobody is there, or the answer was cut off."""
    try:
        with OPENER.open(f"http://{address}{path}", timeout=timeout_s) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (OSError, ValueError):
        return None
    except Exception as error:  # http.client's, where it ends in the middle
        if "http.client" in type(error).__module__:
            return None
        raise


def accepts(host, port, timeout_s):
    """True if a connection is accepted; it is closed immediately, as a kubelet does it."""
    try:
        socket.create_connection((host, port), timeout_s).close()
        return True
    except OSError:
        return False


def text(address, path):
    """Of an answer of 200; "" for any other, and for none."""
    got = get(address, path)
    return got[1] if got and got[0] == 200 else ""


def parse(text):
    """{(name, frozenset of (label, value)): number} of a page of metrics; ValueError if it is no such page."""
    samples, typed = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if name in typed:
                raise ValueError(f"{name} is typed twice")
            typed[name] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.fullmatch(line)
            if not match:
                raise ValueError(f"no sample: {line!r}")
            family = re.sub("_(bucket|sum|count)$", "", match[1])
            if typed.get(match[1] if match[1] in typed else family) is None:
                raise ValueError(f"no type before {line!r}")
            key = match[1], frozenset(LABEL.findall(match[2] or ""))
            if key in samples:
                raise ValueError(f"twice: {line!r}")
            samples[key] = float(match[3])
    return samples


class Metrics:
    def __init__(self, text):
        self.samples = parse(text)

    def __call__(self, name, **labels):
        """The sum of all samples that have these labels."""
        wanted = {(k, str(v)) for k, v in labels.items()}
        found = [v for (n, have), v in self.samples.items() if n == name and wanted <= have]
        if not found:
            raise KeyError(f"{name}{labels}")
        return sum(found)

    def get(self, name, **labels):
        """None: it is not there."""
        try:
            return self(name, **labels)
        except KeyError:
            return None

    def histogram(self, name, **labels):
        """Checks that its buckets grow up to its count; returns the count."""
        wanted = {(k, str(v)) for k, v in labels.items()}
        buckets = sorted((float(dict(have)["le"]), v) for (n, have), v in self.samples.items()
                         if n == name + "_bucket" and wanted <= have)
        counts = [v for _, v in buckets]
        if not counts or counts != sorted(counts) or buckets[-1][0] != float("inf"):
            raise ValueError(f"{name}{labels}: {buckets}")
        if counts[-1] != self(name + "_count", **labels):
            raise ValueError(f"{name}{labels}: the last bucket is not the count")
        return counts[-1]


def metrics(address):
    """Of a process; None: nobody is there."""
    got = get(address, "/metrics")
    return Metrics(got[1]) if got and got[0] == 200 else None


def places(out):
    """{"ps-0": "127.0.0.1:port", ..} of the job that runs on `out`."""
    try:
        lines = (out / "processes/http").read_text().splitlines()
    except FileNotFoundError:
        return {}
    return {f"{role}-{index}": address for role, index, address in map(str.split, lines)}


def dial(address):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=10)
