#!/usr/bin/env python3
"""The installed manual pages: each exported function, public type and command has a page with all
of its sections, which man finds and groff formats without warnings."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parent.parent.parent))
BUILD = Path(os.environ.get("TUTTI_BUILD_DIR", SOURCE / "build" / "release"))
sys.path.insert(0, str(SOURCE / "scripts" / "reference"))
import headers  # noqa: E402
import prose  # noqa: E402


def output_of(*command, **more):
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, **more
    ).stdout


def sections_of(page):
    """The sections of a page in man(7) format: {heading: text}."""
    parts = re.split(r"^\.SH (.*)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


class ManPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        output_of("cmake", "--install", str(BUILD), "--prefix", str(cls.prefix))
        cls.man = next(cls.prefix.rglob("man3")).parent
        cls.library = next(cls.prefix.rglob("libtutti.so"))
        cls.tool = cls.prefix / "bin" / "tutti"

    def page(self, name, section):
        """The text of a page, of the page that it refers to if it is an alias."""
        text = (self.man / f"man{section}" / f"{name}.{section}").read_text()
        alias = re.fullmatch(r"\.so (man\d/\S+)\n", text)
        return (self.man / alias[1]).read_text() if alias else text

    def exported(self):
        lines = output_of("nm", "-D", "--defined-only", str(self.library)).splitlines()
        return {line.split()[2].partition("@")[0] for line in lines if line.split()[1] in "TW"}

    def test_every_exported_function_has_a_page(self):
        names = self.exported()
        self.assertGreater(len(names), 100)
        missing = sorted(name for name in names if not (self.man / "man3" / f"{name}.3").exists())
        self.assertEqual(missing, [])

    def test_every_public_name_has_a_page(self):
        """Types, enums and inline functions, found without the parser of the pages."""
        names = set()
        for header in (SOURCE / "include" / "tutti").glob("*.h"):
            text = header.read_text()
            names |= set(
                re.findall(r"^(?:typedef )?(?:struct|enum) (tutti_\w+) \{", text, re.MULTILINE)
            )
            names |= set(
                re.findall(
                    r"^(?:TUTTI_API|TUTTI_DEVICE|TUTTI_HASH_CODE|static inline) [^(=;]*?(\w+)\(",
                    text,
                    re.MULTILINE,
                )
            )
        self.assertGreater(len(names), 250)
        missing = sorted(name for name in names if not (self.man / "man3" / f"{name}.3").exists())
        self.assertEqual(missing, [])

    def test_every_command_has_a_page(self):
        names = re.findall(r"^  (\w+) ", output_of(str(self.tool), "--help"), re.MULTILINE)
        self.assertGreater(len(names), 8)
        pages = [
            "tutti",
            *(f"tutti-{name}" for name in names),
            *(path.name for path in (self.prefix / "bin").iterdir()),
        ]
        for name in pages:
            with self.subTest(page=name):
                found = sections_of(self.page(name, 1))
                self.assertLessEqual({"NAME", "SYNOPSIS", "DESCRIPTION"}, set(found))
                if (
                    name.startswith("tutti-")
                    and "osh" not in name
                    and name not in ("tutti-plan", "tutti-ring")
                ):
                    self.assertLessEqual({"OPTIONS", "EXIT STATUS", "EXAMPLES"}, set(found))

    def test_pages_list_each_option(self):
        for words in (["run"], ["perf"], ["sim"], ["coordinator"], ["plan", "why"]):
            text = output_of(str(self.tool), *words, "--help")
            options = re.findall(r"^ {2,6}(?:-\w, )?--([\w-]+)", text, re.MULTILINE)
            self.assertGreater(len(options), 5)
            page = self.page("-".join(["tutti", *words]), 1).replace("\\-", "-")
            terms = " ".join(re.findall(r"^\.TP\n(.*)$", page, re.MULTILINE))
            self.assertEqual([name for name in options if f"--{name}" not in terms], [])

    def test_environment_page_lists_all_variables(self):
        listed = output_of(str(self.tool), "info", "--params")
        names = re.findall(r"^(TUTTI_\w+)", listed, re.MULTILINE)
        self.assertGreater(len(names), 40)
        terms = re.findall(r"^\.TP\n\\fB(\w+)", self.page("tutti-environment", 7), re.MULTILINE)
        self.assertEqual(terms, names)

    def test_pages_have_their_sections(self):
        """A call that returns a status documents its errors, and one that returns a value documents
        this value."""
        checked = 0
        for header in sorted((SOURCE / "include" / "tutti").glob("*.h")):
            declared = re.findall(
                r"^TUTTI_API ([^(]*?)\b(tutti_\w+)\(", header.read_text(), re.MULTILINE
            )
            for returned, name in declared:
                with self.subTest(call=name):
                    found, needed = (
                        sections_of(self.page(name, 3)),
                        {"NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"},
                    )
                    needed |= set() if returned.strip() == "void" else {"RETURN VALUE"}
                    needed |= {"ERRORS"} if returned.strip() == "tutti_status" else set()
                    self.assertLessEqual(needed, set(found))
                    self.assertIn(f"#include <tutti/{header.name}>", found["SYNOPSIS"])
                    self.assertIn(name, found["SYNOPSIS"])
                    self.assertNotIn("See DESCRIPTION", found.get("RETURN VALUE", ""))
                    checked += 1
        self.assertGreater(checked, 100)

    def test_groff_formats_all_pages_without_warnings(self):
        pages = sorted(str(path.relative_to(self.man)) for path in self.man.glob("man?/*"))
        self.assertGreater(len(pages), 300)
        done = subprocess.run(
            ["groff", "-man", "-ww", "-z", "-Tutf8", *pages],
            cwd=self.man,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_groff_warns_of_a_broken_page(self):
        """The check itself: a page with an unknown macro."""
        done = subprocess.run(
            ["groff", "-man", "-ww", "-z", "-Tutf8"],
            input=".TH a 3\n.SH NAME\n.XX\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertIn("XX", done.stderr)

    def test_man_displays_the_installed_pages(self):
        environment = {
            **os.environ,
            "MANPATH": str(self.man),
            "MANWIDTH": "100",
            "LC_ALL": "C.UTF-8",
            "MAN_KEEP_FORMATTING": "",
        }
        for name, section, expected in (
            ("tutti_allreduce", "3", "const tutti_call *call"),
            ("tutti_recv", "3", "TUTTI_ERR_PEER_LOST"),
            ("tutti_window_put", "3", "RETURN VALUE"),
            ("tutti_conf", "3", "const char *rendezvous"),
            ("TUTTI_REPLAY_NO_CHAIN", "3", "tutti/moe.h"),
            ("tutti", "1", "COMMANDS"),
            ("tutti-run", "1", "--hostfile=FILE"),
            ("tutti-oshc++", "1", "OSHCXX_COMPILER"),
            ("tutti", "7", "row-major"),
            ("tutti-elastic", "7", "tutti_run_join(3)"),
        ):
            with self.subTest(page=f"{name}({section})"):
                text = output_of(
                    "man", "--no-hyphenation", "-P", "cat", section, name, env=environment
                )
                self.assertIn(expected, re.sub(r".\x08", "", text))

    def test_names_are_found_by_whatis(self):
        """lexgrog, which builds the index of man, reads the NAME section of each page."""
        if not shutil.which("lexgrog"):
            self.skipTest("no lexgrog")
        pages = [
            str(path)
            for path in sorted(self.man.glob("man?/*"))
            if not path.read_text().startswith(".so ")
        ]
        self.assertNotIn("parse failed", output_of("lexgrog", *pages))


class Comments(unittest.TestCase):
    """The parser of comments, on its special cases."""

    def test_errors_are_divided_from_text(self):
        lines = [
            "Frees it. Source: ulfm.",
            "INVALID: wrong. MISMATCH or TIMEOUT: one",
            "did not call.",
            "",
            "INVALID, without any effect: in use.",
        ]
        found = prose.Description(lines)
        self.assertEqual(
            found.errors,
            [
                ("INVALID", "wrong."),
                ("MISMATCH or TIMEOUT", "one did not call."),
                ("INVALID", "in use. The call has no effect."),
            ],
        )
        self.assertEqual(found.blocks, [("para", "Frees it."), ("para", "Source: ulfm.")])

    def test_lists_definitions_and_code_are_blocks(self):
        lines = [
            "Text:",
            " - one",
            "   more",
            " - two",
            "conf   options, which",
            "       continue",
            "",
            "    a -> b",
            "",
            "End.",
        ]
        self.assertEqual(
            prose.blocks_of(lines),
            [
                ("para", "Text:"),
                ("list", ["one more", "two"]),
                ("defs", [("conf", "options, which continue")]),
                ("code", ["a -> b"]),
                ("para", "End."),
            ],
        )

    def test_returned_value_is_found(self):
        lines = ['Frees it. Returns when done. Returns the size, e.g. "1", or 0.', "Any thread."]
        found = prose.Description(lines)
        self.assertEqual(found.returns(), ['Returns the size, e.g. "1", or 0.'])
        self.assertEqual(found.summary, "Frees it")

    def test_uncommented_declaration_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tutti.h"
            path.write_text("/* A header. */\n\n/* Returns 1. */\nTUTTI_API int tutti_one(void);\n")
            self.assertEqual(
                [group.names() for group in headers.Reader(path).read().groups], [["tutti_one"]]
            )
            path.write_text("/* A header. */\n\ntypedef enum tutti_two { TUTTI_A } tutti_two;\n")
            with self.assertRaisesRegex(ValueError, "without a comment: tutti_two"):
                headers.Reader(path).read()


if __name__ == "__main__":
    if not shutil.which("groff") or not shutil.which("man"):
        print("skipped: no groff or no man (packages groff-base and man-db)")
        sys.exit(77)
    if "TUTTI_MAN:BOOL=ON" not in (BUILD / "CMakeCache.txt").read_text():
        print("skipped: this build has no manual pages (TUTTI_MAN)")
        sys.exit(77)
    unittest.main(verbosity=2)
