#!/usr/bin/env python3
"""Links of the documents, and the sources of the HTML documents (scripts/reference/html_source.py):
links to guides, figures, headers and other files, broken ones, and links to declarations."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(ROOT / "scripts" / "reference"))
import headers  # noqa: E402
import html_source  # noqa: E402
import rst  # noqa: E402


class Links(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = html_source.guides()

    def guide(self, markdown, name="docs/building"):
        """A guide with this text in place of its own."""
        guide = html_source.Guide(name, self.pages[name], self.pages)
        guide.markdown = markdown
        return guide

    def test_documents_have_no_broken_links(self):
        broken, links = [], 0
        for name, path in self.pages.items():
            guide = html_source.Guide(name, path, self.pages)
            links += guide.text().count("](")
            broken += guide.broken
        self.assertGreater(links, 200)
        self.assertEqual(broken, [])

    def test_links_lead_to_pages_and_paths(self):
        for markdown, expected in (
            ("[a](rdma.md#libfabric)", "[a](rdma.md#libfabric)"),
            (
                "[a](../README.md) and [b](https://x.org/y)",
                "[a](../README.md) and [b](https://x.org/y)",
            ),
            ("[rma](../include/tutti/rma.h)", "[rma](../reference/tutti-rma.rst)"),
            ("[`LAYERS`](../src/LAYERS)", "`src/LAYERS`"),
            ("the [layers](../src/LAYERS)", "the layers (`src/LAYERS`)"),
            ("`[a](b)` stays", "`[a](b)` stays"),
            ("```\n[a](nowhere.md)\n```", "```\n[a](nowhere.md)\n```"),
        ):
            with self.subTest(markdown=markdown):
                guide = self.guide(markdown)
                self.assertEqual((guide.text(), guide.broken), (expected, []))

    def test_figures_and_data_are_copied(self):
        guide = self.guide("![a](lanes.svg) [b](simulation/full-mesh.json)")
        guide.text()
        copies = {str(path) for path in guide.copies}
        self.assertEqual(copies, {"docs/lanes.svg", "docs/simulation/full-mesh.json"})

    def test_broken_links_are_reported(self):
        guide = self.guide(
            "good [a](rdma.md)\nbad [b](nowhere.md) ![c](none.svg) [d](../../../etc)"
        )
        guide.text()
        targets = [finding.rpartition(" ")[2] for finding in guide.broken]
        self.assertEqual(targets, ["nowhere.md", "none.svg", "../../../etc"])
        self.assertTrue(guide.broken[0].startswith("docs/building.md:2: "))

    def test_index_contains_every_guide(self):
        index = html_source.index([*self.pages, "docs/new"], ["reference/tutti"])
        for page in self.pages:
            self.assertEqual(index.count(f"\n/{page}\n"), 1, page)
        self.assertIn("\n/docs/new\n", index)


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        found = headers.read_headers()
        cls.names = rst.Names(found, {"rdma"})
        cls.pages = {header.file: rst.header_page(header, cls.names) for header in found}

    def test_text_refers_to_declarations(self):
        for text, expected in (
            ("see tutti_send, not tutti_nothing", "see :c:func:`tutti_send`\\ , not tutti_nothing"),
            ("tutti_call.tag", ":c:struct:`tutti_call`\\ .tag"),
            ("`tutti_sum` a*b* TUTTI_SUM", "``tutti_sum`` a\\*b\\* :c:enumerator:`TUTTI_SUM`"),
            ("(docs/rdma.md, docs/none.md)", "(\\ :doc:`/docs/rdma`\\ , docs/none.md)"),
        ):
            self.assertEqual(rst.inline(text, self.names), expected)

    def test_text_refers_to_variables(self):
        names = rst.Names([], set())
        names.add_variables([("para", "text"), ("defs", [("TUTTI_LOG", "level")])])
        self.assertEqual(rst.inline("see `TUTTI_LOG`", names), "see :envvar:`TUTTI_LOG`")
        page = rst.environment_page([("para", "text"), ("defs", [("TUTTI_LOG", "level")])], names)
        self.assertIn(".. envvar:: TUTTI_LOG\n\n   level\n", page)

    def test_every_name_is_declared_once(self):
        text = "\n".join(self.pages.values())
        self.assertGreater(len(self.names.kinds), 450)
        for name, kind in self.names.kinds.items():
            if kind in ("struct", "enum", "macro"):
                self.assertEqual(text.count(f".. c:{kind}:: {name}\n"), 1, name)

    def test_sphinx_rejects_broken_references(self):
        """The settings of the documents make Sphinx fail for a missing heading and a missing name,
        and only for these."""
        if not shutil.which("sphinx-build"):
            self.skipTest("no sphinx-build")
        declared = (
            "\n\n```{eval-rst}\n.. c:function:: int tutti_one(void)\n```\n\n```{toctree}\nb\n```\n"
        )
        for link, status in (("b.md#there", 0), ("b.md#nowhere", 1), ("none.md", 1)):
            with self.subTest(link=link), tempfile.TemporaryDirectory() as folder:
                source = Path(folder) / "source"
                source.mkdir()
                shutil.copyfile(html_source.CONFIGURATION, source / "conf.py")
                (source / "names.txt").write_text("tutti_one func\n")
                (source / "index.md").write_text(f"# A\n\n[x]({link})" + declared)
                (source / "b.md").write_text("# B\n\n## There\n\nCall `tutti_one`.\n")
                command = [
                    "sphinx-build",
                    "-q",
                    "-W",
                    "--keep-going",
                    str(source),
                    f"{folder}/html",
                ]
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=120, check=False
                )
                self.assertEqual(done.returncode, status, done.stderr)
                if status == 0:
                    self.assertIn(
                        'index.html#c.tutti_one"', (Path(folder) / "html" / "b.html").read_text()
                    )


if __name__ == "__main__":
    unittest.main(verbosity=2)
