#!/usr/bin/env python3
"""libgradwire-predict as other programs see it: the symbols that it exports, the libraries that it needs, a header for C and C++,
pkg-config, the manual page. docs/guides/predict-c.md has a program that uses it, which pages_test.py runs.
labels: short"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, DEADLINE_S, ROOT, Case  # noqa: E402

LIBRARY, HEADER = BUILD / "predict/libgradwire-predict.so.0", ROOT / "predict/gradwire-predict.h"
VERSION = re.search(r'GRADWIRE_VERSION "(.*)"', (ROOT / "common/base/version.h").read_text())[1]
# libcrypto: the job's identity; libzstd: the codecs of a job file.
NEEDED = {"libopenblas.so.0", "libyaml-0.so.2", "libjansson.so.4", "libxxhash.so.0", "libcrypto.so.3", "libzstd.so.1",
          "libm.so.6", "libc.so.6"}
SANITIZERS = {"libasan", "libubsan", "libtsan", "libgcc_s"}

USE = """
#include "gradwire-predict.h"
int main(void)
{
    struct gradwire_value v[1];
    v[0].type = GRADWIRE_VALUE_NUMBER;
    v[0].as.number = 1;
    return gradwire_version()[0] == 0 || v[0].as.number < 1;
}
"""


def run(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, timeout=DEADLINE_S, **options).stdout


def functions(text):
    return set(re.findall(r"\b(gradwire_\w+)\(", re.sub(r"/\*.*?\*/", "", text, flags=re.S)))


class PredictLibraryTest(Case):
    PROGRAMS = True

    def test_it_exports_the_functions_of_its_header_and_nothing_else(self):
        exported = run("nm", "-D", "--defined-only", LIBRARY).split("\n")[:-1]
        names = {line.split()[-1] for line in exported} - {"GRADWIRE_PREDICT_1", "GRADWIRE_PREDICT_2"}
        added = {f"gradwire_scorer_{name}" for name in ("begin_file", "record_bytes", "add_record")}
        self.assertEqual(names, {f"{name}@@GRADWIRE_PREDICT_{1 + (name in added)}" for name in functions(HEADER.read_text())})
        self.assertGreater(len(names), 25)

    def test_it_needs_no_more_libraries_than_it_uses(self):
        said = run("readelf", "-d", LIBRARY)
        self.assertEqual(re.findall(r"\(SONAME\).*\[(.*)\]", said), ["libgradwire-predict.so.0"])
        needed = {name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", said) if name.split(".")[0] not in SANITIZERS}
        self.assertEqual(needed - {"ld-linux-x86-64.so.2"} - NEEDED, set())

    def test_its_header_is_c11_and_cpp11_without_a_warning(self):
        flags = "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{HEADER.parent}", "-fsyntax-only"
        for compiler, standard, name in (("cc", "c11", "use.c"), ("c++", "c++11", "use.cc")):
            (self.tmp / name).write_text(USE)
            run(compiler, f"-std={standard}", *flags, self.tmp / name)

    @unittest.skipIf(BUILD != ROOT / "build", "a program without a sanitizer cannot load the library with one")
    def test_a_program_finds_it_by_pkg_config(self):
        prefix, program = self.tmp / "prefix", self.tmp / "use"
        run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "library")
        self.assertEqual(sorted(str(p.relative_to(prefix)) for p in prefix.rglob("*") if not p.is_dir()), [
            "include/gradwire-predict.h", "lib/libgradwire-predict.so", "lib/libgradwire-predict.so.0",
            f"lib/libgradwire-predict.so.{VERSION}", "lib/pkgconfig/gradwire-predict.pc", "share/man/man3/libgradwire-predict.3"])
        where = {"PATH": "/usr/bin:/bin", "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
        self.assertEqual(run("pkg-config", "--modversion", "gradwire-predict", env=where).strip(), VERSION)
        (self.tmp / "use.c").write_text(USE)
        flags = run("pkg-config", "--cflags", "--libs", "gradwire-predict", env=where).split()
        run("cc", "-o", program, self.tmp / "use.c", *flags)
        run(program, env={"LD_LIBRARY_PATH": str(prefix / "lib")})

    def test_its_manual_page_has_every_function(self):
        page = ROOT / "predict/libgradwire-predict.3"
        synopsis = page.read_text().split("\n.Sh ")[2]
        self.assertEqual(set(re.findall(r"^\.F[no] (\w+)", synopsis, re.M)), functions(HEADER.read_text()))
        if shutil.which("mandoc"):
            self.assertEqual(run("mandoc", "-Tlint", "-Wwarning", page), "")


if __name__ == "__main__":
    unittest.main()
