"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from gravbench.cli import main  # noqa: F401 - adds the commands
from gravbench.cli.options import app

HEAD = """# Commands

Generated from the code; `gravbench COMMAND --help` prints the same. Invalid input produces a one-sentence message and
exit code 2.

"""


def page() -> str:
    """Return the page in Markdown."""
    return HEAD + "\n".join(section(name, command) for name, command in commands(typer.main.get_command(app)))


def commands(group: Any, before: str = "gravbench") -> list[tuple[str, Any]]:
    """Return each command with its whole name, those of groups included, in the order of ``--help``."""
    found = []
    for name in group.list_commands(None):
        command = group.commands[name]
        if getattr(command, "hidden", False):
            continue
        whole = f"{before} {name}"
        found += commands(command, whole) if hasattr(command, "commands") else [(whole, command)]
    return found


def section(name: str, command: Any) -> str:
    """Return what is said of one command."""
    said = inspect.cleandoc(command.help or "")
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and "--help" not in one.opts]
    usage = " ".join([name, *(["[OPTIONS]"] if options else []), *map(_placeholder, arguments)])
    lines = [f"## {name}", "", said, "", "```text", usage, "```", ""]
    if arguments:
        lines += [
            "| argument | |",
            "| --- | --- |",
            *(f"| `{_metavar(one)}` | {_said(one)} |" for one in arguments),
            "",
        ]
    if options:
        lines += ["| option | |", "| --- | --- |", *(f"| {_names(one)} | {_said(one)} |" for one in options), ""]
    return "\n".join(lines)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper()).rstrip(".")


def _placeholder(argument: Any) -> str:
    name = _metavar(argument) + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _names(option: Any) -> str:
    names = ", ".join(f"`{one}`" for one in sorted([*option.opts, *option.secondary_opts], key=len))
    if option.is_flag:
        return names
    return f"{names} `{option.metavar or _kind(option)}`".replace("|", "\\|")


def _kind(option: Any) -> str:
    """Name what an option takes: the words of a choice, or a type."""
    annotation = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    while annotation is not None and get_origin(annotation) is not Literal and get_args(annotation):
        annotation = next(one for one in get_args(annotation) if one is not type(None))
    if get_origin(annotation) is Literal:
        return "|".join(map(str, get_args(annotation)))
    if annotation is None:  # older releases of typer
        return "|".join(map(str, getattr(option.type, "choices", []))) or str(option.type.name).upper()
    return {float: "NUMBER", int: "NUMBER", Path: "PATH"}.get(annotation, "TEXT")


def _said(parameter: Any) -> str:
    said = " ".join(str(parameter.help or "").split())
    default = parameter.default
    known = not callable(default) and not parameter.required and not getattr(parameter, "is_flag", False)
    if known and isinstance(default, str | int | float) and "default" not in said.lower():
        said += f" Default `{default}`."
    return said.replace("|", "\\|")
