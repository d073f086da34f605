#!/usr/bin/env python3
"""The page of a job: where its address is shown, what its events say, and what people see of it in a browser (Chromium;
without it those tests skip). GRADWIRE_SCREENSHOTS=DIR keeps pictures of each state, for people to look at."""
import fcntl
import http.server
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from browser import WHY_NOT, Browser  # noqa: E402
from cluster import DEADLINE_S, LAUNCH, ROOT, SANITIZED, Process, TrainCase, free_ports, slow  # noqa: E402
from watch import dial, get, places, text  # noqa: E402

PAGE = ROOT / "worker" / "control" / "page"
HACK = "window.hacked=1"
HOSTILE = [f'<img src=x onerror="{HACK}">', f"<script>{HACK}</script>", f"</script><script>{HACK}</script>",
           f'"><svg onload={HACK}>', f"' onmouseover='{HACK}", f"<iframe srcdoc='<script>parent.{HACK}</script>'>", f"javascript:{HACK}//:80",
           "<a href=//127.0.0.1:1/>here</a>", "</style><style>*{display:none}", "<!--", "]]>", "&lt;b&gt;&#60;i&#62;", "${7*7}{{7*7}}", "__proto__", "constructor",
           "\u202eesrever\u202c \u2066isolate", "\u200b\ufeff\u2028", "Z\u0351\u036b\u0343" * 9, "a\nb\tc\x1b[2J\x07", "\ufffd\U0001f525\u00e9",
           "%s%n%00", "x" * 2000]
ELEMENTS = set("html head meta title link script style body header h1 p span main section progress dl div dt dd figure figcaption svg "
               "line text polyline circle h2 table thead tbody tr th td a ul li time footer noscript".split())
ATTRIBUTES = set("lang charset name content rel href src defer id class role hidden aria-label max value viewbox x y x1 x2 y1 y2 "
                 "points cx cy r text-anchor data-name data-shown http-equiv".split())
LOOKS = [(1200, 1000, False, "light"), (1200, 1000, True, "dark"), (390, 844, False, "phone"), (390, 844, True, "phone-dark")]


def status(**changes):
    """Of a chief in the middle of a job."""
    worker = {"up": True, "member": True, "incarnation": 16777217, "away_s": 0, "resident_bytes": 73e6, "http": "127.0.0.1:1",
              "heard_s": 0, "tasks": 900, "task_s": 0.0005, "examples_per_s": 1500, "wait_share": 0.9, "slow": False, "staleness": None}
    job = {"run": "r", "generation": 1, "steps": 450, "planned_steps": 900, "epoch": 1, "epochs": 2, "dealt": 1, "lost": 0,
           "rejected": 0, "recoveries": 0, "cut": {"number": 2, "step": 400}, "waits_for": None,
           "workers": [{**worker, "worker": 0}, {**worker, "worker": 1, "slow": True, "task_s": 0.02}],
           "ps": [{"ps": 0, "up": True, "away_s": 0, "resident_bytes": 14e6, "http": "127.0.0.1:2", "heard_s": 0},
                  {"ps": 1, "up": False, "away_s": 13}],
           "metrics": ["accuracy", "auc"], "examples_per_s": 3000, "eta_s": 75, "eta_early": True, "eta_at_most": True,
           "cuts": {"published": 2, "failed": 0, "age_s": 4},
           "warnings": [], "curve": [[i * 10, 2 / i, 3000 + i, 1 - 1 / i, None] for i in range(1, 46)],
           "epoch_curve": [[1, 0.5, 0.8, None, 0.4, 0.85, 0.75]],
           "eval": {"step": 450, "loss": 0.4, "accuracy": 0.85, "auc": 0.75}}
    whole = changes.pop("whole_job", {})
    return {"process": "worker 0", "version": "0.1.0", "role": "worker", "index": 0, "worker": 0, "is_chief": True, "job": "census",
            "update": "sync", "ready": True, "not_ready": None, "state": "training", "waits_for": None, "draining": False,
            "end": None, "whole_job": {**job, **whole}, **changes}


class Answers(http.server.BaseHTTPRequestHandler):
    """As the chief would, with what self.server.status says."""

    def do_GET(self):
        self.server.asked.add(self.path)
        files = {"/": ("page.html", "text/html"), "/page.css": ("page.css", "text/css"), "/page.js": ("page.js", "text/javascript")}
        if self.path in files:
            name, kind = files[self.path]
            body = (PAGE / name).read_bytes()
        elif self.path == "/status" and self.server.hangs.is_set():
            self.server.over.wait(60)
            return
        elif self.path == "/status":
            body, kind = json.dumps(self.server.status).encode(), "application/json"
        elif self.server.full:
            self.send_error(503)
            return
        else:
            self.tell_events()
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def tell_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            self.wfile.write(b"data: " + json.dumps(self.server.status).encode() + b"\n\n")
            while not self.server.over.wait(0.2):  # until the browser goes
                if self.server.ends_streams:
                    break
                self.wfile.write(b": beat\n\n")
        except OSError:
            pass

    def log_message(self, *words):
        pass


def harmless(test, browser, allowed):
    """The page has the elements and attributes that we made, its links stay, and no script of a text ran."""
    found = browser.run("""
        const all = [...document.querySelectorAll("*")];
        return {elements: all.map(e => e.localName), links: [...document.links].map(a => a.href), hacked: window.hacked,
                attributes: all.flatMap(e => e.getAttributeNames()), scripts: [...document.scripts].map(s => s.src)};""")
    test.assertLessEqual(set(found["elements"]), ELEMENTS)
    test.assertLessEqual({name.lower() for name in found["attributes"]}, ATTRIBUTES)
    for at in found["links"] + found["scripts"]:
        test.assertRegex(at, allowed)
    test.assertIsNone(found["hacked"])
    test.assertEqual(browser.complaints(), [])  # so the policy had nothing to forbid


@unittest.skipIf(WHY_NOT, WHY_NOT)
@unittest.skipIf(SANITIZED, "no program of ours runs in it")
class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        cls.addClassCleanup(cls.server.server_close)
        cls.server.daemon_threads, cls.server.over, cls.server.asked = True, threading.Event(), set()
        cls.server.hangs, cls.server.ends_streams = threading.Event(), False
        cls.addClassCleanup(cls.server.over.set)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.server.shutdown)
        cls.browser = Browser(free_ports(1)[0])
        cls.addClassCleanup(cls.browser.close)

    def show(self, name, **changes):
        """The page as a reader sees it, once the badge shows this state."""
        b = self.browser
        self.server.full = changes.pop("full", False)
        self.server.status = status(**changes)
        for width, height, dark, look in LOOKS:
            b.look(width, height, dark)
            b.open(f"http://127.0.0.1:{self.server.server_port}/")
            b.until(f"{name} is shown", lambda: b.run("return document.getElementById('badge').textContent") == name)
            self.assertLessEqual(b.run("return document.documentElement.scrollWidth - innerWidth"), 0, look)
            if folder := os.environ.get("GRADWIRE_SCREENSHOTS"):
                b.screenshot(pathlib.Path(folder) / f"{name}-{look}.png")
        return b.run("return document.body.innerText")

    def test_a_running_job_with_a_slow_worker(self):
        seen = self.show("training")
        for words in ("census", "1 of 2", "450 of 900", "at most about 1:15", "3,000", "step 400, 0:04 ago", "Slow: worker 1, 20 ms for a step",
                      "14 MB", "away 0:13", "waits for others 90 %", "Accuracy", "Auc", "evaluation 0.75"):
            self.assertIn(words, seen)
        for gone in "phase", "16777217", "null", "undefined", "NaN":
            self.assertNotIn(gone, seen)
        self.assertEqual(self.browser.run("return document.querySelectorAll('svg polyline').length"), 6)
        grounds = set()
        for dark in False, True:
            self.browser.look(1200, 800, dark)
            grounds.add(self.browser.run("return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(grounds), 2)

    def test_the_end_is_told_in_words(self):
        self.assertIn("The training is done.", self.show("done", end={"exit_code": 0, "text": ""}, whole_job={"steps": 900}))
        why = "the loss of step 12 is not finite"
        self.assertIn(why, self.show("failed", end={"exit_code": 1, "text": why}))
        self.assertIn("Run gradwire train again to resume", self.show("stopped", end={"exit_code": 143, "text": "stopped"}))

    def test_processes_of_a_job_that_is_done_have_ended_and_are_not_away(self):
        ps = [{**p, "up": False, "away_s": 0} for p in status()["whole_job"]["ps"]]
        seen = self.show("done", end={"exit_code": 0, "text": ""}, whole_job={"steps": 900, "ps": ps})
        self.assertIn("ended", seen)
        self.assertNotIn("away", seen)

    def test_a_chief_that_hangs_is_told_and_one_that_begins_to_train_is_not(self):
        self.show("training")
        self.server.ends_streams = True  # as where training begins; the browser connects again
        try:
            words = self.browser.run("""
                const seen = new Set(), end = Date.now() + 3500;
                return new Promise(done => { const look = () => { seen.add(document.getElementById("badge").textContent);
                  if (Date.now() > end) done([...seen]); else setTimeout(look, 20); }; look(); });""")
            self.assertEqual(words, ["training"])
        finally:
            self.server.ends_streams = False
        self.show("training")
        self.server.hangs.set()
        try:
            b = self.browser
            b.until("the page says it", lambda: "hangs, is stopped" in b.run("return document.getElementById('link').textContent"))
            self.assertEqual(b.run("return document.getElementById('badge').textContent"), "no answer")
        finally:
            self.server.hangs.clear()
        b.until("it answers again", lambda: b.run("return document.getElementById('badge').textContent") == "training")

    def test_who_is_waited_for_and_who_loads(self):
        self.assertIn("Worker 1 is away", self.show("waiting", waits_for="worker 1 is away, last seen 13 s ago", state="waiting"))
        self.assertIn("read their data", self.show("loading", state="loading"))
        seen = self.show("loading", state="loading", loading={"bytes": 1.5e8, "of_bytes": 1.2e9, "rows": 123456, "left_s": 17.2})
        self.assertIn("read their data: 150 MB of 1.2 GB, 123,456 rows, 0:17 left.", seen)
        seen = self.show("loading", state="loading", arrivals=[{"worker": 3, "bytes": 1e8, "of_bytes": 4e8, "rows": 5, "left_s": 65}])
        self.assertIn("read their data. Worker 3: loading 25 %, 1:05 left.", seen)
        many = [{"worker": i, "bytes": 1e8, "of_bytes": 4e8, "rows": 5, "left_s": 65} for i in range(1, 1001)]
        seen = self.show("loading", state="loading", role="chief", arrivals=many)
        self.assertIn("Worker 0: loading 25 %, 1:05 left.", seen)
        self.assertIn("Worker 15: loading 25 %, 1:05 left. And 984 more.", seen)

    def test_a_chief_of_its_own_is_no_worker_with_a_number(self):
        of = status()["whole_job"]["workers"]
        workers = [{**of[0], "worker": i, "up": True, "slow": i == 1} for i in (0, 1)]
        seen = self.show("training", role="chief", process="chief 0", whole_job={"workers": workers})
        self.assertIn("the chief", seen)
        self.assertIn("Slow: worker 0, ", seen)
        self.assertNotIn("worker 1", seen)

    def test_a_worker_that_reads_its_data_is_no_worker_that_is_away(self):
        far = {"bytes": 1e8, "of_bytes": 4e8, "rows": 500000, "left_s": 65}
        workers = [{**w, "up": False, "away_s": 13} for w in status()["whole_job"]["workers"]]
        ps = [{**p, "up": True} for p in status()["whole_job"]["ps"]]
        seen = self.show("training", whole_job={"ps": ps, "workers": [{**w, "loading": far} for w in workers]})
        self.assertIn("loading 25 %, 1:05 left", seen)
        self.assertNotIn("away", seen)
        far.update(of_bytes=0, left_s=None)
        self.assertIn("loading", self.show("training", whole_job={"workers": [{**w, "loading": far} for w in workers]}))

    def test_staleness_where_the_mode_has_it(self):
        workers = [{**status()["whole_job"]["workers"][0], "staleness": {"mean": 3.25, "max": 17}}]
        self.assertIn("3.25 updates, at most 17", self.show("training", update="async", whole_job={"workers": workers}))

    def test_hostile_texts_of_every_kind_are_shown_as_they_are(self):
        job = status()["whole_job"]
        self.server.asked.clear()
        for first in range(0, len(HOSTILE), 11):
            texts = HOSTILE[first:first + 11]
            whole = "|".join(texts)
            self.show("failed", job=whole, update=whole, version=whole, process=whole, end={"exit_code": 1, "text": whole}, whole_job={
                "ps": [{**job["ps"][0], "ps": t, "http": t} for t in texts],
                "workers": [{**job["workers"][0], "worker": t, "http": t, "staleness": {"mean": t, "max": t}} for t in texts],
                "metrics": texts, "waits_for": whole, "epoch_curve": [[1] + [0.5] * 2 * (1 + len(texts))],
                "curve": [[i, 1, 2] + [3] * len(texts) for i in range(3)], "eval": {"step": 1, **{t: 0.5 for t in texts}},
                "warnings": [{"time_ms": t, "process": t, "level": t, "text": t} for t in texts]})
            shown = self.browser.run("return document.body.textContent")
            for t in (*texts, whole):
                self.assertIn(t, shown)
            self.assertEqual(self.browser.run("return document.getElementById('warnings').children.length"), len(texts))
            self.assertEqual(self.browser.run("return document.querySelector('title').textContent"), f"failed: {whole}")
            harmless(self, self.browser, rf"^http://127\.0\.0\.1:{self.server.server_port}/")
        self.assertEqual(self.server.asked, {"/", "/page.css", "/page.js", "/events"})

    def test_where_streams_are_full_the_page_asks(self):
        self.assertIn("census", self.show("training", full=True))


class JobTest(TrainCase):
    def event(self, address, until):
        """The first status of /events of which `until` is so. A stream ends where the process begins to train; then, as a
        browser does, it is asked for again."""
        while True:
            told = self.event_of(self.stream(address), until)
            if told:
                return told

    def stream(self, address):
        s = dial(address)
        s.settimeout(120)
        s.sendall(b"GET /events HTTP/1.0\r\n\r\n")
        return s

    def event_of(self, s, until):
        """None: the stream has ended before."""
        try:
            with s, s.makefile("rb") as lines:
                for line in lines:
                    if line.startswith(b"data: ") and until(told := json.loads(line[6:])):
                        return told
        except ConnectionError:
            pass  # the process that read its data has closed it
        return None

    def test_the_address_is_told_and_leads_to_the_page(self):
        job = self.launch(*slow(0.02), "--fault=worker-1=sleep:0.06", keys={"training.epochs": 100000})
        at = job.until("the chief is in processes/http", lambda: places(self.out).get("worker-0"))
        url = f"http://{at}/"
        job.until("the launcher tells the address", lambda: f"the job's page: {url}" in job.stderr())
        said = self.status(self.out, "--open", browser=True)
        self.assertEqual(said.returncode, 0)
        self.assertIn(f"page: {url}", said.stdout)
        self.assertEqual((self.tmp / "opened").read_text(), url + "\n")
        self.assertIn('<script src="page.js"', job.until("the page is there", lambda: text(at, "/")))
        seen = self.event(at, lambda s: (j := s.get("whole_job")) and j["workers"][1]["slow"] and j["curve"]
                           and all(p.get("resident_bytes") for p in j["workers"] + j["ps"]))["whole_job"]
        self.assertEqual([w["slow"] for w in seen["workers"]], [False, True])
        self.assertEqual([p["http"] for p in seen["ps"] + seen["workers"]],
                         [places(self.out)[name] for name in ("ps-0", "ps-1", "worker-0", "worker-1")])
        self.look(url, job)
        stream = self.stream(at)
        job.signal(signal.SIGTERM)
        self.assertEqual(self.event_of(stream, lambda s: s.get("end"))["end"]["exit_code"], 143)
        job.wait(143)
        said = subprocess.run([LAUNCH, "status", self.out, "--open"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.assertIn("has no page", said.stderr)
        self.assertIsNone(get(at, "/"))

    @unittest.skipIf(WHY_NOT, WHY_NOT)
    @unittest.skipIf(SANITIZED, "the browser is not")
    def test_hostile_names_of_columns_classes_and_files_are_text_on_the_page_of_each_process(self):
        column, word, bad = f"<img src=x onerror={HACK}>'\"&", f"'\"><svg onload={HACK}>", f"</td><script>{HACK}</script>"
        label = "\u202e<b>yes"
        rows = self.tmp / f"\u2067<img src=x onerror={HACK}>.csv"
        quoted = ['"{}"'.format(text.replace('"', '""')) for text in (column, label, bad)]
        rows.write_text("".join(",".join(line) + "\n" for line in (
            [quoted[0], "age", "rich"], *([quoted[2], str(i % 9), quoted[1] if i % 2 else "no"] for i in range(400)),
            [quoted[2], quoted[2], "no"])))
        job = self.tmp / "columns.json"
        job.write_text(json.dumps({
            "name": "columns", "model": {"input": {"shape": "auto"}, "layers": [{"dense": {"units": 1, "activation": "sigmoid"}}],
                                         "loss": "binary_crossentropy", "metrics": ["accuracy"]},
            "data": {"format": "csv", "train": str(rows), "header": "names", "bad_rows": "skip", "columns": [
                {"number": "age"}, {"category": {"name": column, "vocabulary": [word]}}, {"label": {"name": "rich", "classes": ["no", label]}}]},
            "training": {"batch_size": 32, "epochs": 1000000}, "optimizer": "sgd"}))
        job = self.launch(*slow(0.02), job=job, keys={name: None for name in self.KEYS})
        b = Browser(free_ports(1)[0])
        self.addCleanup(b.close)
        job.until("all have pages", lambda: len(places(self.out)) == 4)
        b.open(f"http://{places(self.out)['worker-0']}/")
        for text in (column, word, bad, rows.name):
            job.until(f"the page tells of {text}", lambda text=text: text in b.run("return document.body.textContent"))
        for at in places(self.out).values():
            b.open(f"http://{at}/")
            job.until("it is shown", lambda: "/metrics" in b.run("return document.body.innerText"))
            harmless(self, b, r"^http://127\.0\.0\.1:\d+/")

    def test_with_hosts_the_printed_address_leads_to_the_chief_there(self):
        rsh = self.tmp / "rsh"
        rsh.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
        rsh.chmod(0o755)
        (self.tmp / "hosts").write_text("127.0.0.1\n")
        job = self.launch(f"--hosts={self.tmp}/hosts", f"--rsh={rsh}", keys={"training.epochs": 100000})
        at = job.until("the page is in processes/http", lambda: places(self.out).get("worker-0"))
        job.until("the launcher tells the address", lambda: f"the job's page: http://{at}/" in job.stderr())
        job.until("the page is there", lambda: text(at, "/page.js") == (PAGE / "page.js").read_text())
        self.assertTrue(self.event(at, lambda s: (j := s.get("whole_job")) and j["curve"]))
        self.without_descriptors(job, at)
        pid = job.kill("worker-0", signal.SIGKILL)
        job.until_pid("worker-0", other_than=pid)
        job.until("another chief answers there", lambda: get(at, "/healthz") == (200, "ok\n"))
        for _ in range(50):  # connections end, and their places are free again
            self.assertEqual(job.until("it answers", lambda: get(at, "/healthz")), (200, "ok\n"))
        job.signal(signal.SIGTERM)
        job.wait(143)
        self.assertIsNone(get(at, "/"))

    def without_descriptors(self, job, at):
        """A client that connects while the launcher has no descriptor left waits, and the launcher waits too."""
        launcher = job.process.pid
        used = {int(name) for name in os.listdir(f"/proc/{launcher}/fd")}
        free = next(i for i in range(len(used) + 1) if i not in used)
        before = resource.prlimit(launcher, resource.RLIMIT_NOFILE)
        resource.prlimit(launcher, resource.RLIMIT_NOFILE, (free, before[1]))
        try:
            with dial(at) as waits:
                waits.settimeout(DEADLINE_S)
                waits.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                job.until("the launcher says why it does not accept", lambda: "new connections wait" in job.stderr())
                resource.prlimit(launcher, resource.RLIMIT_NOFILE, before)
                self.assertIn(b"200", waits.recv(100))
        finally:
            resource.prlimit(launcher, resource.RLIMIT_NOFILE, before)
        self.assertNotIn("accept", job.stderr())

    def test_the_chief_among_ranks_listens_on_loopback_or_where_it_is_told_to(self):
        port = free_ports(1)[0]
        for flags, address in (([], "127.0.0.1:"), ([f"--http_port={port}", "--http_address=::1"], f"[::1]:{port}/")):
            out = self.tmp / f"out{port if flags else 0}"
            ranks = [Process(self, [LAUNCH, "rank", self.JOB, f"--output={out}", "--address=127.0.0.1", "--ps=1", *flags,
                                    *self.sets({"training.epochs": 100000})], f"rank{i}",
                             {**os.environ, "SLURM_PROCID": str(i), "SLURM_NTASKS": "2", "SLURM_JOB_ID": "5"}) for i in (0, 1)]
            ranks[1].until_said(f"the job's page: http://{address}")
            at = ranks[1].log().split("the job's page: http://")[1].split("/")[0]
            self.until("the page is there", lambda: '<script src="page.js"' in text(at, "/"))
            self.until("it trains", lambda: json.loads(text(at, "/status") or "{}").get("whole_job", {}).get("curve"))
            said = self.status(out, "--open", browser=True)
            self.assertEqual((said.returncode, (self.tmp / "opened").read_text()), (0, f"http://{at}/\n"))
            for line in (f"running, slurm-5-0-0, chief pid {ranks[1].process.pid} on {socket.gethostname()}",
                         f"  ps 0: pid {ranks[0].process.pid} on ", f"  worker 0: pid {ranks[1].process.pid} on ",
                         "  last checkpoint: ", f"  page: http://{at}/\n"):
                self.assertIn(line, said.stdout)
            self.assertNotIn("gone", said.stdout)
            stop = subprocess.run([LAUNCH, "stop", out], stderr=subprocess.PIPE, text=True)
            self.assertEqual((stop.returncode, "end it with: scancel 5.0" in stop.stderr), (1, True))
            for r in ranks:
                r.process.terminate()
            for r in ranks:
                r.wait(143)
            said = self.status(out, "--open")
            self.assertEqual((said.returncode, "has no page" in said.stderr), (4, True))
            self.assertIn("not running, start it again to resume; the last run:", said.stdout)
        self.ranks_elsewhere(out)

    def ranks_elsewhere(self, out):
        """The folder as it would be if its ranks were on a host of another name, and later, when its chief has been killed."""
        attempt = out / "rendezvous/slurm-5-0-0"
        chief = (attempt / "1").read_text().splitlines()
        (attempt / "1").write_text(f"{chief[0]}\n{' '.join(chief[1].split()[:3])} node7\n")
        (attempt / "page").write_text("http://127.0.0.1:4711/ node7\n")
        with open(out / "lock", "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            said = self.status(out, "--open", browser=True)
            self.assertEqual(said.returncode, 1)
            self.assertIn("page: http://127.0.0.1:4711/ on host node7 only; to reach it from here: ssh -L 4711:127.0.0.1:4711 node7", said.stdout)
            self.assertIn("the page is only on host node7", said.stderr)
            lock.write(lock.read())  # as a chief does that takes it
            lock.flush()
            os.utime(out / "lock")
        said = self.status(out)
        self.assertEqual(said.returncode, 4)
        self.assertIn("the last run left no summary (its chief was killed, or refused to start", said.stdout)
        self.assertIn("the run before it:\nmnist-mlp: interrupted", said.stdout.replace("  the", "the"))
        again = out / "rendezvous/slurm-6-0-0"
        again.mkdir()
        (again / "0").write_text(f"127.0.0.1:1\nps 0 {os.getpid()} {socket.gethostname()}\n")
        said = self.status(out)
        self.assertEqual((said.returncode, "1 rank of slurm-6-0-0 has arrived, and the chief has not begun\n" in said.stdout), (0, True))
        with open(out / "lock") as lock:  # the chief of the start before has not ended
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertRegex(self.status(out).stdout, r"running, chief pid \d+; ranks of slurm-6-0-0 have arrived since then\n  last checkpoint")
        self.assertIn("its ranks write to the output of srun", subprocess.run(
            [LAUNCH, "logs", out], stderr=subprocess.PIPE, text=True).stderr)

    def status(self, out, *flags, browser=False):
        script = self.tmp / "browser"
        script.write_text(f"#!/bin/sh\necho \"$1\" > {self.tmp}/opened\n")
        script.chmod(0o755)
        env = {**os.environ, "BROWSER": str(script)} if browser else os.environ
        return subprocess.run([LAUNCH, "status", out, *flags], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def look(self, url, job):
        if WHY_NOT or SANITIZED:
            return
        b = Browser(free_ports(1)[0])
        self.addCleanup(b.close)
        b.open(url)
        job.until("the page says who is slow", lambda: "Slow: worker 1" in b.run("return document.body.innerText"))
        self.assertGreaterEqual(b.run("return document.querySelectorAll('svg polyline').length"), 3)
        self.assertEqual(b.complaints(), [])  # nothing that the Content-Security-Policy forbids


if __name__ == "__main__":
    unittest.main()
