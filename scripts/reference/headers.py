"""Reads the public headers: declarations, in groups that share a comment, with their fields.

A comment describes the declarations that follow it up to the next comment or empty line. Functions
without a comment belong to the group before them. Other declarations without a comment form a group
of their own."""

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "include" / "tutti"
# in the order of the reference; the overview page of tutti.h is tutti(7)
HEADERS = (
    "tutti.h",
    "rma.h",
    "elastic.h",
    "elastic_cuda.h",
    "coordinator.h",
    "device.h",
    "moe.h",
    "moe_device.h",
    "gpu.h",
    "trace.h",
    "algorithm.h",
    "hash.h",
    "hash_device.h",
)
MARKERS = ("TUTTI_API", "TUTTI_DEVICE", "TUTTI_HASH_CODE")  # of functions, not documented
SECTION = re.compile(r"/\* -{2,} (.*?) -{2,} \*/")
ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\)\)?\s*")


@dataclass
class Item:
    """A declaration."""

    kind: str  # "function", "struct", "enum", "type" or "macro"
    name: str  # "" if an enum has none
    code: str  # without comments and body
    exported: bool = False  # a function of the shared library
    note: str = ""  # its comment on the same line
    fields: list = field(default_factory=list)  # (code, comment); code "": a comment on the next

    def is_status(self):
        return self.kind == "function" and self.code.startswith("tutti_status ")

    def is_void(self):
        return self.kind == "function" and re.match(r"void [^*]", self.code) is not None

    def enumerators(self):
        if self.kind != "enum":
            return []
        return [
            name
            for code, _ in self.fields
            for name in re.findall(r"\b(TUTTI_\w+)\s*(?:=|,|$)", code)
        ]


@dataclass
class Group:
    """Declarations with one comment: one page."""

    section: str
    comment: list  # lines
    items: list = field(default_factory=list)

    def names(self):
        """All names, the name of the page first: a function if there is one. Enumerators stand for
        an enum without a name."""
        found = [item.name for item in self.items if item.kind == "function"]
        for item in self.items:
            found += [item.name] if item.name else item.enumerators()
        return list(dict.fromkeys(found))

    def functions(self):
        return [item for item in self.items if item.kind == "function"]


@dataclass
class Header:
    file: str  # "rma.h"
    overview: list
    groups: list
    constants: list  # macros without a comment before them

    def page(self):
        return page_of(self.file)


def page_of(file):
    """The name of the overview page of a header, in section 7."""
    stem = file.removesuffix(".h").replace("_", "-")
    return stem if stem == "tutti" else "tutti-" + stem


def comment_lines(text):
    """The lines of a comment without its delimiters and its column of stars."""
    lines = text.removeprefix("/*").removesuffix("*/").split("\n")
    first, rest = lines[0].strip(), [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in lines[1:]]
    while rest and not rest[-1]:
        rest.pop()
    return [first, *rest]


def inline_comment(text):
    """A comment beside or above a field as one line."""
    return " ".join(
        " ".join(
            re.sub(r"^\s*\*? ?", "", line)
            for line in text.removeprefix("/*").removesuffix("*/").split("\n")
        ).split()
    )


def end_of_declaration(text, start):
    """The index behind the declaration at start, and where its body begins if it is a definition
    of a function, else None."""
    depth, i, body, code = 0, start, None, ""
    while i < len(text):
        if text.startswith("/*", i):
            i = text.index("*/", i) + 2
            continue
        if text[i] == '"':
            i = re.compile(r'"(?:\\.|[^"\\])*"').match(text, i).end()
            continue
        char = text[i]
        if char == "{" and depth == 0 and code.rstrip().endswith(")"):
            body = i
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(char, 0)
        i += 1
        code += char
        if depth == 0 and (char == ";" or (char == "}" and body is not None)):
            return i, body
    raise ValueError(f"declaration without an end: {text[start : start + 60]!r}")


def fields_of(body, separator):
    """The members between the braces of a struct or enum: (code, comment). A comment with code ""
    stands above the next members."""
    found, code, i = [], "", 0
    while i < len(body):
        if body.startswith("/*", i):
            end = body.index("*/", i) + 2
            comment = inline_comment(body[i:end])
            own_line = body[:i].rpartition("\n")[2].strip() == ""
            if own_line and not code.strip():
                found.append(["", comment])
            elif code.strip():  # the last enumerator has no comma
                found.append([code, comment])
                code = ""
            else:
                found[-1][1] = f"{found[-1][1]} {comment}".strip()
            i = end
            continue
        code += body[i]
        i += 1
        rest = body[i:].split("\n", 1)[0].strip()
        if (
            code.rstrip().endswith(separator)
            and (not rest or rest.startswith("/*"))
            and code.count("(") == code.count(")")
        ):
            found.append([code, ""])
            code = ""
    if code.strip():
        found.append([code, ""])
    return [(" ".join(code.split()).rstrip(separator), comment) for code, comment in found]


def item_of(text, body):
    """The declaration in this text; body is the index of a function's body."""
    code = text[:body] if body is not None else text
    exported = "TUTTI_API" in code or "__attribute__" in code
    code = re.sub(
        r"^#[^\n]*$", "", re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL), flags=re.MULTILINE
    )
    code = ATTRIBUTE.sub("", code).strip()
    for marker in MARKERS:
        code = code.replace(marker + " ", "").replace(marker + "\n", "")
    code = re.sub(r"^static inline ", "", code).rstrip(";").rstrip()
    brace = code.find("{")
    kind = re.match(r"(?:typedef )?(struct|enum)\b", code)
    if kind and brace >= 0:
        inside = text[text.index("{") + 1 : text.rindex("}")]
        name = re.search(r"\b(?:struct|enum) (\w+)", code[:brace])
        members = fields_of(inside, ";" if kind[1] == "struct" else ",")
        return Item(kind[1], name[1] if name else "", code, fields=members)
    if code.startswith("typedef"):
        name = re.search(r"(\w+)\s*(\(|$)", code.removeprefix("typedef "))
        return Item("type", name[1], " ".join(code.split()))
    name = re.search(r"(tutti_\w+)\s*\(", code)
    if not name:
        return None
    return Item(
        "function", name[1], re.sub(r"\* (?=tutti_\w+\()", "*", " ".join(code.split())), exported
    )


class Reader:
    """Reads one header."""

    def __init__(self, path):
        self.text = path.read_text()
        self.at = 0
        self.header = Header(path.name, [], [], [])
        self.section, self.section_note, self.comment = "", [], None

    def read(self):
        while self.skip_blank():
            if self.text.startswith("/*", self.at):
                self.read_comment()
            elif self.text[self.at] == "#":
                self.read_directive()
            elif self.text.startswith(('extern "C" {', "}"), self.at):
                self.at = self.text.index("\n", self.at)
            else:
                end, body = end_of_declaration(self.text, self.at)
                self.add(
                    item_of(self.text[self.at : end], None if body is None else body - self.at)
                )
                self.at = end
                self.read_note()
        self.header.groups = [group for group in self.header.groups if group.items]
        silent = [group.names()[0] for group in self.header.groups if not group.comment]
        if silent:
            raise ValueError(
                f"{self.header.file}: declarations without a comment: {', '.join(silent)}"
            )
        return self.header

    def skip_blank(self):
        """Skips white space; self.blank is set if an empty line was skipped."""
        space = re.compile(r"\s*").match(self.text, self.at)
        self.blank = space[0].count("\n") > 1
        self.at = space.end()
        return self.at < len(self.text)

    def read_comment(self):
        end = self.text.index("*/", self.at) + 2
        text, self.at = self.text[self.at : end], end
        section = SECTION.fullmatch(" ".join(text.split()))
        if section:
            self.section, self.section_note, self.comment = section[1], [], None
            self.header.groups.append(Group(self.section, []))  # for later declarations
        elif not self.header.overview:
            self.header.overview = comment_lines(text)
        else:
            if self.comment:  # no declaration in between: it describes the section
                self.section_note = ["", *self.comment]
            self.comment = comment_lines(text)

    def read_directive(self):
        match = re.compile(r"(?:[^\n\\]|\\\n|\\.)*?(?=/\*|\n(?<!\\\n))").match(self.text, self.at)
        text, self.at = match[0], match.end()
        define = re.match(r"#define (TUTTI_\w+)(?!\w)", text)
        if define and not define[1].endswith("_H") and define[1] not in MARKERS:
            known = {name for group in self.header.groups for name in group.names()}
            known |= {item.name for item in self.header.constants}
            if define[1] not in known:
                self.add(Item("macro", define[1], " ".join(text.replace("\\\n", " ").split())))
        self.read_note()

    def read_note(self):
        """A comment on the line of the declaration just read, which may continue."""
        note = re.compile(r"[ \t]*(/\*.*?\*/)", re.DOTALL).match(self.text, self.at)
        if note:
            self.at = note.end()
            if self.last:
                self.last.note = inline_comment(note[1])

    last = None

    def add(self, item):
        self.last = item
        if item is None:
            return
        if self.comment is not None:
            self.header.groups.append(
                Group(self.section, [*self.comment, *self.section_note], [item])
            )
        elif item.kind == "macro" and (
            self.blank or not self.header.groups or not self.header.groups[-1].items
        ):
            self.header.constants.append(item)
        elif self.header.constants and item.kind == "macro" and self.follows_constant:
            self.header.constants.append(item)
        elif (
            self.header.groups
            and self.header.groups[-1].items
            and (item.kind == "function" or not self.blank)
        ):
            self.header.groups[-1].items.append(item)
        else:
            self.header.groups.append(Group(self.section, [], [item]))
        self.follows_constant = bool(self.header.constants) and self.header.constants[-1] is item
        self.comment = None


def read_headers(folder=FOLDER):
    """All public headers, in the order of the reference."""
    missing = {path.name for path in folder.glob("*.h")} ^ set(HEADERS)
    if missing:
        raise ValueError(f"HEADERS of {__file__} and {folder} differ: {sorted(missing)}")
    return [Reader(folder / name).read() for name in HEADERS]


def version_of(folder=FOLDER):
    """The version of the public header, e.g. "0.1.0"."""
    numbers = re.findall(
        r"^#define TUTTI_VERSION_\w+ (\d+)$", (folder / "tutti.h").read_text(), re.MULTILINE
    )
    return ".".join(numbers)
