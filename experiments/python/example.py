# %% [markdown]
# A capacity question in a notebook: the cells of this file, in order. `python example.py` runs it.

# %%
import tempfile
from pathlib import Path

import tandem

folder = Path(tempfile.mkdtemp())

# %% What do users of three DGX H100 feel, and are the limits kept?
config = {
    "model": {"name": "llama3.1-70b", "quantization": "fp8"},
    "engine": "vllm-0.24",
    "workload": {
        "lengths": "azure-conv-2023",
        "arrivals": {"process": "poisson", "rate": "24 /s"},
        "duration": "60 s",
    },
    "pools": {
        "serve": {
            "machine": "dgx-h100",
            "count": 3,
            "tensor_parallel_size": 4,
            "data_parallel_size": 2,  # two instances on each
        },
    },
    "policies": {"router": "token_jsq"},
    "perfmodel": {"engine": "vllm"},
    "slo": {"ttft.p99": "1 s", "tpot.p99": "40 ms"},
}
result = tandem.run(config, output=folder / "runs.db", requests=True)
for limit in result.slo.values():
    verdict = "met" if limit.met else "missed"
    print(f"{limit.name} is {limit.value:.3g} {limit.unit} of {limit.limit:g}: {verdict}")

# %% Why were the slowest late?
for row in tandem.why(folder / "runs.db", slowest=3, by="ttft"):
    late = tandem.why(folder / "runs.db", 1, row["request"])
    print(f"request {row['request']}, TTFT {row['ttft_s']:.2f} s:", late["because"])

# %% How much more traffic do they take? The same call goes on where an earlier one stopped.
axes = {"pools.serve.count": "2..4", "workload.arrivals.rate": "20..60 step 20 /s"}
sweep = tandem.sweep(config, folder / "sweep.db", set={"sweep": axes})
table = sweep.frame.pivot(
    index="workload.arrivals.rate", columns="pools.serve.count", values="ttft_p99_s"
)
print("99th percentile of TTFT, seconds, by rate and machines", table, sep="\n")

# %% Any SELECT is a table, too.
rates = tandem.results(
    folder / "sweep.db",
    "SELECT param.value AS machines, max(metric.value) AS most_rps FROM metric"
    " JOIN param USING (run_id) WHERE param.key = 'pools.serve.count'"
    " AND metric.scope = 'run' AND metric.name = 'throughput_rps' GROUP BY param.value",
)
print(rates.to_string(index=False))

# %% What is the least that holds 40 requests/s?
study = tandem.provision(
    config,
    set={
        "workload.arrivals.rate": "40 /s",
        "provision": {
            "objective": "machines",
            "constraint": {"rate": "40 /s"},
            "designs": {"whole": {"pools.serve.count": "1..12"}},
            "seeds": 2,
        },
    },
)
print(study)
print(
    study.frame[["design", "seed", "found", "machines", "binds", "margin"]].to_string(index=False)
)
