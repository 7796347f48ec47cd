#!/bin/sh
# README.md and the pages of the guide name only what there is: files, headings, paths of the
# sources. And they answer the questions of questions.txt: "question|page#heading|words", where the
# page is README.md or one that it links to, and the words stand below the heading.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
readme=$source_dir/README.md
[ -f "$readme" ] || exit 77
: >out
: >err

# As links name them, also below a line that is a heading.
headings() {
  awk '/^```/ { block = !block }
    !block && /^#+ / { $1 = ""; print substr($0, 2) }' "$1" |
    tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'
}

# has_heading PAGE HEADING : or none is asked for.
has_heading() { [ -z "$2" ] || headings "$1" | grep -qx -e "$2"; }

# below PAGE HEADING : the text until the next heading, as one line; without HEADING all of it.
below() {
  number=$(headings "$1" | grep -nx -e "$2" | head -1 | cut -d: -f1)
  awk -v number="${number:-0}" '/^```/ { block = !block }
    !block && /^#+ / { n++ }
    number == 0 || n == number' "$1" | tr '\n' ' '
}

# Where the links of a page lead.
links() { sed 's/](/\n](/g' "$1" | sed -n 's/^](\([^)]*\)).*/\1/p' | grep -v '^http'; }

# Paths in `...`, outside of blocks, but for those in which NAME and the like stand for a name.
paths() {
  awk '/^```/ { block = !block; next }
    !block { n = split($0, parts, "`"); for (i = 2; i <= n; i += 2) print parts[i] }' "$1" |
    tr ' ' '\n' | sed 's/[,;:]*$//' | grep -v -e NAME -e VERSION -e '[*…]' |
    grep -E '^(base|calib|experiments|kernels|perfmodel|plots|sim|tests|traces)/'
}

# heading_of TARGET : what follows the #.
heading_of() { case $1 in *'#'*) echo "${1#*'#'}" ;; esac; }

for page in "$readme" "$source_dir"/experiments/guide/*.md; do
  last=${page#"$source_dir/"}
  folder=$(dirname "$page")
  links "$page" | sort -u | while read -r target; do
    file=$folder/${target%%'#'*}
    [ "${target#'#'}" = "$target" ] || file=$page
    if [ ! -e "$file" ]; then
      fail "a link to '$target' leads nowhere"
    elif [ -f "$file" ] && ! has_heading "$file" "$(heading_of "$target")"; then
      fail "a link to '$target' leads to no heading"
    fi
  done
  paths "$page" | sort -u | while read -r path; do
    [ -e "$source_dir/$path" ] || fail "there is no '$path'"
  done
done

n=0
while IFS='|' read -r last target words; do
  n=$((n + 1))
  page=${target%%'#'*}
  heading=$(heading_of "$target")
  [ "$page" = README.md ] || grep -qF -e "]($page" "$readme" ||
    fail "README.md does not link to $page"
  has_heading "$source_dir/$page" "$heading" || fail "there is no heading '$target'"
  below "$source_dir/$page" "$heading" | grep -qF -e "$words" ||
    fail "'$target' does not say '$words'"
done <"$source_dir/tests/cli/questions.txt"
[ "$n" -ge 10 ] || fail "only $n questions"
finish
