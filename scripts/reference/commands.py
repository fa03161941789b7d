"""Reads the help of the tutti command: usage, description, options and the sections after them."""

import json
import re
import subprocess
from dataclasses import dataclass

import prose
from headers import ROOT

WRAPPER = ROOT / "shim" / "shmem" / "oshcc.in"
BOILERPLATE = "Mandatory or optional arguments to long options"
OPTION = re.compile(r" {2,6}(-\S.*?)(?: {2,}(\S.*))?")
ENTRY = re.compile(r" {2,6}(\S+(?: \S+)*?) {2,}(\S.*)| {2}(\w+) (\S.*)")


@dataclass
class Command:
    words: list  # ["plan", "why"]
    page: str  # "tutti-plan-why"
    summary: str
    usage: list
    description: list  # blocks of prose.py
    sections: list  # (heading, blocks)
    related: list  # pages
    help: str


def output_of(tool, *words):
    done = subprocess.run([tool, *words], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise ValueError(
            f"tutti {' '.join(words)}: exit status {done.returncode}: {done.stderr.strip()}"
        )
    return done.stdout


def entries_of(lines, pattern):
    """Terms with texts that continue on indented lines, as a block."""
    found = []
    for line in lines:
        match = pattern.fullmatch(line)
        if match:
            groups = [part for part in match.groups() if part is not None]
            found.append([groups[0], groups[1] if len(groups) > 1 else ""])
        elif found:
            found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
    return ("defs", [tuple(entry) for entry in found])


def is_entry(line):
    return ENTRY.fullmatch(line) is not None and not line.lstrip().startswith("-")


def paragraphs_of(help_text):
    return [block.split("\n") for block in re.split(r"\n[ ]*\n", help_text.strip("\n"))]


def list_of(lines):
    """The lines below a heading: entries, then perhaps a paragraph at the left margin."""
    if not any(is_entry(line) for line in lines):
        return prose.blocks_of([line.strip() for line in lines])
    end = next((i for i, line in enumerate(lines) if i and line[0].isupper()), len(lines))
    rest = " ".join(line.strip() for line in lines[end:])
    return [entries_of(lines[:end], ENTRY), *([("para", rest)] if rest else [])]


def section_of(lines):
    """A paragraph with a heading ("Examples:", "Exit status: 0 on ...") as (heading, blocks); else
    (None, blocks)."""
    heading = re.fullmatch(r"([A-Z][-a-z]+(?: [a-z]+)?):(?: (.*))?", lines[0])
    if not heading:
        return None, list_of(lines) if all(is_entry(line) for line in lines) else prose.blocks_of(
            lines
        )
    if heading[1] == "Examples":
        return "examples", [("code", [line.strip() for line in lines[1:]])]
    if heading[2] is not None:
        return heading[1], [("para", " ".join([heading[2], *(line.strip() for line in lines[1:])]))]
    return heading[1], list_of(lines[1:])


def options_of(lines):
    """A list of options, perhaps below a heading, as blocks; empty if the paragraph is none."""
    first = next((i for i, line in enumerate(lines) if OPTION.fullmatch(line)), None)
    if first is None or any(not line.startswith(" ") for line in lines[:first]):
        return []
    heading = " ".join(line.strip() for line in lines[:first])
    return [*([("para", heading)] if heading else []), entries_of(lines[first:], OPTION)]


def parse(words, text):
    usage, description, options, sections = [], [], [], []
    for lines in paragraphs_of(text):
        if lines[0].startswith("Usage: "):
            while lines and lines[0].startswith(("Usage: ", "       ")):
                usage.append(lines.pop(0).removeprefix("Usage: ").strip())
            if not lines:
                continue
        found = options_of(lines)
        options += found
        if not found and not lines[0].startswith(BOILERPLATE):
            heading, blocks = section_of(lines)
            if heading:
                sections.append((heading, blocks))
            else:
                description += blocks
    if options:
        sections.insert(0, ("options", options))
    first = next(content for kind, content in description if kind == "para")
    summary = prose.Description.first_sentence(first)
    return Command(
        words, "-".join(["tutti", *words]), summary, usage, description, sections, [], text
    )


def subcommands_of(text):
    """The names in a list with the heading "Commands:" or "Subcommands:", and those that "See also"
    names."""
    words = [
        line.split()[0]
        for lines in paragraphs_of(text)
        if re.fullmatch(r"(Commands|Subcommands):", lines[0])
        for line in lines[1:]
        if line.startswith("  ")
    ]
    return words + re.findall(r"`tutti \w+ (\w+) --help`", text.replace("\n", " "))


def read_commands(tool):
    """tutti, its commands and their subcommands."""
    found, waiting = [], [[]]
    while waiting:
        words = waiting.pop(0)
        text = output_of(tool, *words, "--help")
        found.append(parse(words, text))
        waiting += [
            [*words, name]
            for name in dict.fromkeys(subcommands_of(text))
            if name.isalnum() and name.islower()
        ]
    pages = {command.page for command in found}
    for command in found:
        above = "-".join(["tutti", *command.words[:-1]]) if command.words else ""
        below = [page for page in pages if page.rpartition("-")[0] == command.page]
        command.related = sorted({page for page in (above, *below) if page})
    return found


def read_wrapper():
    """The compiler wrappers tutti-oshcc and tutti-oshc++, from the comment at the top of their
    template."""
    lines = WRAPPER.read_text().split("\n")[1:]
    comment = [
        line.removeprefix("#").strip()
        for line in lines[: [line[:1] == "#" for line in lines].index(False)]
    ]
    text = (
        " ".join(comment)
        .replace("@TUTTI_COMPILER@", "cc (tutti-oshc++: c++)")
        .replace("@TUTTI_COMPILER_VARIABLE@", "OSHCC_COMPILER (OSHCXX_COMPILER)")
    )
    return Command(
        [],
        "tutti-oshcc",
        "compiles and links an OpenSHMEM program",
        [
            "tutti-oshcc [--showme] [COMPILER OPTION...]",
            "tutti-oshc++ [--showme] [COMPILER OPTION...]",
        ],
        [("para", text)],
        [],
        ["tutti", "tutti-run"],
        "",
    )


def variable_text(variable):
    """What a variable sets, with its default and bounds if it is a number."""
    summary = variable["summary"]
    text = summary[0].upper() + summary[1:].rstrip(".") + "."
    if "default" not in variable:
        return text
    unit, bounds = variable["unit"], f"{variable['min']} to {variable['max']}"
    values = unit if unit[:1].isdigit() else f"{unit}, {bounds}" if unit else bounds
    return f"{text} Default: {variable['default']} ({values})."


def read_variables(tool):
    """All environment variables that Tutti reads, as blocks of prose.py."""
    variables = json.loads(output_of(tool, "info", "--params", "--json"))
    if not variables:
        raise ValueError("tutti info --params --json lists no variable")
    introduction = (
        "Tutti reads these environment variables. `tutti info --params` shows their current values."
    )
    entries = [(variable["name"], variable_text(variable)) for variable in variables]
    return [("para", introduction), ("defs", entries)]
