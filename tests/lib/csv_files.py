"""Files of csv from a seed, in all quotes, escapes, delimiters and line ends, and what Python's csv module reads in them."""
import csv
import io
import json
import random
import subprocess

DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|", "space": " "}
VALUES = ["", "a", "red", '12" pipe', 'say "hi"', "a,b", "x;y", "p|q", "t\tt", " lead", "trail ", "two\nlines", "cr\rin", "crlf\r\nin",
          '"', '""', "\\", "\\N", "C:\\temp", "\xe9", "\xff", "0", "it's", "#", "long text " * 12, '"a"', 'a"b"c', "end\\", ",", "\n"]
WRONG = ["text after", "open", "cr", "more", "fewer"]


JOB = "model: {{input: {{shape: auto}}, layers: [dense: 1], loss: mse}}\noptimizer: sgd\nworker: {{threads: 2}}\ndata: {}\n"


def read(build, folder, data, deadline_s):
    """The answer of tests/interop/csv_read.c to each section data."""
    paths = []
    for i, section in enumerate(data):
        paths.append(folder / f"{i}.yaml")
        paths[-1].write_text(JOB.format(section))
    got = subprocess.run([build / "tests/interop_csv_read"], input="\n".join(map(str, paths)), capture_output=True, text=True,
                         check=True, timeout=deadline_s)
    return [json.loads(line) for line in got.stdout.splitlines()]


class File:
    """`text`: bytes; `job`: a job that reads them from `path`; `wrong`: what no well-formed csv has, by name.

    options: attributes that are not drawn, with three columns; only: the same, with columns that are drawn."""

    values, codec = VALUES, "latin-1"

    def __init__(self, seed, rows=None, wrong=True, options=None, only=None):
        r = self.random = random.Random(seed)
        self.delimiter_name = r.choice(list(DELIMITERS))
        self.delimiter = DELIMITERS[self.delimiter_name]
        self.quotes, self.escape = r.random() < 0.85, r.random() < 0.4
        self.header = r.choice(["none", "skip", "names"])
        for name, value in (options or only or {}).items():
            setattr(self, name, value)
        self.delimiter = DELIMITERS[self.delimiter_name]
        self.columns = [f"c{i}" for i in range(r.randrange(1, 6))] if not options else ["c0", "c1", "c2"]
        self.listed = [c for c in self.columns if r.random() < 0.6] or self.columns[:1]
        if options:
            self.listed = self.columns[:2]
        self.ends = (only or {}).get("ends") or r.choice([["\n"], ["\r\n"], ["\n", "\r\n"]])
        self.rate = 0.03 if wrong and r.random() < 0.4 else 0
        self.wrong = set()
        rows = r.choice([1, 3, 20, 60]) if rows is None else rows
        parts = []
        mark = b"\xef\xbb\xbf" if r.random() < 0.1 else b""
        if self.header != "none":
            parts.append(self.delimiter.join([*self.columns, "label"]) + self.end())
        for number in range(rows):
            parts.append(self.row(number))
            parts.append(r.choice(["\n", "\r\n"]) if r.random() < 0.02 else "")
        text = "".join(parts)
        cut = r.random() < 0.2 and text[-1:] == "\n" and text[-2:-1].isdigit()
        self.text = mark + (text.rstrip("\r\n") if cut else text).encode(self.codec)

    def end(self):
        return self.random.choice(self.ends)

    def is_plain(self, value):
        """The value may be written as it is."""
        special = [self.delimiter, "\n", "\r", *(["\\"] if self.escape else [])]
        blanks = value[:1] in (" ", "\t") or value[-1:] in (" ", "\t")
        quote = self.quotes and (value.startswith('"') or (blanks and '"' in value))
        return not quote and not any(c in value for c in special)

    def field(self):
        """A value in one of the spellings that it can have."""
        while True:
            value, kind = self.random.choice(self.values), self.random.random()
            if kind < 0.4 and self.is_plain(value):
                return value
            if self.quotes and kind < 0.8:
                inner = value.replace("\\", "\\\\") if self.escape else value
                quote = '\\"' if self.escape and self.random.random() < 0.5 else '""'
                return f'"{inner.replace(chr(34), quote)}"'
            if self.escape and value != "\\N":  # alone and not in quotes it keeps its backslash
                return "".join("\\" + c if c in f'"\\\n\r{self.delimiter}' or self.random.random() < 0.1 else c for c in value)
            if self.is_plain(value):
                return value

    def row(self, number):
        fields = [self.field() for _ in self.columns] + [str(number)]
        if self.random.random() < self.rate:
            kind = self.random.choice(WRONG if self.quotes else WRONG[2:])
            self.wrong.add(kind)
            at = self.random.randrange(len(self.columns))
            if kind in ("more", "fewer"):
                fields = fields[:at] + fields[at + 1:] if kind == "fewer" else [*fields[:at], self.field(), *fields[at:]]
            else:
                fields[at] = {"text after": '"a" b', "open": '"a', "cr": "a\rb"}[kind]
        return self.delimiter.join(fields) + self.end()

    def data(self, path, bad_rows="stop"):
        """The section data of a job."""
        entries = [f"category: {{name: {c}, encode: id}}" if c in self.listed else "ignore" for c in self.columns]
        if self.header == "names":
            entries = [e for e in entries if e != "ignore"]
        columns = ", ".join([*entries, "label: label"])
        bad = f"bad_rows: {bad_rows}, bad_rows_max: 1000000, " if bad_rows == "skip" else ""
        return (f"{{format: csv, train: '{path}', header: {self.header}, delimiter: {self.delimiter_name}, "
                f"quotes: {str(self.quotes).lower()}, escape: {'backslash' if self.escape else 'none'}, missing: no-such, "
                f"{bad}columns: [{columns}]}}")

    def dialect(self):
        return {"delimiter": self.delimiter, "quoting": csv.QUOTE_MINIMAL if self.quotes else csv.QUOTE_NONE,
                "escapechar": "\\" if self.escape else None}

    def rows(self):
        """The rows of Python's csv: lists of fields, without the header."""
        text = self.text.removeprefix(b"\xef\xbb\xbf").decode(self.codec)
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), **self.dialect()) if row]
        return rows[self.header != "none":]

    def of_row(self, row):
        """The listed fields and the label of such a row; None: it has another number of fields."""
        if len(row) != len(self.columns) + 1:
            return None
        return [row[self.columns.index(c)] for c in self.listed] + [row[-1]]
