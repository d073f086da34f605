"""The fenced blocks of the user's pages: which are files, which are commands, which are output. tests/e2e/pages_test.py runs them,
./gradwire lint checks their form.

    ```sh          commands that a reader runs. A block's commands run in bash, in the page's own directory; a directory that a block
                   changes to, and what it exports, last for the next blocks. "# needs NAME and NAME" on a line names the Python
                   packages without which the block is left out. "# exits N" is the block's exit status where that is not 0.
    ```text        the output of the block before it. Numbers with a fraction are near.
    ```console     the same, with all numbers, digests, dates and addresses masked
    ```LANG FILE   a file to write
    ```usage       a synopsis: not run; it has a placeholder, as DIR, [FLAG] or ...
    ```log         lines of a log that this page's commands do not write: not compared, but the words must be the programs'
    ```LANG        a fragment, of one of FRAGMENTS: not run

A page with a line "<!-- continues: PAGE -->" runs in the directory in which PAGE, of the same directory of pages, has run.

In output a line "..." stands for any lines, and "..." at a line's end for the rest of it. Output is what a command writes to stdout,
or to stdout and stderr together.

NOT_RUN lists the commands that are not run here: "page | beginning of the block | what stands in for it", or "slow" for what takes
more than 30 s; `./gradwire test pages` runs that. DATA lists the files that a page's reader has got from elsewhere: "page | file |
file below $GRADWIRE_DATA"."""
import os
import pathlib
import re

ROOT = pathlib.Path(os.environ.get("GRADWIRE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
NOT_RUN, DATA = "tests/e2e/pages_not_run.txt", "tests/e2e/pages_data.txt"
GLOBS = ("README.md", "docs/*.md", "docs/guides/*.md", "docs/reference/*.md", "examples/README.md",
         "examples/*/README.md", "k8s/README.md")
FORM_GLOBS = ("*.md", "docs/explanation/*.md", "proto/*.md", "benchmarks/*.md")  # pages whose blocks are not run
FRAGMENTS = ("yaml", "json", "python", "c", "log", "usage")
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b|\b(PS|N)\b|\[|\.\.\.")
FENCE = re.compile(r"^( *)(```+)(.*)$")
ITEM = re.compile(r"^( *)([-*+]|\d+[.)])( +)\S")

CONTINUES = re.compile(r"^<!-- continues: (\S+) -->$", re.M)


class Block:
    """One fenced block: its first line's number, language, file ("": none), and text without the fence's own indentation."""

    def __init__(self, line, language, file, text):
        self.line, self.language, self.file, self.text = line, language, file, text

    def is_output(self):
        return self.language in ("text", "console") and not self.file

    def is_run(self):
        return self.language == "sh" and not self.file


class Entry:
    """A line of NOT_RUN or DATA."""

    def __init__(self, line, page, begins, instead):
        self.line, self.page, self.begins, self.instead = line, page, begins, instead
        self.slow = instead == "slow"

    def matches(self, block):
        return block.text.lstrip().startswith(self.begins)


def pages(root=ROOT, globs=GLOBS):
    """All pages that the globs find, relative to `root`, in order: those with commands unless others are given."""
    found = {str(path.relative_to(root)) for glob in globs for path in pathlib.Path(root).glob(glob)}
    return sorted(found)


def split(text):
    """(blocks, [(line, what is wrong)]) of a page."""
    blocks, errors, fence, lines, content, blank, code = [], [], None, [], 0, True, False
    for number, line in enumerate(text.splitlines(), 1):
        mark, indentation = FENCE.match(line), len(line) - len(line.lstrip())
        if fence and mark and len(mark[2]) >= len(fence[2]) and not mark[3].strip():
            language, _, file = fence[3].strip().partition(" ")
            text = "".join(re.sub(f"^ {{0,{len(fence[1])}}}", "", each) + "\n" for each in lines)
            blocks.append(Block(begin, language, file.strip(), text))
            fence, blank = None, True
        elif fence:
            lines.append(line)
        elif mark:
            fence, lines, begin = mark, [], number
        elif not line.strip():
            blank = True
        else:
            item = ITEM.match(line)
            if item and len(item[1]) < content + 4:
                content = item.end() - 1  # where the item's own text begins
            elif indentation < content and blank:
                content = 0
            is_code = (blank or code) and not item and indentation >= content + 4
            if is_code and not code:
                errors.append((number, "a block of code is fenced, not indented"))
            blank, code = line.startswith("#"), is_code
    if fence:
        errors.append((begin, "the block has no end"))
    return blocks, errors


def continues(page, root=ROOT):
    """The pages, relative to `root`, that must run in the same directory before `page` does."""
    path = pathlib.Path(page)
    return [str(path.parent / name) for name in CONTINUES.findall((pathlib.Path(root) / path).read_text())]


def form(blocks):
    """(line, what is wrong) of a page's blocks by the conventions above."""
    before = None
    for block in blocks:
        known = block.file or block.language in FRAGMENTS + ("sh", "text", "console")
        if not block.language:
            yield block.line, f"a block names its language: sh, text, console, or one of {' '.join(FRAGMENTS)}"
        elif not known:
            yield block.line, f"{block.language}: a block without a file is sh, text, console, or one of {' '.join(FRAGMENTS)}"
        elif block.is_output() and not (before and (before.is_run() or before.is_output())):
            yield block.line, f"a {block.language} block is the output of the sh block before it, and there is none"
        elif block.language == "usage" and not PLACEHOLDER.search(block.text):
            yield block.line, "a usage block has a placeholder, as DIR or [FLAG]; a command without one is sh, and is run"
        elif block.file and (block.file.startswith("/") or ".." in block.file.split("/") or len(block.file.split()) > 1):
            yield block.line, f"{block.file}: a file's name is relative to the page's own directory"
        before = block


def table(path, cells, root=ROOT):
    """(entries, errors) of NOT_RUN or DATA."""
    entries, errors = [], []
    for number, line in enumerate((pathlib.Path(root) / path).read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            words = [cell.strip() for cell in line.split(" | ")]
            if len(words) == 3 and all(words):
                entries.append(Entry(number, *words))
            else:
                errors.append(f"{path}:{number}: a line is: {cells}")
    return entries, errors


def not_run(root=ROOT):
    return table(NOT_RUN, "page | beginning of the block | what stands in for it, or slow", root)


def data(root=ROOT):
    return table(DATA, "page | file of the reader | file below $GRADWIRE_DATA", root)


LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')
JOINT = re.compile(r'"\s*(?:PRI[a-zA-Z0-9]+\s*)?"')
CONVERSION = re.compile(r"%[-+ #0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]")
WORDS = re.compile(r"[A-Za-z_.']*[A-Za-z]")
PAIRS_MIN, ALIKE = 6, 0.5  # a line also has names of hosts and jobs, and is made of several texts


def pairs(text):
    """Each two adjacent words of a text. Words with digits do not count."""
    words = WORDS.findall(re.sub(r"\S*\d\S*", " ", text))
    return list(zip(words, words[1:]))


def messages(root=ROOT):
    """Each two adjacent words in the string literals of the programs."""
    found = set()
    for top in "common", "job", "data", "model", "export", "evaluate", "ps", "worker", "launch", "k8s":
        for path in sorted((pathlib.Path(root) / top).rglob("*.c")):
            for literal in LITERAL.findall(JOINT.sub("", path.read_text(errors="replace"))):
                found.update(pairs(CONVERSION.sub(" ", literal.replace("\\n", " "))))
    return found


def stale_logs(found, root=ROOT):
    """Lines of log blocks most of whose words no program writes: the message was changed."""
    lines = [(f"{page}:{number}", pairs(line)) for page, (blocks, _) in found.items() for block in blocks if block.language == "log"
             for number, line in enumerate(block.text.splitlines(), block.line + 1)]
    known = messages(root) if lines else set()
    for where, mine in lines:
        missing = [pair for pair in mine if pair not in known]
        if len(mine) >= PAIRS_MIN and len(missing) > ALIKE * len(mine):
            yield f"{where}: no program writes this line: {', '.join(' '.join(pair) for pair in missing[:4])}"


def check(root=ROOT):
    """The errors in the form of the pages and in the two tables, a line for each."""
    errors = []
    (left_out, wrong), (given, more) = not_run(root), data(root)
    errors += wrong + more
    found = {page: split((pathlib.Path(root) / page).read_text()) for page in pages(root)}
    for page, (blocks, bad) in found.items():
        errors += [f"{page}:{line}: {text}" for line, text in sorted([*bad, *form(blocks)])]
        errors += [f"{page}: it continues {before}, and no such page has commands" for before in continues(page, root)
                   if not any(block.is_run() for block in found.get(before, ([], []))[0])]
    errors += stale_logs(found, root)
    for page in pages(root, FORM_GLOBS):
        if page not in found:
            blocks, bad = split((pathlib.Path(root) / page).read_text())
            unnamed = [(block.line, "a block names its language, as text") for block in blocks if not block.language]
            errors += [f"{page}:{line}: {text}" for line, text in sorted(bad + unnamed)]
    for entry in left_out:
        blocks = [block for block in found.get(entry.page, ([], []))[0] if block.is_run()]
        if not any(entry.matches(block) for block in blocks):
            errors.append(f"{NOT_RUN}:{entry.line}: no sh block of {entry.page} begins with: {entry.begins}")
        errors += [f"{NOT_RUN}:{entry.line}: there is no {path}" for path in re.findall(r"\S+\.(?:py|md)\b", entry.instead)
                   if not (pathlib.Path(root) / path).exists()]
    for entry in given:
        if not any(entry.begins in block.text for block in found.get(entry.page, ([], []))[0] if block.is_run()):
            errors.append(f"{DATA}:{entry.line}: no sh block of {entry.page} names {entry.begins}")
    return errors


# ---- output ----

NUMBER = re.compile(r"\d+\.\d+")
VARIES = re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\d+(\.\d+)?(e[+-]?\d+)?")
NEAR = 0.02  # a processor with other vectors rounds otherwise


def masked(line, language):
    line = line.rstrip()
    return re.sub(r"[ \t]+", " ", VARIES.sub("#", line)) if language == "console" else NUMBER.sub("#", line)


def same_line(said, shown, language):
    if shown.endswith("..."):
        shown = shown[:-3].rstrip()
        return masked(said, language).startswith(masked(shown, language)) if shown.strip() else True
    return masked(said, language) == masked(shown, language)


def align(said, shown, language):
    """[(line that was written, line that is shown)] if all shown lines were written, in their order, and no others except those
    that "..." stands for; otherwise None."""
    pairs, at, skips = [], 0, False
    for i, line in enumerate(shown):
        if line.strip() in ("...", ".."):
            skips = True
            continue
        rest = len([each for each in shown[i:] if each.strip() not in ("...", "..")])
        last = skips and not any(each.strip() in ("...", "..") for each in shown[i:])
        if last and len(said) - rest < at:
            return None
        if last:  # the end is the end
            at = len(said) - rest
        elif skips:
            while at < len(said) and not same_line(said[at], line, language):
                at += 1
        if at >= len(said) or not same_line(said[at], line, language):
            return None
        pairs.append((said[at], line))
        at, skips = at + 1, False
    return pairs if skips or at == len(said) else None


def differs(said, block):
    """Why the output is not what the block shows; "": it is."""
    pairs = align(said.splitlines(), block.text.splitlines(), block.language)
    if pairs is None:
        return "other lines"
    if block.language == "text":
        for a, b in pairs:
            for x, y in zip(NUMBER.findall(a), NUMBER.findall(b)):
                if abs(float(x) - float(y)) >= NEAR:
                    return f"{x} is not near {y}"
    return ""
