#!/usr/bin/env python3
"""gradwire-hdf5 with damaged files: it refuses them or reads something, and it ends. A crash of the library is its own affair
(unit/hdf5 has what its caller makes of it), but here it must not hang, or leave more than it was given.

labels: short
The damage comes from a seed that is printed; HOSTILE_SEED replays one. HDF5_MUTATIONS: how many files."""
import ctypes
import io
import itertools
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import unittest
import zipfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, MODEL, ROOT, SANITIZED, SHORT, Case  # noqa: E402

HDF5 = BUILD / "hdf5" / "hdf5"
SEED = int(os.environ.get("HOSTILE_SEED", random.SystemRandom().randrange(1 << 32)))
MUTATIONS = int(os.environ.get("HDF5_MUTATIONS", 40 if SHORT or SANITIZED else 200))
LIMIT_S = 100
EDGES = (0, 1, 0x7F, 0x80, 0xFF)


def safetensors(tensors):
    """The bytes of a file with these shapes, with float32 values 0, 1, 2, ..."""
    header, data = {}, b""
    for name, shape in tensors.items():
        n = 1
        for dim in shape:
            n *= dim
        begin = len(data)
        data += struct.pack(f"<{n}f", *range(n))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def damaged(d, whole):
    """The file with some bytes changed, cut out or put in, or without its end."""
    data = bytearray(whole)
    for _ in range(d.choice((1, 1, 2, 8, 64))):
        at, kind = d.randrange(len(data)), d.randrange(8)
        if kind < 4:
            data[at] = d.choice(EDGES) if kind < 2 else d.randrange(256)
        elif kind == 4:
            data[at:at + 8] = struct.pack("<Q", d.choice((0, 1, 1 << 31, 1 << 40, (1 << 64) - 1, len(data), at)))
        elif kind == 5:
            data[at:at + d.randrange(64)] = b""
        elif kind == 6:
            data[at:at] = bytes(d.randrange(64))
        else:
            other = d.randrange(len(data))
            data[at:at + 32] = data[other:other + 32]
        data = data or bytearray(1)
    return bytes(data[:d.randrange(len(data))] if d.randrange(16) == 0 else data)


class Hdf5Test(Case):
    def run_it(self, *words):
        return subprocess.run([HDF5, *words], capture_output=True, text=True, timeout=LIMIT_S, errors="replace")

    def made(self, tensors):
        """Returns the bytes of an HDF5 file with these tensors."""
        source, file = self.tmp / "made.safetensors", self.tmp / "made.h5"
        source.write_bytes(safetensors(tensors))
        done = self.run_it("write", source, file)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return file.read_bytes()

    def test_what_it_wrote_it_reads_and_the_bytes_have_no_time(self):
        tensors = {"layers/dense/vars/0": [3, 4], "layers/dense/vars/1": [4], "scalar": []}
        whole = self.made(tensors)
        self.assertEqual(whole, self.made(tensors))
        done = self.run_it("read", self.tmp / "made.h5", self.tmp / "out")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        data = (self.tmp / "out").read_bytes()
        header = json.loads(data[8:8 + struct.unpack_from("<Q", data)[0]])
        self.assertEqual({name: t["shape"] for name, t in header.items()}, tensors)

    def test_names_that_no_file_has_are_refused(self):
        for words in (["read", self.tmp / "none", self.tmp / "out"], ["write", self.tmp / "none", self.tmp / "out"],
                      ["read", "/dev/zero", self.tmp / "out"], ["read", self.tmp, self.tmp / "out"], ["copy", "a", "b"], []):
            done = self.run_it(*words)
            self.assertEqual(done.returncode, 1 if words[1:2] in (["/dev/zero"], [self.tmp]) else 2, done.stderr)
            self.assertTrue(done.stderr)
        self.assertFalse((self.tmp / "out").exists())

    def test_damaged_files_end_it_soon_with_a_reason_or_a_whole_result(self):
        d, ends = random.Random(SEED), {}
        print(f"HOSTILE_SEED={SEED}", end=" ", flush=True)
        wholes = [self.made({"layers/dense/vars/0": [3, 4], "layers/dense/vars/1": [4]}),
                  self.made({f"layers/dense_{i}/vars/{k}": [8, 8, 2][k:] for i in range(30) for k in range(3)})]
        for _ in range(MUTATIONS):
            (self.tmp / "bad.h5").write_bytes(damaged(d, d.choice(wholes)))
            done = self.run_it("read", self.tmp / "bad.h5", self.tmp / "out")
            ends[done.returncode] = ends.get(done.returncode, 0) + 1
            if done.returncode == 0:
                data = (self.tmp / "out").read_bytes()
                header = json.loads(data[8:8 + struct.unpack_from("<Q", data)[0]])
                self.assertEqual(sum(t["data_offsets"][1] - t["data_offsets"][0] for t in header.values()),
                                 len(data) - 8 - struct.unpack_from("<Q", data)[0])
            elif done.returncode > 0:
                self.assertIn(done.returncode, (1, 2, 138), done.stderr)
                self.assertIn("bad.h5", done.stderr)
        print(ends, end=" ", flush=True)
        self.assertGreater(ends.get(2, 0) + ends.get(1, 0), MUTATIONS // 8)

    def test_a_damaged_archive_is_an_error_that_names_it_and_nothing_is_written(self):
        d, ends = random.Random(SEED), {}
        print(f"HOSTILE_SEED={SEED}", end=" ", flush=True)
        whole = (ROOT / "tests/data/keras/small.keras").read_bytes()
        with zipfile.ZipFile(io.BytesIO(whole)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        for i in range(MUTATIONS // 2):
            bad, out = self.tmp / "bad.keras", self.tmp / f"out-{i}"
            name = d.choice(("", "config.json", "model.weights.h5", "model.weights.h5"))
            if name:
                with zipfile.ZipFile(bad, "w") as archive:
                    for member, data in members.items():
                        archive.writestr(member, damaged(d, data) if member == name else data)
            else:
                bad.write_bytes(damaged(d, whole))
            done = subprocess.run([MODEL, "import", bad, "--output", out], capture_output=True, text=True, timeout=LIMIT_S)
            ends[done.returncode] = ends.get(done.returncode, 0) + 1
            self.assertIn(done.returncode, (0, 1, 2, 138), done.stderr)
            if done.returncode:
                self.assertIn("bad.keras", done.stderr)
                self.assertFalse(out.exists())
        print(ends, end=" ", flush=True)
        self.assertGreater(ends.get(2, 0) + ends.get(1, 0), MUTATIONS // 16)

    def test_an_archive_that_unpacks_to_much_more_than_its_size_is_refused(self):
        with zipfile.ZipFile(ROOT / "tests/data/keras/small.keras") as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        for name, mib, why in (("model.weights.h5", 72, "model.weights.h5 has more bytes than an archive of this size"),
                               ("config.json", 65, "config.json is larger than 65536 KiB"),
                               ("metadata.json", 1, "metadata.json is larger than 64 KiB")):
            with self.subTest(name):
                bad, out = self.tmp / "bomb.keras", self.tmp / "out"
                with zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as archive:
                    for member, data in members.items():
                        archive.writestr(member, b" " * (mib << 20) if member == name else data)
                self.assertLess(bad.stat().st_size, 1 << 20)
                done = subprocess.run([MODEL, "import", bad, "--output", out], capture_output=True, text=True, timeout=LIMIT_S)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"bomb.keras: {why}", done.stderr)
                self.assertFalse(out.exists())


def deflated(mib, times=1):
    """So many MiB of zeros, compressed so often; made in pieces, because a child begins with the memory of this process."""
    whole, pieces = b"", [bytes(1 << 20)] * mib
    for _ in range(times):
        squeeze = zlib.compressobj(9)
        whole = b"".join(map(squeeze.compress, pieces)) + squeeze.flush()
        pieces = [whole]
    return whole


class Library:
    """libhdf5, with which a file can be made that gradwire-hdf5 would not write."""

    def __init__(self):
        linked = subprocess.run(["ldd", HDF5], capture_output=True, text=True, check=True).stdout
        self.lib, self.id = ctypes.CDLL(re.search(r"libhdf5\S* => (\S+)", linked)[1]), ctypes.c_int64
        self.lib.H5open()

    def __getattr__(self, name):
        def call(*values):
            f = getattr(self.lib, name)
            f.restype = self.id
            got = f(*values)
            assert got >= 0, name
            return self.id(got)
        return call

    def known(self, name):
        return self.id.in_dll(self.lib, name)

    def make(self, path, fill):
        file = self.H5Fcreate(os.fsencode(path), 2, self.id(0), self.id(0))
        fill(file)
        self.lib.H5close()  # and all that is in it
        self.lib.H5open()

    def group(self, at, name):
        return self.H5Gcreate2(at, name, self.id(0), self.id(0), self.id(0))

    def link(self, to, name, at):
        self.H5Lcreate_hard(at, to, at, name, self.id(0), self.id(0))

    def array(self, at, shape, chunk, deflates=0, data=None):
        """An array w of floats, whose first chunk has this data."""
        many, made = ctypes.c_uint64 * len(shape), self.H5Pcreate(self.known("H5P_CLS_DATASET_CREATE_ID_g"))
        self.H5Pset_chunk(made, len(chunk), many(*chunk))
        for _ in range(deflates):
            self.H5Pset_deflate(made, 9)
        space = self.H5Screate_simple(len(shape), many(*shape), many(*[2**64 - 1] * len(shape)))
        array = self.H5Dcreate2(at, b"w", self.known("H5T_IEEE_F32LE_g"), space, self.id(0), made, self.id(0))
        if data:
            self.H5Dwrite_chunk(array, self.id(0), ctypes.c_uint32(0), many(*[0] * len(shape)), ctypes.c_size_t(len(data)), data)
        self.H5Dclose(array)


@unittest.skipIf(SANITIZED, "its memory has no limit there")
class BombTest(Case):
    """Small files that ask for much: each ends within a second of CPU and 256 MB, with what is wrong or a whole result."""

    def setUp(self):
        super().setUp()
        self.h = Library()

    def reads(self, fill, says):
        file = self.tmp / "bomb.h5"
        self.h.make(file, fill)
        child = subprocess.Popen([HDF5, "read", file, self.tmp / "out"], stderr=subprocess.PIPE, text=True)
        said = child.stderr.read()
        child.stderr.close()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertIn(says, said)
        self.assertEqual(child.returncode in (1, 2), bool(says), said)
        self.assertLess(used.ru_utime + used.ru_stime, 1)
        self.assertLess(used.ru_maxrss >> 10, 256)

    def test_arrays_of_any_size_are_refused(self):
        h = self.h
        self.reads(lambda file: h.array(file, (1 << 40,), (16,)), "w is larger than 1 TiB")
        self.reads(lambda file: h.array(file, (1 << 33, 1 << 33), (16, 16)), "w is larger than 1 TiB")
        self.reads(lambda file: h.array(file, (1 << 28,), (16,)), "w has more values than a file of this size can be trusted with")
        self.reads(lambda file: h.array(file, (0, 1 << 62), (1, 1)), "")

    def test_chunks_that_grow_beyond_their_size_are_refused(self):
        h = self.h
        self.reads(lambda file: h.array(file, (1,), (200_000_000,), 1), "w has chunks that a file of this size cannot fill")
        self.reads(lambda file: h.array(file, (1024,), (1024,), 1, deflated(320)), "w is damaged")
        self.reads(lambda file: h.array(file, (1024,), (1024,), 3, deflated(320, 3)), "w is compressed more than once")

    def test_chunks_that_do_not_fill_their_size_or_have_more_are_refused(self):
        h, whole = self.h, zlib.compress(bytes(range(256)) * 16)
        for data, says in ((whole, ""), (whole + b"more", "w is damaged"), (whole + whole, "w is damaged"), (whole[:-1], "w is damaged"),
                           (zlib.compress(bytes(4092)), "w is damaged"), (zlib.compress(bytes(4100)), "w is damaged")):
            with self.subTest(bytes=len(data)):
                self.reads(lambda file: h.array(file, (1000,), (1024,), 1, data), says)
                self.reads(lambda file: h.array(file, (10, 2000), (2, 512), 1, data), says)

    def test_whole_chunks_are_read_whatever_their_filters(self):
        h, many = self.h, ctypes.c_uint64 * 2
        values = (ctypes.c_float * 3500)(*range(3500))
        shuffle, checksum, deflate = h.H5Pset_shuffle, h.H5Pset_fletcher32, lambda made: h.H5Pset_deflate(made, 9)
        for filters in itertools.permutations((shuffle, checksum, deflate)):
            def fill(file):
                made = h.H5Pcreate(h.known("H5P_CLS_DATASET_CREATE_ID_g"))
                h.H5Pset_chunk(made, 2, many(16, 32))  # the last ones reach beyond the array
                for add in filters:
                    add(made)
                space = h.H5Screate_simple(2, many(50, 70), many(50, 70))
                array = h.H5Dcreate2(file, b"w", h.known("H5T_IEEE_F32LE_g"), space, h.id(0), made, h.id(0))
                h.H5Dwrite(array, h.known("H5T_NATIVE_FLOAT_g"), h.id(0), h.id(0), h.id(0), values)
                h.H5Dclose(array)

            if filters.index(deflate) < filters.index(shuffle):
                self.reads(fill, "w is shuffled after it was compressed")
                continue
            self.reads(fill, "")
            self.assertTrue((self.tmp / "out").read_bytes().endswith(bytes(values)))

    def test_groups_in_groups_without_an_end_are_refused(self):
        h = self.h

        def deep(at):
            for _ in range(2000):
                at = h.group(at, b"g")

        def cycle(file):
            h.group(file, b"g")
            h.link(b"/", b"g/again", file)

        def ways(at):  # 10 to the power of 20 of them
            for _ in range(20):
                below = h.group(at, b"g0")
                for i in range(1, 10):
                    h.link(b"g0", b"g%d" % i, at)
                at = below

        def links(file):
            h.group(file, b"g")
            for i in range(20000):
                h.link(b"/g", b"s%d" % i, file)
        self.reads(deep, "is in too many groups")
        self.reads(cycle, "is in too many groups")
        self.reads(ways, "and the objects before it are too many")
        self.reads(links, "")

    def test_large_attributes_are_not_read_and_links_to_other_places_are_not_followed(self):
        h = self.h

        def attributes(file):
            for i in range(100):
                space = h.H5Screate_simple(1, (ctypes.c_uint64 * 1)(15000), None)
                h.H5Aclose(h.H5Acreate2(file, b"a%d" % i, h.known("H5T_IEEE_F32LE_g"), space, h.id(0), h.id(0)))
        self.reads(attributes, "")
        self.reads(lambda file: h.H5Lcreate_soft(b"/", file, b"soft", h.id(0), h.id(0)), "soft is a link to another place")
        self.reads(lambda file: h.H5Lcreate_external(b"/etc/passwd", b"/", file, b"out", h.id(0), h.id(0)), "out is a link to another place")


if __name__ == "__main__":
    unittest.main()
