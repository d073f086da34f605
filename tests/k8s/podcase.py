"""Shared code of the tests that start overlays as containers of the real image: the overlays' objects, short jobs, and a case
with a cluster and the job's claim."""
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import facts  # noqa: E402
import pods  # noqa: E402
import render  # noqa: E402
import watch  # noqa: E402
from cluster import Case  # noqa: E402

TLS_GUIDE = facts.ROOT / "docs/guides/kubernetes-tls.md"
TOKEN = {"gradwire-token": {"token": "0123456789abcdef0123456789abcdef\n"}}
SMALL = ["--set=data.synthetic_train_rows=20000", "--epochs=4", "--set=checkpoint.every_steps=20",
         "--set=checkpoint.every_seconds=0"]
FEW = ["--set=data.synthetic_train_rows=2000", "--set=data.synthetic_eval_rows=100", "--epochs=2"]
LONG = [*FEW, "--epochs=2000", "--set=checkpoint.every_steps=50", "--set=checkpoint.every_seconds=0"]


def overlay(name):
    return render.kustomize(facts.ROOT / "k8s" / name)


def of_kind(docs, kind):
    return next(doc for doc in docs if doc["kind"] == kind)


def tensorflow(replica):
    return replica["template"]["spec"]["containers"][0]


def alone(folder, job, args=()):
    """The summary of the same job in one process tree on this host, below `folder`: the same bits."""
    (folder / "job.yaml").write_text(job)
    subprocess.run([facts.ENTRYPOINT, f"--job={folder}/job.yaml", f"--output={folder}/alone", *args], check=True,
                   env=facts.environment(), capture_output=True)
    return json.loads((folder / "alone/summary.json").read_text())


def certificate(folder, names):
    """Makes tls.crt, tls.key and ca.crt with the commands of docs/guides/kubernetes-tls.md; once more, and the CA stays."""
    lines = re.search(r"^```sh\n(openssl (?:.*\n)+?)```", TLS_GUIDE.read_text(), re.M)[1].splitlines()
    assert len([line for line in lines if line.startswith("openssl")]) == 3, lines
    script = "\n".join(lines[1:] if folder.exists() else lines).replace("DNS:*.team.svc", names)
    assert names in script, script
    folder.mkdir(exist_ok=True)
    subprocess.run(["sh", "-ec", script], cwd=folder, check=True, capture_output=True)
    return folder


class PodCase(Case):
    """Its tests want render.wanted, pods.wanted and facts.wanted."""
    IN_MEMORY = False

    def cluster(self, name, args=SMALL, secrets=TOKEN, **more):
        return pods.Cluster(self, overlay(name) if isinstance(name, str) else name, args, secrets, **more)

    @property
    def claim(self):
        return self.tmp / "volumes/gradwire-output"

    def summary_of(self, path=None):
        return json.loads(((path or self.claim) / "summary.json").read_text())

    def alone(self, args=SMALL):
        return alone(self.tmp, of_kind(overlay("job"), "ConfigMap")["data"]["job.yaml"], args)

    def names_of(self, name):
        """The names of the certificate in the table of docs/guides/kubernetes-tls.md."""
        return re.search(rf"^\| `{name}` \| `([^`]+)` \|", TLS_GUIDE.read_text(), re.M)[1].replace("NAMESPACE", "team")

    def certificate(self, names):
        """The Secret gradwire-tls; once more, and the CA stays."""
        folder = certificate(self.tmp / "certificates", names)
        return {"gradwire-tls": {name: (folder / name).read_text() for name in ("tls.crt", "tls.key", "ca.crt")}}

    def cuts(self):
        return len(list((self.claim / "checkpoints").glob("cut-*/manifest.gw")))

    def done(self, cluster, deadline_s=400, **more):
        self.assertEqual(cluster.run(deadline_s, **more), "Succeeded", cluster.all_logs())
        summary = self.summary_of()
        self.assertEqual((summary["status"], summary["exit_code"]), ("done", 0))
        return summary

    def all_end_with(self, cluster, *codes, deadline_s=300):
        self.assertLessEqual(set(cluster.wait_all(deadline_s).values()), set(codes), cluster.all_logs())

    def trains(self, name, **more):
        cluster = self.cluster(name, **more)
        cluster.start_all()
        return self.done(cluster), cluster

    def speaks_tls(self, cluster, pod):
        """Until it has had a connection: a worker may come after the first cut."""
        cluster.until(f"{pod.name} has had a connection", lambda: self.metrics_of(cluster, pod)("gradwire_tls_connections_total") > 0)

    def metrics_of(self, cluster, pod):
        return cluster.until(f"{pod.name} answers", lambda: watch.metrics(f"{pod.address}:8080"))
