/* The products of a layer's experts in one launch, on mma.sync for sm_80 and later: out = in · Wᵀ
 * by tiles of rows of one expert and 128 columns.
 *
 * Only the device knows how many rows an expert has. The grid is of as many tiles as there can be
 * at most, every block finds its own from where the experts' rows start, and those past the last
 * end. Blocks of GROUP tiles of rows go over all columns together, so that what they read, rows and
 * weights, is in the L2 cache when the next one of them reads it.
 *
 * Depth goes by in steps of 64 through a ring of tiles in shared memory (attention.cuh), filled by
 * cp.async while the ones before are multiplied. */
#include "kernels/attention.cuh"
#include "kernels/moe.h"
#include "kernels/vector.cuh"

namespace {

constexpr int DEPTH = 64, COLUMNS = 128, GROUP = 8;
typedef Tile<DEPTH> DepthTile;

/* Warps share the tile's rows and columns; each has m_tiles of 16 rows and n_tiles of 8 columns. */
template <int warps_m_, int m_tiles_, int warps_n_, int n_tiles_, int stages_> struct Shape {
  static constexpr int warps_m = warps_m_, m_tiles = m_tiles_, warps_n = warps_n_,
                       n_tiles = n_tiles_, stages = stages_;
  static constexpr int rows = warps_m * m_tiles * 16, threads = warps_m * warps_n * WARP_LANES;
  static constexpr int row_bytes = rows * DepthTile::row_bytes;
  static constexpr int slot_bytes = row_bytes + COLUMNS * DepthTile::row_bytes;
  static constexpr int shared_bytes = stages * slot_bytes;
  static_assert(warps_n * n_tiles * 8 == COLUMNS, "a tile's columns");
};
typedef Shape<1, 1, 4, 4, 4> Low;
typedef Shape<2, 2, 2, 8, 3> Middle;
typedef Shape<4, 2, 2, 8, 3> High;

struct Product {
  KernelMoe moe;
  bool gathers;
  void *out;
  const void *in, *weights;
  int32_t n, k, n_column_tiles;
};

/* Rows first … end of an expert; none: first is end. */
struct RowTile {
  int32_t expert, first, end;
};

/* By every warp for itself. */
__device__ __forceinline__ RowTile find_tile(const KernelMoe &moe, int tile_rows, int32_t tile) {
  const int lane = static_cast<int>(threadIdx.x) % WARP_LANES;
  for (int32_t base = 0; base < moe.experts; base += WARP_LANES) {
    const int32_t expert = min(base + lane, moe.experts - 1);
    const int32_t start = moe.starts[expert], end = moe.starts[expert + 1];
    const int32_t tiles = base + lane < moe.experts ? (end - start + tile_rows - 1) / tile_rows : 0;
    int32_t up_to = tiles;
#pragma unroll
    for (int distance = 1; distance < WARP_LANES; distance *= 2) {
      const int32_t other = __shfl_up_sync(0xffffffffu, up_to, static_cast<unsigned>(distance));
      if (lane >= distance) up_to += other;
    }
    const uint32_t reached = __ballot_sync(0xffffffffu, up_to > tile);
    if (reached != 0) {
      const int at = __ffs(static_cast<int>(reached)) - 1;
      const int32_t first = start + (tile - (up_to - tiles)) * tile_rows;
      return {__shfl_sync(0xffffffffu, expert, at), __shfl_sync(0xffffffffu, first, at),
              __shfl_sync(0xffffffffu, end, at)};
    }
    tile -= __shfl_sync(0xffffffffu, up_to, WARP_LANES - 1);
  }
  return {0, 0, 0};
}

/* What a thread copies: the same chunk of some rows of `in` and of some of the weights, at each
 * step of the depth. */
template <class T, class S> struct Loader {
  static constexpr int chunks = DepthTile::chunks, at_once = S::threads / chunks;
  static constexpr int n_rows = S::rows / at_once, n_columns = COLUMNS / at_once;
  typedef typename T::Element Element;
  const Element *rows[n_rows]; // NULL: past the last
  const Element *weights;
  int32_t k, columns_left; // from this thread's first column to the last
  int row, chunk;

  __device__ __forceinline__ Loader(const Product &args, const RowTile &tile, int32_t column)
      : k(args.k), row(static_cast<int>(threadIdx.x) / chunks),
        chunk(static_cast<int>(threadIdx.x) % chunks) {
    const auto *in = static_cast<const Element *>(args.in);
#pragma unroll
    for (int i = 0; i < n_rows; i++) {
      const int32_t at = tile.first + row + i * at_once;
      if (at < tile.end) {
        const int32_t from = args.gathers ? args.moe.pairs[at] / args.moe.per_token : at;
        rows[i] = in + static_cast<int64_t>(from) * k;
      } else {
        rows[i] = nullptr;
      }
    }
    columns_left = args.n - (column + row);
    weights = static_cast<const Element *>(args.weights) +
              (static_cast<int64_t>(tile.expert) * args.n + column + row) * k;
  }

  /* One group of copies, which is empty past the last step. */
  __device__ __forceinline__ void load(int step, uint32_t slot) const {
    const int32_t at = step * DEPTH + chunk * VECTOR_ELEMENTS;
    if (step * DEPTH < k) {
#pragma unroll
      for (int i = 0; i < n_rows; i++) {
        const bool valid = rows[i] != nullptr && at < k;
        cp_async16_or_zero(slot + DepthTile::offset(row + i * at_once, chunk),
                           valid ? rows[i] + at : weights, valid);
      }
#pragma unroll
      for (int i = 0; i < n_columns; i++) {
        const bool valid = i * at_once < columns_left && at < k;
        cp_async16_or_zero(slot + S::row_bytes + DepthTile::offset(row + i * at_once, chunk),
                           valid ? weights + static_cast<int64_t>(i * at_once) * k + at : weights,
                           valid);
      }
    }
    cp_async_commit();
  }
};

/* A warp's part of the tile. */
template <class T, class S>
__device__ __forceinline__ void store(const Product &args, const RowTile &tile, int32_t column,
                                      const float (&acc)[S::m_tiles][S::n_tiles][4]) {
  const int lane = static_cast<int>(threadIdx.x) % WARP_LANES;
  auto *const out = static_cast<typename T::Element *>(args.out);
#pragma unroll
  for (int m = 0; m < 2 * S::m_tiles; m++) {
    const int32_t row = tile.first + m * 8 + lane / 4;
    if (row >= tile.end) continue;
#pragma unroll
    for (int n = 0; n < S::n_tiles; n++) {
      const int32_t at = column + n * 8 + lane % 4 * 2;
      if (at >= args.n) continue;
      auto *const to = out + static_cast<int64_t>(row) * args.n + at;
      *reinterpret_cast<uint32_t *>(to) =
          T::pack(acc[m / 2][n][2 * (m % 2)], acc[m / 2][n][2 * (m % 2) + 1]);
    }
  }
}

template <class T, class S>
__global__ void __launch_bounds__(S::threads) moe_gemm_kernel(const Product args) {
  KERNEL_SHARED_DYNAMIC(memory);
  const int32_t block = static_cast<int32_t>(blockIdx.x), of_group = GROUP * args.n_column_tiles;
  const int32_t column = block % of_group / GROUP * COLUMNS;
  RowTile tile = find_tile(args.moe, S::rows, block / of_group * GROUP + block % GROUP);
  if (tile.first == tile.end) return;
  const Loader<T, S> loader(args, tile, column);
  const int lane = static_cast<int>(threadIdx.x) % WARP_LANES;
  const int warp = static_cast<int>(threadIdx.x) / WARP_LANES;
  const int warp_row = warp % S::warps_m * S::m_tiles * 16;
  const int warp_column = warp / S::warps_m * S::n_tiles * 8;
  const uint32_t ring = shared_address(memory);
  const uint32_t rows = DepthTile::lane_offset(lane) + warp_row * DepthTile::row_bytes;
  const uint32_t columns =
      S::row_bytes + DepthTile::lane_offset_of_columns(lane) + warp_column * DepthTile::row_bytes;
  float acc[S::m_tiles][S::n_tiles][4] = {};
#pragma unroll
  for (int i = 0; i < S::stages - 1; i++)
    loader.load(i, ring + i * S::slot_bytes);
  const int steps = (args.k + DEPTH - 1) / DEPTH;
  int used = 0, free = S::stages - 1;
  for (int step = 0; step < steps; step++) {
    cp_async_wait<S::stages - 2>();
    __syncthreads();
    loader.load(step + S::stages - 1, ring + free * S::slot_bytes);
    const uint32_t slot = ring + used * S::slot_bytes;
    multiply_keys<T, DEPTH>(acc, slot + columns, [&](int m, int at, uint32_t(&fragment)[4]) {
      ldmatrix_x4(fragment, DepthTile::step(slot + rows, at, m * 16));
    });
    free = used;
    used = used + 1 == S::stages ? 0 : used + 1;
  }
  tile.first += warp_row;
  store<T, S>(args, tile, column + warp_column, acc);
}

/* The most tiles: every expert has a row, and the others fill tiles. */
int64_t tiles_of(int64_t rows, int64_t experts, int64_t tile_rows) {
  return rows <= experts ? rows : experts + (rows - experts) / tile_rows;
}

template <class T, class S> int launch(KernelStream stream, const Product &args) {
  const int64_t rows = static_cast<int64_t>(args.moe.tokens) * args.moe.per_token;
  const int groups = divide_up(tiles_of(rows, args.moe.experts, S::rows), GROUP);
  const dim3 grid(static_cast<unsigned>(groups) * GROUP *
                  static_cast<unsigned>(args.n_column_tiles));
  return kernel_launch(moe_gemm_kernel<T, S>, grid, dim3(S::threads), S::shared_bytes, stream,
                       args);
}

template <class T> int launch(KernelStream stream, int32_t tile_rows, const Product &args) {
  switch (tile_rows) {
  case Low::rows:
    return launch<T, Low>(stream, args);
  case Middle::rows:
    return launch<T, Middle>(stream, args);
  case High::rows:
    return launch<T, High>(stream, args);
  default:
    return KERNEL_INVALID;
  }
}

template <class T, class S> int load() {
  KernelLoaded loaded;
  return kernel_load(moe_gemm_kernel<T, S>, S::threads, S::shared_bytes, &loaded);
}

template <class T> int load_all() {
  int error = load<T, Low>();
  if (error == 0) error = load<T, Middle>();
  return error == 0 ? load<T, High>() : error;
}

} // namespace

int kernel_moe_load(CalibDtype dtype) {
  return dtype == CALIB_BF16 ? load_all<Bf16>() : load_all<Fp16>();
}

int32_t kernel_moe_tile_rows(const KernelMoe *moe) {
  const int64_t rows = static_cast<int64_t>(moe->tokens) * moe->per_token / moe->experts;
  return rows <= Low::rows ? Low::rows : rows <= Middle::rows ? Middle::rows : High::rows;
}

int kernel_moe_gemm(KernelStream stream, const KernelMoe *moe, int32_t tile_rows, bool gathers,
                    void *out, const void *in, const void *weights, int32_t n, int32_t k) {
  if (n < VECTOR_ELEMENTS || k < VECTOR_ELEMENTS || n % VECTOR_ELEMENTS || k % VECTOR_ELEMENTS)
    return KERNEL_INVALID;
  if (moe->tokens == 0) return 0;
  const Product args = {*moe, gathers, out, in, weights, n, k, divide_up(n, COLUMNS)};
  return moe->dtype == CALIB_BF16 ? launch<Bf16>(stream, tile_rows, args)
                                  : launch<Fp16>(stream, tile_rows, args);
}
