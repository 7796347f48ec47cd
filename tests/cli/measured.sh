#!/bin/sh
# `tandem report measured` on a few rows: all formats, a configuration that runs as it is, reasons,
# and what is wrong with a file of rows.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# Columns, and the cells of a row without split pools.
pool='tp_size pp_size attention_dp_size moe_tp_size moe_ep_size'
header=$(echo id silicon_data_source concurrency backend backend_version model_path system \
  precision mode isl osl $pool prefill_num_workers decode_num_workers \
  $(for name in $pool; do echo "prefill_$name decode_$name"; done) silicon_ttft_ms \
  silicon_tpot_ms | tr ' ' ,)
none=,,,,,,,,,,,,
{
  echo "$header"
  rest="h100_sxm,fp8,agg,1024,128,8,1,1,8,1$none,100,10"
  echo "one,dump,8,vllm,0.11.0,meta-llama/Llama-3.1-70B,$rest"
  echo "=two,dump,8,vllm,0.11.0,some/<b>model,$rest"
} >rows.csv
report() { expect 0 "$tandem" report measured --rows rows.csv --perfmodel roofline "$@"; }

report
prints 'inferencex: 2 points, 1 held out, 0 fitted, 1 missing'
prints "1  the model 'some/<b>model' is not known"
report --format csv
[ "$(wc -l <out)" -eq 3 ] || fail 'not a line a row'
prints "'=two,"
sed -n 2p out | grep -q '^one,.*,0,0,,,$' || fail 'no figures, or a reason, in the first row'
gzip -k rows.csv
expect 0 "$tandem" report measured --rows rows.csv.gz --perfmodel roofline --format csv --jobs 3
cp out all
report --format csv
cmp -s out all || fail 'another file, or other threads, give other rows'
report --format json
prints '"id": "one"'
report --format html -o page.html
[ ! -s out ] || fail 'the page is on stdout too'
grep -q '&#60;b&#62;model' page.html || fail 'text is not escaped'
! grep -q '://' page.html || fail 'the page needs a network'
report --format markdown
prints '| inferencex | vllm | H100 | meta-llama/Llama-3.1-70B, fp8 |'
report --model Llama --mode agg
prints '1 points, 1 held out'

report --id one --format csv
[ "$(wc -l <out)" -eq 2 ] || fail 'not one row'
sed -n 2p out | grep -q '^one,' || fail 'another row'
rejects 3 "$tandem" report measured --rows rows.csv --id on
says "there is no point with the id 'on'"

if command -v gnuplot >/dev/null; then
  report --figure figure.svg
  grep -q '</svg>' figure.svg || fail 'no figure'
fi
rejects 2 "$tandem" report measured --rows rows.csv --figure figure.pdf

# Another tool's predictions, by id: of "one" a third of what was measured, of others none.
printf 'id,x_ttft_ms,x_tpot_ms,note\none,33.3333333,13,a\n=two,1,1,b\nfour,1,1,c\n' >others.csv
report --against others.csv --columns x_ --format csv
grep -q '^vllm,h100_sxm,meta-llama/Llama-3.1-70B,fp8,agg,1,[^,]*,0.3,[^,]*,0.3,' out ||
  fail 'not off by 30%'
grep -q '^all,,,,,1,' out || fail 'not one point in all'
awk -F, '$1 == "all" { exit !($13 >= 0.66666 && $13 <= 0.66667) }' out ||
  fail 'not off by two thirds'
report --against others.csv --columns x_
prints '0 points have a prediction here alone, 1 there alone'
report --against others.csv --columns x_ --format json
python3 -c "import json; rows = json.load(open('out')); assert len(rows) == 4, rows" ||
  fail 'not one group and three totals'
rejects 3 "$tandem" report measured --rows rows.csv --against others.csv
says "missing column 'ttft_ms'"
rejects 2 "$tandem" report measured --rows rows.csv --against others.csv --format html
rejects 2 "$tandem" report measured --rows rows.csv --columns x_

report --config one
cp out one.yaml
expect 0 "$tandem" run one.yaml
prints '80 completed'
rejects 3 "$tandem" report measured --rows rows.csv --config =two
says "'=two' has no configuration: the model"
rejects 3 "$tandem" report measured --rows rows.csv --config three
says "there is no point with the id 'three'"

# A split row without numbers of instances, and one whose clients no list has.
{
  echo "$header"
  for clients in 4 5; do
    echo "split$clients,dump,$clients,sglang,0.5.8.post1,deepseek-ai/DeepSeek-R1,gb200,fp8,disagg,\
1024,1024,,,,,,,,4,4,1,1,1,1,4,4,1,1,500,9"
  done
} >split.csv
expect 0 "$tandem" report measured --rows split.csv --perfmodel roofline
prints 'with numbers of instances that their rows leave out:'
prints '1  the one deployment that InferenceX lists for its columns'
prints 'numbers of prefill and decode instances are not given: none that InferenceX lists fits'
expect 0 "$tandem" report measured --rows split.csv --perfmodel roofline --format csv
grep -q '^split4,.*,disagg,tp4 | tp4,8,.*,the one deployment that InferenceX lists' out ||
  fail 'not solved for, or it does not say so'

sed '1s/isl,//' rows.csv >bad.csv
rejects 3 "$tandem" report measured --rows bad.csv
says "'isl'"
printf '\037\213 no gzip' >bad.csv
rejects 3 "$tandem" report measured --rows bad.csv
rejects 4 "$tandem" report measured --rows absent.csv
rejects 2 "$tandem" report measured
rejects 2 "$tandem" report measured folder --rows rows.csv
rejects 2 "$tandem" report measured folder --set inference
says "did you mean 'inferencex'?"
finish
