# For the tests in tests/cli, which read this first: a folder of their own to work in, and how to
# say what a command must do. Needs TANDEM_BINARY and TANDEM_SOURCE_DIR.
set -u
tandem=${TANDEM_BINARY:?}
source_dir=${TANDEM_SOURCE_DIR:?}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
last=

# fail MESSAGE : also shows what the last command printed. Works in subshells too.
fail() {
  {
    echo "FAILED: $last: $*"
    sed 's/^/  stdout: /' out | head -20
    sed 's/^/  stderr: /' err | head -20
  } >&2
  : >failed
}

# The end of a test.
finish() {
  [ ! -e failed ]
  exit
}

# expect CODE COMMAND... : runs it, keeps what it prints in the files out and err.
expect() {
  want=$1
  shift
  last=$*
  code=0
  "$@" >out 2>err || code=$?
  [ "$code" -eq "$want" ] || fail "exit code $code, not $want"
}

# rejects CODE COMMAND... : expect, and nothing on stdout.
rejects() {
  expect "$@"
  [ ! -s out ] || fail 'something on stdout'
}

# without_backends [NAME...] : the path of a copy of the program that has only these backends.
without_backends() {
  mkdir -p "$work/alone/bin" && cp "$tandem" "$work/alone/bin/tandem" || exit 2
  rm -f "$work/alone/bin/"tandem-calib-*
  for backend in "$@"; do
    ln -s "$(dirname "$tandem")/calib/tandem-calib-$backend" "$work/alone/bin/" || exit 2
  done
  echo "$work/alone/bin/tandem"
}

# says TEXT, prints TEXT : stderr or stdout of the last command has this text.
says() { grep -qF -- "$1" err || fail "stderr lacks '$1'"; }
prints() { grep -qF -- "$1" out || fail "stdout lacks '$1'"; }

# figure SCOPE NAME STATISTIC : of the last command's CSV.
figure() {
  awk -F, -v a="$1" -v b="$2" -v c="$3" '$1 == a && $2 == b && $3 == c { print $4 }' out
}

# between LOW SCOPE NAME STATISTIC HIGH : that figure is.
between() {
  value=$(figure "$2" "$3" "$4")
  awk -v v="$value" -v low="$1" -v high="$5" 'BEGIN { exit !(v != "" && v >= low && v <= high) }' ||
    fail "$2 $3 $4 is '$value', not $1 to $5"
}

# A configuration that is in order, on stdout; its lines are numbered by the tests.
config() {
  cat <<'END'
model: llama2-70b
workload:
  lengths: {prompt: {constant: 500}, output: {constant: 20}}
  arrivals: {process: fixed, rate: 4 /s}
  requests: 40
pools:
  all: {role: mixed, machine: dgx-h100, count: 2}
policies:
  router: jsq
slo: splitwise
END
}

# rows DB : all that a database of results says, but for how long it took to compute and the order
# in which runs ended: equal databases give equal text.
rows() {
  of_run() { # TABLE COLUMNS [WHERE]
    "$tandem" query "$db" --format csv --sql "SELECT '$1', run.config_digest, $2 FROM $1 AS t
      JOIN run ON run.id = t.run_id ${3-}" || echo "no $1"
  }
  of_sweep() { # TABLE COLUMNS
    "$tandem" query "$db" --format csv --sql "SELECT '$1', sweep.digest, $2 FROM $1 AS t
      JOIN sweep ON sweep.id = t.sweep_id" || echo "no $1"
  }
  db=$1
  {
    "$tandem" query "$db" --format csv --sql "SELECT name, config, config_digest, digest, version,
      seed, tie_seed, status, reason, events, iterations FROM run" || echo 'no run'
    of_run param 'key, value'
    of_run timeline '"group", replica, at_s, activity, gpu_blocks, store_blocks'
    of_run pool 'pool, t.name, role, machine, count, kv_blocks, utilization, energy_kwh'
    of_run machine 'machine, prefill_s, decode_s, prefill_tokens, decode_tokens'
    of_run metric 'scope, t.name, statistic, value, unit' \
      "WHERE t.name NOT IN ('cpu_s', 'wall_s')"
    of_run histogram 't.name, low, high, count'
    of_run slo 't.name, "limit", met'
    of_run point 'point, (SELECT digest FROM sweep WHERE sweep.id = t.sweep_id)'
    of_sweep axis 'axis, t.name'
    of_sweep point_value 'point, axis, value'
  } | LC_ALL=C sort
}

# same DB DB : what they say is the same.
same() {
  rows "$1" >rows1 2>&1
  rows "$2" >rows2 2>&1
  [ "$(wc -l <rows1)" -gt 100 ] || fail "$1 says hardly anything"
  cmp -s rows1 rows2 || fail "$1 and $2 differ: $(diff rows1 rows2 | sed -n 2p)"
}

# digest_of ARGUMENT... : the digest of a run.
digest_of() {
  expect 0 "$tandem" run "$@" --format json
  sed -n 's/^  "digest": "\([0-9a-f]*\)",$/\1/p' out
}

# differs A B TEXT : two digests do.
differs() { [ -n "$1" ] && [ "$1" != "$2" ] || fail "$3 changes nothing: '$1'"; }
