"""The report of gradwire bench update-modes: JSON, CSV, a Markdown table, plots by gnuplot (SVG and PNG)."""
import csv
import json
import os
import shutil
import subprocess

from lib.report import write_json

COLUMNS = ["mode", "workers", "straggler", "link", "sleep_s", "worker_batch", "global_batch", "examples_per_s", "seconds_to_target",
           "final", "idle_share", "bytes_per_example", "staleness_mean", "staleness_max", "dropped", "invalid"]
SLOWER = 0.9  # of what it was: told as slower
COLORS = {"sync": "#1b6ca8", "backup": "#5fa8d3", "ssp-2": "#e09f3e", "ssp-8": "#9e2a2b", "async": "#3a7d44",
          "geo": "#6d597a"}


def shown(value, form):
    return "-" if value is None else format(value, form)


# ---- tables ----

def write_csv(results, path):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(results)


def row(result, target):
    if result.get("invalid"):
        return [result["mode"], str(result["workers"]), f"INVALID: {result['invalid']}", "", "", "", "", "", ""]
    sizes = f"{result['worker_batch']}"
    if result["global_batch"]:
        sizes += f" ({result['global_batch']} in all)"
    reached = result["seconds_to_target"]
    return [result["mode"], str(result["workers"]), sizes, f"{result['examples_per_s']:,.0f}",
            f"{reached:.1f} s" if reached is not None else f"below {target}", shown(result["final"], ".4f"),
            shown(result["idle_share"], ".0%"), f"{result['bytes_per_example']:,.0f}",
            f"{shown(result['staleness_mean'], '.1f')} / {shown(result['staleness_max'], 'd')}"]


def table(results, configuration):
    head = ["mode", "workers", "batch of a worker", "examples/s", f"{configuration['metric']} {configuration['target']}",
            "at the end", "idle", "bytes an example", "staleness mean / max"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row(result, configuration["target"])) + " |" for result in results]
    return "\n".join(lines)


def groups(results, field=None):
    """(title, results) of each link and straggler; of those that have the field."""
    titles = {"none": "no slow worker", "one": "one slow worker"}
    for link in dict.fromkeys(result["link"] for result in results):
        for straggler in dict.fromkeys(result["straggler"] for result in results):
            part = [r for r in results if r["link"] == link and r["straggler"] == straggler]
            if part and (field is None or any(r.get(field) is not None for r in part)):
                yield f"{link} link, {titles[straggler]}", part


def add_kept(results):
    """How much of its examples/s each mode keeps when one of several workers is slow: `kept` of the slow run."""
    by = {(r["mode"], r["workers"], r["link"], r["straggler"]): r for r in results if not r.get("invalid")}
    for (mode, workers, link, straggler), slow in by.items():
        calm = by.get((mode, workers, link, "none"))
        if straggler != "none" and calm is not None and workers > 1:
            slow["kept"] = slow["examples_per_s"] / calm["examples_per_s"]


def kept_words(kept):
    """Not a share where the run with the slow worker was the faster one."""
    return "not slower" if kept > 1 else format(kept, ".0%")


def straggler_cost(results):
    """A table: a line for each number of workers and link, a column for each mode."""
    slow = [r for r in results if r.get("kept") is not None]
    modes = list(dict.fromkeys(r["mode"] for r in slow))
    if not slow:
        return ""
    lines = ["## What a slow worker costs", "",
             "The examples/s with one slow worker, in percent of the examples/s without a slow worker. The slow worker sleeps "
             "after each computation, 4 times as long as a step of sync takes without a slow worker, with the same link and "
             "number of workers. A mode that waits for the slow worker keeps 20 %. A mode that does not wait keeps "
             "(workers - 1) / workers, or a little more. `not slower`: the run with the slow worker was faster than the run "
             "without; its bar in the plot ends at 100 %.", "",
             "| workers | link | sleep, ms | " + " | ".join(modes) + " |", "|" + "---|" * (3 + len(modes))]
    for workers, link in dict.fromkeys((r["workers"], r["link"]) for r in slow):
        part = {r["mode"]: r for r in slow if (r["workers"], r["link"]) == (workers, link)}
        sleep_ms = 1e3 * next(iter(part.values()))["sleep_s"]
        kept = [kept_words(part[mode]["kept"]) if mode in part else "no such run" for mode in modes]
        lines.append(f"| {workers} | {link} | {sleep_ms:.1f} | " + " | ".join(kept) + " |")
    return "\n".join([*lines, ""])


def write_markdown(done, path, plots):
    c = done["configuration"]
    lines = ["# Update modes compared", "",
             f"{c['job']}{''.join(' --set ' + given for given in c['set'])}, {c['ps']} ps, {c['epochs']} epochs, seed "
             f"{c['seed']}; {c['cores']} cores of {c['cpu']}, BLAS kernels {c['blas_core']}, Linux {c['kernel']}; "
             f"measured {c['measured']}, build {c['build']}.", "",
             "- **batch of a worker**: the same in each mode. In sync, the batches of all workers make one global batch.",
             f"- **{c['metric']} {c['target']}**: the time until the evaluation reaches this value.",
             f"- **at the end**: the {c['metric']} of the last evaluation.",
             "- **idle**: the share of their time that the workers wait. The slow worker does not count."]
    if c["one_process_examples_per_s"]:
        rates = ", ".join(f"{value:,.0f}" for value in c["one_process_examples_per_s"])
        lines.append("- **One process** (`raw_train.c`) that does the same computation on these cores, measured before and "
                     f"after the benchmark: {rates} examples/s.")
    lines += [f"- {note}" for note in c["notes"]] + [""]
    for name in plots:
        lines += [f"![{name}]({name}.svg)", "", *([BELOW[name], ""] if name in BELOW else [])]
    for title, part in groups(done["cases"]):
        lines += [f"## {title}", "", table(part, c), ""]
    lines.append(straggler_cost(done["cases"]))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines).rstrip() + "\n")


# ---- plots ----

# The field, its axis, gnuplot's range of it, and why a run has no value.
PLOTS = {"examples-per-s": ("examples_per_s", "examples/s", "[0:*]", "not measured"),
         "time-to-target": ("seconds_to_target", "seconds to {metric} {target}", "[0:*]", "not reached"),
         "idle-share": ("idle_share", "idle share of the workers, %", "[0:100]", "not measured"),
         "staleness": ("staleness_mean", "mean staleness, updates", "[0:*]", "there is none"),
         "kept": ("kept", "% of the examples/s without it", "[0:100]", "not measured"),
         "bytes-per-example": ("bytes_per_example", "bytes an example", "[0:*]", "not measured")}
# Where that says more than the axis.
BELOW = {"kept": "The examples/s with one slow worker, in percent of the examples/s without a slow worker. If the run with the "
                 "slow worker was faster, its bar ends at 100.",
         "time-to-target": "x: the run did not reach the target. The title of each plot lists the modes and numbers of workers "
                           "that never reach it."}
PERCENT = {"idle_share", "kept"}
NO_BAR = "x"  # stands where a bar is missing


def value_of(result, field):
    """The height of a bar; None: no bar. A share is a percentage, at most 100."""
    value = None if result.get("invalid") else result.get(field)
    if value is not None and field in PERCENT:
        value = 100 * min(value, 1)
    return value


def block(results, field):
    """(modes, numbers of workers, {(mode, workers): value}) of which each mode has a value, and each number one above 0."""
    values = {(r["mode"], r["workers"]): value_of(r, field) for r in results}
    values = {key: value for key, value in values.items() if value is not None}
    modes = [mode for mode in dict.fromkeys(r["mode"] for r in results) if any(m == mode for m, _ in values)]
    workers = [n for n in sorted({r["workers"] for r in results}) if any(w == n and v > 0 for (_, w), v in values.items())]
    return modes, workers, values


def missing_words(results, field, why):
    """The cases for which a part of a plot has no bars, in words; "": it has all."""
    modes, workers, values = block(results, field)
    words = []
    runs = {(r["mode"], r["workers"]) for r in results}
    if any((m, w) in runs and (m, w) not in values for m in modes for w in workers):
        words.append(f"{NO_BAR}: {why}")
    if any((m, w) not in runs for m in modes for w in workers):
        words.append("gap: no such run")
    for n in sorted({r["workers"] for r in results} - set(workers)):
        zero = any(w == n for _, w in values)
        words.append(f"{n} worker{'s' * (n > 1)}: " + ("0" if zero else "there is no other" if field == "kept" and n == 1 else why))
    words += [f"{mode}: {why}" for mode in dict.fromkeys(r["mode"] for r in results) if mode not in modes]
    return "; ".join(words)


def marks(modes, workers, values, runs):
    """gnuplot labels where a run has no bar, by the places that `clustered gap 1` gives to bars."""
    step = 1 / (len(modes) + 1)
    for group, n in enumerate(workers):
        for k, mode in enumerate(modes):
            if (mode, n) in runs and (mode, n) not in values:
                at = group + (k - (len(modes) - 1) / 2) * step
                yield f"set label '{NO_BAR}' at first {at:.4f}, graph 0.03 center tc rgb '{COLORS.get(mode, '#888888')}'"


def script(results, name, configuration):
    """(gnuplot's lines, columns, rows)"""
    field, label, yrange, why = PLOTS[name]
    label = label.format(metric=configuration["metric"], target=configuration["target"])
    parts = list(groups(results, field))
    columns = 2 if len(parts) > 1 else 1
    rows = -(-len(parts) // columns)
    out = ["set datafile missing '?'", "set style data histogram", "set style histogram clustered gap 1",
           "set style fill solid 0.9 noborder", "set boxwidth 0.9", "set grid ytics lc rgb '#dddddd'",
           "set key outside right center vertical Left reverse samplen 1", "set xlabel 'workers'", f"set ylabel '{label}'",
           f"set yrange {yrange}"]
    for i, (_, part) in enumerate(parts):
        modes, workers, values = block(part, field)
        lines = [f"{n} " + " ".join(f"{values[mode, n]:.6g}" if (mode, n) in values else "?" for mode in modes) for n in workers]
        out += [f"$data{i} << EOD", *lines, "EOD"]
    out.append(f"set multiplot layout {rows},{columns}")
    for i, (title, part) in enumerate(parts):
        modes, workers, values = block(part, field)
        series = [f"$data{i} using {k + 2}:xtic(1) title '{mode}' lc rgb '{COLORS.get(mode, '#888888')}'"
                  for k, mode in enumerate(modes)]
        said = missing_words(part, field, why)
        out += ["unset label", *marks(modes, workers, values, {(r["mode"], r["workers"]) for r in part}),
                f'set title "{title}' + (f'\\n{said}"' if said else '"'),
                f"set xrange [-0.6:{len(workers) - 0.4}]", "plot " + ", ".join(series)]
    out.append("unset multiplot")
    return out, columns, rows


def plot(results, name, folder, configuration):
    if all(value_of(result, PLOTS[name][0]) is None for result in results):
        return False
    out, columns, rows = script(results, name, configuration)
    width, height = 640 * columns, 340 * rows
    for terminal, ending in ((f"svg size {width},{height} font 'Helvetica,11' background '#ffffff'", "svg"),
                             (f"pngcairo size {width},{height} font 'Helvetica,10'", "png")):
        head = [f"set terminal {terminal} noenhanced", f"set output '{os.path.join(folder, name)}.{ending}'"]
        subprocess.run(["gnuplot"], input="\n".join(head + out) + "\n", text=True, check=True, capture_output=True)
    return True


def write_plots(done, folder):
    if not shutil.which("gnuplot"):
        done["configuration"]["notes"].append("no plots: gnuplot is not installed (Debian: gnuplot-nox)")
        return []
    try:
        return [name for name in PLOTS if plot(done["cases"], name, folder, done["configuration"])]
    except subprocess.CalledProcessError as error:
        done["configuration"]["notes"].append(f"no plots: gnuplot: {error.stderr.strip()}")
        return []


# ---- all of it, and what changed ----

def write(done, folder):
    add_kept(done["cases"])
    plots = write_plots(done, folder)
    write_json(os.path.join(folder, "update-modes.json"), done)
    write_csv(done["cases"], os.path.join(folder, "update-modes.csv"))
    write_markdown(done, os.path.join(folder, "README.md"), plots)


def load(path):
    """An earlier update-modes.json. ValueError: the file is no such report."""
    with open(path, encoding="utf-8") as file:
        old = json.load(file)
    try:
        right = isinstance(old["configuration"]["one_process_examples_per_s"], list) and all(
            case["key"] and (case.get("invalid") or case["examples_per_s"] > 0) for case in old["cases"])
    except (KeyError, TypeError, AttributeError):
        right = False
    if not right:
        raise ValueError("this is not the update-modes.json of an earlier run")
    return old


def compare(old_path, old, done):
    """The cases that got slower since the report `old`, by examples/s of the same run; both yardsticks are named."""
    was = {case["key"]: case for case in old["cases"] if not case.get("invalid")}
    both = [(was[case["key"]], case) for case in done["cases"] if case["key"] in was and not case.get("invalid")]
    lines = [f"compared with {old_path}: {len(both)} runs are in both"]
    yardsticks = [d["configuration"]["one_process_examples_per_s"] for d in (old, done)]
    scale = 1.0
    if all(yardsticks):
        before, after = (sum(values) / len(values) for values in yardsticks)
        scale = after / before
        lines.append(f"one process did {before:,.0f} examples/s then and {after:,.0f} now: rates are compared per that")
    for before, after in both:
        ratio = after["examples_per_s"] / before["examples_per_s"] / scale
        if ratio < SLOWER:
            lines.append(f"SLOWER {after['key']}: {ratio:.2f} of what it was "
                         f"({before['examples_per_s']:,.0f} -> {after['examples_per_s']:,.0f} examples/s)")
    if len(lines) == 1 + (scale != 1.0):
        lines.append("nothing got slower")
    return "\n".join(lines)
