#!/usr/bin/env python3
"""python/gradwire_model.py: keys, features and first values by the standard library alone, and with numpy the scores of a
trained model."""
import base64
import bz2
import collections
import decimal
import gzip
import hashlib
import importlib.util
import json
import lzma
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
import warnings

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "lib"), str(pathlib.Path(__file__).resolve().parents[2] / "python")]
import gradwire_model as reader  # noqa: E402
from csv_files import File  # noqa: E402
from cluster import DEADLINE_S, MODEL, ROOT, TrainCase  # noqa: E402

NUMPY = importlib.util.find_spec("numpy")
PIECE = bytes((i * 2654435761 >> 11) & 255 for i in range(3000))
# SHA-256 over the hashes of the first n bytes of PIECE, 8 bytes each, with the seeds 0 and 2^64 - 59, by libxxhash 0.8.1
SHORT_TO_LONG, HASHES = [*range(700), 1023, 1024, 1025, 1088, 2047, 2048, 2049, 3000], "bcd3817bbb44777976e0cac2d9a9c47836c37340977723888929554578a39db7"


class HashTest(unittest.TestCase):
    def test_xxh3_has_the_bits_of_the_library_for_every_length(self):
        got = hashlib.sha256()
        for n in SHORT_TO_LONG:
            for seed in (0, 2**64 - 59):
                got.update(reader.xxh3_pure(PIECE[:n], seed).to_bytes(8, "little"))
        self.assertEqual(got.hexdigest(), HASHES)

    def test_keys_are_those_of_the_page_about_data(self):
        def key(word, space, **options):
            how = {"hash": True, "space": space, "buckets": None, "missing": "empty", **options}
            return reader.column({"name": "c", "kind": "key", "key": how}, [""]).encode(word)[0][0]
        self.assertEqual(key("68fd1e64", "C1"), 0xbb7b4148340ac23e)
        self.assertEqual(key("", "C1"), 0xa6a7a7b5f160f36a)
        self.assertEqual(key("a", "site"), 0x3231bb3a2b0f9c68)
        self.assertEqual(key("68fd1e64", "C1", buckets="1000"), 790)
        cross = reader.column({"name": "x", "kind": "cross", "key": {"hash": True, "space": "C1xsite", "buckets": None,
                                                                     "missing": "none", "of": ["a", "b"]}}, [""])
        self.assertEqual(cross.cross([[(0xbb7b4148340ac23e, 1.0)], [(0x3231bb3a2b0f9c68, 1.0)]]), [(0xc5446c880bde638f, 1.0)])
        self.assertEqual(cross.cross([[(1, 1.0)], []]), [])


class CsvTest(unittest.TestCase):
    def records(self, text, **options):
        options = {"delimiter": "comma", "quotes": True, "trim": False, **options}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.csv"
            path.write_bytes(text)
            return list(reader.CsvText(options).records(path))

    def test_fields_are_those_of_pythons_csv(self):
        for seed in range(300):
            file = File(seed)
            options = {"delimiter": file.delimiter_name, "quotes": file.quotes, "escape": "backslash" if file.escape else "none"}
            text = file.text.removeprefix(b"\xef\xbb\xbf").decode("latin-1").encode()
            try:
                rows = [fields for _, fields, wrong in self.records(text, **options)][file.header != "none":]
            except reader.ModelError as e:
                self.assertTrue(file.wrong, f"{seed}: {e}")
                continue
            if "text after" not in file.wrong and "open" not in file.wrong:
                self.assertEqual(rows, file.rows(), seed)

    def test_an_empty_line_between_rows_of_one_field_is_warned_of(self):
        for text, header, line in ((b"a\n1\n\n2\n\r\n3\n\n", "names", "a.csv:3: this line (and 1 more) is empty, and is no row"),
                                   (b"\na\n1\n\n", "names", None), (b"\n1\n", "none", "a.csv:1: this line is empty"),
                                   (b'1\n""\n2\n', "none", None), (b"1,2\n\n3,4\n", "none", None)):
            with warnings.catch_warnings(record=True) as got:
                warnings.simplefilter("always")
                self.records(text, header=header)
            self.assertEqual(len(got), bool(line))
            self.assertIn(line or "", str(got[0].message) if got else "")

    def test_what_pythons_csv_does_not_know(self):
        self.assertEqual([f for _, f, _ in self.records(b'# it is 12" wide\n "a, b " ,\t1\n\n \n', comment="#", trim=True)], [["a, b ", "1"]])
        self.assertEqual([f for _, f, _ in self.records(b'\\N,"\\N"\n', escape="backslash")], [["\\N", "N"]])
        self.assertEqual([w for _, _, w in self.records(b'"a"b,c\n')], [[0]])
        self.assertEqual([w for _, _, w in self.records(b'a, "b"\n"" "",\t"c" ,x"y\n" ""d""" ,e\n')], [[1], [0, 1], [0]])
        self.assertEqual([w for _, _, w in self.records(b' "a" ,b\n', trim=True)], [[]])
        for text, said in ((b'a,b\n\n"c\n', "a.csv:3: a quote begins a field of this row, and is never closed"),
                           (b"a,b\rc,d\n", "a.csv:1: a CR without LF"), (b'a,b\r"5,",2\rc', "a.csv:1: a CR without LF"), (b"\xff\xfea\0", "UTF-16"),
                           *((b"a,b\n" + "c,d\r\ne,5\r\n".encode(utf_16), "a.csv:2: UTF-16 text begins here, and only UTF-8 is read") for utf_16 in
                             ("utf-16-le", "utf-16-be", "utf-16")), ("5\r\n".encode("utf-16-le"), "a.csv:1: UTF-16 text begins here"),
                           (random.Random(1).randbytes(300), "a.csv: it is not text, as it has many control characters")):
            with self.assertRaisesRegex(reader.ModelError, said):
                self.records(text)

    def test_a_field_of_many_lines_is_split_once(self):
        with unittest.mock.patch.object(reader.CsvText, "split", autospec=True, side_effect=reader.CsvText.split) as split:
            self.assertEqual(self.records(b'1,"' + b"x\n" * 1000 + b'",2\n3,4,5\n'), [(1, ["1", "x\n" * 1000, "2"], []), (1002, ["3", "4", "5"], [])])
        self.assertEqual(split.call_count, 3)


class ReadTest(unittest.TestCase):
    """Rows that predict and libgradwire-predict refuse, too."""

    def read(self, text, header="none", more=()):
        model = reader.Model.__new__(reader.Model)
        model.data = {"format": "csv", "delimiter": "comma", "quotes": True, "trim": False, "header": header}
        model.encoding = columns(*({"name": name, "kind": kind} for name, kind in (
            ("y", "label"), ("a", "number"), ("b", "ignore"), *more)))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.csv"
            path.write_bytes(text)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return list(model.read(path))

    def refused(self, said, text, **options):
        with self.assertRaisesRegex(reader.ModelError, said):
            self.read(text, **options)

    def test_a_file_has_labels_in_all_rows_or_in_none(self):
        self.assertEqual(self.read(b"1,2\n3,4\n"), [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}])
        self.assertEqual(self.read(b"0,1,2\n"), [{"y": "0", "a": "1", "b": "2"}])
        self.refused(":2: it has 2 fields, the model's columns are 3", b"0,1,2\n3,4\n")
        self.refused(":3: it has 3 fields, the lines before it have 2", b"y,a\n1,2\n0,3,4\n", header="skip")
        self.refused(":2: it has 2 fields, the model's columns are 3", b"y,a,b\n1,2\n", header="skip")
        self.assertEqual(self.read(b"a,b\n1,2\n", header="skip"), [{"a": "1", "b": "2"}])
        for text in (b"1,2\n", b"1,2,3\n", b"0,1,2,3\n"):  # the label, or the label and the weight, can be absent
            self.assertEqual(self.read(text, more=[("w", "weight")])[0]["a"], "1")

    def test_a_line_of_libsvm_can_lack_its_label_and_its_pairs_are_checked(self):
        model = reader.Model.__new__(reader.Model)
        model.data = {"format": "libsvm"}
        model.encoding = reader.Encoding.__new__(reader.Encoding)
        model.encoding.fields = [types.SimpleNamespace(name=kind, kind=kind, classes=None, how={"max_values": 3})
                                 for kind in ("label", "keys")]

        def read(text):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "a.svm"
                path.write_text(text)
                return list(model.read(path))

        self.assertEqual(read("1 qid:3 2:0.5 7:1\n2:1\n"), [{"label": "1", "keys": [(2, 0.5), (7, 1)]}, {"keys": [(2, 1)]}])
        self.assertEqual(read("1\t2:+.5e1 \r\n"), [{"label": "1", "keys": [(2, 5)]}])
        for line in ("1 2:nan", "1 2:x", "1 x:2", "1 -1:2", "1 2:1 2:1", "1 3:1 2:1", f"1 {1 << 64}:1", "1 2:1_0", "1 2:1e39", "1 2:",
                     "1 2:\uff11", "1 2:1\xa03:1", "1 2:1\x0c3:1", "1 2:1\x0c", "1 1:1 2:1 3:1 4:1", "1 1:1" + " " * (512 << 10)):
            with self.subTest(line[:20]), self.assertRaisesRegex(reader.ModelError, "a.svm:2: "):
                read(f"1 1:1\n{line}\n")

    def test_an_error_in_a_value_has_the_file_and_line_of_its_row(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.csv"
            path.write_text('y,"age"\n0,"1"\n\n1,4x\n')
            for header, names in (("names", ("y", "age")), ("skip", (None, "age"))):
                model = reader.Model.__new__(reader.Model)
                model.data = {"format": "csv", "delimiter": "comma", "quotes": True, "trim": False, "header": header}
                model.encoding = columns({"name": names[0], "kind": "label"}, number("age", 0), features=1)
                rows = list(model.read(path))
                self.assertEqual(model.encoding.row_features(rows[0]), [1.0])
                with self.assertRaisesRegex(reader.ModelError, 'a.csv:4: column "age": "4x" is not a number'):
                    model.encoding.row_features(rows[1])
                self.assertFalse(hasattr(rows[0], "__dict__"))  # which takes more memory than the row

        class Shop(dict):
            place = "Paris"
        with self.assertRaisesRegex(reader.ModelError, '^column "age": "x" is not a number'):
            model.encoding.row_features(Shop(age="x"))

    def test_a_header_names_an_input_of_the_model_once(self):
        self.refused('its header names "a" twice', b"y,a,b,a\n0,1,2,3\n", header="names")
        for other in "z", "y":  # of no column, and of the label, which is not read
            self.assertEqual([row["a"] for row in self.read(f"{other},a,b,{other}\n0,1,2,3\n".encode(), header="names")], ["1"])

    def test_a_header_is_checked_without_rows_too(self):
        self.refused('its header does not name "a"', b"y,b\n", header="names")
        self.refused("text follows the quotes of a name in its header", b'a,b,"j"k\n', header="names")
        self.refused('its header does not name "a"', b'y, "a"\n', header="names")
        self.assertEqual(self.read(b'"a", "j"\n', header="names"), [])

    def test_a_row_is_at_most_512_kib_long(self):
        row = lambda size: b"1," + b"x" * (size - len(b"1,\n")) + b"\n"
        self.assertEqual(len(self.read(row(512 << 10))[0]["b"]), (512 << 10) - 3)
        for text in row((512 << 10) + 1), row((512 << 10) + 1)[:-1], b"1," + "\xe9".encode() * (256 << 10) + b"\n", b'1,"\n' + b"x" * (512 << 10) + b'"\n':
            self.refused(":2: a row of more than 524288 bytes", b"1,2\n" + text)

    def test_a_damaged_gzip_is_an_error_of_the_model(self):
        whole = gzip.compress(b"0,1,2\n" * 2000)
        for damaged in (whole[:-9], whole[:40] + b"\xff\xff" + whole[42:], whole[:-6] + b"\0" + whole[-5:], whole + b"more"):
            self.refused("a.csv: its gzip data are damaged", damaged)

    def test_other_formats_are_no_text_also_in_gzip(self):
        rows = b"0,1,2\n" * 50
        for head, said in ((b"\x28\xb5\x2f\xfd", "zstd: decompress it first"), (b"\x50\x2a\x4d\x18\4\0\0\0", "zstd"), (b"PK\3\4", "zip"),
                           (b"\x04\x22\x4d\x18", "lz4"), (b"PAR1\x15", "a Parquet file"), (b"ARROW1\0\0", "an Arrow"), (b"\x93NUMPY", "an npy file"),
                           (b"\x89HDF\r\n\x1a\n", "an HDF5 file"), (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
                           (b"SQLite format 3\0", "a database of SQLite"), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel workbook"),
                           (b"Obj\1", "an Avro file"), (b"\x80\4\x95", "a pickle"), (b"\x80\2}q\1", "a pickle"), (b"%PDF-", "a PDF"), (b"\x89PNG\r\n\x1a\n", "an image"),
                           (b"\xff\xd8\xff", "an image"), (b"<!DOCTYPE html", "an HTML page"), (b"<html><", "an HTML page"),
                           (b"a.csv".ljust(257, b"\0") + b"ustar\0", "tar"), (b"\xff\xfe", "it is UTF-16")):
            for data in (head + rows, gzip.compress(head + rows)):
                self.refused(f"a.csv: {said}", data)
        for data, said in ((bz2.compress(rows), "bzip2"), (lzma.compress(rows), "xz"), (gzip.compress(gzip.compress(rows)), "gzip in gzip")):
            self.refused(f"a.csv: {said}: decompress it", data)
        self.assertEqual(self.read(b"BZh,1\n"), [{"a": "BZh", "b": "1"}])

    def test_pages_of_errors_are_no_text(self):
        for page in (b"<HTML>\n", b"<html>\n<head></head>", b'<html lang="en">\n', b"\xef\xbb\xbf<!DOCTYPE html>", b"\n \r\n<!DocType HTML>", b"<html>", b"<head><title>",
                     b"<Html\n  xmlns:a='b'>"):
            self.refused("a.csv: an HTML page: check what was downloaded", page)
        for mark in b"", b"\xef\xbb\xbf", b"\n":
            self.refused("a.csv: an XML page: check what was downloaded", mark + b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>')
        for line in b'{"message":"Not Found"}', b'\n {"message":"Not Found", "code": 404}\r\n':
            self.refused("a.csv: one line of JSON: check what was downloaded", line)
        for text in '{"a":1}\n{"a":2}\n', '{"a:"},1\n', "{a:b}\n", '{"a' + 504 * "x" + '":1}\n':
            with self.subTest(text[:9]), tempfile.NamedTemporaryFile() as file:
                pathlib.Path(file.name).write_text(text)
                self.assertEqual("".join(reader._lines(file.name)), text)
        for tag in "<html>", "<head>", "<html", "<?xml", "<b>":  # words of a column
            self.assertEqual(self.read(f"{tag},1\n{tag},2\n".encode())[0]["a"], tag)

    def test_an_empty_file_is_no_gzip(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, data, said in (("a.csv.gz", b"", "it is empty, which no file of gzip is: check its download, or what wrote it"), ("a.csv.zst", b"", "it is empty, which no file of zstd is"),
                                     ("b.csv.gz", gzip.compress(b""), None), ("a.csv", b"", None)):
                path = pathlib.Path(folder) / name
                path.write_bytes(data)
                if said:
                    with self.assertRaisesRegex(reader.ModelError, f"{name}: {said}"):
                        list(reader._lines(path))
                else:
                    self.assertEqual(list(reader._lines(path)), [])


class WarnTest(unittest.TestCase):
    """Lines of which predict warns, too: with the file and the line, the first of each kind."""
    PLAN = {"name": "plan", "kind": "category", "category": {"words": ["basic", "pro"]}}
    AGE = {"name": "age", "kind": "number", "number": {}}
    USER = {"name": "user", "kind": "key", "key": {"hash": True, "space": "user", "buckets": None, "missing": "empty"}}
    LABEL, NAMED = {"name": "left", "kind": "label"}, {"name": "left", "kind": "label", "classes": ["no", "yes"]}

    def said(self, text, *specs, options=(), rows=None, below=0):
        """The warnings about the file, each from its line on."""
        model = reader.Model.__new__(reader.Model)
        model.data = {"format": "csv", "delimiter": "comma", "quotes": True, "trim": False, "header": "none", **dict(options)}
        model.encoding = columns(*(specs or (self.PLAN, self.USER, self.NAMED)))
        for c in model.encoding.fields:
            c.below = below
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as got:
            warnings.simplefilter("always")
            path = pathlib.Path(folder) / "a"
            path.write_bytes(text.encode())
            self.assertEqual(len(list(model.read(path))), text.count("\n") if rows is None else rows)
            self.assertEqual({w.filename for w in got} - {__file__}, set())
        return [str(w.message).removeprefix(f"{path}:") for w in got]

    def begins(self, expected, text, *specs, **options):
        said = self.said(text, *specs, **options)
        self.assertEqual([line[:len(begin)] for line, begin in zip(said, expected)], expected)
        self.assertEqual(len(said), len(expected), said)

    def test_a_file_of_rows_is_not_warned_of(self):
        for header in "none", "skip", "names":
            first = "" if header == "none" else '"plan", user,left\n' if header == "skip" else "user,plan,left\n"
            self.begins([], first + "basic,u1,no\nteam,plan,no\n", options={"header": header}, rows=2)
        self.begins([], "age,left\n", self.AGE, self.LABEL, options={"header": "skip"}, rows=0)
        self.begins([], "", options={"header": "skip"})

    def test_lines_of_joined_files(self):
        again = "2: this line is the header again, and is read as a row; if files were joined, remove it"
        for second in "plan,user,left", 'user," plan ",left', "PLAN,USER,LEFT", "\ufeffplan,user,left":
            for header in "names", "skip":
                text = f"plan,user,left\n{second}\nbasic,u1,no\n{second}\n"
                mark = ["2: a byte order mark (U+FEFF) begins this line, and belongs to its first field; if files were joined"] * second.startswith("\ufeff")
                self.begins([*mark, again], text, options={"header": header}, rows=3)
            self.begins([*mark, "2: this line has the names of the columns, and is read as a row; if files were joined, remove it"],
                        f"basic,u1,no\n{second}\n{second}\n")
        for header in "", "plan\n":  # one name is likely to be a value in another case
            self.begins(["3: this line" if header else "2: this line"], f"{header}basic\nplan\n", self.PLAN, rows=2, options={"header": "names" if header else "none"})
            self.begins([], f"{header}basic\nPLAN\n", self.PLAN, rows=2, options={"header": "names" if header else "none"})
        self.begins([], "x,basic\nx,plan\n", {"name": None, "kind": "ignore"}, self.PLAN)
        numbers = {**self.PLAN, "name": "0"}, {**self.LABEL, "name": "1"}  # names as pandas gives them
        self.begins([], "1,1\n1,0\n0,1\n", *numbers)
        self.begins([], "0,1\n1,1\n1,0\n", *numbers, options={"header": "names"}, rows=2)
        self.begins(["3: this line is the header again"], "0,1\n1,1\n0,1\n", *numbers, options={"header": "names"}, rows=2)
        self.begins(["2: a byte order mark"], "basic,u1\n\ufeffpro,u2\nbasic,\ufeffu2\n\ufeffpro,u1\n")
        self.begins([], '"a\n\ufeffb",u2\n', rows=1)

    def test_a_header_that_is_read_as_a_row(self):
        for first, said in (("plan,user", ": use data.header: names, or skip"), ("PLAN,User,x", ": use data.header: names, or skip"),
                            ("user,plan", " in another order, but is read as a row: use data.header: names")):
            (message,) = self.said(first + "\n")
            self.assertIn("1: this line has the names of the columns", message)
            self.assertTrue(message.endswith(said), message)
        self.begins(["2: this line has the names of the columns, but is read as a row, as data.header: skip has left out line 1: remove"],
                    "my,report\nplan,user\nbasic,u1\n", options={"header": "skip"}, rows=2)

    def test_a_label_that_is_none_in_the_first_or_in_half_of_the_rows(self):
        named = {**self.LABEL, "classes": ["no|NO", "y\\|s"]}
        header = '1: 1 of 3 rows have no label in the label\'s field, the first has "OUT": check whether this line is a header'
        for label, rows in (self.LABEL, "team,u1,1\npro,u2,-.5e1\n"), (named, "team,u1,NO\npro,u2,y|s\n"):
            self.begins([header], "PRODUCT,USER,OUT\n" + rows, self.PLAN, self.USER, label)
            for first in "plan,user,left\n", "a,b,?\n", "a,b,\n", "a,b,?x\n":
                self.begins(["1: this line has the names"] if first[0] == "p" else [], first + rows, self.PLAN, self.USER, label)
            self.begins([], rows + "team,u3,maybe\n", self.PLAN, self.USER, label)
            self.begins(['1: 2 of 4 rows have no label'], "a,b,c\na,b,d\n,,\n,,?\n" + rows, self.PLAN, self.USER, label)
            self.begins([], "a,b,c\na,b,d\n" + rows + rows[:rows.index("\n") + 1], self.PLAN, self.USER, label)
            self.begins(["1: this line has the names", "3: this line has the names"], "plan,user,left\nteam,u1,x\nplan,user,left\npro,u2,x\n", self.PLAN, self.USER, label)
            self.begins([], rows.replace(",u", ",v").replace("\n", ",x\n"), self.PLAN, self.USER, label, {"name": "w", "kind": "ignore"})
            self.begins([], "a,b,x\n", self.PLAN, self.USER, label)
            self.begins([], "a,b,unknown\n" * 3, self.PLAN, self.USER, label)
            self.begins([], "a,b\nc,d\n", self.PLAN, self.USER, label)
            self.begins(['1: 2 of 2 rows have no label in the label\'s field, the first has "u1": check the order of the columns'], "1,a,u1\n2,b,u2\n",
                        self.PLAN, self.USER, label)
            self.begins([], "PRODUCT,USER,OUT\n" + rows, self.PLAN, self.USER, label, options={"header": "skip"}, rows=2)
            self.begins([header.replace("1: 1", "2: 1")], "a,b,c\nPRODUCT,USER,OUT\n" + rows, self.PLAN, self.USER, label, options={"header": "skip"}, rows=3)
            self.begins(["2: 2 of 2 rows"], "a,b,c\n1,a,u1\n2,b,u2\n", self.PLAN, self.USER, label, options={"header": "skip"}, rows=2)
        self.begins(["1: 2 of 2 rows"], "1,a,3\n2,b,1\n", self.PLAN, self.USER, named)
        self.begins([], "1,a,u1\n2,b,u2\n", self.PLAN, self.USER, {**named, "classes": ["no", "*"]})
        for classes, said in (["0", "*"], [header]), (["0", "no", "*"], []):
            self.begins(said, "PRODUCT,USER,OUT\nteam,u1,0\npro,u2,7\n", self.PLAN, self.USER, {**named, "classes": classes})
            self.begins([], "a,b,x\nc,d,y\na,b,0\n", self.PLAN, self.USER, {**named, "classes": classes})

    def test_a_label_that_is_no_number_of_a_class(self):
        for below, labels, said in ((2, "0 1.0 7 -1", 3), (2, "0 1 7 0.5 1", 0), (2, "7 7 7", 0), (2, "1 2 2", 0), (3, "2 1", 0), (3, "3 -1", 1), (0, "3 -1", 0)):
            self.begins([f"{said}: 2 of"] * bool(said), "".join(f"a,b,{text}\n" for text in labels.split()), self.PLAN, self.USER, self.LABEL, below=below)

    def test_a_row_that_is_left_out(self):
        skip = {"header": "skip"}
        self.begins(["1: data.header: skip leaves this line out, but it reads like a row; for files without a header use data.header: none"],
                    "basic,u1\npro,u2\n", options=skip, rows=1)
        self.begins(["1: data.header: skip leaves this line out, but it reads like a row"], "5\n6\n", self.AGE, self.LABEL, options=skip, rows=1)
        for first in "new,u1", "x,5", '"basic"x,u1':
            self.begins([], first + "\npro,u2\n", options=skip, rows=1)
        self.begins([], "basic,x\npro,1\n", self.PLAN, self.AGE, options=skip, rows=1)
        self.begins(['1: data.header: skip leaves this line out, but it names "plan" in field 2, which data.columns has in field 1; data.header'],
                    "user,plan\nu1,pro\n", options=skip, rows=1)
        for text in "404 Not Found", "plan,user,left,more\n", '{"error":"not found"\n':
            self.begins(["1: data.header: skip leaves this line out, and no row follows, but it has not the 3 fields of data.columns"], text, options=skip, rows=0)
        options = {"comment": "#"}
        self.begins(["1: this line begins with data.comment and is left out, but it reads like a row; if it is one, write its first field in quotes"],
                    "#u1,basic\nu1,basic\n#u2,basic\n", self.USER, self.PLAN, options=options, rows=1)
        self.begins(["3: this line begins with data.comment"], "#u1,x\nu1,basic\n#u2,basic\n", self.USER, self.PLAN, options=options, rows=1)
        self.begins(["1: a field in quotes of a column that is not read goes on over the ends of lines, and text follows its closing quote"],
                    'basic,"a\nb"c,u\n', self.PLAN, {"name": None, "kind": "ignore"}, self.USER, rows=1)

    def test_lines_that_are_no_rows_of_libsvm(self):
        keys = {"name": "f", "kind": "keys", "key": {"hash": False, "space": None, "buckets": None, "missing": "none", "max_values": 3}}

        def begins(expected, text, rows, label=self.LABEL):
            self.begins(expected, text, label, keys, rows=rows, options={"format": "libsvm"})

        none = "rows has a pair index:value, so all are rows of zeros; check that it is a file of libsvm, its first row is"
        empty = "is empty, and is no row; in a file without labels a row of zeros is written 0, as a label alone"
        no_label = "the label of this line is not a number, and no pair follows, so it has the score of a row of zeros: is it a row?"
        begins([f"1: {no_label}", f' none of its 2 {none} "y,f1"'], "y,f1\n1,5\n", 2)
        begins([], "# a\n\n0\n\n", 1)
        begins([f' none of its 2 {none} "0"'], "# a\n\n0\n0\n", 2)
        begins([f"2: {no_label}"], "1 1:1\nERROR\nOK\n? 1:1\n", 4)
        for rows in "no\n", "1\n":
            begins([], "1 1:1\n" + rows, 2, self.NAMED)
        begins([f"2: {no_label}"], "1 1:1\nNone\n", 2, self.NAMED)
        begins([], "1 1:1\n?\n1,2\n-1.5\n", 4)
        begins([], "test\ntest 1:1\n", 2)
        begins([], "0\n1 1:1\n\n0\n", 3)
        begins([], "", 0)
        begins([f"2: this line {empty}"], "1:1\n\n2:1\n", 2)
        begins([f"1: this line (and 2 more) {empty}"], "\n 1:1\n# b\n \t\r\n\n2:1\n\n", 2)
        begins([], "1:1\n# b\n2:1\n\n", 2)
        begins(["2: a byte order mark", "3: a NUL byte"], "1 1:1\n\ufeff1 1:1\n\0 1:1\n", 3)

    def test_bytes_that_no_text_has(self):
        self.begins(["2: a NUL byte, which is read like any other: is it text of UTF-16?"], "basic,u1\npro,u\0\n\0,\n")
        for line in "\0" * 8 + "pro,u", "pro,u" + "\0" * 8:
            self.begins(["2: this line has NUL bytes in a row, as a crash leaves them at the end of a file; remove them"], f"basic,u1\n{line}\n")


def columns(*specs, missing=("",), features=0):
    return reader.Encoding({"features": features, "missing": list(missing), "columns": list(specs)})


def number(name, feature, **how):
    return {"name": name, "kind": "number", "feature": feature, "width": 1,
            "number": {"shift": 0.0, "divisor": 1.0, "missing": None, **how}}


class EncodingTest(unittest.TestCase):
    def test_numbers_are_rounded_scaled_and_filled(self):
        e = columns(number("a", 0, shift=2.0, divisor=4.0, missing=10.0), number("b", 1, function="log1p", missing=0.0),
                    number("c", 2, function="log2"), features=3, missing=["?", ""])
        self.assertEqual(e.row_features({"a": " 0.1 ", "b": "", "c": "8"}), [reader.float32((reader.float32(0.1) - 2) / 4), 0.0, 3.0])
        self.assertEqual(e.row_features({"a": "?", "b": "-5", "c": ".5"}), [2.0, 0.0, 0.0])
        self.assertEqual(e.row_features([None, 1, 4.0]), [2.0, reader.float32(math.log1p(1)), 2.0])
        self.assertEqual(e.row_features({"a": float("nan"), "b": 1e-3, "c": "1e2"})[0], 2.0)

    def test_denormals_are_zeros(self):
        for arithmetic in ({}, {"arithmetic": "float64"}):
            e = reader.Encoding({"features": 3, "missing": [""], **arithmetic, "columns": [
                number("a", 0), number("b", 1, divisor=1e-300), number("c", 2, function="log1p")]})
            self.assertEqual(e.row_features(["-1.1e-38", "1e-310", "1e-40"]), [0.0, 0.0, 0.0])
            self.assertEqual(e.row_features(["1.2e-38", "0", "2e-38"]), [reader.float32(1.2e-38), 0.0, reader.float32(2e-38)])
            borders = {"buckets": {"encode": "id", "missing": None, "borders": [0.0, 1e-310, 1.0], "count": 4}}
            c = reader.column({"name": "x", "kind": "number", "feature": 0, "width": 4, **borders}, [""], bool(arithmetic))
            self.assertEqual([c.encode(x) for x in ("-1e-310", "0", "-1")], [3, 3, 1])

    def test_what_is_no_number_is_an_error_that_names_the_column(self):
        e = columns(number("age", 0), features=1)
        for field, why in (("4x", "not a number"), ("nan", "not a number"), ("1_000", "not a number"), ("", "missing"),
                           *((text, f'column "age": "{text}" is too large') for text in ("1e39", "1e309", "-1e400", "9" * 400))):
            with self.assertRaisesRegex(reader.ModelError, why):
                e.row_features({"age": field})
        with self.assertRaisesRegex(reader.ModelError, 'no column "age"'):
            e.row_features({"other": 1})

    def test_buckets_begin_at_their_borders(self):
        def bucket(field, **how):
            return reader.column({"name": "x", "kind": "number", "feature": 0, "width": 3,
                                  "buckets": {"encode": "id", "missing": None, **how}}, [""]).encode(field)
        borders = {"borders": [18.0, 30.5], "count": 3}
        self.assertEqual([bucket(f, **borders) for f in ("17.9", "18", "30.4", "30.5", "1000", "")], [1, 2, 2, 3, 3, 0])
        squared = {"log_squared": -2, "count": 9}
        self.assertEqual([bucket(f, **squared) for f in ("-2", "-1.9", "0", "2", "2.1", "10", "1e9", "-99", "")],
                         [1, 2, 3, 5, 6, 9, 9, 1, 0])
        self.assertEqual(bucket("", **{**squared, "missing": 0.0}), 3)
        self.assertEqual(bucket("18", **borders, refuses_missing=True), 2)
        with self.assertRaisesRegex(reader.ModelError, 'column "x": "" is missing, and training refused rows without this number'):
            bucket("", **borders, refuses_missing=True)

    def test_categories_know_their_words_and_a_missing_value_is_one(self):
        spec = {"name": "town", "kind": "category", "feature": 0, "width": 3,
                "category": {"encode": "one_hot", "words": ["Rome", "?", {"hex": "ff41"}]}}
        e = columns(spec, missing=["?", "NA"], features=3)
        for field, want in (("Rome", [1, 0, 0]), ("NA", [0, 1, 0]), (None, [0, 1, 0]), ("Oslo", [0, 0, 0]), (b"\xffA", [0, 0, 1])):
            self.assertEqual(e.row_features({"town": field}), want)
        no_value = type("NAType", (), {"__ne__": lambda *_: 1 / 0})()  # as pandas.NA, which refuses to be compared
        for missing in (float("nan"), decimal.Decimal("nan"), no_value):  # numpy's and pandas' differ from themselves, too
            self.assertEqual(e.row_features({"town": missing}), [0, 1, 0], type(missing))
        spec["category"]["words"] = ["1.5", "?", "7"]
        float64 = type("float64", (float,), {"__repr__": lambda self: "np.float64(1.5)"})  # as numpy 2 shows it
        self.assertEqual(columns(spec, missing=["?"], features=3).row_features([float64(1.5)]), [1, 0, 0])
        spec["category"]["words"] = ["Rome", "?", {"hex": "ff41"}]
        spec["category"]["encode"], spec["width"] = "id", 1
        self.assertEqual([columns(spec, missing=["?"], features=1).row_features([f])[0] for f in ("Rome", "Oslo")], [1, 0])

    def test_lists_have_weights_missing_values_and_a_limit(self):
        def keys(field, **how):
            how = {"hash": False, "space": None, "buckets": None, "missing": "none", "separator": "|", "max_values": 3,
                   "weights": True, **how}
            return reader.column({"name": "t", "kind": "keys", "key": how}, ["", "-"]).encode(field)
        self.assertEqual(keys("7:0.5|8"), [(7, 0.5), (8, 1.0)])
        self.assertEqual(keys(""), [])
        self.assertEqual(keys("1||-:3|2:-1"), [(1, 1.0), (2, -1.0)])
        self.assertEqual(keys("9||", missing="key", missing_key="12", buckets="10"), [(9, 1.0), (2, 1.0), (2, 1.0)])
        self.assertEqual(keys(str(2**64 - 1)), [(2**64 - 1, 1.0)])
        for field in ("1|2|3|4", "a", "-1", str(2**64), "5:x", "5:1e39", "5:-1e400"):
            with self.assertRaises(reader.ModelError, msg=field):
                keys(field)


class RowsTest(unittest.TestCase):
    """Values that are no rows or no fields are refused: they were scored as if they were some."""
    WORD = {"name": "b", "kind": "category", "feature": 1, "width": 2, "category": {"encode": "one_hot", "words": ["1", "2"]}}
    LABEL = {"name": "y", "kind": "label"}

    def setUp(self):
        self.first, self.last = (columns(*of, missing=["?"], features=3)
                                 for of in ((self.LABEL, number("a", 0), self.WORD), (number("a", 0), self.WORD, self.LABEL)))

    def test_a_row_is_a_dict_or_a_list_of_all_fields_with_or_without_the_label(self):
        row = collections.namedtuple("row", "Index a b")(0, 5, "2")  # as DataFrame.itertuples makes it
        for given in ({"a": 5, "b": "2"}, row, [5, "2"]):
            self.assertEqual(self.first.row_features(given), [5, 0, 1])
            self.assertEqual(self.last.row_features(given), [5, 0, 1])
        self.assertEqual(self.first.row_features(["0", 5, "2"]), self.last.row_features([5, "2", "0"]))
        for wrong, why in (([5], "a row has 1 fields, the model's columns are 3"), ([5, "2", "0", "junk"], "has 4 fields"),
                           ("52", "a row is a str"), (b"52", "a row is a bytes"), (5, "a row is a int")):
            with self.assertRaisesRegex(reader.ModelError, why):
                self.first.row_features(wrong)

    def test_rows_are_a_list(self):
        frame = type("DataFrame", (), {"to_dict": None, "__iter__": lambda self: iter("ab")})()
        for wrong, why in (({"a": 5, "b": "2"}, "the rows are a dict: give a list of rows, \\[row\\]"), ("5,2", "the rows are a str"),
                           (frame, 'the rows are a DataFrame: give a list of rows, df.to_dict\\("records"\\)'),
                           (["5,2", "6,1"], "a row is a str \\('5,2'\\)")):
            with self.assertRaisesRegex(reader.ModelError, why):
                self.first.rows(wrong)

    def test_a_whole_float_is_no_word_of_whole_numbers(self):
        encode = reader.column(self.WORD, ["?"]).encode
        with self.assertRaisesRegex(reader.ModelError, 'column "b": "1.0" is a float, and .*: give "1", the text of the vocabulary'):
            encode(1.0)
        self.assertEqual([encode(f) for f in (1, "1", "1.0", 7.0, 1.5, float("nan"))], [1, 1, 0, 0, 0, 0])
        key = {"hash": True, "space": "k", "buckets": None, "missing": "none"}
        for how in (key, {**key, "separator": "|", "max_values": 3}):
            encode = reader.column({"name": "b", "kind": "key", "key": how}, ["?"]).encode
            with self.assertWarnsRegex(UserWarning, 'column "b": a float is looked up as "1.0"; if .* have "1", give that text'):
                self.assertEqual(encode(1.0), encode("1.0"))
            self.assertEqual(encode(1), encode("1"))
        for field in ([1], ("1", "2"), {"1"}):
            with self.assertRaisesRegex(reader.ModelError, "give a text, a number, or None"):
                encode(field)


class LayersTest(unittest.TestCase):
    def test_each_layer_and_activation_of_a_job_is_known(self):
        header = (ROOT / "job/layer.h").read_text()
        kinds = re.findall(r"X\([A-Z0-9_]+, (\w+), ", header)
        self.assertIn("conv2d", kinds)
        ours = {name for name in vars(reader.NumpyLayers) if not name.startswith("_")}
        elsewhere = {"add", "concatenate", "embedding_bag", "linear"}  # of several inputs, or a table
        self.assertEqual(set(kinds) - elsewhere, ours)
        words = re.findall(r'\{"(\w+)", ACT_', (ROOT / "job/table_model.c").read_text())
        self.assertEqual(set(words), set(reader.ACTIVATIONS))


ROWS = """number,bucket,word,user,town,tags,label
0.5,3,red,anna,rome,a:2 b,1
,12,blue,,oslo,c,0
1e2,,"green, or not",bob,,,1
-3,7,unseen,carl,oslo,a a:-1 d:0.25,0
"""
MIXED = """
name: mixed
data:
  format: csv
  header: names
  train: train.csv
  eval: train.csv
  columns:
    - number: {name: number, scale: standard}
    - number: {name: bucket, buckets: {borders: [5, 10]}}
    - category: word
    - key: {name: user, missing: none}
    - key: town
    - keys: {name: tags, separator: " ", max_values: 4, weights: true}
    - cross: {name: both, of: [user, town]}
    - label: label
model:
  input: {shape: auto}
  layers:
    - embedding_bag: {inputs: tags, output_dim: 3, name: bag}
    - linear: {inputs: [user, both], name: wide}
    - dense: {inputs: [bag, wide, number, bucket, word], units: 4, activation: tanh}
    - batch_normalization
    - dense: {units: 1, activation: sigmoid}
  loss: binary_crossentropy
optimizer: adam
training: {epochs: 5, batch_size: 2, microbatches: 1, monitor: loss}
"""


@unittest.skipUnless(NUMPY, "this Python has no numpy")
class ScoreTest(TrainCase):
    """All other layers and encodings: tests/interop/python_test.py."""

    KEYS = {}

    def test_a_trained_model_has_the_scores_of_predict(self):
        (self.tmp / "job.yaml").write_text(MIXED)
        (self.tmp / "train.csv").write_text(ROWS.replace("unseen", "red"))
        (self.tmp / "new.csv").write_text(ROWS)
        self.train(job=self.tmp / "job.yaml")
        got = subprocess.run([MODEL, "predict", self.out, self.tmp / "new.csv"], check=True, capture_output=True, text=True,
                             timeout=DEADLINE_S).stdout.split()
        model = reader.load(self.out)
        rows = list(model.read(self.tmp / "new.csv"))
        self.assertEqual({c.below for c in model.encoding.fields}, {2})
        scores = model.predict(rows)
        self.assertEqual((got[0], scores.shape), ("score", (4, 1)))
        for ours, theirs in zip(scores[:, 0], got[1:]):
            self.assertAlmostEqual(float(ours), float(theirs), delta=1e-5)
        without = [{name: field for name, field in row.items() if name != "label"} for row in rows]
        self.assertTrue((model.predict(without) == scores).all())
        with self.assertWarnsRegex(UserWarning, 'none of 20 rows has a word of its vocabulary, such as "'):
            model.predict([{**rows[0], "word": "Red"}] * 20)
        self.assertEqual(model.manifest["digest"], self.summary()["digest"])
        best = reader.load(self.out / "best")  # encoding.json is in model/
        self.assertEqual(best.predict(rows).shape, (4, 1))
        self.assertEqual(best.manifest["eval"]["loss"], min(e["eval"]["loss"] for e in map(
            json.loads, (self.out / "history.jsonl").read_text().splitlines())))

    def test_a_model_without_a_manifest_is_an_error_that_says_what_to_do(self):
        self.train(job=ROOT / "examples/mnist/mlp.yaml", keys={"data.synthetic_train_rows": 64, "training.epochs": 1})
        manifest = self.out / "model/manifest.json"
        manifest.write_text('{"format": 0,' + manifest.read_text()[1:])
        with self.assertRaisesRegex(reader.ModelError, 'model/manifest.json: the key "format" occurs twice'):
            reader.load(self.out)
        manifest.unlink()
        with self.assertRaisesRegex(reader.ModelError, "no manifest.json: run `gradwire train`"):
            reader.load(self.out)
        with self.assertRaisesRegex(reader.ModelError, "no weights.safetensors"):
            reader.load(self.tmp)


class PairsTest(unittest.TestCase):
    def test_rows_of_libsvm_that_no_file_can_have_are_errors(self):
        model = reader.Model.__new__(reader.Model)
        model.data = {"format": "libsvm"}
        model.encoding = columns({"name": "y", "kind": "label"}, {"name": "f", "kind": "keys", "key": {
            "hash": False, "space": None, "buckets": "10", "missing": "none", "max_values": 3}})
        keys = lambda row: model._keys(model.encoding.rows([row]), "f")[0]
        top = 2**64 - 1
        for pairs in [], [(1, 0.5), (12, 2)], [[1.0, 1]], ((3, 1), (2, True), (top, -1)), zip([1], [2.0]):
            given = list(pairs)
            self.assertEqual(keys({"f": given if isinstance(pairs, zip) else pairs}), [(int(i) % 10, float(w)) for i, w in given])
        for pair in (1, math.nan), (1, math.inf), (1, None), (1, "1"), (1, 1e39), (1.7, 1), (-1, 1), (2**64, 1), ("1", 1), (None, 1), (1,), 1, math.nan:
            with self.subTest(pair), self.assertRaisesRegex(reader.ModelError, re.escape(f'column "f": {pair!r} is not (index, value)')):
                keys({"f": [(0, 1), pair]})
        for given, shown in ((None, "None"), ("1:2", "'1'"), (5, "5"), ({1: 2.0}, "1")):
            with self.assertRaisesRegex(reader.ModelError, f'column "f": {shown} is not \\(index'):
                keys({"f": given})
        with self.assertRaisesRegex(reader.ModelError, 'column "f": a row has more than max_values: 3 pairs'):
            keys({"f": [(1, 1)] * 4})


@unittest.skipUnless(NUMPY, "this Python has no numpy")
class ArrayTest(unittest.TestCase):
    """Arrays that predict refuses as files, or warns of."""

    def setUp(self):
        self.model = reader.Model.__new__(reader.Model)
        self.model.encoding, self.model.spec, self.model.data = None, {"input": [2, 3, 3], "divisor": 255.0}, {"format": "npy"}

    def said(self, rows):
        with warnings.catch_warnings(record=True) as got:
            warnings.simplefilter("always")
            self.model.encode(rows)
        return [str(w.message) for w in got]

    def refused(self, said, rows):
        with self.assertRaisesRegex(reader.ModelError, said):
            self.said(rows)

    def test_the_shape_of_a_row_is_that_of_the_model(self):
        import numpy as np
        x = np.arange(90).reshape(5, 2, 3, 3)
        for rows in x, x.tolist(), x.reshape(5, 18), x[..., None], x.reshape(5, 1, 2, 3, 3), np.ma.array(x):
            got, _ = self.model.encode(rows)
            self.assertEqual((got * 255).round().tolist(), x.tolist())
        shape = r"the array has rows of shape \[{}\], model.input.shape is \[2, 3, 3\]"
        for rows, of in ((x.transpose(0, 3, 1, 2), "3, 2, 3"), (x.reshape(5, 6, 3), "6, 3"), (x[0], r"3, 3"), (x[0].ravel(), ""), (x[0, 0, 0, 0], "")):
            self.refused(shape.format(of), rows)
        self.refused(r"; one row is array\[None\]", x[0])
        self.model.spec["input"] = [2, 2, 1]
        self.assertEqual(self.model.encode(x[:, :, :2, 0])[0].shape, (5, 2, 2, 1))
        self.assertEqual(self.model.encode([])[0].shape, (0, 2, 2, 1))
        self.model.spec["input"] = [1]
        self.assertEqual(self.model.encode([1, 2])[0].shape, (2, 1))

    def test_numbers_are_finite(self):
        import numpy as np
        self.model.spec["input"] = [2]
        for bad in np.nan, -np.inf, None, 1e39:
            self.refused(r"the number at \[1, 0\] of the array is masked, not finite, or beyond 32-bit floats", [[1.0, 2.0], [bad, 3.0]])
        with self.assertRaisesRegex(reader.ModelError, r"the number at \[2, 1\] "):
            self.model.encode([[1.0, np.nan]], 2)
        self.refused(r"the number at \[1, 0\] .* masked", np.ma.array([[1, 2], [3, 4]], mask=[[0, 0], [1, 0]]))
        for rows in ["a", "b"], [[1, 2], [3]], [{"a": 1}, {"a": 2}]:
            self.refused("the rows are no array of numbers: ", rows)
        with self.assertRaisesRegex(reader.ModelError, r"x.npy: the rows of this model are arrays \(data.format: npy\)"):
            self.model.read("x.npy")

    def test_floats_that_are_scaled_already_are_warned_of(self):
        import numpy as np
        x, self.model.spec["input"] = np.linspace(0, 1, 40).reshape(20, 2), [2]
        self.assertEqual(self.said(x), ["the array has floats up to 1, and data.scale: 255 divides them again; give the numbers as they "
                                        "were before they were scaled"])
        for rows in np.ones((20, 2), np.uint8), np.ones((20, 2), bool), [[0, 1]] * 20:
            self.assertIn("the array has integers up to 1, and data.scale: 255 divides them again", self.said(rows)[0])
        for rows in x * 1.01, x * 0, x[:19], np.full((20, 2), 2, np.uint8):
            self.assertEqual(self.said(rows), [])
        self.model.spec["divisor"] = 2.0
        self.assertEqual(self.said(x), [])


@unittest.skipUnless(NUMPY, "this Python has no numpy")
class TableTest(unittest.TestCase):
    def test_the_first_values_are_those_of_the_page_about_tables(self):
        import numpy as np
        table = object.__new__(reader.Table)
        table.name, table.dim = "ids", 2
        table.spec = {"seed": "1", "absent": "initial", "initializer": {"random_uniform": {"minval": -0.05, "maxval": 0.05}}}
        got = table.absent(np.array([1], np.uint64))[0]
        self.assertEqual([f"{x:.6f}" for x in got], ["0.030486", "0.047244"])

    def test_many_rows_without_a_number_or_with_unknown_keys_are_warned_of(self):
        import numpy as np
        user = {"name": "user", "kind": "key", "key": {"hash": False, "space": None, "buckets": None, "missing": "none"}}
        lookup = {"layer": "l", "table": "ids", "columns": ["user"], "combine": "sum", "output": "sum", "bias": False}
        model, table = object.__new__(reader.Model), object.__new__(reader.Table)
        table.name, table.dim, table.spec = "ids", 1, {"seed": "1", "absent": "initial", "initializer": {"zeros": {}}}
        table.parts = [{"keys": np.arange(50, dtype=np.uint64), "rows": np.ones(50, np.float32)}]
        model.data, model.tables = {"format": "csv"}, {"ids": table}
        model.encoding = reader.Encoding({"features": 1, "missing": [""], "columns": [number("age", 0, missing=1.0), user], "lookups": [lookup]})

        def said(rows):
            with warnings.catch_warnings(record=True) as got:
                warnings.simplefilter("always")
                model.encode(rows)
            self.assertEqual({w.filename for w in got} - {__file__}, set())
            return [str(w.message) for w in got]

        none = 'column "age": none of 20 rows has a number, so all are missing'
        keys = ('column "user": of 20 lookups in table ids, 0 find a row: the model has not learned keys such as 100. Check that the '
                "values are written as in training (case, blanks, prefixes)")
        known, ages, unknown = ([{"age": age, "user": str(first + i)} for i in range(20)] for age, first in (("", 0), ("1", 0), ("1", 100)))
        self.assertEqual([said(known), said(ages), said(unknown)], [[none], [], [keys]])
        self.assertEqual([said(known[:19]), said(unknown[:19]), said(unknown[:19] * 9), said(unknown + known[:1])], [[]] * 4)
        self.assertRegex(said(unknown * 5 + known[:1])[0], "of 101 lookups in table ids, 1 find a row")
        self.assertEqual(said([*known[1:], ages[0]]), [])
        table.spec["absent"] = "zeros"
        self.assertEqual(said(unknown), [])

    def test_lists_whose_labels_are_none_are_warned_of_as_rows_of_files(self):
        import numpy as np
        label = {"name": "y", "kind": "label", "classes": ["0", "1"]}
        model = object.__new__(reader.Model)
        model.data, model.tables, model.layers, model.weights = {"format": "csv"}, {}, [{"shape": [2]}], {}
        model.score = lambda x, vectors: x

        def said(classes, *labels):
            model.encoding = reader.Encoding({"features": 2, "missing": [""], "columns": [
                number("a", 0, missing=1.0), number("b", 1, missing=1.0), {**label, "classes": classes}]})
            with warnings.catch_warnings(record=True) as got:
                warnings.simplefilter("always")
                model.predict([[1, 2, *label] for label in labels])
            self.assertEqual({w.filename for w in got} - {__file__}, set())
            return [str(w.message) for w in got]

        for text in "3", 3, 3.0, np.float32(3), b"3":
            self.assertEqual(said(["0", "1"], [text], ["0.5"], [1]), ['2 of 3 rows have no label in the label\'s field, the first has "3": check the '
                                                                     "order of the columns"])
        for labels in ([0], [1.0], [True]), ([np.int64(0)], [" 1 "], [np.float64(1)]), ([None], ["?"], [float("nan")]), ([], []), ([[]], [{}]), (["x"], ["x"]):
            self.assertEqual(said(["0", "1"], *labels), [])
        self.assertEqual(said(["0", "*"], ["x"], ["y"]), [])
        self.assertEqual(len(said(None, ["x"], ["y"])), 1)
        self.assertEqual(len(said(["0", "1"], *[["x"], ["y"]] * 300)), 1)


if __name__ == "__main__":
    unittest.main()
