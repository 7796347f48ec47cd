#!/bin/sh
# Help fits a screen and goes to stdout; wrong usage is one line on stderr and exit code 2.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# import_vllm_bench is 'import vllm-bench', which stands beside 'import'.
commands=$(sed -n 's/^COMMAND(\(.*\))/\1/p' "$source_dir/experiments/commands/commands.def" |
  sed 's/_/ /; s/_/-/g')
expect 0 "$tandem" --help
echo "$commands" | while read -r first second; do
  grep -q "^  $first .*${second:+[[|]$second[]|]}" out || fail "'$first $second' is not listed"
done || exit 1
newline='
'
IFS=$newline # names may have two words
for command in '' $commands; do
  unset IFS
  # shellcheck disable=SC2086 # '' is no argument
  expect 0 "$tandem" $command --help
  [ ! -s err ] || fail 'something on stderr'
  screens=1
  [ "$command" != plan ] || screens=2 # a question has many parts
  [ "$(wc -l <out)" -le $((screens * 24)) ] || fail "$(wc -l <out) lines of help"
  [ "$(wc -L <out)" -le 100 ] || fail 'wider than 100 columns'
  prints 'usage: tandem'
  prints 'example: tandem'
  grep -q '  --help  *this text' out || [ -z "$command" ] || fail 'no word of --help'
  [ -z "$command" ] || prints 'exit codes: 0'
done
# Only the cpu backend starts a library's threads, which take address space by themselves.
case $(ldd "$tandem") in
*openblas*) fail 'it links OpenBLAS' ;;
*libasan* | *libtsan*) ;;
*) expect 0 sh -c 'ulimit -v 100000 && exec "$0" --version' "$tandem" ;;
esac
expect 0 "$tandem" --version
prints 'tandem 0.'

# Every option that --help shows is understood: it is not what is said to be unknown. Nothing runs.
IFS=$newline
for command in $commands; do
  unset IFS
  # shellcheck disable=SC2086 # two words are two arguments
  "$tandem" $command --help | sed -n 's/^  \(--*[a-z-]*\)  *.*/\1/p' | grep -vx -e --help >options
  [ -s options ] || fail "no options in the help of $command"
  while read -r option; do
    "$tandem" $command "$option=" --no-such-option >out 2>err
    if grep -q "unknown option '$option'" err; then fail "$command does not know $option"; fi
  done <options
done

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
prints 'default: GPUs of the machine type divided by the other degrees'
[ "$(wc -l <out)" -eq 3 ] || fail 'a part of a name is in more than one key'
expect 0 "$tandem" list units
prints "s, ps, ns, us, ms, min, h, d"
expect 0 "$tandem" list perfmodels
prints 'splitwise-sim'
expect 0 "$tandem" list perfmodels --engine splitwise-2023 --model bloom --tp 4
says 'there are no measurements for all of that; there are 3 without --model, 3 without --tp'

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
