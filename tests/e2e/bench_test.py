# runs with others
"""The harness of gradwire bench update-modes: which runs it makes, what it believes of them, and how it goes on. The runs
are played; `./gradwire bench update-modes --quick` makes real ones."""
import copy
import io
import json
import os
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

ROOT = os.environ["GRADWIRE_ROOT"]
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))
import hot_key  # noqa: E402
import roofline  # noqa: E402
import stages  # noqa: E402
import table_sizes  # noqa: E402
import update_modes  # noqa: E402
import update_modes_report as report  # noqa: E402
from lib import click_jobs  # noqa: E402

ROWS = 6400


def summary_of(case):
    """The result of a run that went well: the slow worker costs sync most."""
    batches = {"dealt": 100, "applied_min": 100, "applied_max": 100, "dropped": 3 if case["mode"] == "backup" else 0,
               "rejected": 0, "lost": 0}
    slow = case["straggler"] != "none"
    did = [{"examples": ROWS / case["workers"], "computed_s": 1.0, "waited_s": 0.5, "bytes_out": 10, "bytes_in": 10}
           for _ in range(case["workers"])]
    return {"status": "done", "exit_code": 0, "restarts": 0, "batches": batches, "digest": f"digest of {case['workers']}",
            "eval": {"loss": 0.5, "accuracy": 0.98}, "history": [{"epoch": 1, "seconds": 2.0, "eval": {"accuracy": 0.98}}],
            "per_worker": did, "examples_per_s": 1000.0 * case["workers"] / (5 if slow and case["mode"] == "sync" else 1),
            "staleness": {"mean": 1.5, "max": 4}}


class HarnessTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.ran, self.paused, self.change = folder.name, [], {}, {}

    def play(self, _options, case, pause_s):
        key = update_modes.key_of(case)
        self.ran.append(key)
        self.paused[key] = pause_s
        return copy.deepcopy(summary_of(case)) | self.change.get(key, {})

    def bench(self, *flags, build="a", bound=50000.0):
        out, err = io.StringIO(), io.StringIO()
        self.ran = []
        with mock.patch.multiple(update_modes, train=self.play, bound=lambda _: bound, build_hash=lambda: build,
                                 link_works=lambda _: "", blas_core=lambda: "x"), \
                mock.patch.object(report, "write_plots", lambda *_: []), \
                redirect_stdout(out), redirect_stderr(err):
            code = update_modes.main(["--epochs", "1", "--output", self.folder, *flags])
        return code, out.getvalue() + err.getvalue()

    def report(self):
        with open(os.path.join(self.folder, "update-modes.json"), encoding="utf-8") as file:
            return json.load(file)

    def lines(self, name, results):
        return report.script(results, name, {"metric": "accuracy", "target": 0.85, "epochs": 4})[0]

    def played(self, mode, workers, **values):
        return {"mode": mode, "workers": workers, "link": "unlimited", "straggler": "one", **values}

    def test_a_plot_says_what_a_missing_bar_means_and_has_no_empty_group(self):
        results = [self.played("sync", 1, seconds_to_target=0.5), self.played("geo", 1, seconds_to_target=0.4),
                   self.played("sync", 2, seconds_to_target=None), self.played("geo", 2, seconds_to_target=0.2),
                   self.played("sync", 4, seconds_to_target=None), self.played("geo", 4, seconds_to_target=None),
                   self.played("backup", 2, seconds_to_target=None)]
        lines = self.lines("time-to-target", results)
        self.assertEqual(lines[lines.index("$data0 << EOD") + 1:lines.index("EOD")], ["1 0.5 0.4", "2 ? 0.2"])
        self.assertIn('set title "unlimited link, one slow worker\\nx: not reached; 4 workers: not reached; backup: not reached"', lines)
        self.assertEqual([line.split(",")[0] for line in lines if line.startswith("set label")], ["set label 'x' at first 0.8333"])
        self.assertTrue(any(line.startswith("set key outside right") for line in lines))
        self.assertNotIn("backup'", "".join(lines))

    def test_nothing_keeps_more_than_all(self):
        results = [self.played("sync", 1), self.played("sync", 2, kept=0.2), self.played("backup", 2, kept=1.9)]
        lines = self.lines("kept", results)
        self.assertEqual(lines[lines.index("$data0 << EOD") + 1:lines.index("EOD")], ["2 20 100"])
        self.assertIn('set title "unlimited link, one slow worker\\n1 worker: there is no other"', lines)
        self.assertEqual([report.kept_words(k) for k in (0.2, 1.0, 1.9)], ["20%", "100%", "not slower"])

    def test_all_modes_workers_links_and_stragglers_are_measured(self):
        code, said = self.bench()
        self.assertEqual(code, 0, said)
        self.assertEqual(len(set(self.ran)), 92)  # 6 modes, but 5 with one worker, x 4 x 2 x 2
        self.assertEqual(len(self.ran), 92)
        self.assertIn("92 of 92 runs are valid", said)
        with open(os.path.join(self.folder, "README.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("| 4 | 1gbit | 256.0 | 20% | 100% |", text)  # 4 x 4 x 64 examples / 4,000 a second
        for ending in ("csv", "json"):
            self.assertGreater(os.path.getsize(os.path.join(self.folder, f"update-modes.{ending}")), 1000)

    def test_it_is_narrowed_and_measures_what_it_needs_to_know_first(self):
        code, said = self.bench("--modes", "async", "--workers", "2", "--links", "unlimited", "--stragglers", "one")
        self.assertEqual(code, 0, said)
        self.assertEqual(self.ran, ["sync 2w straggler=none link=unlimited", "async 2w straggler=one link=unlimited"])
        self.assertEqual([case["mode"] for case in self.report()["cases"]], ["async"])
        self.assertAlmostEqual(self.paused["async 2w straggler=one link=unlimited"], 4 * 2 * 64 / 2000)
        self.assertEqual(self.paused["sync 2w straggler=none link=unlimited"], 0)

    def test_it_goes_on_where_it_was_and_measures_what_was_invalid_again(self):
        narrow = ("--modes", "sync,async", "--workers", "1,2", "--links", "unlimited", "--stragglers", "none")
        bad = "async 2w straggler=none link=unlimited"
        self.change = {bad: {"status": "failed", "exit_code": 1}}
        code, said = self.bench(*narrow)
        self.assertEqual((code, len(self.ran)), (1, 4), said)
        self.assertIn(f"INVALID: {bad}: status failed", said)
        self.change = {}
        code, said = self.bench(*narrow)
        self.assertEqual((code, self.ran), (0, [bad]), said)
        self.assertIn("3 of 4 runs are known from before", said)
        self.assertEqual(self.bench(*narrow)[0], 0)
        self.assertEqual(self.ran, [])
        self.bench(*narrow, build="b")  # another program's results are not mixed in
        self.assertEqual(len(self.ran), 4)
        self.bench(*narrow, "--fresh", build="b")
        self.assertEqual(len(self.ran), 4)

    def test_a_run_whose_result_is_wrong_is_invalid(self):
        key = "sync 2w straggler=one link=unlimited"
        good = summary_of({"mode": "sync", "workers": 2, "straggler": "one"})
        worker = good["per_worker"][0]
        wrong = {"2 restarts": {"restarts": 2}, "loss nan": {"eval": {"loss": float("nan"), "accuracy": 0.1}},
                 "its digest is not that of": {"digest": "another"}, "the epochs [] of 1": {"history": []},
                 "6401 examples": {"per_worker": [worker, worker | {"examples": ROWS / 2 + 1}]}}
        for count in ({"applied_min": 99}, {"rejected": 1}, {"lost": 1}, {"dropped": 1}):
            wrong["batches {"] = {"batches": good["batches"] | count}
            for why, change in wrong.items():
                self.change = {key: change}
                code, said = self.bench("--modes", "sync", "--workers", "2", "--links", "unlimited", "--fresh")
                self.assertEqual(code, 1, said)
                self.assertIn(f"INVALID: {key}: {why}", said)

    def test_who_differs_from_most_is_invalid_and_is_measured_again(self):
        narrow = ("--workers", "2", "--links", "unlimited,1gbit", "--modes", "sync")
        key = "sync 2w straggler=none link=unlimited"  # the first
        good = summary_of({"mode": "sync", "workers": 2, "straggler": "none"})["per_worker"]
        for change in ({"digest": "another"}, {"per_worker": [good[0], good[1] | {"examples": ROWS / 2 + 1}]}):
            self.change = {key: change}
            code, said = self.bench(*narrow, "--fresh")
            self.assertEqual(code, 1, said)
            self.assertIn(f"INVALID: {key}: ", said)
            self.assertIn("3 of 4 runs are valid", said)
            self.change = {}
            code, said = self.bench(*narrow)
            self.assertEqual((code, self.ran), (0, [key]), said)
            self.assertEqual(self.bench(*narrow)[0], 0)
            self.assertEqual(self.ran, [])

    def test_a_promise_that_is_missed_is_in_what_is_written(self):
        options = mock.Mock(epochs=1, rounds=3)
        for yardstick, job, missed in ((1000.0, stages.CNN, False), (2000.0, stages.CNN, True), (2000.0, stages.JOB, None)):
            with mock.patch.multiple(stages, train_once=lambda *_: 1000.0, measure=lambda *_: {"examples_per_s": yardstick}), \
                    redirect_stdout(io.StringIO()) as out:
                case = stages.train_case(options, job, "sync", 64, 2, 2, None)
                stages.print_case({"bench": "train", "case": "x", **case})
            self.assertEqual(case.get("missed"), missed)
            self.assertEqual("MISSED" in out.getvalue(), bool(missed))
        for name, call in (("train_once", lambda: stages.train_case(options, stages.CNN, "sync", 64, 2, 2, None)),
                           ("ready_once", lambda: stages.ready_case(mock.Mock(rounds=3, milliseconds=200), "ps"))):
            with mock.patch.object(stages, name, side_effect=stages.Failed("no")):
                case = call()
            self.assertEqual((case["invalid"], "missed" in case), ("no", False))

    def test_rows_over_tcp_are_judged_by_the_clock(self):
        for pull, missed in ((4.9, False), (4.8, True)):
            result = {"pull_mrows_per_s": [pull], "pull_raw_mrows_per_s": [10.0], "pull_ps_cpu_mrows_per_s": [6.0]}
            case = stages.rows_case(lambda: result, "pull", stages.ROWS_TCP_WANTED["pull"])
            with redirect_stdout(io.StringIO()) as out:
                stages.print_case({"bench": "rows", "case": "tcp pull", **case})
            self.assertEqual(case["missed"], missed)
            self.assertIn("by the ps's CPU time 6, ratio 0.60; " + ("MISSED" if missed else "as promised"), out.getvalue())

    def test_without_an_undisturbed_run_a_slow_one_counts_for_nothing(self):
        self.change = {"sync 2w straggler=none link=unlimited": {"restarts": 1}}
        code, said = self.bench("--modes", "geo", "--workers", "2", "--links", "unlimited", "--stragglers", "one")
        self.assertEqual(code, 1)
        self.assertIn("INVALID: no undisturbed step time", said)

    def test_a_machine_that_was_not_quiet_is_told(self):
        default = mock.Mock(job=update_modes.JOB)
        self.assertEqual(update_modes.disturbed(default, [100.0, 101.0]), "")
        self.assertIn("was not quiet", update_modes.disturbed(default, [50000.0, 30000.0]))
        self.assertIn("could not be measured", update_modes.disturbed(default, [50000.0]))
        self.assertEqual(update_modes.disturbed(mock.Mock(job="other.yaml"), []), "")

    def test_compare_says_what_got_slower_by_the_yardsticks(self):
        narrow = ("--modes", "sync,async", "--workers", "2", "--links", "unlimited", "--stragglers", "none")
        self.bench(*narrow)
        old = os.path.join(self.folder, "old.json")
        os.rename(os.path.join(self.folder, "update-modes.json"), old)
        key = "async 2w straggler=none link=unlimited"
        self.change = {key: {"examples_per_s": 1700.0}}
        said = self.bench(*narrow, "--fresh", "--compare", old)[1]
        self.assertIn(f"SLOWER {key}: 0.85 of what it was", said)
        self.assertNotIn("SLOWER sync", said)
        said = self.bench(*narrow, "--fresh", "--compare", old, bound=25000.0)[1]  # on a machine half as fast
        self.assertIn("nothing got slower", said)

    def test_ctrl_c_is_one_line_and_130_and_the_rest_is_measured_when_it_is_started_again(self):
        narrow = ["--modes", "sync,async", "--workers", "1", "--links", "unlimited", "--stragglers", "none"]
        play = self.play

        def ended(options, case, pause_s):
            if case["mode"] == "async":
                raise KeyboardInterrupt
            return play(options, case, pause_s)

        self.play = ended
        code, said = self.bench(*narrow)
        self.assertEqual(code, 130)
        self.assertIn("interrupted; run the same line again to continue", said)
        self.play = play
        self.assertIn("1 of 2 runs are known", self.bench(*narrow)[1])

    def test_what_cannot_be_measured_is_one_line_and_2(self):
        for flags, why in ((("--modes", "sink"), "sink: not among"), (("--workers", "0"), "numbers of workers"),
                           (("--modes", "backup", "--workers", "1"), "nothing to measure"),
                           (("--set", "training.update=async"), "that key is set by --modes"),
                           (("--set", "training.batch_size=9"), "that key is set by --batch"),
                           (("no.yaml",), "there is no such job file"), (("--compare", "no.json"), "--compare no.json")):
            err = io.StringIO()
            with self.assertRaises(SystemExit) as left, redirect_stderr(err):
                update_modes.main([*flags, "--output", self.folder])
            self.assertEqual(left.exception.code, 2)
            self.assertIn(why, err.getvalue())
            self.assertEqual(len(err.getvalue().splitlines()), 1)

    def click_jobs(self, measure):
        return mock.patch.multiple(click_jobs, measure=measure, configuration=lambda *_, **__: {"cores": 2})

    def roofline(self, gemm_core_s, loss=0.6):
        """Jobs of 2 core-seconds for 2,000 examples, with parts that cost gemm_core_s, 0.2, 0.1 and 0.1 of them."""
        summary = {"status": "done", "restarts": 0, "train": {"loss": loss}, "first_step_s": 4.0,
                   "history": [{"epoch": 1, "seconds": 50.0}, {"epoch": 2, "seconds": 250.0}],
                   "per_worker": [{"bytes_out": 7000, "bytes_in": 1000, "tasks": 10}]}
        asked = []

        def measure(_deadline_s, name, *flags):
            asked.append((name, *flags))
            return {"distinct": 5.0, "bytes": 8e6, "per_s": 40,
                    "core_s": {"gemm": gemm_core_s, "gather": 0.2, "apply": 0.1}.get(flags[1])}

        out = io.StringIO()
        with mock.patch.multiple(roofline, summary_of=lambda *_: summary, measure=measure), \
                self.click_jobs(measure), redirect_stdout(out):
            code = roofline.main(["--rows", "400000", "--rounds", "2"])
        return code, out.getvalue(), asked

    def test_roofline_says_what_a_part_costs_alone_and_what_is_left(self):
        code, said, asked = self.roofline(1.5)
        self.assertEqual(code, 0)
        self.assertIn("wide_deep M=2: 2,000 examples/s, 1e+03 core-us each; first step after 4.00 s (2 MB/s", said)
        for line in ("gemm         750 core-us,   75%", "gather       100 core-us,   10%", "apply         50 core-us,    5%",
                     "rest"):
            self.assertIn(line, said)
        sent = [flags[flags.index("--bytes") + 1] for name, *flags in asked if name == "raw_exchange"]
        self.assertEqual(set(sent), {400})  # (7,000 + 1,000) / 10 steps, half of it each way
        self.assertNotIn("MISSED", said)

    def test_roofline_says_what_missed_and_what_is_wrong(self):
        self.assertIn("MISSED: 0.70 of gemm's rate or more was promised, this is 0.65", self.roofline(1.3)[1])
        code, said, _ = self.roofline(1.5, loss=0.9)
        self.assertEqual(code, 1)
        self.assertIn("INVALID: train: its result is wrong: done, loss 0.9", said)

    def hot_key(self, hot_rate, hot_cpu, loss=0.6):
        """Of the log as drawn 1,000 examples/s, and 2 s of CPU time on each ps."""
        def measure(_deadline_s, name, *flags):
            self.ran.append((name, *flags))
            return {}

        def summary_of(job, _ps, _workers, _keys, _deadline_s, beside):
            rate, cpu = (hot_rate, hot_cpu) if "hot.yaml" in job else (1000, {0: 2.0, 1: 2.0})
            with mock.patch.object(hot_key.PsCpu, "watch", lambda _: None), beside(job) as look:
                look.seconds = cpu
            return {"status": "done", "restarts": 0, "train": {"loss": loss},
                    "history": [{"epoch": 1, "seconds": 1.0}, {"epoch": 3, "seconds": 1.0 + 2 * 20000 / rate}]}

        self.ran = []
        with mock.patch.object(hot_key, "summary_of", summary_of), self.click_jobs(measure), \
                redirect_stdout(io.StringIO()) as out:
            code = hot_key.main(["--rows", "20000", "--rounds", "2"])
        return code, out.getvalue()

    def test_hot_key_says_what_a_hot_word_costs_the_job_and_each_ps(self):
        code, said = self.hot_key(1000, {0: 2.2, 1: 2.0})
        self.assertEqual(code, 0, said)
        self.assertEqual([flags[flags.index("--hot") + 1] for _, *flags in self.ran], [0, 30])
        self.assertIn("sync: 1,000 examples/s with the hot word, 1,000 without: 1.00 x the time", said)
        self.assertIn("ps 0: 2.20 s of CPU time, 2.00 without: 1.10 x", said)
        self.assertNotIn("MISSED", said)

    def test_hot_key_says_what_missed_and_what_is_wrong(self):
        for rate, cpu in ((1000, {0: 2.0, 1: 2.8}), (700, {0: 2.0, 1: 2.0})):
            self.assertEqual(self.hot_key(rate, cpu)[1].count("MISSED: at most 1.3 x"), 2)
        for rate, cpu, loss in ((1000, {0: 2.0}, 0.6), (1000, {0: 2.0, 1: 2.0}, 0.9)):
            code, said = self.hot_key(rate, cpu, loss)
            self.assertEqual(code, 1)
            self.assertIn("sync: INVALID: train: its result is wrong: done", said)

    def table_sizes(self, largest_rate, touched=100.0, rows_missing=0):
        """A table of 6,656 rows at 1,000 examples/s, and one of 13,312."""
        def summary_of(job, _ps, _workers, keys, _deadline_s, beside):
            steps = 1 if job.endswith("/1.yaml") else 2
            with mock.patch.object(table_sizes.PsRows, "watch", lambda _: None), beside(job) as look:
                for step in (1500, 3000):  # the first epoch touches others
                    rows = 7 + step * (100.0 if steps == 1 else touched)
                    look.counted(step, {"": rows, "_bytes": 400.0 * step})
            self.assertEqual(keys["training.epochs"], 2)
            examples = 1500 * table_sizes.EXAMPLES
            return {"status": "done", "restarts": 0,
                    "tables": {"ids": {"rows": steps * table_sizes.STEP_ROWS - rows_missing}},
                    "history": [{"epoch": 1, "seconds": 1.0},
                                {"epoch": 2, "seconds": 1.0 + examples / (1000 if steps == 1 else largest_rate)}]}

        with mock.patch.multiple(table_sizes, summary_of=summary_of, SIZES={"small": 1, "large": 2}, measure=lambda *_: {},
                                 configuration=lambda *_: {"cores": 2}), redirect_stdout(io.StringIO()) as out:
            code = table_sizes.main(["--rounds", "2"])
        return code, out.getvalue()

    def test_table_sizes_says_what_a_large_table_costs(self):
        code, said = self.table_sizes(700)
        self.assertEqual(code, 0, said)
        for update in ("sync", "async"):
            self.assertIn(f"{update}, large rows: 700 examples/s, 0.70 of the smallest's; a step touches 100 rows, 400 bytes", said)
        self.assertNotIn("MISSED", said)
        self.assertEqual(self.table_sizes(500)[1].count("MISSED: 0.6 was promised"), 2)

    def test_table_sizes_says_what_is_wrong(self):
        self.assertIn("INVALID: rows of a step are 110, of the smallest 100", self.table_sizes(700, touched=110.0)[1])
        code, said = self.table_sizes(700, rows_missing=1)
        self.assertEqual(code, 1)
        self.assertIn("sync, small rows: INVALID: train: its result is wrong: done, 6655 rows", said)

    def test_the_cpu_time_of_each_ps_is_read_while_it_runs(self):
        os.mkdir(os.path.join(self.folder, "processes"))
        with open(os.path.join(self.folder, "processes", "pids"), "w", encoding="utf-8") as file:
            file.write(f"launch 0 1\nps 0 {os.getpid()}\nps 1 0\nworker 0 1\n")
        while time.process_time() < 0.05:
            pass
        look = hot_key.PsCpu(self.folder)
        look.look()
        self.assertEqual(look.seconds[1], 0)  # there is no such process
        self.assertAlmostEqual(look.seconds[0], time.process_time(), delta=0.5)


if __name__ == "__main__":
    unittest.main()
