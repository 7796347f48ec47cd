#!/bin/sh
# Every option of every command has a line of help of its own. Help goes to stdout; wrong usage is
# one line on stderr and exit code 2.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# import_vllm_bench is 'import vllm-bench', which stands beside 'import'.
commands=$(sed -n 's/^COMMAND(\(.*\))/\1/p' "$source_dir/experiments/commands/commands.def" |
  sed 's/_/ /; s/_/-/g')
expect 0 "$tandem" --help
echo "$commands" | while read -r command; do
  grep -q "^  $command   *[a-z]" out || fail "'$command' is not listed"
done || exit 1
[ "$(grep -c '^  [a-z].*  [a-z]' out)" -eq "$(echo "$commands" | wc -l)" ] || fail 'more is listed'
newline='
'
IFS=$newline # names may have two words
for command in '' $commands; do
  unset IFS
  # shellcheck disable=SC2086 # '' is no argument
  expect 0 "$tandem" $command --help
  [ ! -s err ] || fail 'something on stderr'
  [ "$(wc -L <out)" -le 80 ] || fail 'wider than 80 columns'
  prints 'usage: tandem'
  prints '  tandem '
  [ -n "$command" ] || continue
  for heading in 'Exit codes:' 'Examples:' '  -h, --help  print this text' '  130  interrupted'; do
    prints "$heading"
  done
  # The table of a command gives both its completion and what it accepts.
  # shellcheck disable=SC2086 # two words are two arguments
  "$tandem" help --words $command - | sed 's/\t.*//; /^--help$/d' >options
  [ -s options ] || fail 'no option is completed'
  while read -r option; do
    [ "$(grep -c -e "^  $option\( \|\$\)" out)" -eq 1 ] || fail "'$option' has no line of its own"
    # shellcheck disable=SC2086 # two words are two arguments
    "$tandem" $command "$option=" --no-such-option >parsed 2>&1
    if grep -q "unknown option '$option'" parsed; then fail "'$option' is not accepted"; fi
  done <options
  [ "$(grep -c '^  -' out)" -eq $(($(wc -l <options) + 1)) ] || fail 'more options than accepted'
done

# The manual page has the same rows. What explains a name is a sentence or a noun phrase.
expect 0 "$tandem" help --man
awk '/^\.TP$/ { getline name; getline; print name ": " $0 }' out | tr -d '\\' >rows
[ "$(wc -l <rows)" -gt 200 ] || fail "only $(wc -l <rows) rows in the manual page"
grep -v ': [[:alpha:]]' rows && fail 'a text that does not begin with a letter'
grep -iE '^[^:]*: (of|what|who|whose|which|that|where|whether|how) ' rows &&
  fail 'a text that is a fragment'

# Only the cpu backend starts a library's threads, which take address space by themselves.
case $(ldd "$tandem") in
*openblas*) fail 'it links OpenBLAS' ;;
*libasan* | *libtsan*) ;;
*) expect 0 sh -c 'ulimit -v 100000 && exec "$0" --version' "$tandem" ;;
esac
expect 0 "$tandem" --version
prints 'tandem 0.'

# misused TEXT ARGUMENT... : exit code 2, one message with TEXT on stderr.
misused() {
  text=$1
  shift
  rejects 2 "$tandem" "$@"
  says "$text"
  [ "$(wc -l <err)" -le 2 ] || fail 'more than a message and a hint'
}
misused 'missing COMMAND; see'
misused "unknown command 'rnu'" rnu
says "did you mean 'run'?"
misused 'missing argument CONFIG' run
misused "unexpected argument 'b'" run a b
misused "unknown option '--ouput'" run a --ouput=b
says "did you mean '--output'?"
misused "'--output' needs a value" run a --output
misused "'--step' takes no value" run a --step=1
misused "'--seed' must be at least 0, not '-1'" run a --seed -1
misused "'--seed' must be a whole number such as '8192', not '1x'" run a --seed=1x
misused "'--jobs' must be from 1 to 1024, not '0'" sweep a --jobs 0
misused "'--budget' must be a time such as '120 s', not '90'" calibrate --budget 90
misused "'--memory' must be a size" run a --memory '3 s'
misused "unknown --format 'xml'" run a --format xml
says "choose from 'table', 'csv', 'json'"
misused "'-o FILE' is missing" plot fit a
misused "'--requests' needs '--output'" run a --requests
misused 'exclude each other' query a summary --sql 'SELECT 1'
misused "unknown list 'router'" list router
says "did you mean 'routers'?"
misused "no key has 'itl' in its name" list options itl
misused "unexpected argument 'itl'" list routers itl
misused "'--format' needs 'options'" list routers --format markdown
misused 'FILE' trace

# Lists name what configurations name.
expect 0 "$tandem" list
for name in token_jsq splitwise_mixed layerwise recompute bloom-176b dgx-h100 azure-conv-2023 \
  mooncake; do prints "$name"; done
expect 0 "$tandem" list batchers
prints 'max_num_seqs'
expect 0 "$tandem" list options
prints '  gpu_memory_utilization (number, 0.01 to 1; default: 0.9)'
prints 'policies.batcher, vllm:'
prints 'MACHINE.yaml:'
expect 0 "$tandem" list options pools.NAME.tensor
prints "default: GPUs of the instance's machines divided by the other degrees"
[ "$(wc -l <out)" -eq 3 ] || fail 'a part of a name is in more than one key'
expect 0 "$tandem" list units
prints "s, ps, ns, us, ms, min, h, d"
expect 0 "$tandem" list perfmodels
prints 'splitwise-sim'
expect 0 "$tandem" list perfmodels --engine splitwise-2023 --model bloom --tp 4
says 'no performance model matches all filters; there are 3 without --model, 3 without --tp'
expect 0 "$tandem" list perfmodels --gpu h20
prints 'h20-96gb           has no tables: times of h100-80gb by the ratio of peaks'
grep -q 'tables of h200' out && fail 'an h20 is no h200'
expect 0 "$tandem" list perfmodels --gpu h20-96gb --model llama3.1-8b --engine vllm --tp 1
prints 'times by the ratio of peaks of h100-80gb (100% of the time)'
expect 0 "$tandem" list perfmodels --gpu h20-96gb --model llama3.1-8b --weights nvfp4
says 'no performance model matches all filters'
expect 0 "$tandem" list perfmodels --gpu mi355x
says 'no performance model matches all filters'

# An installed program reads the data that was installed with it.
mkdir -p bin share/tandem
cp "$tandem" bin/
cp -r "$source_dir/perfmodel" share/tandem/
cp share/tandem/perfmodel/machines/dgx-h100.yaml share/tandem/perfmodel/machines/installed.yaml
expect 0 bin/tandem list machines
prints 'installed '
expect 0 env TANDEM_DATA="$source_dir" bin/tandem list machines
if grep -q 'installed ' out; then fail 'TANDEM_DATA was not heeded'; fi

# A full disk behind stdout is not success.
if [ -w /dev/full ]; then
  "$tandem" list >/dev/full 2>err
  [ $? -eq 4 ] || fail 'a full stdout is not exit code 4'
  says 'cannot write to standard output'
fi

finish
