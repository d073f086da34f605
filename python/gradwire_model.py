"""A model that gradwire trained, in Python: encode raw rows, look up tables, and score with numpy or torch.

    import gradwire_model
    model = gradwire_model.load("runs/adult/model")
    scores = model.predict(model.read("adult.test"))         # numpy array (rows, outputs)

This file is all of it: copy it next to your program. It needs numpy to score; encoding alone needs only Python. It uses
the packages safetensors and xxhash if they are installed, and torch if you call `torch_module`.
docs/guides/python.md is the guide; docs/reference/files.md and encoding.md define the files that it reads."""
import gzip
import json
import math
import numbers
import pathlib
import re
import statistics
import struct
import warnings
import zlib

try:
    import numpy as np
except ImportError:  # keys and features of one row need no numpy
    np = None

FORMAT = 1  # of manifest.json
ROW_BYTES = 512 << 10  # a row of text has at most so many
M = 2**64 - 1
WARNED_ROWS = 20  # fewer rows can lack all words by chance


class ModelError(ValueError):
    """A file of the model, or a row, is not what it should be. The text says what is wrong, and where."""


# ---- XXH3, 64 bits (xxhash.h 0.8): the key of a word ----

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _at64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def _at32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def _swap(x, size):
    return int.from_bytes(x.to_bytes(size, "little"), "big")


def _fold(a, b):
    product = a * b
    return (product ^ product >> 64) & M


def _avalanche(h):
    h = (h ^ h >> 37) * 0x165667919E3779F9 & M
    return h ^ h >> 32


def _avalanche64(h):
    h = (h ^ h >> 33) * P64_2 & M
    h = (h ^ h >> 29) * P64_3 & M
    return h ^ h >> 32


def _short(data, seed):
    """Up to 16 bytes."""
    n = len(data)
    if n > 8:
        low = _at64(data, 0) ^ (_at64(SECRET, 24) ^ _at64(SECRET, 32)) + seed & M
        high = _at64(data, n - 8) ^ (_at64(SECRET, 40) ^ _at64(SECRET, 48)) - seed & M
        return _avalanche(n + _swap(low, 8) + high + _fold(low, high) & M)
    if n >= 4:
        seed ^= _swap(seed & 0xFFFFFFFF, 4) << 32
        h = _at32(data, n - 4) + (_at32(data, 0) << 32) ^ (_at64(SECRET, 8) ^ _at64(SECRET, 16)) - seed & M
        h ^= (h << 49 | h >> 15) & M ^ (h << 24 | h >> 40) & M
        h = h * 0x9FB21C651E98DF25 & M
        h = (h ^ (h >> 35) + n) * 0x9FB21C651E98DF25 & M
        return h ^ h >> 28
    if n:
        combined = data[0] << 16 | data[n >> 1] << 24 | data[-1] | n << 8
        return _avalanche64(combined ^ (_at32(SECRET, 0) ^ _at32(SECRET, 4)) + seed & M)
    return _avalanche64(seed ^ _at64(SECRET, 56) ^ _at64(SECRET, 64))


def _mix16(data, at, secret, seed):
    return _fold(_at64(data, at) ^ _at64(SECRET, secret) + seed & M, _at64(data, at + 8) ^ _at64(SECRET, secret + 8) - seed & M)


def _middle(data, seed):
    """17 to 240 bytes."""
    n = len(data)
    acc = n * P64_1
    if n <= 128:
        for i in range((n - 1) // 32 + 1):
            acc += _mix16(data, 16 * i, 32 * i, seed) + _mix16(data, n - 16 * (i + 1), 32 * i + 16, seed)
        return _avalanche(acc & M)
    for i in range(8):
        acc += _mix16(data, 16 * i, 16 * i, seed)
    acc = _avalanche(acc & M)
    for i in range(8, n // 16):
        acc += _mix16(data, 16 * i, 16 * (i - 8) + 3, seed)
    return _avalanche(acc + _mix16(data, n - 16, 136 - 17, seed) & M)


def _accumulate(acc, data, at, secret, of):
    for i in range(8):
        value = _at64(data, at + 8 * i)
        keyed = value ^ _at64(secret, of + 8 * i)
        acc[i ^ 1] = acc[i ^ 1] + value & M
        acc[i] = acc[i] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & M


def _long(data, seed):
    """More than 240 bytes."""
    n, stripes = len(data), (192 - 64) // 8
    secret = b"".join((_at64(SECRET, i) + (-seed if i % 16 else seed) & M).to_bytes(8, "little") for i in range(0, 192, 8))
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]
    for stripe in range((n - 1) // 64):
        _accumulate(acc, data, 64 * stripe, secret, 8 * (stripe % stripes))
        if stripe % stripes == stripes - 1:
            acc = [(a ^ a >> 47 ^ _at64(secret, 128 + 8 * i)) * P32_1 & M for i, a in enumerate(acc)]
    _accumulate(acc, data, n - 64, secret, 192 - 64 - 7)
    return _avalanche(n * P64_1 + sum(_fold(acc[i] ^ _at64(secret, 11 + 8 * i), acc[i + 1] ^ _at64(secret, 19 + 8 * i))
                                      for i in range(0, 8, 2)) & M)


def xxh3_pure(data, seed=0):
    """XXH3_64bits_withSeed of bytes."""
    return (_short if len(data) <= 16 else _middle if len(data) <= 240 else _long)(data, seed)


try:
    from xxhash import xxh3_64_intdigest as xxh3
except ImportError:
    xxh3 = xxh3_pure


# ---- the columns of a row: docs/reference/encoding.md ----

NUMBER = re.compile(r"[ \t]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t]*", re.ASCII)


def _text(value):
    """A text of encoding.json. Bytes that are not UTF-8 are {"hex": ..} there, and surrogates here."""
    return value if isinstance(value, str) else bytes.fromhex(value["hex"]).decode("utf-8", "surrogateescape")


def _bytes(text):
    return text.encode("utf-8", "surrogateescape")


def float32(x):
    """x, rounded as a float of 32 bits. Denormals are 0, as in training."""
    try:
        rounded = struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        rounded = math.inf
    if math.isinf(rounded):  # x, too, if its text has too large a number for a double
        raise ModelError(f"{x} is too large for a float of 32 bits")
    return rounded if abs(rounded) >= 2.0**-126 else 0.0


def _flushed(x):
    """A double; a denormal is 0."""
    return x if abs(x) >= 2.0**-1022 else 0.0


def _is_missing(field):
    """None, a NaN or NaT of any type, or pandas.NA, which has no truth to ask for."""
    return field is None or type(field).__name__ == "NAType" or not isinstance(field, (str, bytes)) and bool(field != field)


class Column:
    """One column. `field` is a text, a number, or None for a missing value."""

    def __init__(self, spec, missing, wide=True):
        self.wide = wide  # numbers are doubles until they are encoded
        self.name, self.kind = spec["name"] if spec["name"] is None else _text(spec["name"]), spec["kind"]
        self.classes = spec.get("classes")
        self.names = {name.replace("\\|", "|") for names in self.classes or [] for name in re.split(r"(?<!\\)\|", _text(names))}
        self.numbered = all(name == "*" or NUMBER.fullmatch(name) for name in self.names)
        self.below = 0  # of a label: the number of classes; 0: any number
        self.missing, self.feature, self.width = missing, spec.get("feature"), spec.get("width", 0)
        self.how = spec.get(next((k for k in ("number", "buckets", "category", "key") if k in spec), ""), {})

    def text(self, field):
        """The field as text; None if it is missing."""
        if hasattr(field, "__len__") and not isinstance(field, (str, bytes)):
            self.bad(field, f"is a {type(field).__name__}: give a text, a number, or None")
        if _is_missing(field):
            return None
        if isinstance(field, bytes):
            field = field.decode("utf-8", "surrogateescape")
        field = field if isinstance(field, str) else repr(float(field)) if isinstance(field, float) else str(field)
        return None if field in self.missing else field

    def label_text(self, field):
        """The text; "": the label is missing, or the text stands for one that is not known."""
        text = self.text(field.strip(" \t")) or ""
        return text * (text[:1] != "?")

    def is_no_label(self, field):
        """Neither a class or number, nor a text for a label that is not known."""
        text = self.label_text(field)
        if not text or text in self.names:
            return False
        if self.names:
            return "*" not in self.names or self.numbered and not NUMBER.fullmatch(text)
        return not NUMBER.fullmatch(text) or bool(self.below) and not (0 <= float(text) < self.below and float(text).is_integer())

    def whole(self, field):
        """The text 1 for 1.0: pandas makes floats of a column of whole numbers with a gap. None: the field is no such float."""
        is_float = isinstance(field, numbers.Real) and not isinstance(field, numbers.Integral)
        return str(int(field)) if is_float and math.isfinite(field) and field == math.floor(field) else None

    def bad(self, field, why):
        raise ModelError(f'column "{self.name}": "{field}" {why}')

    def bad_missing(self, field):
        self.bad(field, "is missing, and training refused rows without this number")

    def rounded(self, field, text, what):
        """The number that `text`, of the field, has, as a float of 32 bits."""
        if not NUMBER.fullmatch(text):
            self.bad(field, f"{what} not a number")
        try:
            return float32(float(text))
        except ModelError:
            self.bad(field, f"{what} too large for a float of 32 bits")

    def parse(self, field):
        """The number, which a float of 32 bits can hold at least rounded; None if it is missing."""
        text = self.text(field)
        if text is None:
            return None
        rounded = self.rounded(field, text, "is")
        return _flushed(float(text)) if self.wide else rounded


class NumberColumn(Column):
    def encode(self, field):
        """The feature."""
        x = self.parse(field)
        x = self.how["missing"] if x is None else x
        if x is None:
            self.bad_missing(field)
        function = self.how.get("function")
        if function == "log1p":
            return float32(math.log1p(max(x, 0)))
        if function == "log2":
            return float32(math.log2(max(x, 1)))
        return float32((x - self.how["shift"]) / self.how["divisor"])


class BucketColumn(Column):
    def encode(self, field):
        """The number of the bucket, from 1; 0: none."""
        x = self.parse(field)
        x = self.how["missing"] if x is None else x
        if x is None and self.how.get("refuses_missing"):
            self.bad_missing(field)
        if x is None:
            return 0
        if "borders" in self.how:
            return sum(_flushed(border) <= x for border in self.how["borders"]) + 1
        step = 3 + math.floor(math.log(x) ** 2) if x > 2 else int(max(x, -64))
        return min(max(step - self.how["log_squared"], 0), self.how["count"] - 1) + 1


class CategoryColumn(Column):
    def __init__(self, spec, missing, wide=True):
        super().__init__(spec, missing, wide)
        self.number = {_text(word): i + 1 for i, word in enumerate(self.how["words"])}

    def encode(self, field):
        """The number of the word, from 1; 0: not in the vocabulary."""
        text = self.text(field)
        if text is not None and text not in self.number and self.whole(field) in self.number:
            self.bad(field, f'is a float, and words are compared as texts: give "{self.whole(field)}", the text of the vocabulary')
        return self.number.get(self.missing[0] if text is None else text, 0)


class KeyColumn(Column):
    """`key`, `keys` and `cross`: a list of (key, weight)."""

    def __init__(self, spec, missing, wide=True):
        super().__init__(spec, missing, wide)
        how = self.how
        self.seed = xxh3(_bytes(_text(how["space"]))) if how["hash"] else 0
        self.buckets = int(how["buckets"] or 0)
        self.separator = _text(how["separator"]) if "separator" in how else None
        self.of = [_text(name) for name in how.get("of", [])]
        self.memory = {}  # keys of words; hashing is slow here

    def warn_of_float(self, field):
        """A file can have both texts, and the keys of both are numbers."""
        if self.whole(field):
            warnings.warn(f'column "{self.name}": a float is looked up as "{field}"; if the files of training have "'
                          f'{self.whole(field)}", give that text', stacklevel=2)

    def fold(self, key):
        return key % self.buckets if self.buckets else key

    def key(self, word):
        if word not in self.memory:
            self.memory[word] = self.compute(word)
        return self.memory[word]

    def compute(self, word):
        if self.how["hash"]:
            return self.fold(xxh3(_bytes(word), seed=self.seed))
        if not re.fullmatch("[0-9]+", word) or int(word) > M:
            self.bad(word, "is not an integer from 0 to 2^64 - 1")
        return self.fold(int(word))

    def key_or_none(self, word):
        """None: a missing value that looks up nothing."""
        if self.text(word) is not None:
            self.warn_of_float(word)
            return self.key(self.text(word))
        if self.how["missing"] == "none":
            return None
        return self.key("") if self.how["missing"] == "empty" else self.fold(int(self.how["missing_key"]))

    def value(self, text):
        weight = 1.0
        if self.how.get("weights") and text is not None and ":" in text:
            text, _, number = text.rpartition(":")
            weight = self.rounded(f"{text}:{number}", number, "has a weight that is")
        key = self.key_or_none(text)
        return [] if key is None else [(key, weight)]

    def encode(self, field):
        if self.separator is None:
            return self.value(field)
        text = self.text(field)
        if text is not None:
            self.warn_of_float(field)
        words = [None] if text is None else text.split(self.separator)
        found = [pair for word in words for pair in self.value(word)]
        if len(found) > self.how["max_values"]:
            self.bad(field, f"has more than max_values: {self.how['max_values']} values")
        return found

    def cross(self, row_keys):
        """row_keys: the result of `encode` of each column that it combines."""
        if not all(row_keys):
            return []
        return [(self.fold(xxh3(b"".join(k[0][0].to_bytes(8, "little") for k in row_keys), seed=self.seed)), 1.0)]


COLUMNS = {"category": CategoryColumn, "key": KeyColumn, "keys": KeyColumn, "cross": KeyColumn}


def column(spec, missing, wide=True):
    kind = COLUMNS.get(spec["kind"], BucketColumn if "buckets" in spec else NumberColumn if "number" in spec else Column)
    return kind(spec, missing, wide)


class DictRow(dict):
    """A row of a file, with its place, FILE:LINE, for errors."""
    __slots__ = ("place",)


class ListRow(list):
    """The same of a file some of whose columns have no name."""
    __slots__ = ("place",)


class Encoding:
    """encoding.json: how a row becomes features and keys. It needs no numpy."""

    def __init__(self, spec):
        self.features, self.missing = spec["features"], [_text(m) for m in spec["missing"]]
        if spec.get("arithmetic", "float64") != "float64":
            raise ModelError(f'encoding.json: its arithmetic "{spec["arithmetic"]}" is not known here')
        self.columns = [column(c, self.missing, "arithmetic" in spec) for c in spec["columns"]]
        self.lookups, self.tables = spec.get("lookups", []), spec.get("tables", [])
        self.fields = [c for c in self.columns if c.kind != "cross"]  # the columns of the file
        self.place = {id(c): i for i, c in enumerate(self.fields)}
        self.inputs = [c for c in self.columns if c.feature is not None]
        self.keys = {c.name: c for c in self.columns if c.kind in ("key", "keys", "cross")}

    def columns_of(self, fields):
        """The columns of a row of so many fields: the label can be absent, or the label and the weight. Of other rows: all."""
        for absent in (), ("label",), ("label", "weight"):
            here = [c for c in self.fields if c.kind not in absent]
            if len(here) == fields:
                return here
        return self.fields

    def row(self, row):
        """A row as a dict, or as a list with a field for each column."""
        if hasattr(row, "_asdict"):
            return row._asdict()
        if isinstance(row, dict):
            return row
        if isinstance(row, (str, bytes)) or not hasattr(row, "__len__"):
            raise ModelError(f"a row is a {type(row).__name__} ({row!r:.40}): give a dict by column, or a list of the fields")
        here = self.columns_of(len(row))
        if len(here) != len(row):
            raise ModelError(f"a row has {len(row)} fields, the model's columns are {len(here)}")
        fields = iter(row)
        there = {id(c) for c in here}
        return row if len(here) == len(self.fields) else [next(fields) if id(c) in there else None for c in self.fields]

    def rows(self, rows):
        """`row` of each row of a list."""
        if isinstance(rows, (dict, str, bytes)) or hasattr(rows, "to_dict"):
            hint = 'df.to_dict("records")' if hasattr(rows, "to_dict") else "[row]"
            raise ModelError(f"the rows are a {type(rows).__name__}: give a list of rows, {hint}")
        return [self.row(row) for row in rows]

    def see_labels(self, rows):
        """Warn of rows of a program, as lists, if no label is in the label's field, as of those of a file."""
        label = next((c for c in self.fields if c.kind == "label"), None)
        fields = [self.field(row, label) for row in rows if label and not isinstance(row, (dict, ListRow))]
        texts = [label.label_text(label.whole(field) or label.text(field) or "") for field in fields
                 if isinstance(field, (str, bytes, numbers.Real)) and not isinstance(field, bool)]
        strange = [text for text in texts if label.is_no_label(text)]
        if len(set(strange)) > 1 and "*" not in label.names and len(strange) * 2 >= sum(map(bool, texts)):
            warnings.warn(f"{len(strange)} of {sum(map(bool, texts))} rows have no label in the label's field, the first has "
                          f'"{strange[0]:.40}": check the order of the columns', stacklevel=4)

    def field(self, row, c):
        """The field of a column in a row: a dict by name, or a list in the order of the columns."""
        try:
            return row[c.name] if isinstance(row, dict) else row[self.place[id(c)]]
        except (KeyError, IndexError):
            raise ModelError(f'the row has no column "{c.name}"') from None

    def cell(self, row, c):
        """The value of a column in a row: a number, the number of a word or bucket, or a list of (key, weight)."""
        if c.kind == "cross":
            return c.cross([self.cell(row, self.keys[name]) for name in c.of])
        try:
            return c.encode(self.field(row, c))
        except ModelError as e:
            raise ModelError(f"{row.place}: {e}" if isinstance(row, (DictRow, ListRow)) else e) from None

    def row_features(self, row):
        """The model's input for one row, as a list."""
        x, row = [0.0] * self.features, self.row(row)
        for c in self.inputs:
            cell = self.cell(row, c)
            if isinstance(c, NumberColumn) or c.how["encode"] == "id":
                x[c.feature] = float(cell)
            elif cell:
                x[c.feature + cell - 1] = 1.0
        return x

    def row_keys(self, row):
        """{name of a key column: [(key, weight), ..]}"""
        row = self.row(row)
        return {name: self.cell(row, c) for name, c in self.keys.items()}


# ---- files ----

DTYPES = {"F32": "<f4", "U32": "<u4", "U64": "<u8"}


def _parse_json(path, text):
    def once(pairs):
        found = {}
        for key, value in pairs:
            if key in found:
                raise ModelError(f'{path}: the key "{key}" occurs twice')
            found[key] = value
        return found
    return json.loads(text, object_pairs_hook=once)


def _read_json(path):
    return _parse_json(path, pathlib.Path(path).read_text())


def read_safetensors(path):
    """({name: array}, metadata) of a safetensors file. The arrays stay in the file, and are read when they are used."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        if size > 100_000_000:
            raise ModelError(f"{path}: not a safetensors file")
        header = _parse_json(path, file.read(size))
    metadata, data = header.pop("__metadata__", {}), np.memmap(path, np.uint8, "r")[8 + size:]
    return {name: data[t["data_offsets"][0]:t["data_offsets"][1]].view(DTYPES[t["dtype"]]).reshape(t["shape"])
            for name, t in header.items()}, metadata


NO_TEXT = {rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18": "zstd: decompress it first", rb"\xfd7zXZ\0": "xz: decompress it first",
           rb"BZh.(1AY&SY|\x17\x72\x45\x38\x50\x90)": "bzip2: decompress it first", rb"PK\x03\x04": "zip: decompress it first",
           rb"\x04\x22\x4d\x18": "lz4: decompress it first", rb".{257}ustar(\0|  \0)": "tar: unpack it first",
           rb"PAR1\x15": "a Parquet file: convert it to csv", rb"ARROW1\0\0": "an Arrow (Feather) file: convert it to csv",
           rb"\x89HDF\r\n\x1a\n": "an HDF5 file: convert it to csv", rb"\x93NUMPY": "an npy file: convert it to csv",
           rb"SQLite format 3\0": "a database of SQLite: export a table as csv",
           rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an Excel workbook: save it as csv",
           rb"Obj\x01": "an Avro file: convert it to csv", rb"\x80([\x04\x05]\x95|\x02\}q)": "a pickle of Python: save the data as csv",
           rb"%PDF-": "a PDF document: convert it to csv", rb"\x89PNG\r\n|\xff\xd8\xff": "an image: give predict its array",
           rb"(?i:\s*<(!doctype html|html(>\s*([\r\n<]|$)|\s+[a-z:]+=)|head>\s*<))": "an HTML page: check what was downloaded",
           rb"\s*<\?xml\s": "an XML page: check what was downloaded",
           rb'(?=.{0,500}\Z)\s*\{"[^\n]*:[^\n]*\}\s*\Z': "one line of JSON: check what was downloaded",  # all of the file
           rb"version https://git-lfs\.": "a pointer of Git LFS, not the data: git lfs pull",
           rb"\xff\xfe|\xfe\xff|\0\0\xfe\xff": "it is UTF-16 or UTF-32, and only UTF-8 is read; convert it with iconv"}

CONTROLS = {0, *range(4, 9), *range(14, 27)}  # those that no text has


def _open(path):
    for opener in open, gzip.open:
        with opener(path, "rb") as file:
            head = file.read(4096)
        if opener is open and not head and str(path).endswith((".gz", ".zst")):
            kind = "gzip" if str(path).endswith(".gz") else "zstd"
            raise ModelError(f"{path}: it is empty, which no file of {kind} is: check its download, or what wrote it")
        head = head.removeprefix(b"\xef\xbb\xbf")
        for begin, said in NO_TEXT.items():
            if re.match(begin, head, re.DOTALL):
                raise ModelError(f"{path}: {said}")
        controls = [byte for byte in head if byte in CONTROLS]
        if head[:2] != b"\x1f\x8b" and len(set(controls)) >= 4 and len(controls) * 20 >= len(head):
            raise ModelError(f"{path}: it is not text, as it has many control characters: is it compressed, or another file?")
        if head[:2] != b"\x1f\x8b":
            return opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="\n")
    raise ModelError(f"{path}: gzip in gzip: decompress it once")


def _lines(path):
    try:
        with _open(path) as file:
            yield from file
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        raise ModelError(f"{path}: its gzip data are damaged: {e}") from None


def _check_length(path, number, text):
    if len(text) >= ROW_BYTES // 4 and len(_bytes(text)) + (text[-1] != "\n") > ROW_BYTES:
        raise ModelError(f"{path}:{number}: a row of more than {ROW_BYTES} bytes")


def _more(lines):
    return f" (and {len(lines) - 1} more)" if lines[1:] else ""


class Said:
    """Warns of the first line of each kind in a file, as `predict` does."""

    def __init__(self, path):
        self.path, self.kinds = path, set()

    def __call__(self, line, what, depth=4):
        """depth: the number of frames up to the program that iterates over the rows."""
        if what not in self.kinds:
            self.kinds.add(what)
            warnings.warn(f"{self.path}:{line}: {what}", stacklevel=depth)

    def see_mark(self, line, text, depth):
        if text.startswith("\ufeff"):
            self(line, "a byte order mark (U+FEFF) begins this line, and belongs to its first field; if files were joined, remove it",
                 depth)

    def see_nuls(self, line, text, depth):
        if "\0" in text:
            if text.count("\0") > 1 and "\0\0" not in text and text.count("\0") * 3 >= len(text):
                raise ModelError(f"{self.path}:{line}: UTF-16 text begins here, and only UTF-8 is read; convert it with iconv")
            many = text.startswith("\0" * 8) or text.rstrip("\n").endswith("\0" * 8)
            self(line, "this line has NUL bytes in a row, as a crash leaves them at the end of a file; remove them: "
                 "tr -d '\\0' < FILE > NEW" if many else "a NUL byte, which is read like any other: is it text of UTF-16?", depth)


class Header:
    """The first line of a csv file, and what the lines have of the names and values of the columns.

    columns: for each field its own; None if there is none of its name. how: data.header."""

    def __init__(self, columns, how, said, line, fields, wrong):
        self.how, self.said, self.line, self.there, self.fields, self.rows = how, said, line, len(fields), len(columns), 0
        self.columns = [(i, c) for i, c in enumerate(columns) if c and c.kind not in ("label", "weight", "ignore")]
        self.names = [(i, c.name) for i, c in self.columns if c.name]
        self.case = str.lower if len(columns) > 1 else str  # one name is likely to be a value in another case
        self.header = self.bare_fields(fields if how != "none" else [c.name or "" for c in columns], self.case)
        self.first, self.words = sorted(self.header), any(re.match(r"[^\W\d]", name) for name in self.header)
        self.likely = [(0, set(self.header)), *((i, {self.case(name)}) for i, name in self.names[:1])]
        self.has_names, moved = self.find_names(fields)
        self.label = next(((i, c) for i, c in enumerate(columns) if how != "names" and c and c.kind == "label"), None)
        self.labels, self.strange, self.first_strange, self.differ = 0, 0, (), False
        self.first_row, self.named = 0, line if self.has_names else 0  # lines; named: of names
        if how == "none" and self.has_names:
            said(line, f"this line has the names of the columns{' in another order' if moved else ''}, but is read as a row: "
                 f"use data.header: names{'' if moved else ', or skip'}")
        if how == "skip" and self.reads_like_row(fields, wrong):
            said(line, "data.header: skip leaves this line out, but it reads like a row; for files without a header use data.header: none")
        if how == "skip" and moved:
            said(line, f'data.header: skip leaves this line out, but it names "{moved[0]}" in field {moved[1]}, which data.columns has in '
                 f"field {moved[2]}; data.header: names finds columns by their names")

    @staticmethod
    def bare_fields(fields, case=str):
        return [case(field.strip(' \t"\ufeff')) for field in fields]

    def find_names(self, fields):
        """(the line has all names, (a name, its place, the place of its column) of the first that is elsewhere, or None)"""
        if len(fields) != self.fields:
            return False, None
        bare, small, moved = self.bare_fields(fields), self.bare_fields(fields, str.lower), None
        for i, name in self.names:
            at = bare.index(name) if name in bare else small.index(name.lower()) if name.lower() in small else i
            if not moved and bare[i] != name and (bare[at] == name or small[i] != small[at]):
                moved = name, at + 1, i + 1
        return bool(self.names) and {name.lower() for _, name in self.names} <= set(small), moved

    def reads_like_row(self, fields, wrong):
        """The text fits the columns as few headers and comments do: it has a number or a known word, and no text for a number."""
        if fields is None or wrong or len(fields) != self.fields:
            return False
        there = [(c, fields[i]) for i, c in self.columns if c.kind in ("number", "category") and c.text(fields[i]) is not None]
        fits = [field in c.number if c.kind == "category" else bool(NUMBER.fullmatch(field)) for c, field in there]
        return any(fits) and all(fit or c.kind == "category" for fit, (c, _) in zip(fits, there))

    def see_row(self, line, fields):
        """Of a row that is not the first line."""
        self.rows += 1
        if self.rows > 1 and not any(set(self.bare_fields(fields[i:i + 1], self.case)) & names for i, names in self.likely):
            return  # most rows
        small, has = self.bare_fields(fields, self.case), "this line has the names of the columns"
        names = self.names if self.words and (len(self.names) > 1 or self.fields == 1) else []
        again = sorted(small) == self.first if self.words else small == self.header and self.how != "none"
        if again and self.how != "none":
            self.said(line, "this line is the header again, and is read as a row; if files were joined, remove it")
        elif self.how == "skip" and self.rows == 1 and not self.has_names and self.find_names(fields)[0]:
            self.said(line, f"{has}, but is read as a row, as data.header: skip has left out line {self.line}: remove the lines before it")
        elif again or names and len(small) == self.fields and all(small[i] == self.case(name) for i, name in names):
            self.said(line, f"{has}, and is read as a row; if files were joined, remove it")
        else:
            return
        self.named = line

    def see_label(self, line, fields):
        """Of each row whose columns are found by their order: fields that no label is in show that it is a header, or they are others."""
        self.first_row = self.first_row or line
        if self.label and line != self.named:
            text = fields[self.label[0]]
            self.labels += self.label[1].label_text(text) != ""
            if self.label[1].is_no_label(text):
                self.strange, self.first_strange = self.strange + 1, self.first_strange or (line, text)
                self.differ |= text != self.first_strange[1]

    def see_comments(self, text):
        for line, comment in text.comments:
            if self.reads_like_row(*text.split(comment)[:2]):
                self.said(line, "this line begins with data.comment and is left out, but it reads like a row; if it is one, write its "
                          "first field in quotes, or choose another data.comment")
        text.comments.clear()

    def see_end(self):
        many = self.differ and self.strange * 2 >= self.labels  # one text can stand for any label
        others = many and "*" not in self.label[1].names
        if others or self.strange == 1 < self.labels and self.first_strange[0] == self.first_row:
            line, text = self.first_strange
            self.said(line, f"{self.strange} of {self.labels} rows have no label in the label's field, the first has \"{text:.40}\": check "
                      + ("the order of the columns" if others else "whether this line is a header"))
        if self.how == "skip" and not self.rows and self.there != self.fields:
            self.said(self.line, f"data.header: skip leaves this line out, and no row follows, but it has not the {self.fields} fields "
                      "of data.columns: check that it is the right file")


class CsvText:
    """The fields of csv text: docs/reference/data.md, "Quotes". `data`: the options of the job's section data."""

    def __init__(self, data):
        self.delimiter = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|", "space": " "}[data["delimiter"]]
        self.blanks = " \t".replace(self.delimiter, "") if data["trim"] else ""
        self.quotes, self.comment, self.headless = data["quotes"], data.get("comment"), data.get("header") == "none"
        self.escape = "\\" if data.get("escape", "none") == "backslash" else ""
        escape, ends = re.escape(self.escape), re.escape(self.delimiter) + r"\n"
        self.plain = re.compile(rf"(?:[^{ends}{escape}]|{escape}.)*" if escape else rf"[^{ends}]*", re.DOTALL)
        self.mark = re.compile('["' + escape + "]")
        self.comments = []  # (line, text) of the last ones

    def records(self, path):
        """(line, fields, numbers of fields with text behind their quotes, or blanks before them) of each row."""
        text, first, lines, rows, empty, between, said = "", 1, 0, 0, [], [], Said(path)
        for line in _lines(path):
            lines += 1
            said.see_nuls(lines, line, 5)
            if not text:
                first = lines
                if self.comment and line.startswith(self.comment):
                    self.comments.append((lines, line.rstrip("\n") + "\n"))
                    continue
                said.see_mark(lines, line, 5)
                if not line.strip("\r\n" + self.blanks):
                    empty.append(lines)
                    continue
            elif '"' not in line and not self.escape and len(text) <= ROW_BYTES:  # the quotes go on
                text += line
                continue
            text += line if line.endswith("\n") else line + "\n"
            fields, wrong, plain = self.split(text)
            if any("\r" in part for part in plain):
                raise ModelError(f"{path}:{first}: a CR without LF: its line ends are not LF or CR LF")
            if fields:
                _check_length(path, first, text)
                between += empty if len(fields) == 1 and (rows or self.headless) else []
                rows, empty, text = rows + 1, [], ""
                yield first, fields, wrong
            elif len(text) > ROW_BYTES:
                break
        if text:
            raise ModelError(f"{path}:{first}: a quote begins a field of this row, and is never closed")
        if between:
            warnings.warn(f"{path}:{between[0]}: this line{_more(between)} is empty, and is no "
                          "row; a missing value of a file with one column is written " + ('""' if self.quotes else "as a text that "
                          "data.missing lists, such as NA"), stacklevel=3)

    def split(self, text):
        """(fields, numbers of those with text behind their quotes or blanks before them, texts that are not in quotes) of
        a row with its line end. The fields are None: the row is longer."""
        if not self.mark.search(text):
            body = text[:-2 if text.endswith("\r\n") else -1]
            fields = [f.strip(self.blanks) if self.blanks else f for f in body.split(self.delimiter)]
            return fields, [], [body]
        fields, wrong, plain, at = [], [], [], 0
        while True:
            while self.blanks and text[at] in self.blanks:
                at += 1
            quoted = self.quotes and text[at] == '"'
            value, at = self._quoted(text, at + 1) if quoted else ("", at)
            if value is None:
                return None, wrong, plain
            end = self.plain.match(text, at + (quoted and text[at] == self.escape)).end()  # here it is a character
            rest, at = text[at:end], end
            if at == len(text):
                return None, wrong, plain
            if text[at] == "\n" and rest.endswith("\r") and not self._is_escaped(rest, len(rest) - 1):
                rest = rest[:-1]
            rest = self._trimmed(rest)
            if rest if quoted else self.is_quoted_between_blanks(rest):
                wrong.append(len(fields))
            if not self.escape or rest == self.escape + "N":
                plain.append(rest)
            else:
                plain.append(re.sub(r"\\.", "", rest, flags=re.DOTALL))
                rest = re.sub(r"\\(.)", r"\1", rest, flags=re.DOTALL)
            fields.append(value + rest)
            at += 1
            if text[at - 1] == "\n":
                return fields, wrong, plain

    def is_quoted_between_blanks(self, text):
        inner = text.strip(" \t".replace(self.delimiter, ""))
        return self.quotes and len(text) > len(inner) > 1 and inner[0] == inner[-1] == '"'

    def _quoted(self, text, at):
        parts = []
        while True:
            found = self.mark.search(text, at)
            if not found:
                return None, at
            parts.append(text[at:found.start()])
            at, doubled = found.end(), text.startswith('"', found.end())
            if found.group() == '"' and not doubled:
                return "".join(parts), at
            if at == len(text):
                return None, at
            parts.append(text[at])
            at += 1

    def _is_escaped(self, text, at):
        before = text[:at]
        return bool(self.escape) and (len(before) - len(before.rstrip(self.escape))) % 2 == 1

    def _trimmed(self, text):
        while text and text[-1] in self.blanks and not self._is_escaped(text, len(text) - 1):
            text = text[:-1]
        return text


# ---- tables: docs/explanation/tables.md ----

def _mix(z):
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def _draw(key, position):
    return _mix(key + (np.asarray(position, np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


def _normal(bits, truncated):
    u = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    if truncated:
        below = 0.022750131948179207  # the probability of less than -2
        u = below + u * (1 - 2 * below)
    return np.vectorize(statistics.NormalDist().inv_cdf, otypes=[np.float32])(u) if u.size else u.astype(np.float32)


class Table:
    """The rows of a table, by key. A key without a row has its first value, or zeros."""

    def __init__(self, spec, folder):
        self.name, self.dim, self.spec = _text(spec["name"]), spec["dim"], spec
        stem = "".join(c if re.match(r"[A-Za-z0-9_.-]", c) else "".join(f"%{b:02X}" for b in _bytes(c)) for c in self.name)
        part = re.compile(re.escape(stem) + r"(-\d{5}-of-\d{5})?\.safetensors")
        paths = sorted(p for p in folder.glob("*.safetensors") if part.fullmatch(p.name))
        if not paths:
            raise ModelError(f"{folder}: it has no rows of the table {self.name}")
        self.parts = [read_safetensors(path)[0] for path in paths]

    def absent(self, keys):
        """(keys, dim): the values of keys without a row."""
        (kind, options), = self.spec["initializer"].items()
        if kind == "zeros" or self.spec["absent"] == "zeros":
            return np.zeros((len(keys), self.dim), np.float32)
        name = 0xCBF29CE484222325
        for byte in _bytes(self.name):
            name = (name ^ byte) * 0x100000001B3 & M
        with np.errstate(over="ignore"):
            of_table = _draw(_draw(np.array([int(self.spec["seed"])], np.uint64), 7), name)
            bits = _draw(_draw(of_table, _mix(keys))[:, None], np.arange(self.dim)[None])
        f = {option: np.float32(value) for option, value in options.items()}
        if kind in ("ones", "constant"):
            return np.full(bits.shape, f.get("value", 1), np.float32)
        if kind == "random_uniform":
            unit = (bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
            half, middle = (f["maxval"] - f["minval"]) / np.float32(2), (f["maxval"] + f["minval"]) / np.float32(2)
            return (np.float32(2) * unit - np.float32(1)) * half + middle
        if kind not in ("random_normal", "truncated_normal"):
            raise ModelError(f"table {self.name}: the initializer {kind} is not known here")
        return _normal(bits, kind == "truncated_normal") * f["stddev"] + f["mean"]

    def find(self, keys, out=None):
        """Which of the keys, (n) uint64, have a row, (n) bool; their rows go to `out`, (n, dim) float32."""
        found = np.zeros(len(keys), bool)
        for part in self.parts:
            if not len(part["keys"]):
                continue
            at = np.minimum(np.searchsorted(part["keys"], keys), len(part["keys"]) - 1)
            here = part["keys"][at] == keys
            if out is not None:
                out[here] = part["rows"][at[here]].reshape(-1, self.dim)
            found |= here
        return found

    def rows(self, keys):
        """keys: (n) uint64. Returns (n, dim) float32."""
        out = np.empty((len(keys), self.dim), np.float32)
        found = self.find(keys, out)
        if not found.all():
            out[~found] = self.absent(keys[~found])
        return out


def _bag(table, cells, combine):
    """The vector of one column of each row: (rows, dim). cells: for each row a list of (key, weight)."""
    pairs = [(i, key, weight) for i, cell in enumerate(cells) for key, weight in cell if combine == "sum" or weight > 0]
    out = np.zeros((len(cells), table.dim), np.float32)
    if not pairs:
        return out
    row, weight = np.array([p[0] for p in pairs]), np.array([p[2] for p in pairs], np.float32)
    norm = np.ones(len(cells))
    if combine != "sum":
        total = np.bincount(row, weight.astype(np.float64) ** (2 if combine == "sqrtn" else 1), len(cells))
        norm = np.sqrt(total) if combine == "sqrtn" else total
    share = weight / norm[row].astype(np.float32)
    np.add.at(out, row, table.rows(np.array([p[1] for p in pairs], np.uint64)) * share[:, None])
    return out


# ---- layers, by numpy. x: (rows, ...) float32; images are (rows, height, width, channels) ----

def _elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _erf(x):
    return np.vectorize(math.erf, otypes=[np.float32])(x) if x.size else x


def _gelu(x, approximate=False):
    if approximate:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


ACTIVATIONS = {
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 0.5 + 0.5 * np.tanh(x / 2),
    "tanh": lambda x: np.tanh(x),
    "softmax": _softmax,
    "elu": _elu,
    "gelu": _gelu,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.2 * x),
    "selu": lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772),
    "silu": lambda x: x * (0.5 + 0.5 * np.tanh(x / 2)),
    "softplus": lambda x: np.logaddexp(0, x),
}


def _padding(size, stride, span, padding):
    """(before, after) of one axis, as TensorFlow pads."""
    if padding == "valid":
        return 0, 0
    total = max(((size - 1) // stride) * stride + span - size, 0)
    return total // 2, total - total // 2


def _paddings(shape, o, size, dilation=(1, 1)):
    return [_padding(shape[i], o["strides"][i], (size[i] - 1) * dilation[i] + 1, o["padding"]) for i in (0, 1)]


def _windows(x, o, size, fill, dilation=(1, 1)):
    """(rows, height, width, channels, size[0], size[1]): the windows of images."""
    x = np.pad(x, [(0, 0), *_paddings(x.shape[1:3], o, size, dilation), (0, 0)], constant_values=fill)
    span = [(size[i] - 1) * dilation[i] + 1 for i in (0, 1)]
    w = np.lib.stride_tricks.sliding_window_view(x, span, axis=(1, 2))
    return w[:, ::o["strides"][0], ::o["strides"][1], :, ::dilation[0], ::dilation[1]]


class NumpyLayers:
    """A method for each kind of layer: (inputs, options, weights of the layer) -> output."""

    def dense(self, x, o, w):
        return ACTIVATIONS[o["activation"]](x @ w["kernel"] + w.get("bias", np.float32(0)))

    def conv2d(self, x, o, w):
        windows = _windows(x, o, o["kernel_size"], 0, o["dilation_rate"])
        y = np.tensordot(windows, w["kernel"], ([4, 5, 3], [0, 1, 2])) + w.get("bias", np.float32(0))
        return ACTIVATIONS[o["activation"]](y)

    def max_pooling2d(self, x, o, w):
        return _windows(x, o, o["pool_size"], -np.inf).max((4, 5))

    def average_pooling2d(self, x, o, w):
        windows, there = (_windows(a, o, o["pool_size"], 0) for a in (x, np.ones_like(x[:1])))
        return windows.sum((4, 5)) / there.sum((4, 5))

    def global_max_pooling2d(self, x, o, w):
        return x.max((1, 2), keepdims=o["keepdims"])

    def global_average_pooling2d(self, x, o, w):
        return x.mean((1, 2), keepdims=o["keepdims"])

    def batch_normalization(self, x, o, w):
        scale = w.get("gamma", np.float32(1)) / np.sqrt(w["moving_variance"] + np.float32(o["epsilon"]))
        return (x - w["moving_mean"]) * scale + w.get("beta", np.float32(0))

    def layer_normalization(self, x, o, w):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + np.float32(o["epsilon"])) * w.get("gamma", np.float32(1)) + w.get("beta", np.float32(0))

    def embedding(self, x, o, w):
        if not ((x >= 0) & (x < o["input_dim"]) & (x == np.trunc(x))).all():
            raise ModelError(f"an id is not a whole number from 0 to {o['input_dim'] - 1}")
        return w["embeddings"][x.astype(np.int64)]

    def flatten(self, x, o, w):
        return x.reshape(len(x), -1)

    def reshape(self, x, o, w):
        return x.reshape(len(x), *o["target_shape"])

    def dropout(self, x, o, w):
        return x

    def activation(self, x, o, w):
        return ACTIVATIONS[o["activation"]](x)

    def leaky_relu(self, x, o, w):
        return np.where(x > 0, x, np.float32(o["negative_slope"]) * x)

    def elu(self, x, o, w):
        return _elu(x, np.float32(o["alpha"]))

    def gelu(self, x, o, w):
        return _gelu(x, o["approximate"])


def run_layers(layers, x, vectors, compute, concatenate):
    """The output of the last layer. compute(layer, x) is one layer with one input; vectors: of layers over tables."""
    value = {}

    def read(source):
        if "layer" in source:
            return value[source["layer"]]
        ranges = source["features"]
        if ranges is None:
            return x
        return concatenate([x[:, first:first + n] for first, n in ranges])

    for layer in layers:
        inputs = [read(source) for source in layer["inputs"]]
        if "table" in layer:
            out = vectors[layer["name"]]
        elif layer["layer"] == "add":
            out = sum(inputs[1:], inputs[0])
        else:
            out = inputs[0] if len(inputs) == 1 else concatenate(inputs)
            out = out if layer["layer"] == "concatenate" else compute(layer, out)
        value[layer["name"]] = out
    return value[layers[-1]["name"]]


# ---- the model ----

class Model:
    """A model in DIR/model or DIR/best. Public: manifest, encoding (None: rows are arrays), weights, tables, layers."""

    def __init__(self, path):
        if np is None:
            raise ModelError("numpy is missing: pip install numpy, or Debian's package python3-numpy")
        path = pathlib.Path(path)
        self.folder = path if (path / "weights.safetensors").exists() else path / "model"
        weights = self._file("weights.safetensors")
        self.manifest = _read_json(self._file("manifest.json", "run `gradwire train` on its job again: a finished job "
                                                               "trains nothing, and writes the file"))
        if self.manifest.get("format") != FORMAT:
            raise ModelError(f"{self.folder}/manifest.json: format {self.manifest.get('format')}, and this reader knows {FORMAT}")
        self.spec, self.encoding = self.manifest["model"], None
        self.layers, self.data = self.spec["layers"], self.manifest["data"]["options"]
        self.weights = {name: np.array(a) for name, a in read_safetensors(weights)[0].items()}
        if self.manifest["encoding"]:
            self.encoding = Encoding(_read_json(self._file("encoding.json")))
            for c in self.encoding.fields:
                c.below = {"binary_crossentropy": 2, "sparse_categorical_crossentropy": self.layers[-1]["shape"][0]}.get(self.spec["loss"], 0)
        self.tables = {}
        for spec in self.encoding.tables if self.encoding else []:
            table = Table(spec, self.folder / "tables")
            self.tables[table.name] = table

    def _beside(self, name):
        """The path of a file in the folder, or for best/ in ../model; None: in neither."""
        return next((p for p in (self.folder / name, self.folder.parent / "model" / name) if p.exists()), None)

    def _file(self, name, hint="is this DIR/model of a finished job?"):
        found = self._beside(name) if name == "encoding.json" else self.folder / name
        if found is None or not found.exists():
            raise ModelError(f"{self.folder}: it has no {name}: {hint}")
        return found

    def of_layer(self, layer):
        """{"kernel": array, ..}: the weights of a layer."""
        begin = layer["name"] + "/"
        return {name[len(begin):]: w for name, w in self.weights.items() if name.startswith(begin)}

    # ---- rows ----

    def read(self, path):
        """The rows of a csv or libsvm file, one after the other, as the job file describes its format."""
        if self.encoding is None:
            raise ModelError(f"{path}: the rows of this model are arrays (data.format: {self.data['format']}), and read reads text: give "
                             "predict an array, such as numpy.load(FILE)")
        return self._read_libsvm(path) if self.data["format"] == "libsvm" else self._read_csv(path)

    def _check_header(self, path, header):
        for c in self.encoding.fields:
            times = 1 if c.kind in ("label", "weight", "ignore") else header.count(c.name)
            if times == 0:
                raise ModelError(f'{path}: its header does not name "{c.name}"')
            if times > 1:
                raise ModelError(f'{path}: its header names "{c.name}" twice')

    def _read_csv(self, path):
        how, names, here = self.data["header"], [c.name for c in self.encoding.fields], None
        used = {c.name for c in self.encoding.fields if c.kind != "ignore"}
        text, said = CsvText(self.data), Said(path)
        for line, fields, wrong in text.records(path):
            if here is None:  # the first line decides, also if it is skipped: a file has labels in all rows, or in none
                columns = self.encoding.columns_of(len(fields))
                here = fields if how == "names" else [c.name for c in columns]
                if how == "names":
                    columns = [dict(zip(names, self.encoding.fields)).get(name) for name in fields]
                    if not all(text.is_quoted_between_blanks(fields[i]) for i in wrong):  # such a name has its quotes
                        raise ModelError(f"{path}:{line}: text follows the quotes of a name in its header")
                    self._check_header(path, fields)
                header = Header(columns, how, said, line, fields, wrong)
                if how != "none":
                    text.comments.clear()
                    continue
            else:
                header.see_row(line, fields)
            header.see_comments(text)
            if len(fields) != len(here):
                before = "the model's columns are" if here == names else "the lines before it have"
                raise ModelError(f"{path}:{line}: it has {len(fields)} fields, {before} {len(here)}")
            if how != "names" and None in names and len(here) < len(names):
                raise ModelError(f"{path}: a row without its label: give each column of the job a name")
            header.see_label(line, fields)
            if any(here[i] in used for i in wrong):
                raise ModelError(f"{path}:{line}: text follows the quotes of a field, or blanks are around them (data.trim)")
            if any("\n" in fields[i] for i in wrong):
                said(line, "a field in quotes of a column that is not read goes on over the ends of lines, and text follows its closing "
                     "quote, so rows are part of it; if a backslash escapes quotes, use data.escape: backslash; if quotes are text, "
                     "data.quotes: false", 3)
            row = ListRow(fields) if None in here else DictRow(zip(here, fields))
            row.place = f"{path}:{line}"
            yield row
        if here is not None:
            header.see_comments(text)
            header.see_end()

    def _read_libsvm(self, path):
        label, keys = (next(c for c in self.encoding.fields if c.kind == kind) for kind in ("label", "keys"))
        said, empty, between, bare, rows, any_pairs, begin = Said(path), [], [], False, 0, False, ""
        odd, worded = 0, False  # the first line that begins with a word that is no label; and a line with pairs does
        for number, line in enumerate(_lines(path), 1):
            said.see_mark(number, line, 4)
            said.see_nuls(number, line, 4)
            if "\r" in line.rstrip("\r\n"):
                raise ModelError(f"{path}: a CR without LF: its line ends are not LF or CR LF")
            _check_length(path, number, line)
            words = re.findall(r"[^ \t\r\n]+", line.split("#")[0])
            if not words:
                empty += [] if "#" in line else [number]
                continue
            first = [] if ":" in words[0] else [words.pop(0)]  # a pair has a colon, a label has none
            pairs = [self._libsvm_pair(f"{path}:{number}", w) for i, w in enumerate(words) if i or not w.startswith("qid:")]
            for (before, _), (index, _) in zip(pairs, pairs[1:]):
                if index <= before:
                    raise ModelError(f"{path}:{number}: index {index} follows {before}: indices must ascend")
            if len(pairs) > keys.how["max_values"]:
                raise ModelError(f"{path}:{number}: it has more than max_values: {keys.how['max_values']} pairs")
            if first and not NUMBER.fullmatch(first[0].split(",")[0]) and label.is_no_label(first[0]):
                odd, worded = odd or number, worded or bool(pairs)
            begin = begin or line.strip()
            between += empty
            rows, bare, any_pairs, empty = rows + 1, bare or not first, any_pairs or bool(pairs), []
            row = DictRow({**{label.name: word for word in first}, keys.name: pairs})
            row.place = f"{path}:{number}"
            yield row
        if odd and not worded:
            said(odd, "the label of this line is not a number, and no pair follows, so it has the score of a row of zeros: is it a row?", 3)
        if bare and between:
            said(between[0], f"this line{_more(between)} is empty, and is no row; in a file without labels a row of zeros is written 0, as a "
                 "label alone", 3)
        if rows > 1 and not any_pairs:
            warnings.warn(f"{path}: none of its {rows} rows has a pair index:value, so all are rows of zeros; check that it is a file of "
                          f'libsvm, its first row is "{begin:.60}"', stacklevel=2)

    @staticmethod
    def _libsvm_pair(where, word):
        index, _, value = word.partition(":")
        if not re.fullmatch("[0-9]+", index) or int(index) > M or not NUMBER.fullmatch(value):
            raise ModelError(f'{where}: "{word}" is not index:value, with an index from 0 and a finite number')
        try:
            return int(index), float32(float(value))
        except ModelError as e:
            raise ModelError(f'{where}: "{word}": {e}') from None

    def _keys(self, rows, name):
        c = self.encoding.keys[name]
        if self.data["format"] == "libsvm":
            return [self._pairs(self.encoding.field(row, c), c) for row in rows]
        return [self.encoding.cell(row, c) for row in rows]

    @staticmethod
    def _pairs(given, c):
        """The keys and weights of a row of libsvm, from a file or a program."""
        found, pair = [], given
        try:
            for pair in given:
                index, value = pair
                if int(index) != index or not 0 <= int(index) <= M or not math.isfinite(value):
                    raise ValueError
                found.append((c.fold(int(index)), float32(value)))
        except (TypeError, ValueError, OverflowError):
            raise ModelError(f'column "{c.name}": {pair!r:.60} is not (index, value), with a whole index from 0 and a finite number: give a '
                             "list of such pairs, which can be empty") from None
        if len(found) > c.how["max_values"]:
            raise ModelError(f'column "{c.name}": a row has more than max_values: {c.how["max_values"]} pairs')
        return found

    def encode(self, rows, first=0):
        """(x, vectors): the model's input (rows, features), and for each layer over a table its output (rows, width).
        `rows`: dicts by column, or lists in the order of the columns. Without columns: an array of raw rows,
        the first of which has the number `first` in errors."""
        if self.encoding is None:
            return self._array(rows, first) * (np.float32(1) / np.float32(self.spec["divisor"])), {}
        rows = self.encoding.rows(rows)
        if not first:
            self.encoding.see_labels(rows)
        x = np.zeros((len(rows), self.encoding.features), np.float32)
        for c in self.encoding.inputs:
            cells = np.array([self.encoding.cell(row, c) for row in rows], np.float64)
            if isinstance(c, CategoryColumn) and len(rows) >= WARNED_ROWS and not cells.any():
                warnings.warn(f'column "{c.name}": none of {len(rows)} rows has a word of its vocabulary, such as '
                              f'"{next(iter(c.number))}"', stacklevel=3)
            if c.kind == "number" and len(rows) >= WARNED_ROWS and all(c.text(self.encoding.field(row, c)) is None for row in rows):
                warnings.warn(f'column "{c.name}": none of {len(rows)} rows has a number, so all are missing', stacklevel=3)
            if isinstance(c, NumberColumn) or c.how["encode"] == "id":
                x[:, c.feature] = cells
            else:
                (there,) = cells.nonzero()
                x[there, c.feature + cells[there].astype(np.int64) - 1] = 1
        return x, self.look_up(rows)

    def _array(self, rows, first):
        """An array of raw rows as floats, with the checks of a file. first: the number of its first row."""
        shape, divisor = self.spec["input"], self.spec["divisor"]
        try:
            given = np.asarray(rows)
            with np.errstate(over="ignore", invalid="ignore"):
                x = given.astype(np.float32)
        except (TypeError, ValueError) as e:
            raise ModelError(f"the rows are no array of numbers: {e}") from None
        telling = [[n for n in of if n != 1] for of in (given.shape[1:], shape)]  # a grey image equals one with one channel
        if x.size and telling[0] not in (telling[1], [math.prod(shape)]) or not given.ndim:
            raise ModelError(f"the array has rows of shape {list(given.shape[1:])}, model.input.shape is {shape}"
                             + "; one row is array[None]" * (list(given.shape) == shape))
        bad = ~np.isfinite(x) | (np.ma.getmaskarray(rows) if np.ma.is_masked(rows) else False)
        if bad.any():
            at = np.argwhere(bad)[0].tolist()
            raise ModelError(f"the number at {[at[0] + first, *at[1:]]} of the array is masked, not finite, or beyond 32-bit floats")
        most = abs(x).max(initial=0)
        if given.dtype.kind in "fiub" and not first and len(x) >= WARNED_ROWS and 0 < most <= 1 and divisor >= 10:
            kind = "floats" if given.dtype.kind == "f" else "integers"
            warnings.warn(f"the array has {kind} up to {most:.3g}, and data.scale: {divisor:g} divides them again; give the numbers as "
                          "they were before they were scaled", stacklevel=4)
        return x.reshape(len(x), *shape)

    def look_up(self, rows):
        """{layer: (rows, width)}: the output of each layer that looks up rows of a table."""
        vectors, keys = {}, {}
        for lookup in self.encoding.lookups:
            layer, table = _text(lookup["layer"]), self.tables[_text(lookup["table"])]
            for name in map(_text, lookup["columns"]):
                if name not in keys:
                    keys[name] = self._keys(rows, name)
                    self._see_keys(name, table, keys[name])
            bags = [_bag(table, keys[_text(name)], lookup["combine"]) for name in lookup["columns"]]
            out = np.concatenate(bags, 1) if lookup["output"] == "concat" else sum(bags[1:], bags[0])
            vectors[layer] = out + self.weights[layer + "/bias"] if lookup["bias"] else out
        return vectors

    def _see_keys(self, name, table, cells):
        """Warn of keys that training did not see. A table with admission lacks some that it did see."""
        keys = np.array([key for cell in cells for key, _ in cell], np.uint64)
        if len(keys) < WARNED_ROWS or table.spec["absent"] == "zeros":
            return
        found = table.find(keys)
        missed, enough = np.unique(keys[~found]), 1 if self.encoding.keys[name].kind == "cross" else len(keys) / 100
        if len(missed) >= WARNED_ROWS and found.sum() < enough:
            warnings.warn(f'column "{name}": of {len(keys)} lookups in table {table.name}, {found.sum()} find a row: the model has not '
                          f"learned keys such as {missed[0]}. Check that the values are written as in training (case, blanks, prefixes)",
                          stacklevel=4)

    # ---- scores ----

    def score(self, x, vectors=None):
        """The output of the last layer: (rows, outputs). x, vectors: as `encode` returns them."""
        layers, vectors = NumpyLayers(), vectors or {}

        def compute(layer, x):
            try:
                return getattr(layers, layer["layer"])(x, layer["options"], self.of_layer(layer)).astype(np.float32)
            except AttributeError:
                raise ModelError(f"the layer {layer['layer']} is not known here") from None

        return run_layers(self.layers, x, vectors, compute, lambda parts: np.concatenate(parts, -1))

    def predict(self, rows, batch=256):
        """`score` of raw rows, a batch at a time."""
        rows, out = rows if self.encoding is None else self.encoding.rows(rows), []
        for i in range(0, len(rows), batch):
            out.append(self.score(*self.encode(rows[i:i + batch], i)))
        return np.concatenate(out) if out else np.zeros((0, self.layers[-1]["shape"][0]), np.float32)

    def torch_module(self):
        """A torch.nn.Module of the same layers, with the weights as parameters: module(x, vectors) as `score`."""
        return _torch_module(self)


def load(path):
    """The model in DIR/model, DIR/best, or in model/ below `path`."""
    return Model(path)


# ---- torch ----

def _torch_module(model):
    import torch
    from torch import nn
    F = nn.functional

    activations = {"linear": lambda x: x, "relu": F.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
                   "softmax": lambda x: torch.softmax(x, -1), "elu": F.elu, "gelu": F.gelu, "selu": F.selu, "silu": F.silu,
                   "leaky_relu": lambda x: F.leaky_relu(x, 0.2), "softplus": F.softplus}

    def images(x, fill, o, size, dilation=(1, 1)):
        """(rows, channels, height, width) in memory as (rows, height, width, channels): torch's channels_last."""
        (top, bottom), (left, right) = _paddings(x.shape[1:3], o, size, dilation)
        return F.pad(x.permute(0, 3, 1, 2), (left, right, top, bottom), value=fill)

    class Layers:
        def dense(self, x, o, w):
            y = x @ w["kernel"]
            return activations[o["activation"]](y + w["bias"] if "bias" in w else y)

        def conv2d(self, x, o, w):
            kernel = w["kernel"].permute(3, 2, 0, 1)
            y = F.conv2d(images(x, 0.0, o, o["kernel_size"], o["dilation_rate"]), kernel, w.get("bias"),
                         tuple(o["strides"]), 0, tuple(o["dilation_rate"]))
            return activations[o["activation"]](y.permute(0, 2, 3, 1))

        def max_pooling2d(self, x, o, w):
            y = F.max_pool2d(images(x, -math.inf, o, o["pool_size"]), tuple(o["pool_size"]), tuple(o["strides"]))
            return y.permute(0, 2, 3, 1)

        def average_pooling2d(self, x, o, w):
            y, there = (F.avg_pool2d(images(a, 0.0, o, o["pool_size"]), tuple(o["pool_size"]), tuple(o["strides"]))
                        for a in (x, torch.ones_like(x[:1])))
            return (y / there).permute(0, 2, 3, 1)

        def global_max_pooling2d(self, x, o, w):
            return x.amax((1, 2), keepdim=o["keepdims"])

        def global_average_pooling2d(self, x, o, w):
            return x.mean((1, 2), keepdim=o["keepdims"])

        def batch_normalization(self, x, o, w):
            y = F.batch_norm(x.reshape(-1, x.shape[-1]), w["moving_mean"], w["moving_variance"], w.get("gamma"), w.get("beta"),
                             training=module.training and o.get("trainable", True), momentum=1 - o["momentum"], eps=o["epsilon"])
            return y.reshape(x.shape)

        def layer_normalization(self, x, o, w):
            return F.layer_norm(x, x.shape[-1:], w.get("gamma"), w.get("beta"), o["epsilon"])

        def embedding(self, x, o, w):
            return F.embedding(x.long(), w["embeddings"])

        def flatten(self, x, o, w):
            return x.reshape(len(x), -1)

        def reshape(self, x, o, w):
            return x.reshape(len(x), *o["target_shape"])

        def dropout(self, x, o, w):
            return F.dropout(x, o["rate"], module.training)

        def activation(self, x, o, w):
            return activations[o["activation"]](x)

        def leaky_relu(self, x, o, w):
            return F.leaky_relu(x, o["negative_slope"])

        def elu(self, x, o, w):
            return F.elu(x, o["alpha"])

        def gelu(self, x, o, w):
            return F.gelu(x, approximate="tanh" if o["approximate"] else "none")

    def holder(layer):
        """The weights of one layer, under their own names."""
        held = nn.Module()
        for name, w in model.of_layer(layer).items():
            tensor = torch.from_numpy(np.array(w))
            if name.startswith("moving_"):
                held.register_buffer(name, tensor)
            else:
                held.register_parameter(name, nn.Parameter(tensor, layer["options"].get("trainable", True)))
        return held

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(holder(layer) for layer in model.layers)  # in the order of model.layers

        def weights_of(self, layer):
            held = self.layers[model.layers.index(layer)]
            return dict(held.named_parameters()) | dict(held.named_buffers())

        def forward(self, x, vectors=None):
            """x, vectors: tensors, or the arrays that Model.encode returns."""
            x, vectors = torch.as_tensor(x), {name: torch.as_tensor(v) for name, v in (vectors or {}).items()}
            layers = Layers()
            return run_layers(model.layers, x, vectors,
                              lambda layer, x: getattr(layers, layer["layer"])(x, layer["options"], self.weights_of(layer)),
                              lambda parts: torch.cat(parts, -1))

    module = Module()
    return module.eval()
