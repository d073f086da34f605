#!/usr/bin/env python3
"""Each rule of house.py, green and then red, on a small tree in a temporary folder."""
import os
import tempfile
import unittest

import house

FLOORS = """# a comment
common/base | errors |
common/net | connections | common/base
ps/core | decisions | common/base
ps | the shell | common/* ps/core
"""
FILES = {
    "common/base/err.h": "#include <stdint.h>\nint err_of(int e);\n",
    "common/base/err.c": '#include <unistd.h>\n#include "common/base/err.h"\n',
    "common/net/conn.h": '#include "common/base/err.h"\n',
    "common/net/conn.c": '#include <pthread.h>\n#include "common/net/conn.h"\n',
    "ps/core/gate.h": '#include "common/base/err.h"\n',
    "ps/core/gate.c": '#include <stdio.h>\n#include "ps/core/gate.h"\nint f(char *s) { return snprintf(s, 3, "printf ssp"); }\n',
    "ps/core/gate_ssp.h": "int ssp_turn(void);\n",
    "ps/main.c": '#include "common/net/conn.h"\n#include "ps/core/gate.h"\n',
    house.FLOORS: FLOORS,
    house.MODES: "ps/core/gate.? | ssp|top_k\n",
}
LONG = "".join(f"    x[{i}] = y + {i};\n" for i in range(13))


class HouseTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for path, text in FILES.items():
            self.write(path, text)
        self.write_map()
        self.assertEqual(house.check(self.root), [])

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def write_map(self):
        lines = house.map_of(house.floors_load(self.root)[0])
        self.write(house.DESIGN, "\n".join(["# Design", house.MAP_BEGIN, *lines, house.MAP_END, ""]))

    def add(self, path, text):
        self.write(path, FILES[path] + text)

    def floors(self, old, new):
        self.assertIn(old, FLOORS)
        self.write(house.FLOORS, FLOORS.replace(old, new))
        self.write_map()

    def red(self, *wanted):
        """Exactly these errors, each by its beginning."""
        found = house.check(self.root)
        self.assertEqual(len(found), len(wanted), found)
        for error, begin in zip(sorted(found), sorted(wanted)):
            self.assertTrue(error.startswith(begin), f"{error!r} does not begin with {begin!r}")

    def test_an_include_that_the_table_does_not_allow(self):
        self.add("common/net/conn.h", '#include "ps/core/gate.h"\n')
        self.red("common/net/conn.h:2: includes ps/core/gate.h: tests/lint/floors.txt:3 does not allow common/net",
                 "common/net/conn.h:2: includes ps/core/gate.h: no other file includes a program's")

    def test_an_include_in_a_comment_is_none(self):
        self.add("common/net/conn.h", '/*\n#include "ps/core/gate.h"\n*/\n')
        self.red()

    def test_an_edge_or_a_folder_of_the_table_that_is_not_there(self):
        self.floors("| common/* ps/core", "| common/net ps/core common/base")
        self.red("tests/lint/floors.txt:5: no file of ps includes common/base")
        self.floors("ps | the", "ps/http | pages |\nps | the")
        self.red("tests/lint/floors.txt:5: there is no folder ps/http")

    def test_a_folder_that_is_not_in_the_table(self):
        self.write("ps/http/page.c", "")
        self.red("ps/http/: it is not in tests/lint/floors.txt")

    def test_a_table_with_a_circle(self):
        self.floors("errors |", "errors | common/net")
        self.red("tests/lint/floors.txt:2: common/base may include common/net only if that stands above it",
                 "tests/lint/floors.txt:2: no file of common/base includes common/net")
        self.floors("ps | the shell", "ps/core | decisions |\nps | the shell")
        self.red("tests/lint/floors.txt:5: ps/core is there twice")
        self.floors("ps | the shell |", "ps | the shell\nps | the shell |")
        self.red("tests/lint/floors.txt:5: a line is: folder | what it is | folders")

    def test_a_program_that_knows_another(self):
        self.write("launch/main.c", '#include "ps/core/gate.h"\n')
        self.floors("ps | the", "launch | the launcher | ps/core\nps | the")
        self.red("launch/main.c:1: includes ps/core/gate.h: no other file includes a program's")

    def test_a_core_that_reaches_what_it_may_not(self):
        self.add("common/base/err.h", "#include <sys/types.h>\n")
        reached = "a core reaches sys/types.h by common/base/err.h"
        self.red(f"ps/core/gate.h:1: {reached}", "ps/core/gate.c:2: a core reaches sys/types.h by ps/core/gate.h, common")

    def test_a_core_that_includes_a_connection(self):
        self.floors("decisions | common/base", "decisions | common/base common/net")
        self.add("ps/core/gate.c", '#include "common/net/conn.h"\n')
        self.red("ps/core/gate.c:4: a core reaches common/net/conn.h:")

    def test_a_core_that_prints(self):
        self.add("ps/core/gate.c", 'void g(void) { fprintf(stderr, "x"); }\n')
        self.red("ps/core/gate.c:4: a core does no I/O: fprintf", "ps/core/gate.c:4: a core does no I/O: stderr")
        self.add("ps/core/gate.c", "")
        self.add("ps/core/gate.h", "#include <stdio.h>\n")
        self.red("ps/core/gate.h:2: a core reaches stdio.h: ")

    def test_a_circle_of_calls_in_a_core(self):
        self.add("ps/core/gate.h", "void gate_open(int x);\nstruct door { void (*open)(int x); };\n")
        self.add("ps/core/gate.c", "void gate_open(int x)\n{\n    door_open(x);\n}\n")
        door = "static void shut(void)\n{\n}\nconst struct door door = {gate_open};\nvoid door_open(int x)\n{\n"
        self.write("ps/core/door.c", door + "    shut();\n}\n")
        self.red()
        self.write("ps/core/door.c", door + "    gate_open(x);\n}\n")
        self.red("ps/core/: calls in a circle: ps/core/door.c:7 (gate_open) -> ps/core/gate.c:6 (door_open): one")

    def test_an_error_that_may_be_dropped(self):
        self.add("common/net/conn.h", "enum err conn_send(int fd,\n    int n) MUST_CHECK;\nenum err err_set(int e);\n")
        self.red()
        self.add("common/net/conn.h", "enum err conn_send(int fd,\n    int n);\n")
        self.red("common/net/conn.h:2: conn_send returns an enum err: its declaration ends with MUST_CHECK")

    def test_a_mode_that_names_another(self):
        self.add("ps/core/gate.c", "int a_ssp, lisp, SHARD_TOP_K; /* ssp */\n")
        self.red("ps/core/gate.c:4: a_ssp belongs to another mode (tests/lint/modes.txt:1)",
                 "ps/core/gate.c:4: SHARD_TOP_K belongs to another mode")
        self.add("ps/core/gate.c", '#include "ps/core/gate_ssp.h"\n')
        self.red("ps/core/gate.c:4: gate_ssp belongs to another mode")
        self.add("ps/core/gate.c", "")
        self.write(house.MODES, "ps/gate_*.c | ssp\n")
        self.red("tests/lint/modes.txt:1: no file is ps/gate_*.c")

    def test_a_name_in_dir_that_is_spelled_elsewhere(self):
        self.write(house.OUTPUT, '#define OUTPUT_LOCK "lock"\n#define OUTPUT_EVAL "eval.json"\n')
        self.write(house.FLOORS, FLOORS.replace("common/net |", "common/process | files |\ncommon/net |"))
        self.write_map()
        self.add("ps/core/gate.c", 'const char *a = "%s/lock", *b = "eval.json", *c = "lock", *d = "the lock/x", *e = OUTPUT_LOCK;\n')
        self.red('ps/core/gate.c:4: "%s/lock" names a file in DIR', 'ps/core/gate.c:4: "eval.json" names a file in DIR')

    def test_lines_that_stand_twice(self):
        self.add("ps/core/gate.c", f"void g(void)\n{{\n{LONG}}}\n")
        self.add("common/base/err.c", f"void h(void)\n{{\n\n{LONG.replace('    ', '  ')} // why\n}}\n")
        self.red("ps/core/gate.c:6: 13 lines stand at common/base/err.c:6 too")
        self.add("ps/core/gate.c", f"{LONG}{LONG}")
        self.red("ps/core/gate.c:4: 13 lines stand at common/base", "ps/core/gate.c:17: 13 lines stand at common/base")
        self.add("ps/core/gate.c", LONG.replace("x[6]", "z[6]"))
        self.red()

    def test_a_folder_of_too_many_files(self):
        for i in range(house.FILES_MAX - 1):
            self.write(f"ps/file_{i}.c", "")
        self.red()
        self.write("ps/one_more.h", "")
        self.red("ps/: it has 41 files")

    def test_a_map_that_is_not_the_table(self):
        self.write(house.FLOORS, FLOORS.replace("errors", "errors and lists"))
        self.red("docs/explanation/design.md:5: tests/lint/floors.txt does not say this: | common/base/ | errors |",
                 "docs/explanation/design.md:2: tests/lint/floors.txt says this, too: | common/base/ | errors and lists |")
        self.write(house.DESIGN, "# Design\n")
        self.red("docs/explanation/design.md: the output of tests/lint/house.py --map is wanted")

    def test_a_link_to_a_file_or_a_heading_that_is_not_there(self):
        self.write("docs/a.md", "# A [b](b.md)!\n```\n# no heading, [no](link.md)\n```\n[here](#a-b) [web](https://a.example/b#c)\n")
        self.write("docs/b.md", "[a](a.md#a-b) [ps](../ps) [a](a.md#no-heading-no)\n[c](c.md#d)\n")
        self.red("docs/b.md:1: a.md#no-heading-no: there is no such heading", "docs/b.md:2: c.md#d: there is no such file")


if __name__ == "__main__":
    unittest.main()
