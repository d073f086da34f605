#!/usr/bin/env python3
# runs with others
"""Models over tables of rows by key, from the job file to the summary: compared with a plain loop in Python, and equal
however the work is split."""
import json
import math
import pathlib
import random
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import DEADLINE_S, SANITIZED, SHORT, WORKER, TrainCase, slow  # noqa: E402
from watch import metrics, places, text  # noqa: E402

ROWS, EVAL_ROWS, MEMBERS = 1200, 400, 150
WIDE_DEEP = """[linear: {inputs: [member, tags], name: wide},
    embedding: {inputs: [member, shop], table: ids, output_dim: 3, name: e},
    embedding_bag: {inputs: tags, output_dim: 2, mode: mean, name: bag},
    dense: {inputs: [e, bag, x], units: 6, activation: relu}, dense: {units: 1, name: deep},
    add: [wide, deep], sigmoid]"""
COLUMNS = """[label: y, key: member, key: shop, keys: {name: tags, separator: ";", max_values: 3, weights: true},
    number: x]"""
OWN = """{wide: {regularizer: {l1_l2: {l1: 1.0e-5, l2: 1.0e-4}}, optimizer: {ftrl: {learning_rate: 0.2, l1_regularization_strength: 0.001}}},
    ids: {optimizer: {adagrad: {learning_rate: 0.1, rowwise: true}}, warmup_steps: 5},
    bag: {optimizer: {adam: {learning_rate: 0.03}},
          learning_rate_schedule: {exponential_decay: {decay_steps: 20, decay_rate: 0.9}}}}"""
SLOW = slow(0.003)  # a job that somebody can be killed in
ALL = ("worker-0", "worker-1", "ps-0", "ps-1")
OPTIMIZERS = {"{sgd: {learning_rate: 2}}": (2, None), "{adagrad: {learning_rate: 0.3}}": (0.3, 0.1)}


def draw(made):
    """y, member, shop, [(tag, weight)], x: y follows the member, the tags and x."""
    member, shop, x = made.randrange(MEMBERS), made.randrange(20), made.uniform(-1, 1)
    tags = [(t, made.randrange(-4, 9) / 4) for t in made.sample("abcdef", made.randrange(4))]
    z = math.sin(member) * 2 + sum(w * (ord(t) - 99) for t, w in tags) + x
    return int(z + made.gauss(0, 1) > 0), f"m{member}", f"s{shop}", tags, x


class PlainLoop:
    """Logistic regression on members and tags in double, all rows a step: sgd, or adagrad as Keras has it."""

    def __init__(self, rate, accumulator, l2=0.0):
        self.rate, self.begin, self.l2, self.w, self.slot = rate, accumulator, l2, {}, {}

    def keys(self, row):
        return [("bias", 1)] + [((1, row[1]), 1)] + [((2, t), w) for t, w in row[3]]

    def logit(self, row):
        return sum(self.w.get(k, 0) * x for k, x in self.keys(row))

    def penalty(self):
        """Of the table; all of its rows are touched in each step."""
        return self.l2 * sum(w * w for k, w in self.w.items() if k != "bias")

    def loss(self, rows):
        return sum(math.log1p(math.exp(-z if row[0] else z)) for row in rows for z in [self.logit(row)]) / len(rows)

    def step(self, rows):
        gradient = {}
        for row in rows:
            d = 1 / (1 + math.exp(-self.logit(row))) - row[0]
            for k, x in self.keys(row):
                gradient[k] = gradient.get(k, 0) + d * x / len(rows)
        for k, g in gradient.items():
            g += 2 * self.l2 * self.w.get(k, 0) * (k != "bias")
            if self.begin is not None:
                self.slot[k] = self.slot.get(k, self.begin) + g * g
            self.w[k] = self.w.get(k, 0) - self.rate * g / (math.sqrt(self.slot[k] + 1e-7) if self.slot else 1)


class TablesTest(TrainCase):
    def setUp(self):
        super().setUp()
        made = random.Random(4)
        self.rows = {name: [draw(made) for _ in range(n)] for name, n in (("train", ROWS), ("eval", EVAL_ROWS))}
        for name, rows in self.rows.items():
            with open(self.tmp / f"{name}.csv", "w") as f:
                for y, member, shop, tags, x in rows:
                    f.write(f"{y},{member},{shop},{';'.join(f'{t}:{w}' for t, w in tags)},{x:.4f}\n")

    def keys(self, layers, **more):
        return {"data.format": "csv", "data.train": self.tmp / "train.csv", "data.eval": self.tmp / "eval.csv",
                "data.columns": COLUMNS, "data.scale": 1, "model.input.shape": "auto", "model.layers": layers,
                "model.loss": "binary_crossentropy", "model.metrics": "[auc]",
                "optimizer": "{adagrad: {learning_rate: 0.1}}", **({"tables": OWN} if layers == WIDE_DEEP else {}),
                "training.epochs": 3, "training.batch_size": 64, "training.microbatches": 4,
                **{k.replace("__", "."): v for k, v in more.items()}}

    def found(self, *flags, keys, out):
        return self.launch(*flags, keys=keys, out=self.tmp / out).wait().summary()

    def test_logistic_regression_is_that_of_a_plain_loop(self):
        columns = COLUMNS.replace("key: shop", "ignore: shop").replace("number: x", "ignore: x")
        for n, (optimizer, numbers) in enumerate(OPTIMIZERS.items()):
            with self.subTest(optimizer=optimizer):
                plain = PlainLoop(*numbers)
                keys = self.keys("[linear: {inputs: [member, tags], name: wide}, sigmoid]", data__columns=columns,
                                 tables="{wide: {initializer: zeros}}", optimizer=optimizer,
                                 training__batch_size=ROWS, training__epochs=8)
                got = self.found("--ps=2", "--workers=2", keys=keys, out=f"plain{n}")
                for epoch in got["history"]:
                    before = plain.loss(self.rows["train"])
                    plain.step(self.rows["train"])
                    self.assertAlmostEqual(epoch["eval"]["loss"], plain.loss(self.rows["eval"]), delta=2e-5)
                self.assertAlmostEqual(got["train"]["loss"], before, delta=2e-5)
                self.assertLess(got["eval"]["loss"], math.log(2))

    def test_a_regularizer_of_rows_is_that_of_a_plain_loop(self):
        columns = COLUMNS.replace("key: shop", "ignore: shop").replace("number: x", "ignore: x")
        plain = PlainLoop(2, None, 0.002)
        keys = self.keys("[linear: {inputs: [member, tags], name: wide}, sigmoid]", data__columns=columns,
                         tables="{wide: {regularizer: {l2: 0.002}}}", optimizer="{sgd: {learning_rate: 2}}",
                         training__batch_size=ROWS, training__epochs=8, training__microbatches=1)
        got = self.found("--ps=2", "--workers=1", keys=keys, out="regularized")
        for epoch in got["history"]:
            before = plain.loss(self.rows["train"]) + plain.penalty()
            plain.step(self.rows["train"])
            self.assertAlmostEqual(epoch["eval"]["loss"], plain.loss(self.rows["eval"]), delta=2e-5)
        self.assertAlmostEqual(got["train"]["loss"], before, delta=2e-5)
        self.assertGreater(plain.penalty(), 1e-3)

    def test_wide_and_deep_is_the_same_for_every_split(self):
        want = self.found("--ps=1", "--workers=1", keys=self.keys(WIDE_DEEP), out="one")
        self.assertGreater(want["eval"]["auc"], 0.75)
        self.assertTrue(want["exact"])
        splits = ((2, 2, 1), (3, 1, 2), (1, 4, 1))
        for ps, workers, threads in splits[:2] if SHORT or SANITIZED else splits:
            with self.subTest(ps=ps, workers=workers, threads=threads):
                got = self.found("--ps", ps, "--workers", workers, out=f"{ps}-{workers}-{threads}",
                                 keys=self.keys(WIDE_DEEP, worker__threads=threads, ps__threads=threads))
                for key in ("train", "eval", "digest", "steps"):
                    self.assertEqual(got[key], want[key])

    def test_the_evaluator_finds_in_the_last_checkpoint_what_the_chief_finds_on_the_shards(self):
        want = self.found("--ps=2", "--workers=1", keys=self.keys(WIDE_DEEP), out="chief")
        got = self.found("--ps=2", "--workers=1", "--evaluator", keys=self.keys(WIDE_DEEP), out="evaluator")
        self.assertTrue(got["evaluator"]["final"])
        for key in want["eval"]:
            self.assertTrue(math.isclose(got["eval"][key], want["eval"][key], rel_tol=1e-14), (key, got["eval"]))

    def test_processes_that_are_killed_change_nothing(self):
        keys = self.keys(WIDE_DEEP, training__epochs=60, checkpoint__every_steps=150, checkpoint__every_seconds=0)
        want = self.found("--ps=1", "--workers=1", keys=keys, out="undisturbed")
        whole = (("worker-1",), ("worker-0",), ("ps-1",), ("ps-0", "worker-1"), ALL)
        for names in whole[1:3] if SHORT or SANITIZED else whole:
            with self.subTest(names):
                job = self.launch("--ps=2", "--workers=2", *SLOW, keys=keys, out=self.tmp / "-".join(names))
                job.until_cut(2)
                for name in names:
                    job.kill(name)
                got = job.wait().summary()
                self.assertGreaterEqual(got["restarts"], len(names))
                for key in ("train", "eval", "digest", "steps"):
                    self.assertEqual(got[key], want[key], job.logs())

    def test_admission_and_eviction_leave_the_same_rows_for_any_number_of_ps_and_after_kills(self):
        keys = self.keys(WIDE_DEEP, training__epochs=60, checkpoint__every_steps=150, checkpoint__every_seconds=0,
                         tables="{ids: {min_count: 2, sketch_mb: 1, unseen_steps: 10}, wide: {probability: 0.1}, bag: {min_count: 40}}")
        want = self.found("--ps=1", "--workers=1", keys=keys, out="one")
        plain = self.found("--ps=1", "--workers=1", keys={**keys, "tables": "{}"}, out="plain")
        self.assertNotEqual(want["digest"], plain["digest"])
        for ps in (2,) if SHORT or SANITIZED else (2, 4):
            with self.subTest(ps=ps):
                got = self.found("--ps", ps, "--workers=2", "--evaluator", keys=keys, out=f"ps{ps}")
                for key in ("train", "digest", "steps", "tables"):
                    self.assertEqual(got[key], want[key])
                for key in want["eval"]:
                    self.assertTrue(math.isclose(got["eval"][key], want["eval"][key], rel_tol=1e-14), got["eval"])
        counts = want["tables"]
        self.assertEqual(sorted(counts), ["bag", "ids", "wide"])
        self.assertTrue(counts["ids"]["evicted"] > 0 < counts["wide"]["dropped"], counts)
        for table in counts.values():
            self.assertEqual((table["admitted"], table["refused"]), (table["rows"] + table["evicted"], 0))
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys=keys, out=self.tmp / "killed")
        job.until_cut(2)
        for name in ALL:
            job.kill(name)
        got = job.wait().summary()
        for key in ("train", "eval", "digest", "steps", "tables"):
            self.assertEqual(got[key], want[key], job.logs())
        again = self.launch("--ps=2", "--workers=2", keys=keys, out=self.tmp / "killed").wait().summary()
        self.assertEqual(again["tables"], counts)  # of a job that was done, from its last checkpoint

    def test_the_counts_of_each_shard_are_those_of_the_summary(self):
        keys = self.keys(WIDE_DEEP, tables="{ids: {min_count: 2, sketch_mb: 1, unseen_steps: 10}, bag: {min_count: 40}}", ps__threads=1)
        job = self.launch("--ps=2", "--workers=1", "--evaluator", keys=keys)  # it ends when the evaluator has had its say
        of = job.until("processes/http names all", lambda: len(p := places(self.out)) == 4 and p)
        job.kill("evaluator-0", signal.SIGSTOP)

        def all_learned():
            last = metrics(of["worker-0"])
            shown = [metrics(of[f"ps-{i}"]) for i in (0, 1)]
            if not last or not all(shown):
                return None  # one that does not answer yet
            planned = last.get("gradwire_job_planned_steps")
            made = [m.get("gradwire_shard_step", shard=i) for i, m in enumerate(shown)]
            return planned and made == [planned] * 2 and shown
        shown = job.until("all is learned", all_learned)
        said = [json.loads(text(of[f"ps-{i}"], "/status"))["shards"][0]["tables"] for i in (0, 1)]
        since = re.findall(r"^# HELP gradwire_table_(\w+)_total (.*)$", text(of["ps-0"], "/metrics"), flags=re.M)
        self.assertEqual({name for name, help in since if help.endswith(", since the job or its last new run began.")},
                         {"admitted_rows", "evicted_rows", "dropped_gradients", "refused_gradients"})
        job.kill("evaluator-0", signal.SIGCONT)
        counts = job.wait().summary()["tables"]
        self.assertTrue(counts["ids"]["evicted"] > 0 < counts["bag"]["dropped"], counts)
        families = {"rows": "rows", "admitted": "admitted_rows_total", "evicted": "evicted_rows_total",
                    "dropped": "dropped_gradients_total", "refused": "refused_gradients_total"}
        for table, want in counts.items():
            for name, family in families.items():
                self.assertEqual(sum(s[table][name] for s in said), want[name])
                self.assertEqual(sum(m(f"gradwire_table_{family}", table=table, shard=i) for i, m in enumerate(shown)), want[name])

    def test_async_learns_what_sync_does(self):
        keys = self.keys(WIDE_DEEP, training__epochs=8)
        sync = self.found("--ps=2", "--workers=2", keys=keys, out="sync")
        got = self.found("--ps=2", "--workers=2", keys={**keys, "training.update": "async"}, out="async")
        self.assertAlmostEqual(got["eval"]["auc"], sync["eval"]["auc"], delta=0.03)

    def test_one_worker_and_one_microbatch_are_the_same_in_every_mode(self):
        keys = self.keys(WIDE_DEEP, training__microbatches=1)
        want = self.found("--ps=2", "--workers=1", keys=keys, out="sync")
        for update, more in ("async", {}), ("ssp", {"training.staleness": 0}):
            with self.subTest(update):
                got = self.found("--ps=2", "--workers=1", out=update, keys={**keys, "training.update": update, **more})
                for key in ("eval", "digest", "steps"):
                    self.assertEqual(got[key], want[key])

    def test_ssp_learns_what_sync_does_whoever_is_killed(self):
        keys = self.keys(WIDE_DEEP, training__epochs=60, checkpoint__every_steps=150, checkpoint__every_seconds=0,
                         training__update="ssp", training__staleness=1)
        job = self.launch("--ps=2", "--workers=2", *SLOW, keys=keys, out=self.tmp / "ssp")
        job.until_cut(2)
        job.kill("ps-1")
        job.kill("worker-1")
        got = job.wait().summary()
        self.assertGreaterEqual(got["restarts"], 2)
        self.assertEqual(got["steps"], 60 * math.ceil(ROWS / 64))
        self.assertGreater(got["eval"]["auc"], 0.7)

    @unittest.skipIf(SHORT or SANITIZED, "a push of 280 MB")
    def test_a_push_that_no_connection_could_keep_a_copy_of_goes_out_before_an_ask(self):
        for name, rows in self.rows.items():
            path = self.tmp / f"{name}.csv"
            path.write_text("".join(path.read_text().splitlines(keepends=True)[:16]))
        large = """[embedding_bag: {inputs: [member, shop, tags], output_dim: 2}, dense: {units: 8400},
            dense: {units: 8400}, dense: {units: 1}, sigmoid]"""
        keys = self.keys(large, data__columns=COLUMNS.replace("number: x", "ignore: x"), training__batch_size=8,
                         training__microbatches=1, training__epochs=1, ps__threads=1, optimizer="{sgd: {learning_rate: 1}}")
        self.assertEqual(self.found("--ps=1", "--workers=1", keys=keys, out="large")["steps"], 2)

    @unittest.skipIf(SHORT or SANITIZED, "rows of more than 1 GiB")
    def test_rows_that_no_answer_may_have_end_the_job_and_say_what_would_do(self):
        rows = (f"{i % 2},{';'.join(f'{i}-{k}:1' for k in range(100))}\n" for i in range(700))
        (self.tmp / "train.csv").write_text("".join(rows))
        keys = self.keys("[embedding_bag: {inputs: tags, output_dim: 4096}, dense: {units: 1}, sigmoid]",
                         data__columns='[label: y, keys: {name: tags, separator: ";", max_values: 100, weights: true}]',
                         data__eval=None, training__batch_size=700, training__microbatches=1, ps__threads=1)
        job = self.launch("--ps=1", "--workers=1", keys=keys).wait(1)
        self.assertIn("MiB, but the most is 1024: use more ps or ps.threads", job.logs())

    def test_rows_in_fewer_bits_are_the_same_for_any_number_of_ps_and_learn_as_well(self):
        plain = self.found("--ps=1", "--workers=1", keys=self.keys(WIDE_DEEP), out="plain")
        for push, reply in (("int8", "fp16"), ("bf16", "bf16"))[:1 if SHORT or SANITIZED else 2]:
            with self.subTest(push=push, reply=reply):
                keys = self.keys(WIDE_DEEP, **{f"tables.{table}.compression": f"{{push: {push}, reply: {reply}}}"
                                               for table in ("wide", "ids", "bag")})
                one = self.found("--ps=1", "--workers=1", keys=keys, out=f"{push}-1")
                three = self.found("--ps=3", "--workers=1", keys=keys, out=f"{push}-3")
                self.assertFalse(one["exact"])
                self.assertEqual(one["digest"], three["digest"])
                self.assertEqual(one["eval"], three["eval"])
                self.assertNotEqual(one["digest"], plain["digest"])
                self.assertAlmostEqual(one["eval"]["auc"], plain["eval"]["auc"], delta=0.02)
                sent = [s["per_worker"][0]["bytes_out"] + s["per_worker"][0]["bytes_in"] for s in (one, plain)]
                self.assertLess(sent[0], sent[1])

    def test_the_learning_rate_finder_refuses_tables(self):
        got = subprocess.run([WORKER, "--find_learning_rate", f"--job={self.JOB}", f"--output={self.out}",
                              *self.sets(self.keys(WIDE_DEEP))], capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(got.returncode, 2, got.stderr)
        self.assertIn("lr-finder does not support embedding tables", got.stderr)


if __name__ == "__main__":
    unittest.main()
