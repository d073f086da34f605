#!/usr/bin/env python3
"""Each pod of each golden case, through the real programs: it knows who it is, or says in one line why it cannot be, and
exits 2. Its log lines begin with its role; it ends there, because its job file does not exist."""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import facts  # noqa: E402

NO_JOB = "/no/such/job.yaml"
ENDS = f"job file {NO_JOB}: No such file or directory"
SPARSE = ("error worker: with dynamic workers TF_CONFIG does not list the ps for this {}: remove the Chief replica (worker 0 "
          "is then the chief), or give --ps_hosts and --chief_host to all processes")
NO_PS = ("error worker: with dynamic workers TF_CONFIG gives this worker no address but its own, so the workers "
         "cannot run the ps: add PS replicas, or remove enableDynamicWorker")
ORDINAL = ("it must be a number from 0: the pod's ordinal, such as $(JOB_COMPLETION_INDEX) of an Indexed Job or the label "
           "apps.kubernetes.io/pod-index of a StatefulSet, not a name")
TYPES = "allowed: chief (or master), worker, ps, evaluator"


def dense(task, **cluster):
    return json.dumps({"cluster": {"ps": ["j-ps-0.n.svc:2222", "j-ps-1.n.svc:2222"],
                                   "worker": ["j-worker-0.n.svc:2222", "j-worker-1.n.svc:2222"], **cluster}, "task": task})


class TfConfigTest(unittest.TestCase):
    def run_entrypoint(self, config, *args):
        """Exit code, last line without its time, and the program that it became."""
        words = [facts.ENTRYPOINT, f"--job={NO_JOB}", *args]
        printed = subprocess.run([*words, "--print"], env=facts.environment(TF_CONFIG=config), capture_output=True, text=True)
        got = subprocess.run(words, env=facts.environment(TF_CONFIG=config), capture_output=True, text=True)
        program = pathlib.Path(printed.stdout.split(" ")[0]).name if printed.returncode == 0 else None
        return got.returncode, got.stderr.strip().splitlines()[-1].split(" ", 1)[1], program

    def expect(self, config, says, program, *args):
        """`program`: what it became; None: the entrypoint itself ended."""
        self.assertEqual(self.run_entrypoint(config, *args), (2, says, program))

    def expected(self, case, kind, index):
        """The last line of the pod."""
        replicas, dynamic = case["in"]["replicas"], case["in"].get("dynamic")
        if kind in ("chief", "evaluator") and dynamic:
            return SPARSE.format(kind)
        if kind == "worker" and sum(replicas.values()) > 1 and "PS" not in replicas:
            return NO_PS
        who = {"chief": "chief", "master": "chief", "evaluator": "evaluator"}.get(kind, f"{kind} {index}")
        return f"error {who}: {ENDS}"

    def lone_ps(self, pod):
        """Nothing tells it but its pod's name; as ps it says what is missing."""
        words = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', pod, facts.ENTRYPOINT, f"--job={NO_JOB}"]
        if subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode:
            words = [facts.PROGRAMS["ps"], f"--job={NO_JOB}"]  # not root: no host name of its own
        got = subprocess.run(words, env=facts.environment(), capture_output=True, text=True)
        self.assertIn("this is ps, and the cluster says nothing of it", got.stderr)
        self.assertEqual(got.returncode, 2)

    @facts.wanted
    def test_every_pod_of_the_golden_cases_knows_who_it_is_or_says_why_not(self):
        seen = 0
        for case in facts.cases():
            for pod, config in case["pods"].items():
                with self.subTest(case=case["name"], pod=pod):
                    kind, index = pod.rsplit("-", 2)[1:]
                    program = "ps" if kind == "ps" else "worker"
                    if config is None and kind == "ps":
                        self.lone_ps(pod)
                    else:
                        self.expect(config, self.expected(case, kind, int(index)) if config else f"error worker 0: {ENDS}",
                                    program)
                    seen += 1
        self.assertGreater(seen, 30)

    def refused(self, config, says):
        self.expect(config, f"error entrypoint: TF_CONFIG: {says}", None)

    def test_a_lone_chief_trains_alone(self):
        for kind in ("chief", "master"):
            self.expect(json.dumps({"cluster": {kind: [f"j-{kind}-0.n.svc:2222"]}, "task": {"type": kind, "index": 0}}),
                        f"error chief: {ENDS}", "worker")

    def test_an_empty_tf_config_is_none(self):
        for empty in ("", " \n"):
            self.expect(empty, f"error worker 0: {ENDS}", "worker")

    def test_what_is_no_json_is_refused_with_its_place(self):
        self.refused('{"cluster":', "not JSON: line 1, column 11: unexpected token near end of file")
        self.refused('{"cluster":{},\n}', "not JSON: line 2, column 1: string or '}' expected near '}'")

    def test_json_that_is_no_tf_config_is_refused(self):
        self.refused("[]", 'it must be an object with "cluster" and "task"')
        self.refused('{"cluster":{}}', '"task" is missing; example: {"type": "worker", "index": 0}')
        self.refused('{"task":{"type":"worker","index":0}}', '"cluster" is missing; example: {"ps": ["host:port"], "worker": [...]}')
        self.refused(dense({"type": "ps"}), "task.index is missing: give a number from 0")
        self.refused(dense({"index": 0}), f"task.type is missing; {TYPES}")

    def test_an_index_is_a_number_quoted_or_not(self):
        self.expect(dense({"type": "worker", "index": "0"}), f"error worker 0: {ENDS}", "worker")
        self.expect(dense({"type": "ps", "index": "1"}), f"error ps 1: {ENDS}", "ps")
        for name in ("$(HOSTNAME)", "1x", "-1", ""):
            self.refused(dense({"type": "worker", "index": name}), f'task.index is "{name}", but {ORDINAL}')
        for value in (1.5, True, None):
            self.refused(dense({"type": "worker", "index": value}), f"task.index is not a whole number, but {ORDINAL}")
        self.refused(dense({"type": "worker", "index": -1}), "task.index is -1; allowed: a number from 0")

    def test_an_index_beyond_the_cluster_is_refused(self):
        for kind, index in (("worker", 2), ("worker", "2"), ("ps", 7)):
            self.expect(dense({"type": kind, "index": index}),
                        f"error {kind}: this is {kind} {index}, but the cluster lists 2 of them; allowed: 0 to 1", kind)
        self.expect(dense({"type": "chief", "index": 1}, chief=["j-chief-0.n.svc:2222"]),
                    "error worker: the chief's task index is 1; allowed: 0", "worker")

    def test_an_unknown_type_is_refused(self):
        self.refused(dense({"type": "parameter", "index": 0}), f"task.type: unknown type 'parameter'; {TYPES}")
        self.refused(dense({"type": "PS", "index": 0}), f"task.type: unknown type 'PS', did you mean ps? {TYPES}")

    def test_a_duplicate_address_is_refused(self):
        twice = ["a.n.svc:2222", "A.n.svc:2222"]  # names have no case
        self.expect(dense({"type": "ps", "index": 0}, chief=["j-ps-1.n.svc:2222"]),
                    "error ps: cluster: chief 0 and ps 1 have the same address, j-ps-1.n.svc:2222", "ps")
        for kind in ("ps", "worker"):
            self.expect(dense({"type": "worker", "index": 0}, **{kind: twice}),
                        f"error worker: cluster: {kind} 0 and {kind} 1 have the same address, A.n.svc:2222", "worker")

    def test_a_second_chief_is_refused(self):
        says = "the cluster has 2 chiefs (or masters); allowed: one"
        self.refused(dense({"type": "worker", "index": 0}, chief=["a:1", "b:1"]), says)
        self.refused(dense({"type": "chief", "index": 0}, chief=["a:1"], master=["b:1"]), says)

    def test_a_role_by_flag_wins(self):
        self.expect(dense({"type": "worker", "index": 0}), f"error ps 1: {ENDS}", "ps", "--job_name=ps", "--task_index=1")


class EntrypointTest(unittest.TestCase):
    """The forms without an operator."""

    def run_entrypoint(self, *args, **env):
        return subprocess.run([facts.ENTRYPOINT, *args], env=facts.environment(**env), capture_output=True, text=True)

    def refused(self, says, *args, **env):
        got = self.run_entrypoint(*args, **env)
        self.assertEqual(got.returncode, 2, got.stdout)
        self.assertEqual(len(got.stderr.splitlines()), 1, got.stderr)
        self.assertIn(says, got.stderr)

    ORDINALS = ("--ps=2", "--workers=3", "--ps_host=j-ps-%.j-ps:2222", "--worker-host", "j-w-%.j-w:3333")

    def test_ordinals_make_a_tf_config(self):
        got = self.run_entrypoint("--role=worker", *self.ORDINALS, "--print", JOB_COMPLETION_INDEX="2")
        config, command = got.stdout.splitlines()
        self.assertEqual(json.loads(config.removeprefix("TF_CONFIG=")),
                         {"cluster": {"ps": ["j-ps-0.j-ps:2222", "j-ps-1.j-ps:2222"],
                                      "worker": ["j-w-0.j-w:3333", "j-w-1.j-w:3333", "j-w-2.j-w:3333"]},
                          "task": {"type": "worker", "index": 2}})
        self.assertRegex(command, r"/worker --job=\S+ --output=/output$")
        got = self.run_entrypoint("--role=worker", *self.ORDINALS, f"--job={NO_JOB}", JOB_COMPLETION_INDEX="2")
        self.assertIn(f"error worker 2: {ENDS}", got.stderr)
        got = self.run_entrypoint("--role=ps", "--index=1", *self.ORDINALS, f"--job={NO_JOB}", JOB_COMPLETION_INDEX="2")
        self.assertIn(f"error ps 1: {ENDS}", got.stderr)

    def test_a_chief_of_its_own_is_in_the_cluster_of_all(self):
        """By TF_CONFIG, not by a flag: its own name does not resolve before it listens."""
        for role, index, program in (("chief", 0, "worker"), ("worker", 1, "worker"), ("ps", 1, "ps")):
            got = self.run_entrypoint(f"--role={role}", *self.ORDINALS, "--chief_address=j-c-0.j-c:2222", "--print",
                                      JOB_COMPLETION_INDEX=str(index))
            config, command = (got.stdout or got.stderr).splitlines()
            config = json.loads(config.removeprefix("TF_CONFIG="))
            self.assertEqual((config["cluster"]["chief"], config["task"]), (["j-c-0.j-c:2222"], {"type": role, "index": index}))
            self.assertRegex(command, rf"/{program} --job=\S+ --output=/output$")
        got = self.run_entrypoint("--role=chief", *self.ORDINALS, "--chief_address=j-c-0.j-c:2222", f"--job={NO_JOB}", JOB_COMPLETION_INDEX="0")
        self.assertIn(f"error chief: {ENDS}", got.stderr)

    def test_ordinals_that_do_not_fit_are_refused(self):
        self.refused("--ps needs --workers=N too", "--ps=2")
        self.refused("--index needs --role=chief|ps|worker too", "--index=2")
        self.refused("--role: 'evaluator' is not allowed; allowed: chief, ps, worker", "--role=evaluator", *self.ORDINALS)
        self.refused("--role=chief needs --chief_address=HOST:PORT too", "--role=chief", *self.ORDINALS, JOB_COMPLETION_INDEX="0")
        self.refused("--chief_address: 'j-c': write it as host:port", "--role=ps", "--chief_address=j-c", *self.ORDINALS, JOB_COMPLETION_INDEX="0")
        self.refused("--ps: '0' is not allowed; allowed: 1 to 1024", "--role=ps", "--ps=0")
        self.refused("--ps needs --workers=N too", "--role=ps", "--ps=1")
        self.refused("--index: 'one' is not allowed", "--role=ps", "--index=one", *self.ORDINALS)
        self.refused("JOB_COMPLETION_INDEX: 'x' is not allowed", "--role=ps", *self.ORDINALS, JOB_COMPLETION_INDEX="x")
        self.refused("--ps_host: 'j-ps:2222' is not allowed; allowed: host:port with one %", "--role=ps", "--ps=1",
                     "--workers=1", "--index=0", "--ps_host=j-ps:2222", "--worker_host=w-%:1")
        self.refused("--worker_host: 'w-%': write it as host:port", "--role=ps", "--ps=1", "--workers=1", "--index=0",
                     "--ps_host=j-%:2222", "--worker_host=w-%")
        self.refused("TF_CONFIG is set, and --role says which process this is, too", "--role=ps", *self.ORDINALS,
                     TF_CONFIG=dense({"type": "ps", "index": 0}))
        self.refused("--job_name and --role both say", "--role=ps", "--job_name=ps", *self.ORDINALS)

    def test_a_host_of_the_hosts_form_runs_a_ps_and_a_worker(self):
        got = self.run_entrypoint("--worker_ips=10.0.0.1,10.0.0.2,fd00::3", "--current_ip=10.0.0.2", "--port=7000", "--print")
        ps, worker = got.stdout.splitlines()
        both = ("--ps_hosts=10.0.0.1:7000,10.0.0.2:7000,[fd00::3]:7000 "
                "--worker_hosts=10.0.0.1:7001,10.0.0.2:7001,[fd00::3]:7001 --task_index=1")
        self.assertRegex(ps, r"/ps/ps .*" + both.replace("[", r"\[") + " --job_name=ps$")
        self.assertRegex(worker, r"/worker/worker .*" + both.replace("[", r"\[") + " --job_name=worker$")

    def test_the_two_processes_of_a_host_have_http_ports_of_their_own(self):
        hosts = ["--worker_ips=10.0.0.1", "--current_ip=10.0.0.1", "--port=7000"]
        ps, worker = self.run_entrypoint(*hosts, "--http_port=8080", "--print").stdout.splitlines()
        self.assertEqual([word for word in ps.split() if "http" in word], ["--http_port=8080"])
        self.assertEqual([word for word in worker.split() if "http" in word], ["--http_port=8080", "--http_port=8081"])  # wins
        for given in ([], ["--http_port=0"]):
            self.assertNotIn("--http_port=1", self.run_entrypoint(*hosts, *given, "--print").stdout)
        for taken in (6999, 7000, 7001):
            self.refused(f"--http_port={taken} and the next meet --port=7000", *hosts, f"--http_port={taken}")
        self.refused("--http_port: '65535' is not allowed; allowed: 1 to 65534 (the worker has the next)", *hosts,
                     "--http_port=65535")

    def test_a_pod_without_a_cluster_answers_http_on_all_its_addresses(self):
        self.assertIn("--http_address=* ", self.run_entrypoint("--http_port=8080", "--print").stdout)
        for given in (["--http_port=8080", "--http_address=127.0.0.1"], [], ["--http_port=8080", "--ps_hosts=a:1", "--worker_hosts=b:1"]):
            self.assertNotIn("--http_address=*", self.run_entrypoint(*given, "--print").stdout)

    def test_hosts_that_do_not_fit_are_refused(self):
        ips, port = "--worker_ips=10.0.0.1,10.0.0.2", "--port=7000"
        self.refused("--current_ip=10.0.0.3 is not in --worker_ips=10.0.0.1,10.0.0.2", ips, port, "--current_ip=10.0.0.3")
        self.refused("--current_ip=10.0.0. is not in", ips, port, "--current_ip=10.0.0.")
        self.refused("'10.0.0.1' occurs twice", "--worker_ips=10.0.0.1,10.0.0.2,10.0.0.1", port, "--current_ip=10.0.0.2")
        self.refused("'::1' occurs twice", "--worker_ips=::1,0:0:0:0:0:0:0:1", port, "--current_ip=0::1")
        self.refused("'10.0.0.300': its host is not a valid IP address", "--worker_ips=10.0.0.1,10.0.0.300", port, "--current_ip=10.0.0.1")
        self.refused("--worker_ips needs --current_ip=IP too", ips, port)
        self.refused("--port: '65535' is not allowed; allowed: 1 to 65534", ips, "--port=65535", "--current_ip=10.0.0.1")
        self.refused("--role and --worker_ips both say", ips, port, "--current_ip=10.0.0.1", "--role=ps", *self.ORDINALS)

    def test_short_flags_are_keys_of_the_job_file_and_a_repeated_or_unfinished_one_is_told(self):
        got = self.run_entrypoint("--epochs", "3", "-batch-size=32", "--learning_rate=0.1", "--job=a", "--print")
        self.assertTrue(got.stdout.endswith("--output=/output --set training.epochs=3 --set training.batch_size=32 "
                                            "--set training.learning_rate=0.1 --job=a\n"), got.stdout)
        self.refused("--epochs needs a value", "--epochs")
        self.refused("--role is given twice: 'ps' and 'worker'", "--role=ps", "--role=worker")
        self.refused("--print takes no value", "--print=yes")

    def test_the_pair_of_a_host_ends_together_with_the_first_error(self):
        got = self.run_entrypoint("--worker_ips=127.0.0.1", "--current_ip=127.0.0.1", "--port=7000", f"--job={NO_JOB}")
        self.assertEqual(got.returncode, 2)
        self.assertRegex(got.stderr, f"error (ps|worker) 0: {ENDS}")  # whichever comes first

    def test_told_to_go_before_its_program_can_listen_it_waits_with_that(self):
        """Copied next to a program that prints the pending signals: those that PID 1 would not receive otherwise."""
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(shutil.copy(facts.ENTRYPOINT, folder))
            worker = copy.with_name("gradwire-worker")
            worker.write_text(f"#!{sys.executable}\nimport signal\nprint(*sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))\n")
            worker.chmod(0o755)
            got = subprocess.run([copy, f"--job={NO_JOB}"], env=facts.environment(), capture_output=True, text=True)
        self.assertEqual(got.stdout, f"{signal.SIGINT:d} {signal.SIGTERM:d}\n")

    @unittest.skipIf(pathlib.Path("/etc/gradwire").exists(), "/etc/gradwire is there")
    def test_without_a_job_file_nothing_is_trained_and_the_example_is_named(self):
        for form in ((), ("--worker_ips=127.0.0.1", "--current_ip=127.0.0.1", "--port=7000"),
                     ("--role=ps", "--index=0", *self.ORDINALS)):
            self.refused("/etc/gradwire/job.yaml: No such file or directory: mount a ConfigMap with the key job.yaml in "
                         "/etc/gradwire, or give --job=FILE", *form)
        self.refused("--job=/usr/share/gradwire/examples/mnist/mlp.yaml)")
        self.assertIn("--job=/etc/gradwire/job.yaml ", self.run_entrypoint("--print").stdout)
        doctor = self.run_entrypoint("doctor")
        self.assertEqual(doctor.returncode, 2)
        self.assertIn("FAIL job: job file /etc/gradwire/job.yaml: No such file", doctor.stdout)

    def test_help_tells_of_both(self):
        got = self.run_entrypoint("--help")
        self.assertEqual(got.returncode, 0)
        self.assertIn("--worker_ips=IP,IP", got.stdout)
        self.assertIn("--ps_hosts=H:P", got.stdout)
        self.assertLessEqual(max(map(len, got.stdout.splitlines())), 80)


if __name__ == "__main__":
    unittest.main()
