"""Collects the sources of the HTML documents: the guides with checked links, and the reference.

A link in a guide leads to another guide, to a file that is copied (a figure, data), or to a source
file, which becomes its path. A link to a missing file is an error."""

import re
import shutil

import commands
import headers
import rst

ROOT = headers.ROOT
CONFIGURATION = ROOT / "docs" / "html" / "conf.py"
COPIED = (".svg", ".png", ".json")
LINK_OR_CODE = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)|`[^`]*`")
# Chapters of the guide; other guides are in the last one.
CHAPTERS = (
    (
        "Start",
        (
            "README",
            "docs/building",
            "docs/packaging",
            "docs/launchers",
            "docs/errors",
            "docs/observability",
            "docs/analyze",
            "docs/trace-format",
            "docs/glossary",
        ),
    ),
    (
        "Collectives",
        (
            "docs/algorithms",
            "docs/algorithms/fastest",
            "docs/tuning",
            "docs/tune-file",
            "docs/tuning-measured",
            "docs/quantization",
            "docs/plans",
            "docs/plan-format",
            "docs/memory",
        ),
    ),
    ("Interfaces", ("docs/one-sided", "docs/moe", "docs/gpu", "docs/shmem", "python/README",
                    "docs/pytorch")),
    (
        "Elastic runs",
        (
            "docs/elastic",
            "docs/elastic-protocol",
            "docs/coordinator",
            "docs/coordinator-status",
            "docs/coordinator-store",
            "docs/shared-state",
            "docs/hash",
            "docs/ring-order",
            "docs/training",
        ),
    ),
    (
        "Networks",
        (
            "docs/topology",
            "docs/lanes",
            "docs/rails",
            "docs/rdma",
            "docs/security",
            "docs/wan-testbed",
        ),
    ),
    (
        "Speed",
        (
            "docs/performance",
            "docs/performance-debian",
            "docs/performance-amd",
            "docs/performance-intel",
            "docs/performance-newest",
            "docs/simulation",
            "docs/simulation-measured",
            "bench/README",
            "bench/NOTES",
        ),
    ),
    (
        "Project",
        (
            "docs/architecture",
            "docs/start-up",
            "docs/emulation",
            "CONTRIBUTING",
            "CHANGELOG",
            "SECURITY",
            "MAINTAINERS",
            "CODE_OF_CONDUCT",
        ),
    ),
)


def guides():
    """All Markdown pages, by their path without the suffix."""
    paths = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "bench").glob("*.md"),
        ROOT / "python" / "README.md",
    ]
    return {str(path.relative_to(ROOT).with_suffix("")): path for path in sorted(paths)}


def prose_lines(markdown):
    """Each line with its number, and whether it is outside of blocks of code."""
    fenced = False
    for number, line in enumerate(markdown.split("\n"), 1):
        fence = line.lstrip().startswith("```")
        block = line.startswith("    ") and not line.lstrip().startswith("- ")
        yield number, line, not (fenced or fence or block)
        fenced ^= fence


class Guide:
    """One page, whose links are resolved relative to its place in the repository."""

    def __init__(self, name, path, pages):
        self.name, self.path, self.markdown = name, path, path.read_text()
        self.pages = set(pages.values())
        self.broken, self.copies = [], set()

    def link(self, match, number):
        """The link as it must be in the HTML documents; code is unchanged."""
        mark, words, target = match[1], match[2], match[3]
        if target is None or re.match(r"[a-z]+:|#", target):
            return match[0]
        found = (self.path.parent / target.partition("#")[0]).resolve()
        if not found.exists() or ROOT not in found.parents:
            self.broken.append(f"{self.path.relative_to(ROOT)}:{number}: broken link: {target}")
            return match[0]
        inside = found.relative_to(ROOT)
        if found in self.pages:
            return match[0]
        if found.parent == headers.FOLDER:
            up = "../" * (len(self.path.relative_to(ROOT).parts) - 1)
            return f"[{words}]({up}reference/{headers.page_of(found.name)}.rst)"
        if mark or found.suffix in COPIED:
            self.copies.add(inside)
            return match[0]
        is_path = words.strip("`/").endswith(found.name)
        return f"`{inside}`" if is_path else f"{words} (`{inside}`)"

    def text(self):
        """The page with its links replaced."""
        lines = []
        for number, line, is_prose in prose_lines(self.markdown):
            if is_prose:
                line = LINK_OR_CODE.sub(lambda match, at=number: self.link(match, at), line)
            lines.append(line)
        return "\n".join(lines)


def toctree(caption, pages):
    return [
        "",
        "```{toctree}",
        ":maxdepth: 1",
        f":caption: {caption}",
        "",
        *(f"/{page}" for page in pages),
        "```",
    ]


def index(pages, reference):
    listed = {page for _, chapter in CHAPTERS for page in chapter}
    missing = sorted(page for page in listed if page not in pages)
    if missing:
        raise ValueError(f"CHAPTERS lists pages that do not exist: {missing}")
    others = [page for page in pages if page not in listed]
    lines = [
        "# Tutti",
        "",
        f"Guide and reference of Tutti {headers.version_of()}, a library for collectives in C.",
        "The search is in the side bar; the {ref}`index <genindex>` lists all declared names.",
    ]
    for caption, chapter in CHAPTERS:
        lines += toctree(caption, chapter)
    if others:
        lines += toctree("More", others)
    return "\n".join([*lines, *toctree("Reference", reference)]) + "\n"


def guide_texts(pages):
    """The guides as {path: text}, and the files that they refer to."""
    texts, broken, copies = {}, [], set()
    for name, path in pages.items():
        guide = Guide(name, path, pages)
        texts[f"{name}.md"] = guide.text()
        broken += guide.broken
        copies |= guide.copies
    if broken:
        raise ValueError("\n".join(broken))
    return texts, copies


def reference_texts(found, names, tool):
    """The reference as {path: text}, in the order of the index."""
    texts = {}
    variables = commands.read_variables(tool) if tool else None
    if tool:
        names.add_variables(variables)
    for header in found:
        texts[f"reference/{header.page()}.rst"] = rst.header_page(header, names)
    if tool:
        listed = [*commands.read_commands(tool), commands.read_wrapper()]
        texts["reference/commands.rst"] = rst.commands_page(listed, names)
        texts["reference/environment.rst"] = rst.environment_page(variables, names)
    return texts


def write_html(out, tool):
    pages, found = guides(), headers.read_headers()
    chapters = {page.removeprefix("docs/") for page in pages if page.startswith("docs/")}
    names = rst.Names(found, chapters)
    texts, copies = guide_texts(pages)
    reference = reference_texts(found, names, tool)
    texts |= reference
    texts["index.md"] = index(pages, [path.removesuffix(".rst") for path in reference])
    texts["conf.py"] = CONFIGURATION.read_text()
    kinds = sorted(names.kinds.items())
    texts["names.txt"] = "".join(f"{name} {rst.ROLES[kind]}\n" for name, kind in kinds)
    shutil.rmtree(out, ignore_errors=True)
    for name, content in texts.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(content)
    for name in copies:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, out / name)


def check_html(folder):
    """Checks that each declared name has an anchor and is found by the search, and that guides
    refer to declarations. Returns the numbers."""
    names = rst.Names(headers.read_headers(), set()).kinds
    pages = {path: path.read_text() for path in folder.rglob("*.html")}
    anchors = {
        name
        for text in pages.values()
        for name in re.findall(r'id="c\.(?:&#64;\w+\.)?([\w.]+)"', text)
    }
    anchors |= {name.rpartition(".")[2] for name in anchors}  # enumerators are in their enum
    missing = sorted(set(names) - anchors)
    index = (folder / "searchindex.js").read_text()
    missing += [f"{name} (search)" for name in sorted(names) if f'"{name}"' not in index]
    links = [
        name
        for path, text in pages.items()
        if path.parent.name == "docs"
        for name in re.findall(r'href="[^"]*#c\.([\w.]+)"', text)
    ]
    if missing or not links:
        raise ValueError(f"{folder}: missing: {missing or 'links from guides to declarations'}")
    return f"{len(names)} names have anchors and are in the search; guides link {len(links)} times"
