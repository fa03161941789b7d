# Settings of the HTML documents (make docs). scripts/reference collects their sources, and writes
# the documented names with their kinds to names.txt.
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

project = "Tutti"
author = "The Tutti authors"
copyright = "2026, The Tutti authors"
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "fixed_sidebar": False}
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_copy_source = False
html_show_sphinx = False
highlight_language = "c"
add_function_parentheses = False
smartquotes = False  # the text contains code
suppress_warnings = ["misc.highlighting_failure"]  # excerpts with "..." are no complete C or JSON

# Every reference to a name of Tutti must lead to its declaration.
nitpicky = True
nitpick_ignore_regex = [("c:identifier", r"(?!tutti_|TUTTI_).*")]

NAMES = dict(
    line.split() for line in (Path(__file__).parent / "names.txt").read_text().splitlines()
)
CALL = re.compile(r"((?:tutti|TUTTI)_\w+)(?:\(.*\)|\.\w+)?")


def link_names(app, doctree):
    """Links `tutti_allreduce` in the guides to its declaration."""
    for literal in list(doctree.findall(nodes.literal)):
        name = CALL.fullmatch(literal.astext())
        outside = literal.parent
        while outside is not None and not isinstance(
            outside,
            (nodes.reference, nodes.title, addnodes.pending_xref, addnodes.download_reference),
        ):
            outside = outside.parent
        if name and name[1] in NAMES and outside is None:
            link = addnodes.pending_xref(
                "",
                literal.deepcopy(),
                refdomain="std" if NAMES[name[1]] == "envvar" else "c",
                reftype=NAMES[name[1]],
                reftarget=name[1],
                refdoc=app.env.docname,
                refexplicit=False,
                refwarn=True,
            )
            literal.replace_self(link)


def setup(app):
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True}
