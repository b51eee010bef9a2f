"""Files of a run folder that hold one model of pydantic as JSON, written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from gravbench.errors import InputError
from gravbench.model.regular import read_bytes, write_whole

M = TypeVar("M", bound=BaseModel)


def write(model: BaseModel, path: Path) -> Path:
    """Write a model at once, so that the file is the old one or the new one.

    Raises:
        InputError: it cannot be written.
    """
    write_whole(path, model.model_dump_json(indent=1).encode() + b"\n")
    return path


def read(kind: type[M], path: Path, command: str) -> M:
    """Read what a command wrote; without the file, a model of which nothing was said.

    Raises:
        InputError: the file is not what ``command`` writes.
    """
    try:
        return kind.model_validate_json(read_bytes(path))
    except FileNotFoundError:
        return kind()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its content"
        raise InputError(f"{path}: {where}: {first['msg']}; accepted: what `{command}` writes") from None
