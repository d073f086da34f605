"""Files of csv from a seed, whose numbers float32 cannot tell apart or a double just can: times, counters, prices, 64-bit integers."""
import random

SHARE_MISSING = 0.06
KINDS = {
    "seconds": lambda r: str(1_700_000_000 + r.randrange(500)),
    "milliseconds": lambda r: str(1_700_000_000_000 + r.randrange(500_000)),
    "microseconds": lambda r: str(1_700_000_000_000_000 + r.randrange(10**9)),
    "nanoseconds": lambda r: str(1_700_000_000_000_000_000 + r.randrange(10**12)),
    "above 2^24": lambda r: str(2**24 + r.randrange(100)),
    "above 2^53": lambda r: str(2**53 + r.randrange(100)),
    "above 2^63": lambda r: str(2**63 + r.randrange(10**r.randrange(1, 19))),
    "int64": lambda r: str(r.randrange(-2**63, 2**63)),
    "cents": lambda r: f"{r.randrange(10**11, 10**11 + 5000) / 100:.2f}",
    "decimals": lambda r: f"{r.uniform(-1000, 1000):.{r.randrange(18)}f}",
    "powers": lambda r: f"{r.uniform(-1, 1) * 10**r.randrange(-30, 30):.{r.randrange(1, 20)}e}",
    "small": lambda r: str(r.randrange(-50, 200)),
    "counts": lambda r: str(int(10**r.uniform(0, 9))),
}
HOWS = ["none", "standard", "min_max", "log1p", "log2", "borders", "quantiles", "log_squared"]


class NumberColumn:
    """`how`: its scale or buckets; `missing`: mean, a value as text, or refuse; `texts`: the fields, "" for a missing number."""

    def __init__(self, r, name, rows):
        draw = KINDS[r.choice(list(KINDS))]
        self.name, self.how, self.missing = name, r.choice(HOWS), r.choice(["mean", "refuse", "value"])
        self.missing = draw(r) if self.missing == "value" else self.missing
        share = 0 if self.missing == "refuse" else SHARE_MISSING
        self.texts = [draw(r)] + ["" if r.random() < share else draw(r) for _ in range(rows - 1)]
        self.borders = sorted({draw(r) for _ in range(r.randrange(1, 6))}, key=float)
        self.borders = [b for i, b in enumerate(self.borders) if i == 0 or float(b) > float(self.borders[i - 1])]
        self.quantiles = r.randrange(2, 20)

    def line(self):
        if self.how in ("borders", "quantiles", "log_squared"):
            option = {"borders": f"{{borders: [{', '.join(self.borders)}]}}", "quantiles": f"{{quantiles: {self.quantiles}}}"}
            how = f"buckets: {option.get(self.how, self.how)}, encode: id"
        else:
            how = f"scale: {self.how}"
        missing = self.missing if self.missing in ("mean", "refuse") else f"{{value: {self.missing}}}"
        missing = "" if self.how in ("borders", "quantiles", "log_squared") and missing == "mean" else f", missing: {missing}"
        return f"number: {{name: {self.name}, {how}{missing}}}"


class NumberFile:
    """`columns`; `text`: the bytes of the file, a label at the end of each row; data(path): the section data of a job."""

    def __init__(self, seed):
        r = random.Random(seed)
        self.rows = r.choice([1, 2, 10, 60, 200])
        self.columns = [NumberColumn(r, f"n{i}", self.rows) for i in range(r.randrange(1, 6))]
        lines = [",".join([*fields, str(i % 2)]) for i, fields in enumerate(self.fields())]
        self.text = ("\n".join(lines) + "\n").encode()

    def fields(self):
        return list(zip(*[c.texts for c in self.columns]))

    def data(self, path):
        columns = ", ".join([*[c.line() for c in self.columns], "label: y"])
        return f"{{format: csv, train: '{path}', missing: [''], columns: [{columns}]}}"
