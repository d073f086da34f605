#!/usr/bin/env python3
"""same_objects.py: which changes of a C and of a Python source count as comments only."""
import unittest

import same_objects

C = '/* a */\nint f(int a)\n{\n    return a + 1; // b\n}\n#define X "a /* b */" \\\n    c\n'
PYTHON = '"""A module."""\n\n\ndef f(a):\n    """Returns a."""\n    # b\n    return "a"\n'


class SameObjectsTest(unittest.TestCase):
    def test_a_comment_or_white_space_of_c_changed(self):
        for old, new in ("/* a */", "/* another\n * comment */"), ("// b", ""), ("    return", "  return"), ("{\n", "{ // c\n\n"):
            self.assertIn(old, C)
            self.assertEqual(same_objects.tokens(C), same_objects.tokens(C.replace(old, new)), old)

    def test_a_token_of_c_changed(self):
        for old, new in ("a + 1", "a + 2"), ("int a", "int b"), ("a /* b */", "a /* c */"), ("    c", "    d"), ("define X", "define Y"):
            self.assertIn(old, C)
            self.assertNotEqual(same_objects.tokens(C), same_objects.tokens(C.replace(old, new)), old)

    def test_a_comment_or_a_docstring_of_python_changed(self):
        for old, new in ("# b", "# c"), ("A module.", "The module."), ("Returns a.", "Returns\n    a."), ("    # b\n", "\n\n"):
            self.assertIn(old, PYTHON)
            self.assertEqual(same_objects.tree(PYTHON), same_objects.tree(PYTHON.replace(old, new)), old)

    def test_a_token_of_python_changed(self):
        for old, new in ('return "a"', 'return "b"'), ("f(a)", "f(b)"), ('    """Returns a."""\n', ""):
            self.assertIn(old, PYTHON)
            self.assertNotEqual(same_objects.tree(PYTHON), same_objects.tree(PYTHON.replace(old, new)), old)


if __name__ == "__main__":
    unittest.main()
