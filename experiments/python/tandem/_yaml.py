"""Configurations as YAML that Tandem reads: quantities such as `120 s` are plain, not quoted."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

# What needs no quotes anywhere, also between brackets: no indicator, no "key: value", no comment.
_PLAIN = re.compile(r"(-(?=\S)|[^-?:,\[\]{}#&*!|>'\"%@`\s])[^,\[\]{}]*")
_NULL = {"", "~", "null", "Null", "NULL"}


def _text(value: str) -> str:
    plain = _PLAIN.fullmatch(value) and value == value.strip() and value.isprintable()
    if plain and value not in _NULL and not re.search(r":(\s|$)|\s#", value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _scalar(value: Any, where: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return _text(os.fspath(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real) and math.isfinite(value):
        return repr(float(value))
    raise TypeError(f"{where or 'the value'} is {value!r}, which no configuration can hold")


def flow(value: Any, where: str = "") -> str:
    """A value in one line: `{ttft.p99: 1 s}`."""
    if isinstance(value, Mapping):
        pairs = (f"{_text(str(k))}: {flow(v, f'{where}.{k}')}" for k, v in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(flow(v, f"{where}[{i}]") for i, v in enumerate(value)) + "]"
    return _scalar(value, where)


def block(value: Mapping[str, Any], indent: str = "", where: str = "") -> str:
    """A map with a line for each key, so that what is wrong with one is said of its line."""
    lines = []
    for key, item in value.items():
        name, path = _text(str(key)), f"{where}{key}"
        if isinstance(item, Mapping) and item:
            lines.append(f"{indent}{name}:\n" + block(item, indent + "  ", path + "."))
        else:
            lines.append(f"{indent}{name}: {flow(item, path)}\n")
    return "".join(lines)
