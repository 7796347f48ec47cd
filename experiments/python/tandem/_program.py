"""The program `tandem`: where it is, and one call of it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

PathLike = Union[str, "os.PathLike[str]"]


class Diagnostic(NamedTuple):
    """One thing that is wrong. Without a place `path` is None, or `line` and `column` are."""

    message: str
    hint: Optional[str] = None
    path: Optional[str] = None
    line: Optional[int] = None
    column: Optional[int] = None


class Error(Exception):
    """The program refused, or is not there. Its text is all that the program said."""

    def __init__(self, text: str, code: Optional[int] = None) -> None:
        super().__init__(text)
        self.code = code
        """The exit code: 2 wrong usage, 3 bad input, 4 the environment lacks something, negative:
        the signal that ended it; None: it did not run."""
        self.diagnostics = _diagnostics(text)


_ERROR = re.compile(r"((?P<path>.+?):((?P<line>\d+):(?P<column>\d+):)? )?error: (?P<message>.*)")
_HINT = "  hint: "


def _diagnostics(text: str) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    for line in text.splitlines():
        match = _ERROR.fullmatch(line)
        if match:
            row, column = match["line"], match["column"]
            found.append(
                Diagnostic(
                    match["message"],
                    path=match["path"],
                    line=int(row) if row else None,
                    column=int(column) if column else None,
                )
            )
        elif line.startswith(_HINT) and found:
            found[-1] = found[-1]._replace(hint=line[len(_HINT) :])
    return found


def _installed() -> Optional[str]:
    """The program that was installed together with this package."""
    try:
        files = importlib.metadata.files("tandem") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "tandem" and file.parent.name == "bin":
            return str(Path(str(file.locate())).resolve())
    return None


def program() -> str:
    """The path of the program: $TANDEM, or what was installed with this package, or that of the
    source tree around it, `build/tandem`, or the first on $PATH."""
    given = os.environ.get("TANDEM")
    if given:
        return given
    root = Path(__file__).resolve().parents[3]
    built = root / "build" / "tandem"
    in_tree = str(built) if (root / "pyproject.toml").exists() and built.exists() else None
    found = in_tree or _installed() or shutil.which("tandem")
    if not found:
        raise Error(
            "error: the program 'tandem' was not found\n"
            "  hint: build it with ./setup, or say where it is with TANDEM=PATH"
        )
    return found


def _ending(code: int) -> str:
    """What the program cannot have said."""
    return f"\nerror: the program was ended by signal {-code}" if code < 0 else ""


class Answer(NamedTuple):
    out: str
    notes: str
    """What the program said beside its answer: which performance models, what is stale."""


def call(
    command: str,
    operands: Sequence[str],
    options: Sequence[str],
    stdin: Optional[str] = None,
    accept: Sequence[int] = (0,),
    pass_fds: Sequence[int] = (),
) -> Answer:
    """Runs a command. Ctrl-C goes to it first, once, so that what has ended is stored."""
    arguments = [program(), *command.split(), *options, "--", *operands]
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=pass_fds,
            start_new_session=True,  # or a terminal would interrupt it a second time
        )
    except (OSError, ValueError) as error:
        raise Error(f"error: cannot run '{arguments[0]}': {error}") from error
    with process:
        try:
            out, err = process.communicate(None if stdin is None else stdin.encode())
        except BaseException:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate()
            except BaseException:
                process.kill()
            raise
    said = err.decode(errors="replace")
    if process.returncode not in accept:
        raise Error(said.rstrip() + _ending(process.returncode), process.returncode)
    return Answer(out.decode(errors="replace"), said)


def call_json(
    command: str,
    operands: Sequence[str],
    options: Sequence[str],
    stdin: Optional[str] = None,
    accept: Sequence[int] = (0,),
    pass_fds: Sequence[int] = (),
) -> tuple[Any, str]:
    """The JSON that a command prints, and its notes."""
    answer = call(command, operands, [*options, "--format=json"], stdin, accept, pass_fds)
    return json.loads(answer.out), answer.notes
