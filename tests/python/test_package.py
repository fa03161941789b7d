#!/usr/bin/env python3
"""The installed Python package: stubs, docstrings, and a wheel that works without the
repository."""

import package

import ast
import inspect
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

import tutti

STUB = Path(tutti.__file__).parent / "_core.pyi"
PROGRAM = """
import array, tutti
with tutti.Communicator() as comm:
    x = array.array("i", [comm.rank + 1])
    comm.allreduce(x)
    assert x[0] == 3 and tutti.__file__.startswith("{site}"), (x, tutti.__file__)
"""


class Package(unittest.TestCase):
    def test_stub_types_every_public_name(self):
        tree = ast.parse(STUB.read_text())
        classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        for name in tutti.__all__:
            value = getattr(tutti, name)
            if inspect.isclass(value) and value.__module__ == "tutti._core":
                methods = {node.name: node for node in classes[name].body
                           if isinstance(node, ast.FunctionDef)}
                for attribute in (a for a in vars(value) if not a.startswith("_")):
                    self.assertIn(attribute, methods, name)
                    self.assertIsNotNone(methods[attribute].returns, attribute)
            elif not inspect.isclass(value):
                self.assertIn(name, functions)
        self.assertTrue((STUB.parent / "py.typed").exists())
        self.assertNotIn("std::", STUB.read_text())

    def test_every_public_name_has_a_docstring(self):
        for name in tutti.__all__:
            value = getattr(tutti, name)
            self.assertTrue(value.__doc__, name)
            public = inspect.isclass(value) and value.__module__ == "tutti._core"
            for attribute in (a for a in (vars(value) if public else ()) if not a.startswith("_")):
                self.assertTrue(getattr(value, attribute).__doc__, f"{name}.{attribute}")

    def test_missing_torch_is_named_as_cause(self):
        from tutti import torch as backend

        try:
            import torch        # noqa: F401  pylint: disable=unused-import
        except ImportError:
            self.assertRaises(ImportError, backend.register)
        self.assertRaises(AttributeError, lambda: backend.nothing)

    def test_wheel_runs_without_the_clone(self):
        """With the library and the command of the build directory; a user's pip builds the same
        sources."""
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder) / "site"
            done = subprocess.run(
                [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index",
                 "--no-build-isolation", "--disable-pip-version-check",
                 "-C", f"cmake.define.TUTTI_BUILD={package.BUILD.resolve()}", "-C",
                 f"build-dir={folder}/build", "-w", folder,
                 str(package.ROOT / "python")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            with zipfile.ZipFile(next(Path(folder).glob("tutti-*.whl"))) as wheel:
                names = wheel.namelist()
                wheel.extractall(site)
            for name in ("tutti/libtutti.so.0", "tutti/_core.pyi", "tutti/py.typed",
                         "tutti/__init__.py", "tutti/torch/__init__.py"):
                self.assertIn(name, names)
            entry = next(site.glob("*.dist-info/entry_points.txt")).read_text()
            self.assertIn("[torch.distributed.backends]\ntutti = tutti.torch:register",
                          entry.replace("=", " = ").replace("  ", " "))
            command = next(site.glob("*.data/scripts/tutti"))
            command.chmod(0o755)
            core = next((site / "tutti").glob("_core.*.so"))
            linked = subprocess.run(["ldd", str(core)], capture_output=True, text=True,
                                    check=True).stdout
            self.assertIn(f"libtutti.so.0 => {site}/tutti/libtutti.so.0", linked)
            environment = {**os.environ, "PYTHONPATH": str(site)}
            done = subprocess.run([command, "run", "-n", "2", "--", sys.executable, "-c",
                                   PROGRAM.format(site=site)], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                                  env=environment, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout)


package.main()
