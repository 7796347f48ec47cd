#!/bin/sh
# tests/gpu/run.sh on the fake GPU: a call that ends early is gone on with, a stage that fails is
# named and run again, and nothing that has passed is.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
unset TANDEM_FAKE SECONDS_LEFT SCALE
stages=$source_dir/tests/gpu/run.sh
build=$(dirname "$tandem")
for program in bash xz strip; do
  command -v "$program" >/dev/null || { echo "no $program"; exit 77; }
done

# dry WORDS SECONDS [STAGE...] : with these faults, in so many seconds.
dry() {
  (TANDEM_FAKE=$1 SECONDS_LEFT=$2 && export TANDEM_FAKE SECONDS_LEFT && shift 2 &&
    cd "$source_dir" && bash "$stages" dry "$work/archive" "$work/files" "$@")
}
# verdicts WORD N : so many stages in the table begin with it.
verdicts() {
  n=$(grep -c "^$1 " files/summary.txt)
  [ "$n" -eq "$2" ] || fail "$n stages are '$1', not $2"
}
count() { bash "$stages" stages | awk '$2 != "gpu"' | wc -l; }

expect 0 bash "$stages" pack "$build" archive
[ "$(wc -c <archive)" -lt 20971520 ] || fail 'the archive has 20 MiB or more'
all=$(count)

expect 75 dry '' 0
prints "0 stages failed, $all left"
expect 3 dry wrong=linear 600 first-points doctor 8b-1
verdicts FAILED 3
grep -q '^  FAILED 1 .* doctor  ' files/summary.txt || fail 'the step that failed is not named'
expect 0 dry '' 600 doctor
verdicts ok 1
rm -f files/*.csv
expect 0 dry '' 600
verdicts ok "$all"
verdicts FAILED 0
for file in llama3-8b.csv llama3.1-70b-fp8-tp4.csv first-fp8.csv doctor.txt validate.txt; do
  [ -s "files/$file" ] || fail "no $file"
done
expect 0 dry '' 600
grep -q '^== stage' out && fail 'a stage that has passed is run again'
expect 2 bash "$stages" pack
says 'tests/gpu/run.sh run ARCHIVE OUT'
finish
