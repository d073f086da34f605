# beside others
"""The harness of gradwire bench update-modes: which runs it makes, what it believes of them, and how it goes on. The runs
are played; `./gradwire bench update-modes --quick` makes real ones."""
import copy
import io
import json
import os
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

ROOT = os.environ["GRADWIRE_ROOT"]
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))
import stages  # noqa: E402
import update_modes  # noqa: E402
import update_modes_report as report  # noqa: E402

ROWS = 6400


def summary_of(case):
    """What a run that went well says: the slow worker costs sync most."""
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
        self.assertIn("interrupted; the same line goes on", said)
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


if __name__ == "__main__":
    unittest.main()
