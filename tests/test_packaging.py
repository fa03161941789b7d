#!/usr/bin/env python3
"""The Debian packages and the Spack recipe agree with the sources: version, dependencies, files and
options of CMake. scripts/debian-packages builds and tries the packages."""

import os
import re
import sys
import types
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).parent.parent)).resolve()
DEBIAN = ROOT / "debian"
RECIPE = ROOT / "packaging" / "spack" / "spack_repo" / "tutti" / "packages" / "tutti" / "package.py"
# of the group `build` in scripts/install-deps.sh: installed on every machine that builds packages
ESSENTIAL = {"make", "gcc", "libc6-dev"}


def version():
    text = (ROOT / "include" / "tutti" / "tutti.h").read_text()
    return ".".join(re.findall(r"^#define TUTTI_VERSION_\w+ (\d+)$", text, re.MULTILINE))


def cmake_text():
    return "\n".join(
        path.read_text() for path in [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")]
    )


class Debian(unittest.TestCase):
    def control(self):
        """The paragraphs of debian/control: [{field: value}]."""
        found = []
        for paragraph in (DEBIAN / "control").read_text().strip().split("\n\n"):
            fields = re.findall(r"^(\S+):((?:.*\n?)(?:[ ].*\n?)*)", paragraph, re.MULTILINE)
            found.append({name: value.strip() for name, value in fields})
        return found

    def test_version_is_that_of_the_header(self):
        first = (DEBIAN / "changelog").read_text().split("\n")[0]
        self.assertRegex(first, rf"^tutti \({re.escape(version())}-\d+\) ")

    def test_citation_has_the_same_version(self):
        citation = (ROOT / "CITATION.cff").read_text()
        self.assertIn(f"\nversion: {version()}\n", citation)

    def test_library_package_names_the_soname(self):
        major, minor, _ = version().split(".")
        self.assertIn(f"libtutti{major}", [one.get("Package") for one in self.control()])
        symbols = (DEBIAN / f"libtutti{major}.symbols").read_text()
        for name in ("libtutti", "libtutti-shmem"):
            bound = f"libtutti{major} (<< {major}.{int(minor) + 1}~)"
            self.assertIn(f"{name}.so.{major} libtutti{major} #MINVER#, {bound}\n", symbols)
        for script in ("src/tutti.map", "shim/shmem/shmem.map"):
            node = (ROOT / script).read_text().split()[0]
            self.assertIn(f" (symver){node} ", symbols)

    def test_build_dependencies_match_the_table(self):
        table = (ROOT / "scripts" / "install-deps.sh").read_text()
        needed = set(re.findall(r"^(\S+) *\| build \|", table, re.MULTILINE)) - ESSENTIAL
        self.assertGreater(len(needed), 10)
        declared = set(
            re.findall(
                r"[\w.+-]+(?=[ ,(\n:]|$)",
                re.sub(r"\([^)]*\)|:any", "", self.control()[0]["Build-Depends"]),
            )
        )
        self.assertEqual(declared - {"debhelper-compat", "python3"}, needed)

    def test_static_library_finds_its_dependencies(self):
        """libtutti-dev depends on each -dev package that the build links."""
        package = next(one for one in self.control() if one.get("Package") == "libtutti-dev")
        linked = {name for name in re.findall(r"lib[\w-]+-dev", self.control()[0]["Build-Depends"])}
        self.assertEqual(
            set(re.findall(r"lib[\w-]+-dev", package["Depends"])),
            linked - {"libfabric-dev", "libpmix-dev"},
        )


class Recorder:
    """Stands for the parts of Spack that the recipe uses: it records the directives, and gives the
    options of a specification."""

    def __init__(self, *enabled):
        self.enabled, self.directives, self.run_tests = set(enabled), [], False

    def modules(self):
        def directive(name):
            return lambda *args, **more: self.directives.append((name, args, more))

        recorder = self

        class Package:
            run_tests = False

            def define_from_variant(self, option, variant):
                return f"-D{option}:BOOL={'ON' if variant in recorder.enabled else 'OFF'}"

            def define(self, option, value):
                return f"-D{option}:BOOL={'ON' if value else 'OFF'}"

        names = ("version", "variant", "depends_on", "license", "conflicts")
        return {
            "spack": types.ModuleType("spack"),
            "spack.package": types.SimpleNamespace(
                **{name: directive(name) for name in names}, __all__=list(names)
            ),
            "spack_repo": types.ModuleType("spack_repo"),
            "spack_repo.builtin": types.ModuleType("spack_repo.builtin"),
            "spack_repo.builtin.build_systems": types.ModuleType("build_systems"),
            "spack_repo.builtin.build_systems.cmake": types.SimpleNamespace(
                CMakePackage=Package, generator=directive("generator")
            ),
        }

    def recipe(self):
        modules = self.modules()
        before = {name: sys.modules.get(name) for name in modules}
        sys.modules.update(modules)
        try:
            scope = {"__file__": str(RECIPE), "__name__": "recipe"}
            exec(compile(RECIPE.read_text(), str(RECIPE), "exec"), scope)
        finally:
            for name, module in before.items():
                sys.modules.pop(name) if module is None else sys.modules.update({name: module})
        return scope["Tutti"]


class Spack(unittest.TestCase):
    """Spack itself is not run: it is in no package registry that the tests may use."""

    def arguments(self, *enabled):
        return dict(
            re.fullmatch(r"-D(\w+):BOOL=(ON|OFF)", one).groups()
            for one in Recorder(*enabled).recipe()().cmake_args()
        )

    def test_options_are_those_of_cmake(self):
        declared = set(re.findall(r"^(?:option|set)\((TUTTI_\w+)", cmake_text(), re.MULTILINE))
        options = set(self.arguments())
        self.assertGreater(len(options), 5)
        self.assertLessEqual(options, declared)
        optional = set(
            re.findall(r"^tutti_find_optional\(\w+ (TUTTI_\w+)", cmake_text(), re.MULTILINE)
        )
        self.assertEqual(len(optional), 4)
        self.assertLessEqual(optional, options)

    def test_each_variant_sets_one_option(self):
        recorder = Recorder()
        recorder.recipe()
        variants = [args[0] for name, args, _ in recorder.directives if name == "variant"]
        self.assertEqual(set(self.arguments().values()), {"OFF"})
        for variant in variants:
            values = list(self.arguments(variant).values())
            self.assertEqual(values.count("ON"), 1, variant)

    def test_optional_dependencies_follow_their_variants(self):
        recorder = Recorder()
        recipe = recorder.recipe()
        conditional = {
            args[0].partition("@")[0]: more["when"]
            for name, args, more in recorder.directives
            if name == "depends_on" and "when" in more
        }
        self.assertEqual(
            conditional,
            {
                "rdma-core": "+verbs",
                "libfabric": "+ofi",
                "curl": "+etcd",
                "pmix": "+pmix",
                "python": "+man",
            },
        )
        self.assertEqual(recipe.git, f"file://{ROOT}")
        minimum = re.search(r"cmake_minimum_required\(VERSION (\S+)\)", cmake_text())[1]
        self.assertIn(
            ("depends_on", (f"cmake@{minimum}:",), {"type": "build"}), recorder.directives
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
