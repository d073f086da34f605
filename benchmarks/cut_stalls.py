"""gradwire bench cut-stalls: the cost of a checkpoint of a large table for the shard, which continues to train
(`cut_stalls.c`). The benchmark fills a table, trains it, starts a checkpoint, and trains until the checkpoint is on disk.

It prints the longest time that the shard's thread copied rows between two frames, by the clock and as CPU time. (On a
busy machine the clock also counts the time of other processes.) It also prints how long answers took, the rate of rows
before and during the checkpoint, and the memory that it used in addition to the table.

MISSED means that a copy took more than 20 ms of CPU time, or that the additional memory was more than 15 % of the table
(64 MiB for a small table) and 16 MiB for the buffers.
"""
import argparse
import shutil
import tempfile

from lib.programs import EXIT_INPUT, Failed, measure
from lib.report import configuration, print_configuration, write_json

COPY_MS_MOST, BESIDE_PART, BESIDE_LEAST, ALLOWANCE = 20, 0.15, 64 << 20, 16 << 20


def show(case):
    before, during = case["before"], case["during"]
    print(f"{case['rows']} rows, {case['row_bytes'] / 2**30:.2f} GiB; keys of skew {case['skew']:g}")
    for name, span in (("before", before), ("during", during)):
        print(f"  {name:<8}{span['rows_per_s']:>12,.0f} rows/s; answers: median {span['answer_p50_ms']:.1f} ms, "
              f"99 % {span['answer_p99_ms']:.1f} ms, longest {span['answer_longest_ms']:.1f} ms")
    print(f"  cut     {during['seconds']:.1f} s, {case['file_bytes'] / 2**20:.0f} MiB on disk; copied for {case['copy_cpu_s']:.2f} s "
          f"of CPU time, longest {case['longest_copy_cpu_ms']:.2f} ms in one go ({case['longest_copy_ms']:.2f} ms by the clock)")
    print(f"  beside  {case['beside_bytes'] / 2**20:.0f} MiB, {case['kept_rows']} rows kept; training waited {case['holds']} times, "
          f"{case['held_s']:.2f} s")
    if case["missed"]:
        print("  MISSED")


def main(arguments):
    parser = argparse.ArgumentParser(prog="gradwire bench cut-stalls", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=1, help="GiB of rows, default 1; needs 1.5 times as much free memory, and 1 GiB more")
    parser.add_argument("--skew", type=int, default=4, help="the row is rows * u^SKEW with a uniform u, default 4; with 1, all rows are equally likely")
    parser.add_argument("--json", metavar="FILE", help="write all measurements to FILE")
    parser.add_argument("--quick", action="store_true", help="32 MiB, to see whether it runs")
    options = parser.parse_args(arguments)
    mib = 32 if options.quick else int(options.gib * 1024)
    if mib < 1 or options.skew < 1:
        parser.exit(EXIT_INPUT, "gradwire bench cut-stalls: --gib is above 0, --skew at least 1\n")
    report = {"configuration": configuration(1, rows=mib), "cases": []}
    print_configuration(report)
    folder = tempfile.mkdtemp(prefix="gradwire-cut-stalls-")
    try:
        case = measure(3600, "cut_stalls", "--mib", mib, "--seconds", 1 if options.quick else 5, "--skew", options.skew,
                       "--output", folder)
    except Failed as failure:
        print(f"gradwire bench cut-stalls: {failure}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    most = max(BESIDE_PART * case["row_bytes"], BESIDE_LEAST) + ALLOWANCE
    case["missed"] = case["longest_copy_cpu_ms"] > COPY_MS_MOST or case["beside_bytes"] > most
    show(case)
    report["cases"].append(case)
    if options.json:
        write_json(options.json, report)
    return 0
