#!/bin/sh
# Every line of README.md's ```sh blocks that starts with build/tandem runs, from the root of the
# sources, with the program under test. What a line leaves behind it leaves in a folder of its own:
# the root is mirrored by links. Lines about data beside the sources run where that data is.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
[ -f "$source_dir/README.md" ] || exit 77

mkdir -p root/build
[ -d "$source_dir/../shared" ] && ln -s "$(cd "$source_dir/../shared" && pwd)" shared
for path in "$source_dir"/*; do
  [ "${path##*/}" = build ] || ln -s "$path" root
done
ln -s "$tandem" root/build/tandem
cd root || exit 2

awk '/^```/ { inside = $0 == "```sh"; next } inside && /^build\/tandem/' README.md >../commands
[ -s ../commands ] || fail 'README.md has no command'
while read -r line; do
  case $line in
  *../shared/*) [ -d ../shared ] || continue ;;
  esac
  expect 0 sh -c "$line"
done <../commands

finish
