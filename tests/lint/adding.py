#!/usr/bin/env python3
"""docs/guides/extend-gradwire.md promises in how many source files of the product a new optimizer, layer, .. is named; this counts them.

For each kind it takes examples that are there, and looks for their names in .c, .h and .proto, comments left out.

    adding.py           check all
    adding.py --list    print the files, too
"""
import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("common", "job", "data", "model", "export", "evaluate", "predict", "formats", "model_cli", "launch", "proto", "ps",
           "worker", "k8s/entrypoint", "python")
COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|/\*.*?\*/|//[^\n]*', re.S)
EXAMPLE = re.compile(r'\bEXAMPLE\((?:\s*"(?:\\.|[^"\\])*")+\)')
# Names of other programs, where nothing that is added needs a line; and the order of the reference of keys, which is documentation.
NOT_COUNTED = ("job/meaning.c", "job/reference.c")

# (kind, the most files, name of the example, what names it)
EXAMPLES = [
    ("an optimizer", 4, "adagrad", r"(?i)adagrad"),
    ("an optimizer", 4, "ftrl", r"(?i)ftrl"),
    ("an optimizer with a number of its own", 5, "rmsprop and rho", r"(?i)rmsprop|\brho\b"),
    ("a layer that ONNX has, too", 5, "batch_normalization", r"(?i)batch_normalization"),
    ("a layer that ONNX has, too", 5, "concatenate", r"(?i)concatenate"),
    ("a metric", 3, "recall", r"\bMETRIC_RECALL\b|\bmetric_recall\b|\bRECALL\b|\brecall\b"),
    ("a metric that ranks the examples", 3, "auc", r"\bMETRIC_AUC\b|\bmetric_auc\b|\bAUC\b|\bstruct auc\b"),
    ("a loss", 3, "mean_absolute_error", r'\b(LOSS_)?MEAN_ABSOLUTE_ERROR\b|\bloss_mean_absolute_error\b|"mean_absolute_error"'),
    ("a format of data", 2, "idx", r"\bIDX\b|\b(reader_)?idx_|\bidx,"),
    ("a format of data", 2, "cifar10", r"(?i)cifar10"),
    ("a job key", 4, "training.staleness_rate", r"\bstaleness_rate\b"),
    ("a job key", 4, "training.delay_compensation", r"\bdelay_compensation\b"),
    ("a job key", 4, "training.max_recoveries", r"\bmax_recoveries\b"),
    ("a job key", 4, "training.geo_every", r"\bgeo_every\b"),
    ("a codec of the kind DIFFERENCE", 4, "int8_zstd", r"(?i)int8_zstd"),
    ("a message", 6, "Tick", r"\bFRAME_TICK\b|Gradwire__Tick\b|__TICK__INIT|message Tick\b|X\(TICK,"),
    ("a message", 6, "Gone", r"\bFRAME_GONE\b|Gradwire__Gone\b|__GONE__INIT|message Gone\b|X\(GONE,"),
    ("a message", 6, "StepAsk", r"\bFRAME_STEP_ASK\b|Gradwire__StepAsk\b|__STEP_ASK__INIT|message StepAsk\b|X\(STEP_ASK,"),
]


def code_of(path):
    """The text without comments, and without the examples of keys; other strings stay."""
    return EXAMPLE.sub(" ", COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else " ", path.read_text()))


def sources():
    return {str(p.relative_to(ROOT)): code_of(p) for folder in FOLDERS
            for p in sorted((ROOT / folder).rglob("*")) if p.suffix in (".c", ".h", ".cc", ".proto", ".py")
            and str(p.relative_to(ROOT)) not in NOT_COUNTED}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    code, wrong = sources(), 0
    for kind, most, name, pattern in EXAMPLES:
        files = [path for path, text in code.items() if re.search(pattern, text)]
        if args.list:
            print(f"{kind}, {name}: {len(files)} of {most}: {' '.join(files)}")
        if len(files) > most:
            print(f"{kind} is named in at most {most} source files (docs/guides/extend-gradwire.md); {name} is in {len(files)}: "
                  f"{' '.join(files)}", file=sys.stderr)
        elif not files:
            print(f"tests/lint/adding.py: nothing names {name}: take another example of {kind}", file=sys.stderr)
        wrong += not 0 < len(files) <= most
    if not wrong:
        print("adding ok")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
