/* Norms of the heads of q and k, rotary positions, and the way of K and V into their pages, in one
 * reading of qkv.
 *
 * A thread has two vectors of one head: elements i … i + 8 of the first half and their partners in
 * the second, which is what a rotation needs. Heads that are only copied are cut the same way. The
 * threads of a head are neighbours in a warp, which sum up its squares. */
#include "kernels/vector.cuh"

#include <math.h>

namespace {

constexpr int MAX_PAIRS = 128; // of a head of 256

/* Half turns per position of pair i: theta^(−2i/head_dim) / π. In fp32 a position of 100,000 would
 * be off by hundredths of a radian; in fp64 only the remainder is rounded. */
struct RopeRates {
  double at[MAX_PAIRS];
};

struct RopeArguments {
  uint4 *qkv, *kv_pages;
  const int32_t *slots, *positions; // positions NULL: only K and V are copied
  const uint4 *q_norm, *k_norm;     // NULL: none
  float epsilon;
  int query_heads, kv_heads;
  int head_vectors, block_size, parts;
};

struct Pair {
  uint4 low, high;
};
struct FloatPair {
  Floats low, high;
};

/* (low, high)·(cos, sin; −sin, cos), each element by its own angle. */
__device__ __forceinline__ void rotate(FloatPair &x, const float2 *cos_sin) {
#pragma unroll
  for (int i = 0; i < VECTOR_ELEMENTS; i++) {
    const float2 turn = cos_sin[i];
    const float low = x.low.at[i], high = x.high.at[i];
    x.low.at[i] = low * turn.x - high * turn.y;
    x.high.at[i] = high * turn.x + low * turn.y;
  }
}

/* All lanes of a warp come here; `half` is the threads of a head. */
template <class T>
__device__ __forceinline__ void norm_head(FloatPair &x, const uint4 *weight, int half,
                                          float epsilon) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < VECTOR_ELEMENTS; i++)
    sum += x.low.at[i] * x.low.at[i] + x.high.at[i] * x.high.at[i];
  for (int bits = 1; bits < half; bits *= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, bits);
  const float scale = rsqrtf(sum / static_cast<float>(2 * half * VECTOR_ELEMENTS) + epsilon);
  const Floats low = vector_unpack<T>(weight[0]), high = vector_unpack<T>(weight[half]);
#pragma unroll
  for (int i = 0; i < VECTOR_ELEMENTS; i++) {
    x.low.at[i] *= scale * low.at[i];
    x.high.at[i] *= scale * high.at[i];
  }
}

/* Where element 0 of a token's K or V head is in the pool, in vectors. */
__device__ __forceinline__ int64_t page_row(const RopeArguments &a, int slot, int kv_index) {
  const int64_t page = slot / a.block_size;
  const int offset = slot % a.block_size; // kv_index counts the page's K heads, then its V heads
  return ((page * 2 * a.kv_heads + kv_index) * a.block_size + offset) * a.head_vectors;
}

template <class T>
__global__ void rope_append_kernel(const RopeArguments a, const __grid_constant__ RopeRates rates) {
  const bool rotates = a.positions != nullptr, norms = a.q_norm != nullptr;
  const int half = a.head_vectors / 2, n_pairs = half * VECTOR_ELEMENTS;
  const int heads = a.query_heads + 2 * a.kv_heads;
  const RowItem at = row_item(a.parts);
  const int head = (rotates || norms ? 0 : a.query_heads) + at.item / half, part = at.item % half;
  uint4 *const from = a.qkv + (at.row * heads + head) * a.head_vectors + part;
  Pair pair = {}; // asked for before the angles are found, so that it arrives meanwhile
  if (head < heads) pair = {from[0], from[half]};

  KERNEL_SHARED(float2, cos_sin, MAX_PAIRS);
  if (rotates) {
    const double position = a.positions[at.row];
    for (int i = static_cast<int>(threadIdx.x); i < n_pairs; i += static_cast<int>(blockDim.x)) {
      const double half_turns = position * rates.at[i];
      const float angle = static_cast<float>(half_turns - 2 * rint(half_turns / 2));
      cos_sin[i] = make_float2(cospif(angle), sinpif(angle));
    }
    __syncthreads();
  }

  FloatPair x = {vector_unpack<T>(pair.low), vector_unpack<T>(pair.high)};
  if (norms) norm_head<T>(x, (head < a.query_heads ? a.q_norm : a.k_norm) + part, half, a.epsilon);
  if (head >= heads) return;
  if ((rotates || norms) && head < a.query_heads + a.kv_heads) {
    if (rotates) rotate(x, cos_sin + part * VECTOR_ELEMENTS);
    pair = {vector_pack<T>(x.low), vector_pack<T>(x.high)};
  }
  uint4 *const to = head < a.query_heads
                        ? from
                        : a.kv_pages + page_row(a, a.slots[at.row], head - a.query_heads) + part;
  to[0] = pair.low;
  to[half] = pair.high;
}

} // namespace

int kernel_rope_append(KernelStream stream, const KernelAttention *shape, void *qkv, void *kv_pages,
                       const int32_t *slots, const int32_t *positions, float theta,
                       KernelHeadNorms norms, int32_t tokens) {
  const int head_dim = shape->head_dim, pairs = head_dim / 2;
  const bool takes_q = positions != nullptr || norms.q != nullptr;
  if (head_dim < 2 * VECTOR_ELEMENTS || head_dim % (2 * VECTOR_ELEMENTS) != 0 || pairs > MAX_PAIRS)
    return KERNEL_INVALID;
  if (norms.q != nullptr && (head_dim & (head_dim - 1)) != 0) return KERNEL_INVALID;
  if (tokens == 0) return 0;
  const int heads = (takes_q ? shape->query_heads : 0) + 2 * shape->kv_heads;
  const RowGrid rows = row_grid(tokens, static_cast<int64_t>(heads) * (pairs / VECTOR_ELEMENTS));
  const RopeArguments a = {static_cast<uint4 *>(qkv),
                           static_cast<uint4 *>(kv_pages),
                           slots,
                           positions,
                           static_cast<const uint4 *>(norms.q),
                           static_cast<const uint4 *>(norms.k),
                           norms.epsilon,
                           shape->query_heads,
                           shape->kv_heads,
                           head_dim / VECTOR_ELEMENTS,
                           shape->block_size,
                           rows.parts};
  RopeRates rates = {};
  for (int i = 0; positions != nullptr && i < pairs; i++)
    rates.at[i] = pow(static_cast<double>(theta), -2.0 * i / head_dim) / M_PI;
  auto *const kernel =
      shape->dtype == CALIB_BF16 ? rope_append_kernel<Bf16> : rope_append_kernel<Fp16>;
  return kernel_launch(kernel, rows.grid, rows.block, 0, stream, a, rates);
}
