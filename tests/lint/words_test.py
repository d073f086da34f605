#!/usr/bin/env python3
"""The rules of words.py, green and then red, on texts of each kind of file."""
import pathlib
import subprocess
import tempfile
import unittest

import words

PHRASES = "# a comment\n\\bfor good\\b | permanently\n"


class WordsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        subprocess.run(["git", "init", "-q", self.root], check=True)
        self.write(words.PHRASES, PHRASES)
        self.write(words.PAGE_PHRASES, "\\bfolders?\\b | directory\n")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def red(self, path, text, *wanted):
        """Exactly these hits, each (line, the words that it names)."""
        self.write(path, text)
        hits, errors = words.check(self.root, [path])
        self.assertEqual(errors, [])
        self.assertEqual([(line, found) for _, line, _, found, _ in hits], list(wanted))

    def test_a_page(self):
        self.red("a.md", "# What it is\n\nA fact. Who is late\nwaits. What is it? It is done.\n\n- Whatever it costs.\n",
                 (3, "Who is late waits. What"), (6, "Whatever it costs."))
        self.red("a.md", "One more (Who asks\nis answered.) **What is lost.** It is gone for\ngood.\n",
                 (1, "Who asks is answered.) **What"), (2, "What is lost.** It is"), (2, "for good"))

    def test_what_a_page_may_say(self):
        self.red("a.md", "## What it costs\n\n| What? | Who pays |\n|---|---|\n| What it is | `Who x`, `for good` |\n\n[What a run is](for/good.md)\n")
        self.red("a.md", "Ask for goods. `text. Who is\nlate` is code.\n\n```text\nWho is late is out for good.\n```\n")
        self.red("a.md", "Who wins? Tell me.\n")

    def test_a_cell_that_is_a_sentence(self):
        self.red("a.md", "| a | What it is stays. |\n", (1, "What it is stays."))

    def test_a_comment_in_a_block_of_a_page(self):
        self.red("a.md", "```yaml\na: 1 # for good\n# What it is\n```\n", (2, "for good"), (3, "What it is"))

    def test_comments_of_c(self):
        self.red("a.c", "/* What it is. */\nint a; // what it is\n/* It is\n * gone for\n * good. */\n// A\n// fact. Who asks\n",
                 (1, "What it is."), (2, "what it is"), (4, "for good"), (7, "Who asks"))
        self.red("a.h", "/* A fact; what it is: known. */\nint what_it_is; char c = '\"'; /* Who is it? */\n")

    def test_strings_of_c(self):
        self.red("a.c", 'f("It is gone for "\n  "good");\ng("A fact. What is "\n  "lost");\n', (1, "for good"), (3, "What is lost"))
        self.red("a.c", '#include "for good.h"\nf("for", " goods", "what is lost");\n')
        self.red("a.proto", '// Gone for good\noption x = "for good";\n', (1, "for good"))

    def test_a_word_that_only_users_pages_avoid(self):
        for page in "README.md", "docs/guides/a.md", "docs/reference/a.md", "examples/a/README.md":
            self.red(page, "A `folder`. Its folders.\n", (1, "folders"))
        for page in "a.c", "docs/explanation/a.md", "docs/reference/glossary.md":
            self.red(page, "/* A folder. */\nA folder.\n")

    def test_python(self):
        self.red("a.py", '"""What it is."""\nx = "for good"  # What x is\n\n\ndef f():\n    """A fact.\n\n    Who asks."""\n'
                         "    # gone for\n    # good\n",
                 (1, "What it is."), (2, "What x is"), (8, "Who asks."), (9, "for good"))

    def test_shell_yaml_and_cmake(self):
        for path in "a.sh", "a.yaml", "CMakeLists.txt", "script":
            self.red(path, '#!/bin/sh\n# What it is\na: "x # for good" # gone for good\nb=${#for good}\n', (2, "What it is"), (3, "for good"))

    def test_files_of_other_kinds(self):
        self.red("a.txt", "# for good\n")
        (self.root / "a.c").write_bytes(b"\xff\xfe")
        self.assertEqual(words.check(self.root, ["a.c"]), ([], []))

    def test_a_list_of_phrases_that_is_wrong(self):
        self.write(words.PHRASES, "(a | b\nfor good\n")
        self.assertEqual([error.split(": ")[0] for error in words.check(self.root, ["."])[1]],
                         [f"{words.PHRASES}:1", f"{words.PHRASES}:2"])

    def test_the_phrases_of_the_tree_are_read(self):
        for name, at_least in (words.PHRASES, 15), (words.PAGE_PHRASES, 5):
            phrases, errors = words.read_phrases(words.ROOT, name)
            self.assertEqual(errors, [])
            self.assertGreaterEqual(len(phrases), at_least)


if __name__ == "__main__":
    unittest.main()
