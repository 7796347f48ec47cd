/* From a router's logits to rows by expert, in two kernels: a warp per token picks its experts, a
 * block per expert finds its pairs. Every block of the second reads all choices (8192 tokens of 8
 * choices are 256 KB, which lie in the L2 cache) and needs no other block, nor atomics, whose order
 * would change the rows from run to run. */
#include "kernels/moe.h"
#include "kernels/vector.cuh"

#include <math.h>

namespace {

constexpr int ROUTING_WARPS = 4, PLACING_THREADS = 256;
constexpr int PLACING_WARPS = PLACING_THREADS / WARP_LANES;
constexpr int32_t TAKEN = INT32_MAX;

/* A choice's share before all are divided by their sum; the first choice is the best. */
__device__ __forceinline__ float weight_of(CalibRouter router, float logit, float best) {
  return router == CALIB_SIGMOID ? 1.0f / (1.0f + __expf(-logit)) : __expf(logit - best);
}

/* Lane i has experts i, i + 32, …; the choices are kept by the lanes of their numbers. */
template <class T, int per_lane>
__global__ void __launch_bounds__(ROUTING_WARPS *WARP_LANES)
    moe_choose_kernel(const KernelMoe moe, const typename T::Element *logits) {
  const int lane = static_cast<int>(threadIdx.x) % WARP_LANES;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * ROUTING_WARPS + threadIdx.x / WARP_LANES;
  if (token >= moe.tokens) return;
  Best own[per_lane];
#pragma unroll
  for (int i = 0; i < per_lane; i++) {
    const int32_t expert = i * WARP_LANES + lane;
    const bool exists = expert < moe.experts;
    const float logit = exists ? T::load(logits[token * moe.experts + expert]) : -INFINITY;
    own[i] = {isnan(logit) ? -INFINITY : logit, exists ? expert : TAKEN};
  }
  float sum = 0, first = 0, weight = 0;
  int32_t chosen = 0;
  for (int32_t choice = 0; choice < moe.per_token; choice++) {
    Best best = own[0];
#pragma unroll
    for (int i = 1; i < per_lane; i++)
      best = better(best, own[i]);
    best = warp_best(best);
#pragma unroll
    for (int i = 0; i < per_lane; i++)
      if (own[i].index == best.index) own[i] = {-INFINITY, TAKEN};
    if (choice == 0) first = best.value;
    const float of_choice = weight_of(moe.router, best.value, first);
    sum += of_choice;
    if (lane == choice) {
      weight = of_choice;
      chosen = best.index;
    }
  }
  if (lane >= moe.per_token) return;
  moe.chosen[token * moe.per_token + lane] = chosen;
  moe.shares[token * moe.per_token + lane] = weight / sum;
}

/* How many of the threads' numbers come before this thread's own, and in all. */
struct Counted {
  int32_t before, all;
};

__device__ __forceinline__ Counted block_scan(int32_t value) {
  KERNEL_SHARED(int32_t, sums, PLACING_WARPS);
  const int lane = static_cast<int>(threadIdx.x) % WARP_LANES;
  const int warp = static_cast<int>(threadIdx.x) / WARP_LANES;
  int32_t up_to = value;
#pragma unroll
  for (int distance = 1; distance < WARP_LANES; distance *= 2) {
    const int32_t other = __shfl_up_sync(0xffffffffu, up_to, static_cast<unsigned>(distance));
    if (lane >= distance) up_to += other;
  }
  __syncthreads(); // an earlier scan may still be read
  if (lane == WARP_LANES - 1) sums[warp] = up_to;
  __syncthreads();
  Counted counted = {up_to - value, 0};
#pragma unroll
  for (int i = 0; i < PLACING_WARPS; i++) {
    if (i < warp) counted.before += sums[i];
    counted.all += sums[i];
  }
  return counted;
}

/* What a thread looks at: whole vectors, up to the last one's end. */
struct Part {
  int32_t begin, end;
};

__device__ __forceinline__ Part part_of(int32_t n) {
  constexpr int32_t VECTOR = 4;
  const int32_t vectors = (n + VECTOR - 1) / VECTOR;
  const int32_t each = (vectors + PLACING_THREADS - 1) / PLACING_THREADS * VECTOR;
  const int32_t begin = min(n, static_cast<int32_t>(threadIdx.x) * each);
  return {begin, min(n, begin + each)};
}

/* Calls take(pair, expert) for the pairs of a part, in order. */
template <class Take>
__device__ __forceinline__ void for_each(const int32_t *chosen, Part part, Take take) {
  int32_t i = part.begin;
#pragma unroll 4
  for (; i + 4 <= part.end; i += 4) {
    const int4 four = *reinterpret_cast<const int4 *>(chosen + i);
    take(i, four.x);
    take(i + 1, four.y);
    take(i + 2, four.z);
    take(i + 3, four.w);
  }
  for (; i < part.end; i++)
    take(i, chosen[i]);
}

__global__ void __launch_bounds__(PLACING_THREADS) moe_place_kernel(const KernelMoe moe) {
  const int32_t expert = static_cast<int32_t>(blockIdx.x), n = moe.tokens * moe.per_token;
  const Part part = part_of(n);
  int32_t below = 0, equal = 0;
  for_each(moe.chosen, part, [&](int32_t, int32_t chosen) {
    below += chosen < expert;
    equal += chosen == expert;
  });
  const int32_t start = block_scan(below).all;
  int32_t row = start + block_scan(equal).before;
  if (threadIdx.x == 0) moe.starts[expert] = start;
  if (threadIdx.x == 0 && expert == 0) moe.starts[moe.experts] = n;
  for_each(moe.chosen, part, [&](int32_t pair, int32_t chosen) {
    if (chosen != expert) return;
    moe.pairs[row] = pair;
    moe.rows[pair] = row++;
  });
}

template <class T> int launch(KernelStream stream, const KernelMoe &moe, const void *logits) {
  auto *const kernel = moe.experts <= WARP_LANES       ? moe_choose_kernel<T, 1>
                       : moe.experts <= 4 * WARP_LANES ? moe_choose_kernel<T, 4>
                                                       : moe_choose_kernel<T, 16>;
  const dim3 grid(static_cast<unsigned>(divide_up(moe.tokens, ROUTING_WARPS)));
  const int error = kernel_launch(kernel, grid, dim3(ROUTING_WARPS * WARP_LANES), 0, stream, moe,
                                  static_cast<const typename T::Element *>(logits));
  if (error != 0) return error;
  return kernel_launch(moe_place_kernel, dim3(static_cast<unsigned>(moe.experts)),
                       dim3(PLACING_THREADS), 0, stream, moe);
}

} // namespace

int kernel_moe_routing(KernelStream stream, const KernelMoe *moe, const void *logits) {
  if (moe->experts < 1 || moe->experts > KERNEL_MOE_EXPERTS || moe->per_token < 1 ||
      moe->per_token > KERNEL_MOE_PER_TOKEN || moe->per_token > moe->experts)
    return KERNEL_INVALID;
  if (moe->tokens == 0) return 0;
  return moe->dtype == CALIB_BF16 ? launch<Bf16>(stream, *moe, logits)
                                  : launch<Fp16>(stream, *moe, logits);
}
