#!/usr/bin/env python3
"""The executables of a release build have the protections that make a fault harder to use. The script that checks this, which
the image's build runs too, names each protection that a program lacks."""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, LAUNCH, PS, ROOT, WORKER, Case  # noqa: E402

SCRIPT = ROOT / "k8s/hardened"
PROGRAMS = (PS, WORKER, LAUNCH, BUILD / "k8s/entrypoint")
CACHE = (BUILD / "CMakeCache.txt").read_text()
RELEASE = "CMAKE_BUILD_TYPE:STRING=Release\n" in CACHE
ALL = ["-O2", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong", "-fPIE", "-pie", "-Wl,-z,relro,-z,now,-z,noexecstack"]
MARKED = {"-fcf-protection(=full|=branch)?": "IBT", "-fcf-protection(=full|=return)?": "SHSTK",
          "-mbranch-protection=.*(standard|bti).*": "BTI"}
SOURCE = """#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) { char text[64]; strcpy(text, argv[argc - 1]); return puts(text); }
""" + "".join(f"int f{i}(int x) {{ return x + {i}; }} int (*volatile p{i})(int) = f{i};\n" for i in range(40))


class HardeningTest(Case):
    def lacks(self, *files):
        got = subprocess.run([SCRIPT, *files], capture_output=True, text=True)
        self.assertEqual(got.returncode, 1 if got.stderr else 0)
        return got.stderr.splitlines()

    def compiled(self):
        """(file, words of the command) of each source."""
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        self.assertGreater(len(commands), 100)
        return [(command["file"], shlex.split(command["command"])) for command in commands]

    @unittest.skipUnless(RELEASE, "of a release build alone")
    def test_the_executables_have_all_of_it(self):
        self.assertEqual(self.lacks(*PROGRAMS), [])

    @unittest.skipUnless(RELEASE, "of a release build alone")
    def test_every_source_is_compiled_with_it(self):
        """Of stack clash protection an executable shows nothing, and of the others not whether every file has it."""
        wanted = ["-D_FORTIFY_SOURCE=[23]", "-fstack-protector-strong", "-fstack-clash-protection", "-fPI[CE]", "-O3"]
        for file, words in self.compiled():
            for flag in wanted:
                self.assertTrue(any(re.fullmatch(flag, word) for word in words), f"{file}: {flag}")

    @unittest.skipUnless(RELEASE, "of a release build alone")
    def test_a_flag_that_needs_a_mark_in_the_program_is_used_only_where_the_program_has_it(self):
        """The processor checks landing pads and shadow stacks only in programs whose every object is marked. The linker leaves
        the mark out if one object, as the C library's start files, lacks it; the flag then only makes the program larger."""
        flags = {word for _, words in self.compiled() for word in words}
        for program in PROGRAMS:
            notes = subprocess.run(["readelf", "-nW", program], capture_output=True, text=True, check=True).stdout
            marks = set(re.findall(r"\b(?:IBT|SHSTK|BTI)\b", notes))
            for flag, mark in MARKED.items():
                used = [word for word in flags if re.fullmatch(flag, word)]
                with self.subTest(program=program.name, flags=used):
                    self.assertTrue(mark in marks or not used, f"no mark {mark}")

    @unittest.skipUnless(shutil.which("gcc"), "gcc is not there")
    def test_what_a_program_lacks_is_named(self):
        source, program = self.tmp / "a.c", self.tmp / "a"
        source.write_text(SOURCE)

        def built(*flags):
            subprocess.run(["gcc", "-w", source, "-o", program, *flags], check=True)
            return self.lacks(program)
        self.assertEqual(built(*ALL), [])
        for without, words in ((["-no-pie", "-fno-pie"], "-fPIE"), (["-Wl,-z,norelro"], "-z relro"),
                               (["-Wl,-z,lazy"], "-z now"), (["-Wl,-z,execstack"], "-z noexecstack"),
                               (["-fno-stack-protector"], "-fstack-protector-strong"),
                               (["-U_FORTIFY_SOURCE"], "_FORTIFY_SOURCE")):
            flags = [f for f in ALL if not (f.startswith("-Wl") and without[0].startswith("-Wl"))]
            got = built(*flags, *without)
            self.assertTrue(any(words in line for line in got), f"{without}: {got}")
        self.assertIn("a file to look at", self.lacks(self.tmp / "none")[0])


if __name__ == "__main__":
    unittest.main()
