#!/usr/bin/env python3
"""The rules of tests/lib/pages.py, green and then red, on small pages; and how output is compared."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import pages  # noqa: E402

PAGE = """# A page
Text
    that goes on.

1. An item.

   ```sh
   ls  # needs numpy
   cat < file
   ```

   ```text
   a b
   ```

   - Deeper.

     ```yaml job/a.yaml
     a: 1
       b
     ```

Text.

```usage
ls DIR
```
"""


class FormTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("README.md", PAGE)
        self.write("docs/guides/b.md", "```sh\nsudo b file\n```\n\n```console\nb 1\n```\n")
        self.write("tests/b_test.py", "")
        self.write(pages.NOT_RUN, "# a comment\ndocs/guides/b.md | sudo b | tests/b_test.py\n")
        self.write(pages.DATA, "README.md | file | b/file.gz\n")
        self.red()

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def red(self, *wanted):
        """Exactly these errors, each by its beginning."""
        found = pages.check(self.root)
        self.assertEqual(len(found), len(wanted), found)
        for error, begin in zip(found, wanted):
            self.assertTrue(error.startswith(begin), f"{error!r} does not begin with {begin!r}")

    def add(self, text):
        self.write("README.md", PAGE + text)

    def test_blocks(self):
        blocks, _ = pages.split(PAGE)
        self.assertEqual([(b.line, b.language, b.file, b.text) for b in blocks],
                         [(7, "sh", "", "ls  # needs numpy\ncat < file\n"), (12, "text", "", "a b\n"),
                          (18, "yaml", "job/a.yaml", "a: 1\n  b\n"), (25, "usage", "", "ls DIR\n")])

    def test_each_page_is_found(self):
        for page in "docs/a.md", "docs/reference/a.md", "examples/a/README.md", "k8s/README.md":
            self.write(page, "    ls\n")
        self.red(*(f"{page}:1: a block of code is fenced" for page in ("docs/a.md", "docs/reference/a.md", "examples/a/README.md",
                                                                       "k8s/README.md")))

    def test_a_page_whose_blocks_are_not_run(self):
        for page in "CONTRIBUTING.md", "docs/explanation/a.md", "proto/README.md":
            self.write(page, "```text\na - b\n```\n\n    code\n\n```\n```\n")
            self.red(f"{page}:5: a block of code is fenced", f"{page}:7: a block names its language")
            self.write(page, "")

    def test_indented_code(self):
        self.add("\n# Heading\n    code\n\n    more code\n\n- An item.\n  Its text.\n\n      code\n\n    no code: the item's text\n")
        self.red("README.md:30: a block of code is fenced", "README.md:37: a block of code is fenced")

    def test_a_block_without_a_language_or_of_another(self):
        self.add("```\nx\n```\n```shell\nx\n```\n```json\n{}\n```\n```perl x.pl\n```\n")
        self.red("README.md:28: a block names its language", "README.md:31: shell: a block without a file is")

    def test_output_of_no_command(self):
        self.add("```text\nx\n```\n")
        self.red("README.md:28: a text block is the output of the sh block before it")

    def test_a_synopsis_without_a_placeholder(self):
        self.add("```usage\nls dir\n```\n```usage\nls dir [FLAG]\n```\n```usage\nls file...\n```\n")
        self.red("README.md:28: a usage block has a placeholder")

    def test_a_line_of_a_log_that_no_program_writes(self):
        self.write("worker/a.c", 'f("waiting %d s for %s, which is "\n  "connected" PRIu64 ", and does not answer\\n");\n')
        self.add("```log\nstep 3: waiting 4 s for worker 1, which is connected, and does not answer\nshort\n```\n")
        self.red()
        self.add("```log\nshort\nit waits 4 s for worker 1, which has a connection, and is silent\n```\n")
        self.red("README.md:30: no program writes this line: it waits, ")

    def test_a_file_elsewhere(self):
        self.add("```yaml /etc/x\n```\n```yaml ../x\n```\n```yaml a b\n```\n")
        self.red(*(f"README.md:{line}: {file}: a file's name" for line, file in ((28, "/etc/x"), (30, "../x"), (32, "a b"))))

    def test_a_block_without_end(self):
        self.add("```sh\nls\n")
        self.red("README.md:28: the block has no end")

    def test_an_entry_that_no_block_begins_with(self):
        self.write(pages.NOT_RUN, "docs/guides/b.md | b | tests/b_test.py\nno.md | sudo | slow\nb.md | sudo\n")
        self.red(f"{pages.NOT_RUN}:3: a line is: page | ", f"{pages.NOT_RUN}:1: no sh block of docs/guides/b.md begins with: b",
                 f"{pages.NOT_RUN}:2: no sh block of no.md")

    def test_a_stand_in_that_does_not_exist(self):
        self.write(pages.NOT_RUN, "docs/guides/b.md | sudo b | tests/c_test.py, and README.md\n")
        self.red(f"{pages.NOT_RUN}:1: there is no tests/c_test.py")

    def test_data_that_no_block_names(self):
        self.write(pages.DATA, "README.md | other | x\n")
        self.red(f"{pages.DATA}:1: no sh block of README.md names other")

    def test_a_page_that_continues_another_one(self):
        self.write("docs/guides/c.md", "# C\n\n<!-- continues: b.md -->\n\n```sh\nls\n```\n")
        self.assertEqual(pages.continues("docs/guides/c.md", self.root), ["docs/guides/b.md"])
        self.red()
        self.write("docs/guides/c.md", "# C\n\n<!-- continues: no.md -->\n")
        self.red("docs/guides/c.md: it continues docs/guides/no.md, and no such page")


class OutputTest(unittest.TestCase):
    def same(self, said, shown, language="text"):
        return not pages.differs(said, pages.Block(1, language, "", shown))

    def test_text_is_the_same_but_for_fractions_that_are_near(self):
        self.assertTrue(self.same("a 1\nloss 0.123 \n", "a 1\nloss 0.129\n"))
        for said in "a 2\nloss 0.123\n", "a 1\nloss 0.153\n", "a 1\n", "a 1\nloss 0.123\nb\n", "a 1\nlass 0.123\n":
            self.assertFalse(self.same(said, "a 1\nloss 0.129\n"), said)

    def test_in_console_all_numbers_may_differ(self):
        self.assertTrue(self.same("17:49Z a  123 MB\nx " + "ab" * 32, "3:04Z a 1.5 MB\nx " + "0c" * 32, "console"))
        self.assertFalse(self.same("17:49Z a 123 KB\n", "3:04Z a 1.5 MB\n", "console"))

    def test_left_out_lines(self):
        for said, same in (("a\nb\nc\nd\n", True), ("a\nd\n", False), ("a\nc\nd\n", True), ("x\na\nc\nd\n", False),
                           ("a\nc\nx\nd\n", False), ("a\nc\nd\nx\n", False), ("a\nb\nb\nc\nd\n", True)):
            self.assertEqual(self.same(said, "a\n...\nc\nd\n"), same, said)
        self.assertTrue(self.same("a\nb\nc\n", "a\n...\n"))
        self.assertTrue(self.same("a\nb\nc\n", "...\nb\n...\n"))
        self.assertFalse(self.same("a\nc\n", "...\nb\n...\n"))
        self.assertTrue(self.same("a b c\nd\n", "a b ...\nd\n"))
        self.assertFalse(self.same("a c c\nd\n", "a b ...\nd\n"))


if __name__ == "__main__":
    unittest.main()
