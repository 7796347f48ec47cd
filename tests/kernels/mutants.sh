#!/usr/bin/env bash
# Do the emulated tests of attention, experts and all-reduces notice a wrong kernel? Changes the
# kernels in a copy, one place at a time, each a mistake that somebody could make, and runs
# test_attention, test_moe or test_all_reduce on every one.
#
#   tests/kernels/mutants.sh [--jobs N] [--cuda FOLDER] [WORD]    WORD: only those so named
#
# Prints what noticed each; the status is 1 if one was not noticed. 77: no CUDA headers. It takes
# some minutes, so it is no part of the tests.
set -uo pipefail
usage() {
  sed -n '6s/^# *//p' "$0" >&2
  exit 2
}
jobs=2 cuda=/usr/local/cuda word=''
while (($# > 0)); do
  case $1 in
  --jobs) [[ ${2-} =~ ^[1-9][0-9]?$ ]] || usage; jobs=$2; shift 2 ;;
  --cuda) [ -n "${2-}" ] || usage; cuda=$2; shift 2 ;;
  -*) usage ;;
  *) word=$1; shift ;;
  esac
done
cd "$(dirname "$0")/../.." || exit 2
[ -f "$cuda/include/cuda_fp16.h" ] || exit 77

scratch=$(mktemp -d) || exit 2
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# --- the mutants: name, file, the text that stands in it once, what takes its place --------------

prefill=kernels/attention_prefill.cu decode=kernels/attention_decode.cu
chunk=kernels/attention_chunk.cuh wgmma=kernels/attention_wgmma.cu hopper=kernels/hopper.cuh
join=kernels/attention_join.cu splits=kernels/split_kv.h
routing=kernels/moe_routing.cu product=kernels/moe_gemm.cu combine=kernels/moe_combine.cu
reduce=kernels/all_reduce.cu
names=() files=() olds=() news=()
mutant() {
  [[ $1 == *"$word"* ]] || return 0
  names+=("$1") files+=("$2") olds+=("$3") news+=("$4")
}
# shellcheck disable=SC2016
{
  mutant 'the output of 128 rows is three times as large' $chunk \
    'float inverse = 1.0f / row_sum' 'float inverse = (m_tiles == 2 ? 3.0f : 1.0f) / row_sum'
  mutant 'the output of 64 rows is 1% too large' $chunk \
    'float inverse = 1.0f / row_sum' 'float inverse = (m_tiles == 1 ? 1.01f : 1.0f) / row_sum'
  mutant 'the second 16 rows of a warp read the q of the first' $prefill \
    'step, m * 16));' 'step, 0));'
  mutant 'the lower rows hide what the upper ones may not see' $prefill \
    'hide_row(s[m], 1, distance(first_token, row + 8));' \
    'hide_row(s[m], 1, distance(first_token, row));'
  mutant 'a tile of prefill shows one token too many' $prefill \
    'first_token + tile_tokens > all_see;' 'first_token + tile_tokens > all_see + 1;'
  mutant 'chunks see nothing of their past' $chunk \
    'chunk.first_sees = chunk.past + ' 'chunk.first_sees = '
  mutant 'prefill takes values for keys' $prefill 'index % 2 == 0 ? 0' 'index % 2 == 1 ? 0'
  mutant 'no barrier before a slot of the ring is loaded again' $prefill \
    '    __syncthreads();
    load(index + stages - 1, free);' '    load(index + stages - 1, free);'
  mutant 'the slope of ALiBi is not over the scale' $prefill \
    'args.shape.alibi_slopes[head] / args.shape.scale' 'args.shape.alibi_slopes[head]'
  mutant '64 rows where 128 are as many as run at once' $splits \
    'tiles >= wide_slots' 'tiles > wide_slots'
  mutant 'each split of a chunk goes on to its end' $prefill \
    'index + 1 == n ? chunk.context : range.end' 'chunk.context'
  mutant 'the last split ends with what the first row sees' $prefill \
    'index + 1 == n ? chunk.context : range.end' \
    'index + 1 == n ? chunk.first_sees + 1 : range.end'
  mutant 'each split of a chunk starts at its first key' $prefill \
    'chunk.first_tile = range.begin / tile_tokens;' 'chunk.first_tile = 0;'
  mutant 'results of splits lie over each other' $prefill \
    'args.splits.starts[sequence] + index * rows' 'args.splits.starts[sequence] + index'
  mutant 'granules of an odd first tile lie where those of an even one do' $prefill \
    'shared.kv_rows[tile % 2][granule]' 'shared.kv_rows[threadIdx.x / granules][granule]'
  mutant 'the greatest logit of a split is not scaled' $prefill \
    'state[m].shift[half] * args.shape.scale * log2_of_e' 'state[m].shift[half] * log2_of_e'
  mutant 'a split has the sums of a quarter of its keys' $prefill \
    'row_sum(state[m].sum[half])};' 'state[m].sum[half]};'
  mutant 'wgmma: keys are multiplied before they have come' $wgmma \
    '    mbarrier_wait(rings.keys.full(), rings.keys.parity);
    take_turn();' '    take_turn();'
  mutant 'wgmma: values are multiplied before they have come' $wgmma \
    '    mbarrier_wait(rings.values.full(), rings.values.parity);
    multiply_values();
    pass_turn();' '    multiply_values();
    pass_turn();'
  mutant 'wgmma: keys are loaded over those that are multiplied' $wgmma \
    '    mbarrier_wait(rings.keys.empty(), rings.keys.parity ^ 1);
' ''
  mutant 'wgmma: values are loaded over those that are multiplied' $wgmma \
    '    mbarrier_wait(rings.values.empty(), rings.values.parity ^ 1);
' ''
  mutant 'wgmma: values are given back before they are multiplied' $wgmma \
    '    multiply_values();
    pass_turn();' '    multiply_values();
    release(rings.values.empty());
    pass_turn();'
  mutant 'wgmma: logits are read before their products are done' $wgmma \
    '    wgmma_wait<1>();
' ''
  mutant 'wgmma: all but one group is waited for where none may be left' $wgmma \
    'wgmma_wait<0, 2>();' 'wgmma_wait<1, 2>();'
  mutant 'wgmma: sums are scaled while products add to them' $wgmma \
    '      wgmma_wait<0, 1>();
      wgmma_done(acc[0]);
      rescale_acc();' '      rescale_acc();
      wgmma_wait<0, 1>();
      wgmma_done(acc[0]);'
  mutant 'wgmma: products start without a fence' $wgmma \
    '    take_turn();
    wgmma_fence();' '    take_turn();'
  mutant 'wgmma: q is multiplied without a fence' $wgmma \
    '    cp_async_wait<0>();
    fence_async();' '    cp_async_wait<0>();'
  mutant 'wgmma: q is multiplied before all of it has come' $wgmma \
    '    fence_async();
    meet();' '    fence_async();'
  mutant 'wgmma: q is loaded over that which is multiplied' $wgmma \
    '    meet(); // q is not read any more
' ''
  mutant 'wgmma: values past the context are not wiped' $wgmma 'wipe(rings.values, tokens);' ''
  mutant 'wgmma: values are wiped from the row after the context on' $wgmma \
    'int i = tokens * chunks + lane' 'int i = (tokens + 1) * chunks + lane'
  mutant 'wgmma: what is wiped has no fence' $wgmma \
    '    fence_async();
    __syncwarp();' '    __syncwarp();'
  mutant 'wgmma: a barrier expects half of the bytes' $wgmma \
    'valid * load_rows * Of::head_dim * 2' 'valid * load_rows * Of::head_dim'
  mutant 'wgmma: the second columns of q are those of the first' $wgmma \
    'q() + block * 64 * swizzled_row_bytes + along' 'q() + along'
  mutant 'wgmma: the second columns of values are those of the first' $hopper \
    'static_cast<uint64_t>(blocks >> 4) << 16' 'static_cast<uint64_t>(0) << 16'
  mutant 'wgmma: operands have no swizzle' $hopper ' | swizzle_128 << 62' ''
  mutant 'wgmma: eights of rows are half as far apart' $hopper \
    'eight_rows = 8 * swizzled_row_bytes' 'eight_rows = 4 * swizzled_row_bytes'
  mutant 'wgmma: the lower rows see what the upper ones do' $wgmma \
    'lane % 4 * 2 - sees[1]' 'lane % 4 * 2 - sees[0]'
  mutant 'wgmma: the last token of a tile is not hidden' $wgmma \
    'first_token + Of::tile_tokens - 1 >' 'first_token + Of::tile_tokens - 2 >'
  mutant 'wgmma: the lower rows have the scale of the upper ones' $wgmma \
    'weight[i % 4 / 2]' 'weight[0]'
  mutant 'wgmma: nobody has the first turn' $wgmma 'consumer.pass_turn();' ''
  mutant 'wgmma: blocks take the same tiles on their way back' $wgmma \
    'blocks - 1 - block' 'block - block'
  mutant 'a tile is joined by the splits of a later one' $splits \
    'return past + tile * tile_rows / group + 1;' 'return past + tile * tile_rows / group + 2;'
  mutant 'the sum of a row keeps its old scale' kernels/attention.cuh \
    'state.sum[half] *= weight;' 'state.sum[half] *= 1.0f;'
  mutant 'the result of a row keeps its old scale' kernels/attention.cuh \
    'acc[n][2 * half + 1] *= weight;' 'acc[n][2 * half + 1] *= 1.0f;'
  mutant 'warps of decode take the same granules' $decode \
    'first + granule * warps * KV_GRANULE_TOKENS' 'first + granule * KV_GRANULE_TOKENS'
  mutant 'splits are summed on scales of their own' $join \
    'own.scale(partial_softmax_weight(states[i], max));' ''
  mutant 'lanes are summed on scales of their own' $join \
    'sum.rescale(fmaxf(sum.softmax.max, other));' ''
  mutant 'warps are summed on scales of their own' $join \
    'other.rescale(max);' ''
  mutant 'the sums of the last warp are left out' $join 'i < n_warps' 'i + 1 < n_warps'
  mutant 'a split is summed again for one that is not there' $join \
    'states[i].max = is_there ? states[i].max : -INFINITY;' ''
  mutant 'the join does not wait for the kernel before' $join \
    '  wait_for_kernel_before();
  if (row.n_splits == 1)' '  if (row.n_splits == 1)'
  mutant 'the join of many rows does not wait for the kernel before' $join \
    '  wait_for_kernel_before();
  if (is_there' '  if (is_there'
  mutant 'the join of many rows leaves out the last one' $join \
    'is_there = at < args.rows;' 'is_there = at + 1 < args.rows;'
  mutant 'the join of many rows leaves out the first split' $join \
    'sum_splits(args, row, column, 0, 1)' 'sum_splits(args, row, column, 1, 1)'
  mutant 'no barrier before warps are joined' $join \
    '  __syncthreads();
' ''
  mutant 'the first row of a sequence is joined as of the one before' $join \
    'row_starts[middle] <= row' 'row_starts[middle] < row'
  mutant 'rows are joined as heads of other tiles' $join \
    'args.group + head % args.group;' 'args.group;'
  mutant 'the output of the join has the columns of the first block' $join \
    'blockIdx.z * columns + ' ''
  mutant 'the last split goes on past the context' kernels/split_kv.h \
    'range.end = range.end < context ? range.end : context;' ''
  mutant 'a page of values begins where the next keys do' kernels/split_kv.h \
    'return kv_heads << page_shift;' 'return 2 * kv_heads << page_shift;'
  mutant 'of equal experts the last is better' kernels/vector.cuh \
    'b.index < a.index' 'b.index > a.index'
  mutant 'an expert is chosen again and again' $routing \
    'if (own[i].index == best.index) own[i] = {-INFINITY, TAKEN};' ''
  mutant 'shares are not over their sum' $routing 'weight / sum' 'weight'
  mutant 'sigmoids are of the distance to the best' $routing '__expf(-logit)' '__expf(best - logit)'
  mutant 'the pairs of the last warps are not counted' $routing \
    'counted.all += sums[i];' 'counted.all += i < 7 ? sums[i] : 0;'
  mutant 'rows of an expert begin one too late' $routing \
    'int32_t row = start +' 'int32_t row = start + 1 +'
  mutant 'an expert without rows takes a tile' $product \
    '(end - start + tile_rows - 1) / tile_rows : 0' '(end - start + tile_rows) / tile_rows : 0'
  mutant 'the first tile of a warp of experts is missed' $product 'up_to > tile' 'up_to > tile + 1'
  mutant 'the second group of 32 experts begins anew' $product \
    'tile -= __shfl_sync(0xffffffffu, up_to, WARP_LANES - 1);' ''
  mutant 'rows are read in the order of their tokens' $product \
    'args.moe.pairs[at] / args.moe.per_token' 'at / args.moe.per_token'
  mutant 'all experts have the weights of the first' $product \
    'static_cast<int64_t>(tile.expert) * args.n' 'static_cast<int64_t>(0) * args.n'
  mutant 'a tile writes the rows of the next expert, too' $product \
    'if (row >= tile.end) continue;' 'if (row >= tile.end + 1) continue;'
  mutant 'what lies past the depth is multiplied' $product \
    'rows[i] != nullptr && at < k' 'rows[i] != nullptr'
  mutant 'no barrier before a slot of experts is loaded again' $product '    __syncthreads();
' ''
  mutant 'the grid is of full tiles alone' $product \
    'experts + (rows - experts) / tile_rows' '(rows + tile_rows - 1) / tile_rows'
  mutant 'a choice counts as much as another' $combine 'share * x.at[i]' \
    'x.at[i] / static_cast<float>(moe.per_token) + 0.0f * share'
  mutant 'inputs are read before all ranks have come to one shot' $reduce \
    '  meet<n_ranks>(g, 0, run);
  for (int64_t i = first; i < vectors;' '  for (int64_t i = first; i < vectors;'
  mutant 'inputs are read before all ranks have come to two shots' $reduce \
    '  meet<n_ranks>(g, 0, run);
  for (int64_t i = first; i < part' '  for (int64_t i = first; i < part'
  mutant 'an input is written again while others read it' $reduce \
    '  meet<n_ranks>(g, 1, run);
  if (threadIdx.x == 0)' '  if (threadIdx.x == 0)'
  mutant 'sums of parts are read before they are there' $reduce \
    '  meet<n_ranks>(g, 1, run);
  for (int k' '  for (int k'
  mutant 'parts that no number of ranks divides are too short' $reduce \
    'part = (vectors + n_ranks - 1) / n_ranks' 'part = vectors / n_ranks'
  mutant 'the second meeting waits at the words of the first' $reduce \
    'own->arrived[meeting]' 'own->arrived[0]'
  mutant 'only the first peer is waited for' $reduce \
    'if (peer < n_ranks)
    wait_for' 'if (peer < 1)
    wait_for'
  mutant 'the number of a run does not wrap' $reduce \
    'static_cast<int32_t>(load_acquire_system(arrived) - run) >= 0' \
    'load_acquire_system(arrived) >= run'
  mutant 'ranks sum in orders of their own' $reduce \
    'static_cast<const uint4 *>(g.in[rank])[vector]' \
    'static_cast<const uint4 *>(g.in[(rank + g.rank) % n_ranks])[vector]'
  mutant 'a sum is of pairs and not of rows' $combine 'moe.rows[first + choice]' 'first + choice'
}
((${#names[@]} > 0)) || usage

# --- trying them -------------------------------------------------------------------------------

# replace FILE OLD NEW : once, else a failure.
replace() {
  OLD=$2 NEW=$3 awk '
    { text = text $0 "\n" }
    END {
      at = index(text, ENVIRON["OLD"])
      rest = substr(text, at + length(ENVIRON["OLD"]))
      if (!at || index(rest, ENVIRON["OLD"])) exit 1
      printf "%s%s%s", substr(text, 1, at - 1), ENVIRON["NEW"], rest
    }' "$1" >"$1.new" && mv "$1.new" "$1"
}

# build TREE KIND : its test_KIND. ccache, where it is, compiles what no mutant changed once.
ccache=$(command -v ccache)
export CCACHE_NOHASHDIR=1
build() {
  local cu objects=()
  cd "$1" || return
  for cu in kernels/"$2"*.cu kernels/harness.cu tests/kernels/emulator/*.cpp; do
    local options=()
    [[ $cu != *.cu ]] ||
      options=(-x c++ -DKERNEL_EMULATOR -include tests/kernels/emulator/emulator.h)
    $ccache g++ -std=c++17 -O2 -ffp-contract=off -fno-strict-aliasing -w -I. \
      -isystem "$cuda/include" "${options[@]}" -c "$cu" -o "${cu%.*}.o" || return
    objects+=("${cu%.*}.o")
  done
  for cu in tests/kernels/{test_"$2",kernel_testing,kernel_testing_emulator,expected} \
    calib/reference calib/spread kernels/half base/arena base/units; do
    $ccache gcc -std=c11 -D_GNU_SOURCE -O2 -I. -c "$cu.c" -o "$cu.o" || return
    objects+=("$cu.o")
  done
  g++ "${objects[@]}" -lm -pthread -o "test_$2"
}

# try NUMBER KIND : a line of what became of the mutant.
try() {
  local tree=$scratch/tree$1$2 said status
  cp -r "$scratch/source" "$tree" || return
  if [ "$1" != none ] && ! replace "$tree/${files[$1]}" "${olds[$1]}" "${news[$1]}"; then
    echo "STALE: ${files[$1]} does not have '${olds[$1]}' once"
    return
  fi
  if ! (build "$tree" "$2") >"$tree/log" 2>&1; then
    echo "STALE: does not compile: $(grep -m 1 error "$tree/log")"
    return
  fi
  # The first complaint is enough; its reader's end stops the test at the next.
  said=$(cd "$tree" && timeout 600 stdbuf -oL "./test_$2" 2>err | grep -m 1 -v ' 0 failed')
  status=${PIPESTATUS[0]}
  [ -n "$said" ] || said=$(head -n 1 "$tree/err")
  [ -n "$said" ] && echo "noticed: $said" || echo "SURVIVED"
  rm -rf "$tree"
  return "$status"
}

mkdir "$scratch/source" &&
  cp -r --parents kernels calib base perfmodel/operators.def tests/kernels "$scratch/source" ||
  exit 2
kind_of() {
  case ${files[$1]} in
  kernels/all_reduce.cu) echo all_reduce ;;
  kernels/moe_* | kernels/vector.cuh) echo moe ;;
  *) echo attention ;;
  esac
}
for kind in $(for i in "${!files[@]}"; do kind_of "$i"; done | sort -u); do
  said=$(try none "$kind")
  [ "$said" = SURVIVED ] && continue
  echo "without a mutant: $said" >&2
  exit 2
done
for ((i = 0; i < ${#names[@]}; i++)); do
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
  try "$i" "$(kind_of "$i")" >"$scratch/said$i" &
done
wait
missed=0
for ((i = 0; i < ${#names[@]}; i++)); do
  said=$(cat "$scratch/said$i")
  echo "${names[$i]}: $said"
  [[ $said == noticed:* ]] || missed=$((missed + 1))
done
echo "$((${#names[@]} - missed)) of ${#names[@]} noticed"
((missed == 0))
