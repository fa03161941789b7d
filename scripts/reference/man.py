"""Manual pages in man(7) format: section 3 for declarations, 7 for headers, 1 for commands."""

import re
import textwrap

import text
from prose import Description, blocks_of

WIDTH = 78
SEE_ALSO_MAX = 8
IDENTIFIER = re.compile(r"\b((?:tutti|TUTTI)_\w+)\b(?:\(\))?(\(\d\))?")

EMPHASIS = re.compile(r"(?<![\w*])\*(\w[\w ]*)\*(?!\w)")


def escape(words):
    return (
        words.replace("\\", "\\e")
        .replace("-", "\\-")
        .replace("'", "\\(aq")
        .replace("`", "\\(ga")
        .replace("^", "\\(ha")
        .replace("~", "\\(ti")
    )


def plain(words):
    """Text for the NAME section, which has no fonts."""
    return escape(words.replace("`", ""))


def guard(line):
    """A line of text that begins with a control character is no request."""
    return "\\&" + line if line.startswith((".", "'")) else line


def inline(words, own=()):
    """Escapes a paragraph; identifiers and quoted code are bold, names of this page are not."""

    def identifier(match):
        name, section = match[1], match[2] or ""
        return match[0] if name in own else f"\x01{name}\x02{section}"

    parts = re.split(r"`([^`]+)`", words)
    for i, part in enumerate(parts):
        parts[i] = (
            f"\x01{part}\x02"
            if i % 2
            else EMPHASIS.sub("\x03\\1\x02", IDENTIFIER.sub(identifier, part))
        )
    return (
        escape("".join(parts))
        .replace("\x01", "\\fB")
        .replace("\x02", "\\fP")
        .replace("\x03", "\\fI")
    )


def filled(words, own=()):
    """A paragraph in short lines, each of which is text."""
    lines = textwrap.wrap(inline(words, own), WIDTH, break_long_words=False, break_on_hyphens=False)
    return [guard(line) for line in lines]


def code(lines):
    return [
        ".RS 4",
        ".nf",
        *(guard(escape(line)) if line.strip() else ".sp" for line in lines),
        ".fi",
        ".RE",
    ]


def tagged(term, words, own=()):
    return [".TP", guard(f"\\fB{escape(term)}\\fP"), *(filled(words, own) or ["\\&"])]


def rendered(blocks, own=()):
    """Blocks of prose.py as lines."""
    out, first = [], True
    for kind, content in blocks:
        if kind == "para":
            out += ([] if first else [".PP"]) + filled(content, own)
        elif kind == "code":
            out += [".PP", *code(content)]
        elif kind == "list":
            for entry in content:
                out += [".IP \\(bu 2", *filled(entry, own)]
        else:
            for term, words in content:
                out += tagged(term, words, own)
        first = False
    return out


def title(name, section, version, manual):
    return [f'.TH {name} {section} "" "Tutti {version}" "{manual}"']


def prototype(item):
    """A declaration in lines of at most WIDTH columns, broken at commas."""
    if item.kind == "macro":
        return [item.code]
    if item.kind in ("struct", "enum"):
        return [
            f"typedef {item.kind} {item.name} {{ ... }} {item.name};"
            if item.code.startswith("typedef")
            else f"{item.kind} {item.name} {{ ... }};".replace("  ", " ")
        ]
    words = item.code + ";"
    if len(words) <= WIDTH:
        return [words]
    head, arguments = words.split("(", 1)
    lines, line = [], head + "("
    for argument in re.split(r"(?<=,) (?![^(]*\))|(?<=,) (?=[^()]*\);$)", arguments):
        if len(line) + len(argument) > WIDTH and line.strip() and not line.endswith("("):
            lines.append(line.rstrip())
            line = " " * 8
        line += argument + " "
    return [*lines, line.rstrip()]


def synopsis(header, group):
    lines = [".nf", f"\\fB#include <tutti/{header.file}>\\fP", ".sp"]
    for item in group.items:
        for line in prototype(item):
            shown = escape(line)
            if item.kind == "function":
                shown = re.sub(rf"\b{item.name}(?=\()", f"\\\\fB{item.name}\\\\fP", shown)
            lines.append(guard(shown))
    return [*lines, ".fi"]


def members(group, own):
    """The fields and values of the types of a group."""
    out = []
    for item in group.items:
        if not item.fields:
            continue
        what = "Fields" if item.kind == "struct" else "Values"
        out += [f".SS {what} of {item.name}".removesuffix(" of ")]
        for term, comment in item.fields:
            out += tagged(term, comment, own) if term else [".PP", *filled(comment, own)]
    notes = [(item.name, item.note) for item in group.items if item.note]
    for name, note in notes:
        out += tagged(name, note, own)
    return out


def see_also(header, group):
    """Other pages: the header, and the nearest ones of the same section of the header."""
    others = [
        other.names()[0]
        for other in header.groups
        if other is not group and other.section == group.section
    ]
    all_names = [other.names()[0] for other in header.groups]
    at = all_names.index(group.names()[0])
    near = sorted(others, key=lambda name: abs(all_names.index(name) - at))[:SEE_ALSO_MAX]
    pages = [f"\\fB{escape(name)}\\fP(3)" for name in sorted(near)]
    return [",\n".join([*pages, f"\\fB{escape(header.page())}\\fP(7)"])]


def page(header, group, version):
    """The page of a group in section 3."""
    own, description = group.names(), Description(group.comment)
    out = title(own[0], 3, version, "Tutti Library")
    out += [
        ".SH NAME",
        guard(", ".join(own) + f" \\- {plain(description.summary)}"),
        ".SH SYNOPSIS",
        *synopsis(header, group),
        ".SH DESCRIPTION",
        *rendered(description.blocks, own),
        *members(group, own),
    ]
    returned = text.return_value(group, description)
    if returned:
        out += [".SH RETURN VALUE", *filled(returned[0], own)]
    if any(item.is_status() for item in group.functions()):
        out += [".SH ERRORS"]
        for names, words in description.errors:
            out += tagged(text.full_names(names), words, own)
        out += [".PP", *filled(text.ALL_ERRORS, own)]
    return "\n".join([*out, ".SH SEE ALSO", *see_also(header, group)]) + "\n"


def overview(header, version):
    """The page of a header in section 7, with a list of its pages."""
    description = Description(header.overview)
    out = title(header.page(), 7, version, "Tutti Library")
    summary = description.summary.removeprefix("Tutti, ").removeprefix("Tutti: ")
    out += [
        ".SH NAME",
        f"{escape(header.page())} \\- {plain(summary)}",
        ".SH SYNOPSIS",
        f"\\fB#include <tutti/{header.file}>\\fP",
        ".SH DESCRIPTION",
        *rendered(blocks_of(header.overview)),
    ]
    if header.constants:
        out += [".SH CONSTANTS"]
        for item in header.constants:
            out += tagged(item.code.removeprefix("#define "), item.note)
    sections = {}
    for group in header.groups:
        sections.setdefault(group.section or "declarations", []).append(group)
    out += [".SH PAGES"]
    for section, groups in sections.items():
        out += [f".SS {escape(section.capitalize())}"]
        for group in groups:
            out += tagged(f"{group.names()[0]}(3)", Description(group.comment).summary)
    return "\n".join([*out, ".SH SEE ALSO", "\\fBtutti\\fP(1)"]) + "\n"


def command_page(command, version):
    """The page of a command in section 1."""
    out = title(command.page, 1, version, "Tutti Commands")
    out += [
        ".SH NAME",
        f"{escape(command.page)} \\- {plain(command.summary)}",
        ".SH SYNOPSIS",
        ".nf",
        *(guard(escape(line)) for line in command.usage),
        ".fi",
        ".SH DESCRIPTION",
        *rendered(command.description),
    ]
    for heading, blocks in command.sections:
        out += [f".SH {heading.upper()}", *rendered(blocks)]
    pages = [f"\\fB{escape(name)}\\fP(1)" for name in command.related]
    pages += ["\\fBtutti\\fP(7)", "\\fBtutti\\-environment\\fP(7)"]
    return "\n".join([*out, ".SH SEE ALSO", ",\n".join(pages)]) + "\n"


def environment_page(blocks, version):
    """The page of the environment variables in section 7."""
    out = title("tutti-environment", 7, version, "Tutti Library")
    out += [".SH NAME", "tutti\\-environment \\- environment variables of Tutti"]
    out += [".SH DESCRIPTION", *rendered(blocks[:1]), ".SH VARIABLES", *rendered(blocks[1:])]
    return "\n".join([*out, ".SH SEE ALSO", "\\fBtutti\\-info\\fP(1),\n\\fBtutti\\fP(7)"]) + "\n"


def alias(name, section):
    return f".so man{section}/{name}.{section}\n"
