#!/bin/sh
# README.md and the pages of the guide name only paths of the sources that there are (their links
# are tidy.sh's), and they answer the questions of questions.txt: "question|page#heading|words",
# where the page is README.md or one that it links to, and the words stand below the heading.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
readme=$source_dir/README.md
[ -f "$readme" ] || exit 77
: >out
: >err

# As links name them.
headings() {
  awk '/^```/ { block = !block }
    !block && /^#+ / { $1 = ""; print substr($0, 2) }' "$1" |
    tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'
}

# below PAGE HEADING : the text until the next heading, as one line; without HEADING all of it.
below() {
  number=$(headings "$1" | grep -nx -e "$2" | head -1 | cut -d: -f1)
  [ -n "$2" ] || number=all
  awk -v number="$number" '/^```/ { block = !block }
    !block && /^#+ / { n++ }
    number == "all" || n == number' "$1" | tr '\n' ' '
}

# Paths in `...`, outside of blocks, but for those in which NAME and the like stand for a name.
paths() {
  awk '/^```/ { block = !block; next }
    !block { text = text " " $0 }
    END { n = split(text, parts, "`"); for (i = 2; i <= n; i += 2) print parts[i] }' "$1" |
    tr ' ' '\n' | sed 's/[,;:]*$//' | grep -v -e NAME -e VERSION -e MODEL -e '[*…]' |
    grep -E '^(base|calib|experiments|kernels|perfmodel|plots|sim|tests|traces)/'
}

for page in "$readme" "$source_dir"/experiments/guide/*.md; do
  last=${page#"$source_dir/"}
  paths "$page" | sort -u | while read -r path; do
    [ -e "$source_dir/$path" ] || fail "there is no '$path'"
  done
done

n=0
while IFS='|' read -r last target words; do
  n=$((n + 1))
  page=${target%%'#'*}
  heading=${target#"$page"}
  [ "$page" = README.md ] || grep -qF -e "]($page" "$readme" ||
    fail "README.md does not link to $page"
  below "$source_dir/$page" "${heading#'#'}" | grep -qF -e "$words" ||
    fail "'$target' does not say '$words'"
done <"$source_dir/tests/cli/questions.txt"
[ "$n" -ge 10 ] || fail "only $n questions"
finish
