"""gradwire bench: measures each stage of gradwire and its yardstick in the same run.

A case measures gradwire and its yardsticks in turn, in nine rounds, and the order changes from round to round. It
reports the ratio of the medians. No yardstick spins.

A case is INVALID if the yardstick's quartiles are more than 20 % of its median apart: the machine was not quiet, so
measure again. A case is also INVALID if one of the programs failed, or found that its own result is wrong. The exit
code is then 1.
"""
import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from functools import cache, partial

from lib.cases import failed, finish, interleave
from lib.job import CNN, JOB, train_once
from lib.programs import BUILD, ROOT, Failed, measure, run
from lib.report import configuration, number, print_configuration, write_json

NAMES = ["exchange", "roundtrip", "tls", "apply", "rows", "csv", "parquet", "layers", "ready", "train"]
KIB, MIB = 1 << 10, 1 << 20


# ---- exchange and round trips ----

SIZES = {"64 KiB": (64 * KIB, 16), "4 MiB": (4 * MIB, 4), "64 MiB": (64 * MIB, 4)}


def exchange_once(name, mode, size, window, milliseconds, more=()):
    flags = ["--mode", mode, "--bytes", size, "--window", window, "--milliseconds", milliseconds, *more]
    if name == "exchange":
        flags += ["--ps", os.path.join(BUILD, "ps", "ps"), "--job", JOB]
    return measure(60, name, *flags)


def exchange_case(options, mode, size, window):
    case = {"unit": "GB/s", "bytes": size, "window": window}
    return interleave(case, {
        "ours": lambda: exchange_once("exchange", mode, size, window, options.milliseconds)["gb_per_s"],
        "raw": lambda: exchange_once("raw_exchange", mode, size, window, options.milliseconds)["gb_per_s"],
    }, options.rounds)


def bench_exchange(options):
    for mode in ("push", "pull", "pushpull"):
        for label, (size, window) in SIZES.items():
            yield f"{mode} {label}", partial(exchange_case, options, mode, size, window)
    for label, (size, window) in SIZES.items():
        yield f"checksums {label}", partial(checksums_case, options, size, window)


def checksums_case(options, size, window):
    """The cost of checksums: push-pull, compared with the same without them."""
    def once(*more):
        return exchange_once("exchange", "pushpull", size, window, options.milliseconds, more)["gb_per_s"]

    case = {"unit": "GB/s", "bytes": size, "window": window}
    return interleave(case, {"ours": lambda: once("--checksums"), "plain": once}, options.rounds)


def roundtrip_case(options, size):
    latency = {"ours": [], "raw": []}

    def once(side, name):
        result = exchange_once(name, "roundtrip", size, 1, options.milliseconds)
        latency[side].append((result["p50_us"], result["p99_us"]))
        return result["per_s"]

    case = {"unit": "1/s", "bytes": size, "window": 1}
    interleave(case, {"ours": lambda: once("ours", "exchange"), "raw": lambda: once("raw", "raw_exchange")},
               options.rounds)
    for side, pairs in latency.items():
        if pairs:
            case[f"{side}_p50_us"] = statistics.median(p50 for p50, _ in pairs)
            case[f"{side}_p99_us"] = statistics.median(p99 for _, p99 in pairs)
    return case


def bench_roundtrip(options):
    for size in (64, 4 * KIB):
        yield f"push {size} B", partial(roundtrip_case, options, size)


# ---- the cost of TLS: push-pull with it, compared with the same without ----

def make_certificate(folder):
    """A CA and one certificate for 127.0.0.1, as docs/guides/tls.md makes them."""
    def openssl(*words):
        try:
            subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as failure:
            raise Failed(f"no certificate could be made: {failure}") from failure

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=bench", "-keyout", "ca.key", "-out", "ca.crt")
    openssl("req", *key, "-subj", "/CN=bench", "-keyout", "tls.key", "-out", "tls.csr")
    with open(os.path.join(folder, "names"), "w", encoding="utf-8") as out:
        out.write("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", "tls.crt")


def tls_case(options, size, window):
    case = {"unit": "GB/s", "bytes": size, "window": window, "kernel_tls": os.path.exists("/proc/net/tls_stat")}

    def once(*more):
        return exchange_once("exchange", "pushpull", size, window, options.milliseconds, more)["gb_per_s"]

    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as folder:
        try:
            make_certificate(folder)
        except Failed as failure:
            return failed(case, failure)
        return interleave(case, {"ours": lambda: once("--tls", folder), "plain": once}, options.rounds)


def bench_tls(options):
    for label, (size, window) in SIZES.items():
        yield f"pushpull {label}", partial(tls_case, options, size, window)


# ---- apply ----

APPLY_OPTIMIZERS = ("sgd", "momentum", "nesterov", "adam", "amsgrad", "adamw", "adagrad", "rmsprop", "rmsprop_centered",
                    "ftrl", "lamb")


def apply_case(options, optimizer, size):
    case = {"unit": "GB/s", "bytes": size}
    milliseconds = max(options.milliseconds // 8, 20)
    flags = ["--optimizer", optimizer, "--bytes", size, "--rounds", options.rounds, "--milliseconds", milliseconds]
    try:
        result = measure(300, "apply", *flags)
    except Failed as failure:
        return failed(case, failure)
    return finish(case, result["gb_per_s"], {"memcpy": result["memcpy_gb_per_s"]})


def bench_apply(options):
    for optimizer in APPLY_OPTIMIZERS:
        for label, (size, _) in SIZES.items():
            yield f"{optimizer} {label}", partial(apply_case, options, optimizer, size)


# ---- rows: a ps's table ----

ROWS_WANTED = 0.85  # of what memory allows
ROWS_TCP_WANTED = {"pull": 0.49, "push": 0.40}  # of what memory allows, over loopback
ROWS_TCP_JUDGED_MIN = 10_000_000  # of a smaller table the yardstick has more in the caches
UNEVEN_ROWS = {"1,000,000 rows left of 10,000,000": ("--left", 1_000_000),
               "16,000 rows of one bucket": ("--bucket", 16_000)}
UNEVEN_WANTED = 0.5  # of as many rows that are spread
ROWS_MEMORY_MAX = 1.3  # peak to payload: keys, weights and slots
ROWS_LEFT = "8 rows left of 1,200,000", ("--left", 8, "--of", 150_000)
ROWS_LEFT_MAX = 2.5  # memory to payload of rows that are left
ROWS_LEFT_MIN_BYTES = 8 << 20  # of a table with few rows: some huge pages
FULL_TABLE_MIN = 20_000
TURNS = 3
FULL_TABLE_JUDGED = 10_000_000
FULL_TABLE_WANTED = 0.6  # its rate of steps over the exchange, of the smallest table's
ROWS_MEASURED_MAX = 30_000_000  # larger tables stand alone: two of them would want the machine's memory


def rows_case(once, what, wanted=ROWS_WANTED, yardstick="raw"):
    case = {"unit": "Mrows/s"}
    try:
        result = once()
    except Failed as failure:
        return failed(case, failure)
    finish(case, result[f"{what}_mrows_per_s"], {yardstick: result[f"{what}_{yardstick}_mrows_per_s"]})
    if wanted:
        case["wanted"] = yardstick, wanted
        case["missed"] = not case["invalid"] and case["against"][yardstick]["ratio"] < wanted
    if f"{what}_ps_cpu_mrows_per_s" in result:
        case["ps_cpu"] = statistics.median(result[f"{what}_ps_cpu_mrows_per_s"])
        case["ps_cpu_ratio"] = case["ps_cpu"] / case["against"]["raw"]["yardstick"]["median"]
    return case


def rows_memory_case(once):
    case = {"unit": "MB"}
    try:
        result = once()
    except Failed as failure:
        return failed(case, failure)
    finish(case, [result["peak_bytes"] / 1e6], {"payload": [result["payload_bytes"] / 1e6]})
    case["most"] = ROWS_MEMORY_MAX
    case["missed"] = case["against"]["payload"]["ratio"] > ROWS_MEMORY_MAX
    case["longest_add_us"] = result["longest_add_us"]
    return case


def rows_left_case(once):
    """The memory of a table whose other rows were removed."""
    case = {"unit": "MB"}
    try:
        result = once()
    except Failed as failure:
        return failed(case, failure)
    finish(case, [result["left_bytes"] / 1e6],
           {"payload": [result["payload_bytes"] / 1e6], "grown": [result["grown_bytes"] / 1e6]})
    case["most"], case["and_least"] = ROWS_LEFT_MAX, f" of payload, or {ROWS_LEFT_MIN_BYTES / 1e6:.1f} MB"
    case["missed"] = result["left_bytes"] > max(ROWS_LEFT_MAX * result["payload_bytes"], ROWS_LEFT_MIN_BYTES)
    return case


def in_turns(sizes, rounds, once):
    """rows -> a call that gives what `once(rows, rounds)` measured: all sizes in turn, some times, as the machine's speed
    changes from minute to minute."""
    @cache
    def all_sizes():
        results = {}
        for _ in range(min(TURNS, rounds)):
            for rows in sizes:
                result, so_far = once(rows, -(-rounds // TURNS)), results.get(rows)
                results[rows] = result if so_far is None else {
                    name: so_far[name] + value if isinstance(value, list) else value for name, value in result.items()}
        return results

    return {rows: lambda rows=rows: all_sizes()[rows] for rows in sizes}


def full_table_case(once, smallest):
    """Compared with the yardstick, and with the smallest table's steps: rows and bytes a step must be the same."""
    case = {"unit": "steps/s"}
    try:
        result, base = once(), smallest()
    except Failed as failure:
        return failed(case, failure)
    return against_smallest(case, result, base, "steps_per_s", "raw_steps_per_s")


def full_table_tcp_case(once, smallest):
    """The same over the exchange with a real ps; its fall is promised."""
    case = {"unit": "Mrows/s"}
    try:
        result, base = once(), smallest()
    except Failed as failure:
        return failed(case, failure)
    against_smallest(case, result, base, "step_mrows_per_s", "step_raw_mrows_per_s")
    case["ps_cpu"] = statistics.median(result["step_ps_cpu_mrows_per_s"])
    case["ps_cpu_ratio"] = case["ps_cpu"] / case["against"]["raw"]["yardstick"]["median"]
    if "smallest" in case["against"] and result["rows"] == FULL_TABLE_JUDGED:
        case["wanted"] = "smallest", FULL_TABLE_WANTED
        case["missed"] = not case["invalid"] and case["against"]["smallest"]["ratio"] < FULL_TABLE_WANTED
    return case


def against_smallest(case, result, base, ours, raw):
    against = {"raw": result[raw]}
    if result["rows"] != base["rows"]:
        against["smallest"] = base[ours]
    finish(case, result[ours], against)
    case["a_step"] = result["a_step"]
    case["raw_to_smallest"] = statistics.median(result[raw]) / statistics.median(base[raw])
    if result["a_step"] != base["a_step"]:
        case["invalid"] = f"a step has {result['a_step']}, of the smallest {base['a_step']}"
    return case


def bench_rows(options):
    """Rows of 16 floats with adagrad. Others than those of --rows: 20,000 to 10 million, with --quick 1 million."""
    sizes = [options.rows] if options.rows else [20_000, 200_000, 1_000_000] + ([] if options.quick else [10_000_000])
    for rows in sizes:
        alone = rows > ROWS_MEASURED_MAX
        flags = ["--rows", rows, "--rounds", options.rounds, *(["--alone"] if alone else [])]
        once = cache(partial(measure, 600, "rows", *flags))
        if not alone:
            for what in ("lookup", "update"):
                yield f"{what} {rows:,} rows", partial(rows_case, once, what)
        if rows >= 1_000_000:
            yield f"peak memory {rows:,} rows", partial(rows_memory_case, once)
    for label, flags in () if options.rows else UNEVEN_ROWS.items():
        once = cache(partial(measure, 600, "uneven_rows", *flags, "--rounds", options.rounds))
        for what in ("lookup", "cut"):
            yield f"{what} {label}", partial(rows_case, once, what, UNEVEN_WANTED, "spread")
        if "--left" in flags:
            yield f"memory {label}", partial(rows_left_case, once)
    if not options.rows:
        label, flags = ROWS_LEFT
        yield f"memory {label}", partial(rows_left_case, partial(measure, 600, "uneven_rows", *flags, "--rounds", 1))
    sizes = [rows for rows in sizes if FULL_TABLE_MIN <= rows <= ROWS_MEASURED_MAX]
    over_tcp = in_turns(sizes, options.rounds, lambda rows, rounds: measure(
        600, "rows_tcp", "--ps", os.path.join(BUILD, "ps", "ps"), "--job", JOB, "--rows", rows, "--rounds", rounds))
    for rows in sizes[-1:]:
        for what, wanted in ROWS_TCP_WANTED.items():
            yield (f"tcp {what} {rows:,} rows",
                   partial(rows_case, over_tcp[rows], what, wanted if rows >= ROWS_TCP_JUDGED_MIN else None))
    alone = in_turns(sizes, options.rounds,
                     lambda rows, rounds: measure(600, "full_table", "--rows", rows, "--rounds", rounds))
    for rows in sizes:
        yield f"full table {rows:,} rows", partial(full_table_case, alone[rows], alone[min(sizes)])
    for rows in sizes:
        yield f"full table, tcp {rows:,} rows", partial(full_table_tcp_case, over_tcp[rows], over_tcp[min(sizes)])


# ---- csv ----

def csv_case(options, threads, quoted):
    """Compared with a loop, on one thread, that only counts the newlines of the same file."""
    case = {"unit": "GB/s", "threads": threads}
    flags = ["--threads", threads, "--rounds", options.rounds, "--bytes", (8 if options.epochs == 1 else 64) * MIB]
    try:
        result = measure(300, "csv", *flags, *(["--quoted"] if quoted else []))
    except Failed as failure:
        return failed(case, failure)
    return finish(case, result["gb_per_s"], {"count": result["count_gb_per_s"]})


def spilled_case(options, threads, gather):
    """All rows in a file, compared with all in memory."""
    case = {"unit": "Mrows/s" if gather else "GB/s", "threads": threads}
    flags = ["--threads", threads, "--rounds", options.rounds, "--bytes", (8 if options.epochs == 1 else 64) * MIB]
    values = "mrows_per_s" if gather else "gb_per_s"
    try:
        result = measure(300, "csv", *flags, "--gather" if gather else "--spilled")
    except Failed as failure:
        return failed(case, failure)
    return finish(case, result[values], {"memory": result[f"memory_{values}"]})


@cache
def readers_there(names):
    """Other readers that are installed in the Python that GRADWIRE_INTEROP_PYTHON names, or in this one."""
    python = os.environ.get("GRADWIRE_INTEROP_PYTHON") or sys.executable
    there = run([python, "-c", f"import importlib.util as u; print(*[n for n in {names!r} if u.find_spec(n)])"], 60).split()
    for name in names:
        if name not in there:
            print(f"gradwire bench: csv: {name} is not installed in {python}, so it is not measured (GRADWIRE_INTEROP_PYTHON "
                  "names another Python)", file=sys.stderr)
    return python, there


def readers_case(options, names, *kind):
    """One thread, compared with other readers of the same file, and clicks with a loop that makes the columns."""
    case, raw = {"unit": "GB/s", "threads": 1}, []
    try:
        python, there = readers_there(names)
        with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as folder:
            path = os.path.join(folder, "rows")
            size = (8 if options.epochs == 1 else 64) * MIB
            rows = measure(300, "csv", "--threads", 1, "--rounds", 1, "--bytes", size, "--path", path, *kind)["rows"]

            def ours():
                result = measure(300, "csv", "--threads", 1, "--rounds", 1, "--bytes", size, "--path", path, *kind)
                raw.extend(result.get("raw_gb_per_s", []))
                return result["gb_per_s"][0]

            def other(name):
                result = json.loads(run([python, os.path.join(ROOT, "benchmarks", "text_side.py"), name, path], 300))
                if result["rows"] != rows or not result["valid"]:
                    raise Failed(f"{name} read {result['rows']} rows of {rows}")
                return result["gb_per_s"]

            interleave(case, {"ours": ours, **{name: partial(other, name) for name in there}}, options.rounds)
    except Failed as failure:
        return failed(case, failure)
    if raw and not case.get("failed"):
        against = {name: one["yardstick"]["values"] for name, one in case["against"].items()}
        finish(case, case["ours"]["values"], {"raw": raw, **against})
    return case


def bench_csv(options):
    for threads in sorted({1, len(os.sched_getaffinity(0))}):
        for quoted in (False, True):
            yield f"{'quoted' if quoted else 'plain'} threads {threads}", partial(csv_case, options, threads, quoted)
        yield f"spilled threads {threads}", partial(spilled_case, options, threads, False)
    for quoted in ([], ["--quoted"]):
        yield (f"clicks{' quoted' if quoted else ''} threads 1",
               partial(readers_case, options, ("pyarrow", "polars", "duckdb"), "--clicks", *quoted))
    yield "libsvm threads 1", partial(readers_case, options, ("sklearn",), "--libsvm")
    yield "gather spilled", partial(spilled_case, options, 1, True)


# ---- Parquet ----

PYARROW = """import sys, time
import pyarrow.parquet
began = time.perf_counter()
rows = sum(each.num_rows for each in pyarrow.parquet.ParquetFile(sys.argv[1]).iter_batches(16384, use_threads=False))
print(rows / (time.perf_counter() - began) * 1e-6)"""


def parquet_case(options, python):
    """Clicks as Parquet, on one thread, compared with a csv of the same rows and, if python has it, with pyarrow, which makes the columns."""
    values = {"ours": [], "csv": [], **({"pyarrow": []} if python else {})}
    size = (8 if options.epochs == 1 else 64) * MIB
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.parquet")
            for _ in range(options.rounds):
                result = measure(300, "csv", "--clicks", "--threads", 1, "--rounds", 1, "--bytes", size, "--parquet", path)
                values["ours"] += result["mrows_per_s"]
                values["csv"] += result["csv_mrows_per_s"]
                if python:
                    values["pyarrow"].append(float(run([python, "-c", PYARROW, path], 60)))
    except Failed as failure:
        return failed({"unit": "Mrows/s", "threads": 1}, failure)
    return finish({"unit": "Mrows/s", "threads": 1}, values.pop("ours"), values)


def bench_parquet(options):
    python = os.environ.get("GRADWIRE_INTEROP_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import pyarrow.parquet"], capture_output=True, check=False).returncode:
        print("bench parquet: no pyarrow in " + python + ", so it is skipped; GRADWIRE_INTEROP_PYTHON names another Python", file=sys.stderr)
        python = None
    yield "clicks threads 1", partial(parquet_case, options, python)


# ---- layers ----

def layer_case(once, way):
    try:
        result = once()
    except Failed as failure:
        return failed({"unit": "GFLOP/s"}, failure)
    return finish({"unit": result["unit"]}, result[way], {result["yardstick"]: result[f"{way}_yardstick"]})


def bench_layers(options):
    milliseconds = max(options.milliseconds // 40, 5)
    for name in run([os.path.join(BUILD, "benchmarks", "layers"), "--list"], 60).splitlines():
        once = cache(partial(measure, 300, "layers", "--case", name, "--rounds", options.rounds, "--milliseconds",
                             milliseconds))
        for way in ("forward", "backward"):
            yield f"{name} {way}", partial(layer_case, once, way)


# ---- ready: from the exec of the image's entrypoint to the first 200 of the process's /readyz ----

READY_ROUNDS = 20
READY_MS_MAX = 100  # p50: what containers are to be ready within


def ready_once(role):
    """Seconds; of a pod that is the first to come, with all data of the example still to be read."""
    folder = tempfile.mkdtemp(prefix="gradwire-bench-")
    with socket.socket() as a, socket.socket() as b, socket.socket() as c, socket.socket() as d:
        for s in (a, b, c, d):
            s.bind(("127.0.0.1", 0))
        ps, chief, worker, http = (f"127.0.0.1:{s.getsockname()[1]}" for s in (a, b, c, d))
    cluster = {"cluster": {"ps": [ps], "chief": [chief], "worker": [worker]}, "task": {"type": role, "index": 0}}
    command = [os.path.join(BUILD, "k8s", "entrypoint"), f"--job={JOB}", f"--output={folder}/job",
               f"--http_port={http.split(':')[1]}", "--http_address=127.0.0.1"]
    began = time.monotonic()
    child = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TF_CONFIG": json.dumps(cluster)},
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://{http}/readyz", timeout=5) as reply:
                    if reply.status == 200:
                        return time.monotonic() - began
            except urllib.error.HTTPError:
                pass  # 503: not yet
            except OSError:
                if child.poll() is not None:
                    raise Failed(f"{role} ended with {child.returncode}") from None
            if time.monotonic() - began > 20:
                raise Failed(f"{role} is not ready after 20 s")
            time.sleep(0.001)
    finally:
        child.kill()
        child.wait()
        shutil.rmtree(folder, ignore_errors=True)


def exec_once():
    """The yardstick: a process starts, says its version and ends."""
    began = time.monotonic()
    run([os.path.join(BUILD, "worker", "worker"), "--version"], 20)
    return 1 / (time.monotonic() - began)


def ready_case(options, role):
    taken = []

    def once():
        taken.append(ready_once(role))
        return 1 / taken[-1]

    case = interleave({"unit": "1/s"}, {"ours": once, "exec": exec_once},
                      3 if options.milliseconds < 800 else max(options.rounds, READY_ROUNDS))
    if case.get("failed"):
        return case
    case["p50_ms"] = 1000 * statistics.median(taken)
    case["p50_ms_max"] = READY_MS_MAX
    case["missed"] = case["p50_ms"] > READY_MS_MAX
    return case


def bench_ready(options):
    for role in ("ps", "worker", "chief"):
        yield f"{role}: entrypoint's exec to /readyz 200", partial(ready_case, options, role)


# ---- train: whole jobs ----

TRAIN_ROWS = 60000
WANTED = {("cnn", 256): ("one process", 1 / 1.4), ("cnn", 64): ("raw step", 1 / 1.15)}  # ratios that were promised


def train_case(options, job, update, batch, ps, workers, microbatches):
    """In async, batch_size is one worker's: the yardsticks get as many rows per worker."""
    rows = batch * workers if update == "async" else batch
    epochs = options.epochs * (1 if batch < 512 else 4)
    steps = max(TRAIN_ROWS * epochs // rows, 50)
    net = [] if job == JOB else ["--job", job]  # of the MLP the yardsticks have an own arithmetic
    case = {"unit": "examples/s", "batch": batch, "rows": rows, "epochs": epochs, "microbatches": microbatches}
    if job == CNN and not microbatches:
        case["wanted"] = WANTED["cnn", batch]

    def yardstick(name, *flags):
        return measure(120, name, "--batch", rows, "--steps", steps, *net, *flags)["examples_per_s"]

    interleave(case, {
        "ours": lambda: train_once(job, update, batch, ps, workers, microbatches, epochs),
        "raw step": lambda: yardstick("raw_step", "--ps", ps, "--workers", workers),
        "one process": lambda: yardstick("raw_train"),
    }, options.rounds)
    if "wanted" in case and not case["invalid"]:
        against, least = case["wanted"]
        case["missed"] = case["against"][against]["ratio"] < least
    return case


def bench_train(options):
    for batch in (64, 1024):
        for update, ps, workers, microbatches in (("sync", 2, 2, 2), ("sync", 2, 2, None), ("sync", 1, 1, None),
                                                  ("async", 1, 1, None), ("async", 2, 2, None)):
            label = f"M={microbatches}" if microbatches else "default M"
            yield (f"{update} {ps}+{workers} batch {batch} {label}",
                   partial(train_case, options, JOB, update, batch, ps, workers, microbatches))
    for batch in (64, 256):
        for microbatches in (2, None):
            label = f"M={microbatches}" if microbatches else "default M"
            yield (f"cnn sync 2+2 batch {batch} {label}",
                   partial(train_case, options, CNN, "sync", batch, 2, 2, microbatches))


# ---- what is printed ----

def print_case(case):
    name = f"{case['bench']:<10}{case['case']:<44}"
    ours = number(case["ours"]["median"]) if "ours" in case else "-"
    cells = [f"{against_name} {number(against['yardstick']['median'])} ratio {against['ratio']:.2f}"
             for against_name, against in case["against"].items()]
    if "ours_p50_us" in case:
        cells.append("p50/p99 us " + " against ".join(
            f"{case[side + '_p50_us']:.1f}/{case[side + '_p99_us']:.1f}" for side in ("ours", "raw")))
    if "ps_cpu" in case:
        cells.append(f"by the ps's CPU time {number(case['ps_cpu'])}, ratio {case['ps_cpu_ratio']:.2f}")
    if "a_step" in case:
        s = case["a_step"]
        cells.append(f"raw itself {case['raw_to_smallest']:.2f} of smallest; a step reads {s['asked']} rows, "
                     f"{s['read_bytes']} bytes, and touches {s['touched']} rows, {s['touched_bytes']} bytes")
    if "p50_ms" in case:
        within = f"MISSED: not within {case['p50_ms_max']} ms" if case["missed"] else f"within {case['p50_ms_max']} ms"
        cells.append(f"p50 {case['p50_ms']:.1f} ms, {within}")
    if "wanted" in case and not case["invalid"]:
        against_name, least = case["wanted"]
        told = "MISSED" if case["missed"] else "as promised"
        cells.append(f"{told}: {least:.2f} of {against_name} or more")
    if "most" in case and not case["invalid"]:
        told = "MISSED" if case["missed"] else "as promised"
        cells.append(f"{told}: at most {case['most']:.1f}" + case.get("and_least", ""))
    if "longest_add_us" in case:
        cells.append(f"the longest add {case['longest_add_us'] / 1000:.1f} ms")
    if case["invalid"]:
        cells.append(f"INVALID: {case['invalid']}")
    print(f"{name}{ours:>10} {case['unit']:<12}{'; '.join(cells)}", flush=True)


SLOWER = 0.9  # a ratio that falls below this part of the old one is reported


def load(path):
    """The report that --json wrote before. ValueError: the file is no such report."""
    with open(path, encoding="utf-8") as file:
        old = json.load(file)
    try:
        right = all(case["bench"] and case["case"] and (case["invalid"] or case["against"] is not None)
                    for case in old["cases"])
    except (KeyError, TypeError):
        right = False
    if not right:
        raise ValueError("this is not what --json wrote")
    return old


def compare(path, old, report):
    """Prints the cases that got slower since the report `old`, by the ratios to the yardsticks: these hold on other machines."""
    was = {(case["bench"], case["case"]): case for case in old["cases"] if not case["invalid"]}
    known, slower = 0, 0
    for case in report["cases"]:
        before = was.get((case["bench"], case["case"]))
        if before is None or case["invalid"]:
            continue
        known += 1
        for name, against in case["against"].items():
            ratio_was = before["against"].get(name, {}).get("ratio")
            if ratio_was and against["ratio"] < SLOWER * ratio_was:
                slower += 1
                print(f"SLOWER {case['bench']} {case['case']}: ratio to {name} {ratio_was:.2f} -> {against['ratio']:.2f}")
    print(f"compared with {path}: {known} cases are valid in both, {slower or 'nothing'} got slower")


def options_parse(arguments):
    parser = argparse.ArgumentParser(prog="gradwire bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=[*NAMES, "all"], default="all", metavar="NAME",
                        help=f"one of {', '.join(NAMES)}, all (default); update-modes, "
                             "compression and frameworks have their own flags")
    parser.add_argument("--json", metavar="FILE", help="write all measurements to FILE")
    parser.add_argument("--compare", metavar="OLD.json", help="show what has become slower since this file of --json")
    parser.add_argument("--rounds", type=int, metavar="N", help="default 9")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    parser.add_argument("--rows", type=int, metavar="N", help="rows: only a table of N rows")
    parser.add_argument("--quick", action="store_true", help="3 short rounds, to see whether it runs")
    options = parser.parse_args(arguments)
    if options.compare:
        try:
            options.old = load(options.compare)
        except (OSError, ValueError) as error:
            parser.error(f"--compare {options.compare}: {error}")
    if options.json and (os.path.isdir(options.json) or not os.path.isdir(os.path.dirname(options.json) or ".")):
        parser.error(f"--json {options.json}: a file is wanted, in a folder that is there")
    if options.rows is not None and options.rows < 1:
        parser.error("--rows is at least 1")
    options.rounds = options.rounds or (3 if options.quick else 9)
    if options.rounds < 1:
        parser.error("--rounds is at least 1")
    options.milliseconds = 200 if options.quick else 800
    options.epochs = 1 if options.quick else 2
    return options


def main(arguments):
    options = options_parse(arguments)
    report = {"configuration": configuration(options.rounds, milliseconds=options.milliseconds, epochs=options.epochs),
              "cases": []}
    print_configuration(report)
    for name in NAMES if options.name == "all" else [options.name]:
        for label, call in globals()[f"bench_{name}"](options):
            if options.only in f"{name} {label}":
                case = {"bench": name, "case": label, **call()}
                report["cases"].append(case)
                print_case(case)
    if options.json:
        write_json(options.json, report)
    if options.compare:
        compare(options.compare, options.old, report)
    invalid = [case for case in report["cases"] if case["invalid"]]
    if invalid:
        print(f"{len(invalid)} of {len(report['cases'])} cases are INVALID", file=sys.stderr)
    missed = [case["case"] for case in report["cases"] if case.get("missed")]
    if missed:
        print(f"MISSED: {', '.join(missed)}", file=sys.stderr)
    return 1 if any(case.get("failed") for case in invalid) else 0
