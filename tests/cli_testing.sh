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

# says TEXT, prints TEXT : stderr or stdout of the last command has this text.
says() { grep -qF -- "$1" err || fail "stderr lacks '$1'"; }
prints() { grep -qF -- "$1" out || fail "stdout lacks '$1'"; }

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
