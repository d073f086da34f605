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

    def tensor(self, name, shape, values):
        dims = b"".join(number(1, n) for n in shape)
        self.tensors.append(dims + number(2, 1) + text(8, name) + text(9, struct.pack(f"<{len(values)}f", *values)))
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

    def bytes(self, output):
        graph = (b"".join(text(1, n) for n in self.nodes) + text(2, "g") + b"".join(text(5, t) for t in self.tensors) +
                 text(11, self.value("x", self.shape)) + text(12, self.value(output, [self.units])))
        return number(1, 8) + text(7, graph) + text(8, text(1, "") + number(2, 17))
