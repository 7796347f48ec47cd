#!/bin/sh
# A request of these rows of tests/bench/cases takes as many instructions as tests/bench/counts
# says, to 3%. The counts of callgrind depend on the compiler and its options, not on the machine or
# on what else it does, so that they are compared in the build that they are of, and skipped in
# others. With --update, as 'ninja -C build counts' calls it, the counts of this build take their
# place.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
. "$source_dir/tests/bench/counting.sh"
counts=$source_dir/tests/bench/counts
build=${TANDEM_BUILD:?}
unset MALLOC_PERTURB_ # of meson: it has every allocation filled
command -v valgrind >/dev/null || exit 77
if [ "${1-}" != --update ] && ! grep -qxF "# $build" "$counts"; then exit 77; fi

is_near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0.97 * b && a < 1.03 * b) }'; }

# name | instructions of a request | requests that they are counted over
grep -v '^#' "$counts" | while IFS='|' read -r name before requests; do
  row=$(grep "^$name|" "$work/cases") || fail "tests/bench/cases has no '$name'"
  config=$(echo "$row" | cut -d'|' -f2)
  settings=$(echo "$row" | cut -d'|' -f4)
  last=$name
  : >out
  : >err
  now=$(instructions "$config" "$requests" "$settings")
  echo "$name|$now|$requests" >>now
  [ "${1-}" = --update ] || is_near "$now" "$before" ||
    fail "$now instructions a request, not $before to 3%; 'ninja -C BUILD counts' pins them anew"
done
if [ "${1-}" = --update ]; then
  {
    grep '^#' "$counts" | sed '$d'
    echo "# $build"
    cat now
  } >new
  cp new "$counts"
fi
finish
