#!/bin/sh
# A run that begins with what an earlier one left in its prefix caches.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# part FROM TO : rows of a trace in which five documents are asked about in turn.
part() {
  i=$1
  while [ "$i" -lt "$2" ]; do
    printf '{"timestamp": %d, "input_length": 700, "output_length": 3, "hash_ids": [%d, %d]}\n' \
      $((i * 2000)) $((i * i % 5)) $((1000 + i))
    i=$((i + 1))
  done
}
part 0 20 >first.jsonl
part 20 40 >second.jsonl
cat first.jsonl second.jsonl >both.jsonl
config | sed 's/  lengths:.*/  trace: both.jsonl/; /arrivals/d; /requests/d; /policies/,/router/d
              s/count: 2/count: 1, engine: vllm-0.33/' >chat.yaml

# found TRACE OPTION... : prompt tokens found in caches.
found() {
  trace=$1
  shift
  expect 0 "$tandem" run chat.yaml --set "workload.trace=$trace" --format csv "$@"
  sed -n 's/^run,cached_tokens,value,\([0-9]*\).*/\1/p' out
}
both=$(found both.jsonl)
first=$(found first.jsonl --save-cache left.txt)
cold=$(found second.jsonl)
warm=$(found second.jsonl --set warm=left.txt)
[ "$cold" -lt "$warm" ] || fail "cold $cold, warm $warm"
[ $((first + warm)) -eq "$both" ] || fail "$first and $warm are not $both"
gzip -k left.txt
[ "$(found second.jsonl --set warm=left.txt.gz)" -eq "$warm" ] || fail 'zipped'

# Who it is of decides the run, and where it cannot be.
expect 0 "$tandem" run chat.yaml --set warm=left.txt --output runs.db
sed '$d; s/machine 0 16 [0-9]*/machine 0 16 0/; 3,$d' left.txt >none.txt
mv none.txt left.txt
expect 0 "$tandem" run chat.yaml --set warm=left.txt --output runs.db
expect 0 "$tandem" query runs.db --format csv --sql 'SELECT COUNT(DISTINCT config_digest) FROM run'
prints 2
sed 's/count: 1, engine: vllm-0.33/count: 1/; $a warm: left.txt' chat.yaml >bad.yaml
rejects 3 "$tandem" run bad.yaml
says "bad.yaml:7:7: error: 'warm' needs a prefix cache, and no pool has one"
says 'hint: these batchers support one'
sed '$d' bad.yaml >good.yaml
rejects 3 "$tandem" run good.yaml --save-cache new.txt
says "good.yaml: error: '--save-cache' needs a prefix cache, and no pool has one"
rejects 3 "$tandem" run chat.yaml --set warm=left.txt --set pools.all.block_size=32
says 'left.txt:2:1: error: the saved caches have blocks of 16 tokens, those of pool'
says "hint: set 'block_size' of the pool to 16"
rejects 3 "$tandem" run chat.yaml --set warm=left.txt --save-cache left.txt
says "'--save-cache' would overwrite"
rejects 3 "$tandem" run chat.yaml --set 'warm={a: 1}'

# In one run over both, what the second half finds.
[ "$(found both.jsonl --set warm.requests=20)" -eq "$warm" ] || fail 'a warm-up'
[ "$(found second.jsonl --set 'warm={cache: left.txt, requests: 0}')" -gt 0 ] || fail 'a map'
rejects 3 "$tandem" run chat.yaml --set warm.requests=40
says 'error: all requests belong to the warm-up, so none is counted'
rejects 4 "$tandem" run chat.yaml --set warm=absent.txt
finish
