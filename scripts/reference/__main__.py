#!/usr/bin/env python3
"""Generates the reference: from the comments of the public headers, and the help of the tutti tool.

    scripts/reference man --out DIR [--tool TUTTI]      manual pages: DIR/man1, DIR/man3, DIR/man7
    scripts/reference html --out DIR [--tool TUTTI]     sources of the HTML documents, for Sphinx
    scripts/reference check --out DIR                   checks the HTML documents in DIR

Without --tool, the pages of the commands are left out. The standard library of Python suffices."""

import argparse
import sys
from pathlib import Path

import commands
import headers
import html_source
import man


def write(path, text):
    """Writes a file, unless it has this content already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def man_pages(out, tool):
    """All pages: {relative path: text}."""
    version, pages = headers.version_of(), {}
    for header in headers.read_headers():
        pages[f"man7/{header.page()}.7"] = man.overview(header, version)
        for group in header.groups:
            name, *others = group.names()
            pages[f"man3/{name}.3"] = man.page(header, group, version)
            for other in others:
                pages[f"man3/{other}.3"] = man.alias(name, 3)
    for command in [*commands.read_commands(tool), commands.read_wrapper()] if tool else []:
        pages[f"man1/{command.page}.1"] = man.command_page(command, version)
    if tool:
        pages["man7/tutti-environment.7"] = man.environment_page(
            commands.read_variables(tool), version
        )
        pages["man1/tutti-oshc++.1"] = man.alias("tutti-oshcc", 1)
    return {out / path: text for path, text in pages.items()}


def write_man(out, tool):
    pages = man_pages(out, tool)
    for path, text in pages.items():
        write(path, text)
    for path in out.glob("man?/*"):  # of an earlier version
        if path not in pages:
            path.unlink()


def main():
    parser = argparse.ArgumentParser(description="Generates the reference.")
    parser.add_argument("kind", choices=["man", "html", "check"])
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--tool", type=Path, help="the built tutti command")
    options = parser.parse_args()
    try:
        if options.kind == "man":
            write_man(options.out, options.tool)
        elif options.kind == "html":
            html_source.write_html(options.out, options.tool)
        else:
            print(html_source.check_html(options.out))
    except (OSError, ValueError) as error:
        sys.exit(f"reference: {error}")


if __name__ == "__main__":
    main()
