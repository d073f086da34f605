#!/usr/bin/env python3
"""Files that are compressed: read as Python's gzip and zipfile and the zstd command read them, or an error; no byte is dropped.

GRADWIRE_UNPACK=N makes N files of each kind."""
import gzip
import hashlib
import io
import os
import pathlib
import random
import shutil
import subprocess
import sys
import unittest
import warnings
import zipfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, DEADLINE_S, MODEL, Case  # noqa: E402
from file_kinds import member  # noqa: E402

FILES = int(os.environ.get("GRADWIRE_UNPACK", 150))
SEED = int(os.environ.get("GRADWIRE_SEED", 28))
TEXT = b"x,y\n1,2\n"
XZ, BZIP2 = b"\xfd7zXZ\0\0\x04", b"BZh91AY&SY"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def zstd(*words, data):
    got = subprocess.run(["zstd", "-q", *words], input=data, capture_output=True, timeout=DEADLINE_S)
    return got.stdout if got.returncode == 0 else None


class UnpackTest(Case):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        print("seed", SEED, file=sys.stderr)

    def archive(self, *members):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as z, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a name that is there already
            for name, data in members:
                z.writestr(name, data)
        return file.getvalue()

    def unpack(self, files):
        """The words of the reader on each (content, member of zip or None)."""
        words = []
        for i, (data, name) in enumerate(files):
            (self.tmp / f"f{i}").write_bytes(data)
            words.append(f"f{i}" + (f":{name}" if name else ""))
        said = []
        for at in range(0, len(words), 500):
            said += subprocess.run([BUILD / "tests/e2e_unpack", *words[at:at + 500]], cwd=self.tmp, capture_output=True, check=True,
                                   timeout=DEADLINE_S).stdout.decode().splitlines()
        self.assertEqual(len(said), len(files))
        return said

    def ok(self, data):
        return f"ok {len(data)} {hashlib.sha256(data).hexdigest()}"

    def agrees(self, said, data, what):
        """`data`: what the other program makes of the file; None: an error."""
        if data is None:
            self.assertTrue(said.startswith("error "), f"{what}: {said}")
        else:
            self.assertEqual(said, self.ok(data), what)

    def content(self):
        size = self.random.choice((0, 1, 7, 1000, 5000, 70000, 200000))
        if self.random.random() < .5:
            return (b"1,2,3,word\n" * (size // 11 + 1))[:size]
        return self.random.randbytes(size)

    def damaged(self, data, first):
        """A bit, a byte, the end or a piece of it; from byte `first` on."""
        at = self.random.randrange(first, len(data))
        kind = self.random.randrange(4)
        if kind == 0:
            return data[:at] + bytes((data[at] ^ 1 << self.random.randrange(8),)) + data[at + 1:]
        if kind == 1:
            return data[:at] + self.random.randbytes(1) + data[at + 1:]
        return data[:at] if kind == 2 else data[:at] + data[at + self.random.randrange(1, 9):]

    def tail(self):
        return self.random.choice((b"\0", bytes(511), bytes(140000), TEXT, b"\n", b"\x1f", b"\x1f\x8b", b"\x28", XZ, BZIP2, ZSTD_MAGIC, bytes(3) + TEXT,
                                   bytes(5) + member(TEXT), member(b""), b"PK\3\4", self.random.randbytes(9)))

    def gzip_file(self):
        """(kind, content)"""
        data = b"".join(member(self.content(), self.random.choice((0, 1, 9)), self.random.choice((0, 0, 2, 4, 8, 16, 30)))
                        for _ in range(self.random.choice((1, 1, 2, 3))))
        kind = self.random.choice(("whole", "damaged", "tail"))
        if kind == "damaged":
            data = self.damaged(data, 10)
        return kind, data + (self.tail() if kind == "tail" else b"")

    def test_gzip_is_read_as_python_reads_it(self):
        made = [self.gzip_file() for _ in range(FILES)]
        for (kind, data), said in zip(made, self.unpack([(data, None) for _, data in made]), strict=True):
            try:
                want = gzip.decompress(data)
            except (EOFError, OSError, zlib.error):
                want = None
            if want is not None and kind == "damaged" and said.startswith("error"):
                continue  # Python does not compare the checksum of a header, nor refuse flags that it does not know
            self.agrees(said, want, f"{kind}: {data[:60].hex()}.. {data[-40:].hex()}")

    @unittest.skipUnless(shutil.which("zstd"), "there is no zstd")
    def test_zstd_is_read_as_the_zstd_command_reads_it(self):
        made = []
        for _ in range(FILES):
            data = b"".join(zstd(self.random.choice(("-1", "-9")), self.random.choice(("--check", "--no-check")), data=self.content())
                            for _ in range(self.random.choice((1, 1, 2, 3))))
            kind = self.random.choice(("whole", "damaged", "skippable", "tail"))
            if kind == "damaged":
                data = self.damaged(data, 4)
            if kind == "skippable":
                data = b"\x5a\x2a\x4d\x18\x05\0\0\0hello" + data
            made.append((kind, data + (self.tail() if kind == "tail" else b"")))
        for (kind, data), said in zip(made, self.unpack([(data, None) for _, data in made]), strict=True):
            want = zstd("-dc", data=data)
            if kind == "tail" and member(TEXT)[:3] in data:
                want = None  # the command unpacks gzip, too
            self.agrees(said, want, f"{kind}: {data[:60].hex()}.. {data[-40:].hex()}")

    def test_a_member_of_zip_is_read_as_python_reads_it(self):
        made = []
        for _ in range(FILES):
            content, file = self.content(), io.BytesIO()
            with zipfile.ZipFile(file, "w", self.random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as z:
                z.writestr("x.npy", content)
                begin, end = 30 + len("x.npy"), file.tell()
            data = bytearray(file.getvalue())
            damaged = end > begin and self.random.random() < .5
            if damaged:  # its data, not its name and sizes
                data[self.random.randrange(begin, end)] ^= 1 << self.random.randrange(8)
            made.append((damaged, bytes(data)))
        for (damaged, data), said in zip(made, self.unpack([(data, "x") for _, data in made]), strict=True):
            try:
                want = zipfile.ZipFile(io.BytesIO(data)).read("x.npy")
            except (EOFError, zipfile.BadZipFile, zlib.error):
                want = None
            if want is not None and damaged and said.startswith("error"):
                continue  # Python takes the beginning of a member that is longer than its header says
            self.agrees(said, want, data[:80].hex())

    def test_what_follows_is_named_with_its_place(self):
        one = member(TEXT)
        frame = zstd("-1", data=TEXT) if shutil.which("zstd") else None
        other = "and {}: remove what follows, or decompress the parts and compress them again as one"
        cases = [(one + TEXT, f"at byte {len(one)} the gzip data ends, " + other.format("bytes of another kind follow")),
                 (one + bytes(512) + b"\n", f"at byte {len(one) + 512} the gzip data ends, " + other.format("bytes of another kind follow")),
                 (one + XZ, f"at byte {len(one)} the gzip data ends, " + other.format("xz data follows")),
                 (one + ZSTD_MAGIC, f"at byte {len(one)} the gzip data ends, " + other.format("zstd data follows")),
                 (one + one[:-9], "the gzip data ends early, after 16 decompressed bytes"),
                 (one + one[:20] + b"\xff" * 9, "the gzip data is corrupt near byte ")]
        if frame:
            cases += [(frame + TEXT, f"at byte {len(frame)} the zstd data ends, " + other.format("bytes of another kind follow")),
                      (frame + one, f"at byte {len(frame)} the zstd data ends, " + other.format("gzip data follows")),
                      (frame + frame[:-3], "the zstd data ends early, after 16 decompressed bytes")]
        for (data, want), said in zip(cases, self.unpack([(data, None) for data, _ in cases]), strict=True):
            self.assertIn("error " + want, said)


    def test_two_members_of_one_name_are_refused(self):
        self.assertEqual(self.unpack([(self.archive(("x.npy", b"1"), ("y.npy", b"2"), ("x.npy", b"3")), "x")]),
                         ["error f0: it has two members x"])

    def test_a_config_of_keras_with_another_checksum_is_refused(self):
        data = self.archive(("metadata.json", b'{"keras_version": "3.15.0"}'), ("config.json", b'{"class_name": "Sequential"}'),
                            ("model.weights.h5", b""))
        (self.tmp / "m.keras").write_bytes(data.replace(b"Sequential", b"Functional"))
        got = subprocess.run([MODEL, "import", "m.keras", "--output=m"], cwd=self.tmp, capture_output=True, timeout=DEADLINE_S)
        self.assertEqual(got.returncode, 2)
        self.assertIn("m.keras: the zip data is corrupt after 28 bytes: CRC error", got.stderr.decode())
        (self.tmp / "m.keras").write_bytes(b"#!/bin/sh\n" + data)
        got = subprocess.run([MODEL, "import", "m.keras", "--output=m"], cwd=self.tmp, capture_output=True, timeout=DEADLINE_S)
        self.assertEqual(got.returncode, 2)
        self.assertIn("m.keras: the zip archive does not begin at the file's beginning, but at offset 10", got.stderr.decode())

    @unittest.skipUnless(shutil.which("zstd"), "there is no zstd")
    def test_stdin_can_be_compressed_in_either_way(self):
        for data in (TEXT, member(TEXT), zstd("-1", data=TEXT)):
            with subprocess.Popen([BUILD / "tests/e2e_unpack", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
                for byte in data:  # as a pipe can bring it
                    os.write(reader.stdin.fileno(), bytes((byte,)))
                self.assertEqual(reader.communicate(timeout=DEADLINE_S)[0].decode().strip(), self.ok(TEXT))


if __name__ == "__main__":
    unittest.main()
