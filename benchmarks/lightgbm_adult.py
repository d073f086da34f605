"""LightGBM on UCI's Adult, to compare with examples/adult: PYTHON benchmarks/lightgbm_adult.py adult.data adult.test
PYTHON has lightgbm and numpy, in a virtual environment for example. Both files are plain text or .gz.
"""
import argparse
import csv
import gzip
import time

import lightgbm
import numpy

NUMBERS = (0, 2, 4, 10, 11, 12)
LABEL = 14
CATEGORIES = [column for column in range(LABEL) if column not in NUMBERS]


def lines(path):
    return gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="ascii")


def read(path, words, learn):
    """Features (rows, 14), a category being the number of its word, and labels. Words are learned from the training file."""
    features, labels = [], []
    with lines(path) as text:
        for row in csv.reader(text, skipinitialspace=True):
            if len(row) != LABEL + 1:
                continue  # the comment in the first line of adult.test, an empty line
            if learn:
                for column in CATEGORIES:
                    words[column].setdefault(row[column], len(words[column]))
            features.append([float(row[column]) if column in NUMBERS else words[column].get(row[column], numpy.nan)
                             for column in range(LABEL)])
            labels.append(row[LABEL].startswith(">"))
    return numpy.array(features), numpy.array(labels, dtype=float)


def auc(scores, labels):
    ranks = numpy.empty(len(scores))
    ranks[numpy.argsort(scores, kind="stable")] = numpy.arange(1, len(scores) + 1)
    positive = labels.sum()
    return (ranks[labels == 1].sum() - positive * (positive + 1) / 2) / (positive * (len(labels) - positive))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("eval")
    parser.add_argument("--rounds", type=int, default=200, help="trees (default 200)")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    start = time.monotonic()
    words = {column: {} for column in CATEGORIES}
    features, labels = read(options.train, words, learn=True)
    eval_features, eval_labels = read(options.eval, words, learn=False)
    loaded = time.monotonic()
    parameters = {"objective": "binary", "learning_rate": 0.05, "num_leaves": 31, "num_threads": options.threads, "verbosity": -1}
    model = lightgbm.train(parameters, lightgbm.Dataset(features, labels, categorical_feature=CATEGORIES), options.rounds)
    trained = time.monotonic()
    scores = model.predict(eval_features)
    print(f"LightGBM {lightgbm.__version__}, {options.rounds} trees, {options.threads} threads: "
          f"read {loaded - start:.1f} s, trained {trained - loaded:.1f} s; "
          f"accuracy {((scores > 0.5) == eval_labels).mean():.4f}, AUC {auc(scores, eval_labels):.4f}, "
          f"loss {-numpy.log(numpy.where(eval_labels == 1, scores, 1 - scores)).mean():.4f}")


if __name__ == "__main__":
    main()
