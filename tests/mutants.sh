#!/usr/bin/env bash
# Changes one line of the program at a time and looks whether a test notices.
#
#   tests/mutants.sh [--count N] [--seed N] [--jobs N] [--files PATTERN] [--scratch DIR] [--list]
#
# Draws --count (100) mutants by --seed (1) from the C sources of every room, or those whose path
# matches the extended regular expression PATTERN. --jobs (2) of them are tried side by side, each
# in a copy of the tree of its own; the tree itself stays as it is. The unit tests of the changed
# file run first, then the other tests of modules, then those of commands, the quickest first, until
# one fails; of a file of kernels/, the tests of kernels: without nvcc none of those is drawn.
# Prints what became of each mutant, then those that nothing noticed as patches, then 'N of M caught
# (P%)'. The same seed draws the same mutants of the same sources, whatever the number of jobs. With
# --scratch the copies are kept in DIR, and built on the next time. --list only prints what would be
# drawn, in that order.
#
# A line is drawn first, each with the same chance, then one of its changes:
#   < to <= and back, > to >= and back, == to != and back, && to || and back, !x to x
#   + to - and back, * to / and back, % to /, << to >> and back, += to -= and back, |= and &= to =,
#   ++ to --, but for the step of a loop
#   an integer to the next one (a negative one not: any says failure), 1 also to 0
#   true to false and back, fmin to fmax and back, break to continue and back
#   a call, an assignment or a guarded statement of one line left out
# Left alone are asserts, also sim/audit.c, which is made of them, diagnostics, comments, strings,
# directives and macros, declarations in headers, sizes of arrays and of the arena, and calls that
# only free. No mutant is what does not compile with the project's warnings, compiles to the same
# object, or takes the other of two equals for the smaller or larger one: another is drawn.
set -u
cd "$(dirname "$0")/.." || exit 2
export LC_ALL=C

usage() {
  sed -n 's/^#   \(tests.*\)/usage: \1/p' "$0" >&2
  exit 2
}

count=100 seed=1 jobs=2 pattern=. scratch='' list=false
while (($# > 0)); do
  case $1 in
  --count | --seed | --jobs) [[ ${2-} =~ ^[1-9][0-9]{0,8}$ ]] || usage ;;
  --files | --scratch) [ -n "${2-}" ] || usage ;;
  --list) ;;
  *) usage ;;
  esac
  case $1 in
  --count) count=$2 ;;
  --seed) seed=$2 ;;
  --jobs) jobs=$2 ;;
  --files) pattern=$2 ;;
  --scratch) mkdir -p "$2" && scratch=$(realpath "$2") || exit 2 ;;
  --list) list=true && set -- --list "$@" ;;
  esac
  shift 2
done

# --- what could be changed ---------------------------------------------------------------------

# The text of each file in, one mutant a line out: place, what is changed, the new line.
# shellcheck disable=SC2016 # the text is awk's, not the shell's
find_mutants='
function blank(n,    out) {
  out = sprintf("%" n "s", "")
  return n > 0 ? out : ""
}

# The line with blanks for comments and for what stands in quotes: columns stay.
function code_of(line,    out, mark, tail, n) {
  out = ""
  for (;;) {
    if (in_comment) {
      if (!match(line, /\*\//)) return out
      out = out blank(RSTART + 1)
      line = substr(line, RSTART + 2)
      in_comment = 0
    }
    if (!match(line, /["\047]|\/\*|\/\//)) return out line
    mark = substr(line, RSTART, RLENGTH)
    out = out substr(line, 1, RSTART - 1)
    line = substr(line, RSTART + RLENGTH)
    if (mark == "//") return out
    out = out blank(length(mark))
    if (mark == "/*") {
      in_comment = 1
      continue
    }
    tail = mark == "\"" ? "^([^\"\\\\]|\\\\.)*\"" : "^([^\047\\\\]|\\\\.)*\047"
    n = match(line, tail) ? RLENGTH : 0
    line = substr(line, n + 1)
    out = out blank(n)
  }
}

# Without what is left alone from some word on to the end of the statement.
function without_alone(code,    at) {
  if (alone) {
    at = index(code, ";")
    if (at) alone = 0
    return ""
  }
  if (!match(" " code, "[^A-Za-z0-9_](assert|_Static_assert|diag_[a-z_]*|ARENA_[A-Z]*|arena_" \
                       "(alloc|printf)[a-z_]*)[(]"))
    return code
  alone = index(substr(code, RSTART), ";") == 0
  return substr(code, 1, RSTART - 1)
}

function emit(from, length_, to,    line) {
  line = substr(raw, 1, from - 1) to substr(raw, from + length_)
  printf "%s\t%d\t%s\n", FILENAME, FNR, line
}

function swap(code, from, to,    at, k) {
  for (at = 1; (k = index(substr(code, at), from)) > 0; at += k)
    if (from !~ /[<>]=? $/ || !picks(code, at + k - 1, length(from)))
      emit(at + k - 1, length(from), to)
}

function both(code, a, b) {
  swap(code, " " a " ", " " b " ")
  swap(code, " " b " ", " " a " ")
}

# Whether `a < b` at a place of the code picks one of both, so that it is one for equals.
function picks(code, at, size,    a, b, rest) {
  if (!match(substr(code, 1, at - 1), /[A-Za-z0-9_.>\[\]-]+$/)) return 0
  a = substr(code, RSTART, RLENGTH)
  rest = substr(code, at + size)
  if (!match(rest, /^[A-Za-z0-9_.>\[\]-]+/)) return 0
  b = substr(rest, 1, RLENGTH)
  rest = substr(rest, RLENGTH + 1)
  return index(rest, " ? " a " : " b) == 1 || index(rest, " ? " b " : " a) == 1 ||
         index(rest, ") " a " = " b ";") == 1 || index(rest, ") " b " = " a ";") == 1
}

function change_word(from, word) {
  if (word ~ /^[0-9]+$/) {
    if (word > 2 && substr(raw, from - 1, 1) == "[") return
    if (substr(raw, from - 1, 1) != "-") emit(from, length(word), word + 1)
    if (word == 1) emit(from, 1, 0)
  }
  if (word in other) emit(from, length(word), other[word])
}

function change_words(code,    at) {
  for (at = 1; match(substr(code, at), /[A-Za-z0-9_.]+/); at += RSTART + RLENGTH - 1)
    change_word(at + RSTART - 1, substr(code, at + RSTART - 1, RLENGTH))
}

# A statement of one line that is a call, an assignment, a jump or guarded by an if.
function leave_out(code,    indent) {
  if (before !~ /[;{}:]$|[^ ]\)$|else$|^$/ || code !~ /;$/) return
  if (code ~ /^ *[a-z0-9_]+_(done|close|release)\(/) return
  match(code, /^ */)
  indent = RLENGTH
  code = substr(code, indent + 1)
  if (code ~ /^[*(]*[A-Za-z_][][A-Za-z0-9_.>()+-]* ([-+*\/|&^%]|<<|>>)?= / ||
      code ~ /^[a-z_][A-Za-z0-9_]*\(.*\);$/ || code ~ /(\+\+|--);$/ ||
      code ~ /^(break|continue);$/ || code ~ /^if \(.*\) [^ ].*;$/)
    emit(indent + 1, length(raw) - indent, ";")
}

function change(code,    text) {
  text = code " "
  both(text, "<", "<=")
  both(text, ">", ">=")
  both(text, "==", "!=")
  both(text, "&&", "||")
  both(text, "+", "-")
  both(text, "*", "/")
  both(text, "<<", ">>")
  both(text, "+=", "-=")
  swap(text, " % ", " / ")
  swap(text, " |= ", " = ")
  swap(text, " &= ", " = ")
  if (text !~ /for \(|^ *[a-z0-9_]+ = [^;]*; /) swap(text, "++", "--")
  gsub(/!=/, "  ", text)
  swap(text, "!", "")
  change_words(code)
  leave_out(code)
}

BEGIN {
  other["true"] = "false"
  other["false"] = "true"
  other["fmin"] = "fmax"
  other["fmax"] = "fmin"
  other["break"] = "continue"
  other["continue"] = "break"
}
FNR == 1 {
  in_comment = alone = directive = 0
  is_header = FILENAME ~ /\.h$/
  in_function = !is_header
  before = ""
}
{
  raw = $0
  code = code_of(raw)
  sub(/ +$/, "", code)
  if (directive || code ~ /^#/) {
    directive = raw ~ /\\$/
    next
  }
  if (code ~ /^ *$/) next
  if (is_header && raw ~ /^static inline/) in_function = 1
  if (is_header && raw !~ /^ / && raw ~ /}$/) {
    if (in_function) change(without_alone(code))
    in_function = 0
    next
  }
  code = without_alone(code)
  if (in_function && code ~ /[^ ]/) change(code)
  before = code
}
'

# Lines in the order in which their mutants are tried: a shuffle of the lines, one mutant of each.
# shellcheck disable=SC2016
draw_mutants='
function below(n) {
  state = state * 16807 % 2147483647
  return int(state / 2147483647 * n)
}

{
  key = $1 "\t" $2
  if (!(key in n_of)) keys[n_keys++] = key
  of[key, n_of[key]++] = $0
}
END {
  state = seed % 2147483646 + 1
  for (i = 0; i < 20; i++) below(2)
  for (i = 0; i < n_keys; i++) {
    k = i + below(n_keys - i)
    key = keys[k]
    keys[k] = keys[i]
    print of[key, below(n_of[key])]
  }
}
'

sources() {
  find base sim perfmodel traces calib experiments kernels -name '*.[ch]' ! -path sim/audit.c |
    { command -v nvcc >/dev/null && cat || grep -v '^kernels/'; } | grep -E -e "$pattern" | sort
}

keep=${scratch:+true}
[ -n "$keep" ] || scratch=$(mktemp -d) || exit 2
workers=()
# shellcheck disable=SC2317 # called by the trap
leave() {
  local pid
  for pid in "${workers[@]}"; do kill -TERM -- "-$pid" 2>/dev/null; done
  wait
  [ -n "$keep" ] || rm -rf "$scratch"
}
trap leave EXIT
trap 'exit 130' INT TERM

# The sources as they are now, whatever is edited meanwhile.
source=$scratch/source
rm -rf "$source" "$scratch/shared"
mkdir "$source"
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' path; do [ -f "$path" ] && printf '%s\0' "$path"; done |
  tar -c --null -T - | tar -x -C "$source" || exit 2
[ -d ../shared ] && ln -s "$(readlink -f ../shared)" "$scratch/shared"
cd "$source" || exit 2

draws=$scratch/draws
mapfile -t files < <(sources)
((${#files[@]} > 0)) || usage
awk "$find_mutants" "${files[@]}" | awk -F '\t' -v seed="$seed" "$draw_mutants" >"$draws"

# describe DRAW : where it is, the line before and after.
describe() {
  local file line text old
  IFS=$'\t' read -r file line text < <(sed -n "$1p" "$draws")
  old=$(sed -n "${line}s/^ *//p" "$source/$file")
  echo "$file:$line: $old → ${text#"${text%%[! ]*}"}"
}

if $list; then
  for ((draw = 1; draw <= count && draw <= $(wc -l <"$draws"); draw++)); do describe "$draw"; done
  exit 0
fi

# --- trees to try them in ----------------------------------------------------------------------

# A tree NUMBER of the same files, built.
make_tree() {
  local tree=$scratch/tree$1 path
  find . -type f | while read -r path; do
    cmp -s "$path" "$tree/$path" && continue
    mkdir -p "$tree/${path%/*}" && cp "$path" "$tree/$path" || return
  done
  [ -f "$tree/build/build.ninja" ] ||
    meson setup "$tree/build" "$tree" --buildtype=release -Doptimization=1 >"$tree/log" 2>&1 ||
    return
  { ninja -C "$tree/build" build.ninja && build "$1"; } >>"$tree/log" 2>&1
}

# build TREE [TEST...] : the programs that these tests run, or all tests. Those of kernels need what
# only the whole build knows.
build() {
  local build=$scratch/tree$1/build programs test
  shift
  if [ -n "${1-}" ] && grep -qw -e "$1" "$scratch/tests.kernels"; then
    ninja -C "$build"
    return
  fi
  mapfile -t programs < <(ninja -C "$build" -t targets rule c_LINKER |
    grep -E '^(tandem|tests/[^/]*)$' | grep -v '^tests/bench_')
  if (($# > 0)); then
    for test; do
      [[ " ${programs[*]} " == *" tests/$test "* ]] && echo "tests/$test" || echo tandem
    done | sort -u
  else
    printf '%s\n' "${programs[@]}"
  fi | xargs ninja -C "$build"
}

# names_of_tests KIND : those of kernels or of the rest of the program.
names_of_tests() {
  meson test -C "$scratch/tree1/build" --no-rebuild --list 2>/dev/null |
    awk -v kind="$1" '/^tandem:/ && !/^tandem:(gpu|slurm|tidy) / &&
      (kind == "kernels") == ($1 == "tandem:kernels") { print $NF }'
}

# run_tests TREE LIMIT_S NAME... : the first that fails ends it; what they say is on stdout. Of the
# unit tests only the suites of $near, where that is set.
near=
run_tests() {
  local tree=$scratch/tree$1 limit=$2 arguments=()
  shift 2
  case $1 in
  unit) arguments=("--test-args=--fail-fast ${near:+--filter $near}") ;;
  swarm) arguments=('--test-args=--clusters 400') ;;
  esac
  (
    ulimit -v 8000000 -f 2000000
    exec timeout --foreground -k 10 "$limit" meson test -C "$tree/build" --no-rebuild \
      --num-processes 1 --timeout-multiplier 0 --maxfail 1 "$@" "${arguments[@]}" 2>&1 </dev/null
  )
}

# 0 for a program of its own, 1 for a script that drives tandem, 2 for a fuzzer, which only notices
# crashes.
rank_of() {
  case $1 in
  fuzz_*) echo 2 ;;
  *) [ ! -x "$scratch/tree1/build/tests/$1" ] && echo 1 || echo 0 ;;
  esac
}

# time_tests KIND : what each test takes on the program as it is, in the order in which they run,
# and several quick ones together, as starting them takes longer: milliseconds and names. Those with
# arguments are by themselves.
time_tests() {
  local name start
  [ "$1" != kernels ] || ninja -C "$scratch/tree1/build" >/dev/null || return
  names_of_tests "$1" | while read -r name; do
    start=${EPOCHREALTIME/./}
    run_tests 1 3600 "$name" >/dev/null || {
      echo "the test $name fails without a mutant" >&2
      return 1
    }
    echo "$(rank_of "$name") $(((${EPOCHREALTIME/./} - start) / 1000)) $name"
  done | sort -n -k1,1 -k2,2 | cut -d ' ' -f 2- | awk '
    function close_group() { if (names) print ms names; ms = 0; names = "" }
    $2 == "unit" || $2 == "swarm" { close_group(); print; next }
    ms + $1 > 5000 { close_group() }
    { ms += $1; names = names " " $2 }
    END { close_group() }' >"$scratch/tests.$1"
  [ "${PIPESTATUS[1]}" -eq 0 ] && [ -s "$scratch/tests.$1" ]
}

# kind_of FILE : which tests know it.
kind_of() {
  case $1 in
  kernels/*) echo kernels ;;
  *) echo program ;;
  esac
}

# --- trying ------------------------------------------------------------------------------------

# take : the next draw on stdout; fails once enough have been tried. Counts are kept in a file:
# the next draw, how many are being tried, how many have been.
take() {
  local next trying tried
  while :; do
    exec 9>"$scratch/lock"
    flock 9
    read -r next trying tried <"$scratch/counts"
    if ((tried < count && next <= $(wc -l <"$draws") && tried + trying < count)); then
      echo "$((next + 1)) $((trying + 1)) $tried" >"$scratch/counts"
      echo "$next"
      exec 9>&-
      return
    fi
    exec 9>&-
    ((tried + trying >= count && trying > 0)) || return
    sleep 1
  done
}

# settle DRAW OUTCOME : '' when it was no mutant.
settle() {
  local next trying tried was_tried=0
  [ -z "$2" ] || was_tried=1
  exec 9>"$scratch/lock"
  flock 9
  read -r next trying tried <"$scratch/counts"
  echo "$next $((trying - 1)) $((tried + was_tried))" >"$scratch/counts"
  if ((was_tried)); then
    echo "$1" >>"$scratch/$([ "$2" = SURVIVED ] && echo survivors || echo caught)"
    echo "$(describe "$1"): $2"
  fi
  exec 9>&-
}

# objects TREE FILE : the objects of the file in its library; of a header, the program.
objects() {
  local name=${2%.c}
  cd "$scratch/tree$1/build" || return
  if [ "$name" = "$2" ]; then
    echo tandem
  else
    find . -path '*.p/*' -name "*${name##*/}.c.o" -printf '%P\n' | sort
  fi
}

# compiles TREE FILE : to something that differs from the program as it is.
compiles() {
  local objects object
  mapfile -t objects < <(objects "$1" "$2")
  ninja -C "$scratch/tree$1/build" "${objects[@]}" >/dev/null 2>&1 || return
  for object in "${objects[@]}"; do
    cmp -s "$scratch/tree$1/build/$object" "$scratch/before$1/$object" && continue
    return 0
  done
  return 1
}

# The unit tests of suites that are named as the file or its folder.
try_near() {
  local base=${2##*/} folder=${2%/*} near
  base=${base%.*}
  near="@(${base%%_*}*|${folder##*/}*)/*"
  ! grep -q ' unit$' "$scratch/tests.$(kind_of "$2")" ||
    { build "$1" unit >/dev/null 2>&1 && run_tests "$1" 120 unit >/dev/null; }
}

# try_tests TREE FILE : the outcome on stdout, what caught it, SURVIVED, or nothing where programs
# do not link.
try_tests() {
  local ms names status
  try_near "$1" "$2" || {
    build "$1" unit >/dev/null 2>&1 && echo 'caught by unit'
    return
  }
  while read -r ms names; do
    # shellcheck disable=SC2086 # one word per test
    build "$1" $names >/dev/null 2>&1 || return
    # shellcheck disable=SC2086
    run_tests "$1" $((ms / 100 + 30)) $names >"$scratch/said$1"
    status=$?
    ((status == 0)) && continue
    if ((status == 124 || status == 137)); then
      echo "caught by ${names// /, } (hangs)"
    else
      echo "caught by $(awk '/ (FAIL|ERROR|TIMEOUT) / { print $4; exit }' "$scratch/said$1")"
    fi
    return
  done <"$scratch/tests.$(kind_of "$2")"
  echo SURVIVED
}

# try TREE DRAW
try() {
  local file line text outcome='' tree=$scratch/tree$1
  IFS=$'\t' read -r file line text < <(sed -n "$2p" "$draws")
  TEXT=$text awk -v line="$line" 'FNR == line { print ENVIRON["TEXT"]; next } { print }' \
    "$source/$file" >"$tree/$file"
  compiles "$1" "$file" && outcome=$(try_tests "$1" "$file")
  settle "$2" "$outcome"
  cp "$source/$file" "$tree/$file"
}

work_in() {
  local draw
  export CCACHE_DISABLE=1
  rm -rf "$scratch/before$1"
  cp -r "$scratch/tree$1/build" "$scratch/before$1" || exit
  while draw=$(take); do try "$1" "$draw"; done
}

# A survivor as a patch that `patch -p1` takes.
patch_of() {
  local file line text
  IFS=$'\t' read -r file line text < <(sed -n "$1p" "$draws")
  printf -- '--- a/%s\n+++ b/%s\n@@ -%d +%d @@\n-%s\n+%s\n' "$file" "$file" "$line" "$line" \
    "$(sed -n "${line}p" "$file")" "$text"
}

for ((job = 1; job <= jobs; job++)); do
  make_tree "$job" || {
    tail "$scratch/tree$job/log" >&2
    exit 2
  }
done
: >"$scratch/tests.kernels"
for kind in $(for file in "${files[@]}"; do kind_of "$file"; done | sort -u); do
  time_tests "$kind" || exit 2
done
cat "$scratch"/tests.* |
  awk '{ ms += $1; n += NF - 1 } END { printf "%d tests, %.0f s in all\n", n, ms / 1000 }' >&2

echo '1 0 0' >"$scratch/counts"
: >"$scratch/survivors"
: >"$scratch/caught"
set -m
for ((job = 1; job <= jobs; job++)); do
  work_in "$job" &
  workers+=($!)
done
set +m
wait "${workers[@]}"
workers=()

while read -r draw; do patch_of "$draw"; done < <(sort -n "$scratch/survivors")
caught=$(wc -l <"$scratch/caught")
tried=$((caught + $(wc -l <"$scratch/survivors")))
awk -v caught="$caught" -v tried="$tried" \
  'BEGIN { printf "%d of %d caught (%.0f%%)\n", caught, tried, tried ? 100 * caught / tried : 0 }'
