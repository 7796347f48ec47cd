# The rows of tests/bench/cases, and what a request of one costs in instructions. For scripts that
# have set $tandem, $source_dir and $work, a folder for files of theirs.

mkdir "$work/x10"
for table in "$source_dir"/traces/lengths/*.csv; do
  awk -F, -v OFS=, '/^[0-9]/ { $3 *= 10 } { print }' "$table" >"$work/x10/$(basename "$table")"
done
sed '/^#/d; /^$/d; s/ *| */|/g' "$source_dir/tests/bench/cases" >"$work/cases"

# simulate CONFIG REQUESTS SETTINGS [PROGRAM BEFORE TANDEM...]: the run's figures as JSON
simulate() {
  config=$1 requests=$2 settings=$3
  shift 3
  IFS=';'
  set -- "$@" "$tandem" run "$source_dir/$config" --format json
  for setting in $(echo "$settings" | sed "s|x10/|$work/x10/|"); do
    set -- "$@" --set "$setting"
  done
  unset IFS
  "$@" --set "workload.requests=$requests"
}

# instructions CONFIG REQUESTS SETTINGS: of a request, by callgrind: what a run with twice as many
# takes more
instructions() {
  for n in "$2" $(($2 * 2)); do
    simulate "$1" "$n" "$3" valgrind --tool=callgrind --callgrind-out-file=/dev/null 2>&1 \
      >/dev/null | awk -v n="$n" '/Collected/ { print n, $NF }'
  done | awk 'NR == 1 { n = $1; i = $2 } END { printf "%.0f", ($2 - i) / ($1 - n) }'
}
