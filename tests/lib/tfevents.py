"""Reads TensorBoard's event files by their published formats alone (TFRecord, Event, Summary): nothing of what writes them,
and nothing of TensorFlow, is used."""
import pathlib
import struct


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    """The records of a file; what does not check is an error."""
    data, at = pathlib.Path(path).read_bytes(), 0
    while at < len(data):
        size, crc = struct.unpack_from("<QI", data, at)
        assert masked_crc(data[at:at + 8]) == crc, f"{path}: length at {at}"
        body = data[at + 12:at + 12 + size]
        assert len(body) == size and masked_crc(body) == struct.unpack_from("<I", data, at + 12 + size)[0], f"{path}: {at}"
        yield body
        at += 16 + size


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """{number: [values]} of a protobuf message; values are ints, raw 4 or 8 bytes, or bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size = 8 if kind == 1 else 4 if kind == 5 else None
            if size is None:
                assert kind == 2, kind
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def first(message, number, default=b""):
    return message.get(number, [default])[0]


def doubles(data):
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def hyperparameters(run):
    """{name: value} of the session in this folder."""
    found = {}
    for entry in fields(run.plugins["hparams"]["_hparams_/session_start_info"][3][0])[1]:
        named = fields(entry)
        value = fields(named[2][0])
        found[named[1][0].decode()] = doubles(value[2][0])[0] if 2 in value else value[3][0].decode()
    return found


class Run:
    """The contents of one folder, with restarts obeyed: scalars and histograms are {tag: {step: value}}."""

    def __init__(self, folder):
        self.scalars, self.histograms, self.texts, self.plugins = {}, {}, {}, {}
        self.files = sorted(pathlib.Path(folder).glob("events.out.tfevents.*"))
        self.twice = []  # (tag, step) that were written twice with no restart between
        for path in self.files:
            for i, record in enumerate(records(path)):
                event = fields(record)
                assert (first(event, 3) == b"brain.Event:2") == (i == 0), path
                self._take(event)

    def _take(self, event):
        step = first(event, 2, 0)
        if 7 in event and first(fields(event[7][0]), 1, 0) == 1:
            for by_tag in (self.scalars, self.histograms):
                for points in by_tag.values():
                    for old in [s for s in points if s >= step]:
                        del points[old]
        for value in fields(first(event, 5)).get(1, []):
            self._value(fields(value), step)

    def _value(self, value, step):
        tag = first(value, 1).decode()
        plugin = fields(first(fields(first(value, 9)), 1))
        if 2 in value:
            self._put(self.scalars, tag, step, struct.unpack("<f", value[2][0])[0])
        elif 5 in value:
            h = fields(value[5][0])
            self._put(self.histograms, tag, step,
                      {"min": doubles(first(h, 1, bytes(8)))[0], "max": doubles(first(h, 2, bytes(8)))[0],
                       "num": doubles(first(h, 3))[0], "limits": doubles(first(h, 6)), "counts": doubles(first(h, 7))})
        elif first(plugin, 1) == b"text":
            self.texts[tag] = first(fields(value[8][0]), 8).decode()
        else:
            told = self.plugins.setdefault(first(plugin, 1).decode(), {})
            told.setdefault(tag, fields(first(plugin, 2)))  # TensorBoard keeps the first of each

    def _put(self, where, tag, step, value):
        points = where.setdefault(tag, {})
        if step in points:
            self.twice.append((tag, step))
        points[step] = value
