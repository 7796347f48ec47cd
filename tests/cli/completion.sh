#!/bin/sh
# Completion: bash, zsh and fish themselves complete command lines, by what 'tandem help --words'
# says. Those that are not installed are left out; with none of them the test is skipped.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

rejects 2 "$tandem" help --completion csh
says "'bash', 'zsh' or 'fish'"
shells=
for shell in bash zsh fish; do
  expect 0 "$tandem" help --completion "$shell"
  cp out "$shell.completion"
  command -v "$shell" >/dev/null && shells="$shells $shell"
done
[ -n "$shells" ] || exit 77
touch trace.csv

# Each of them reads LINE\tWORD... from `lines`, and prints "== LINE" and what completes it.
cat >bash.run <<'END'
. ./bash.completion
while IFS=$'\t' read -r line rest; do
  echo "== $line"
  COMP_LINE=$line COMP_POINT=${#line}
  _tandem
  printf '%s\n' "${COMPREPLY[@]}"
done <lines
END
cat >fish.run <<'END'
source fish.completion
while read -d \t -l line rest
  echo "== $line"
  complete -C "$line" | string replace -r '\t.*' ''
end <lines
true
END
# In zsh completion needs a terminal, which zpty makes; what would be listed is printed instead.
cat >zsh.run <<'END'
zmodload zsh/zpty
fpath=($PWD $fpath)
zpty shell zsh -f -i
zpty -w shell 'PROMPT= RPROMPT=; autoload -Uz compinit; compinit -u -D; source ./zsh.completion
compadd() {
  local -a found
  builtin compadd -O found "$@"
  (( $#found )) && print -rl -- $found >>answers
  builtin compadd "$@"
}
show() { compstate[insert]= compstate[list]=; }
whole() {
  print -r -- "== $BUFFER" >>answers
  comppostfuncs=(show)
  zle complete-word
  BUFFER=
  print -r -- "-- done"
}
zle -N whole
bindkey "^I" whole
print ready to "go"'
until zpty -r shell answer && [[ $answer == *'ready to go'* ]]; do :; done
while IFS=$'\t' read -r line rest; do
  zpty -wn shell "$line"$'\t'
  until zpty -r shell answer && [[ $answer == *'-- done'* ]]; do :; done
done <lines
cat answers
zpty -d shell
END

# What of each line the words that complete it must be: all of these, and with '=' these alone.
cat >expected <<'END'
que	= query
run a.yaml --	--set --strict --help
run --format 	table json vllm
run --format=cs	= --format=csv
report measured --fo	= --format
report m	= measured
help prov	= provision
list rou	= routers
list --model qwen3-3	qwen3-32b
plan --gpu h	h100-80gb h200-141gb
plan --gpu h100,mi35	h100,mi355x-x8
plan --engine sg	= sglang-0.5
plan --export v	= vllm
query a.db ans	= answers
run a.yaml --set work	workload.arrivals.rate=
run a.yaml --set policies.router=	policies.router=jsq policies.router=llm_d
run a.yaml --set pools.front.machine=dgx-h2	= pools.front.machine=dgx-h200
run a.yaml --set model=mix	= model=mixtral-8x7b
run a.yaml --set pools.a.role=pre	= pools.a.role=prefill
trace tr	= trace.csv
plan --trace tr	= trace.csv
END
sed "s|^|$tandem |" expected >lines

# judge SHELL : its answers, in the file out.
judge() {
  tab=$(printf '\t')
  while IFS="$tab" read -r line words; do
    awk -v line="== $line" '/^== / { on = $0 == line; next } on && NF' out | sort -u >got
    alone=
    for word in $words; do
      if [ "$word" = = ]; then
        alone=yes
        continue
      fi
      # Bash takes what stands before '=' as said.
      if [ "$1" = bash ]; then word=$(echo "$word" | sed 's/\(.*=\)\(.\)/\2/'); fi
      grep -qx -e "$word" got || fail "$1: '$line' is not completed by '$word': $(head -c 300 got)"
    done
    [ -z "$alone" ] || [ "$(cat got)" = "$word" ] ||
      fail "$1: '$line' is completed by more than '$word': $(head -c 300 got)"
  done <lines
}
for shell in $shells; do
  case $shell in
  bash) # the shell itself adds files, where it may
    grep -v 'trace.csv' lines >some && cp lines all && cp some lines
    expect 0 bash --norc bash.run
    ;;
  zsh) expect 0 zsh -f zsh.run ;;
  fish) expect 0 env HOME="$work" fish --no-config fish.run ;;
  esac
  [ ! -s err ] || fail 'something on stderr'
  judge "$shell"
  [ "$shell" != bash ] || cp all lines
done

finish
