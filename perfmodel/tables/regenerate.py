#!/usr/bin/env python3
"""Makes the tables of kernels in this folder again, from a wheel of NVIDIA's AISimulate:

    pip download --no-deps aisimulate==0.13.0.dev202610270000000085
    pip install pyarrow numpy
    perfmodel/tables/regenerate.py aisimulate-*.whl [FOLDER]

FOLDER is this one otherwise. What is taken is in sources.csv beside this file; README.md describes
the tables. The same wheel gives the same bytes.
"""

import collections
import csv
import fnmatch
import gzip
import hashlib
import io
import math
import os
import re
import sys
import zipfile

TOLERANCE = 0.01  # of a time that is left out, from the line between those that stay
ROOT = "aisimulate_core/systems/data/"

# The columns of each table that tell its curves apart, and the column that a curve runs over. Of
# rows that agree in all of these the fastest stays: engines pick the fastest kernel they have.
TABLES = {
    "gemm": (["gemm_dtype", "n", "k"], "m"),
    "context_attention": (["kernel_source", "attn_dtype", "kv_cache_dtype", "head_dim", "num_heads",
                           "num_key_value_heads", "window_size", "batch_size", "step"], "isl"),
    "generation_attention": (["kernel_source", "attn_dtype", "kv_cache_dtype", "head_dim",
                              "num_heads", "num_key_value_heads", "window_size", "batch_size"],
                             "step"),
    "moe": (["kernel_source", "moe_dtype", "hidden_size", "inter_size", "topk", "num_experts",
             "moe_tp_size", "moe_ep_size", "distribution"], "num_tokens"),
    "mla_context_module": (["kv_cache_dtype", "gemm_type", "num_heads", "batch_size"], "isl"),
    "mla_generation_module": (["kv_cache_dtype", "gemm_type", "num_heads", "batch_size"], "step"),
    "context_mla": (["kv_cache_dtype", "num_heads", "batch_size"], "isl"),
    "generation_mla": (["kv_cache_dtype", "num_heads", "batch_size"], "step"),
    "mla_bmm": (["op_name", "bmm_dtype", "num_heads"], "num_tokens"),
    "gdn": (["phase", "kernel_source", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim",
             "batch_size"], "seq_len"),
    "kda": (["phase", "kernel_source", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim",
             "batch_size"], "seq_len"),
    "mamba2": (["phase", "kernel_source", "nheads", "head_dim", "d_state", "n_groups",
                "batch_size"], "seq_len"),
    "dsa_context_module": (["op_name", "architecture", "kv_cache_dtype", "gemm_type", "num_heads",
                            "batch_size", "step"], "isl"),
    "dsa_generation_module": (["op_name", "architecture", "kv_cache_dtype", "gemm_type",
                               "num_heads", "batch_size"], "step"),
    "dsv4_csa_context_module": (["model", "kv_cache_dtype", "gemm_type", "num_heads", "batch_size",
                                 "step"], "isl"),
    "dsv4_csa_generation_module": (["model", "kv_cache_dtype", "gemm_type", "num_heads",
                                    "batch_size"], "step"),
    "dsv4_hca_context_module": (["model", "kv_cache_dtype", "gemm_type", "num_heads", "batch_size",
                                 "step"], "isl"),
    "dsv4_hca_generation_module": (["model", "kv_cache_dtype", "gemm_type", "num_heads",
                                    "batch_size"], "step"),
    "msa_context_module": (["kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "step"],
                           "isl"),
    "msa_generation_module": (["kv_cache_dtype", "gemm_type", "num_heads", "batch_size"], "step"),
    "mhc_module": (["op_name", "hc_mult", "hidden_size"], "num_tokens"),
    "wideep_context_moe": (["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts",
                            "moe_tp_size", "moe_ep_size", "distribution"], "num_tokens"),
    "wideep_generation_moe": (["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts",
                               "moe_tp_size", "moe_ep_size", "distribution"], "num_tokens"),
    "wideep_deepep_ll": (["op_name", "hidden_size", "num_topk", "num_experts", "node_num"],
                         "num_token"),
    "wideep_deepep_normal": (["op_name", "hidden_size", "num_topk", "num_experts", "node_num"],
                             "num_token"),
    "custom_allreduce": (["backend", "allreduce_dtype", "num_gpus"], "message_size"),
    "nccl": (["op_name", "nccl_dtype", "num_gpus"], "message_size"),
    "trtllm_alltoall": (["op_name", "kernel_source", "moe_dtype", "hidden_size", "topk",
                         "num_experts", "moe_ep_size"], "num_tokens"),
}
# Smaller matrices take as long as these, the time of a launch.
LEAST = {"gemm": {"n": 64, "k": 256}}
# A row of DeepEP has the times of both operations, in microseconds. Of those of its kernels for
# prompts that its default has, 20 multiprocessors, stay; what they wait for the others counts.
DEEPEP = {"wideep_deepep_ll": ["%s_avg_t_us"],
          "wideep_deepep_normal": ["%s_transmit_us", "%s_notify_us"]}
DEEPEP_SMS = 20
# Of several distributions of tokens over experts the first that a curve was measured with; in
# tables of experts over machines both.
DISTRIBUTIONS = ["power_law_1.01", "power_law_1.2", "balanced"]
KEPT = {"wideep_context_moe": ["power_law_1.01", "uniform"],
        "wideep_generation_moe": ["power_law_1.01", "uniform"]}
# What one engine calls otherwise than the others.
ALIASES = {"fp8_e4m3": "fp8"}
# Tables of which only single prompts have tokens before them.
SINGLE = ["dsv4_csa_context_module", "dsv4_hca_context_module", "msa_context_module"]

# Tables of watts beside those of times: one GPU's power while the kernel ran, the median of all
# kernels of a class, since single readings of NVML are of 100 ms that other kernels share. A class
# is of the nearest powers of two of what the kernel does: the column that tells tables apart, then
# the keys, the last of which a curve runs over.
WATTS = {
    "gemm": ("gemm_dtype", {"log2_weights": lambda r: r["n"] * r["k"],
                            "log2_m": lambda r: r["m"]}),
    "context_attention": ("attn_dtype", {"log2_work": lambda r: (
        r["batch_size"] * r["isl"] * (r["isl"] + 2 * r["step"]) * r["num_heads"] * r["head_dim"])}),
    "generation_attention": ("kv_cache_dtype", {"log2_bytes": lambda r: (
        2 * r["batch_size"] * r["step"] * r["num_key_value_heads"] * r["head_dim"] *
        (1 if r["kv_cache_dtype"] == "fp8" else 2))}),
    "moe": ("moe_dtype", {"log2_weights": lambda r: (
        3 * r["num_experts"] * r["hidden_size"] * r["inter_size"] //
        (r["moe_tp_size"] * r["moe_ep_size"])), "log2_tokens": lambda r: r["num_tokens"]}),
    "custom_allreduce": ("allreduce_dtype", {"log2_size": lambda r: r["message_size"]}),
}


def rounded(us):
    """Three digits or fewer, at most half a percent away."""
    exponent = math.floor(math.log10(us))
    mantissa = us / 10**exponent
    step = 0.01 if mantissa < 2 else 0.02 if mantissa < 5 else 0.05
    return float("%.3g" % (round(mantissa / step) * step * 10**exponent))


def shown(us):
    text = "%d" % us if us >= 100 else "%.3g" % us
    return text[1:] if text.startswith("0.") else text


def thinned(x, curves):
    """Which points of curves over the same x stay: the fewest of each, so that every other one is
    within TOLERANCE of the line between its neighbours that stay."""
    import numpy as np

    x, y = np.array(x, float), np.array(curves, float)
    n = len(x)
    fewest = np.full(y.shape, 10**6)
    before = np.zeros(y.shape, int)
    fewest[:, 0] = 0
    for j in range(1, n):
        for i in range(j - 1, -1, -1):
            between = np.arange(i + 1, j)
            share = (x[between] - x[i]) / (x[j] - x[i])
            line = y[:, [i]] + (y[:, [j]] - y[:, [i]]) * share
            good = (abs(line - y[:, between]) <= TOLERANCE * y[:, between]).all(1)
            better = good & (fewest[:, i] + 1 < fewest[:, j])
            fewest[better, j] = fewest[better, i] + 1
            before[better, j] = i
    stays = np.zeros(y.shape, bool)
    stays[:, 0] = True
    for row in range(len(y)):
        at = n - 1
        while at > 0:
            stays[row, at] = True
            at = before[row, at]
    return stays


def preferred(curves, column):
    """Of curves that differ in their distribution alone the one that engines are nearest to."""
    best = {}
    for key in curves:
        rank = DISTRIBUTIONS.index(key[column]) if key[column] in DISTRIBUTIONS else None
        rest = key[:column] + key[column + 1:]
        if rank is not None and rank < best.get(rest, (len(DISTRIBUTIONS), None))[0]:
            best[rest] = (rank, key)
    return {key: curves[key] for _, key in best.values()}


def rows_of_operations(table, times):
    """A table with a row for each operation of DeepEP, with `latency` in milliseconds."""
    import pyarrow

    rows = []
    for row in table.to_pylist():
        for op in ["dispatch", "combine"]:
            if row.get(op + "_sms", DEEPEP_SMS) == DEEPEP_SMS:
                rows.append(dict(row, op_name=op,
                                 latency=1e-3 * sum(row[time % op] for time in times)))
    return pyarrow.Table.from_pylist(rows)


def read(data, name, without):
    """The curves of a Parquet table: {values of its columns: {x: microseconds}}."""
    import pyarrow.parquet

    columns, last = TABLES[name]
    table = pyarrow.parquet.read_table(io.BytesIO(data))
    if name in DEEPEP:
        table = rows_of_operations(table, DEEPEP[name])
    there = [column for column in columns if column in table.column_names]
    least = LEAST.get(name, {})
    rows = zip(table[last].to_pylist(), table["latency"].to_pylist(),
               table["step"].to_pylist() if "step" in table.column_names else [0] * len(table),
               *[table[column].to_pylist() for column in there])
    curves = collections.defaultdict(dict)
    for x, ms, step, *key in rows:
        key = tuple(ALIASES.get(value, value) for value in key)
        if not ms > 0 or (last == "isl" and "step" not in there and step > 0):
            continue
        if any(value < least.get(column, value) for column, value in zip(there, key)):
            continue
        if name in SINGLE and key[there.index("batch_size")] > 1 and key[there.index("step")] > 0:
            continue
        if any(fnmatch.fnmatch(str(value), pattern) for value in key for pattern in without):
            continue
        us = rounded(1e3 * ms)
        curves[key][x] = min(curves[key].get(x, us), us)
    if name in KEPT:
        at = there.index("distribution")
        curves = {key: curve for key, curve in curves.items() if key[at] in KEPT[name]}
    elif "distribution" in there:
        curves = preferred(curves, there.index("distribution"))
    return there, last, curves


def written(columns, last, curves, head):
    """The table as text, and how many points it has of how many."""
    same_x = collections.defaultdict(list)
    for key, curve in curves.items():
        same_x[tuple(sorted(curve))].append(key)
    kept = {}
    for x, keys in same_x.items():
        stays = thinned(x, [[curves[key][at] for at in x] for key in keys])
        for key, which in zip(keys, stays):
            kept[key] = {at: curves[key][at] for at, stay in zip(x, which) if stay}
    all_x = sorted({x for curve in kept.values() for x in curve})
    lines = ["# " + line for line in head]
    lines.append(",".join(columns + ["%s=%d" % (last, x) for x in all_x]))
    for key in sorted(kept, key=lambda key: [(str(type(v)), v) for v in key]):
        times = [shown(kept[key][x]) if x in kept[key] else "" for x in all_x]
        lines.append(",".join([str(value) for value in key] + times))
    points = sum(len(curve) for curve in kept.values())
    return "\n".join(lines) + "\n", points, sum(len(curve) for curve in curves.values())


def read_watts(data, name):
    """The medians of classes, {values: {x: watts}}, and how far rows are from them in the mean."""
    import pyarrow.parquet
    import statistics

    column, keys = WATTS[name]
    classes = collections.defaultdict(list)
    for row in pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist():
        row.setdefault("step", 0)
        if row["power"] > 0:
            at = [round(math.log2(key(row))) for key in keys.values()]
            classes[(row[column], *at)].append(row["power"])
    medians = {key: statistics.median(rows) for key, rows in classes.items()}
    far = [abs(medians[key] / watts - 1) for key, rows in classes.items() for watts in rows]
    curves = collections.defaultdict(dict)
    for (*key, x), watts in medians.items():
        curves[tuple(key)][x] = round(watts)
    columns = [column] + list(keys)
    return columns[:-1], columns[-1], curves, sum(far) / len(far)


def write_watts(archive, path, name, head, target):
    columns, last, curves, error = read_watts(archive.read(path), name)
    text, n, _ = written(columns, last, curves, head + ["rows are %.0f%% from these medians" %
                                                         (100 * error)])
    data = zipped(text)
    with open(os.path.join(target, name + "_watts.csv.gz"), "wb") as file:
        file.write(data)
    print("%s_watts: %d medians, %.1f%%, %d bytes" % (name, n, 100 * error, len(data)))
    return len(data)


def zipped(text):
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=9, mtime=0) as file:
        file.write(text.encode())
    return out.getvalue()


def main():
    wheel = sys.argv[1]
    home = os.path.dirname(os.path.abspath(__file__))
    target = sys.argv[2] if len(sys.argv) > 2 else home
    with open(wheel, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    archive = zipfile.ZipFile(wheel)
    tables = {}
    for path in archive.namelist():
        found = re.fullmatch(ROOT + r"(\w+)/\w+/(.*)/(\w+)_perf\.parquet", path)
        if found and found[3] in TABLES:
            tables[found[1], found[2].replace("/", "-"), found[3]] = path
    total = 0
    for row in csv.DictReader(open(os.path.join(home, "sources.csv"))):
        for (system, source, name), path in sorted(tables.items()):
            if system != row["system"] or not fnmatch.fnmatch(source, row["source"]):
                continue
            folder = os.path.join(target, row["gpu"], source)
            if name in WATTS and name + "_watts" in row["tables"].split():
                os.makedirs(folder, exist_ok=True)
                head = ["NVIDIA AISimulate, measured by NVIDIA (Apache-2.0); watts of one GPU",
                        "%s sha256 %s" % (os.path.basename(wheel), digest[:16]), path[len(ROOT):]]
                total += write_watts(archive, path, name, head, folder)
            if not any(fnmatch.fnmatch(name, pattern) for pattern in row["tables"].split()):
                continue
            columns, last, curves = read(archive.read(path), name, row["without"].split())
            head = ["NVIDIA AISimulate, measured by NVIDIA (Apache-2.0); microseconds",
                    "%s sha256 %s" % (os.path.basename(wheel), digest[:16]),
                    path[len(ROOT):] + (" without " + row["without"] if row["without"] else "")]
            text, n, of = written(columns, last, curves, head)
            os.makedirs(folder, exist_ok=True)
            data = zipped(text)
            with open(os.path.join(folder, name + ".csv.gz"), "wb") as file:
                file.write(data)
            total += len(data)
            print("%s/%s/%s: %d of %d times, %d bytes" % (row["gpu"], source, name, n, of, len(data)))
    print("%d bytes in all" % total)


if __name__ == "__main__":
    main()
