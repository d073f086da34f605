"""Checkpoints as their files have them (proto/README.md, "Checkpoints"; proto/checkpoint.proto): frames unpacked."""
import ctypes
import ctypes.util
import struct
import zlib

MAGIC_BYTES = 8
TAIL = struct.Struct("<II8s")  # bytes of the head, its CRC-32, the magic again
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

CUT, GENERATION, UUID, DUPLICATES, SECONDS, RESTARTS, FILES, JOURNAL = 1, 2, 3, 8, 16, 17, 20, 128
OF_THE_RUN = {CUT, GENERATION, UUID, DUPLICATES, SECONDS, RESTARTS, FILES, JOURNAL}  # fields of a manifest that two equal runs differ in


class Broken(Exception):
    """A file that is no part of a checkpoint, and why."""


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def fields(data):
    """{number: [value ..]} of a protobuf message; a varint as int, everything else as its bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = varint(data, at)
        else:
            if kind == BYTES:
                length, at = varint(data, at)
            else:
                length = {FIXED64: 8, FIXED32: 4}[kind]
            value, at = data[at:at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def numbers(packed):
    found, at = [], 0
    while at < len(packed):
        value, at = varint(packed, at)
        found.append(value)
    return found


def head(path, data):
    length, crc, magic = TAIL.unpack(data[-TAIL.size:])
    text = data[len(data) - TAIL.size - length:-TAIL.size]
    if magic != data[:MAGIC_BYTES] or zlib.crc32(text) != crc:
        raise Broken(f"{path}: its head or its tail is damaged")
    return fields(text)


def zstd():
    library = ctypes.CDLL(ctypes.util.find_library("zstd"))
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return library


def unpack(path, frame, floats):
    out = ctypes.create_string_buffer(4 * floats)
    if zstd().ZSTD_decompress(out, 4 * floats, frame, len(frame)) != 4 * floats:
        raise Broken(f"{path}: a frame does not unpack to {floats} floats")
    return out.raw


def shard_blocks(path):
    """(first element, [bytes of the weights, of slot 0, ..]) of a shard's file."""
    data = path.read_bytes()
    h = head(path, data)
    first, elems, slots, most = (h.get(number, [0])[0] for number in (4, 5, 6, 7))
    sizes, crcs = numbers(h[8][0]), struct.unpack(f"<{len(h[9][0]) // 4}I", h[9][0])
    blocks, at, frames = [], MAGIC_BYTES, iter(zip(sizes, crcs, strict=True))
    for _ in range(1 + slots):
        block = []
        for begin in range(0, elems, most):
            size, crc = next(frames)
            frame, at = data[at:at + size], at + size
            if zlib.crc32(frame) != crc:
                raise Broken(f"{path}: a frame is damaged")
            block.append(unpack(path, frame, min(most, elems - begin)))
        blocks.append(b"".join(block))
    return first, blocks


def read(folder):
    """The manifest's fields that do not depend on the run, and the flat blocks: weights, slot 0, .. as bytes."""
    manifest = head(folder / "manifest.gw", (folder / "manifest.gw").read_bytes())
    names = [fields(file)[1][0].decode() for file in manifest[FILES]]
    shards = sorted(shard_blocks(folder / name) for name in names)
    blocks = [b"".join(parts) for parts in zip(*(blocks for _, blocks in shards), strict=True)]
    return {number: value for number, value in manifest.items() if number not in OF_THE_RUN}, blocks


def newest(out):
    return max((path.parent for path in (out / "checkpoints").glob("cut-*/manifest.gw")), key=lambda folder: folder.name)


def differences(mine, theirs):
    """The differences between two cuts that read() returned; empty if they are equal."""
    found = [f"field {number} of the manifest (proto/checkpoint.proto)" for number in sorted(mine[0].keys() | theirs[0].keys())
             if mine[0].get(number) != theirs[0].get(number)]
    if len(mine[1]) != len(theirs[1]):
        return found + [f"{len(mine[1]) - 1} and {len(theirs[1]) - 1} slots"]
    for i, (a, b) in enumerate(zip(mine[1], theirs[1])):
        if a != b:
            at = next((k for k in range(0, min(len(a), len(b)), 4) if a[k:k + 4] != b[k:k + 4]), min(len(a), len(b)))
            found.append(f"{f'slot {i - 1}' if i else 'weights'} from element {at // 4}")
    return found
