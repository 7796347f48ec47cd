"""Simulates clusters that serve large language models: a view of the program `tandem`.

    import tandem
    result = tandem.run("experiments/examples/quickstart.yaml", set={"pools.serve.count": 2})
    result["ttft.p99"], result.met

Each function is one command of the program, which computes all that there is; `tandem COMMAND
--help` explains it. A configuration is a path, a map, or a text of YAML of more than one line;
`set` sets keys of it, None takes one out. What the program refuses is an `Error`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from ._answers import Limit, Plan, Result, Row, Study, Sweep, Tuning, columns, frame
from ._proposal import TICKS_PER_SECOND, Caller, View, Waiting
from ._program import Diagnostic, Error, PathLike, call, call_json, program
from ._proposal import TICKS_PER_SECOND, Caller, View, Waiting
from ._yaml import block, flow

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Diagnostic",
    "Error",
    "Limit",
    "Plan",
    "Result",
    "Study",
    "Sweep",
    "TICKS_PER_SECOND",
    "Tuning",
    "View",
    "Waiting",
    "columns",
    "compare",
    "plan",
    "program",
    "provision",
    "query",
    "results",
    "run",
    "sweep",
    "tune",
    "why",
]

Config = Union[PathLike, Mapping[str, Any]]
Settings = Optional[Mapping[str, Any]]


def _config(config: Config) -> tuple[str, Optional[str]]:
    """The operand, and what standard input is to be."""
    if isinstance(config, Mapping):
        return "-", block(config) or "{}\n"
    if isinstance(config, str) and "\n" in config:
        return "-", config
    return os.fspath(config), None


def _pairs(option: str, values: Settings) -> list[str]:
    pairs = (values or {}).items()
    return [f"{option}={k}={v if isinstance(v, str) else flow(v, k)}" for k, v in pairs]


def _set(values: Settings) -> list[str]:
    return _pairs("--set", values)


def _options(**values: Any) -> list[str]:
    """`--tie-seed=3` of tie_seed=3; True is a flag; None and False are left out."""
    options = []
    for name, value in values.items():
        key = "--" + name.replace("_", "-")
        if value is True:
            options.append(key)
        elif value is not None and value is not False:
            options.append(f"{key}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return options


def run(
    config: Config,
    *,
    set: Settings = None,
    output: Optional[PathLike] = None,
    requests: bool = False,
    seed: Optional[int] = None,
    tie_seed: Optional[int] = None,
    strict: bool = False,
    memory: Optional[str] = None,
    proposal: Any = None,
) -> Result:
    """Simulates a configuration. With `output` the run is added to that database, with `requests`
    every request of it, too. `proposal` is an object that changes decisions of batcher vllm by its
    methods `rank(view, request)`, `prefill_tokens(view)` and `prefill_seqs(view)`; such a run is
    not stored, since the configuration alone does not repeat it."""
    path, text = _config(config)
    options = _options(
        output=output, requests=requests, seed=seed, tie_seed=tie_seed, strict=strict, memory=memory
    )
    if proposal is None:
        return Result(*call_json("run", [path], [*options, *_set(set)], text))
    settings = _set({**(set or {}), "policies.batcher.proposal": "caller"})
    with Caller(proposal) as caller:
        try:
            answer = call_json(
                "run", [path], [*options, caller.option, *settings], text, pass_fds=caller.pass_fds
            )
        except Error as error:
            raise error from caller.raised
    return Result(*answer)


def sweep(
    config: Config,
    output: PathLike,
    *,
    set: Settings = None,
    jobs: Optional[int] = None,
    memory: Optional[str] = None,
    shard: Optional[str] = None,
) -> Sweep:
    """Simulates all points of the block `sweep` that the database does not have yet. Interrupted,
    it keeps what has ended, and the same call goes on."""
    path, text = _config(config)
    options = _options(output=output, jobs=jobs, memory=memory, shard=shard)
    rows, notes = call_json("sweep", [path], [*options, *_set(set)], text)
    points = query(output, "points", set={"sweep": rows[0]["sweep"]})
    return Sweep(os.fspath(output), rows[0], notes, points)


def provision(
    config: Config,
    *,
    set: Settings = None,
    output: Optional[PathLike] = None,
    jobs: Optional[int] = None,
    seed: Optional[int] = None,
    full_runs: bool = False,
    memory: Optional[str] = None,
) -> Study:
    """Searches for the designs of a study that meet its limits; where none does, `best` is None."""
    path, text = _config(config)
    options = _options(
        output=output, jobs=jobs, seed=seed, full_runs=full_runs, memory=memory, require_slo=True
    )
    no_design = 1
    return Study(*call_json("provision", [path], [*options, *_set(set)], text, (0, no_design)))


def plan(
    model: PathLike,
    gpu: Union[str, Iterable[str]],
    slo: str,
    *,
    set: Settings = None,
    price: Optional[Mapping[str, float]] = None,
    **options: Any,
) -> Plan:
    """Searches for the cheapest cluster that serves a load within latency limits. `options` are
    those of `tandem plan --help` with underscores: `rate=30, isl=2000, osl=300`; a list stands for
    several, as `engine=["vllm", "sglang"]`. Where no design meets the limits, `best` is None."""
    lists = {"gpu": gpu, **options}
    joined = {
        name: ",".join(str(one) for one in value) if isinstance(value, (list, tuple)) else value
        for name, value in lists.items()
    }
    arguments = _options(model=model, slo=slo, **joined) + _set(set)
    arguments += [f"--price={name}={value}" for name, value in (price or {}).items()]
    no_design = 3  # as wrong input, which prints no answer
    answer = call("plan", [], [*arguments, "--format=json"], None, (0, no_design))
    if not answer.out.strip():
        raise Error(answer.notes.rstrip(), no_design)
    return Plan(json.loads(answer.out), answer.notes)


def tune(
    config: Config,
    *,
    objective: Optional[str] = None,
    slo: Optional[str] = None,
    knobs: Optional[Iterable[str]] = None,
    set: Settings = None,
    **options: Any,
) -> Tuning:
    """Searches the knobs of the serving engine on the cluster and traffic of a configuration.
    `options` are those of `tandem tune --help`: `seeds=3, budget=500`."""
    path, text = _config(config)
    listed = None if knobs is None else knobs if isinstance(knobs, str) else ",".join(knobs)
    arguments = _options(objective=objective, slo=slo, knobs=listed, **options)
    return Tuning(*call_json("tune", [path], [*arguments, *_set(set)], text))


def _question(name: str) -> tuple[list[str], list[str]]:
    """Operands and options of `query`: a statement has more than one word."""
    return ([], [f"--sql={name}"]) if len(name.split()) > 1 else ([name], [])


def query(db: PathLike, name: str = "summary", *, set: Settings = None) -> list[Row]:
    """The rows of a query by name, or of one SELECT. `tables` and `tandem query DB --list` say what
    there is; `set` gives parameters, `:run`."""
    operands, options = _question(name)
    rows, _ = call_json("query", [os.fspath(db), *operands], [*options, *_set(set)])
    return list(rows)


def results(db: PathLike, name: str = "points", *, set: Settings = None) -> pd.DataFrame:
    """The same rows as a table of pandas."""
    rows = query(db, name, set=set)
    if rows:
        return frame(rows)
    operands, options = _question(name)
    header = call("query", [os.fspath(db), *operands], [*options, *_set(set), "--format=csv"]).out
    return frame([], header.rstrip("\n").split(","))


def why(
    db: PathLike,
    run: Optional[int] = None,
    request: Optional[int] = None,
    *,
    slowest: Optional[int] = None,
    percentile: Optional[str] = None,
    by: Optional[str] = None,
    memory: Optional[str] = None,
) -> Any:
    """Where the time of requests of a run, the newest unless said, went: of `request` a map with
    its parts and the sentence `because`; otherwise a row for each of the slowest, or for each band
    of percentiles."""
    if slowest is None and percentile is None and request is None:
        percentile = "p99"  # a number alone would be a request
    operands = [str(number) for number in (run, request) if number is not None]
    options = _options(slowest=slowest, percentile=percentile, by=by, memory=memory)
    return call_json("why", [os.fspath(db), *operands], options)[0]


def compare(
    db: PathLike,
    a: Union[PathLike, int],
    b: Union[PathLike, int, None] = None,
    *,
    where: Settings = None,
    figures: Iterable[str] = (),
    all: bool = False,
) -> dict[str, Any]:
    """Two sets of runs side by side: what differs in their configuration, and each figure's change
    with its interval. With one more database in place of `a`, all runs of each."""
    sides = (str(side) for side in (a, b) if side is not None)
    options = _options(all=all) + _pairs("--where", where)
    options += [f"--figure={figure}" for figure in figures]
    return dict(call_json("compare", [os.fspath(db), *sides], options)[0])
