"""A table of kinds of text files that others write: quotes, escapes, delimiters, line ends, encodings, compression, numbers. Each
file is from a seed, and knows what Python's csv, gzip and float, or zstd, make of it."""
import copy
import ctypes
import gzip
import random
import re
import zlib

from csv_files import VALUES, File
from number_files import NumberFile

UNICODE = [*(v for v in VALUES if v.isascii()), "é", "groß", "漢字", "😀", "Ω,π", "naïve \"q\"", "\u2028", "\u00a0", "nul\0in"]
WIDE = ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
BYTEWISE = {"utf-8": UNICODE, "latin-1": VALUES, "cp1252": [*VALUES[:-2], "€", "“x”"], "koi8-r": ["да", "нет", "а,б", 'у "х"', "a"],
            "euc-kr": ["가나", "a,나", "x"]}
WILD = ["abc", "1e39", "-1e400", "inf", "-Infinity", "nan", "NaN", "1_000", "0x1F", "5.", ".5", "+7", "-.5e-3", "1E5", " 42 ", "\t7", "1 2",
        "--5", "1e", "1d5", "12abc", "0b1", "1.2.3", "٣", "−5", "1'000", "1e+", "e5", ".", "+", "9" * 400, "0." + "0" * 400 + "1", "1" * 40,
        "true", "None", "3.4028235e38", "3.4028236e38", "-0", "00012", "1e-400"]


class Made:
    """content: of the file; name: its ending; table: its columns, as File; good: a file of the same kind without mistakes, of which
    a model can learn; well_formed: nothing in it is a reason to refuse it; rows: what theirs makes of it, a list of texts and the
    label each; None: theirs refuses it."""

    said = r":(\d+): "  # of an error, after the file's name
    well_formed = True

    def __init__(self, file, content=None, name=".csv", good=None):
        self.file, self.name = file, name
        self.content = file.text if content is None else content
        self.good = self.content if good is None else good

    def rows(self):
        return [self.file.of_row(row) for row in self.file.rows()]

    def good_rows(self):
        return self.rows()


class Malformed(Made):
    """With another file of the same seed that is well-formed."""

    def __init__(self, seed, only):
        self.clean = File(seed, wrong=False, only=only)
        super().__init__(File(seed, only=only), good=self.clean.text)
        self.well_formed = not self.file.wrong

    def good_rows(self):
        return [self.clean.of_row(row) for row in self.clean.rows()]


class Refused(Made):
    """In an encoding that is not read: an error names it, and the program that converts it."""

    said = r"(:\d+)?: .*UTF-(16|32).*: iconv -f (?P<codec>\S+) -t UTF-8 "
    well_formed = False

    def __init__(self, file, content):
        super().__init__(file, content, good=file.text)

    def rows(self):
        return None

    def good_rows(self):
        return super().rows()

    def converts(self, codec):
        """The advice gives the file in UTF-8."""
        return self.content.decode(codec).removeprefix("\ufeff").encode() == self.file.text.removeprefix(b"\xef\xbb\xbf")


def quotes(seed):
    return Malformed(seed, {"quotes": True, "escape": False})


def escapes(seed):
    return Malformed(seed, {"escape": True})


def delimiters(seed):
    return Made(File(seed, wrong=False))


def line_ends(seed):
    r = random.Random(f"ends {seed}")
    ends = r.choice([["\n"], ["\r\n"], ["\n", "\r\n"], ["\r"], ["\r\r\n"], ["\n\n"], ["\r\n\r\n"], ["\n", "\r"]])
    file = File(seed, wrong=False, only={"ends": ends})
    made = Made(file)
    made.well_formed = all("\r" not in end.replace("\r\n", "") for end in ends)
    if not made.well_formed:
        made.good, made.said = File(seed, wrong=False, only={"ends": ["\n"]}).text, r":\d+: .*\bCR\b.*: tr "
    return made


def encodings(seed):
    r = random.Random(f"codec {seed}")
    if r.random() < 0.35:
        codec = r.choice(WIDE)
        file = File(seed, wrong=False, only={"codec": "utf-8", "values": UNICODE})
        text = file.text.removeprefix(b"\xef\xbb\xbf").decode()
        mark = "\ufeff" if codec[-2:] in ("le", "be") and r.random() < 0.5 else ""
        return Refused(file, (mark + text).encode(codec))
    codec = r.choice(list(BYTEWISE))
    return Made(File(seed, wrong=False, only={"codec": codec, "values": BYTEWISE[codec]}))


# ---- compression ----

def member(data, level=6, flags=0):
    """A member of gzip (RFC 1952). flags: 2 a checksum of the header, 4 extra, 8 a name, 16 a comment."""
    head = bytes((31, 139, 8, flags)) + bytes(6)
    head += b"\x03\0abc" if flags & 4 else b""
    head += b"a name\0" if flags & 8 else b""
    head += b"a comment\0" if flags & 16 else b""
    head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little") if flags & 2 else b""
    deflate = zlib.compressobj(level, zlib.DEFLATED, -15)
    return head + deflate.compress(data) + deflate.flush() + zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")


class Zstd:
    """libzstd, on which Python has no module."""

    def __init__(self):
        self.lib = ctypes.CDLL("libzstd.so.1")
        for name in ("ZSTD_compressBound", "ZSTD_compress", "ZSTD_decompress"):
            getattr(self.lib, name).restype = ctypes.c_size_t

    def pack(self, data, level):
        room = ctypes.create_string_buffer(self.lib.ZSTD_compressBound(ctypes.c_size_t(len(data))))
        n = self.lib.ZSTD_compress(room, ctypes.c_size_t(len(room)), data, ctypes.c_size_t(len(data)), level)
        return room.raw[:n]

    def unpack(self, data, most):
        room = ctypes.create_string_buffer(most + 1)
        n = self.lib.ZSTD_decompress(room, ctypes.c_size_t(len(room)), data, ctypes.c_size_t(len(data)))
        return None if self.lib.ZSTD_isError(ctypes.c_size_t(n)) else room.raw[:n]


class Packed(Made):
    said = r"(:\d+)?: "

    def __init__(self, file, content, name, unpack):
        super().__init__(file, content, name, good=file.text)
        self.unpacked = unpack(content)

    def rows(self):
        """zstd has no checksum here, and whole members can be missing: then the text is another one."""
        if self.unpacked is None:
            return None
        file = copy.copy(self.file)
        file.text = self.unpacked
        return [file.of_row(row) for row in file.rows()]

    def good_rows(self):
        return super().rows()


def gunzip(content):
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return None


def damage(r, content):
    """Damage that files take on their way."""
    kind, at = r.choice(["cut", "flip", "text", "other", "again", "zeros"]), r.randrange(len(content))
    return {"cut": content[:at], "flip": content[:at] + bytes([content[at] ^ 1 << r.randrange(8)]) + content[at + 1:],
            "text": content + b"a,b\n1,2\n", "other": content + b"\xfd7zXZ\0\0\x04", "again": content + content[:at],
            "zeros": content + bytes(r.randrange(1, 2000))}[kind]


def compression(seed):
    r = random.Random(f"packed {seed}")
    file = File(seed, wrong=False)
    at = r.randrange(len(file.text) + 1)
    parts = [file.text[:at], file.text[at:]] if r.random() < 0.4 else [file.text]
    if r.random() < 0.5:
        name, unpack = ".csv.gz", gunzip
        content = b"".join(member(p, r.randrange(10), r.choice([0, 0, 2, 4, 8, 16, 30])) for p in parts)
    else:
        zstd = Zstd()
        name, unpack = ".csv.zst", lambda content: zstd.unpack(content, 4 * len(file.text) + 4096)
        skipped = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip" if r.random() < 0.2 else b""
        content = skipped.join(zstd.pack(p, r.randrange(1, 12)) for p in parts) + skipped
    damaged = r.random() < 0.5
    made = Packed(file, damage(r, content) if damaged else content, name, unpack)
    made.well_formed = not damaged
    return made


# ---- numbers ----

class Numbers(Made):
    """NumberFile; in `wild`, one of its numbers is a text that others read as a number, or nobody does."""

    def __init__(self, seed):
        r = random.Random(f"wild {seed}")
        file = NumberFile(seed)
        lines = file.text.decode().splitlines()
        self.at, self.wild = None, None
        if r.random() < 0.6:
            self.at, self.wild = (r.randrange(file.rows), r.randrange(len(file.columns))), r.choice(WILD)
            fields = lines[self.at[0]].split(",")
            fields[self.at[1]] = self.wild
            lines[self.at[0]] = ",".join(fields)
        super().__init__(file, ("\n".join(lines) + "\n").encode(), good=file.text)
        self.well_formed = self.wild is None

    def theirs(self):
        """The numbers as texts, a column after the other; None: for Python one is no number, or not finite."""
        texts = [list(c.texts) for c in self.file.columns]
        if self.wild:
            texts[self.at[1]][self.at[0]] = self.wild
            try:
                if not re.fullmatch(r"[-+.\dEe_\s]+", self.wild) or abs(float(self.wild)) >= 3.4028235677973366e38:
                    return None
            except ValueError:
                return None
        return texts


KINDS = {"quotes": quotes, "escapes": escapes, "delimiters": delimiters, "line ends": line_ends, "encodings": encodings,
         "compression": compression, "numbers": Numbers}
