"""Trained models without training, for the tests of exported files: each has a job, rows from a seed, and weights from a
seed (tests/interop/fixture.c). The same bytes on every machine; needs Python alone.

    with fixtures.made("adult-mlp") as f:
        f.path, f.scores, f.inputs()
"""
import array
import contextlib
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
from decimal import Decimal

ROOT = pathlib.Path(os.environ.get("GRADWIRE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build"))
TRAIN_ROWS, EVAL_ROWS = 300, 1000
NAN = float("nan")


class Draw:
    """Random choices that are the same in every version of Python: random() and getrandbits() are."""

    def __init__(self, seed):
        source = random.Random(seed)
        self.random, self.bits = source.random, source.getrandbits

    def below(self, n):
        return int(self.random() * n)

    def one(self, of):
        return of[self.below(len(of))]

    def bytes(self, n):
        return self.bits(8 * n).to_bytes(n, "little")


# ---- columns: `draw` makes the text of a field, `value` the graph's input from it ----

class Label:
    names = ()

    def __init__(self, *words):
        self.words = words or ("0", "1")

    def draw(self, d, _):
        return d.one(self.words)


class Number:
    """From low to high with this many decimals; a twentieth of the values is missing."""

    def __init__(self, name, low, high, decimals=0, missing=("",)):
        self.names, self.low, self.high = (name,), low, high
        self.decimals, self.missing = decimals, missing

    def draw(self, d, _):
        if self.missing and d.below(20) == 0:
            return d.one(self.missing)
        text = f"{self.low + d.random() * (self.high - self.low):.{self.decimals}f}"
        return text if float(text) else "0"

    def values(self, texts):
        yield self.names[0], "number", [NAN if t in self.missing else float(t) for t in texts]


class Double(Number):
    """The same, if float32 is not enough for it."""

    def values(self, texts):
        for name, _, values in super().values(texts):
            yield name, "double", values


class Listed(Number):
    """One of these numbers; none is missing. kind: number if each is a float32, otherwise double."""

    def __init__(self, name, kind, numbers):
        super().__init__(name, min(numbers), max(numbers), missing=())
        self.kind, self.texts = kind, [repr(x) for x in numbers]

    def draw(self, d, _):
        return d.one(self.texts)

    def values(self, texts):
        yield self.names[0], self.kind, [float(t) for t in texts]


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def beside(x, one=math.ulp):
    """A number, and those below and above it."""
    return [x + k * one(x) for k in range(-2, 3)]


def ulp32(x):
    return 2.0 ** (math.frexp(x)[1] - 24)


LOG_SQUARED = [-1.0, 1.0, 2.0] + [float(Decimal(k).sqrt().exp()) for k in range(1, 13)]  # where buckets begin


class Word:
    """One of these words; rows of eval also have words that training has not seen."""

    def __init__(self, name, *words, missing=("",)):
        self.names, self.words, self.missing = (name,), words, missing

    def draw(self, d, new):
        chance = d.below(20)
        if chance == 0 and self.missing:
            return d.one(self.missing)
        return f"new{d.below(50)}" if new and chance == 1 else d.one(self.words)

    def values(self, texts):
        yield self.names[0], "word", texts


def hashed(data, space):
    import xxhash  # only the tests with packages need keys

    return xxhash.xxh3_64_intdigest(data, seed=xxhash.xxh3_64_intdigest(space.encode()))


class Key(Word):
    def __init__(self, name, *words, missing=("",), when_missing="empty", hash=True, buckets=0):
        super().__init__(name, *words, missing=missing)
        self.when_missing, self.hash, self.buckets = when_missing, hash, buckets

    def draw(self, d, new):
        if not self.hash:
            return str(d.below(1 << 20) << 44 | d.below(1 << 30)) if new and d.below(20) == 0 else d.one(self.words)
        return super().draw(d, new)

    def key(self, text):
        """None: no key."""
        if text in self.missing:
            if self.when_missing == "none":
                return None
            key = hashed(b"", self.names[0]) if self.when_missing == "empty" else self.when_missing
        else:
            key = hashed(text.encode(), self.names[0]) if self.hash else int(text)
        return key % self.buckets if self.buckets else key

    def values(self, texts):
        keys = [self.key(t) for t in texts]
        yield self.names[0], "key", [key or 0 for key in keys]
        if self.when_missing == "none":
            yield self.names[0] + "/weights", "weight", [float(key is not None) for key in keys]


class Keys(Key):
    """Up to `most` words in a field, some with a weight."""

    def __init__(self, name, most, *words, weights=False, separator=" ", **options):
        super().__init__(name, *words, when_missing="none", **options)
        self.most, self.weights, self.separator = most, weights, separator

    def draw(self, d, new):
        count = d.below(self.most + 1)
        return self.separator.join(self.one(d, new) for _ in range(count))

    def one(self, d, new):
        word = f"new{d.below(50)}" if new and d.below(10) == 0 else d.one(self.words)
        if self.weights and d.below(2):
            return f"{word}:{d.one(('0.5', '2', '0', '-1', '1.25'))}"
        return word

    def split(self, text):
        for part in text.split(self.separator):
            word, colon, weight = part.rpartition(":") if self.weights else (part, "", "")
            word, weight = (word, float(weight)) if colon else (part, 1.0)
            key = self.key(word)
            if key is not None:
                yield key, weight

    def values(self, texts):
        rows = [list(self.split(t)) for t in texts]
        rows = [row + [(0, 0.0)] * (self.most - len(row)) for row in rows]
        yield self.names[0], "key", [[key for key, _ in row] for row in rows]
        yield self.names[0] + "/weights", "weight", [[weight for _, weight in row] for row in rows]


class Pairs(Keys):
    """The keys of a libsvm row: index:value."""

    def __init__(self, most, indices):
        super().__init__("features", most, *map(str, range(1, indices)), hash=False)

    def draw(self, d, new):
        wanted = sorted({d.below(len(self.words) + (20 if new else 0)) + 1 for _ in range(d.below(self.most + 1))})
        return " ".join(f"{i}:1" for i in wanted)

    def split(self, text):
        return [(int(pair.split(":")[0]), float(pair.split(":")[1])) for pair in text.split()]


class Cross:
    """Not a field."""

    def __init__(self, name, *of):
        self.names, self.of = (name,), of

    def values(self, texts_of):
        keys = [[column.key(t) for t in texts_of[column.names[0]]] for column in self.of]
        rows = [None if None in row else hashed(struct.pack(f"<{len(row)}Q", *row), self.names[0]) for row in zip(*keys)]
        yield self.names[0], "key", [key or 0 for key in rows]
        if any(column.when_missing == "none" for column in self.of):
            yield self.names[0] + "/weights", "weight", [float(key is not None) for key in rows]


# ---- fixtures ----

class Table:
    """Rows of text."""

    def __init__(self, job, columns, delimiter=","):
        self.job, self.columns, self.delimiter = job, columns, delimiter

    has_tables = property(lambda self: any(isinstance(c, (Key, Cross)) for c in self.columns))

    def write(self, folder, d, eval_rows):
        fields = [c for c in self.columns if not isinstance(c, Cross)]
        for name, rows in ("train.txt", TRAIN_ROWS), ("eval.txt", eval_rows):
            lines = [[c.draw(d, name == "eval.txt") for c in fields] for _ in range(rows)]
            self.eval = {(c.names or ("label",))[0]: [line[i] for line in lines] for i, c in enumerate(fields)}
            (folder / name).write_text("".join(self.delimiter.join(line) + "\n" for line in lines))

    def inputs(self):
        for column in self.columns:
            if isinstance(column, Cross):
                yield from column.values(self.eval)
            elif column.names:
                yield from column.values(self.eval[column.names[0]])


DARKER = bytes(max(0, b - 85) for b in range(256))  # a third of the pixels is 0


class Images:
    """Rows of bytes."""

    def __init__(self, job, shape):
        self.job, self.shape = job, shape

    has_tables = False

    def write(self, folder, d, eval_rows):
        for name, rows in ("train", 4), ("eval", eval_rows):
            self.bytes = d.bytes(rows * math.prod(self.shape)).translate(DARKER)
            write_npy(folder / f"{name}_x.npy", (rows, *self.shape), self.bytes)
            write_npy(folder / f"{name}_y.npy", (rows,), bytes(rows))

    def inputs(self):
        yield "input", "raw", self.bytes


def write_npy(path, shape, data):
    """NumPy's format, version 1, of bytes."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def example(name):
    """A job of examples/, with its data in the directory of the fixture."""
    text = (ROOT / "examples" / f"{name}.yaml").read_text()
    text = re.sub(r"^  (synthetic|train|eval|augment).*\n", "", text, flags=re.M)
    return text.replace("format: synthetic", "format: csv").replace(
        "  columns:", "  train: train.txt\n  eval: eval.txt\n  columns:", 1)


def image_example(name):
    data = "{format: npy, train: [train_x.npy, train_y.npy], eval: [eval_x.npy, eval_y.npy], scale: 255}"
    return re.sub(r"^data:(.*\n)(  .*\n)*", f"data: {data}\n", (ROOT / "examples" / f"{name}.yaml").read_text(), flags=re.M)


def job(layers, data, loss="mean_squared_error", shape="auto", rest=""):
    return f"name: fixture\nmodel:\n  input: {{shape: {shape}}}\n  layers:\n{layers}  loss: {loss}\n{data}optimizer: adam\n{rest}"


def csv(columns, more=""):
    return f"data:\n  format: csv\n  train: train.txt\n  eval: eval.txt\n{more}  columns:\n{columns}"


CENSUS_WORDS = {
    "workclass": ("Private", "Local-gov", "Self-emp-inc"), "education": ("9th", "11th", "HS-grad", "Masters"),
    "marital-status": ("Divorced", "Widowed"), "occupation": ("Sales", "Tech-support", "Craft-repair"),
    "relationship": ("Own-child", "Unmarried"), "race": ("Group-a", "Group-b"), "sex": ("Male", "Female"),
    "native-country": ("Mexico", "Canada", "India")}


def census(kind):
    word = {name: kind(name, *words, missing=("?",)) for name, words in CENSUS_WORDS.items()}

    def number(name, low, high):
        return Number(name, low, high, missing=("?",))

    return [number("age", 17, 90), word["workclass"], number("fnlwgt", 10000, 900000), word["education"],
            number("education-num", 1, 16), word["marital-status"], word["occupation"], word["relationship"],
            word["race"], word["sex"], number("capital-gain", 0, 99999), number("capital-loss", 0, 4000),
            number("hours-per-week", 1, 99), word["native-country"], Label("<=50K", ">50K")]


def clicks():
    words = [f"{i:08x}" for i in range(40)]
    return ([Label()] + [Number(f"I{i}", -2, 3000) for i in range(1, 14)]
            + [Key(f"C{i}", *words) for i in range(1, 27)])


ACTIVATIONS = ("relu", "sigmoid", "tanh", "softmax", "selu", "silu", "softplus", "leaky_relu", "elu: 0.7",
               "gelu", "gelu: {approximate: true}", "activation: elu", "activation: gelu", "activation: leaky_relu",
               "layer_normalization", "batch_normalization", "dropout: 0.5")
OF_DENSE = "".join(f"    - {a.split(':')[0]}: {{inputs: trunk, name: a{i}"
                   + (", alpha: 0.7" if a.startswith("elu:") else "")
                   + (", approximate: true" if "approximate" in a else "")
                   + (f", activation: {a.split(': ')[1]}" if a.startswith("activation") else "")
                   + (", rate: 0.5" if a.startswith("dropout") else "")
                   + "}\n" for i, a in enumerate(ACTIVATIONS))
LAYERS = ("    - dense: {units: 6, name: trunk}\n" + OF_DENSE
          + "".join(f"    - add: {{inputs: [{', '.join(f'a{k}' for k in range(i, min(i + 6, len(ACTIVATIONS))))}], name: s{i}}}\n"
                    for i in range(0, len(ACTIVATIONS), 6))
          + "    - concatenate: {inputs: [s0, s6, s12, trunk]}\n    - reshape: [2, 3, 4]\n    - dense: {units: 3}\n"
          "    - flatten\n    - dense: 1\n")
CONVOLUTIONS = """\
    - conv2d: {filters: 8, kernel_size: [3, 2], padding: same, strides: 2, activation: selu, name: c1}
    - batch_normalization: {scale: false}
    - conv2d: {filters: 8, kernel_size: 3, padding: same, dilation_rate: 2, use_bias: false, name: c2}
    - layer_normalization: {name: n2}
    - leaky_relu: {name: l2}
    - add: {inputs: [c1, l2], name: sum}
    - max_pooling2d: {pool_size: 3, strides: 2, padding: same, name: p1}
    - average_pooling2d: {inputs: sum, pool_size: [2, 3], strides: 2, padding: same, name: p2}
    - concatenate: {inputs: [p1, p2], name: both}
    - gelu
    - conv2d: {filters: 4, kernel_size: 1, activation: softmax, name: c3}
    - global_average_pooling2d: {name: g1}
    - global_max_pooling2d: {inputs: both, keepdims: true, name: g2}
    - flatten: {name: f2}
    - average_pooling2d: {inputs: c3, pool_size: 2, name: p3}
    - flatten: {name: f3}
    - dense: {inputs: [g1, f2, f3], units: 3, activation: softmax, name: scores}
"""
ENCODED = """\
    - label: y
    - number: {name: plain, missing: {value: -1}}
    - number: {name: standard, scale: standard}
    - number: {name: squeezed, scale: min_max, missing: {value: 7}}
    - number: {name: log1p, scale: log1p}
    - number: {name: log2, scale: log2}
    - number: {name: borders, buckets: {borders: [-1, 0, 2.5]}}
    - number: {name: quantiles, buckets: {quantiles: 5}, encode: id, missing: {value: 0}}
    - number: {name: squares, buckets: log_squared}
    - number: {name: filled, buckets: log_squared, encode: id, missing: {value: -3}}
    - number: {name: time, scale: standard}
    - number: {name: cents, scale: min_max, missing: {value: 999999990.5}}
    - number: {name: counter, buckets: {quantiles: 4}, encode: id}
    - number: {name: day, buckets: {borders: [1700000000100, 1700000000300]}}
    - number: {name: steps, buckets: log_squared}
    - number: {name: float_steps, buckets: log_squared}
    - number: {name: rounded, buckets: {borders: [-0.7, 0.7, 16777217]}}
    - category: learned
    - category: {name: given, vocabulary: [S, M, L]}
    - category: {name: id, encode: id}
    - category: {name: embedded, encode: id, vocabulary: [a, b, c, d]}
"""
ENCODED_COLUMNS = [
    Label(), Number("plain", -9, 9, 2, ("", "?")), Number("standard", -1e4, 1e4, 1, ("", "?")),
    Number("squeezed", -5, 5, 3, ("?",)), Number("log1p", -5, 500, 1, ("",)), Number("log2", -5, 500, 1, ("?", "")),
    Number("borders", -4, 4, 1, ("", "?")), Number("quantiles", -4, 4, 1, ("", "?")),
    Number("squares", -80, 3000, 1, ("",)), Number("filled", -80, 3000, 1, ("",)),
    Double("time", 1.7e12, 1.7e12 + 5e5, 0, ("", "?")), Double("cents", 999999990, 999999999, 2, ("?",)),
    Double("counter", 9e15, 9e15 + 500, 0, ("", "?")), Double("day", 1.7e12, 1.7e12 + 400, 0, ("",)),
    Listed("steps", "double", [x for border in LOG_SQUARED for x in beside(border)]),
    Listed("float_steps", "number", [x for border in LOG_SQUARED for x in beside(float32(border), ulp32)]),
    Listed("rounded", "double", [x for border in (-0.7, 0.7, 16777217) for x in beside(float32(border), ulp32)]),
    Word("learned", "red", "green", "blue", missing=("", "?")), Word("given", "S", "M", "L", missing=("", "?")),
    Word("id", "x", "y", "z w", missing=("?",)), Word("embedded", "a", "b", "c", "d", missing=("", "?"))]
REQUIRED = """\
    - label: y
    - number: {name: plain, missing: refuse}
    - number: {name: standard, scale: standard}
    - number: {name: borders, buckets: {borders: [-1, 0, 2.5]}, missing: refuse}
    - number: {name: quantiles, buckets: {quantiles: 5}, encode: id, missing: refuse}
    - number: id
"""
REQUIRED_COLUMNS = [
    Label(), Number("plain", -9, 9, 2, ()), Number("standard", -1e4, 1e4, 1, ("",)), Number("borders", -4, 4, 1, ()),
    Number("quantiles", -4, 4, 1, ()), Number("id", 0, 6, 0, ())]
TABLES = """\
    - embedding_bag: {inputs: [tags, site], output_dim: 5, name: mean}
    - embedding_bag: {inputs: tags, output_dim: 3, mode: sqrtn, name: sqrtn}
    - embedding_bag: {inputs: plain, output_dim: 4, mode: sum, name: sum}
    - embedding: {inputs: [user, site, user_site], output_dim: 4, name: ids}
    - linear: {inputs: [user, big, user_site], name: wide}
    - embedding: {inputs: big, output_dim: 2, table: admitted, name: big_vectors}
    - dense: {inputs: [mean, sqrtn, sum, ids, wide, big_vectors, x], units: 1, activation: tanh}
"""
TABLES_COLUMNS = """\
    - label: y
    - number: x
    - keys: {name: tags, separator: " ", max_values: 4, weights: true}
    - keys: {name: plain, separator: " ", max_values: 3}
    - key: user
    - key: {name: site, missing: none, buckets: 1000}
    - key: {name: big, hash: false, missing: {key: 7}}
    - cross: {name: user_site, of: [user, site]}
"""
TABLES_REST = "tables: {admitted: {min_count: 2}, sum: {initializer: {constant: 0.25}}}\n"


# Distinct also with _ for all that is no letter: TensorFlow needs that.
NAMES = ["a|b", "tab\there", "new\nline", 'quo"te', "it's", "</script>", "\u202eesrever", "c\x01\x1b[2Jx", "%s%n", "{}", "${HOME}",
         "back\\slash", "#hash", " lead", "\u00e9" * 2048, "x" * 4096, "null", "a: b", "&anchor", "__proto__", "column_3", "input",
         "features", "w/b", "/etc/passwd"]


def names_columns():
    kinds = (lambda name: Number(name, -9, 9, 2), lambda name: Word(name, "</b>", "%s", 'q"', "a|b"), lambda name: Key(name, "u", "\u00e9"))
    return [Label(), *(kinds[i % 3](name) for i, name in enumerate(NAMES))]


def names_job():
    kinds = "number", "category", "key"
    lines = "    - label: y\n" + "".join(f"    - {kinds[i % 3]}: {json.dumps(name)}\n" for i, name in enumerate(NAMES))
    listed = [json.dumps([name for i, name in enumerate(NAMES) if (i % 3 == 2) == keys]) for keys in (False, True)]
    return job(f"    - dense: {{inputs: {listed[0]}, units: 3, name: d}}\n    - embedding: {{inputs: {listed[1]}, output_dim: 2, name: e}}\n"
               "    - dense: {inputs: [d, e], units: 1}\n", csv(lines))


def tables_columns():
    words = [f"w{i}" for i in range(12)]
    user, site = Key("user", *words), Key("site", *words, when_missing="none", buckets=1000)
    big = [str(i << 60 | i * 12345) for i in range(16)]
    return [Label(), Number("x", -1, 1, 2), Keys("tags", 4, *words, weights=True), Keys("plain", 3, *words), user, site,
            Key("big", *big, "", missing=("",), when_missing=7, hash=False), Cross("user_site", user, site)]


FIXTURES = {
    "mnist-mlp": lambda: Images(image_example("mnist/mlp"), (28, 28)),
    "mnist-cnn": lambda: Images(image_example("mnist/cnn"), (28, 28)),
    "mnist-convnet": lambda: Images(image_example("mnist/convnet"), (28, 28)),
    "cifar10-cnn": lambda: Images(image_example("cifar10/cnn"), (32, 32, 3)),
    "adult-mlp": lambda: Table(example("adult/mlp"), census(Word)),
    "adult-lr": lambda: Table(example("adult/lr"), census(Key)),
    "clicks-lr": lambda: Table(example("clicks/lr"), clicks(), "\t"),
    "clicks-wide-deep": lambda: Table(example("clicks/wide_deep"), clicks(), "\t"),
    "criteo-lr": lambda: Table(example("criteo/lr"), clicks(), "\t"),
    "a9a-lr": lambda: Table(example("a9a/lr"), [Label("-1", "+1"), Pairs(15, 123)], " "),
    "layers": lambda: Images(job(LAYERS, image_data(), shape="[6]"), (6,)),
    "convolutions": lambda: Images(
        job(CONVOLUTIONS, image_data(), "sparse_categorical_crossentropy", "[13, 11, 2]"), (13, 11, 2)),
    "encodings": lambda: Table(
        job("    - embedding: {inputs: embedded, input_dim: 8, output_dim: 3, name: e}\n    - flatten\n"
            "    - dense: {inputs: [flatten, learned, \"plain\", squares], units: 5, name: part}\n"
            "    - dense: {inputs: [input], units: 5, name: all}\n    - add: [part, all]\n    - dense: 1\n",
            csv(ENCODED, "  missing: [\"\", \"?\"]\n")), ENCODED_COLUMNS),
    "required": lambda: Table(
        job("    - embedding: {inputs: id, input_dim: 8, output_dim: 3, name: e}\n    - flatten\n"
            "    - dense: {inputs: [flatten, plain, standard, borders, quantiles], units: 5, activation: relu}\n    - dense: 1\n",
            csv(REQUIRED)), REQUIRED_COLUMNS),
    "names": lambda: Table(names_job(), names_columns()),
    "tables": lambda: Table(job(TABLES, csv(TABLES_COLUMNS), rest=TABLES_REST), tables_columns()),
}


def image_data():
    return "data: {format: npy, train: [train_x.npy, train_y.npy], eval: [eval_x.npy, eval_y.npy], scale: 64}\n"


class Made:
    """A fixture in a directory."""

    def __init__(self, name, path, rows):
        self.name, self.path, self.source, self.rows = name, pathlib.Path(path), FIXTURES[name](), rows
        self.has_tables = self.source.has_tables
        self.source.write(self.path, Draw(name), rows)
        (self.path / "job.yaml").write_text(self.source.job)
        done = subprocess.run([BUILD / "tests" / "interop_fixture", str(self.path)], capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr}")
        self.scores = self.floats("scores")
        names = re.findall(r"^ *name: (\S+)$", (self.path / "model/job.yaml").read_text().split("\nmodel:")[-1]
                           .split("\n  loss:")[0], flags=re.M)
        self.last_layer = names[-1] if names else None

    def floats(self, name):
        """An array('f') of DIR/NAME.f32: the scores, or the output of a layer that looks up a table."""
        values = array.array("f")
        values.frombytes((self.path / f"{name}.f32").read_bytes())
        return values

    def inputs(self):
        """{name: (kind, values)} of the rows of eval: kind is raw, number, double, word, key or weight."""
        return {name: (kind, values) for name, kind, values in self.source.inputs()}

    def export(self, form, output, *flags):
        """Run `gradwire export`; returns what it prints."""
        command = [BUILD / "model" / "model", "export", str(self.path), "--format", form, "--output", str(output), *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{self.name}: {done.stderr}")
        return done.stdout


@contextlib.contextmanager
def made(name, rows=EVAL_ROWS):
    with tempfile.TemporaryDirectory(prefix="gradwire-interop-") as folder:
        yield Made(name, folder, rows)
