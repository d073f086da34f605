#!/usr/bin/env python3
# labels: short
"""The pages that every process of a job serves by HTTP while it trains: the numbers equal the summary's, the pages are for
Prometheus or JSON, they are found again after a restart, and hostile clients change nothing. Logs in JSON, and the last words."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import PS, SANITIZED, TSAN, WORKER, Process, TrainCase, free_ports  # noqa: E402
from watch import Metrics, dial, get, metrics, places, text  # noqa: E402

LOOK = {"data.synthetic_train_rows": 4000, "data.synthetic_eval_rows": 2000}


class HttpTest(TrainCase):
    KEYS = {**TrainCase.KEYS, "ps.threads": 1}  # shard I is on ps I, on a host of any number of cores

    def everybody(self, job, n=4):
        return job.until("processes/http names all", lambda: len(p := places(self.out)) == n and p)

    def last_look(self, *flags, update="sync"):
        """The pages of each process when all is learned and counted, and the summary: the end waits for an evaluator, which is
        stopped. Both workers take part, however late worker 1 comes: sync waits for it, and alone a slow chief takes long."""
        job = self.launch("--evaluator", *flags, keys={**LOOK, "training.update": update, "timeouts.worker_rejoin_s": 100})
        of = self.everybody(job, 5)
        job.kill("evaluator-0", signal.SIGSTOP)
        del of["evaluator-0"]

        def all_learned():
            last = {name: metrics(address) for name, address in of.items()}
            if not all(last.values()):
                return None
            workers = last["worker-0"], last["worker-1"]
            if any(w.get("gradwire_tasks_total") is None for w in workers):
                return None  # a process that still reads its data counts nothing yet
            planned = last["worker-0"].get("gradwire_job_planned_steps")
            learned = [last["worker-0"].get("gradwire_job_steps"),
                       *(last[f"ps-{i}"].get("gradwire_shard_updates_total", shard=i) for i in (0, 1))]
            # A shard is through with a step before the workers have heard of it and counted it.
            seen = [w("gradwire_seen_steps_total") for w in workers]
            learned += [min(seen)] if update == "sync" else [sum(seen)]
            counted = all(w("gradwire_push_pull_seconds_count") == w("gradwire_tasks_total") for w in workers)
            return planned and learned == [planned] * 4 and counted and last

        last = job.until("all is learned", all_learned)
        self.assertEqual(json.loads(text(of["worker-0"], "/status"))["whole_job"]["eta_s"], 0)
        job.kill("evaluator-0", signal.SIGCONT)
        job.wait()
        self.assertEqual(places(self.out), {})
        return last, self.summary()

    def check_workers(self, last, s):
        for account in s["per_worker"]:
            seen = last[f"worker-{account['worker']}"]
            self.assertEqual(seen("gradwire_tasks_total"), account["tasks"])
            self.assertEqual(seen("gradwire_examples_total"), account["examples"])
            self.assertEqual(seen.histogram("gradwire_push_pull_seconds"), account["tasks"])
            for phase in "compute", "push", "wait":
                self.assertEqual(seen.histogram("gradwire_step_phase_seconds", phase=phase), account["tasks"])
            self.assertLessEqual(seen("gradwire_step_phase_seconds_sum", phase="compute"),
                                 account["computed_s"] + 0.01)

    def test_the_counts_are_those_of_the_summary(self):
        last, s = self.last_look()
        self.check_workers(last, s)
        chief, shards = last["worker-0"], [last["ps-0"], last["ps-1"]]
        self.assertEqual(chief("gradwire_job_steps"), s["steps"])
        self.assertEqual(chief("gradwire_job_planned_steps"), s["steps"])
        self.assertEqual(chief("gradwire_chief") - last["worker-1"]("gradwire_chief"), 1)
        for i, ps in enumerate(shards):
            self.assertEqual(ps("gradwire_shard_step", shard=i), s["batches"]["applied_min"])
            self.assertEqual(ps("gradwire_shard_updates_total", shard=i), s["steps"])
            self.assertEqual(ps("gradwire_shard_worker_connected", shard=i), 2)
            self.assertGreaterEqual(ps("gradwire_shard_pushes_total"), 2 * s["steps"])
        self.assertEqual(sum(ps("gradwire_shard_duplicates_total") for ps in shards), s["batches"]["duplicates"])
        elements = sum(ps("gradwire_shard_elements") for ps in shards)
        self.assertTrue(0 <= elements - (784 * 128 + 128 + 1280 + 10) < 64, elements)  # tensors are aligned
        sent = last["worker-0"]("gradwire_sent_bytes_total") + last["worker-1"]("gradwire_sent_bytes_total")
        self.assertAlmostEqual(sum(ps("gradwire_shard_received_bytes_total") for ps in shards) / sent, 1, delta=0.01)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_the_staleness_of_each_worker_is_the_summarys(self):
        last, s = self.last_look("--fault=worker-0=sleep:0.3", update="async")
        self.check_workers(last, s)
        for worker in s["staleness"]["workers"]:
            counts = [last[ps].histogram("gradwire_staleness_updates", worker=worker["worker"]) for ps in ("ps-0", "ps-1")]
            sums = [last[ps]("gradwire_staleness_updates_sum", worker=worker["worker"]) for ps in ("ps-0", "ps-1")]
            self.assertEqual(sum(counts), sum(worker["histogram"]))
            self.assertAlmostEqual(sum(sums) / sum(counts), worker["mean"], places=9)

    def test_all_pages_of_all_processes(self):
        job = self.launch(keys={"training.epochs": 100000})
        of = self.everybody(job)
        job.until_cut(0)
        for name, address in of.items():
            job.until(f"{name} trains", lambda: json.loads(text(address, "/status") or "{}").get("state") == "training")
            self.assertEqual(get(address, "/readyz"), (200, "ready\n"))
            self.assertEqual(get(address, "/healthz"), (200, "ok\n"))
            self.assertEqual(get(address, "/writable")[0], 404)
            status = json.loads(text(address, "/status"))
            self.assertEqual((status["process"], status["ready"]), (name.replace("-", " "), True))
            mine = '<script src="page.js"' if status.get("is_chief") else f"<h1>{status['process']}</h1>"  # the job's page
            self.assertIn(mine, text(address, "/"))
            Metrics(text(address, "/metrics"))
        status = json.loads(text(of["worker-0"], "/status"))
        self.assertEqual([w["up"] for w in status["whole_job"]["workers"]], [True, True])

        pid = job.kill("worker-1", signal.SIGKILL)
        job.until_pid("worker-1", other_than=pid)
        before = status["whole_job"]["workers"][1]["incarnation"]
        again = of["worker-1"]  # where it was
        job.until("worker 1 trains again", lambda: (
            status := json.loads(text(again, "/status") or "{}")).get("state") == "training"
            and status["training"]["incarnation"] > before)

        job.signal(signal.SIGTERM)
        job.wait(143)

    @unittest.skipUnless(shutil.which("promtool"), "promtool (Debian package prometheus) is not there")
    def test_promtool_finds_nothing_wrong(self):
        job = self.launch(keys={"training.epochs": 100000, "training.update": "async", "compression.push": "int8"})
        of = self.everybody(job)
        job.until("an epoch is evaluated", lambda: "gradwire_job_eval_loss" in text(of["worker-0"], "/metrics"))
        for shard in (0, 1):
            for name, direction, codec in (("worker-0", "push", "int8"), ("worker-1", "push", "int8"),
                                           (f"ps-{shard}", "reply", "none")):
                labels = {"direction": direction, "shard": shard, "codec": codec}
                job.until(f"{name} says {labels}", lambda: (
                    m := metrics(of[name])) and m.get("gradwire_compression_codec_info", **labels) == 1)
        for address in of.values():
            p = subprocess.run(["promtool", "check", "metrics"], input=text(address, "/metrics"), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual((p.returncode, p.stdout), (0, ""))
        job.signal(signal.SIGTERM)
        job.wait(143)

    def test_hostile_clients_change_nothing(self):
        keys = {"training.epochs": 2 if SANITIZED else 6}
        want = self.undisturbed(keys=keys)
        job = self.launch(keys=keys)
        of = self.everybody(job)
        over = threading.Event()
        words = [b"GET /metrics HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 100000, b"\0" * 4096,
                 b"POST /status HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"GET /met", b"",
                 b"GET /" + b"%00" * 3000 + b" HTTP/1.1\r\n\r\n", b"GET http://[::1/ HTTP/9.9\r\n\r\n"]

        def bother(address):
            open_ones = []
            while not over.is_set():
                for word in words:
                    try:
                        s = dial(address)
                        s.settimeout(0.05)
                        s.sendall(word)
                    except OSError:
                        continue
                    open_ones.append(s)  # never read
                while len(open_ones) > 60:
                    open_ones.pop(0).close()
                over.wait(0.02)
            for s in open_ones:
                s.close()

        threads = [threading.Thread(target=bother, args=(address,)) for address in of.values()]
        for t in threads:
            t.start()
        try:
            job.wait()
        finally:
            over.set()
            for t in threads:
                t.join()
        s = self.summary()
        self.assertEqual((s["digest"], s["restarts"]), (want, 0))

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_by_hand_a_worker_says_whom_it_waits_for(self):
        ports = free_ports(5)
        hosts = [f"--ps_hosts=127.0.0.1:{ports[0]}", f"--worker_hosts=127.0.0.1:{ports[1]},127.0.0.1:{ports[4]}",
                 f"--job={self.JOB}", f"--output={self.out}", *self.sets({})]
        worker = Process(self, [WORKER, "--job_name=worker", "--task_index=1", *hosts, f"--http_port={ports[2]}",
                                "--http-address=127.0.0.1", "--log_format=json",
                                f"--termination_message={self.tmp}/words"], "worker")
        at = f"127.0.0.1:{ports[2]}"
        def waits_for(what):
            return (s := json.loads(text(at, "/status") or "{}")) and s["state"] == "waiting" and what in s["waits_for"]

        self.until("it waits", lambda: waits_for("for ps 0"))
        self.assertEqual([get(at, "/healthz"), get(at, "/readyz")], [(200, "ok\n"), (200, "ready\n")])  # and it is found
        self.assertEqual([metrics(at)("gradwire_state", state=s) for s in ("waiting", "training")], [1, 0])
        ps = Process(self, [PS, "--job_name=ps", "--task_index=0", *hosts, f"--http_port={ports[3]}"], "ps")
        self.until("ps is ready", lambda: get(f"127.0.0.1:{ports[3]}", "/readyz") == (200, "ready\n"))
        self.until("the chief is waited for", lambda: waits_for("for the chief"))
        self.assertEqual(json.loads(text(f"127.0.0.1:{ports[3]}", "/status"))["state"], "waiting")
        for p in worker, ps:
            p.process.terminate()
            p.wait(143)
        lines = [json.loads(line) for line in worker.log().splitlines()]
        self.assertEqual({(line["process"], *line) for line in lines},
                         {("worker 1", "time", "level", "process", "message")})
        self.assertEqual((self.tmp / "words").read_text(), lines[-1]["message"])

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_http_is_where_the_role_is_and_a_web_site_with_this_address_reads_nothing(self):
        ports = free_ports(5)
        hosts = [f"--ps_hosts=127.0.0.1:{ports[0]}", f"--worker_hosts=127.0.0.1:{ports[1]}", f"--job={self.JOB}",
                 f"--output={self.out}", *self.sets({})]
        ps = Process(self, [PS, "--job_name=ps", "--task_index=0", *hosts, f"--http_port={ports[2]}"], "ps")
        wide = Process(self, [WORKER, "--job_name=worker", "--task_index=0", *hosts, f"--http_port={ports[3]}",
                              "--http_address=*", "--set=training.epochs=1000"], "worker")
        self.until("both answer", lambda: all(get(f"127.0.0.1:{port}", "/readyz") for port in ports[2:4]))
        with self.assertRaises(ConnectionRefusedError):
            dial(f"127.0.0.2:{ports[2]}")
        dial(f"127.0.0.2:{ports[3]}").close()
        for port in ports[2:4]:
            for host, status in (("evil.example.com", 403), (f"evil.example.com:{port}", 403), ("localhost:1", 200)):
                with dial(f"127.0.0.1:{port}") as s:
                    s.sendall(f"GET /status HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                    answer = s.makefile("rb").read().decode()
                self.assertEqual((answer.split()[1], '"process"' in answer or '"role"' in answer), (str(status), status == 200), answer)
        for p in wide, ps:
            p.process.terminate()
            p.wait(143)

    def loading_of_worker_1(self, job, chief):
        """Kills it, and stops the next one as soon as the chief shows that it reads its data: it may have read them meanwhile."""
        for _ in range(5):
            job.until("worker 1 trains", lambda: json.loads(text(chief, "/status"))["whole_job"]["workers"][1]["up"])
            before = json.loads(text(chief, "/status"))["whole_job"]["workers"][1]["incarnation"]
            pid = job.kill("worker-1")

            def look():
                worker = json.loads(text(chief, "/status"))["whole_job"]["workers"][1]
                return worker["incarnation"] > before and "late" or worker["loading"]
            seen = job.until("the next one reads its data", look)
            pid = job.until_pid("worker-1", other_than=pid)
            if seen != "late":
                os.kill(pid, signal.SIGSTOP)
                return pid, seen
        self.fail(f"the chief never showed a worker that reads its data\n{job.logs()}")

    def reads_slowly(self, pid, told):
        """It runs for some ms each second, in which it tells the chief how far it is. Then it is stopped."""
        while not told.wait(1):
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.01)
            os.kill(pid, signal.SIGSTOP)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_the_chief_knows_a_worker_that_reads_its_data(self):
        # The host has no room for a common copy of the rows: else a worker that comes back would not read them again.
        job = self.launch(keys={"training.epochs": 100000, "data.synthetic_train_rows": 150000, "timeouts.worker_rejoin_s": 100},
                          before=("prlimit", f"--fsize={32 << 20}"))
        chief = self.everybody(job)["worker-0"]
        job.until_cut(0)
        pid, seen = self.loading_of_worker_1(job, chief)
        reads = threading.Thread(target=self.reads_slowly, args=(pid, told := threading.Event()))
        self.addCleanup(reads.join)
        self.addCleanup(told.set)
        reads.start()
        self.assertEqual(set(seen), {"bytes", "of_bytes", "rows", "left_s"})
        waits = "for worker 1, which reads its data"
        job.until_said("worker-0", waits)
        kept = self.out / "processes/progress.json"
        job.until("the launcher knows it", lambda: '"workers":[{"name":"worker 1","bytes":' in kept.read_text())
        worker = json.loads(text(chief, "/status"))["whole_job"]["workers"][1]
        self.assertEqual((worker["up"], worker["member"]), (False, True))
        self.assertGreater(worker["resident_bytes"], 0)
        self.assertEqual(json.loads(text(chief, "/status"))["whole_job"]["waiting"]["why"], "loading")
        for name in "bytes", "total_bytes", "rows", "left_seconds":
            self.assertIsNotNone(metrics(chief)(f"gradwire_job_worker_loading_{name}", worker=1))
        told.set()
        reads.join()
        job.until("it is stopped", lambda: json.loads(text(chief, "/status"))["whole_job"]["waiting"]["why"] == "away")
        worker = json.loads(text(chief, "/status"))["whole_job"]["workers"][1]
        self.assertEqual((worker["up"], worker["loading"]), (False, None))
        job.until("the launcher knows it", lambda: '"loading":null' in kept.read_text())
        os.kill(pid, signal.SIGCONT)
        job.until("it trains, and loads no longer", lambda: (
            w := json.loads(text(chief, "/status"))["whole_job"]["workers"][1])["up"] and w["loading"] is None)
        job.signal(signal.SIGTERM)
        job.wait(143)

    def test_a_process_is_found_while_it_reads_its_data(self):
        for role in "chief", "worker":
            for rows in 200000, 300000, 400000:  # a second or more, in which a loaded machine may not let us look
                if seen := self.seen_while_it_reads(role, rows):
                    break
            self.assertEqual(seen, ["loading", 1, (200, "ok\n"), "loading"], role)

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_a_chief_that_reads_its_data_shows_workers_that_read_theirs(self):
        for rows in 200000, 300000, 400000:  # a second or more, in which a loaded machine may not let us look
            if seen := self.arrivals(rows):
                break
        else:
            self.fail("the chief had always read its data before the worker was seen")
        self.assertEqual([set(w) for w in seen], [{"worker", "bytes", "of_bytes", "rows", "left_s"}])
        self.assertEqual(seen[0]["worker"], 1)

    def arrivals(self, rows):
        """Those that the chief shows. None: it has read its data meanwhile."""
        ports = free_ports(4)
        at = f"127.0.0.1:{ports[3]}"
        hosts = [f"--ps_hosts=127.0.0.1:{ports[0]}", f"--worker_hosts=127.0.0.1:{ports[1]},127.0.0.1:{ports[2]}",
                 f"--job={self.JOB}", f"--output={self.out}", f"--set=data.synthetic_train_rows={rows}"]
        ps = Process(self, [PS, "--job_name=ps", "--task_index=0", *hosts], "ps")
        ps.until_said("waiting for the chief")
        both = [Process(self, [WORKER, "--job_name=worker", f"--task_index={i}", *hosts, *at_http], f"worker-{i}")
                for i, at_http in ((1, []), (0, [f"--http_port={ports[3]}", "--http_address=127.0.0.1"]))]

        def look():
            status = json.loads(text(at, "/status") or '{"state": "loading"}')
            return status.get("arrivals") or status["state"] != "loading" and "late"
        seen = self.until("the worker is seen, or the data are read", look)
        if seen != "late":
            self.assertNotIn('worker_loading_rows{worker="0"}', text(at, "/metrics"))
        for p in (*both, ps):
            p.process.kill()
            p.process.wait()
        return None if seen == "late" else seen

    def seen_while_it_reads(self, role, rows):
        """None: it has read them meanwhile."""
        ps, chief, worker, http = free_ports(4)
        at = f"127.0.0.1:{http}"
        p = Process(self, [WORKER, f"--job_name={role}", "--task_index=0", f"--ps_hosts=127.0.0.1:{ps}",
                           f"--chief_host=127.0.0.1:{chief}", f"--worker_hosts=127.0.0.1:{worker}", f"--job={self.JOB}",
                           f"--output={self.out}", "--http_address=127.0.0.1", f"--set=data.synthetic_train_rows={rows}",
                           f"--http_port={http}"], role)
        self.until(lambda: f"it is ready\n{p.log()}", lambda: get(at, "/readyz") == (200, "ready\n"))
        seen = [json.loads(text(at, "/status"))["state"], metrics(at)("gradwire_state", state="loading"), get(at, "/healthz")]
        if role == "chief":
            dial(f"127.0.0.1:{chief}").close()  # its own port, too
        seen.append(json.loads(text(at, "/status"))["state"])
        p.process.terminate()
        p.wait(143)
        return seen if seen[-1] == "loading" else None

    @unittest.skipIf(TSAN, "slow, and has no other threads than the rest")
    def test_wrong_places_are_refused(self):
        flags = ["--job_name=ps", "--task_index=0", f"--ps_hosts=127.0.0.1:{free_ports(1)[0]}", f"--job={self.JOB}",
                 f"--output={self.out}", *self.sets({})]
        for wrong, code, words in ((["--http_port=65536"], 2, "--http_port: '65536' is not allowed; allowed: 0 to 65535"),
                                  (["--log_format=xml"], 2, "allowed: text, json"),
                                  (["--http_address=127.0.0.1"], 2, "needs --http_port=PORT too"),
                                  (["--http_port=80", "--http_address=192.0.2.1"], 1, "--http_port: listen on 192.0.2.1:80")):
            p = Process(self, [PS, *flags, f"--termination_message={self.tmp}/words", *wrong], "ps").wait(code)
            self.assertIn(words, p.log())
            self.assertIn((self.tmp / "words").read_text(), p.last_line())


if __name__ == "__main__":
    unittest.main()
