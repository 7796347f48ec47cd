#!/usr/bin/env python3
"""Checks the tables in perfmodel/tables against what they were thinned from: each time that was
measured, whether it stayed or not, is within the stated error of the table's line there. Curves
that the table does not have, or has of another measurement, are counted, not checked."""

import bisect
import csv
import gzip
import os
import sys

SKIPPED = 77
ERROR = 0.01 + 0.005  # of the line, and of digits
SYSTEMS = {"h100_sxm": "h100-80gb", "h200_sxm": "h200-141gb", "b200_sxm": "b200-180gb",
           "gb200": "gb200-186gb", "a100_sxm": "a100-80gb", "l40s": "l40s-48gb"}


def read_curves(path):
    """{values of the columns: {x: us}}, the columns and the one that curves run over."""
    with gzip.open(path, "rt") as file:
        rows = csv.reader(line for line in file if not line.startswith("#"))
        header = next(rows)
        wide = [i for i, name in enumerate(header) if "=" in name]
        last = header[wide[0]].split("=")[0]
        x = [int(header[i].split("=")[1]) for i in wide]
        columns = header[:wide[0]]
        curves = {tuple(row[:len(columns)]): {a: float(row[i]) for a, i in zip(x, wide) if row[i]}
                  for row in rows}
    return curves, columns, last


def read_raw(path, columns, last):
    points = {}
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            key = tuple(row.get(column, "0" if column in ("step", "window_size") else None)
                        for column in columns)
            us = float(row["latency_us"])
            curve = points.setdefault(key, {})
            x = int(row[last])
            curve[x] = min(us, curve.get(x, us))
    return points


def check(table, raw):
    curves, columns, last = read_curves(table)
    checked = other = wrong = 0
    for key, points in read_raw(raw, columns, last).items():
        curve = curves.get(key)
        if not curve or any(x not in points for x in curve):
            other += 1
            continue
        if any(abs(curve[x] / points[x] - 1) > 0.0051 for x in curve):
            other += 1
            continue
        xs = sorted(curve)
        for x, us in points.items():
            i = min(max(bisect.bisect_left(xs, x), 1), len(xs) - 1)
            a, b = xs[i - 1], xs[i]
            line = curve[a] + (curve[b] - curve[a]) * (x - a) / (b - a) if b > a else curve[a]
            checked += 1
            wrong += abs(line / us - 1) > ERROR
    return checked, other, wrong


def main():
    tables = os.path.join(os.environ["TANDEM_SOURCE_DIR"], "perfmodel", "tables")
    raw = os.path.join(os.environ.get("TANDEM_DATA_DIR", "none"), "measured", "aic")
    if not os.path.isdir(raw):
        print("the tables that they were thinned from are not there")
        return SKIPPED
    total = failed = 0
    for system, gpu in SYSTEMS.items():
        for source in sorted(os.listdir(os.path.join(tables, gpu))):
            for name in ("gemm", "context_attention", "generation_attention"):
                table = os.path.join(tables, gpu, source, name + ".csv.gz")
                original = os.path.join(raw, system, source, name + ".csv.gz")
                if not (os.path.exists(table) and os.path.exists(original)):
                    continue
                checked, other, wrong = check(table, original)
                print("%s/%s/%s: %d times, %d curves of another measurement, %d wrong"
                      % (gpu, source, name, checked, other, wrong))
                total += checked
                failed += wrong
    print("%d times checked" % total)
    return failed > 0 or total == 0


if __name__ == "__main__":
    sys.exit(main())
