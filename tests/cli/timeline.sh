#!/bin/sh
# Timelines of stored runs and of configurations: the same file by both ways, refused where the run
# cannot be had again, and nothing that is there is lost.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

config >c.yaml
sed -e '/^  all:/d' -e 's/jsq/splitwise/' -e 's/^pools:/&\
  front: {role: prefill, machine: dgx-h100}\
  back: {role: decode, machine: dgx-h100}/' c.yaml >split.yaml
expect 0 "$tandem" run split.yaml --output r.db
expect 0 "$tandem" run c.yaml --output r.db

# --- A stored run is the configuration that made it.

expect 0 "$tandem" timeline r.db 1 -o stored.json
says 'r.db: run 1: 10.'
says '40 arrows'
says 'open it at ui.perfetto.dev'
expect 0 "$tandem" timeline split.yaml -o direct.json
grep -v '"otherData"' stored.json >stored
grep -v '"otherData"' direct.json >direct
cmp -s stored direct || fail 'the run and its configuration differ'
grep -q '"otherData":{"run": "r.db: run 1", "digest": "' stored.json || fail 'no word of the run'
expect 0 "$tandem" timeline split.yaml --set workload.requests=10 -o ten.json
says '10 arrows'
expect 0 "$tandem" timeline split.yaml --from 2s --to 4s --machines back --sample 100ms -o part.json
[ "$(wc -c <part.json)" -lt "$(($(wc -c <direct.json) / 3))" ] || fail 'a part is no smaller'
expect 0 "$tandem" timeline split.yaml --set workload.requests=2000 --size 100kB -o small.json
says 'note: of '

# Machines that are down, start and are off.
faults='faults: {schedule: [{at: 2 s, for: 3 s, machine: 0}]}'
sed "s/^  all: {/&$faults, start_up: {boot: 1 s}, /" c.yaml >away.yaml
expect 0 "$tandem" timeline away.yaml -o away.json
grep -q '"down"' away.json && grep -q '"start"' away.json || fail 'no word of the failure'

# To standard output, and as JSON that another program reads.
"$tandem" timeline r.db 1 -o - 2>err | cat >piped.json
cmp -s stored.json piped.json || fail 'standard output has something else'
if command -v python3 >/dev/null; then
  expect 0 python3 -c 'import json, sys
for path in sys.argv[1:]:
    events = json.load(open(path))["traceEvents"]
    assert any(e["ph"] == "X" for e in events)' stored.json ten.json part.json small.json
fi

# --- What cannot be drawn.

rejects 2 "$tandem" timeline r.db 1
says "'-o FILE' is missing"
rejects 2 "$tandem" timeline c.yaml 1 -o x.json
says 'RUN needs a database'
rejects 2 "$tandem" timeline r.db 1 --set pools.all.count=3 -o x.json
says 'a stored run cannot be changed'
rejects 2 "$tandem" timeline r.db 1 --from 3s --to 2s -o x.json
says "'--to' must be later than '--from'"
rejects 3 "$tandem" timeline r.db -o x.json
says "'r.db' has 2 runs: name one"
rejects 3 "$tandem" timeline r.db 3 -o x.json
says "'r.db' has no run 3"
rejects 3 "$tandem" timeline c.yaml --machines al -o x.json
says "'al' is neither a pool"
rejects 4 "$tandem" timeline c.yaml -o nowhere/x.json
says "cannot write 'nowhere/x.json'"
[ ! -e x.json ] || fail 'something was written'

# What is read is not written over, and a file that was there stays when a run is refused.
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,374,44\n' >trace.csv
sed 's/^  lengths:.*/  trace: trace.csv/; /arrivals:/d; /requests:/d' c.yaml >traced.yaml
expect 0 "$tandem" run traced.yaml --output t.db
for input in t.db traced.yaml trace.csv; do
  cp $input before
  from=t.db
  [ $input = traced.yaml ] && from=traced.yaml
  rejects 3 "$tandem" timeline $from -o $input
  cmp -s before $input || fail "$input was lost"
done
expect 0 "$tandem" timeline t.db -o kept.json
cp kept.json before
echo '2023-11-16 18:15:47.0,374,44' >>trace.csv
rejects 3 "$tandem" timeline t.db -o kept.json
says 'a trace or data file'
rm trace.csv
rejects 4 "$tandem" timeline t.db -o kept.json
says 'trace.csv'
cmp -s before kept.json || fail 'a refused run took a file along'

finish
