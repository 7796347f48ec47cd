#!/bin/sh
# The rules of the source tree, each broken one reported as file:line: message.
#
#   tests/tidy.sh [ROOT]        checks the tree; exit status 1 if any rule is broken
#   tests/tidy.sh --self-test   breaks every rule in a tree of its own and looks for the message
#
# Checked are the files git tracks or would track; without git, all but build folders. The patterns
# below are spelled with brackets so that this file does not match itself.
set -u
export LC_ALL=C # bytes in, bytes out: the line length counts UTF-8 characters itself

# --- rules about any text file -----------------------------------------------------------------

words='[T]ODO|[F]IXME|[X]XX|[H]ACK'
loose_words='[s]tub|[f]or now'
machine_paths='/[w]ork/|/[t]mp/out|/[r]oot/'
registry_hosts='[p]ypi\.org|[d]ebian\.org|[r]egistry\.npmjs'

# grep_rule MESSAGE GREP-OPTION... : reports each line of $files that matches.
grep_rule() {
  message=$1
  shift
  tr '\n' '\0' <"$files" | xargs -0 grep -HInoE "$@" /dev/null |
    awk -F: -v message="$message" '{ printf "%s:%s: %s \"%s\"\n", $1, $2, message, $3 }'
}

check_text() {
  grep_rule 'banned word' -w -e "$words"
  grep_rule 'banned word' -iw -e "$loose_words"
  grep_rule 'path of a machine' -e "$machine_paths"
  grep_rule 'registry host' -e "$registry_hosts"
}

# --- rules about source files ------------------------------------------------------------------

check_sources() {
  grep -E '\.(c|h|cuh?|def|sh|sql|gp)$|(^|/)meson\.build$|^setup$|^\.ci/run$' "$files" \
    >"$work/sources"
  tr '\n' '\0' <"$work/sources" | xargs -0 awk "$source_rules" /dev/null
}

# shellcheck disable=SC2016 # the text is awk's, not the shell's
source_rules='
function report(line, text) { printf "%s:%d: %s\n", path, line, text }

# The box a path belongs to, as in the table of include edges: a folder, or a room of experiments.
function box(path) {
  if (match(path, /^experiments\/[^\/]+\//)) return substr(path, 1, RLENGTH - 1)
  sub(/\/.*/, "", path)
  return path
}

# The line without comments and with empty strings, so that words in them do not count as code.
function code_of(line,    out, mark, tail) {
  out = ""
  for (;;) {
    if (in_comment) {
      if (!match(line, /\*\//)) return out
      line = substr(line, RSTART + 2)
      in_comment = 0
    }
    if (!match(line, /["\047]|\/\*|\/\//)) return out line
    out = out substr(line, 1, RSTART - 1)
    mark = substr(line, RSTART, RLENGTH)
    line = substr(line, RSTART + RLENGTH)
    if (mark == "//") return out
    if (mark == "/*") {
      in_comment = 1
      continue
    }
    tail = mark == "\"" ? "^([^\"\\\\]|\\\\.)*\"" : "^([^\047\\\\]|\\\\.)*\047"
    if (match(line, tail)) line = substr(line, RLENGTH + 1)
    out = out mark mark
  }
}

function end_file() {
  if (lines > 600) report(601, "file of " lines " lines, at most 600")
  if (guard != "" && directives < 2) report(1, "no include guard " guard)
}

function begin_file() {
  path = FILENAME
  is_c = path ~ /\.([ch]|cuh?)$/
  home = box(path)
  is_pure = path ~ /^(base|sim|perfmodel|traces)\//
  is_product = path ~ /^(base|sim|perfmodel|traces|calib|experiments)\//
  may_use_heap = path == "base/arena.c" || !is_product
  may_use_float = path ~ /^((tests\/)?kernels\/|calib\/(cpu_|llama_|protocol_numbers))/ # elements
  in_comment = depth = directives = start = lines = 0
  guard = ""
  if (path ~ /\.(h|cuh)$/) {
    guard = toupper(path)
    gsub(/[\/.-]/, "_", guard)
  }
}

# Rooms are named from the bottom up, so that there is no circle: each may include its own headers,
# those of the boxes below experiments, and of the `others`, named before it, the one header for
# outside.
function room(name, others,    n, i, list) {
  n = split(others, list, " ")
  for (i = 1; i <= n; i++)
    if (!(("experiments/" list[i]) in may_include)) {
      print "tests/tidy.sh:1: room " name " may include " list[i] ", which is not below it"
      list[i] = "experiments"
    }
  may_include["experiments/" name] = " base perfmodel traces sim calib experiments/" name " "
  for (i = 1; i <= n; i++)
    may_include["experiments/" name] = may_include["experiments/" name] "experiments/" list[i] " "
}

# Whether a header is for other rooms: that of the name of its room, and all of the lowest one.
function is_outside(header,    part) {
  split(header, part, "/")
  return part[2] == "base" || part[3] == part[2] ".h"
}

function check_include(    header, to) {
  if (!match($0, /^#[ ]*include[ ]+"/)) return
  header = substr($0, RLENGTH + 1)
  sub(/".*/, "", header)
  to = box(header)
  if (home == "kernels" && header ~ /^calib\/(backend|gpu_name|serve)\.h$/) return
  if (path ~ /^tests\/(fuzz|kernels)\// && to == "kernels") return
  if (!(to in may_include))
    report(FNR, "include of \"" header "\" is not written from the root")
  else if (index(may_include[home], " " to " ") == 0)
    report(FNR, home " may not include \"" header "\"")
  else if (home ~ /^experiments/ && to ~ /^experiments\// && to != home && !is_outside(header))
    report(FNR, "\"" header "\" is for " to " alone")
}

function check_guard(code) {
  if (guard == "" || code !~ /^#/ || directives >= 2) return
  directives++
  if (code !~ ("^#" (directives == 1 ? "ifndef" : "define") " " guard "$")) {
    report(FNR, "no include guard " guard)
    guard = ""
  }
}

function calls(code, names) { return code ~ ("(^|[^A-Za-z0-9_.>])(" names ")[ ]*\\(") }

function check_words(code) {
  if (calls(code, "strtok|gets|v?sprintf|atoi|s?rand")) report(FNR, "banned call")
  if (is_pure && calls(code, "time")) report(FNR, "a run may not depend on the clock")
  if (!may_use_heap && calls(code, "malloc|calloc|realloc|free"))
    report(FNR, "heap call outside base/arena.c")
  if (!may_use_float && code ~ /(^|[^A-Za-z0-9_])float([^A-Za-z0-9_]|$)/)
    report(FNR, "type float in host code")
}

# A function runs from the first line of its head to the brace that closes it.
function check_function(code,    opens, closes, was) {
  if (code ~ /^#/) return
  was = depth
  opens = gsub(/{/, "{", code)
  closes = gsub(/}/, "}", code)
  if (was == 0 && start == 0 && code ~ /[^ ]/) {
    start = FNR
    is_function = 0
  }
  if (was == 0 && code ~ /\)[ ]*{/) is_function = 1
  depth += opens - closes
  if (depth == 0 && (closes > 0 || code ~ /;[ ]*$/ || code !~ /[^ ]/)) {
    if (is_function && FNR - start + 1 > 70)
      report(start, "function of " (FNR - start + 1) " lines, at most 70")
    start = is_function = 0
  }
}

BEGIN {
  may_include["base"] = " base "
  may_include["perfmodel"] = " base perfmodel "
  may_include["traces"] = " base traces "
  may_include["sim"] = " base perfmodel traces sim "
  may_include["calib"] = " base perfmodel calib "
  may_include["experiments"] = " " # generated: the commit
  room("base", "")
  may_include["experiments/base"] = may_include["experiments/base"] "experiments "
  room("page", "")
  room("config", "base")
  room("fleet", "base config")
  room("report", "base config fleet")
  room("results", "base config report")
  room("benchmark", "base config report results")
  room("compare", "base config report results")
  room("campaign", "base config report results")
  room("replay", "base config report results campaign")
  room("timeline", "base config report results replay")
  room("why", "base config report results campaign replay")
  room("sweep", "base config report results campaign")
  room("provision", "base config fleet report results campaign sweep")
  room("plan", "base config fleet report results campaign sweep provision")
  room("tune", "base config report campaign sweep provision plan")
  room("keys", "config provision")
  room("claims", "base config report results campaign sweep provision")
  room("validate", "base config report results benchmark campaign")
  room("doctor", "base")
  room("measured", "base page config report campaign")
  room("plot", "base config report results compare replay plan measured")
  room("findings", "base page config report results plot")
  room("commands",
       "base config fleet report results benchmark compare campaign replay timeline why sweep " \
       "provision plan tune keys claims validate doctor measured plot findings")
  may_include["kernels"] = " base kernels "
  may_include["tests"] = " base perfmodel traces sim calib tests "
  for (name in may_include)
    if (name ~ /^experiments/) may_include["tests"] = may_include["tests"] name " "
}
FNR == 1 {
  if (path != "") end_file()
  begin_file()
  if (is_c && $0 !~ /^\/[*\/]/) report(1, "no comment at the head of the file")
}
{
  lines = FNR
  columns = $0
  gsub(/[\200-\277]/, "", columns)
  if (length(columns) > 100) report(FNR, "line of " length(columns) " columns, at most 100")
}
is_c {
  if (index($0, "\t")) report(FNR, "tab")
  code = code_of($0)
  sub(/[ ]+$/, "", code)
  check_include()
  check_guard(code)
  if (code !~ /^#[ ]*include/) check_words(code)
  check_function(code)
}
END { if (path != "") end_file() }
'

# --- rules about diagnostics -------------------------------------------------------------------

check_messages() {
  grep -E '^(base|perfmodel|traces|sim|calib|experiments)/.*\.c$' "$files" |
    tr '\n' '\0' | xargs -0r awk "$message_rules" /dev/null
}

# The texts of a call, adjacent ones as one, whatever stands between the others.
# shellcheck disable=SC2016 # the text is awk's, not the shell's
message_rules='
function report(text, message) {
  printf "%s:%d: a message %s: \"%s\"\n", FILENAME, start, text, substr(message, 1, 40)
}
function check(message) {
  if (message ~ /^(of|what|who|whose|which|such as) /) report("has no verb", message)
  if (message ~ /^[A-Z][a-z]+ / && message !~ /^Parquet /) report("begins in upper case", message)
  if (message ~ /[a-z]\.$/) report("ends with a full stop", message)
  if (message ~ /(^|[ \047])wants /) report("says \"wants\"", message)
  if (message ~ /\047 (is|are) (of|for|no) /) report("says \"is of\" or the like", message)
}
function check_call(call,    message, between) {
  message = ""
  while (match(call, /"([^"\\]|\\.)*"/)) {
    between = substr(call, 1, RSTART - 1)
    if (between !~ /^ *(PRI[dux]64)? *$/) {
      check(message)
      message = ""
    }
    message = message substr(call, RSTART + 1, RLENGTH - 2)
    call = substr(call, RSTART + RLENGTH)
  }
  check(message)
}
FNR == 1 { call = "" }
BEGIN { calls = "(diag_(error|environment|hint)|cli_(usage|interrupted)|check_(find|note))[(]" }
call == "" && match($0, calls) {
  start = FNR
  $0 = substr($0, RSTART)
  call = " "
}
call != "" {
  call = call " " $0
  if ($0 !~ /;[ ]*(\/\/.*)?$/) next
  check_call(call)
  call = ""
}
'

# A file that is built or run stands, by its path, in the meson.build of its folder or of one above;
# a policy stands in the .def beside it.
check_listed() {
  grep -E '\.(c|cu)$|^tests/(cli|golden|differential|kernels|slurm)/[^/]*\.sh$' "$files" |
    while read -r path; do
      folder=$(dirname "$path")
      name=$(basename "$path")
      name=${name%.*}
      name=${name#backend_}
      grep -qs "^[A-Z]*($name)" "$folder"/*.def && continue
      while :; do
        grep -qsF "'${path#"$folder"/}'" "$folder/meson.build" && continue 2
        [ "$folder" = . ] && break
        folder=$(dirname "$folder")
      done
      echo "$path:1: listed in no meson.build and no .def"
    done
}

# Each link of a page leads to a file or folder, and to a heading of a page, as browsers know them.
check_links() { awk -v list="$files" "$link_rules" </dev/null; }

# shellcheck disable=SC2016 # the text is awk's, not the shell's
link_rules='
# Where a link of a page leads, from the root.
function target_of(page, link,    n, i, parts, path) {
  n = split(page "/../" link, parts, "/")
  path = ""
  for (i = 1; i <= n; i++)
    if (parts[i] == "..") sub(/\/?[^\/]*$/, "", path)
    else if (parts[i] != "" && parts[i] != ".") path = path (path == "" ? "" : "/") parts[i]
  return path
}

function check_link(where, page, link,    target, anchor) {
  target = anchor = link
  sub(/#.*/, "", target)
  if (!sub(/^[^#]*#/, "", anchor)) anchor = ""
  target = target == "" ? page : target_of(page, target)
  if (!(target in exists)) print where ": a link to " link ", which is not there"
  else if (anchor != "" && target ~ /\.md$/ && !((target "#" anchor) in anchors))
    print where ": a link to " link ", which is no heading there"
}

BEGIN {
  while ((getline path < list) > 0) {
    if (path ~ /\.md$/) ARGV[ARGC++] = path
    do exists[path]
    while (sub(/\/[^\/]*$/, "", path))
  }
}
FNR == 1 { in_block = 0 }
/^```/ { in_block = !in_block }
in_block { next }
/^#+ / {
  anchor = tolower($0)
  sub(/^#+ +/, "", anchor)
  gsub(/[^a-z0-9_ -]/, "", anchor)
  gsub(/ /, "-", anchor)
  anchors[FILENAME "#" anchor]
}
{
  gsub(/`[^`]*`/, "")
  while (match($0, /\]\([^) ]*/)) {
    link = substr($0, RSTART + 2, RLENGTH - 2)
    $0 = substr($0, RSTART + RLENGTH)
    if (link !~ /^[a-z]+:/) links[++n_links] = FILENAME ":" FNR " " FILENAME " " link
  }
}
END {
  for (i = 1; i <= n_links; i++) {
    split(links[i], parts, " ")
    check_link(parts[1], parts[2], parts[3])
  }
}
'

# Other major versions of clang-format lay out the same text otherwise.
check_format() {
  clang-format --version 2>/dev/null | grep -q 'version 14\.' || return 0
  grep -E '\.([ch]|cuh?)$' "$files" | tr '\n' '\0' | xargs -0r clang-format --dry-run -Werror 2>&1 |
    awk -F: '/: error:/ && !seen[$1]++ { print $1 ":" $2 ": not laid out by clang-format" }'
}

check_tree() {
  cd "$1" || exit 2
  if [ "$(git rev-parse --show-prefix 2>&1)" = '' ]; then
    git ls-files --cached --others --exclude-standard
  else
    find . -type f ! -path './.git/*' ! -path './build*' | sed 's|^\./||'
  fi | while read -r path; do [ -f "$path" ] && echo "$path"; done | sort -u >"$files"
  { check_text; check_sources; check_messages; check_listed; check_links; check_format; } |
    sort -t: -k1,1 -k2,2n
}

# --- self-test ---------------------------------------------------------------------------------

# breaks EXPECTED PATH : the text on stdin, as PATH, must bring up EXPECTED.
breaks() {
  mkdir -p "$tree/$(dirname "$2")"
  cat >"$tree/$2"
  check_tree "$tree" >"$work/found"
  rm "$tree/$2"
  case $(cat "$work/found") in
  *"$2:$1"*) ;;
  *)
    echo "tidy does not report $2:$1; it says:"
    cat "$work/found"
    failed=1
    ;;
  esac
}

many() { awk -v count="$1" -v text="$2" 'BEGIN { while (count-- > 0) print text }'; }

# A source file with a right head, then the text.
c_file() { printf '/* Head. */\n%s\n' "$1"; }

self_test_text() {
  for word in "TO""DO" "FIX""ME" "XX""X" "HA""CK" "st""ub" "for"" now"; do
    echo "a $word b" | breaks "1: banned word \"$word\"" note.md
  done
  for path in "/wo""rk/x" "/tm""p/out" "/ro""ot/x"; do
    echo "$path" | breaks '1: path of a machine' note.md
  done
  for host in "pypi"".org" "deb.debian"".org" "registry"".npmjs"; do
    echo "https://$host/" | breaks '1: registry host' note.md
  done
}

self_test_edges() {
  while read -r from to; do
    case $from in
    experiments/*) box=${from%/*} ;;
    *) box=${from%%/*} ;;
    esac
    c_file "#include \"$to\"" | breaks "2: $box may not include" "$from"
  done <<'END'
perfmodel/a.c traces/trace.h
perfmodel/a.c sim/run.h
perfmodel/a.c calib/plan.h
traces/a.c perfmodel/pwl.h
traces/a.c sim/run.h
sim/a.c experiments/config/config.h
sim/router/a.c calib/plan.h
sim/a.c kernels/kernels.h
calib/a.c sim/run.h
calib/a.c experiments/config/config.h
calib/a.c kernels/kernels.h
experiments/commands/a.c kernels/kernels.h
experiments/base/a.c experiments/config/config.h
experiments/config/a.c experiments/report/report.h
experiments/results/a.c experiments/sweep/sweep.h
experiments/sweep/a.c experiments/provision/provision.h
experiments/plot/a.c experiments/sweep/sweep.h
kernels/a.c calib/plan.h
tests/unit/a.c kernels/kernels.h
END
  c_file '#include "experiments/provision/search.h"' |
    breaks '2: "experiments/provision/search.h" is for experiments/provision alone' \
      experiments/claims/a.c
  c_file '#include "sim/run.h"' | breaks '2: base may not include' base/a.c
  c_file '#include "engine.h"' | breaks '2: include of "engine.h" is not written from' sim/a.c
}

self_test_sources() {
  c_file "$(many 600 'int a;')" | breaks '601: file of 601 lines' sim/a.c
  c_file "$(printf 'static int\nf(int a) {\n%s\n}' "$(many 68 '  a++;')")" |
    breaks '2: function of 71 lines' sim/a.c
  c_file "// $(many 98 é | tr -d '\n')" | breaks '2: line of 101 columns' sim/a.c
  echo "# $(many 99 a | tr -d '\n')" | breaks '1: line of 101 columns' tests/cli/a.sh
  c_file "$(printf 'int\ta;')" | breaks '2: tab' sim/a.c
  for call in strtok gets sprintf vsprintf atoi rand srand; do
    c_file "int a = $call(0);" | breaks '2: banned call' experiments/sweep/a.c
  done
  for call in malloc calloc realloc free; do
    c_file "int a = $call(0);" | breaks '2: heap call' experiments/sweep/a.c
  done
  c_file 'long a = time(0);' | breaks '2: a run may not' sim/a.c
  c_file 'float a;' | breaks '2: type float' perfmodel/a.c
  c_file '#define A' | breaks '2: no include guard BASE_A_H' base/a.h
  c_file 'int a;' | breaks '1: no include guard BASE_A_H' base/a.h
  echo 'int a;' | breaks '1: no comment at the head' traces/a.c
}

self_test_messages() {
  while read -r expected message; do
    c_file "$(printf 'int a = diag_error(diag, at,\n  "%s", b);' "$message")" |
      breaks "2: a message $(echo "$expected" | tr _ ' ')" traces/a.c
  done <<'END'
has_no_verb of sessions alone
has_no_verb what is possible: vllm
has_no_verb such as {mean: 1}
begins_in_upper_case Unknown key
ends_with_a_full_stop the file is empty.
says_"wants" '%s' wants a list
says_"is_of" '%s' is of sessions
END
  c_file "$(printf 'int a = diag_error(diag, at, b ? "a " PRId64\n  " wants b" : c);')" |
    breaks '2: a message says "wants"' traces/a.c
}

self_test_listed() {
  c_file 'int a;' | breaks '1: listed in no' base/a.c
  c_file 'int a;' | breaks '1: listed in no' tests/unit/test_listed.c
  echo 'exit 0' | breaks '1: listed in no' tests/cli/a.sh
}

self_test_links() {
  echo '[a](b/gone.md)' | breaks '1: a link to b/gone.md, which is not there' note.md
  echo '[a](../note.md#b)' | breaks '1: a link to ../note.md#b, which is not there' c/note.md
  printf '# A\n[a](#a) [b](note.md#b)\n' |
    breaks '2: a link to note.md#b, which is no heading' note.md
}

self_test_format() {
  clang-format --version 2>/dev/null | grep -q 'version 14\.' || return 0
  c_file 'int   a;' | breaks '2: not laid out' sim/a.c
}

# What must not be reported: words in strings and comments, look-alikes, sizes at their limits.
make_clean_tree() {
  mkdir -p "$tree/base" "$tree/sim/router"
  echo "files('arena.c')" >"$tree/base/meson.build"
  echo "files('listed.c')" >"$tree/sim/meson.build"
  echo 'ROUTER(by_def)' >"$tree/sim/router/routers.def"
  printf '%s\n' '# The `a`, b_c' '[d](../base/arena.c) [e](../base) `[f](g)` [h](i.md#the-a-b_c)' \
    '```' '[j](k)' '```' >"$tree/sim/i.md"
  c_file 'int by_def;' >"$tree/sim/router/by_def.c"
  c_file 'static void *memory = malloc(1);
int a = diag_hint(diag, "GPU of 2.5 GB" PRId64 "of x", b ? "a.c" : "of");' >"$tree/base/arena.c"
  {
    c_file '#include "base/arena.h"'
    cat <<'END'
#include <float.h>
// it's no sprintf( and no float
/* time( */ static const char *text = "float \" free(x)"; // it's "free(
static int run_time(int total) {
  total += '"'; // free(
END
    many 66 '  total++;'
    printf '  return total;\n}\n'
    echo "// $(many 97 é | tr -d '\n')"
    many 523 '//'
  } >"$tree/sim/listed.c"
}

self_test() {
  tree=$work/tree
  failed=0
  mkdir "$tree"
  make_clean_tree
  check_tree "$tree" >"$work/found"
  if [ -s "$work/found" ]; then
    echo 'tidy reports a clean tree:'
    cat "$work/found"
    failed=1
  fi
  self_test_text
  self_test_edges
  self_test_sources
  self_test_messages
  self_test_listed
  self_test_links
  self_test_format
  return $failed
}

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
files=$work/files
if [ "${1-}" = --self-test ]; then
  self_test
else
  check_tree "${1:-.}" >"$work/broken"
  cat "$work/broken"
  [ ! -s "$work/broken" ]
fi
