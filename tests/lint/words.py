#!/usr/bin/env python3
"""Find sentences that a reader must read twice; one step of ./gradwire lint.

It reads the prose of pages (.md), of comments (C, C++, proto, Go, JavaScript, Python, shell, YAML, CMake, Dockerfile), of Python's
docstrings and of C's message strings (outside of tests, where they quote the product's), and reports two kinds of words:

    headless   a sentence that begins with Who, Whom, Whose, What, Whoever or Whatever and is no question: a relative clause without
               a noun before it. A heading or a table's cell of a page may begin so ("What it costs").
    phrases    the expressions of phrases.txt, and in the user's pages those of phrases_pages.txt, which also say what to write
               instead

    words.py [PATH]...   check these files and folders; without PATH, every file that git tracks
    words.py --count     print the number of hits of each folder and kind, not the hits
"""
import argparse
import ast
import bisect
import collections
import io
import os
import re
import subprocess
import sys
import tokenize

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PHRASES, PAGE_PHRASES = "tests/lint/phrases.txt", "tests/lint/phrases_pages.txt"
EXEMPT = (PHRASES, PAGE_PHRASES, "tests/lint/words.py", "tests/lint/words_test.py",
          "docs/reference/glossary.md")  # they quote the words
USER_PAGES = re.compile(r"(README|docs/(README|guides/(?!extend-gradwire).*|reference/.*)|examples/.*README|k8s/README)\.md")
C_LIKE, HASH_LIKE = (".c", ".h", ".cc", ".proto", ".go", ".js"), (".sh", ".yaml", ".yml", ".cmake", ".tpl")
HASH_NAMES = ("CMakeLists.txt", "Dockerfile")

HEADLESS = re.compile(r"""(?:^|[.!?:;]["')*\]]*\s+|^["'(*_]+|\s[("*]+)(?=(Who|Whom|Whose|What|Whoever|Whomever|Whatever)\b)""")
FIRST = re.compile(r"(who|whom|whose|what|whoever|whomever|whatever)\b(?![:'])", re.I)  # of a comment: small letters, too
SENTENCE_END = re.compile(r"[.!?](?=[\"')*\]]*(\s|$))")
HEADLESS_ADVICE = "begin with a noun: the process that .., the data that .., the reason why .."

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"\w*\(|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`[^`]*`', re.S)
ESCAPE = re.compile(r"\\(.)")
FENCE = re.compile(r"^\s*(```+|~~~+)")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
CODE_SPAN = re.compile(r"`[^`]*`")
LINK_TARGET = re.compile(r"\]\([^)\s]*\)")


class Prose:
    """A paragraph: its lines joined by spaces. `label`: a heading or a cell, which may be no sentence."""

    def __init__(self, lines, kind, label=False):
        self.kind, self.label = kind, label
        self.starts, self.numbers, texts, at = [], [], [], 0
        for number, text in lines:
            text = " ".join(text.split())
            if text:
                self.starts.append(at)
                self.numbers.append(number)
                texts.append(text)
                at += len(text) + 1
        self.text = " ".join(texts)
        if kind in ("comment", "docstring"):  # names in backticks are no words
            self.text = CODE_SPAN.sub(lambda found: "`" + "x" * (len(found[0]) - 2) + "`", self.text)

    def line(self, at):
        return self.numbers[bisect.bisect_right(self.starts, at) - 1]


def paragraphs(lines, kind):
    """Prose of a comment's lines, (number, text): blank lines and list items divide it."""
    group = []
    for number, text in lines:
        item = ITEM.match(text)
        if (not text.strip() or item) and group:
            yield Prose(group, kind)
            group = []
        if text.strip():
            group.append((number, text[item.end():] if item else text))
    if group:
        yield Prose(group, kind)


def c_comment(text):
    lines = text[2:-2].splitlines() if text.startswith("/*") else [text[2:]]
    return [re.sub(r"^\s*\*+(\s|$)|^[*!]+", "", line) for line in lines]


def c_prose(text, name):
    """Comments, and, of C, message strings. Adjacent // lines are one comment, adjacent literals one string."""
    run, run_end, run_column, strings, string_end = [], 0, 0, [], 0
    for found in TOKEN.finditer(text):
        token, number = found[0], text.count("\n", 0, found.start()) + 1
        between = text[string_end:found.start()]
        if strings and not (token[0] == '"' and re.fullmatch(r"(\s|PRI[a-zA-Z0-9]+)*", between)):
            yield from string_prose(strings)
            strings = []
        column = found.start() - text.rfind("\n", 0, found.start())
        if run and not (token.startswith("//") and not text[run_end:found.start()].strip() and column == run_column and
                        text.count("\n", run_end, found.start()) == 1):
            yield from paragraphs(run, "comment")
            run = []
        if token.startswith("/*"):
            yield from paragraphs(list(enumerate(c_comment(token), number)), "comment")
        elif token.startswith("//"):
            run.append((number, token[2:]))
            run_end, run_column = found.end(), column
        elif token[0] == '"' and name.endswith((".c", ".h", ".cc")) and not re.search(r"#\s*include\s*$", text[:found.start()][-20:]):
            strings.append((number, token[1:-1]))
            string_end = found.end()
    yield from string_prose(strings)
    yield from paragraphs(run, "comment")


def string_prose(strings):
    if not strings:
        return
    group = []
    for number, text in strings:
        pieces = text.split(r"\n")
        for i, piece in enumerate(pieces):
            group.append((number, ESCAPE.sub(r"\1", piece)))
            if i < len(pieces) - 1 and (not piece.strip() or not pieces[i + 1].strip()):
                yield Prose(group, "string")
                group = []
    prose = Prose(group, "string")
    if " " in prose.text:
        yield prose


def python_prose(text):
    lines = text.splitlines()
    group, column = [], 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            alone = not token.line[:token.start[1]].strip()
            if group and not (alone and group[-1][0] == token.start[0] - 1 and column == token.start[1]):
                yield from paragraphs(group, "comment")
                group = []
            column = token.start[1]
            group.append((token.start[0], token.string.lstrip("#")))
    yield from paragraphs(group, "comment")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            inside = lines[node.lineno - 1:node.end_lineno]
            inside = [re.sub(r'^\s*[rRbBuU]*("""|\'\'\'|"|\')', "", inside[0]), *inside[1:]]
            inside[-1] = re.sub(r'("""|\'\'\'|"|\')\s*$', "", inside[-1])
            yield from paragraphs(list(enumerate(inside, node.lineno)), "docstring")


def hash_comment(line):
    """The text after a # outside of quotes, or None; whether it stands alone; its column."""
    for found in re.finditer(r"(?:^|\s)#(?!!)", line):
        before = line[:found.start()]
        if before.count('"') % 2 == 0 and before.count("'") % 2 == 0 and not before.endswith("$"):
            return line[found.end():].lstrip("#"), not before.strip(), found.end()
    return None, False, 0


def hash_prose(text, first=1):
    group, last = [], 0
    for number, line in enumerate(text.splitlines(), first):
        comment, alone, column = hash_comment(line)
        if comment is None or not alone or column != last:
            yield from paragraphs(group, "comment")
            group = []
        if comment is not None:
            group.append((number, comment))
            last = column
    yield from paragraphs(group, "comment")


def blank(text):
    """A page's line without code spans and the targets of links: other characters keep their places."""
    text = CODE_SPAN.sub(lambda found: "`" + re.sub(r"[^\n]", "x", found[0][1:-1]) + "`", text)
    return LINK_TARGET.sub("]", text)


def page_prose(text):
    group, fence, code = [], None, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        mark = FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence):
                yield from hash_prose("\n".join(t for _, t in code), code[0][0] if code else number)
                fence, code = None, []
            else:
                code.append((number, line))
            continue
        item = ITEM.match(line)
        heading, row = line.startswith("#"), line.lstrip().startswith("|")
        if group and (mark or item or heading or row or not line.strip()):
            yield Prose(join_spans(group), "page")
            group = []
        if mark:
            fence = mark[1]
        elif heading:
            yield Prose([(number, blank(line.lstrip("#")))], "page", label=True)
        elif row:
            for cell in re.split(r"(?<!\\)\|", blank(line)):
                yield Prose([(number, cell)], "page", label=True)
        elif line.strip():
            group.append((number, line[item.end():] if item else line))


def join_spans(group):
    """Code spans that are broken over two lines are blanked, too."""
    lines = blank("\n".join(text for _, text in group)).split("\n")
    return [(number, text) for (number, _), text in zip(group, lines)]


def prose(path, text):
    """The paragraphs of a file; none of a kind that is not read."""
    name = os.path.basename(path)
    if name.endswith(".md"):
        return page_prose(text)
    if name.endswith(C_LIKE):
        return c_prose(text, name)
    if name.endswith(".py") or text.startswith("#!") and "python" in text.split("\n", 1)[0]:
        return python_prose(text)
    if name.endswith(HASH_LIKE) or name in HASH_NAMES or text.startswith("#!") and "sh" in text.split("\n", 1)[0]:
        return hash_prose(text)
    return []


def headless(paragraph):
    """(offset, words) of each sentence that begins so and is no question."""
    text = paragraph.text
    starts = [found.end() for found in HEADLESS.finditer(text)]
    if paragraph.kind in ("comment", "docstring") and FIRST.match(text):
        starts = sorted({0, *starts})
    for start in starts:
        end = SENTENCE_END.search(text, start)
        if end and end[0] == "?" or text.rstrip("\"')*").endswith("?") and not end:
            continue
        if paragraph.label and start == len(text) - len(text.lstrip("*\"'( ")) and not (end and end[0] == "."):
            continue
        if paragraph.kind == "string" and start == 0 and not end:  # a piece of a line, not a sentence
            continue
        yield start, " ".join(text[start:].split()[:5])


def read_phrases(root, name=PHRASES):
    """(expression, what to write instead) of each line "regex | instead", and errors."""
    phrases, errors = [], []
    with open(os.path.join(root, name), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line.startswith("#"):
                continue
            expression, _, instead = line.strip().rpartition(" | ")
            try:
                phrases.append((re.compile(expression.strip(), re.I), instead.strip()))
            except re.error as e:
                errors.append(f"{name}:{number}: {e}")
            if not expression or not instead.strip():
                errors.append(f"{name}:{number}: a line is: regex | what to write instead")
    return phrases, errors


def check_text(path, text, phrases):
    """(line, kind, words, advice) of each hit."""
    for paragraph in prose(path, text):
        if paragraph.kind == "string" and path.startswith("tests/"):
            continue
        for at, words in headless(paragraph):
            yield paragraph.line(at), "headless", words, HEADLESS_ADVICE
        for expression, instead in phrases:
            for found in expression.finditer(paragraph.text):
                yield paragraph.line(found.start()), "phrase", found[0], instead


def tracked(root, paths):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths],
                            check=True, capture_output=True, text=True)
    return sorted({path for path in listed.stdout.split("\0") if path and path not in EXEMPT})


def check(root, paths):
    (phrases, errors), (of_pages, wrong) = read_phrases(root), read_phrases(root, PAGE_PHRASES)
    errors += wrong
    hits = []
    for path in tracked(root, paths):
        full = os.path.join(root, path)
        try:
            with open(full, encoding="utf-8") as file:
                text = file.read()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        known = phrases + of_pages if USER_PAGES.fullmatch(path) else phrases
        hits += [(path, *hit) for hit in sorted(check_text(path, text, known))]
    return hits, errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--root", default=ROOT)
    parser.add_argument("--count", action="store_true")
    options = parser.parse_args()
    paths = [os.path.relpath(os.path.abspath(path), options.root) for path in options.paths]
    hits, errors = check(options.root, paths or ["."])
    if options.count:
        counts = collections.Counter((path.split("/")[0], kind if kind == "headless" else f"{kind}: {advice}")
                                     for path, _, kind, _, advice in hits)
        for (folder, kind), number in sorted(counts.items(), key=lambda entry: (entry[0][1], entry[0][0])):
            print(f"{number:5} {folder:12} {kind}")
    else:
        for path, line, kind, words, advice in hits:
            print(f"{path}:{line}: {kind}: \"{words}\": {advice}")
    for error in errors:
        print(error)
    print(f"words: {len(hits)} hits" if hits else "words ok" if not errors else "words: phrases.txt is wrong")
    return 1 if hits or errors else 0


if __name__ == "__main__":
    sys.exit(main())
