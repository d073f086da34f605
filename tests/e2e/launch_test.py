#!/usr/bin/env python3
# runs with others
"""The launcher on real processes: fakes in place of ps and worker play what a script of theirs says.

Each start of a process plays the next of its scripts (the last one again and again): a list of actions, see FAKE.
Nothing here waits by sleeping: it waits for an event (a file, an exit, a lock), with a deadline."""
import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, LAUNCH, Case, command_line  # noqa: E402
from terminal import Terminal  # noqa: E402

FAKE = r"""#!/usr/bin/env python3
import json, os, signal, socket, sys, time
here = os.environ["FAKE_DIR"]
if "--doctor" in sys.argv:      # the look before the start
    if os.path.exists(here + "/doctor"):
        sys.stdout.write(open(here + "/doctor").read())
    sys.exit(0)
flags = dict(a[2:].split("=", 1) for a in sys.argv[1:] if "=" in a and not a.startswith("--set="))
me = flags["job_name"] + "-" + flags["task_index"]
scripts = json.load(open(here + "/scripts.json"))
starts = open(here + "/" + me + ".starts", "a+")
starts.write("%d %s\n" % (os.getpid(), json.dumps(sys.argv)))
json.dump(dict(os.environ), open(here + "/" + me + ".env", "w"))
starts.flush()
starts.seek(0)
nth = len(starts.readlines()) - 1
mine = scripts.get(me) or scripts.get(flags["job_name"]) or [["run"]]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
def touch(name):
    open(here + "/" + name, "w").close()
for action in mine[min(nth, len(mine) - 1)]:
    verb, _, rest = action.partition(" ")
    if verb == "run":           # until SIGTERM, then exit as a ps or a worker does
        touch(me + ".ready")
        signal.sigwait([signal.SIGTERM])
        touch(me + ".term")
        sys.exit(int(rest or 143))
    elif verb == "ignore":      # SIGTERM as well
        touch(me + ".ready")
        while True:
            signal.sigwait([signal.SIGTERM])
            touch(me + ".term")
    elif verb == "exit":
        sys.exit(int(rest))
    elif verb == "kill":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), int(rest))
    elif verb == "say":
        print(rest, flush=True)
    elif verb == "progress":
        os.write(int(flags["progress_fd"]), (rest + "\n").encode())
    elif verb == "file":        # its lines, as progress
        os.write(int(flags["progress_fd"]), open(here + "/" + rest, "rb").read())
    elif verb == "summary":
        open(flags["output"] + "/summary.json", "w").write(rest)
    elif verb == "await":       # a file in FAKE_DIR
        end = time.monotonic() + 60
        while not os.path.exists(here + "/" + rest) and time.monotonic() < end:
            time.sleep(0.01)
    elif verb == "accept":      # one connection on the socket that was handed down
        touch(me + ".ready")
        peer = socket.socket(fileno=int(flags["listen_fd"])).accept()[0]
        peer.sendall(str(os.getpid()).encode())
"""

JOB = """name: fake
model:
  input: {shape: [4]}
  layers: [{dense: {units: 2}}]
  loss: mean_squared_error
data: {format: synthetic}
optimizer: sgd
training: {epochs: 1, batch_size: 8, learning_rate: 0.1}
timeouts: {grace_s: 20}
"""


def step_line(step):
    return "progress " + json.dumps({"type": "progress", "epoch": 1, "epochs": 2, "step": step, "steps": 100,
                                     "total_steps": 200, "loss": 0.5, "metric_name": "accuracy", "metric": 0.75,
                                     "examples_per_s": 1000, "left_s": 1.2})


class LaunchTest(Case):
    PROGRAMS = True

    def setUp(self):
        super().setUp()
        for name in ("ps", "worker"):
            path = self.tmp / "bin" / name / name
            path.parent.mkdir(parents=True)
            path.write_text(FAKE)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        (self.tmp / "job.yaml").write_text(JOB)
        self.scripts()
        self.addCleanup(self.end_detached)

    def end_detached(self):
        """A test that failed may have left a launcher in the background. Its guardian ends what it started."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((pathlib.Path(self.out) / "lock").read_text())
            if str(self.out) in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, signal.SIGKILL)

    def scripts(self, **of):
        """scripts(worker_0=[[first start], [second start]], ps=[[..]])"""
        text = json.dumps({name.replace("_", "-"): plays for name, plays in of.items()})
        (self.tmp / "scripts.json").write_text(text)

    def command(self, *flags):
        return [str(LAUNCH), "train", str(self.tmp / "job.yaml"), "--bin-dir", str(self.tmp / "bin"),
                "--output", str(self.out), *flags]

    def environment(self):
        return dict(os.environ, FAKE_DIR=str(self.tmp))

    def train(self, *flags):
        return subprocess.run(self.command(*flags), env=self.environment(), capture_output=True, text=True,
                              timeout=DEADLINE_S, cwd=self.tmp)

    @contextlib.contextmanager
    def background(self, *flags, before=()):
        with open(self.tmp / "stderr", "w") as err, open(self.tmp / "stdout", "w") as out:
            launcher = subprocess.Popen([*before, *self.command(*flags)], env=self.environment(), stdout=out,
                                        stderr=err, cwd=self.tmp)
        try:
            yield launcher
        finally:
            if launcher.poll() is None:
                launcher.kill()
                launcher.wait()
                self.lock_is_free()

    def there(self, *names):
        for name in names:
            self.until(f"{name} is there", (self.tmp / name).exists)

    def ready(self, *names):
        names = names or ("ps-0", "ps-1", "worker-0", "worker-1")
        self.there(*(name + ".ready" for name in names))
        self.until("the launcher tells of them", lambda: {"launcher-0", *names} <= self.pids().keys())

    def starts(self, name):
        path = self.tmp / f"{name}.starts"
        return path.read_text().splitlines() if path.exists() else []

    def stderr(self):
        return (self.tmp / "stderr").read_text()

    # ---- the terminal ----

    @contextlib.contextmanager
    def on_terminal(self, columns, **environment):
        """A launcher whose stderr is a terminal; the chief says what the files say-0, say-1, ... contain."""
        actions = [action for i in range(9) for action in (f"await say-{i}", f"file say-{i}")]
        self.scripts(worker_0=[[*actions, "exit 0"]], ps=[["await say-8", "exit 0"]], worker_1=[["await say-8", "exit 0"]])
        terminal = Terminal(columns)
        self.addCleanup(terminal.close)
        with open(self.tmp / "stdout", "w") as out:
            launcher = subprocess.Popen(self.command(), env={**self.environment(), "TERM": "xterm", "NO_COLOR": "", **environment},
                                        stdin=terminal.slave, stdout=out, stderr=terminal.slave, cwd=self.tmp)
        try:
            yield launcher, terminal
        finally:
            launcher.kill()
            launcher.wait()
            self.lock_is_free()

    def shows(self, terminal, condition):
        def shown():
            terminal.read()
            return condition(terminal.rows())
        self.until(lambda: "\n".join(terminal.rows()), shown)
        return terminal.rows()

    def say(self, i, *lines):
        (self.tmp / "saying").write_text("\n".join(lines) + "\n")
        (self.tmp / "saying").rename(self.tmp / f"say-{i}")

    def step(self, n):
        return json.dumps({"type": "progress", "epoch": 1, "epochs": 2, "step": n, "steps": 100, "total_steps": 200, "loss": 0.5,
                           "metric_name": "accuracy", "metric": 0.75, "examples_per_s": 1000, "left_s": 1.2})

    def test_a_terminal_has_a_bar_of_its_width_with_lines_above_and_nothing_stale(self):
        far = {"bytes": 1e8, "of_bytes": 4e8, "rows": 500000, "left_s": 3.5}
        with self.on_terminal(110) as (launcher, terminal):
            self.say(0, json.dumps({"type": "loading", "workers": [{"name": f"worker {i}", **far} for i in (1, 2)]}))
            loads = self.shows(terminal, lambda rows: rows and "reads its data" in rows[-1])
            self.assertEqual(loads[-1], "worker 1 reads its data [====>           ] 100 of 400 MB, 500000 rows  ETA 0:04"
                                        "; worker 2 25 %  ETA 0:04")
            self.say(1, self.step(10))
            wide = self.shows(terminal, lambda rows: rows and "] 10/100" in rows[-1])
            self.assertRegex(wide[-1], r"^epoch 1/2 \[=+> +\] 10/100  loss 0.5000  accuracy 0.7500  1000 examples/s  ETA 0:01$")
            self.assertLess(len(wide[-1]), 110)
            terminal.resize(50)
            launcher.send_signal(signal.SIGWINCH)  # the launcher is of no session that has this terminal
            narrow = self.shows(terminal, lambda rows: rows[-1].startswith("epoch 1/2 [") and "examples" not in rows[-1])
            self.say(2, json.dumps({"type": "log", "text": "a line"}))
            rows = self.shows(terminal, lambda rows: "a line" in rows[-2:-1])
            self.assertEqual((rows[-1], sum("] 10/100" in row for row in rows)), (narrow[-1], 1), rows)
            self.assertLess(len(rows[-1]), 50)
            terminal.resize(30)  # and a line comes before the launcher has heard of it
            self.say(3, json.dumps({"type": "log", "text": "another line"}))
            rows = self.shows(terminal, lambda rows: "another line" in rows)
            self.assertEqual(sum("epoch 1/2 [" in row for row in rows), 1, rows)
            self.assertLess(len(rows[-1]), 30)
            for i in range(4, 9):
                self.say(i, json.dumps({"type": "log", "text": f"line {i}"}))
            self.assertEqual(launcher.wait(DEADLINE_S), 0)
            rows = self.shows(terminal, lambda rows: "line 8" in rows)
            self.assertEqual([row for row in rows if "epoch" in row], [], rows)

    def loading(self, *numbers):
        far = {"bytes": 1e8, "of_bytes": 4e8, "rows": 500000, "left_s": 3.5}
        return json.dumps({"type": "loading", "workers": [{"name": f"worker {i}", **far} for i in numbers]})

    def test_a_terminal_shows_the_steps_while_a_worker_reads_its_data(self):
        with self.on_terminal(110) as (_, terminal):
            def seen(i, what, words):
                self.say(i, *what, json.dumps({"type": "log", "text": f"line {i}"}))
                rows = self.shows(terminal, lambda rows: f"line {i}" in rows[-2:-1])
                self.assertIn(words, rows[-1])
            seen(0, [self.step(10)], "] 10/100")
            time.sleep(1.5)  # the steps are slow
            seen(1, [self.loading(1)], "] 10/100")
            time.sleep(4)
            seen(2, [self.loading(1)], "worker 1 reads its data")
            seen(3, [self.loading()], "] 10/100")

    def test_the_log_has_the_steps_while_a_worker_reads_its_data(self):
        def progress(line):
            return f"progress {line}"
        self.scripts(ps=[["await seen", "exit 0"]], worker_1=[["await seen", "exit 0"]],
                     worker_0=[[progress(self.step(10)), progress(self.loading(1)), "await later", progress(self.loading(1)),
                                progress(self.step(20)), progress('{"type":"log","text":"all is said"}'), "await seen", "exit 0"]])
        with self.background() as job:
            self.until(self.stderr, lambda: "worker 1 reads its data" in self.stderr())
            time.sleep(2.5)
            (self.tmp / "later").touch()
            self.until(self.stderr, lambda: "all is said" in self.stderr())
            (self.tmp / "seen").touch()
            self.assertEqual(job.wait(), 0)
        self.assertEqual((self.stderr().count("reads its data"), self.stderr().count("step 20/100")), (1, 1), self.stderr())

    def test_a_dumb_terminal_and_no_color_have_plain_lines(self):
        for environment in ({"TERM": "dumb"}, {"NO_COLOR": "1"}):
            with self.subTest(environment=environment), self.on_terminal(110, **environment) as (launcher, terminal):
                for i in range(9):
                    self.say(i, self.step(10 + i))
                self.assertEqual(launcher.wait(DEADLINE_S), 0)
                rows = self.shows(terminal, lambda rows: any("step 10/100" in row for row in rows))
                self.assertTrue(all(" info launcher: " in row or "launcher: " in row for row in rows if "epoch" in row), rows)
                self.assertFalse([row for row in rows if "\x1b" in row or "] 1" in row], rows)
            for i in range(9):
                (self.tmp / f"say-{i}").unlink()

    # ---- exits ----

    def test_what_the_chief_has_read_is_shown_and_others_wait_for_it_without_a_warning(self):
        far = '"bytes":100000000,"of_bytes":400000000,"rows":500000,"left_s":3.5'
        loading = f'progress {{"type":"loading",{far},"workers":[{{"name":"worker 1",{far}}}],"more":2}}'
        wait = "say 2026-01-31T12:00:00.123Z warn ps 0: waiting {} s for the chief"
        self.scripts(ps_0=[["await loads", wait.format(10), "say 2026-01-31T12:00:00.123Z warn ps 0: another", "await seen", "exit 0"]], ps_1=[["await seen", "exit 0"]],
                     worker_0=[[loading, "await loaded", 'progress {"type":"loading"}', "await seen", "exit 0"]],
                     worker_1=[["await seen", "exit 0"]])
        words = "reading the data: 100 of 400 MB, 500000 rows  ETA 0:04"
        with self.background() as job:
            self.until(self.stderr, lambda: f"info launcher: {words}" in self.stderr())
            said = f"  {words}\n  worker 1 {words.replace('reading the', 'reads its')}\n  2 more workers read their data\n"
            self.until("status shows it", lambda: said in self.control("status", str(self.out)).stdout)
            (self.tmp / "loads").touch()
            self.until(self.stderr, lambda: "warn launcher: ps 0: another" in self.stderr())
            (self.tmp / "loaded").touch()
            self.until("status shows that it is over", lambda: "no step yet" in self.control("status", str(self.out)).stdout)
            (self.tmp / "seen").touch()
            self.assertEqual(job.wait(), 0)
        self.assertNotIn("for the chief", self.stderr())

    def test_warnings_of_any_process_reach_the_terminal_once_with_its_name(self):
        def line(level, who, text):
            return f"say 2026-01-31T12:00:00.123Z {level} {who}: {text}"
        self.scripts(ps_0=[[line("warn", "ps 0", "waiting 10 s for the chief"),
                            line("warn", "ps 0", "waiting 20 s for the chief"), "await seen", "exit 0"]],
                     ps_1=[[line("info", "ps 1", "all is well"), "say a library's own line", "await cut",
                            line("warn", "ps 1", "heard again"), "await seen", "exit 0"]],
                     worker_0=[[line("error", "worker 0", "a disk is full"), "await seen", "exit 0"]],
                     worker_1=[['say {"time":"2026-01-31T12:00:00.123Z","level":"warn","process":"worker 1",'
                                '"message":"3 bad rows are left out"}', "await seen", "exit 0"]])
        with self.background() as job:
            def told():
                return all(words in self.stderr() for words in (
                    "warn launcher: ps 0: waiting 10 s for the chief", "warn launcher: worker 1: 3 bad rows are left out",
                    "warn launcher: worker 0: a disk is full"))
            self.until(self.stderr, told)
            os.truncate(self.out / "processes/ps-1.log", 0)  # logrotate's copytruncate
            (self.tmp / "cut").touch()
            self.until(self.stderr, lambda: "warn launcher: ps 1: heard again" in self.stderr())
            (self.tmp / "seen").touch()
            self.assertEqual(job.wait(), 0)
            said = self.stderr()
        self.assertEqual(said.count("for the chief"), 1, said)
        for quiet in ("all is well", "library"):
            self.assertNotIn(quiet, said)

    def test_all_done_is_0_and_the_chiefs_summary_is_completed(self):
        self.scripts(ps=[["await over", "exit 0"]], worker_1=[["await over", "exit 0"]],
                     worker_0=[['progress {"type":"first_step"}', step_line(100),
                                'summary {"status":"done","job":"fake","steps":200,"epochs":2,"loss":0.125}',
                                "say over", "exit 0"]])
        (self.tmp / "over").touch()
        got = self.train()
        self.assertEqual(got.returncode, 0, got.stderr)
        s = self.summary()
        self.assertEqual((s["status"], s["exit_code"], s["restarts"], s["loss"]), ("done", 0, 0, 0.125))
        self.assertGreater(s["first_step_s"], 0)
        self.assertEqual(set(s["peak_rss_bytes"]), {"ps 0", "ps 1", "worker 0", "worker 1"})
        self.assertGreater(min(s["peak_rss_bytes"].values()), 1 << 20)
        self.assertIn("fake: done, 2 epochs, 200 steps", got.stdout)
        self.assertIn("epoch 1/2  step 100/100  loss 0.5000  accuracy 0.7500  1000 examples/s", got.stderr)
        self.assertFalse((self.out / "processes/pids").exists())

    def test_the_first_exit_from_1_to_127_ends_the_job_with_its_code_and_line(self):
        line = "2026-01-01T00:00:00.000Z error worker 1: the batch does not fit"
        self.scripts(worker_1=[["await ps-0.ready", "say early line", "say " + line, "say late line", "exit 7"]])
        got = self.train()
        self.assertEqual(got.returncode, 7, got.stderr)
        self.assertIn("worker 1: the batch does not fit", got.stderr)
        self.assertNotIn("late line", got.stderr)
        s = self.summary()
        self.assertEqual((s["status"], s["exit_code"], s["error"]),
                         ("failed", 7, "worker 1: the batch does not fit"))
        self.assertTrue((self.tmp / "ps-0.term").exists())
        self.assertEqual(len(self.starts("worker-1")), 1)

    def test_without_an_error_line_the_last_line_is_told(self):
        self.scripts(ps_0=[["say flag --x: no such flag", "exit 2"]])
        got = self.train()
        self.assertEqual(got.returncode, 2)
        self.assertIn("ps 0: flag --x: no such flag", got.stderr)

    def test_a_stale_summary_never_stands_for_this_run(self):
        self.out.mkdir()
        (self.out / "summary.json").write_text('{"status":"done","digest":"old"}')
        self.scripts(worker_0=[["exit 1"]])
        self.assertEqual(self.train().returncode, 1)
        self.assertEqual(self.summary()["status"], "failed")
        self.assertNotIn("digest", self.summary())

    def test_a_refusal_before_the_first_step_leaves_the_summary_of_a_job_that_is_done(self):
        self.out.mkdir()
        done, failed = '{"status":"done","digest":"old"}', '{"status":"failed","digest":"old"}'
        for was, plays, kept in ((done, ["exit 2"], True), (failed, ["exit 2"], False),
                                 (done, ['progress {"type":"first_step"}', "exit 2"], False)):
            with self.subTest(was=was, plays=plays):
                (self.out / "summary.json").write_text(was)
                self.scripts(worker_0=[plays])
                (self.tmp / "worker-0.starts").unlink(missing_ok=True)
                got = self.train()
                self.assertEqual(got.returncode, 2, got.stderr)
                self.assertEqual((self.out / "summary.json").read_text() == was, kept)

    # ---- restarts ----

    def test_a_process_that_dies_is_started_again_on_the_same_port(self):
        self.scripts(worker_0=[["await go", "exit 0"]], worker_1=[["await go", "exit 0"]],
                     ps_0=[["accept", "kill 9"], ["accept", "await go", "exit 0"]], ps_1=[["await go", "exit 0"]])
        with self.background() as launcher:
            import socket
            self.ready("ps-0")
            argv = json.loads(self.starts("ps-0")[0].split(" ", 1)[1])
            hosts = [a for a in argv if a.startswith("--ps_hosts=")][0].split("=")[1]
            address = hosts.split(",")[0].split(":")
            seen = []
            for _ in range(2):
                with socket.create_connection((address[0], int(address[1])), timeout=DEADLINE_S) as s:
                    seen.append(int(s.recv(64)))
            self.assertEqual(seen, [int(line.split()[0]) for line in self.starts("ps-0")])
            self.until("pids names the new one", lambda: self.pids().get("ps-0") == seen[1])
            (self.tmp / "go").touch()
            self.assertEqual(launcher.wait(DEADLINE_S), 0, self.stderr())
        self.assertEqual(self.summary()["restarts"], 1)
        self.assertIn("ps 0 killed by signal 9 (Killed); starting it again in 0.1 s (restart 1 of 10)",
                      self.stderr())

    def test_an_exit_of_128_or_more_is_a_restart_too(self):
        self.scripts(ps=[["await worker-1.ready", "await over", "exit 0"]],
                     worker_0=[["await over", "exit 0"]],
                     worker_1=[["exit 138"], ["exit 143"], ["say third", "await over", "exit 0"]])
        with self.background() as launcher:
            self.until("the third start", lambda: len(self.starts("worker-1")) == 3)
            (self.tmp / "worker-1.ready").touch()
            (self.tmp / "over").touch()
            self.assertEqual(launcher.wait(DEADLINE_S), 0, self.stderr())
        self.assertEqual(self.summary()["restarts"], 2)
        self.assertIn("in 0.2 s (restart 2 of 10)", self.stderr())
        again = [json.loads((self.tmp / f"{name}.env").read_text()).get("GRADWIRE_STARTED_AGAIN")
                 for name in ("worker-0", "worker-1")]
        self.assertEqual(again, [None, "1"])  # a worker's first start ends if the chief refuses it, a restart waits

    def test_three_deaths_without_a_new_step_end_the_job_naming_the_process(self):
        self.scripts(worker_1=[["kill 9"]])
        got = self.train()
        self.assertEqual(got.returncode, 1)
        self.assertIn("worker 1: killed by signal 9 (Killed); 3 deaths without a new step or checkpoint", got.stderr)
        self.assertEqual(len(self.starts("worker-1")), 3)
        self.assertIn("worker 1", self.summary()["error"])

    def test_a_chief_that_dies_at_the_end_of_its_job_goes_on_while_it_publishes_checkpoints(self):
        kept = 'progress {"type":"checkpoint","cut":%d,"step":200}'
        self.scripts(worker_0=[[step_line(100), "kill 9"], [kept % 4, "kill 9"], [kept % 5, "kill 9"], [kept % 6, "kill 9"], ["exit 0"]],
                     worker_1=[["exit 0"]], ps_0=[["exit 0"]], ps_1=[["exit 0"]])
        got = self.train()
        self.assertEqual((got.returncode, len(self.starts("worker-0"))), (0, 5), got.stderr)

    def test_steps_between_deaths_keep_the_job_alive_until_the_restarts_are_used(self):
        self.scripts(worker_0=[[step_line(1), "kill 9"], [step_line(2), "kill 9"], [step_line(3), "kill 9"],
                               [step_line(4), "kill 9"]])
        got = self.train("--restarts", "3")
        self.assertEqual(got.returncode, 1)
        self.assertIn("worker 0: killed by signal 9 (Killed); all 3 restarts are used", got.stderr)
        self.assertEqual(len(self.starts("worker-0")), 4)

    def test_a_chief_that_dies_when_all_is_learned_does_not_say_that_nothing_was_trained(self):
        nothing = "progress " + json.dumps({"type": "untrained", "text": "nothing was trained: why"})
        for first, times in ((['progress {"type":"first_step"}', "kill 9"], 0), (["kill 9"], 1)):
            self.scripts(ps=[["exit 0"]], worker_0=[first, [nothing, "exit 0"]], worker_1=[["exit 0"]])
            got = self.train("--fresh")
            self.assertEqual((got.returncode, got.stderr.count("nothing was trained: why")), (0, times), got.stderr)
            (self.tmp / "worker-0.starts").unlink()

    def test_once_the_chief_is_done_nobody_is_started_again(self):
        self.scripts(ps=[["await worker-1.starts", "await over", "exit 0"]],
                     worker_0=[["exit 0"]], worker_1=[["await over", "kill 9"]])
        with self.background() as launcher:
            self.until("the chief has left pids", lambda: (self.out / "processes/pids").exists()
                       and len(self.starts("worker-0")) == 1 and "worker-0" not in self.pids())
            (self.tmp / "over").touch()
            self.assertEqual(launcher.wait(DEADLINE_S), 0, self.stderr())
        self.assertEqual(len(self.starts("worker-1")), 1)

    # ---- signals ----

    def test_a_ctrl_c_at_the_last_moment_does_not_undo_a_job_that_is_done(self):
        self.scripts(worker_0=[["run 0"]])
        with self.background() as launcher:
            self.ready()
            launcher.send_signal(signal.SIGINT)
            self.assertEqual(launcher.wait(DEADLINE_S), 0, self.stderr())
        self.assertEqual(self.summary()["status"], "done")

    def test_nohup_is_respected(self):
        with self.background(before=["nohup"]) as launcher:
            self.ready()
            launcher.send_signal(signal.SIGHUP)
            launcher.send_signal(signal.SIGTERM)
            self.assertEqual(launcher.wait(DEADLINE_S), 143, self.stderr())
        self.assertIn("interrupted by SIGTERM", self.summary()["error"])

    def test_ctrl_c_ends_all_with_130_and_sigterm_with_143(self):
        for sig, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(sig), self.background() as launcher:
                self.ready()
                pids = self.pids()
                launcher.send_signal(sig)
                self.assertEqual(launcher.wait(DEADLINE_S), code, self.stderr())
                self.gone(pids.values())
            s = self.summary()
            self.assertEqual((s["status"], s["exit_code"]), ("interrupted", code))
            for file in self.tmp.glob("*.ready"):
                file.unlink()

    def test_an_interrupted_jobs_error_names_what_the_user_did_and_what_the_chief_says(self):
        self.scripts(worker_0=[['summary {"status":"interrupted","error":"checkpoint 3 is written"}', "run"]])
        with self.background() as launcher:
            self.ready()
            launcher.send_signal(signal.SIGINT)
            self.assertEqual(launcher.wait(DEADLINE_S), 130, self.stderr())
        self.assertEqual(self.summary()["error"], "interrupted by Ctrl-C; checkpoint 3 is written")

    def test_the_error_of_a_job_that_another_process_ended_is_that_of_the_process_not_the_chiefs_farewell(self):
        self.scripts(worker_0=[['summary {"status":"interrupted","error":"checkpoint 3 is written"}', "run"]],
                     worker_1=[["await worker-0.ready", "say 2026-01-31T12:00:00.123Z error worker 1: other data", "exit 2"]])
        self.assertEqual(self.train().returncode, 2)
        s = self.summary()
        self.assertEqual((s["status"], s["error"]), ("failed", "worker 1: other data; checkpoint 3 is written"))

    def test_children_stand_in_process_groups_of_their_own(self):
        with self.background():
            self.ready()
            pids = self.pids()
            launcher = pids.pop("launcher-0")
            for pid in pids.values():
                self.assertEqual(os.getpgid(pid), pid)
            self.assertNotIn(os.getpgid(launcher), pids.values())

    def test_a_second_ctrl_c_kills(self):
        self.scripts(ps=[["ignore"]], worker=[["ignore"]])
        with self.background() as launcher:
            self.ready()
            launcher.send_signal(signal.SIGINT)
            self.there("ps-0.term", "worker-1.term")
            self.until("it ends", lambda: launcher.send_signal(signal.SIGINT) or launcher.poll() is not None)
            self.assertEqual(launcher.returncode, 130, self.stderr())
        self.assertIn("Ctrl-C: killing all processes", self.stderr())
        self.assertNotIn("(timeouts.grace_s); killing", self.stderr())

    def test_two_interrupts_at_once_are_one_ctrl_c(self):
        self.scripts(ps_0=[["ignore"]])
        for _ in range(20):  # on a loaded machine the second one may come too late to be the same
            for file in (*self.tmp.glob("*.ready"), *self.tmp.glob("*.term")):
                file.unlink()
            with self.background("--set", "timeouts.grace_s=1") as launcher:
                self.ready()
                launcher.send_signal(signal.SIGINT)
                self.there("worker-0.term")
                launcher.send_signal(signal.SIGINT)
                self.assertEqual(launcher.wait(DEADLINE_S), 130, self.stderr())
            if "killing all processes" not in self.stderr():
                break
        self.assertIn("some processes still run after 1 s", self.stderr())
        self.assertNotIn("killing all processes", self.stderr())

    def test_who_ignores_sigterm_is_killed_after_the_grace(self):
        self.scripts(ps_1=[["ignore"]])
        with self.background("--set", "timeouts.grace_s=1") as launcher:
            self.ready()
            launcher.send_signal(signal.SIGTERM)
            self.assertEqual(launcher.wait(DEADLINE_S), 143, self.stderr())
        self.assertIn("some processes still run after 1 s", self.stderr())

    def test_a_launcher_killed_with_sigkill_leaves_nobody_behind(self):
        self.scripts(ps_0=[["ignore"]])
        with self.background() as launcher:
            self.ready()
            pids = self.pids()
            launcher.kill()
            launcher.wait()
            self.there("ps-0.term", "ps-1.term", "worker-0.term", "worker-1.term")
            start = time.monotonic()
            self.lock_is_free()
            self.assertLess(time.monotonic() - start, 10)
            self.gone(pids.values())

    def test_a_new_launcher_waits_until_the_last_ones_processes_are_gone(self):
        self.scripts(ps_0=[["ignore"], ["exit 0"]], ps_1=[["run"], ["exit 0"]], worker=[["run"], ["exit 0"]])
        with self.background() as launcher:
            self.ready()
            orphan = self.pids()["ps-0"]
            launcher.kill()
            launcher.wait()
            got = self.train()
            self.assertEqual(got.returncode, 0, got.stderr)
            self.assertIn(f"is locked by pid {launcher.pid}", got.stderr)
            self.gone([orphan])

    def test_a_guardian_that_is_killed_is_replaced(self):
        with self.background() as launcher:
            self.ready()
            pids = self.pids()

            def guardian():
                children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
                strange = [int(c) for c in children if int(c) not in pids.values()]
                return [c for c in strange if command_line(c).startswith(b"gradwire-guard\0")]
            first = self.until("a guardian", guardian)[0]
            os.kill(first, signal.SIGKILL)
            self.until("another guardian", lambda: [g for g in guardian() if g != first])
            launcher.kill()
            launcher.wait()
            self.there("ps-0.term", "worker-1.term")
            self.lock_is_free()
            self.gone(pids.values())

    # ---- DIR ----

    def test_a_locked_dir_is_waited_for_and_then_refused_naming_the_pid(self):
        with self.background() as launcher:
            self.ready()
            start = time.monotonic()
            got = self.train()  # waits 15 s
            self.assertEqual(got.returncode, 1)
            self.assertIn(f"pid {launcher.pid}", got.stderr.splitlines()[0])
            self.assertIn(f"still locked by pid {launcher.pid} after 15 s", got.stderr)
            self.assertGreater(time.monotonic() - start, 14)
            self.assertIsNone(launcher.poll())

    def test_fresh_moves_dir_aside(self):
        self.scripts(ps=[["exit 0"]], worker=[["exit 0"]])
        self.assertEqual(self.train().returncode, 0)
        for n in (1, 2):
            (self.out / "mark").write_text(str(n))
            got = self.train("--fresh")
            self.assertEqual(got.returncode, 0, got.stderr)
            self.assertFalse((self.out / "mark").exists())
            self.assertEqual((self.tmp / f"out.{n}" / "mark").read_text(), str(n))

    def job_folder(self, name, summary='{"status":"done"}', aside=True):
        folder = self.tmp / name
        (folder / "processes").mkdir(parents=True)
        (folder / "lock").write_text("1\n")
        if aside:
            (folder / "aside").write_text(f"{self.out}\n")
        if summary:
            (folder / "summary.json").write_text(summary)
        return folder

    def test_what_fresh_left_is_listed_and_removed(self):
        self.scripts(ps=[["exit 0"]], worker=[["exit 0"]])
        for flags in ([], ["--fresh"], ["--fresh"]):
            self.assertEqual(self.train(*flags).returncode, 0)
        (self.out.with_suffix(".1") / "model").mkdir()
        (self.out.with_suffix(".1") / "model/weights.safetensors").write_bytes(bytes(3 << 20))
        (self.tmp / "out.04").mkdir()  # no name that --fresh gives
        (self.tmp / "oux.5").mkdir()  # of another DIR
        said = self.control("old", f"{self.out}/")
        self.assertEqual(said.returncode, 0, said.stderr)
        for dots in (".", "processes/.."):  # inside DIR
            self.assertEqual(self.control("old", dots, cwd=self.out).stdout, said.stdout.replace(str(self.out), str(self.out.resolve())))
        lines = said.stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], [f"{self.out}.1", f"{self.out}.2"])
        self.assertRegex(lines[0], r"  done +3\.\d MB  20\d\d-\d\d-\d\d \d\d:\d\d$")
        self.assertEqual(self.control("old", str(self.out), "--remove=3").returncode, 2)
        self.assertEqual(self.control("old", str(self.out), "--remove", "2", "--remove=2").returncode, 0)
        self.assertEqual(sorted(p.name for p in self.tmp.glob("out*")), ["out", "out.04", "out.1"])
        self.assertEqual(self.control("old", str(self.out), "--remove=all").returncode, 0)
        self.assertEqual(sorted(p.name for p in self.tmp.glob("out*")), ["out", "out.04"])
        none = self.control("old", str(self.out))
        self.assertEqual((none.returncode, "no earlier runs" in none.stdout), (0, True))

    def test_nothing_but_old_folders_of_jobs_is_removed(self):
        self.job_folder("out")
        self.job_folder("out.1", '{"status":"failed"}')
        noted = self.job_folder("out.2")
        (noted / "notes.txt").write_text("mine")
        elsewhere = self.job_folder("elsewhere")
        (self.tmp / "out.3").symlink_to(elsewhere)
        (self.tmp / "out.4").mkdir()
        (self.tmp / "out.4/data.csv").write_text("mine")
        busy = self.job_folder("out.10", None)
        (self.tmp / "out.1/model").symlink_to(elsewhere)  # the link goes, and not what it points to
        with open(busy / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            listed = self.control("old", str(self.out)).stdout.splitlines()
            self.assertEqual([line.split()[0][len(str(self.out)):] for line in listed], [".1", ".2", ".3", ".4", ".10"])
            for line, text in zip(listed, ("  failed  ", "contains notes.txt, which gradwire did not write", "it is not a directory",
                                           "not the output directory of a job", "  running  ")):
                self.assertIn(text, line)
            got = self.control("old", str(self.out), "--remove=all")
            self.assertEqual(got.returncode, 1)
            self.assertEqual(len(got.stderr.splitlines()), 4, got.stderr)
            self.assertIn("out.10 is kept: a job is running in it", got.stderr)
        self.assertEqual(got.stdout.split(":")[0], f"{self.out}.1")
        self.assertEqual(sorted(p.name for p in self.tmp.glob("out*")), ["out", "out.10", "out.2", "out.3", "out.4"])
        self.assertTrue((elsewhere / "processes").is_dir() and (noted / "processes").is_dir())
        for words, text in ((["old", str(self.out), "--remove=x"], "'x' is not allowed; allowed: all, or a number N of"),
                            (["old", str(self.out), "--remove=7"], ".7 does not exist"), (["old", str(self.out / "nowhere")], "No such"),
                            (["old", f"{self.out}.2"], f"did you mean {self.out}?"), (["old", f"{self.out}.4"], "not the output"),
                            (["old"], "DIR"), (["old", str(self.out), "--rm=1"], "unknown flag --rm"), (["olds"], "did you mean old?")):
            got = self.control(*words)
            self.assertEqual((got.returncode, text in got.stderr), (2, True), got.stderr)
        self.assertEqual(self.control("old", str(self.out), "--remove=10").returncode, 0)

    def test_files_that_only_look_temporary_are_kept(self):
        self.job_folder("out")
        old = self.job_folder("out.1")
        for ours in ("summary.json~", "history.jsonl.tmp-0123456789abcdef"):
            (old / ours).write_text("partial")
        for mine in ("notes.txt~", "x.tmp-1", "summary.json.tmp-mine", "model~"):
            with self.subTest(mine):
                (old / mine).mkdir() if mine == "model~" else (old / mine).write_text("mine")
                got = self.control("old", str(self.out), "--remove=all")
                self.assertEqual((got.returncode, f"it contains {mine}, which" in got.stderr, (old / mine).exists()), (1, True, True))
                (old / mine).rmdir() if mine == "model~" else (old / mine).unlink()
        self.assertEqual(self.control("old", str(self.out), "--remove=all").returncode, 0)
        self.assertFalse(old.exists())

    def test_other_jobs_are_not_removed_with_all(self):
        self.job_folder("out")
        self.job_folder("out.1")
        self.job_folder("out.5", aside=False)  # of train --output out.5, or moved by 0.1.0
        used = self.job_folder("out.6")  # moved aside, and trained in since
        os.utime(used / "aside", (1, 1))
        soon = self.job_folder("out.8")  # trained in within the same second
        os.utime(soon / "aside", ns=(10**18, 10**18))
        os.utime(soon / "lock", ns=(10**18 + 5 * 10**8, 10**18 + 5 * 10**8))
        meet = self.job_folder("out.7", None)
        (meet / "lock").unlink()
        (meet / "rendezvous/slurm-17-0-0").mkdir(parents=True)
        listed = self.control("old", str(self.out)).stdout.splitlines()
        self.assertIn("kept: it has no mark of train --fresh", listed[1])
        got = self.control("old", str(self.out), "--remove=all")
        self.assertEqual(sorted(p.name for p in self.tmp.glob("out*")), ["out", "out.5", "out.6", "out.7", "out.8"])
        self.assertEqual(got.returncode, 1)
        self.assertIn("out.7 is kept: ranks are meeting in it", got.stderr)
        (meet / "rendezvous/slurm-17-0-0").rmdir()
        self.assertEqual(self.control("old", str(self.out), "--remove=all").returncode, 0)
        self.assertEqual(self.control("old", str(self.out), "--remove=5", "--remove=6", "--remove=8").returncode, 0)
        self.assertEqual([p.name for p in self.tmp.glob("out*")], ["out"])

    def test_a_removal_that_was_interrupted_is_finished(self):
        self.job_folder("out")
        for left in (["lock"], ["processes", "lock"], ["checkpoints", "lock"], ["lock", "aside"], ["aside"]):
            folder = self.job_folder("out.1", None)
            (folder / "checkpoints").mkdir()
            for p in folder.iterdir():
                if p.name not in left:
                    p.rmdir() if p.is_dir() else p.unlink()
            self.assertEqual(self.control("old", str(self.out), "--remove=1").returncode, 0, left)
            self.assertFalse(folder.exists())

    def test_what_tells_that_it_is_a_jobs_is_removed_last(self):
        self.job_folder("out")
        folder = self.job_folder("out.1")
        (folder / "checkpoints").mkdir()
        (folder / "model").mkdir()
        libc = ctypes.CDLL(None, use_errno=True)
        watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if watch < 0 or libc.inotify_add_watch(watch, os.fsencode(folder), 0x200) < 0:  # IN_DELETE
            self.skipTest("this kernel has no inotify to spare")
        self.assertEqual(self.control("old", str(self.out), "--remove=1").returncode, 0)
        events, names = os.read(watch, 1 << 16), []
        os.close(watch)
        while events:  # int wd, uint32_t mask, cookie, len, name
            mask, _, length = struct.unpack_from("III", events, 4)
            if mask & 0x200:
                names.append(events[16:16 + length].rstrip(b"\0").decode())
            events = events[16 + length:]
        self.assertEqual(names, ["model", "summary.json", "checkpoints", "processes", "lock", "aside"])

    def test_logs_of_several_runs_are_appended(self):
        self.scripts(ps=[["say hello", "exit 0"]], worker=[["exit 0"]])
        self.train()
        self.train()
        self.assertEqual((self.out / "processes/ps-1.log").read_text().count("hello"), 2)

    def test_wrong_input_is_2_and_touches_nothing(self):
        for flags, text in ((["--hosts", "x"], "--hosts x: No such file or directory; give a file with one line for each host"),
                            (["--rsh", "x"], "--rsh needs --hosts=FILE too"),
                            (["--ps", "0"], "--ps: '0' is not allowed; allowed: 1 to 256"),
                            (["--workers", "two"], "--workers: 'two' is not allowed"),
                            (["--nonsense"], "unknown flag --nonsense"),
                            (["--fault", "worker-9=nan:7"], "no such process; this job has worker-0 to worker-1"),
                            (["--fault", "worker-0=x"], "'x' is not allowed; allowed, for tests"),
                            (["--fault", "worker-0="], "'worker-0=' is not allowed; allowed: worker-N=FAULT"),
                            (["--set"], "--set needs a value"),
                            (["--set", "trainin.epochs=1"], "trainin"),
                            (["second.yaml"], "second.yaml")):
            with self.subTest(flags):
                got = self.train(*flags)
                self.assertEqual(got.returncode, 2, got.stderr)
                self.assertIn(text, got.stderr)
                self.assertEqual(len(got.stderr.splitlines()), 1, got.stderr)
                self.assertFalse(self.out.exists())

    def test_what_the_look_ahead_finds_is_told_before_a_process_starts(self):
        self.scripts(ps=[["exit 0"]], worker=[["exit 0"]])
        (self.tmp / "doctor").write_text("warn memory: it will be tight; use fewer --workers\n")
        got = self.train()
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertRegex(got.stderr.splitlines()[0], "warn launcher: it will be tight; use fewer --workers$")
        (self.tmp / "doctor").write_text("FAIL model: job.yaml:4: model.layers: no\n")
        again = self.train("--fresh")
        self.assertEqual((again.returncode, again.stderr), (2, "gradwire: job.yaml:4: model.layers: no\n"))
        self.assertEqual(len(self.starts("ps-0")), 1)
        self.assertFalse(self.tmp.joinpath("out.1").exists())

    def test_many_workers_on_few_cores_are_warned_of_and_too_many_refused(self):
        (self.tmp / "doctor").write_text("FAIL model: stop here\n")
        one = lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])  # noqa: E731
        def said(workers):
            got = subprocess.run(self.command(f"--workers={workers}"), env=self.environment(), capture_output=True,
                                 text=True, timeout=DEADLINE_S, cwd=self.tmp, preexec_fn=one)
            self.assertEqual(got.returncode, 2, got.stderr)
            return got.stderr.splitlines()
        self.assertEqual(said(4), ["gradwire: stop here"])
        self.assertIn("5 workers share 1 core: ", said(5)[0])
        self.assertIn("--workers 1 is enough", said(32)[0])
        self.assertIn("gradwire: --workers: 33 workers are too many for the 1 core of this host", said(33)[0])
        self.assertEqual(len(said(1000)), 1)

    def test_an_output_that_cannot_be_a_folder_is_2(self):
        (self.tmp / "file").touch()
        for path in (self.tmp / "file", self.tmp / "file/below", "/proc/none"):
            with self.subTest(path):
                self.out = path
                got = self.train()
                self.assertEqual(got.returncode, 2, got.stderr)
                self.assertIn(f"--output {path}: cannot create this directory: ", got.stderr)

    # ---- the command lines ----

    def test_threads_are_shared_out_and_the_users_own_set_comes_last(self):
        self.scripts(ps=[["exit 0"]], worker=[["exit 0"]], chief=[["exit 0"]])
        got = self.train("--chief", "--workers", "3", "--ps", "1", "--set", "training.epochs=2")
        self.assertEqual(got.returncode, 0, got.stderr)
        argv = json.loads(self.starts("chief-0")[0].split(" ", 1)[1])
        sets = [a for a in argv if a.startswith("--set=")]
        self.assertEqual(sets[0][:len("--set=worker.threads=")], "--set=worker.threads=")
        self.assertGreaterEqual(int(sets[0].rsplit("=", 1)[1]), 1)
        self.assertEqual(sets[-1], "--set=training.epochs=2")
        self.assertTrue(any(a.startswith("--chief_host=127.0.0.1:") for a in argv))
        self.assertTrue(any(a.startswith("--progress_fd=") for a in argv))
        other = json.loads(self.starts("worker-2")[0].split(" ", 1)[1])
        self.assertFalse(any(a.startswith("--progress_fd=") for a in other))
        (self.tmp / "chief-0.starts").unlink()
        self.train("--chief", "--set", "worker.threads=3")
        argv = json.loads(self.starts("chief-0")[0].split(" ", 1)[1])
        self.assertEqual([a for a in argv if "worker.threads" in a], ["--set=worker.threads=3"])

    def test_memory_for_rows_of_csv_is_shared_out(self):
        def mib(*more):
            (self.tmp / "chief-0.starts").unlink(missing_ok=True)
            self.assertEqual(self.train(*more).returncode, 0)
            argv = json.loads(self.starts("chief-0")[0].split(" ", 1)[1])
            return [int(a.rsplit("=", 1)[1]) for a in argv if a.startswith("--set=data.memory_mb=")]

        csv = ["--chief", "--ps=1", "--set=data.synthetic=census", "--set=data.columns=[number: a, label: b]",
               "--set=model.input.shape=auto", "--set=data.scale=1"]
        self.scripts(ps=[["exit 0"]], worker=[["exit 0"]], chief=[["exit 0"]])
        two, four = mib(*csv, "--workers=1"), mib(*csv, "--workers=3")
        self.assertAlmostEqual(two[0], 2 * four[0], delta=2)
        self.assertEqual(mib(*csv, "--workers=3", "--set=data.memory_mb=7"), [7])
        self.assertEqual(mib("--chief"), [])  # no csv

    def test_processes_get_single_threaded_blas_and_their_identity_from_flags_alone(self):
        self.scripts(ps=[["exit 0"]], worker=[["exit 0"]])
        os.environ["TF_CONFIG"] = "nonsense"
        self.addCleanup(os.environ.pop, "TF_CONFIG")
        self.assertEqual(self.train().returncode, 0)
        for name in ("ps-0", "worker-1"):
            env = json.loads((self.tmp / f"{name}.env").read_text())
            self.assertEqual(env["OPENBLAS_NUM_THREADS"], "1")
            self.assertNotIn("TF_CONFIG", env)

    # ---- from outside ----

    def control(self, *words, cwd=None):
        return subprocess.run([str(LAUNCH), *words], capture_output=True, text=True, timeout=DEADLINE_S, cwd=cwd)

    def test_detach_status_logs_stop(self):
        self.scripts(worker_0=[['progress {"type":"first_step"}', step_line(42),
                                'progress {"type":"checkpoint","cut":3,"step":40}', "say hello there", "run"]])
        got = self.train("--detach")
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertIn(str(self.out), got.stdout)
        self.ready()
        launcher = self.pids()["launcher-0"]
        self.assertIn(f"pid {launcher}", got.stdout)
        self.until("progress is kept", lambda: "checkpoint: 3" in self.control("status", str(self.out)).stdout)
        status = self.control("status", str(self.out))
        self.assertEqual(status.returncode, 0)
        self.assertIn("running", status.stdout)
        self.assertIn("step 42/100", status.stdout)
        self.assertIn("ETA 0:01", status.stdout)
        self.assertIn("last checkpoint: 3", status.stdout)
        self.assertIn(f"worker 0: pid {self.pids()['worker-0']}", status.stdout)
        self.assertIn("hello there", self.control("logs", str(self.out)).stdout)
        self.assertIn("hello there", self.control("logs", str(self.out), "worker-0").stdout)
        self.assertNotIn("hello there", self.control("logs", str(self.out), "ps-0").stdout)
        missing = self.control("logs", str(self.out), "ps", "worker-7")
        self.assertEqual(missing.returncode, 2)
        self.assertIn("no log of ps, worker-7; it has launcher, ps-0, ps-1, worker-0, worker-1", missing.stderr)
        follow = subprocess.Popen([str(LAUNCH), "logs", str(self.out), "-f", "worker-0"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        self.addCleanup(follow.kill)
        self.assertIn("hello there", follow.stdout.readline())  # and goes on as long as the launcher
        stop = self.control("stop", str(self.out))
        self.assertEqual(stop.returncode, 0, stop.stderr)
        self.gone([launcher])
        self.assertEqual((follow.wait(DEADLINE_S), follow.stdout.read()), (0, ""))
        follow.stdout.close()
        self.assertEqual(self.summary()["exit_code"], 143)
        self.assertIn("interrupted", (self.out / "processes/launcher.log").read_text())
        ended = self.control("status", str(self.out))
        self.assertIn("not running, run train again to resume", ended.stdout)
        self.assertEqual(ended.returncode, 4)
        self.assertIn("nothing to stop", self.control("stop", str(self.out)).stdout)

    def test_what_a_chief_waited_for_is_forgotten_when_it_dies(self):
        self.scripts(worker_0=[['progress {"type":"first_step"}', step_line(5),
                                'progress {"type":"wait","text":"worker 1, which is away","seconds":3}', "await waits", "kill 9"],
                               ["run"]])
        with self.background():
            self.until("status tells of the wait", lambda: "for worker 1" in self.control("status", str(self.out)).stdout)
            (self.tmp / "waits").touch()
            self.ready()
            self.until("status tells of it no more", lambda: "for worker 1" not in self.control("status", str(self.out)).stdout)
            self.assertIn("step 5/100", self.control("status", str(self.out)).stdout)

    def test_status_of_a_job_that_does_not_run_tells_scripts_how_it_ended(self):
        (self.out / "processes").mkdir(parents=True)
        for summary, code in ((None, 4), ('{"status":"done"}', 3), ('{"status":"interrupted"}', 4),
                              ('{"status":"failed"}', 1), ('{"status":"do', 1)):
            with self.subTest(summary):
                if summary:
                    (self.out / "summary.json").write_text(summary)
                self.assertEqual(self.control("status", str(self.out)).returncode, code)

    def test_status_of_a_launcher_that_has_only_locked_dir(self):
        """Under the name of a launcher, flock holds the lock as a launcher does before it writes anything else."""
        self.out.mkdir()
        shutil.copy(shutil.which("flock"), self.tmp / "launch")
        held = subprocess.Popen([self.tmp / "launch", self.out / "lock", "sh", "-c", "echo locked; sleep 100"], stdout=subprocess.PIPE,
                                text=True, start_new_session=True)
        self.addCleanup(lambda: (os.killpg(held.pid, signal.SIGKILL), held.wait(), held.stdout.close()))
        self.assertEqual(held.stdout.readline(), "locked\n")
        (self.out / "lock").write_text(f"{held.pid}\n")
        got = subprocess.run([LAUNCH, "status", self.out], capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        self.assertIn(f"running, launcher pid {held.pid}\n  no step yet\n", got.stdout)

    def test_status_of_a_job_that_was_started_by_hand(self):
        (self.out / "checkpoints/cut-3").mkdir(parents=True)
        (self.out / "checkpoints/cut-3/manifest.gw").touch()
        (self.out / "lock").write_text(f"{os.getpid()}\n")
        self.assertEqual(self.control("status", str(self.out)).returncode, 4)
        with open(self.out / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            got = self.control("status", str(self.out))
            self.assertEqual(got.returncode, 0)
            self.assertIn(f"running, started by hand, chief pid {os.getpid()}\n  last checkpoint: 3  (", got.stdout)
            stop = self.control("stop", str(self.out))
            self.assertEqual((stop.returncode, "has no launcher" in stop.stderr), (1, True))
        (self.out / "summary.json").write_text('{"status":"done"}')
        self.assertEqual(self.control("status", str(self.out)).returncode, 3)

    def test_status_of_a_run_by_hand_where_train_has_run(self):
        self.scripts(ps=[["exit 0"]], worker=[["exit 0"]])
        self.assertEqual(self.train().returncode, 0)
        self.assertEqual(self.control("status", str(self.out)).returncode, 3)
        chief = subprocess.Popen([sys.executable, "-c", "import fcntl, os, sys\nlock = open(sys.argv[1], 'w')\n"
                                  "fcntl.flock(lock, fcntl.LOCK_EX)\nprint(os.getpid(), file=lock, flush=True)\n"
                                  "print(flush=True)\nsys.stdin.read()", str(self.out / "lock")],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(chief.communicate)
        self.addCleanup(chief.kill)
        chief.stdout.readline()
        self.assertIn(f"running, started by hand, chief pid {chief.pid}\n", self.control("status", str(self.out)).stdout)
        stop = self.control("stop", str(self.out))
        self.assertEqual((stop.returncode, "has no launcher" in stop.stderr, chief.poll()), (1, True, None))
        chief.kill()
        chief.wait()
        ended = self.control("status", str(self.out))
        self.assertEqual((ended.returncode, "its chief was killed" in ended.stdout), (4, True), ended.stdout)
        os.utime(self.out / "summary.json")  # a chief that is done writes it
        self.assertEqual(self.control("status", str(self.out)).returncode, 3)
        os.utime(self.out / "summary.json", (1, 1))
        self.assertEqual(self.train().returncode, 0)
        os.utime(self.out / "summary.json", (1, 1))  # as in a copy: a launcher leaves none of a former run
        self.assertEqual(self.control("status", str(self.out)).returncode, 3)

    def test_detach_waits_for_the_first_step(self):
        self.scripts(worker_0=[["await go", 'progress {"type":"first_step"}', "run"]])
        self.addCleanup(self.control, "stop", str(self.out))
        with self.background("--detach") as front:
            self.there("ps-0.ready", "ps-1.ready", "worker-1.ready")
            self.until("all are told of", lambda: "worker 1: pid" in self.stderr())
            self.assertIsNone(front.poll())
            self.assertFalse((self.out / "processes/launcher.log").exists())
            (self.tmp / "go").touch()
            self.assertEqual(front.wait(DEADLINE_S), 0, self.stderr())
        self.assertEqual(self.control("status", str(self.out)).returncode, 0)
        self.assertEqual(self.control("stop", str(self.out)).returncode, 0)

    def test_detach_passes_on_how_a_job_ended_without_a_step(self):
        self.scripts(worker_0=[["say E the data is not there", "exit 1"]])
        got = self.train("--detach")
        self.assertEqual(got.returncode, 1)
        self.assertIn("the data is not there", got.stderr)

    def test_it_detaches_without_standard_descriptors_too(self):
        self.scripts(worker_0=[['progress {"type":"first_step"}', "run"]])
        command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *self.command("--detach")]
        self.assertEqual(subprocess.run(command, env=self.environment(), cwd=self.tmp, timeout=DEADLINE_S).returncode, 0)
        self.ready()
        self.assertEqual(self.control("stop", str(self.out)).returncode, 0)

    def test_detach_passes_an_early_failure_on(self):
        got = self.train("--detach", "--set", "nonsense=1")
        self.assertEqual(got.returncode, 2)
        (self.out / "lock").mkdir(parents=True)
        self.assertEqual(self.train("--detach").returncode, 1)

    def test_a_folder_that_is_no_jobs_is_2(self):
        for command in ("status", "stop", "logs"):
            self.assertEqual(self.control(command, str(self.tmp)).returncode, 2)
            self.assertEqual(self.control(command, str(self.tmp / "nowhere")).returncode, 2)
            self.assertEqual(self.control(command).returncode, 2)

    def test_stop_never_signals_a_process_that_is_not_the_launcher(self):
        bystander = subprocess.Popen(["sleep", "60"])
        self.addCleanup(bystander.wait)
        self.addCleanup(bystander.kill)
        (self.out / "processes").mkdir(parents=True)
        (self.out / "processes/pids").write_text(f"launcher 0 {bystander.pid}\n")
        with open(self.out / "lock", "w") as lock:
            lock.write(f"{bystander.pid}\n")
            lock.flush()
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIn("nothing to stop", self.control("stop", str(self.out)).stdout)
        self.assertIsNone(bystander.poll())


if __name__ == "__main__":
    unittest.main()
