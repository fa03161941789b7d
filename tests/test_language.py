#!/usr/bin/env python3
"""The texts for users are plain English, in lines of at most 100 columns.

Checked: the lines of all sources; README.md, docs/*.md, bench/*.md, python/README.md,
include/tutti/*.h, the help of every command, and all string literals of src, tools, shim and
python: errors, log lines, tables of texts, and docstrings. Words that must not occur are in WORDS,
with the word to use instead. In README.md a sentence has at most 25 words.

Folders that are not clean yet are in ALLOWED with their number of findings. That number may only
fall: one more finding fails the test, and so does an entry whose folder is clean or missing."""

import ast
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 100
SENTENCE_WORDS = 25

# (regular expression, what to write instead); matched without regard to case.
WORDS = [
    (r"\banew\b", "again, new"),
    (r"\bby and by\b", "gradually"),
    (r"\bat the least\b", "at least"),
    (r"\bthere and back\b", "round trip"),
    (r"\bas (it|they) (is|are|was|were) told\b", "as configured"),
    (r"\bhow-manieth\b", "the index, the sequence number"),
    (r"(?<![\w-])tells?\b", "logs, reports, shows, notifies"),
    (r"(?<![\w-])told\b", "notified, configured, reported"),
    (r"\bhears?\b|\bheard\b", "receives, is notified"),
    (r"\bgreet(s|ed|ing)?\b", "sends a handshake"),
    (r"\bowes?\b|\bowed\b", "must send, has pending"),
    (r"(?<![\w-])(wants?|wanted)\b", "needs, requests"),
    (r"(?<![\w-])(says?|said)\b", "reports, states, sets"),
    (r"(?<![\w-])(asks?|asked|asking)\b", "queries, requests"),
    (r"\b(know|knows|knew)\b", "has, supports, stores, can detect"),
    # targets of measurements are met; machines are not
    (r"(?<!\bare )\b(meet|meets|met)\b(?! their targets)(?! \d)", "connects, exchanges addresses"),
    (r"\b(telling|saying|meeting)\b", "logging, reporting; start-up, rendezvous"),
    (r"\bwho(ever)? "
     r"(is|are|was|were|has|had|does|did|comes|came|calls|asks|reaches|waits|wants|lives)\b",
     "the noun: the caller, the queried rank"),
    (r"\bwhoever\b", "any process that"),
    (r"(?:^|[.;:(] |\b(?:of|to|for|by|with|from|names) )(?:who|whom)\b",
     "the noun: the caller, the queried rank"),
    (r"\b(what|that) c[ao]mes? of (it|this|them)\b", "its result"),
    (r"\b(is|are|was|were) to be\b", "must"),
    (r"(?<!there )\b(is|are|was|were) none\b", "is invalid, does not exist"),
    (r"(?<!there )\b(is|are) no "
     r"(kind|memory|number|type|operation|name|file|address|plan|certificate|size|algorithm)\b",
     "is not a, is invalid"),
    (r"\bmakes? no sense\b", "is invalid"),
    (r"\b(nobody|somebody)\b", "no rank, another process"),
    (r"\bc[ao]mes? about\b", "is established"),
    (r"\bin vain\b", "without success"),
    (r"\b(thereof|therein|thereupon|hitherto|whereof|wherein|whilst|lest|henceforth)\b",
     "plain words"),
    (r"\b(may|might|must|can|could|shall|should) it\b", "a sentence that begins with its subject"),
    (r"\bof its own\b(?! \w)", "its own NOUN"),
    (r"\bgood for (nothing|only)\b", "usable only for"),
    (r"\bso (many|few|long|far)\b(?! as)", "N, this long"),
    (r"\btakes? a seat\b", "joins the job"),
    (r"\bsentence\b", "message"),
    (r"\bpatien(ce|t)\b", "timeout"),
    (r"\bstranger", "unauthenticated peer"),
    (r"\bforgot(ten)?\b", "lost, discarded"),
    (r"\blate sizes?\b|\bdecided late\b", "dynamic sizes"),
    (r"\b(un)?disturb", "contends, delays, interferes; without failures"),
    (r"\bstraight program", "straight-line program"),
    (r"\b(a|each|one) content\b(?! [a-z]*(hash|type))", "a buffer, data"),
    (r"\b(do|does) not count\b(?! \w)", "is ignored, is excluded"),
    (r"\bare left\b(?! (to|out|open|in|on)\b)", "remains"),
    (r"\btakes? turns\b", "alternate, round-robin"),
    (r"\bthe speed of\b(?! light)", "the bandwidth, the throughput, the time"),
    (r"\bis their number\b", "is the number of NOUN"),
    (r"\bthe call's first use\b", "the first call of this shape"),
]

# Folder -> findings that its errors and log lines still have. Remove an entry when its folder is
# clean.
ALLOWED = {
}

# Sources whose lines are counted, and folder -> lines that are still longer: tables, and strings that
# are clearer in one piece. Like those of ALLOWED, these numbers may only fall.
SOURCES = {".c", ".h", ".cc", ".cpp", ".hpp", ".cu", ".py", ".sh", ".cmake"}
LONG_LINES = {
    "bench": 53,
    "cmake": 27,
    "examples": 7,
    "findings": 6,
    "python": 54,
    "scripts": 28,
    "shim": 37,
    "src": 107,
    "tests": 230,
}

# Names of functions whose string arguments are errors or log lines.
CALL = re.compile(r"\b(tt_fail\w*|tt_log|tt_context_fail\w*|tt_stream_fail|tt_\w+_fail\w*|"
                  r"tool_failed|"
                  r"argp_error|argp_failure|say|refuse\w*|refused|complain|fprintf)\s*\(")
STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
# Functions that record an error, and the form of its text: "what failed: cause (hint)".
FAIL = re.compile(r"\b(tt_fail|tt_fail_errno)\s*\(")
FORM_WORDS = 4          # shorter texts are compositions, such as "%s: %s"
OUT_OF = re.compile(r"\bout of [a-z ]+ for\b")         # a cause that needs no colon


def words_in(text, where):
    """One finding for each match of the word list."""
    flat = " ".join(text.split())
    for pattern, instead in WORDS:
        for match in re.finditer(pattern, flat, re.IGNORECASE):
            around = flat[max(0, match.start() - 30):match.end() + 30]
            yield f'{where}: "{match.group(0).strip()}" in "...{around}...": write {instead}'


def long_lines_in(text, where):
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS:
            yield f"{where}:{number}: {len(line)} columns, at most {COLUMNS}"


def sources():
    """All sources of C, C++, Python, shell and CMake, by the folder at the top."""
    tops = (path for path in ROOT.iterdir() if path.is_dir() and path.name[0] not in ".b")
    for top in sorted([*tops, ROOT / "bench"]):
        for path in sorted(top.rglob("*")):
            built = "build" in path.relative_to(ROOT).parts
            if path.suffix in SOURCES and path.is_file() and not built:
                yield top.name, path


def prose_of(markdown):
    """The paragraphs, list items and table cells of a page, without code, links and markup."""
    text = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^(#+ .*|- )", lambda m: "\n\n" + m.group(0).lstrip("#- "), text,
                  flags=re.MULTILINE)
    text = re.sub(r"^#+ .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^\|.*\|$", lambda m: "\n\n" + m.group(0).replace("|", "\n\n") + "\n\n", text,
                  flags=re.MULTILINE)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def plain_of(markdown):
    """A page with empty lines in place of code blocks, tables and images, and without inline
    code."""
    text = re.sub(r"^```.*?^```", lambda m: "\n" * m.group(0).count("\n"), markdown,
                  flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^( {4}(?! *- )|\||!\[).*$", "", text, flags=re.MULTILINE)
    return text, re.sub(r"`[^`]*`", "", text)


def long_sentences_in(markdown, where):
    for paragraph in prose_of(markdown):
        for sentence in re.split(r"(?<=[.!?:])\s+", paragraph):
            n = len(sentence.split())
            if n > SENTENCE_WORDS:
                yield f'{where}: {n} words, at most {SENTENCE_WORDS}: "{sentence}"'


def end_of_call(blank, start):
    """The index behind the parenthesis that closes the one before start; blank has no strings."""
    depth, i = 1, start
    while i < len(blank) and depth > 0:
        depth += {"(": 1, ")": -1}.get(blank[i], 0)
        i += 1
    return i


def blanked(match):
    return '"' + "x" * (len(match.group(0)) - 2) + '"'


def calls_of(source, pattern):
    """The calls of functions in a C file whose names match; (line number, name, arguments)."""
    plain = re.sub(r"'(\\.|[^'\\])'", lambda m: "0" * len(m.group(0)), source)
    plain = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), plain,
                   flags=re.DOTALL)
    blank = STRING.sub(blanked, plain)
    for match in pattern.finditer(blank):
        arguments = plain[match.end():end_of_call(blank, match.end())]
        yield (plain.count("\n", 0, match.start()) + 1, match.group(1),
               re.sub(r'"\s*(PRI\w+)\s*"', "d", arguments))


def messages_of(source):
    """The text of each error or log line in a C file: its string literals, joined; (line number,
    text)."""
    for line, name, arguments in calls_of(source, CALL):
        if name == "fprintf" and not arguments.lstrip().startswith("stderr"):
            continue
        literals = STRING.findall(arguments)
        if literals:
            yield line, " ".join(literals).replace("\\n", " ").replace('\\"', '"')


def errors_of(source):
    """The format of each recorded error in a C file; (line number, function, text). Macros between
    its literals are omitted."""
    for line, name, arguments in calls_of(source, FAIL):
        first = re.search(rf"{STRING.pattern}(?:\s*(?:\w+\s*)?{STRING.pattern})*", arguments)
        if first:
            yield line, name, "".join(STRING.findall(first.group(0))).replace('\\"', '"')


def form_of(name, text):
    """What differs from "what failed: cause (hint)"; tt_fail_errno appends the cause itself."""
    before_hint = re.sub(r"\s*\((?:[^()]|\([^()]*\))*\)$", "", text)
    if name == "tt_fail" and ": " not in text and len(text.split()) >= FORM_WORDS \
            and not OUT_OF.search(text):
        yield "no cause after a colon"
    if re.search(r"[^.]\.$", text):
        yield "a full stop at the end"
    if re.search(r"\bhint:|\b[Tt]ry\b", before_hint):
        yield "a hint that is not in parentheses at the end"


def literals_of(source):
    """The text of each string literal in a C or C++ file, with adjacent ones joined; (line number,
    text). Without includes, and without single words, which are keys and names."""
    plain = re.sub(r"'(\\.|[^'\\])'", lambda m: "0" * len(m.group(0)), source)
    plain = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), plain,
                   flags=re.DOTALL)
    plain = re.sub(r"^#include.*$", "", plain, flags=re.MULTILINE)
    plain = re.sub(r'"\s*(PRI\w+)\s*"', "d", plain)
    for match in re.finditer(rf"{STRING.pattern}(?:\s*{STRING.pattern})*", plain):
        text = "".join(STRING.findall(match.group(0))).replace("\\n", " ").replace('\\"', '"')
        if " " in text:
            yield plain.count("\n", 0, match.start()) + 1, text


def python_literals_of(source):
    """The same for a Python file; docstrings are the help of calls."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def all_literals():
    """(file and line, text) of all string literals that a user may read."""
    for top in ("src", "shim", "tools", "python"):
        for path in sorted((ROOT / top).rglob("*")):
            parts = path.relative_to(ROOT).parts
            if "build" in parts or path.suffix not in {".c", ".h", ".cpp", ".hpp", ".cc", ".py"}:
                continue
            of = python_literals_of if path.suffix == ".py" else literals_of
            for line, text in of(path.read_text()):
                # None is a value of Python
                yield f"{'/'.join(parts)}:{line}", re.sub(r"\bNone\b", "NULL", text)


def rooms():
    """Folders whose errors are counted: each folder of src and shim, and tools."""
    below = [path for top in ("src", "shim") for path in (ROOT / top).iterdir() if path.is_dir()]
    return sorted(str(path.relative_to(ROOT)) for path in below) + ["tools"]


def findings_of_errors(room):
    found = []
    for path in sorted((ROOT / room).rglob("*.[ch]")):
        for line, text in messages_of(path.read_text()):
            found += words_in(text, f"{path.relative_to(ROOT)}:{line}")
    return found


def tutti(*arguments):
    tool = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=True,
                          timeout=60).stdout


def commands():
    """All commands of `tutti --help`, with their verbs."""
    names = re.findall(r"^  (\w+) ", tutti("--help"), re.MULTILINE)
    verbs = re.findall(r"^  (\w+) ", tutti("plan", "--help"), re.MULTILINE)
    return [[], *([name] for name in names), *(["plan", verb] for verb in verbs), ["topo", "place"],
            ["ring", "order"],
            ["perf", "putsignal"], ["perf", "a2av"], ["sim", "putsignal"]]


class Language(unittest.TestCase):
    def check(self, findings):
        findings = list(findings)
        self.assertEqual(findings, [], "\n" + "\n".join(findings))

    def test_readme_has_short_lines_and_sentences(self):
        text = (ROOT / "README.md").read_text()
        self.assertGreater(len(prose_of(text)), 20)
        self.assertLessEqual(len(text.splitlines()), 120)
        self.check([*long_lines_in(text, "README.md"), *long_sentences_in(text, "README.md"),
                    *words_in(" ".join(prose_of(text)), "README.md")])

    def test_readme_figure_matches_the_measurements(self):
        done = subprocess.run([ROOT / "scripts" / "draw-speed.py", "--check"], capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_readme_and_guides_have_no_broken_links(self):
        for page in ("README.md", "docs/building.md", "docs/errors.md", "docs/glossary.md"):
            for target in re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text()):
                if not target.startswith("https:"):
                    with self.subTest(page=page, target=target):
                        self.assertTrue(((ROOT / page).parent / target).exists())

    def test_guides_are_plain(self):
        pages = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "bench").glob("*.md")),
                 ROOT / "python" / "README.md"]
        self.assertGreater(len(pages), 35)
        for page in pages:
            name = str(page.relative_to(ROOT))
            with self.subTest(page=name):
                text, prose = plain_of(page.read_text())
                self.check([*long_lines_in(text, name), *words_in(prose, name)])

    def test_glossary_is_plain(self):
        text = (ROOT / "docs" / "glossary.md").read_text()
        self.check([*long_lines_in(text, "docs/glossary.md"), *words_in(text, "docs/glossary.md")])

    def test_public_headers_are_plain(self):
        headers = sorted((ROOT / "include" / "tutti").glob("*.h"))
        self.assertGreater(len(headers), 9)
        for header in headers:
            name = str(header.relative_to(ROOT))
            with self.subTest(header=name):
                text = header.read_text()
                comments = re.sub(r"\n\s*\*", "\n",
                                  "\n".join(re.findall(r"/\*.*?\*/", text, re.DOTALL)))
                self.check_allowed(name, [*long_lines_in(text, name), *words_in(comments, name)])

    def test_help_is_plain(self):
        self.assertGreater(len(commands()), 12)
        for command in commands():
            name = " ".join(["tutti", *command, "--help"])
            with self.subTest(command=name):
                text = tutti(*command, "--help")
                self.check_allowed(name, [*long_lines_in(text, name), *words_in(text, name)])

    def test_parameters_are_plain(self):
        texts = re.findall(r'"((?:\\.|[^"\\])*)"', (ROOT / "src" / "base" / "param.c").read_text())
        self.assertGreater(len(texts), 40)
        self.check(finding for text in texts for finding in words_in(text, "src/base/param.c"))
        self.check(long_lines_in(tutti("info", "--params"), "tutti info --params"))

    def test_errors_are_plain(self):
        seen = 0
        for room in rooms():
            with self.subTest(room=room):
                seen += sum(1 for path in (ROOT / room).rglob("*.[ch]")
                            for _ in messages_of(path.read_text()))
                self.check_allowed(room, findings_of_errors(room))
        self.assertGreater(seen, 800)

    def test_errors_have_one_form(self):
        found = []
        seen = 0
        for room in rooms():
            for path in sorted((ROOT / room).rglob("*.[ch]")):
                for line, name, text in errors_of(path.read_text()):
                    seen += 1
                    found += [f'{path.relative_to(ROOT)}:{line}: {why}: "{text}"'
                              for why in form_of(name, text)]
        self.assertGreater(seen, 800)
        self.check(found)

    def test_string_literals_are_plain(self):
        literals = list(all_literals())
        self.assertGreater(len(literals), 4000)
        for top in ("src", "shim", "tools", "python"):
            self.assertGreater(sum(where.startswith(top) for where, _ in literals), 100, top)
        self.check(finding for where, text in literals for finding in words_in(text, where))

    def test_sources_have_short_lines(self):
        found = {}
        seen = 0
        for folder, path in sources():
            seen += 1
            text = path.read_text(errors="replace")
            found.setdefault(folder, []).extend(long_lines_in(text, str(path.relative_to(ROOT))))
        self.assertGreater(seen, 1000)
        self.assertEqual(sorted(set(LONG_LINES) - set(found)), [], "remove these of LONG_LINES")
        for folder, findings in found.items():
            with self.subTest(folder=folder):
                self.check_allowed(folder, findings, LONG_LINES)

    def test_allowed_names_exist(self):
        names = {*rooms(), *(str(path.relative_to(ROOT))
                             for path in (ROOT / "include" / "tutti").glob("*.h")),
                 *(" ".join(["tutti", *command, "--help"]) for command in commands())}
        self.assertEqual(sorted(set(ALLOWED) - names), [], "remove these entries of ALLOWED")

    def check_allowed(self, name, findings, allowed=ALLOWED):
        """At most as many findings as `allowed` has for the name; entries without findings must go."""
        most = allowed.get(name, 0)
        if name in allowed and not findings:
            self.fail(f"{name} is clean: remove its entry")
        self.assertLessEqual(len(findings), most,
                             f"\n{name}: {len(findings)} findings, at most {most}:\n"
                             + "\n".join(findings))

    def test_the_lint_finds_what_it_is_for(self):
        """The lint itself: each kind of finding, and text without one."""
        self.assertEqual(len(list(words_in("it is packed anew, by and by", "x"))), 2)
        self.assertEqual(len(list(words_in("the id is none: its bytes must come unchanged", "x"))),
                         1)
        self.assertEqual(list(words_in("invalid id: pass the bytes returned by tutti_id_create()",
                                       "x")), [])
        self.assertEqual(len(list(long_lines_in("x" * 101 + "\n" + "y" * 100, "x"))), 1)
        self.assertEqual(len(list(long_sentences_in("word " * 26 + ".\n", "x"))), 1)
        self.assertEqual(list(long_sentences_in("word " * 25 + "\n\n```\n" + "code " * 40
                                                + "\n```\n", "x")), [])
        page = "plain\n\n    told " + "x" * 100 + "\n\n| told |\n\n```\ntold\n```\n\n`told` told\n"
        self.assertEqual((list(long_lines_in(plain_of(page)[0], "x")),
                          len(list(words_in(plain_of(page)[1], "x")))), ([], 1))
        call = ('x(1);\ntt_fail(st, "rank %u (%s) "\n        "asks for %" PRIu64 " bytes", '
                'f("a"), n);\n')
        self.assertEqual([(line, "asks for" in text) for line, text in messages_of(call)],
                         [(2, True)])
        self.assertEqual(list(errors_of(call)),
                         [(2, "tt_fail", "rank %u (%s) asks for %d bytes")])
        for name, text, n in (("tt_fail", "rank %u (%s) asks for %d bytes", 1),
                              ("tt_fail", "rank %u: %s", 0),
                              ("tt_fail", "out of memory for %u names of hosts", 0),
                              ("tt_fail_errno", "cannot open the file %s", 0),
                              ("tt_fail_errno", "cannot open the file %s.", 1),
                              ("tt_fail", "cannot open %s: busy (try again, or (b) stop)", 0),
                              ("tt_fail", "cannot open %s: busy; try again", 1),
                              ("tt_fail", "%s: unknown name %.80s...", 0)):
            self.assertEqual(len(list(form_of(name, text))), n, text)
        table = ('#include "a b"\nstatic const char *const why[] = {\n    [ONE] = "it knows "\n'
                 '            "nobody", /* "a c" */ [TWO] = "key" };\n')
        self.assertEqual(list(literals_of(table)), [(3, "it knows nobody")])
        self.assertEqual(list(python_literals_of('f(x, "a", \n  f"it knows {x}")')),
                         [(2, "it knows ")])
        for text, n in (("ranks meet at a server", 1), ("ranks that met", 1), ("117 are met", 0),
                        ("all rows meet their targets", 0), ("it does not know it", 1),
                        ("unknown, known", 0)):
            self.assertEqual(len(list(words_in(text, "x"))), n, text)


if __name__ == "__main__":
    if "--counts" in sys.argv:          # what ALLOWED would have to be now, for errors
        for one in rooms():
            print(f"{len(findings_of_errors(one)):5d} {one}")
        sys.exit(0)
    unittest.main(verbosity=2)
