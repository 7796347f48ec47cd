#!/bin/sh
# What the program writes of itself: the pages of keys and of commands, the manual page, completion
# for bash.
#
#   tests/cli/guide.sh                  looks at them
#   tests/cli/guide.sh --update PAGE    writes a page anew: keys or commands
guide=experiments/guide
page_of() { # PAGE
  case $1 in
  keys) "$TANDEM_BINARY" list options --format markdown ;;
  commands) "$TANDEM_BINARY" help --all ;;
  esac
}
if [ "${1-}" = --update ]; then
  page_of "$2" >"$TANDEM_SOURCE_DIR/$guide/$2.md"
  exit
fi
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

for page in keys commands; do
  expect 0 page_of $page
  if [ -d "$source_dir/$guide" ]; then
    cmp -s out "$source_dir/$guide/$page.md" ||
      fail "$guide/$page.md is not what is printed: 'ninja -C build $page' writes it anew"
  fi
  # Each link of its contents leads to a heading.
  sed -n 's/.*](#\([^)]*\)).*/\1/p' out | sort -u >links
  sed -n 's/^##* //p' out | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' | sort -u >headings
  [ "$(comm -23 links headings)" = '' ] || fail 'a link leads nowhere'
done

# So do those of README and of the guide, to a file.
for page in "$source_dir"/README.md "$source_dir"/experiments/guide/*.md; do
  last=${page#"$source_dir/"}
  sed 's/](/\n](/g' "$page" | sed -n 's/^](\([^)#]*\).*/\1/p' | grep -v '^http' |
    while read -r target; do
      [ -e "$(dirname "$page")/$target" ] || fail "a link to '$target' leads nowhere"
    done
done

rejects 2 "$tandem" help --completion fish
says "'bash'"
expect 0 "$tandem" help --man
for word in 'tandem run CONFIG' 'tandem report measured' 'TANDEM_DATA' 'fB\-\-require\-slo'; do
  prints "$word"
done
if command -v groff >/dev/null; then
  cp out tandem.1
  expect 0 groff -ww -man -Tutf8 tandem.1
  [ ! -s err ] || fail 'groff complains of the manual page'
fi

command -v bash >/dev/null || exit 77
expect 0 "$tandem" help --completion bash
cp out completion
# completes LINE WORD... : LINE, with the cursor at its end, is completed by these words at least.
completes() {
  line="$tandem $1"
  shift
  # shellcheck disable=SC2016 # the words are bash's
  expect 0 bash --norc -c '. ./completion && COMP_LINE=$0 COMP_POINT=${#0} && _tandem &&
    printf "%s\n" "${COMPREPLY[@]}"' "$line"
  [ ! -s err ] || fail 'something on stderr'
  for word; do
    grep -qx -e "$word" out || fail "'$line' is not completed by '$word'"
  done
}
# alone WORD : by nothing else
alone() { [ "$(cat out)" = "$1" ] || fail "'$line' is completed by more than '$1'"; }
completes 'que' query
alone query
completes 'run a.yaml --' --set --strict --help
completes 'run --format ' table json vllm
completes 'run --format=cs' csv
alone csv
completes 'report measured --f' --format
completes 'help prov' provision
completes 'list rou' routers
completes 'list --model qwen3-3' qwen3-32b
completes 'run a.yaml --set work' workload.arrivals.rate=
completes 'run a.yaml --set policies.router=' jsq token_jsq llm_d
completes 'run a.yaml --set pools.front.machine=dgx-h2' dgx-h200
alone dgx-h200
completes 'run a.yaml --set model=mix' mixtral-8x7b
completes 'run a.yaml --set pools.a.role=pre' prefill
alone prefill

finish
