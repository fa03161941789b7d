"""The stub of tutti.torch has the public names of the module, with their parameters. All of them
have docstrings.

    prog_torch_stub.py          prints "the stub is right" """

import ast
import inspect
from pathlib import Path

from torch._C._distributed_c10d import Backend

import tutti.torch

OPTIONS = {"algorithm", "timeout", "quantization", "error_feedback"}
TREE = ast.parse((Path(tutti.torch.__file__).parent / "__init__.pyi").read_text())
FUNCTIONS = {node.name: node for node in TREE.body if isinstance(node, ast.FunctionDef)}


def parameters_in_stub(node):
    args = node.args
    return [arg.arg for arg in (*args.posonlyargs, *args.args, *([args.vararg] if args.vararg
                                                                 else []))]


def check_functions():
    assert set(FUNCTIONS) == {*tutti.torch._CALLS, "empty", "register"}, set(FUNCTIONS)
    for name, node in FUNCTIONS.items():
        function = getattr(tutti.torch, name)
        kinds = {p.name: p.kind for p in inspect.signature(function).parameters.values()}
        plain = [n for n, kind in kinds.items()
                 if kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)]
        assert parameters_in_stub(node) == plain, (name, plain)
        keywords = {arg.arg for arg in node.args.kwonlyargs}
        if name in tutti.torch._CALLS:
            assert {"algorithm", "timeout"} <= keywords <= OPTIONS, (name, keywords)
        else:
            assert keywords == {n for n in kinds if n not in plain}, (name, keywords)
        assert function.__doc__, name


def check_options():
    stub = next(node for node in TREE.body if isinstance(node, ast.ClassDef))
    typed = {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    own = {name for name, value in vars(tutti.torch.Options).items()
           if isinstance(value, property)}
    assert stub.name == "Options" and typed == own, (typed, own)
    assert issubclass(tutti.torch.Options, Backend.Options) and tutti.torch.Options.__doc__
    for name in own:
        assert getattr(tutti.torch.Options, name).__doc__, name


check_functions()
check_options()
print("the stub is right")
