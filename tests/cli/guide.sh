#!/bin/sh
# What the program writes of itself: the pages of keys and of commands, the figure of README.md, the
# manual page.
#
#   tests/cli/guide.sh                  looks at them
#   tests/cli/guide.sh --update PAGE    writes one anew: keys, commands or figure
guide=experiments/guide
figure=$guide/rates.svg
page_of() { # PAGE
  case $1 in
  keys) "$TANDEM_BINARY" list options --format markdown ;;
  commands) "$TANDEM_BINARY" help --all ;;
  esac
}
# draw FILE : the figure of README.md, by its commands.
draw() {
  "$TANDEM_BINARY" sweep "$TANDEM_SOURCE_DIR/experiments/examples/sweep.yaml" --output figure.db &&
    "$TANDEM_BINARY" plot rates figure.db -o "$1"
}
if [ "${1-}" = --update ]; then
  if [ "$2" = figure ]; then
    cd "$(mktemp -d)" && draw "$TANDEM_SOURCE_DIR/$figure" && rm -r "$PWD"
  else
    page_of "$2" >"$TANDEM_SOURCE_DIR/$guide/$2.md"
  fi
  exit
fi
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

for page in keys commands; do
  expect 0 page_of $page
  if [ -d "$source_dir/$guide" ]; then
    cmp -s out "$source_dir/$guide/$page.md" ||
      fail "$guide/$page.md is not what is printed: 'ninja -C build $page' writes it anew"
  fi
done
# Another version of gnuplot draws the same otherwise; the epoch changes with any rule.
epochless() { sed 's/epoch [0-9a-f]*/epoch/' "$1"; }
if [ -f "$source_dir/$figure" ] &&
  [ "$(gnuplot --version 2>/dev/null)" = 'gnuplot 5.4 patchlevel 4' ]; then
  expect 0 draw drawn.svg
  epochless drawn.svg >drawn
  epochless "$source_dir/$figure" >shown
  cmp -s drawn shown || fail "$figure is not what is drawn: 'ninja -C build figure' draws it anew"
fi

# The proposal on the page about writing one compiles.
if [ -f "$source_dir/$guide/policy-lab.md" ] && command -v cc >/dev/null; then
  sed -n '/^```c$/,/^```$/p' "$source_dir/$guide/policy-lab.md" | sed '/^```/d' >proposal.c
  [ "$(wc -l <proposal.c)" -gt 20 ] || fail 'policy-lab.md has no proposal'
  expect 0 cc -std=c17 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -fsyntax-only \
    -I "$source_dir" proposal.c
fi

expect 0 "$tandem" help --man
for word in 'tandem run CONFIG' 'tandem report measured' 'TANDEM_DATA' 'fB\-\-require\-slo'; do
  prints "$word"
done
if command -v groff >/dev/null; then
  cp out tandem.1
  expect 0 groff -ww -man -Tutf8 tandem.1
  [ ! -s err ] || fail 'groff complains of the manual page'
fi

finish
