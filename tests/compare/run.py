#!/usr/bin/env python3
"""Do two builds learn the same? For a change that is to change nothing.

    python3 tests/compare/run.py OLD NEW [--short] [--only TEXT] [--seed N]

OLD and NEW are checkouts, each with a release build in build/, made in the same way (./gradwire build). Each case is a job
of examples/ on a few rows, with an optimizer, an update mode and microbatches. It passes if

- both builds, undisturbed, end with the same digest, the same final checkpoint and the same exported model;
- so do an old ps with new workers, and a new ps with old ones (what travels between them is the same);
- both, stopped after half of the epochs, have the same checkpoint, though a process of each was killed on the way;
- either build resumes the other's checkpoint, and ends with what a run that was never stopped ends with.

A checkpoint is compared by its manifest's fields and by the unpacked weights and slots. Modes that promise no bits across
kills and restores run with one worker, or one split, without a kill; there the two that resumed are compared with each other.

    -s, --short     half of the cases, drawn by a seed, with one number of microbatches each
    --only TEXT     cases with this in their name (can be repeated)
    --seed N        draw them by this seed

The last line is "N passed, N failed"; the exit code is 1 if any failed."""
import argparse
import json
import pathlib
import random
import sys
import tempfile
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "lib"))
import cluster  # noqa: E402
import cut  # noqa: E402

EPOCHS = 2
SLEEP_S = 0.02  # of each worker after each computation, where a process is to be killed before the end
VICTIMS = ("ps-1", "worker-1", "worker-0")
KEYS = {"data.synthetic_train_rows": 1280, "data.synthetic_eval_rows": 100, "training.batch_size": 32,
        "training.microbatches": 8, "checkpoint.every_steps": 5, "checkpoint.every_seconds": 0,
        "timeouts.start_s": 60, "timeouts.worker_rejoin_s": 30, "logs.tensorboard": "false"}
CIFAR_ROWS = 640
FAILURE_CHARS = 3000  # logs may stand behind it


@dataclass
class Job:
    """One case. exact: the same bits across kills and restores."""
    name: str
    keys: dict = field(default_factory=dict)
    example: str = "mnist/mlp"
    workers: int = 2
    exact: bool = True



def example(name, **keys):
    return Job(name, keys, name)


def optimizer(name, options=None, **keys):
    options = {f"optimizer.{name}.{key}": value for key, value in (options or {}).items()}
    return Job(" ".join([f"optimizer {name}", *(key.rsplit(".", 1)[1] for key in options)]),
               {"optimizer": name, "training.learning_rate": 0.01, **options, **keys})


def mode(name, **more):
    keys = more.pop("keys", {})
    return Job(f"mode {name}", keys, **more)


def schedule(name, **options):
    keys = {f"training.learning_rate_schedule.{name}.{key}": value for key, value in options.items()}
    return mode(f"schedule {name}", keys={"training.warmup_steps": 7, **keys})


JOBS = [
    example("mnist/mlp"), example("mnist/cnn"), example("mnist/convnet"), example("adult/mlp"), example("cifar10/cnn"),
    optimizer("sgd"), optimizer("sgd", {"momentum": 0.9, "nesterov": "true", "weight_decay": 0.01}),
    optimizer("adam"), optimizer("adam", {"amsgrad": "true"}), optimizer("adamw", {"exclude_from_weight_decay": "[bias]"}),
    optimizer("adagrad"), optimizer("rmsprop"), optimizer("rmsprop", {"centered": "true", "momentum": 0.9}),
    optimizer("ftrl"), optimizer("ftrl", {"learning_rate_power": -0.6, "l1_regularization_strength": 0.001, "beta": 1}),
    optimizer("lamb", {"weight_decay": 0.01}), optimizer("lamb", {"use_ema": "true"}, **{"training.clip_norm": 0.5}),
    schedule("exponential_decay", decay_steps=10, decay_rate=0.9, staircase="true"), schedule("cosine_decay", decay_steps=60),
    schedule("polynomial_decay", decay_steps=20, cycle="true"), schedule("inverse_time_decay", decay_steps=10, decay_rate=0.5),
    mode("clip_norm", keys={"training.clip_norm": 0.1}),
    mode("nan_guard", keys={"training.nan_guard": "skip"}),
    mode("clip_norm, nan_guard, accumulation", keys={"training.clip_norm": 0.1, "training.nan_guard": "rollback",
                                                     "training.gradient_accumulation_steps": 3}),
    mode("accumulation", keys={"training.gradient_accumulation_steps": 4}),
    mode("use_ema, overwrite", keys={"optimizer.adam.use_ema": "true", "optimizer.adam.ema_overwrite_frequency": 7}),
    mode("use_ema, accumulation", keys={"optimizer.adam.use_ema": "true", "training.gradient_accumulation_steps": 2,
                                        "training.monitor": "accuracy"}),
    mode("all replicas awaited, redo", keys={"sync.replicas_to_aggregate": 2, "sync.dropped": "redo"}),
    mode("lossless codecs", keys={"compression.push": "zstd", "compression.reply": "zstd"}),
    mode("auto codecs", keys={"compression.push": "auto", "compression.reply": "auto"}),
    mode("class weights, regularizer", keys={"training.class_weight": "{0: 1, 1: 5}",
                                             "model.layers[1].dense.kernel_regularizer.l2.l2": 0.01}),
    mode("store of the chief, one shard", keys={"checkpoint.store": "chief", "ps.threads": 1, "worker.threads": 1}),
    mode("three workers", workers=3),
    *(mode(f"lossy codec {name}", exact=False, keys={"compression.push": name, "compression.reply": name})
      for name in ("fp16", "bf16", "int8", "int8_zstd")),
    *(mode(f"{name} of one worker", exact=False, workers=1, keys={"training.update": name, **keys})
      for name, keys in (("async", {"training.clip_norm": 0.5, "training.staleness_rate": "true"}),
                         ("ssp", {"training.staleness": 1}), ("geo", {"training.geo_every": 4}))),
    mode("async of one worker, delay_compensation", exact=False, workers=1,
         keys={"training.update": "async", "training.delay_compensation": 0.1, "training.gradient_accumulation_steps": 2}),
]


class Differs(Exception):
    """The differences between the results of two builds."""


class Cluster(cluster.TrainCase):
    """Runs clusters of one build, or of a ps and workers of two."""

    KEYS = {}

    def runTest(self):
        """Never called: unittest asks for one."""

    def binaries(self, ps, worker):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.tmp))
        for program, build in (("ps", ps), ("worker", worker)):
            (folder / program).mkdir()
            (folder / program / program).symlink_to(build / "build" / program / program)
        return folder

    def learn(self, job, ps, worker, out, epochs=EPOCHS, victim=None):
        """Trains in `out`, where a checkpoint may be; kills the victim when the run's first checkpoint but that of the start is
        published. Returns what was learned."""
        cluster.LAUNCH = worker / "build/launch/launch"
        keys = {**KEYS, **job.keys, "training.epochs": epochs}
        slow = [f"--fault=worker-{i}=sleep:{SLEEP_S}" for i in range(job.workers)] if victim else []
        launched = self.launch(*slow, "--ps=2", f"--workers={job.workers}", f"--bin-dir={self.binaries(ps, worker)}", out=out, keys=keys,
                               job=worker / f"examples/{job.example}.yaml")
        if victim:
            launched.until_cut(1)
            launched.kill(victim)
        summary = launched.wait().summary()
        self.assertEqual(bool(summary["restarts"]), bool(victim), f"the kill of {victim}")
        return Learned(out, summary)


class Learned:
    def __init__(self, out, summary):
        self.summary, self.cut = summary, cut.read(cut.newest(out))
        self.model = (out / "model/weights.safetensors").read_bytes()

    def same(self, what, other):
        """Errors: Differs."""
        found = [key for key in ("status", "digest", "exact", "steps", "epochs", "train", "eval", "learning_rate", "averaged")
                 if self.summary[key] != other.summary[key]]
        found = [f"{key} of summary.json" for key in found] + cut.differences(self.cut, other.cut)
        if self.model != other.model:
            found.append("model/weights.safetensors")
        if found:
            raise Differs(f"{what} differ in {', '.join(found)}")


def write_cifar(folder):
    """CIFAR-10's files: a byte for the class, and 3 x 32 x 32 of an image in its class's brightness."""
    draw = random.Random(1)
    for name, rows in (("data_batch_1.bin", CIFAR_ROWS), ("test_batch.bin", 100)):
        with open(folder / name, "wb") as file:
            for _ in range(rows):
                label = draw.randrange(10)
                file.write(bytes([label]) + bytes(b // 2 + 12 * label for b in draw.randbytes(3072)))
    return {"data.train": str(folder / "data_batch_1.bin"), "data.eval": str(folder / "test_batch.bin"),
            "data.synthetic_train_rows": None, "data.synthetic_eval_rows": None}


def compare(runs, job, old, new, turn):
    """Errors: Differs, AssertionError (a run failed)."""
    def learn(name, *builds, **options):
        return runs.learn(job, *builds, runs.tmp / name, **options)

    whole = learn("old", old, old)
    whole.same("an old run and a new one", learn("new", new, new))
    whole.same("an old run and an old ps with new workers", learn("old-ps", old, new))
    whole.same("an old run and a new ps with old workers", learn("new-ps", new, old))
    victims = [VICTIMS[(turn + i) % len(VICTIMS)] if job.exact else None for i in (0, 1)]
    half = learn("old-new", old, old, epochs=EPOCHS // 2, victim=victims[0])
    half.same(f"half an old run ({victims[0]} killed) and half a new one ({victims[1]} killed)",
              learn("new-old", new, new, epochs=EPOCHS // 2, victim=victims[1]))
    resumed = learn("old-new", new, new)
    if job.exact:
        whole.same("a run never stopped and an old checkpoint resumed by the new build", resumed)
    resumed.same("an old checkpoint resumed by the new build and a new one resumed by the old build", learn("new-old", old, old))


def passes(job, old, new, turn):
    runs = Cluster()
    runs.setUp()
    try:
        if job.example.startswith("cifar10"):
            job.keys.update(write_cifar(runs.tmp))
        compare(runs, job, old, new, turn)
        print(f"ok     {job.name}", flush=True)
        return True
    except (Differs, cut.Broken, AssertionError, OSError) as failure:
        print(f"FAILED {job.name}: {str(failure)[:FAILURE_CHARS]}", flush=True)
        return False
    finally:
        runs.doCleanups()


def chosen(options):
    jobs = [Job(f"{job.name}, M={m}", {"training.microbatches": m, **job.keys}, job.example, job.workers, job.exact)
            for job in JOBS for m in (8, 1)]
    if options.only:
        jobs = [job for job in jobs if any(text in job.name for text in options.only)]
        if not jobs:
            sys.exit(f"compare: no case has {options.only[0]} in its name")
    elif options.short:
        seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
        draw = random.Random(seed)
        jobs = [draw.choice(pair) for pair in zip(jobs[::2], jobs[1::2]) if draw.random() < 0.5]
        print(f"compare: {len(jobs)} cases, seed {seed}", flush=True)
    return jobs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("-s", "--short", action="store_true")
    parser.add_argument("--only", action="append")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    old, new = options.old.resolve(), options.new.resolve()
    for build in (old, new):
        if not (build / "build/launch/launch").exists():
            parser.error(f"{build} has no build in build/ (./gradwire build)")
    results = [passes(job, old, new, turn) for turn, job in enumerate(chosen(options))]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
