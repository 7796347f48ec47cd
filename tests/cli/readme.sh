#!/bin/sh
# The first screen of README.md has the command that answers a question and the one that runs the
# tests, which .ci/run has, too. Every line of README.md's and the guide's ```sh blocks that starts
# with build/tandem, or with ./setup and then that, runs from the root of the sources, with the
# program under test, and prints each line of a ```text block behind it, but for runs of spaces.
# What a page leaves behind it leaves in a folder of its own: the root is mirrored by links. Lines
# about data beside the sources run where that data is.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
[ -f "$source_dir/README.md" ] || exit 77

[ -d "$source_dir/../shared" ] && ln -s "$(cd "$source_dir/../shared" && pwd)" shared

# mirror NAME : a root of the sources in the folder NAME.
mirror() {
  mkdir -p "$1/build"
  for path in "$source_dir"/*; do
    [ "${path##*/}" = build ] || ln -s "$path" "$1"
  done
  ln -s "$tandem" "$1/build/tandem"
}

# "run COMMAND" or "shows TEXT" for each line of a page that is tested.
tested() {
  awk '/^```/ { block = block == "" ? $0 : ""; next }
    block == "```sh" { sub(/^\.\/setup && /, "") }
    block == "```sh" && /^build\/tandem/ { print "run", $0 }
    block == "```text" && NF && $1 != "..." { print "shows", $0 }' "$1"
}

squeezed() { tr -s ' ' | sed 's/^ //; s/ $//'; }

head -40 "$source_dir/README.md" >screen
test_command='./setup && meson test -C build'
grep -q '^\./setup && build/tandem plan ' screen || fail 'README.md does not begin with a question'
grep -qxF -e "$test_command" screen || fail 'README.md does not begin with how to test'
if [ -f "$source_dir/.ci/run" ]; then
  grep -qxF -e "  $test_command" "$source_dir/.ci/run" ||
    fail '.ci/run tests otherwise than README.md'
fi

n=0
for page in "$source_dir"/README.md "$source_dir"/experiments/guide/*.md; do
  n=$((n + 1))
  mirror "$n"
  tested "$page" | squeezed >"$n.lines"
  cd "$n" || exit 2
  while read -r what line; do
    case $line in
    *../shared/*) [ -d ../shared ] || continue ;;
    esac
    if [ "$what" = run ]; then
      expect 0 sh -c "$line"
      cat out err | squeezed >shown
    else
      grep -qF -e "$line" shown || fail "${page#"$source_dir/"}: it does not print '$line'"
    fi
  done <"../$n.lines"
  cd .. || exit 2
done
grep -q ^run 1.lines || fail 'README.md has no command'
for folder in [0-9]*/; do
  [ ! -e "$folder/failed" ] || : >failed
done
finish
