#!/bin/sh
# Under the limits of a process a command works, or ends with exit code 4 and says what it lacks.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
example=$source_dir/experiments/examples/sweep.yaml

# limited OPTIONS COMMAND... : with these of ulimit.
limited() (
  # shellcheck disable=SC2086 # options are several words
  ulimit $1 || exit 2
  shift
  exec "$@"
)
# lacks TEXT : one error, with a way out.
lacks() {
  says "error: $1"
  says '  hint: '
  [ "$(grep -c 'error: ' err)" -eq 1 ] || fail 'more than one error'
}

# --- the stack: a lower limit that may be raised is raised

rejects 4 limited '-s 64' "$tandem" list routers
lacks 'the stack is limited to 64 KiB, and 2048 KiB are needed'
expect 0 limited '-S -s 64' "$tandem" list routers

case $(ldd "$tandem") in
*libasan* | *libtsan*) finish ;; # these take address space without end
esac
set -- "$tandem" sweep "$example" --set workload.requests=50 --jobs 4
expect 0 limited '-S -s 64' "$@" --output small.db

# --- memory: whatever asks for it and is given none, of the run, of SQLite, of libyaml, of threads

full=0 works=0
for kib in 14000 16000 18000 20000 22000 24000 26000 28000 32000 36000 40000 200000; do
  rm -f memory.db
  last="sweep in $kib KiB" code=0
  limited "-v $kib" "$@" --output memory.db >out 2>err || code=$?
  case $code in
  0) works=$((works + 1)) ;;
  127) ;; # not even the libraries
  4)
    full=$((full + 1))
    lacks ''
    ;;
  *) fail "exit code $code" ;;
  esac
done
last='a sweep'
[ "$full" -gt 3 ] || fail "short of memory only $full times"
[ "$works" -gt 0 ] || fail 'never has enough'

# A run that has too little for its requests says how many it got to.
rejects 4 limited '-v 40000' "$tandem" run "$source_dir/experiments/examples/quickstart.yaml" \
  --set workload.arrivals.rate='100000 /s'
lacks 'the run needs more memory than its limit of '

finish
