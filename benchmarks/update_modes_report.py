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


def straggler_cost(results):
    """A table: a line for each number of workers and link, a column for each mode."""
    slow = [r for r in results if r.get("kept") is not None]
    modes = list(dict.fromkeys(r["mode"] for r in slow))
    if not slow:
        return ""
    lines = ["## What a slow worker costs", "",
             "Examples/s with one slow worker, of those without. It sleeps after each compute, 4 x the undisturbed step "
             "time of sync with as many workers on that link; that leaves 20 % to who waits for it, and (workers - 1) / "
             "workers, or a little more, to who does not.", "",
             "| workers | link | sleep, ms | " + " | ".join(modes) + " |", "|" + "---|" * (3 + len(modes))]
    for workers, link in dict.fromkeys((r["workers"], r["link"]) for r in slow):
        part = {r["mode"]: r for r in slow if (r["workers"], r["link"]) == (workers, link)}
        sleep_ms = 1e3 * next(iter(part.values()))["sleep_s"]
        kept = [shown(part[mode]["kept"] if mode in part else None, ".0%") for mode in modes]
        lines.append(f"| {workers} | {link} | {sleep_ms:.1f} | " + " | ".join(kept) + " |")
    return "\n".join([*lines, ""])


def write_markdown(done, path, plots):
    c = done["configuration"]
    lines = ["# Update modes compared", "",
             f"{c['job']}{''.join(' --set ' + given for given in c['set'])}, {c['ps']} ps, {c['epochs']} epochs, seed "
             f"{c['seed']}; {c['cores']} cores of {c['cpu']}, BLAS kernels {c['blas_core']}, Linux {c['kernel']}; "
             f"measured {c['measured']}, build {c['build']}. Every worker takes {c['worker_batch']} examples per clock; in sync they "
             "make one global batch. Idle is the share of their time in which workers, the slow one left out, wait."]
    if c["one_process_examples_per_s"]:
        lines.append("The same arithmetic in one process on these cores, before and after: " +
                     ", ".join(f"{value:,.0f}" for value in c["one_process_examples_per_s"]) + " examples/s.")
    lines += [f"- {note}" for note in c["notes"]] + [""]
    for name in plots:
        lines += [f"![{name}]({name}.svg)", ""]
    for title, part in groups(done["cases"]):
        lines += [f"## {title}", "", table(part, c), ""]
    lines.append(straggler_cost(done["cases"]))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines).rstrip() + "\n")


# ---- plots ----

PLOTS = {"examples-per-s": ("examples_per_s", "examples/s", "set yrange [0:*]"),
         "time-to-target": ("seconds_to_target", "seconds to the target", "set yrange [0:*]"),
         "idle-share": ("idle_share", "idle share of the workers", "set yrange [0:1]"),
         "staleness": ("staleness_mean", "mean staleness, updates", "set yrange [0:*]"),
         "kept": ("kept", "examples/s kept with a slow worker", "set yrange [0:*]"),
         "bytes-per-example": ("bytes_per_example", "bytes an example", "set yrange [0:*]")}


def block(results, field):
    """A gnuplot data block: a line per number of workers, a column per mode; ? where there is nothing."""
    modes = list(dict.fromkeys(result["mode"] for result in results))
    lines = []
    for workers in dict.fromkeys(result["workers"] for result in results):
        by_mode = {r["mode"]: r.get(field) for r in results if r["workers"] == workers and not r.get("invalid")}
        cells = ["?" if by_mode.get(mode) is None else f"{by_mode[mode]:.6g}" for mode in modes]
        lines.append(f"{workers} " + " ".join(cells))
    return modes, lines


def script(results, field, label, extra):
    parts = list(groups(results, field))
    columns = 2 if len(parts) > 1 else 1
    rows = -(-len(parts) // columns)
    out = ["set datafile missing '?'", "set style data histogram", "set style histogram clustered gap 1",
           "set style fill solid 0.9 noborder", "set boxwidth 0.9", "set grid ytics lc rgb '#dddddd'",
           "set key top left reverse Left samplen 1", "set xlabel 'workers'", f"set ylabel '{label}'", extra]
    for i, (_, part) in enumerate(parts):
        _, lines = block(part, field)
        out += [f"$data{i} << EOD", *lines, "EOD"]
    out.append(f"set multiplot layout {rows},{columns}")
    for i, (title, part) in enumerate(parts):
        modes, _ = block(part, field)
        series = [f"$data{i} using {k + 2}:xtic(1) title '{mode}' lc rgb '{COLORS.get(mode, '#888888')}'"
                  for k, mode in enumerate(modes)]
        out += [f"set title '{title}'", "plot " + ", ".join(series)]
    out.append("unset multiplot")
    return out, columns, rows


def plot(results, name, folder):
    field, label, extra = PLOTS[name]
    if all(result.get(field) is None for result in results):
        return False
    out, columns, rows = script(results, field, label, extra)
    width, height = 560 * columns, 340 * rows
    for terminal, ending in ((f"svg size {width},{height} font 'Helvetica,11' background '#ffffff'", "svg"),
                             (f"pngcairo size {width},{height} font 'Helvetica,10'", "png")):
        head = [f"set terminal {terminal}", f"set output '{os.path.join(folder, name)}.{ending}'"]
        subprocess.run(["gnuplot"], input="\n".join(head + out) + "\n", text=True, check=True, capture_output=True)
    return True


def write_plots(done, folder):
    if not shutil.which("gnuplot"):
        done["configuration"]["notes"].append("no plots: gnuplot is not installed (Debian: gnuplot-nox)")
        return []
    try:
        return [name for name in PLOTS if plot(done["cases"], name, folder)]
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
    """An update-modes.json of before. ValueError: it is none."""
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
    """What got slower since the report `old`, by examples/s of the same run; both yardsticks are named."""
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
