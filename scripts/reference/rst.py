"""The reference in reStructuredText, with the C domain of Sphinx: one file per header, one for the
commands."""

import re

import text
from prose import Description, blocks_of

ROLES = {
    "function": "func",
    "struct": "struct",
    "enum": "enum",
    "type": "type",
    "macro": "macro",
    "enumerator": "enumerator",
    "envvar": "envvar",
}
GUIDE = re.compile(r"\bdocs/([\w-]+)\.md\b")
NAME = re.compile(r"\b(?:tutti|TUTTI)_\w+\b")
UNDERLINES = "=-~"


class Names:
    """All documented names with the kind of their declaration, and all guides."""

    def __init__(self, headers, guides):
        self.kinds, self.guides = {}, guides
        for header in headers:
            for item in [
                *header.constants,
                *(item for group in header.groups for item in group.items),
            ]:
                if item.name and not is_cuda(item):
                    self.kinds[item.name] = item.kind
                for name in item.enumerators():
                    self.kinds[name] = "enumerator"

    def add_variables(self, blocks):
        """Adds the environment variables (commands.read_variables)."""
        for name, _ in blocks[1][1]:
            self.kinds[name] = "envvar"

    def role(self, name):
        if self.kinds[name] == "envvar":
            return f":envvar:`{name}`"
        return f":c:{ROLES[self.kinds[name]]}:`{name}`"


def is_cuda(item):
    """Declarations that are no C."""
    return (
        item.kind == "function" and re.search(r"\btemplate\b|__global__|<<<", item.code) is not None
    )


def escape(words):
    return re.sub(r"([\\*`|])|_(?!\w)|(?<!\w)_", lambda match: "\\" + match[0], words)


def inline(words, names):
    """A paragraph: `code`, *emphasis*, links to declarations and guides."""
    out = []
    for i, part in enumerate(re.split(r"`([^`]+)`", words)):
        if i % 2:
            out.append(names.role(part) if part in names.kinds else f"``{part}``")
            continue
        at = 0
        for match in re.finditer(rf"{NAME.pattern}|{GUIDE.pattern}", part):
            if match[0] not in names.kinds and match[1] not in names.guides:
                continue
            link = f":doc:`/docs/{match[1]}`" if match[1] else names.role(match[0])
            out += [escape(part[at : match.start()]), link]
            at = match.end()
        out.append(escape(part[at:]))
    joined = out[0]
    for piece in out[1:]:  # a role needs a blank or an escaped one on both sides
        glue = (
            "" if not joined or not piece or joined[-1].isspace() or piece[0].isspace() else "\\ "
        )
        joined += glue + piece
    return joined


def indented(lines, by=3):
    return [" " * by + line if line else "" for line in lines]


def rendered(blocks, names):
    out = []
    for kind, content in blocks:
        if kind == "para":
            out += [inline(content, names), ""]
        elif kind == "code":
            out += ["::", "", *indented(content), ""]
        elif kind == "list":
            out += [f"- {inline(entry, names)}" for entry in content] + [""]
        else:
            for term, words in content:
                out += [f"``{term}``", *indented([inline(words, names) if words else "\\"]), ""]
    return out


def heading(words, level):
    return [words, UNDERLINES[level] * len(words), ""]


def declarators(code):
    """ "const char *a, *b" as ["const char *a", "const char *b"]."""
    parts = re.split(r",\s*(?![^(]*\))", code)
    base = re.match(r"(.*?)[\s*]*\w+(?:\[[^\]]*\])*$", parts[0])
    return parts if len(parts) == 1 else [parts[0], *(f"{base[1]} {part}" for part in parts[1:])]


def member_lines(item, names):
    """The fields or enumerators as directives."""
    kind, out = "member" if item.kind == "struct" else "enumerator", []
    for code, comment in item.fields:
        if not code:
            out += [inline(comment, names), ""]
            continue
        found = declarators(code) if item.kind == "struct" else re.split(r",\s*", code)
        first, *others = [one for one in found if one]
        out += [f".. c:{kind}:: {first}", *(" " * (len(kind) + 8) + one for one in others), ""]
        out += indented([inline(comment, names), ""]) if comment else []
    return out


def type_lines(item, names):
    name = item.name or "@" + item.enumerators()[0].lower()
    return [f".. c:{item.kind}:: {name}", "", *indented(member_lines(item, names)), ""]


def description_lines(group, names):
    description = Description(group.comment)
    out = rendered(description.blocks, names)
    returned = text.return_value(group, description)
    fields = (
        [f":returns: {inline(re.sub('^Returns? ', '', returned[0]), names)}"] if returned else []
    )
    for errors, words in description.errors:
        fields.append(f":{text.full_names(errors)}: {inline(words, names)}")
    return [*out, *fields, ""]


def group_lines(group, names):
    """Functions with the description; types before it. A group without functions has its
    description at its first type."""
    functions = [item for item in group.functions() if not is_cuda(item)]
    types = [item for item in group.items if item.kind in ("struct", "enum")]
    known = {item.name for item in types}
    out, body = [], description_lines(group, names)
    for item in group.items:
        if item.kind == "macro":
            out += [
                f".. c:macro:: {item.name}",
                "",
                *indented([f"``{item.code}``", "", inline(item.note, names), ""]),
            ]
        elif item.kind == "type" and item.name not in known:
            code = item.code.removeprefix("typedef ")
            code = item.name if re.fullmatch(r"struct \w+ \w+", code) else code
            out += [f".. c:type:: {code}", ""]
    if functions:
        for item in types:
            out += type_lines(item, names)
        first, *others = [item.code for item in functions]
        return [
            *out,
            f".. c:function:: {first}",
            *(" " * 16 + one for one in others),
            "",
            *indented(body),
        ]
    if any(is_cuda(item) for item in group.items):
        return [
            *out,
            *[
                line
                for item in group.items
                if is_cuda(item)
                for line in ("::", "", f"   {item.code}", "")
            ],
            *body,
        ]
    if not types:
        return [*out, *indented(body)] if out else body
    lines = type_lines(types[0], names)
    out += [lines[0], "", *indented(body), *lines[1:]]
    for item in types[1:]:
        out += type_lines(item, names)
    return out


def header_page(header, names):
    out = [*heading(f"tutti/{header.file}", 0), *rendered(blocks_of(header.overview), names)]
    for item in header.constants:
        out += [
            f".. c:macro:: {item.name}",
            "",
            *indented([f"``{item.code}``", "", inline(item.note, names), ""]),
        ]
    section = None
    for group in header.groups:
        if group.section != section:
            section = group.section
            title = section or "declarations"
            out += heading(title[0].upper() + title[1:], 1)
        out += [*group_lines(group, names), ""]
    return "\n".join(out) + "\n"


def commands_page(commands, names):
    out = heading("Commands", 0)
    for command in commands:
        title = " ".join(["tutti", *command.words]) if command.help else command.page
        out += [
            f".. _{command.page}:",
            "",
            *heading(title, 1),
            "::",
            "",
            *indented(command.usage),
            "",
        ]
        out += rendered(command.description, names)
        for name, blocks in command.sections:
            out += [f".. rubric:: {name.capitalize()}", "", *rendered(blocks, names)]
    return "\n".join(out) + "\n"


def environment_page(blocks, names):
    """The environment variables, each with an anchor and an entry in the index."""
    (_, introduction), (_, variables) = blocks
    out = [*heading("Environment variables", 0), inline(introduction, names), ""]
    for name, words in variables:
        out += [f".. envvar:: {name}", "", *indented([inline(words, names), ""])]
    return "\n".join(out) + "\n"
