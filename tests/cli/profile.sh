#!/bin/sh
# Profiles from the command line: import, check and drop, what they print and how they exit. What
# importers and rules find is pinned by the unit tests.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

# run STATUS COMMAND...: keeps what it prints in `out` and `err`.
run() {
  wanted=$1
  shift
  "$TANDEM_BINARY" "$@" >out 2>err
  status=$?
  [ "$status" -eq "$wanted" ] || fail "exit $status, not $wanted: tandem $*"
}

fail() {
  echo "FAIL: $1" >&2
  sed 's/^/  | /' out err >&2
  failures=$((failures + 1))
}

# has FILE TEXT: some line of the file holds the text.
has() {
  grep -qF -- "$2" "$1" || fail "no '$2' in $1"
}

# A profile of two groups whose second is a copy at 1.3 times, with one point out of memory.
make_source() {
  printf 'model,hardware,prompt_size,batch_size,token_size,peak_power,average_power,'
  echo 'prompt_time,token_time,e2e_time,tensor_parallel'
  awk 'BEGIN {
    for (capped = 0; capped < 2; capped++)
      for (i = 0; i < 6; i++) {
        tokens = 128 * 2 ^ i
        prefill = (i == 5 ? 20 : 30 + tokens / 10) * (capped ? 1.3 : 1)
        printf "llama2-70b,%s,%d,1,128,0,0,%.6f,%.6f,9999,8\n",
          capped ? "h100-80gb-pcap" : "h100-80gb", tokens, prefill, 30 + i / 10
      }
  }'
}
make_source >source.csv

run 0 import splitwise-sim source.csv -o profile.csv
has out 'llama2-70b           h100-80gb-pcap     tensor_parallel_size 8: 12 rows'
has profile.csv '# format: splitwise-sim'
[ "$(grep -vc '^#' profile.csv)" -eq 25 ] || fail 'the profile has not a header and 24 rows'

run 3 check profile.csv
has out 'out-of-memory: iteration of llama2-70b on h100-80gb, tensor_parallel_size 8: more work'
has out 'constant-multiple: iteration of llama2-70b on h100-80gb-pcap, tensor_parallel_size 8'
has out '  6 rows, lines 21-31 by 2'
has err '24 rows, 6 findings'
has err "'tandem check profile.csv --drop CLEANED' omits these rows, for 'tandem fit CLEANED'"
run 3 check profile.csv --format csv
[ "$(head -n 1 out)" = 'rule,model,gpu,tensor_parallel_size,op,rows,lines,reason' ] ||
  fail 'the header of the CSV has changed'
run 3 check profile.csv --format json
has out '"rule": "constant-multiple"'

run 0 check profile.csv --drop cleaned.csv
has err "'tandem fit cleaned.csv'"
has cleaned.csv '# cleaned: 13 of 24 rows of profile.csv left out'
run 0 check cleaned.csv
[ ! -s out ] || fail 'a cleaned profile has findings'

run 2 import splitwise-sim source.csv
has err "'-o PROFILE' is missing"
run 2 import llmservingsim . -o profile.csv
has err "'llmservingsim' needs '--model'"
run 2 import splitwise-sm source.csv -o profile.csv
has err "did you mean 'splitwise-sim'?"
run 2 import splitwise-sim source.csv source.csv -o profile.csv
has err 'source.csv'
run 4 import llmservingsim none -o other.csv --model llama2-70b
has err 'cannot open the folder'
[ ! -e other.csv ] || fail 'a failed import left a file'
run 4 import splitwise-sim none.csv -o other.csv
run 4 import splitwise-sim source.csv -o none/other.csv
run 3 check source.csv
has err "source.csv:1:1: error: missing column 'gpu'"
run 4 check none.csv

[ "$failures" -eq 0 ]
