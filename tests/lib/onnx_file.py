"""Writes small ONNX files, without any package: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto."""
import struct


def varint(n):
    out = b""
    n &= (1 << 64) - 1
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def text(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    if isinstance(value, float):
        return text(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return text(1, name) + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return text(1, name) + text(4, value) + number(20, 3)
    return text(1, name) + b"".join(number(8, n) for n in value) + number(20, 7)


class Graph:
    """One input, float32 (n, *shape)."""

    def __init__(self, shape, units):
        self.input, self.shape, self.units, self.nodes, self.tensors = "x", shape, units, [], []
        self.file, self.data, self.keys, self.opset = None, b"", {}, 17

    def into(self, file, **keys):
        """The tensors that follow go to another file, whose bytes are in self.data. keys: as {"length": None} leaves out a key,
        or replaces its value."""
        self.file, self.keys = file, keys

    def elsewhere(self, raw):
        at = len(self.data) + -len(self.data) % 64
        self.data += bytes(at - len(self.data)) + raw
        keys = {"location": self.file, "offset": at, "length": len(raw), **self.keys}
        return b"".join(text(13, text(1, k) + text(2, str(v))) for k, v in keys.items() if v is not None) + number(14, 1)

    def tensor(self, name, shape, values):
        dims = b"".join(number(1, n) for n in shape)
        raw = struct.pack(f"<{len(values)}f", *values)
        self.tensors.append(dims + number(2, 1) + text(8, name) + (text(9, raw) if self.file is None else self.elsewhere(raw)))
        return name

    def integers(self, name, values):
        self.tensors.append(number(1, len(values)) + number(2, 7) + text(8, name) + text(9, struct.pack(f"<{len(values)}q", *values)))
        return name

    def flag(self, name, on):
        self.tensors.append(number(2, 9) + text(8, name) + text(9, bytes([on])))
        return name

    def node(self, op, *inputs, name="", domain="", **attributes):
        out = f"value_{len(self.nodes)}"
        self.nodes.append(b"".join(text(1, i) for i in inputs) + text(2, out) + text(3, name) + text(4, op) +
                          b"".join(text(5, attribute(k, v)) for k, v in attributes.items()) + text(7, domain))
        return out

    @staticmethod
    def value(name, dims):
        shape = text(1, text(2, "n")) + b"".join(text(1, number(1, n)) for n in dims)
        return text(1, name) + text(2, text(1, number(1, 1) + text(2, shape)))

    def bytes(self, output, out=None):
        graph = (b"".join(text(1, n) for n in self.nodes) + text(2, "g") + b"".join(text(5, t) for t in self.tensors) +
                 text(11, self.value("x", self.shape)) + text(12, self.value(output, [self.units] if out is None else out)))
        return number(1, 8) + text(7, graph) + text(8, text(1, "") + number(2, self.opset))
