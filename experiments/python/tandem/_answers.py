"""What the program answered, as values of Python."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
NAN = float("nan")


def frame(rows: list[Row], columns: Optional[list[str]] = None) -> pd.DataFrame:
    """Rows as a table of pandas, which is asked for here alone."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("tables need pandas: pip install pandas") from error
    table: pd.DataFrame = pandas.DataFrame(rows, columns=columns)
    return table


def columns(rows: list[Row]) -> dict[str, list[Any]]:
    """Rows as columns by name, each a list as matplotlib takes it: numbers, NaN where a number is
    missing, else texts, None where one is. Needs nothing installed."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    found: dict[str, list[Any]] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        known = [value for value in values if value is not None]
        numeric = bool(known) and all(isinstance(value, (int, float)) for value in known)
        found[name] = [NAN if value is None and numeric else value for value in values]
    return found


class Limit(NamedTuple):
    """A latency limit or another objective, and what came of it."""

    name: str
    value: float
    limit: float
    unit: str
    margin: float
    met: bool


def _number(value: Any) -> float:
    return NAN if value is None else value


def _figures(found: Mapping[str, Any], prefix: str, into: dict[str, float]) -> None:
    for name, value in found.items():
        if isinstance(value, Mapping):
            _figures(value, f"{prefix}{name}.", into)
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            into[prefix + name] = _number(value)


class Result(Mapping[str, float]):
    """A run: its figures by their names, `ttft_s.p99`, `throughput_rps`, `pool.serve.busy_s`
    (`tandem list figures` explains them). Times are seconds; the unit may be left out of the name:
    `result["ttft.p99"]`. What there was none of is NaN."""

    def __init__(self, data: Mapping[str, Any], notes: str) -> None:
        self.data = data
        """All that the program printed, as it is."""
        self.notes = notes
        """What it said beside that: which performance model, what an engine filled in."""
        self._figures: dict[str, float] = {}
        _figures(data, "", self._figures)
        for kind in "pool", "group":
            for part in data.get(kind + "s") or []:
                _figures(part, f"{kind}.{part['name']}.", self._figures)

    def _key(self, name: str) -> Optional[str]:
        head, _, statistic = name.rpartition(".")
        names = name, f"{name}_s", f"{head}_s.{statistic}"
        return next((key for key in names if key in self._figures), None)

    def __getitem__(self, name: str) -> float:
        key = self._key(name)
        if key is None:
            near = difflib.get_close_matches(name, self._figures, n=5)
            raise KeyError(f"no figure '{name}'; near: {', '.join(near) or 'none'}")
        return self._figures[key]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._key(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def __repr__(self) -> str:
        return f"<tandem.Result of {self.config}: {int(self['completed'])} requests, {self.digest}>"

    @property
    def config(self) -> str:
        """The path as given, "-" for a map or a text."""
        return str(self.data["config"])

    @property
    def digest(self) -> str:
        """Of all outcomes: equal for runs in which the same happened at the same time."""
        return str(self.data["digest"])

    @property
    def slo(self) -> dict[str, Limit]:
        return {
            row["name"]: Limit(
                row["name"],
                _number(row["value"]),
                _number(row["limit"]),
                row["unit"] or "",
                _number(row["margin"]),
                bool(row["met"]),
            )
            for row in self.data["slo"]
        }

    @property
    def met(self) -> bool:
        """Whether all objectives were met."""
        return all(limit.met for limit in self.slo.values())


class Sweep:
    """A sweep, which is in the database at `output`."""

    def __init__(self, output: str, data: Mapping[str, Any], notes: str, points: list[Row]) -> None:
        self.output = output
        self.notes = notes
        self.id = int(data["sweep"])
        """Its number in the database."""
        self.n_points = int(data["points"])
        """Of all shards; those of others are in their databases."""
        self.found = int(data["found"])
        """Points that were there and were not simulated again."""
        self.simulated = int(data["simulated"])
        self.failed = int(data["failed"])
        """Points that cannot be simulated: `query(output, "failed")` has the reasons."""
        self.points = points
        """A row for each point, with its values on the axes and its figures."""

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The points by column: `plt.plot(c["workload.arrivals.rate"], c["ttft_p99_s"])`."""
        return columns(self.points)

    @property
    def frame(self) -> pd.DataFrame:
        return frame(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        return f"<tandem.Sweep {self.id} of {self.output}: {len(self)} of {self.n_points} points>"


class Study:
    """The answer of a provisioning study: which design meets the limits, with how much of it."""

    def __init__(self, data: Mapping[str, Any], notes: str) -> None:
        self.data = data
        """All that the program printed, as it is."""
        self.notes = notes
        self.objective = str(data["objective"])
        self.unit = str(data["unit"])
        self.best: Optional[str] = data["best"]
        """The name of the best design, None: none meets the limits."""
        self.designs: dict[str, Row] = {row["design"]: row for row in data["designs"]}

    def _rows(self, kind: str) -> list[Row]:
        return [
            {"design": name, **row}
            for name, design in self.designs.items()
            for row in design.get(kind) or []
        ]

    @property
    def answers(self) -> list[Row]:
        """A row for each design and seed."""
        return self._rows("answers")

    @property
    def choices(self) -> list[Row]:
        """Of offline work: a row for each combination of values that was tried."""
        return self._rows("choices")

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The answers by column; limits are in `answers`."""
        return columns([{k: v for k, v in row.items() if k != "slo"} for row in self.answers])

    @property
    def frame(self) -> pd.DataFrame:
        """The answers; limits are in `answers`."""
        return frame([{k: v for k, v in row.items() if k != "slo"} for row in self.answers])

    def __repr__(self) -> str:
        return f"<tandem.Study: {self.best or 'no design'} by {self.objective}>"


class Plan:
    """The answer of `plan`: a row for each combination of GPU, engine, format, drafts and tiers, in
    the order in which the program prints them, the best first."""

    def __init__(self, data: Any, notes: str) -> None:
        self.data = data
        """All that the program printed, as it is."""
        self.notes = notes
        self.study: Optional[Study] = None
        """Of a single combination: the study that was searched, with all designs and seeds."""
        if isinstance(data, list):
            self.rows: list[Row] = data
        else:
            self.study = Study(data["answers"], notes)
            self.rows = [self._row(data, self.study)]

    @staticmethod
    def _row(data: Mapping[str, Any], study: Study) -> Row:
        row: Row = {key: data[key] for key in ("machine", "engine")}
        row["design"] = study.best
        if study.best:
            answer = next(row for row in study.answers if row["design"] == study.best)
            row.update((k, v) for k, v in answer.items() if k not in ("design", "seed", "slo"))
            row.update((limit["name"], limit["value"]) for limit in answer.get("slo") or [])
        return row

    @property
    def best(self) -> Optional[Row]:
        """The row of the best answer, None: nothing meets the limits."""
        return next((row for row in self.rows if row["design"]), None)

    @property
    def columns(self) -> dict[str, list[Any]]:
        return columns(self.rows)

    @property
    def frame(self) -> pd.DataFrame:
        return frame(self.rows)

    def __repr__(self) -> str:
        best = self.best
        found = f"{best['design']} on {best['machine']}" if best else "no design"
        return f"<tandem.Plan: {found} of {len(self.rows)}>"


class Tuning:
    """The answer of `tune`: what to set, and what each knob is worth."""

    def __init__(self, data: Mapping[str, Any], notes: str) -> None:
        self.data = data
        """All that the program printed, as it is."""
        self.notes = notes
        self.objective = str(data["objective"])
        self.unit = str(data["unit"])
        self.set: Row = dict(data["set"])
        """Keys and values of the best point, as `set` of the other functions; empty: nothing that
        was tried is better."""
        self.current = float(data["together"]["from"])
        """The objective with the current values, over the seeds of the measurement."""
        self.best = float(data["together"]["to"])
        """The same with the best values."""
        self.half_width = _number(data["together"]["half_width"])
        """Half of the 95% interval of the difference; NaN: not known."""
        self.knobs: list[Row] = data["knobs"]
        """A row for each knob; changes are shares of the objective."""

    @property
    def frame(self) -> pd.DataFrame:
        return frame(self.knobs)

    def __repr__(self) -> str:
        return f"<tandem.Tuning: {self.current:g} to {self.best:g} {self.unit}>"
