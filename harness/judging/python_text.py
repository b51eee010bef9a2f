"""What may stand in a file of kernels in Numba CUDA: imports, constants and functions of ``cuda.jit``, nothing else.

So nothing of an author runs where a kernel is only compiled, and machine code is that of the text. What a kernel itself
does in the simulator is not restricted here: it runs confined.
"""

from __future__ import annotations

import ast
from pathlib import Path

from gravbench.errors import InputError

MODULES = ("math", "numba", "numba.cuda", "numba.cuda.libdevice", "numpy", "gravbench.variants.common.body")
"""What a file may import."""
SHORT = {"numpy": "np"}
"""By which other name."""
JIT = "cuda.jit"
CALLED = (
    *("load_row", "store_row"),
    *(f"{module}.{name}" for module in ("np", "numpy") for name in ("float32", "int32", "uint32", "int64", "uint64")),
)
"""What may be called outside of a function."""
DECLARED = "the docstring of the head, imports, constants, and functions with @cuda.jit"
_PLAIN = (
    *(ast.Constant, ast.Name, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context),
    *(ast.Attribute, ast.Call, ast.keyword),
)


def kernels(path: Path, text: str) -> list[str]:
    """Return the names of the kernels in a file, in their order.

    Raises:
        InputError: it is no Python, or something else than is accepted stands in it.
    """
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = f"{path}, line {line}" if line else f"{path}"
        raise InputError(f"{where}: no Python: {getattr(error, 'msg', error)}") from None
    names = []
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            if _is_kernel(path, statement):
                names.append(statement.name)
        elif not _is_declaration(statement):
            where = f"{path}, line {statement.lineno}: {_first_line(statement)}"
            raise InputError(f"{where}; accepted: {_accepted(statement)}")
    return names


def _accepted(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return f"imports of {', '.join(MODULES)}"
    return f"outside of functions, {DECLARED}"


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0][:80]


def _is_declaration(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import(names=names):
            return all(name.name in MODULES and name.asname in (None, SHORT.get(name.name)) for name in names)
        case ast.ImportFrom(module=module, names=names, level=0):
            return module in MODULES and all(name.name != "*" and not name.asname for name in names)
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=targets, value=value):
            return all(_are_names(target) for target in targets) and _is_plain(value)
    return False


def _are_names(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) or (isinstance(target, ast.Tuple) and all(map(_are_names, target.elts)))


def _is_plain(value: ast.expr) -> bool:
    """Tell whether an expression only computes with numbers and names."""
    for node in ast.walk(value):
        if not isinstance(node, _PLAIN) or (isinstance(node, ast.Attribute) and node.attr.startswith("_")):
            return False
        if isinstance(node, ast.Call) and ast.unparse(node.func) not in CALLED:
            return False
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):  # numbers without end
            return False
    return True


def _is_kernel(path: Path, function: ast.FunctionDef) -> bool:
    """Tell whether a function is a kernel, or called by one.

    Raises:
        InputError: its decorator is no ``cuda.jit``, or something in its head would be executed.
    """
    where, arguments = f"{path}, line {function.lineno}", function.args
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    annotations = (function.returns, *(each.annotation for each in parameters))
    executed = (*arguments.defaults, *arguments.kw_defaults, *annotations)
    if len(function.decorator_list) != 1 or arguments.vararg or arguments.kwarg or any(executed):
        raise InputError(f"{where}: {function.name}; accepted: functions with @{JIT} and plain names as parameters")
    (decorator,) = function.decorator_list
    options = decorator.keywords if isinstance(decorator, ast.Call) and not decorator.args else []
    named = decorator.func if isinstance(decorator, ast.Call) and not decorator.args else decorator
    if ast.unparse(named) != JIT or not all(isinstance(option.value, ast.Constant) for option in options):
        raise InputError(f"{where}: @{_first_line(decorator)}; accepted: @{JIT}, with constants such as fastmath=True")
    return not any(option.arg == "device" and option.value.value for option in options)  # type: ignore[attr-defined]
