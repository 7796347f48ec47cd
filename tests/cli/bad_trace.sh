#!/bin/sh
# A trace with a bad row ends the run with the row's place and exit code 3, whether it shows on
# opening or in the middle of the run, and nothing is stored.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

config | sed '/lengths/,/requests/d; s/^workload:/workload: {trace: trace.csv}/' >trace.yaml

# trace ROW... : an Azure trace of these rows in trace.csv.
trace() {
  echo 'TIMESTAMP,ContextTokens,GeneratedTokens' >trace.csv
  for row; do echo "2023-11-16 18:15:$row"; done >>trace.csv
}

# refused TEXT... : the run of trace.csv is, and stores nothing.
refused() {
  rm -f runs.db
  rejects 3 "$tandem" run trace.yaml --output runs.db --requests
  for text; do says "$text"; done
  expect 0 "$tandem" query runs.db --format csv \
    --sql 'SELECT (SELECT count(*) FROM run) + (SELECT count(*) FROM request) AS rows'
  prints 0
}

trace 46.6805900,374,44 50.9951690,396,109
expect 0 "$tandem" run trace.yaml
prints '2 completed'

trace 46.6805900,374,44 50.9951690,abc,109
refused 'trace.csv:3:29: error:'
trace 46.6805900,374,44 50.9951690,396
refused 'trace.csv:3:'
trace 46.6805900,374,0
refused 'trace.csv:2:33: error:' "'GeneratedTokens' must be" 'such rows are left out, and counted' \
  'columns: {arrival: TIMESTAMP, prompt: ContextTokens, output: GeneratedTokens}'
trace 46.6805900,0,44
refused 'trace.csv:2:29: error:' "'ContextTokens' must be"
trace 46.6805900,-5,44
refused 'trace.csv:2:'
trace 50.6805900,374,44 46.9951690,396,109
refused 'trace.csv:3:'
cat >trace.csv <<'END'
request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size
0,2,0,-1.5,1,394,90
END
refused 'trace.csv:2:'
echo 'neither,this,nor,that' >trace.csv
rejects 3 "$tandem" run trace.yaml
says 'trace.csv'
: >trace.csv
rejects 3 "$tandem" run trace.yaml
says 'trace.csv'

# A prompt longer than any there is; and one that no machine's KV memory holds, which is counted,
# but that nothing else is left.
trace 46.6805900,374,44 50.9951690,100000000,109
refused 'trace.csv:3:29: error:' "'ContextTokens' must be a whole number from 1 to 10000000"
trace 46.6805900,374,44
rm -f runs.db
rejects 3 "$tandem" run trace.yaml --set pools.all.num_gpu_blocks_override=3
says 'no request can be served: 1 that need more KV memory than 48 tokens'

# A compressed one that ends too early.
awk 'BEGIN { print "TIMESTAMP,ContextTokens,GeneratedTokens"
  for (i = 0; i < 5000; i++)
    printf "2023-11-16 18:%02d:%02d.%07d,%d,%d\n", i / 60 % 60, i % 60, i * 7919 % 9999999, i + 1, 5
}' | head -3000 | gzip >whole.gz
head -c "$(($(wc -c <whole.gz) / 2))" whole.gz >trace.csv.gz
rejects 3 "$tandem" run trace.yaml --set workload.trace=trace.csv.gz
says 'trace.csv.gz'
cp whole.gz trace.csv.gz
expect 0 "$tandem" run trace.yaml --set workload.trace=trace.csv.gz --set workload.requests=20

# Hashes that are not those of the prompt's blocks, and a scope that is not one file's.
hashed() { sed -i 's/trace: [^ }]*/trace: trace.jsonl/' trace.yaml && echo "$1" >trace.jsonl; }
hashed '{"timestamp": 1, "input_length": 1030, "output_length": 9, "hash_ids": [1, 2]}'
rejects 3 "$tandem" run trace.yaml
says 'trace.jsonl:1:72: error:'
says 'must name 3 blocks of 512 tokens for a prompt of 1030, not 2'
hashed '{"chat_id": 1, "timestamp": 1, "input_length": 40, "output_length": 9, "hash_ids": [1, 2]}'
rejects 3 "$tandem" trace trace.jsonl
says 'must name 3 blocks of 16 tokens for a prompt of 40, not 2'
hashed '{"hash_id_scope": "global", "requests": [{"t": 0, "in": 64, "out": 1, "hash_ids": [1]}]}'
rejects 3 "$tandem" run trace.yaml
says 'trace.jsonl:1:19: error:'
says '"local" is what is possible'
hashed '{"timestamp": 1, "input_length": 40, "output_length": 0}'
rejects 3 "$tandem" run trace.yaml
says "trace.jsonl:1:55: error: 'output_length' must be"
says 'hint: a request that failed has none'
hashed '{"session_id": "a", "arrival_time_ns": 1, "sub_requests": [{"input_toks": 1}]}'
rejects 3 "$tandem" run trace.yaml
says "trace.jsonl:1:59: error: 'sub_requests' are calls that wait"

# Columns by number are positions, and a first row that is none is no header.
printf '0.0,10,2\n1.0,20,30\n2.0,30,40\n' >numbers.csv
expect 0 "$tandem" trace numbers.csv --columns arrival=1,prompt=2,output=3 --format csv
prints 'rows,value,3'
prints 'prompt_tokens,mean,20'
expect 0 "$tandem" run trace.yaml \
  --set 'workload={trace: numbers.csv, columns: {arrival: 1, prompt: 2, output: 3}}'
prints '3 completed'
rejects 3 "$tandem" trace numbers.csv --columns arrival=1,prompt=2,output=4
says 'numbers.csv:1:1: error: there is no column 4: the first line has 3'
rejects 3 "$tandem" trace numbers.csv --columns prompt=2,output=3
says 'no column is known to hold the arrivals'
says 'closed_loop: {clients: …}, need none'
for columns in '' arrival arrival= t=1 arrival=1,arrival=2; do
  rejects 2 "$tandem" trace numbers.csv --columns "$columns"
done

# What is shared is said, and that nothing is.
expect 0 "$tandem" trace "$source_dir/traces/sample/mooncake_sample.jsonl" --format csv
prints 'prefix_hit_share,value,0.65'
expect 0 "$tandem" trace "$source_dir/traces/sample/azure_sample.csv"
prints 'prefix_hit_share  -'
says 'the prefix cache finds nothing'
sed 's/^policies:/&\n  batcher: {name: vllm}/' trace.yaml >cached.yaml
trace 46.6805900,374,44 50.9951690,396,109
expect 0 "$tandem" run cached.yaml --set workload.trace=trace.csv
says 'trace.csv: the prefix cache finds nothing'
expect 0 "$tandem" run cached.yaml \
  --set workload.trace="$source_dir/traces/sample/mooncake_sample.jsonl"
! grep -q 'the prefix cache finds nothing' err || fail 'a trace that shares is said not to'

rejects 4 "$tandem" run trace.yaml --set workload.trace=absent.csv
says "absent.csv"

finish
