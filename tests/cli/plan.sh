#!/bin/sh
# `tandem plan`: one question, answered without a file; the study that it writes gives the same
# answer to provision and run; what starts it; and what is wrong with a question.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# A small model, few degrees: a second's work.
ask() { "$tandem" plan --model llama3.1-8b --gpu h100 --isl 500 --osl 100 "$@"; }
limits='ttft.p90<2s,tpot.p90<50ms'

expect 0 ask --rate 20 --slo "$limits" --study study.yaml --output plan.db
[ "$(wc -l <out)" -le 52 ] || fail "$(wc -l <out) lines"
[ "$(wc -L <out)" -le 104 ] || fail 'wider than 104 columns'
for text in 'question    llama3.1-8b (bf16) on dgx-h100, vllm-' 'answer      ' 'runner-up   ' \
  '$/M tokens' 'tokens/s and user' 'vllm serve meta-llama/' 'tandem run study.yaml'; do
  prints "$text"
done
# How far the answer moves: each limit as a range, around its value, which term moves it most, and
# how far the same engine on the same GPU was off where it was measured, and on the nearest rows.
for pattern in '^sure .* with times up to [0-9.]*% shorter or longer' \
  '^ *mostly by the error of [a-z ]* ([0-9.]*%)$' \
  '^note  *versions are mixed: iteration times of vllm-[0-9.]*, scheduler of vllm-[0-9.]*$' \
  '^ .* two thirds of [0-9]* measured rows of vllm on h100-80gb,$' \
  '^measured  *nearest of [0-9]* rows on h100-80gb; Tandem was off by$' \
  '^ *TTFT [-+][0-9]*%, TPOT [-+][0-9]*%: vllm .* tokens, [0-9]* clients$' \
  '^ *to repeat a row: tandem report measured FOLDER --id ID$' \
  '^ *TPOT was [0-9]*% [a-z]* to [0-9]*% [a-z]* (median .*), TTFT '; do
  grep -q "$pattern" out || fail "no line '$pattern'"
done
awk '$1 == "ttft.p90" && $3 == "of" { ttft = $2 }
  $1 == "tpot.p90" && $3 == "of" { tpot = $2 }
  $1 == "ttft.p90" && $3 == "to" {
    found = $2 < ttft && ttft < $4 && $7 < tpot && tpot < $9 && $6 == "tpot.p90"
  }
  END { exit !found }' out || fail 'a limit is not within its range'
# The table's first row is the answer.
is_first() {
  awk '
    $1 == "answer" { gpus = $0; sub(/ GPUs?,.*/, "", gpus); sub(/.* /, "", gpus) }
    $1 == "ttft.p90" || $1 == "tpot.p90" { left[$1] = $(NF - 1) }
    found { exit !($(NF - 6) == gpus && $NF == left[$(NF - 1)]); }
    $1 == "design" && $2 == "instances" { found = 1 }' out ||
    fail 'the first design is not the answer'
}
is_first
grep -E '^answer +[0-9]+ (\+ [0-9]+ )?instances? of [a-z]' out >answer ||
  fail 'no answer with its instances'
design=$(sed 's/.*instances* of \([^:]*\):.*/\1/' answer)

# The study is an ordinary one: the same answer, from the database.
expect 0 "$tandem" provision study.yaml --format json --output plan.db
python3 - "$design" <<'END' || fail 'provision has another answer'
import json, sys
study = json.load(open('out'))
assert study['best'] == sys.argv[1], study['best']
assert all(design['reused'] == design['simulations'] for design in study['designs'])
END
# Its answer as a run, which can be asked about.
expect 0 "$tandem" run study.yaml --output run.db --requests
says "the answer of the study is design '$design'"
expect 0 "$tandem" run study.yaml --precision 10%
says "the answer of the study is design '$design'" # however well its run is to be known
prints 'length '
prints 'ttft.p90'
expect 0 "$tandem" why run.db --slowest 1
expect 0 "$tandem" provision study.yaml --run
prints "best         $design"
prints 'output tokens/s'
rejects 2 "$tandem" provision study.yaml --run --format json

# The page of a database names the same rows.
expect 0 "$tandem" report plan.db -o page.html
grep -q 'Nearest measured rows, and how far predictions of them were off' page.html ||
  fail 'no measured rows on the page'
grep -q 'tandem report measured FOLDER --id [a-z0-9_]*<' page.html || fail 'no row to repeat'
# Nobody measured this GPU.
expect 0 "$tandem" plan --model llama3.1-8b --gpu mi300x --isl 500 --osl 100 --rate 5 \
  --slo "$limits" --tp 1 --split no --seeds 1
prints 'measured    no row that was measured on mi300x-192gb is known'

# For programs.
expect 0 ask --rate 20 --slo "$limits" --tp 1 --format json
python3 - <<'END' || fail 'JSON says something else'
import json
plan = json.load(open('out'))
near = plan['nearest_measured']
assert len(near) == 3 and near == sorted(near, key=lambda row: row['distance']), near
assert all(row['gpu'] == 'h100-80gb' and row['engine'] == 'vllm' for row in near), near
assert plan['answers']['best'] == plan['best']
assert 'tensor_parallel_size: 1' in plan['study'] and 'size: 2' not in plan['study']
runs = plan['runs']
assert any(run['on_front'] for run in runs) and len(runs) % 5 == 0
for run in runs:  # nothing is cheaper and faster than one on the front
    for other in runs:
        assert not (run['on_front'] and not other['saturated'] and
                    other['cost_per_million_tokens'] < run['cost_per_million_tokens'] and
                    other['tokens_per_s_per_user'] > run['tokens_per_s_per_user'])
END

# Of one seed, which has no second answer.
expect 0 ask --rate 20 --slo "$limits" --seeds 1 --tp 1,2
is_first

# Several GPUs and formats side by side: each row is the answer of its question alone, by cost.
compare() { "$tandem" plan --model llama3.1-8b --isl 500 --osl 100 "$@"; }
expect 0 compare --rate 20 --slo "$limits" --seeds 1 --tp 1 --split no --gpu h100,a100,b200 \
  --weights bf16,fp8 --format json
cp out sides.json
for gpu in h100 a100 b200; do
  expect 0 compare --rate 20 --slo "$limits" --seeds 1 --tp 1 --split no --gpu $gpu --weights bf16 \
    --format json
  cp out one.json
  python3 - $gpu <<'END' || fail "$gpu has another answer beside others"
import json, sys
rows, one = json.load(open('sides.json')), json.load(open('one.json'))
costs = [row['cost_per_hour'] for row in rows if row['design']]
assert len(rows) == 6 and costs == sorted(costs), costs
row, = [row for row in rows if row['machine'].endswith(sys.argv[1]) and row['weights'] == 'bf16']
best, = [one['answers']['designs'][i]['answers'][0] for i in range(len(one['answers']['designs']))
         if one['answers']['designs'][i]['design'] == one['best']]
assert row['design'] == one['best'] and row['gpus'] == best['gpus']
assert row['cost_per_hour'] == best['cost_per_hour']
for slo in best['slo']:
    assert abs(row[slo['name']] - slo['value']) < 1e-6 * slo['value']
assert row['rests_on'].startswith('vllm-')
refused, = [row for row in rows if not row['design']]
assert refused['why_not'] and 'fp8' in refused['why_not'], refused  # A100
assert rows[-1] == refused
END
done
rejects 2 compare --rate 20 --slo "$limits" --gpu h100,a100 --study both.yaml
says 'need one GPU, prefill GPU, engine, format, draft number and tier'
rejects 3 ask --rate 20 --slo "$limits" --weights bf16,fp9
says "unknown number format 'fp9'"

# Numbers of drafts are an axis, too. The error of each row is that of the times and that of its
# acceptance together; a model that was measured has its own.
drafts() {
  "$tandem" plan --gpu h200 --isl 500 --osl 100 --rate 4 --slo "$limits" --tp 8 --split no \
    --seeds 1 "$@"
}
expect 0 drafts --model deepseek-r1 --speculative 0,2..3 --format json
cp out sides.json
expect 0 drafts --model deepseek-r1 --speculative 2 --study drafts.yaml
prints 'vllm-0.33, 2 drafts: '
prints 'the acceptance was not measured: 2.50 tokens a step with 2 drafts,'
prints "--speculative-config '{\"method\":\"mtp\",\"num_speculative_tokens\":2}'"
grep -q '^sure .* with times up to [0-9.]*% shorter or longer' out || fail 'no range'
expect 0 "$tandem" run drafts.yaml --format json
python3 - <<'END' || fail 'numbers of drafts have wrong rows'
import json, math
rows = {row['drafts']: row for row in json.load(open('sides.json'))}
assert sorted(rows) == [0, 2, 3], rows
assert rows[0]['tpot.p90'] > rows[2]['tpot.p90'] > rows[3]['tpot.p90'], rows
base = rows[0]['perfmodel_error']
for drafts, tokens, error in (2, '2.50', 0.23 / 2.5), (3, '2.94', 0.45 / 2.94):
    row = rows[drafts]
    assert row['rests_on'].endswith(f', {tokens} tokens a step assumed'), row
    assert base < row['perfmodel_error'] <= math.hypot(base, error) + 1e-3, row
assert 'tokens a step' not in rows[0]['rests_on']
run = json.load(open('out'))
assert 2.4 < run['acceptance_length'] <= 2.5, run['acceptance_length']
END
expect 0 drafts --model qwen3.5-397b-a17b --weights fp8_block --speculative 3 --dry-run
prints 'acceptance: 3.36, acceptance_error: 0.00893'
# A model without MTP layers, or an acceptance of its own; other assignments of drafts do not
# disturb 0 drafts.
own='--set policies.batcher.speculative.method=eagle
  --set policies.batcher.speculative.acceptance=1.8'
rejects 3 ask --rate 20 --slo "$limits" --speculative 2
says "--speculative: error: model 'llama3.1-8b' has no MTP layers: give --set"
# shellcheck disable=SC2086 # words
expect 0 ask --rate 20 --slo "$limits" --tp 1 --split no --speculative 0,1 $own --format csv
[ "$(wc -l <out)" = 3 ] || fail 'not two rows'
# shellcheck disable=SC2086
expect 0 ask --rate 20 --slo "$limits" --tp 1 --split no --speculative 1 $own
prints 'the weights and the KV of the drafter are not counted in memory'
for wrong in 4..2 1, a 0..65 -1 1.5 ''; do
  rejects 3 drafts --model deepseek-r1 --speculative "$wrong"
  says "--speculative: error: '$wrong' is not a list of numbers of drafts from 0 to 64"
done
rejects 3 drafts --model deepseek-r1 --speculative 9
says '--speculative: error: no acceptance is published of more than 8 drafts'
rejects 3 drafts --model deepseek-r1 --speculative 1 --engine sglang
says "--speculative: error: speculative decoding of engine 'sglang-0.5' is not modelled"
rejects 2 drafts --model deepseek-r1 --speculative 0..64
says 'more than 64 combinations'

# Tiers of KV under the prefix cache are an axis, too, whose sizes grow with the GPUs of a design. A
# run of the answer stores each of its prompts once.
python3 - <<'END' >turns.jsonl
import json
for turn in range(60):
    ids = [1000 * (turn % 6) + i for i in range(4 + turn // 6)]
    print(json.dumps({'timestamp': 4000 * turn, 'input_length': 512 * len(ids) - 100,
                      'output_length': 20, 'hash_ids': ids}))
END
turns() {
  "$tandem" plan --model llama3.1-8b --gpu h100 --trace turns.jsonl --slo "$limits" --tp 1,2 \
    --split no --seeds 1 "$@"
}
expect 0 turns --offload none,cpu=8GiB,ssd --format json
python3 - <<'END' || fail 'tiers have wrong rows'
import json
rows = {row['offload']: row for row in json.load(open('out'))}
assert sorted(rows) == ['cpu=8GiB', 'none', 'ssd'] and all(row['design'] for row in rows.values())
END
expect 0 turns --offload ssd --dry-run
prints '{name: cpu, capacity: 250000000000 B}, {name: ssd, capacity: 7680000000000 B,'
prints 'read_bandwidth: 13800000000 B/s, write_bandwidth: 8200000000 B/s,'
expect 0 turns --offload cpu=8GiB --study turns.yaml
prints 'offload to cpu=8GiB: the trace '
prints 'note        KV of prompts is kept in 8 GiB of CPU memory per GPU'
prints '"kv_connector_extra_config":{"cpu_bytes_to_use":8589934592}}'
expect 0 "$tandem" run turns.yaml --format json
python3 - <<'END' || fail 'prompts are not stored in CPU memory once'
import json
blocks = json.load(open('out'))['cpu_written_bytes'] / 2097152 # of 16 tokens
assert blocks == 6 * ((13 * 512 - 100) // 16), blocks
END
expect 0 turns --offload ssd=1TB --export vllm
prints '"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":125000000000,'
prints '"secondary_tiers":[{"type":"fs","root_dir":"/mnt/kv"}]'
for wrong in disk cpu= none=1GB cpu=5 ssd=-1GB; do
  rejects 3 turns --offload "$wrong"
  says "--offload: error: '$wrong' is not a tier for KV"
done
rejects 3 turns --offload cpu=1TB
says "machine 'dgx-h100' has 250 GB of CPU memory for each GPU"
expect 0 turns --offload cpu=8GiB --engine sglang --dry-run
rejects 3 turns --offload ssd --engine sglang
says "SSDs under the radix cache of engine 'sglang-0.5' are not modelled"
rejects 3 turns --offload cpu --engine trtllm
says "KV offloading of engine 'trtllm-1.3' is not modelled"
rejects 3 turns --offload cpu --split yes
says 'offloading in split pools is not modelled'
rejects 3 ask --rate 20 --slo "$limits" --offload cpu
says 'prompts without a trace share nothing'
rejects 3 turns --model gpt-oss-120b --offload cpu
says "whose layers have windows or states, is not modelled"

# Prefill on another GPU is an axis of split designs, too. The same GPU gives what it gives without
# the option; the other one is in the study, the answer and what starts it.
prefill() { ask --rate 20 --slo "$limits" --tp 1 --split yes --seeds 1 "$@"; }
expect 0 prefill --prefill-gpu same,a100 --format json
cp out sides.json
expect 0 prefill --format json
cp out same.json
expect 0 prefill --prefill-gpu a100 --sold gpu --study prefill.yaml
prints 'on dgx-h100, prefill on dgx-a100, vllm-'
prints 'instances of split-dgx-a100-tp1-tp1: '
grep -q '^# prefill: [0-9]* instances* on 1 GPU (a100-80gb) each' out || fail 'prefill elsewhere'
grep -q '^# decode: [0-9]* instances* on 1 GPU (h100-80gb) each' out || fail 'decode elsewhere'
expect 0 "$tandem" run prefill.yaml --format json
python3 - <<'END' || fail 'prefill on another GPU has a wrong row'
import json
rows = {row['prefill_machine']: row for row in json.load(open('sides.json'))}
assert sorted(rows) == ['dgx-a100', 'same'], rows
assert rows['same']['design'] == json.load(open('same.json'))['best'] == 'split-tp1'
assert rows['dgx-a100']['design'] == 'split-dgx-a100-tp1-tp1'
assert rows['dgx-a100']['cost_per_hour'] == 8 * (2.79 + 3.99), rows # a machine of each
END
rejects 3 prefill --prefill-gpu a1000
says "--prefill-gpu: error: unknown GPU or machine type 'a1000'"
rejects 3 prefill --prefill-gpu v100-32gb-x8 --weights fp8
says '--prefill-gpu: error: '
rejects 3 ask --rate 20 --slo "$limits" --split no --prefill-gpu a100
says "'--prefill-gpu' applies to split designs"
rejects 2 "$tandem" plan --model llama3.1-8b --gpu h100 --batch 1k --isl 100 --osl 10 \
  --prefill-gpu a100
says "'--batch' has no split designs: omit '--prefill-gpu'"
rejects 3 turns --offload cpu --split both --prefill-gpu a100
says '--prefill-gpu: error: offloading in split pools is not modelled'

# Weights that fit on no instance are refused in one line, with what comes nearest, which fits.
large() { "$tandem" plan --model kimi-k2.5 --rate 1 --isl 500 --osl 100 --slo "$limits" "$@"; }
rejects 3 large --gpu b200 --weights bf16
[ "$(grep -c error: err)" = 1 ] || fail 'more than one reason'
says 'it fits with --weights fp8 or --gpu dgx-b300'
expect 0 large --gpu b200 --weights fp8 --dry-run
expect 0 large --gpu dgx-b300 --weights bf16 --dry-run

# What starts it, on stdout alone; a shell and a reader of YAML take it.
for program in vllm sglang tensorrt-llm; do
  expect 0 ask --rate 20 --slo "$limits" --tp 1,2 --split yes --export $program
  sh -n out || fail "no shell text for $program"
  grep -q '^# decode: [0-9]* instance' out || fail "no decodes for $program"
  cp out "$program"
done
! grep -q -e '--pp-size' sglang || fail 'one stage is no pipeline'
cat >stages.yaml <<'END'
model: llama3.1-8b
engine: sglang-0.5
perfmodel: roofline
workload:
  lengths: {prompt: {constant: 500}, output: {constant: 100}}
  arrivals: {process: poisson, rate: 20 /s}
  requests: 400
slo: {ttft.p90: 2 s}
provision:
  objective: cost
  designs:
    stages:
      pools: {serve: {role: mixed, machine: dgx-h100, pipeline_parallel_size: 2}}
      pools.serve.count: 1..8
END
expect 0 "$tandem" provision stages.yaml --export sglang
tr -d '\\\n' <out | tr -s ' ' | grep -qF -e '--pp-size 2 ' || fail 'no pipeline of two stages'
sed 's/pipeline_parallel_size: 2/tensor_parallel_size: 4, attention_data_parallel_size: 2/' \
  stages.yaml >ranks.yaml
expect 0 "$tandem" provision ranks.yaml --export sglang
tr -d '\\\n' <out | tr -s ' ' >line
grep -qF -e '--chunked-prefill-size 8192 --max-running-requests 4096' line ||
  fail 'the limits are not those of both ranks'
expect 0 "$tandem" provision study.yaml --export llm-d
prints '"--tensor-parallel-size"'
expect 0 ask --rate 20 --slo "$limits" --tp 1 --export dynamo
prints 'kind: DynamoGraphDeployment'
rejects 2 ask --rate 20 --slo "$limits" --export vlm
says "did you mean 'vllm'?"

expect 0 ask --rate 20 --slo "$limits" --tp 1 --split no --engine trtllm
prints 'trtllm-serve meta-llama/'

# Other loads: users who wait, a table of lengths, a trace.
expect 0 ask --users 16 --slo "$limits" --tp 1 --split no
prints '16 users at a time'
expect 0 "$tandem" plan --model llama3.1-8b --gpu h100 --lengths azure-conv-2023 --rate 5 \
  --slo 'ttft.p50<5s' --tp 1 --split no
expect 0 "$tandem" plan --model llama3.1-8b --gpu h100 --tp 1 --split no --slo 'ttft.p50<5s' \
  --trace "$source_dir/traces/sample/azure_sample.csv"
# A log of its own columns, out of order; the study reads it as it was asked.
printf 'when;in;"the out"\n9000;400;40\n8000;300;30\n' >log.csv
logged() {
  "$tandem" plan --model llama3.1-8b --gpu h100 --tp 1 --split no --slo 'ttft.p50<5s' \
    --trace log.csv "$@"
}
rejects 3 logged
says 'or with --columns; it has'
expect 0 logged --columns 'arrival=1,prompt=in,output=the out' --time ms --sort --study log.yaml
prints 'the trace log.csv'
expect 0 "$tandem" run log.yaml
prints '2 completed'
expect 0 logged --columns 'prompt=in,output=3' --users 2 --study users.yaml
prints '2 users at a time'
expect 0 "$tandem" run users.yaml
prints '2 completed'
rejects 3 logged --columns prompt=in,output=3
says 'no known column holds the arrivals'
rejects 2 logged --columns prompt=in,outptu=3
says "'--columns' must be"
rejects 2 ask --rate 20 --slo "$limits" --time ms
says "need '--trace'"
printf 'timestamp,prompt_tokens,completion_tokens\n0,300,30\n1,400,40\n2,100,0\n' >log.csv
expect 0 logged
for option in --columns --time --sort; do
  expect 0 "$tandem" plan --help
  grep -q "^  $option " out || fail "no $option"
done
# Nobody measured a GPU like it: said so; of one that is like another, whose times they are.
on_gpu() {
  "$tandem" plan --model opt-13b --isl 500 --osl 50 --rate 1 --slo 'ttft.p50<5s' --split no --tp 1 \
    --seeds 1 --gpu "$@"
}
expect 0 on_gpu mi300x
prints 'its times come from a roofline'
prints 'without the error of the times, which is unknown'
! grep -q 'mostly by' out || fail 'an error that is unknown moves the answer'
expect 0 on_gpu gh200-96gb
says 'times by the ratio of peaks of h100-80gb (100% of the time)'
prints '_gh200-96gb_tp1_bf16 from h100-80gb' # beside the flags as well
rejects 3 on_gpu a10-x4 --weights fp8
says "which GPU 'a10' of machine 'a10-x4' does not support"

# Prices and units of sale: of the machine file, an option, a table, a key; in the study as well.
expect 0 on_gpu h100
prints '31.92 $/h'
prints '1 dgx-h100 sold whole, 3.99 $/h a GPU (Lambda on demand, 2026-09-20)'
expect 0 on_gpu h100 --price h100=2.10 --sold gpu --study priced.yaml
prints '1 GPU, 2.1 $/h'
prints '0.125 dgx-h100, 2.1 $/h a GPU (--price)'
expect 0 "$tandem" provision priced.yaml
prints 'prices       dgx-h100 2.1 $/h a GPU (--price)'
expect 0 "$tandem" provision priced.yaml --price h100=3 --sold whole
prints 'prices       dgx-h100 3 $/h a GPU (--price)'
expect 0 "$tandem" provision priced.yaml --price h100=3 --sold whole --format csv
[ "$(sed -n '2s/^\([^,]*,\)\{8\}\([^,]*\),.*/\2/p' out)" = 24 ] || fail 'not a whole machine'
printf 'gpu,usd_per_gpu_hour,date,source\nh100,1.5,2026-11,our offer\ngb300-nvl72,9,,\n' >prices.csv
expect 0 on_gpu h100 --prices prices.csv
prints '1 dgx-h100 sold whole, 1.5 $/h a GPU (our offer, 2026-11)'
expect 0 on_gpu h100 --prices prices.csv --price h100-80gb=2 # the longer name
prints '2 $/h a GPU (--price)'
expect 0 on_gpu gb300 --prices prices.csv
prints '9 $/h, '
expect 0 on_gpu h100 --set 'cost_per_hour=16 $/h' --set sold=gpu
prints "0.125 dgx-h100, 2 \$/h a GPU ('cost_per_hour' of the configuration)"
expect 0 on_gpu h100 --set "prices=$PWD/prices.csv"
prints '1.5 $/h a GPU (our offer, 2026-11)'
for price in h100 h100= =2 h100=0 h100=two; do
  rejects 3 on_gpu h100 --price "$price"
  says 'is not a price of a GPU'
done
rejects 3 on_gpu h100 --price h10=2
says "unknown machine or GPU 'h10'"
printf 'gpu,usd_per_gpu_hour\nh100,-1\n' >prices.csv
rejects 3 on_gpu h100 --prices prices.csv
says 'prices.csv:2:'

# Of designs that cost the same, the one with fewer GPUs.
expect 0 ask --rate 2 --slo "$limits" --seeds 1
prints 'answer      1 instance of tp1: 1 GPU, 31.92 $/h'
# Nobody measured this engine on this GPU: the spread is that of all others.
expect 0 "$tandem" plan --model llama3.1-8b --gpu l40s --isl 500 --osl 50 --rate 1 \
  --slo 'ttft.p50<5s' --split no
prints 'measured rows, none of them of this engine and GPU,'

# What was not tried, times of another KV cache than the one that is counted, and flags that say so.
big() {
  "$tandem" plan --model llama3.1-70b --gpu b200 --isl 2000 --osl 300 --rate 4 --split no "$@"
}
expect 0 big --slo 'ttft.p90<5s' --dry-run
prints '    tp1:'
! grep -q 'not tried' out || fail 'kernels are composed for each degree'
# A cache of fewer bits is counted so, exported so, and named where its times are of another.
cat >narrow.json <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 80,
 "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
 "intermediate_size": 28672, "vocab_size": 128256, "max_position_embeddings": 131072,
 "torch_dtype": "bfloat16",
 "quantization_config":
   {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "quant_method": "modelopt"}}
END
narrow() {
  "$tandem" plan --model ./narrow.json --isl 2000 --osl 300 --rate 4 --split no \
    --slo 'ttft.p90<5s' "$@"
}
expect 0 narrow --gpu b200 --tp 1
prints '--kv-cache-dtype fp8'
! grep -q 'assume a KV cache' out || fail 'B200 has times of this format'
for program in vllm llm-d dynamo; do
  expect 0 narrow --gpu b200 --tp 1 --export $program
  grep -A1 'kv-cache-dtype' out | grep -q fp8 || fail "$program does not have the KV cache"
done
expect 0 narrow --gpu b200 --tp 1 --export sglang
prints 'fp8_e4m3'
expect 0 narrow --gpu b200 --tp 1 --export tensorrt-llm
prints '  dtype: fp8'
sed 's/"quant_algo": "FP8", /"bits": 8, /; s/modelopt/gptq/' narrow.json >wide.json
wide() {
  "$tandem" plan --model ./wide.json --engine trtllm --gpu a100 --isl 2000 --osl 300 --rate 1 \
    --split no --slo 'ttft.p90<5s' --tp 8 "$@"
}
expect 0 wide
prints \
  "note        iteration times of 'serve' assume a KV cache in bf16, but memory was counted for fp8"
says 'attention of decodes with a KV cache in bf16 of trtllm-1.0.0 ('
expect 0 wide --format json
python3 - <<'END' || fail 'JSON does not say it'
import json
plan = json.load(open('out'))
assert plan['not_tried'] is None, plan['not_tried']
assert any('KV cache in bf16' in note for note in plan['notes']), plan['notes']
END
# KV memory that is full.
expect 0 "$tandem" plan --model llama3.1-8b --gpu h100 --isl 60000 --osl 100 --rate 1 --tp 1 \
  --split no --slo 'ttft.p90<60s'
prints 'KV memory is full at times'
prints "an instance of 'serve' has KV memory for 7 requests of 60,100 tokens"
# Prompts beyond the context are the reason, and are known at once.
awk 'BEGIN { print "TIMESTAMP,ContextTokens,GeneratedTokens"
  for (i = 0; i < 400; i++)
    printf "2024-03-01 00:00:%010.7f,%d,20\n", i * 0.1, i % 20 ? 500 : 9000 }' >long.csv
long() {
  "$tandem" plan --model llama3-8b --gpu h100 --split no --trace long.csv --slo "$1" --output l.db
}
for time in 1 2; do # from the database too
  expect 3 long 'tpot.p99<50ms'
  prints "none: 20 of 400 prompts exceed the context of 8,192: no count holds 'tpot.p99'"
done
expect 0 long 'tpot.p90<50ms'

# What is wrong, by the option.
rejects 3 ask --rate 20 --slo 'itl.p99<20ms'
says "unknown limit 'itl.p99'"
says "did you mean 'tbt.p99'?"
rejects 3 ask --rate 20 --slo 'ttft.p99=2s'
says "--slo: error: 'ttft.p99=2s' is not a limit"
rejects 3 ask --rate 20 --slo 'ttft.p99<2 parsecs'
says 'ttft.p99'
rejects 2 ask --rate 0 --slo "$limits"
rejects 3 ask --slo "$limits"
says '--rate: error: give the load'
rejects 3 ask --rate 20 --slo "$limits" --tp 3
says '--tp: error: there are no iteration times'
says 'there are iteration times for tp1, tp2'
rejects 3 "$tandem" plan --model llama3.1-9b --gpu h100 --isl 9 --osl 9 --rate 1 --slo "$limits"
says "did you mean 'llama3.1-8b'"
rejects 3 "$tandem" plan --model llama3.1-8b --gpu h1000 --isl 9 --osl 9 --rate 1 --slo "$limits"
says "--gpu: error: unknown GPU or machine type 'h1000'"
rejects 3 "$tandem" plan --model llama3.1-8b --gpu v100 --isl 9 --osl 9 --rate 1 --slo "$limits"
says 'choose one: v100-32gb-x4, v100-32gb-x8'
rejects 3 "$tandem" plan --model llama3.1-405b --gpu a10-x4 --isl 9 --osl 9 --rate 1 --slo "$limits"
says '--gpu: error:'
rejects 3 "$tandem" plan --model llama3-8b --gpu h100 --isl 8000 --osl 900 --rate 1 --slo "$limits"
says 'exceed the context'
expect 3 ask --rate 20 --slo 'tpot.p90<1ms' --tp 1 --split no
prints 'answer      none'
says "'tpot.p90', limit 0.001 s, is missed"

# Times of Tandem's own kernels, and a name that is none.
expect 0 ask --rate 20 --slo "$limits" --tp 1 --split no --perfmodel tandem
says 'iteration times are those of tandem-2026.11.26'
expect 3 ask --rate 20 --slo "$limits" --tp 1 --split no --perfmodel tandm
says "unknown performance model 'tandm'"
says "did you mean 'tandem'?"

# Nothing of a name is obeyed.
mkdir 'a b$(touch bad)'
cp "$source_dir/perfmodel/models/llama3.1-8b.yaml" "a b\$(touch bad)/m'\"x.yaml"
sed -i '/^checkpoint/d' "a b\$(touch bad)/m'\"x.yaml"
expect 0 "$tandem" plan --model "a b\$(touch bad)/m'\"x.yaml" --gpu h100 --isl 500 --osl 50 \
  --rate 1 --slo 'ttft.p50<5s' --split no --export vllm
{
  echo 'vllm() { for word in "$@"; do echo "<$word>"; done; }'
  cat out
} >script.sh
sh script.sh >words || fail 'a shell does not take it'
[ ! -e bad ] || fail 'a name was run'
grep -qF "<m'\"x>" words || fail 'the name is another'
# What tokens emit: energy times PUE and intensity, as a run of the answer has it. The design whose
# tokens emit the least is the answer. Of a table of regions one is meant; by GPU it is a column.
green() { ask --rate 20 --slo "$limits" --seeds 1 --tp 1,2 "$@"; }
expect 0 green --objective carbon --carbon 500 --pue 1.2 --study green.yaml
for text in 'with the least carbon' ' g of CO2 per million output tokens' ' gCO2/M '; do
  prints "$text"
done
expect 0 "$tandem" run green.yaml --format json
cp out run.json
expect 0 green --objective carbon --carbon 500 --pue 1.2 --format json
cp out plan.json
printf 'hour,region,g_per_kwh\n0,north,50\n0,south,500\n' >regions.csv
expect 0 compare --gpu h100,a100 --rate 20 --slo "$limits" --seeds 1 --tp 1 --split no \
  --objective carbon --carbon regions.csv --region north --format json
python3 - <<'END' || fail 'emissions are others'
import json
name = 'carbon_g_per_million_output_tokens'
run = json.load(open('run.json'))
figures = run['run'] if 'run' in run else run
plan = json.load(open('plan.json'))['answers']
designs = {design['design']: design['answers'][0] for design in plan['designs']}
grams = {name_: answer[name] for name_, answer in designs.items() if answer['found']}
best = grams[plan['best']]
assert best == min(grams.values()) and max(grams.values()) > 1.1 * best, grams
assert plan['objective'] == 'carbon'
def value(figure):
    found = figures[figure]
    return found['value'] if isinstance(found, dict) else found
assert abs(value(name) - best) < 1e-3 * best
assert abs(value('j_per_output_token') / 3.6 * 1.2 * 500 - best) < 1e-3 * best
rows = json.load(open('out'))
assert len(rows) == 2 and rows[0][name] <= rows[1][name], rows
assert rows[0][name] < best / 10
END
# A machine type that does not say what it draws beside its GPUs is named.
expect 0 "$tandem" plan --model llama3.1-8b --gpu h100,h200 --rate 2 --isl 200 --osl 20 --tp 1 \
  --split no --seeds 1 --slo 'ttft.p99<1s' --carbon 500
grep -q '^dgx-h200 .*; emissions of the GPUs alone$' out || fail 'emissions of less are not named'
grep '^dgx-h100 ' out | grep -q 'GPUs alone' && fail 'emissions of all are said to be of less'
rejects 2 green --objective carbon
rejects 2 green --carbon 500 --pue 0.5
expect 3 "$tandem" provision study.yaml --dry-run --set provision.objective=carbon
says "'objective: carbon' needs 'energy.carbon'"

finish
