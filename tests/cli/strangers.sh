#!/bin/sh
# Names, files and databases from strangers: nothing in them is run, nothing of them reaches the
# terminal that could command it, nothing more than a line of a file is shown, and no file that is
# read is written over.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

escape=$(printf '\033[2J')
ran=$work/ran
# What would run in gnuplot or a shell if it were taken for a command.
newline="a
system \"touch $ran\"
!touch $ran
b"
quote="a'; system \"touch $ran\" #\"; system 'touch $ran' #"
backtick="a\`touch $ran\`\$(touch $ran)"
enhanced="a_{b}@x^2%s\\"

# harmless : the last command ran nothing of that, and printed no control character.
harmless() {
  [ ! -e "$ran" ] || fail 'a name was run'
  rm -f "$ran"
  for stream in out err; do
    [ "$(tr -d '\n' <"$stream" | tr -dc '\000-\037\177' | wc -c)" -eq 0 ] ||
      fail 'control characters are printed'
    if command -v iconv >/dev/null; then
      iconv -f UTF-8 -t UTF-8 "$stream" >/dev/null 2>&1 || fail 'what is printed is no UTF-8'
    fi
  done
}

# limited BLOCKS COMMAND... : as on a disk with room for so many blocks of 512 bytes in a file.
limited() (
  ulimit -f "$1"
  shift
  exec "$@"
)

# --- pictures: every text that comes near gnuplot

cat >rates.yaml <<'END_OF_FILE'
model: llama2-70b
workload:
  lengths: {prompt: {constant: 500}, output: {constant: 20}}
  arrivals: {process: fixed, rate: 4 /s}
  requests: 40
pools:
  prefill: {role: prefill, machine: dgx-h100}
  decode: {role: decode, machine: dgx-h100}
policies: {router: splitwise}
slo: splitwise
sweep:
  design: {small: {}, marker: {pools.prefill.count: 2}}
  workload.arrivals.rate: [2 /s, 4 /s]
END_OF_FILE
fitted=$(ls "$source_dir"/perfmodel/fitted/splitwise-2023/*.yaml | head -1)
if command -v gnuplot >/dev/null; then
  expect 0 "$tandem" sweep rates.yaml --output rates.db
  mkdir home
  printf 'system "touch %s"\n' "$ran" | tee home/.gnuplot >home/.gnuplotrc
  for text in "$newline" "$quote" "$backtick" "$enhanced" "$escape"; do
    file=$(printf %s "$text" | tr / :) # as far as it can name a file
    # The database and the picture.
    cp rates.db "$file.db"
    expect 0 env HOME="$work/home" "$tandem" plot rates "$file.db" -o "$file.svg"
    harmless
    grep -q '</svg>' "$file.svg" || fail 'no picture of that name'
    # The file of a model.
    cp "$fitted" "$file.yaml"
    expect 0 "$tandem" plot fit "$file.yaml" -o "$file.svg"
    harmless
    # A picture that cannot be: the name is in what is said.
    rejects 4 "$tandem" plot rates "$file.db" -o "absent/$file.svg"
    harmless
    rejects 4 "$tandem" plot rates "absent$file.db" -o "$file.svg"
    harmless
    # The heading, from inside of the model's file.
    case $text in
    "$newline" | "$escape") continue ;; # refused below
    esac
    printf '%s\n' "$text" |
      sed "s/'/''/g; s/.*/s|^model:.*|model: '&'|/; s/\\\\/\\\\\\\\/g" >edit.sed
    sed -f edit.sed "$fitted" >heading.yaml
    grep -qF 'model: '"'a" heading.yaml || fail 'the heading was not set'
    expect 0 "$tandem" plot fit heading.yaml -o heading.svg
    harmless
  done
  # The name of a design, in a database that somebody sent.
  if command -v python3 >/dev/null; then
    for text in "$newline" "$quote" "$backtick" "$enhanced" "$escape" END '$text << END'; do
      cp rates.db design.db
      python3 -c 'import sqlite3, sys
db = sqlite3.connect("design.db")
db.execute("UPDATE point_value SET value = ? WHERE value = ?", (sys.argv[1], "marker"))
db.commit()' "$text"
      expect 0 "$tandem" plot rates design.db -o design.svg
      harmless
      shown=$(printf %s "$text" | tr '\n\033' '  ' | sed 's/[<]/\&lt;/g' | cut -c1-6)
      grep -qF -- "$shown" design.svg || fail "the design '$shown' is not in the picture"
      for format in table csv json; do
        expect 0 "$tandem" query design.db --format "$format" \
          --sql 'SELECT DISTINCT value, length(value) FROM point_value'
        harmless
      done
    done
  fi
  # A picture that does not fit on the disk is an error, and is not there.
  for end in png svg; do
    rejects 4 limited 4 "$tandem" plot fit "$fitted" -o "full.$end"
    says "full.$end: error: cannot write"
    [ "$(ls | grep -c '^full')" -eq 0 ] || fail 'a part of a picture'
  done
  ln -s /dev/full full.png
  rejects 4 "$tandem" plot fit "$fitted" -o full.png
  says "full.png: error: cannot write 'full.png': No space left"
  mkfifo pipe.svg
  cat pipe.svg >piped.svg &
  expect 0 "$tandem" plot fit "$fitted" -o pipe.svg
  wait $!
  grep -q '</svg>' piped.svg || fail 'no picture through a pipe'
  rejects 3 "$tandem" plot fit heading.yaml heading.svg -o heading.svg
  says "'heading.svg' is also an input file"
fi

# --- names in YAML are refused where they stand

# named LINE:COLUMN SED-SCRIPT : the configuration, edited, has a name with a control character.
named() {
  config | sed "$2" >named.yaml
  rejects 3 "$tandem" run named.yaml --check
  says "named.yaml:$1: error: "
  says 'a control character'
  harmless
}
for character in '\\n' '\\e' '\\u009b' '\\x7f'; do
  named 7:3 "s/^  all:/  \"a$character\":/"
  named 1:8 "s/^model:.*/model: \"llama2-70b$character\"/"
  named 7:31 "s/machine: dgx-h100/machine: \"dgx-h100$character\"/"
  named 3:12 "s/lengths: .*/lengths: \"azure-conv-2023$character\"/"
  named 9:11 "s/router: jsq/router: \"jsq$character\"/"
  sed "s/marker/\"a$character\"/" rates.yaml >named.yaml
  rejects 3 "$tandem" sweep named.yaml --output named.db
  says 'named.yaml:12:23: error: a key holds a control character'
done
config >good.yaml
rejects 3 "$tandem" run good.yaml --check --set "pools.a$escape.count=1"
says '--set:1:7: error: a key holds a control character or is not UTF-8'
harmless
rejects 3 "$tandem" run good.yaml --check --set "pools.$(printf 'a\360')=1"
says 'is not UTF-8'

# --- what is said of a file is no more than a line of it

{
  echo 'time,secret'
  awk 'BEGIN { for (i = 0; i < 5000; i++) print "secret" i ",1" }'
} >secret.csv
for command in 'run' 'sweep --output s.db' 'provision --output s.db' 'plot fit -o s.svg'; do
  # shellcheck disable=SC2086 # words
  rejects 3 "$tandem" $command secret.csv
  [ "$(wc -c <err)" -lt 400 ] || fail 'too much of a file'
  if grep -q 'secret[0-9]' err; then fail 'more than a line of a file'; fi
done
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "x" }' >long.yaml
rejects 3 "$tandem" run long.yaml
[ "$(wc -c <err)" -lt 1000 ] || fail 'too much of a long line'

# --- paths in what is printed

bad=$(printf 'a\033[2J\n\233')
cp good.yaml "$bad.yaml"
cp "$source_dir/traces/sample/azure_sample.csv" "$bad.csv"
for format in table csv json; do
  expect 0 "$tandem" run "$bad.yaml" --output "$bad.db" --format "$format"
  harmless
  expect 0 "$tandem" trace "$bad.csv" --format "$format"
  harmless
  if command -v python3 >/dev/null && [ "$format" = json ]; then
    python3 -c 'import json; json.load(open("out", encoding="utf-8"))' 2>err || fail 'no JSON'
  fi
done
expect 0 "$tandem" run "$bad.yaml" --check
harmless
rejects 2 "$tandem" run "$bad.yaml" "$bad"
harmless
rejects 2 "$tandem" "$bad"
harmless
expect 0 "$tandem" merge "$bad-all.db" "$bad.db"
harmless

# Cells that a spreadsheet would run.
expect 0 "$tandem" query "$bad.db" --format csv \
  --sql "SELECT '=1+1' AS '=a', '-1' AS b, -1 AS c, '@x'"
[ "$(tail -1 out)" = "'=1+1,-1,-1,'@x" ] || fail 'a formula in a cell'
[ "$(head -1 out | cut -d, -f1)" = "'=a" ] || fail 'a formula in the head'

# --- outputs are whole or not there, and are never what is read

expect 0 "$tandem" run good.yaml --event-log log.csv
cp log.csv whole.csv
rejects 4 limited 8 "$tandem" run good.yaml --event-log log.csv --set workload.requests=4000
says "log.csv: error: cannot write 'log.csv'"
cmp -s log.csv whole.csv || fail 'a full disk took the log that was there'
rejects 4 limited 8 "$tandem" run good.yaml --event-log other.csv --set workload.requests=4000
[ "$(ls | grep -c '^other')" -eq 0 ] || fail 'a part of a log'
rejects 4 "$tandem" run good.yaml --event-log absent/log.csv
says 'No such file'
rejects 4 "$tandem" run good.yaml --event-log /dev/full
"$tandem" run good.yaml --event-log /dev/stdout >both 2>err || fail 'a log on stdout'
head -n "$(wc -l <whole.csv)" both | cmp -s - whole.csv || fail 'the log is not on stdout'
grep -q '^digest' both || fail 'the log was written over what the run printed'

cp "$source_dir/traces/sample/azure_sample.csv" trace.csv
sed 's/^  lengths:.*/  trace: trace.csv/; /^  arrivals:/d; /^  requests:/d' good.yaml >replay.yaml
expect 0 "$tandem" run replay.yaml --output replay.db
ln -s trace.csv link.csv
ln trace.csv hard.csv
cp trace.csv before.csv
for log in trace.csv ./trace.csv link.csv hard.csv; do
  rejects 3 "$tandem" run replay.yaml --event-log "$log"
  says "replay.yaml:3:10: error: '--event-log' would overwrite 'trace.csv'"
done
rejects 3 "$tandem" run replay.yaml --event-log replay.yaml
rejects 3 "$tandem" run replay.yaml --output replay.db --event-log replay.db
says "'replay.db' is also an input file"
cmp -s trace.csv before.csv || fail 'the trace was written over'

{
  printf 'model,hardware,prompt_size,batch_size,token_size,peak_power,average_power,'
  echo 'prompt_time,token_time,e2e_time,tensor_parallel'
  for size in 128 256 512; do
    echo "llama2-70b,h100-80gb,$size,1,128,0,0,$((20 + size / 8)),30,9999,8"
  done
} >source.csv
cp source.csv before.csv
rejects 3 "$tandem" import splitwise-sim source.csv -o source.csv
says "source.csv: error: 'source.csv' is also an input file"
cmp -s source.csv before.csv || fail 'an import wrote over what it read'
expect 0 "$tandem" import splitwise-sim source.csv -o profile.csv
cp profile.csv before.csv
rejects 3 "$tandem" check profile.csv --drop profile.csv
rejects 4 limited 1 "$tandem" import splitwise-sim source.csv -o profile.csv
cmp -s profile.csv before.csv || fail 'a full disk took the profile that was there'
[ "$(ls -A | grep -c '\.new$')" -eq 0 ] || fail 'something is left beside'

# --- what lies beside an output: links there are not followed, names may be as long as any

ln -s victim linked.db-sweep
rejects 4 "$tandem" sweep rates.yaml --output linked.db
says "cannot make 'linked.db-sweep': it is a link"
ln -s victim linked.csv-calibration
rejects 4 "$tandem" calibrate --backend fake --model llama3-8b --only norm -o linked.csv
says "cannot make 'linked.csv-calibration': it is a link"
rm linked.csv-calibration
echo kept >kept
ln -s kept linked.csv.new
"$tandem" calibrate --backend fake --model llama3-8b --only norm -o linked.csv >out 2>err
[ ! -e victim ] && [ "$(cat kept)" = kept ] || fail 'a link was followed'
long=$(printf '%0251d' 0)
expect 0 "$tandem" import splitwise-sim source.csv -o "$long.csv"
"$tandem" calibrate --backend fake --model llama3-8b --only norm -o "$long.cal" >out 2>err
[ -s "$long.csv" ] && [ -s "$long.cal" ] || fail 'a long name is not written'
rejects 3 "$tandem" sweep rates.yaml --output "$long.dbs"
says 'at most 247 bytes'
finish
