#!/bin/sh
# `pip install` of the source tree into an environment of its own gives a package that finds its
# program, and a program that finds its data. Where pip cannot get what it builds with in a minute,
# there is nothing to test it with.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
python=$1

"$python" -m venv env >out 2>&1 || exit 77
pip() { timeout "$@" </dev/null; }
pip 60 env/bin/pip install --retries 0 --timeout 15 meson-python ninja meson >out 2>&1 || {
  tail -1 out
  exit 77
}
# Unoptimised, as it is quicker; outcomes are the same.
PATH=$work/env/bin:$PATH
expect 0 timeout 1000 env/bin/pip install --no-build-isolation --no-deps "$source_dir" \
  --config-settings=setup-args=-Dbuildtype=debug --config-settings=build-dir="$work/wheel"
unset TANDEM TANDEM_DATA
tandem=$work/env/bin/tandem
expect 0 env/bin/python -c 'import tandem; print(tandem.program())'
prints "$work/env/bin/tandem"

# It is the program that stands in the source tree, on data of its own.
cp env/share/tandem/perfmodel/machines/dgx-h100.yaml env/share/tandem/perfmodel/machines/mine.yaml
expect 0 "$tandem" list machines
prints 'mine '
expect 0 "$tandem" run env/share/tandem/experiments/examples/mooncake.yaml
expect 0 "$TANDEM_BINARY" --version
epoch=$(sed 's/.*outcome epoch //' out)
expect 0 "$tandem" --version
prints "outcome epoch $epoch"

export TANDEM_INSTALLED=1
expect 0 env/bin/python "$source_dir/tests/python/view.py"
if pip 60 env/bin/pip install --retries 0 --timeout 15 pandas >out 2>&1; then
  expect 0 env/bin/python "$source_dir/tests/python/tables.py"
fi
finish
