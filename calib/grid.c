/* The grids as data. Products have sizes on both sides of 64, 128, 256, 512 and 1024, because their
 * time steps up at the edge of a tile: a coarse grid alone misses by up to 30% there. */
#include "calib/grid.h"

#define LIST(...)                                                                                  \
  (const int64_t[]) {                                                                              \
    __VA_ARGS__, -1                                                                                \
  }
#define KIB               INT64_C(1024)
#define MIB               (1024 * KIB)
#define GIB               (1024 * MIB)
#define GRAPH(rank, name) .class = PLAN_##rank, .op = CALIB_##name, .mode = CALIB_GRAPH
#define EAGER(rank, name) .class = PLAN_##rank, .op = CALIB_##name, .mode = CALIB_EAGER

#define TILE_EDGES                                                                                 \
  LIST(1, 2, 4, 8, 16, 24, 32, 48, 64, 65, 96, 128, 129, 160, 192, 256, 257, 384, 512, 513, 768,   \
       1024, 1025, 1536, 2048, 3072, 4096, 8192)
#define COARSE_TOKENS LIST(1, 8, 32, 64, 128, 129, 256, 257, 512, 513, 1024, 2048, 4096)
#define VECTORS       LIST(1, 16, 64, 256, 1024, 4096, 8192)
#define COPIES                                                                                     \
  LIST(4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB,       \
       2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB,   \
       GIB)
#define BUSY_COPIES LIST(64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB)
#define PAGES       LIST(1, 4, 16, 64, 256, 1024, 2048, 4096)

const GridRow grid_gpu[] = {
    /* one iteration bound by memory, one by FLOPs */
    {GRAPH(ANCHOR, ITERATION), .decodes = LIST(8), .contexts = LIST(1024)},
    {GRAPH(ANCHOR, ITERATION), .chunks = LIST(512), .pasts = LIST(0)},

    {GRAPH(COARSE, ITERATION), .chunks = LIST(64, 256, 1024, 2048, 4096), .pasts = LIST(0)},
    {GRAPH(COARSE, ITERATION), .decodes = LIST(1, 8, 32, 128), .contexts = LIST(128, 1024, 4096)},
    {GRAPH(COARSE, ITERATION), .chunks = LIST(256, 1024), .pasts = LIST(0), .decodes = LIST(8, 64),
     .contexts = LIST(512)},
    {GRAPH(COARSE, LINEAR), .sizes = COARSE_TOKENS},
    {GRAPH(COARSE, PREFILL_ATTENTION), .chunks = LIST(64, 256, 1024, 4096), .pasts = LIST(0)},
    {GRAPH(COARSE, PREFILL_ATTENTION), .chunks = LIST(256, 1024), .pasts = LIST(2048)},
    {GRAPH(COARSE, DECODE_ATTENTION), .decodes = LIST(1, 8, 32, 128),
     .contexts = LIST(16, 512, 2048, 8192)},
    {GRAPH(COARSE, HEAD), .sizes = LIST(1, 8, 32, 64, 128, 256)},

    {GRAPH(FINE, ITERATION), .chunks = LIST(18, 128, 768, 1536, 3072, 8192), .pasts = LIST(0)},
    {GRAPH(FINE, ITERATION), .chunks = LIST(512),
     .pasts = LIST(512, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240,
                   12288, 14336, 15360)},
    {GRAPH(FINE, ITERATION), .prompts = LIST(4), .chunks = LIST(128, 512, 1024), .pasts = LIST(0)},
    {GRAPH(FINE, ITERATION), .decodes = LIST(1, 4, 8, 16, 32, 64, 128),
     .contexts = LIST(128, 512, 1024, 4096, 8192)},
    {GRAPH(FINE, ITERATION), .chunks = LIST(128, 256, 512, 1024, 2048), .pasts = LIST(0),
     .decodes = LIST(1, 8, 32, 64, 128), .contexts = LIST(512, 2048)},
    {EAGER(FINE, ITERATION), .decodes = LIST(1, 8, 32, 128), .contexts = LIST(1024)},
    {EAGER(FINE, ITERATION), .chunks = LIST(128, 512, 2048), .pasts = LIST(0)},
    {GRAPH(FINE, LINEAR), .sizes = TILE_EDGES},
    {GRAPH(FINE, PREFILL_ATTENTION),
     .chunks = LIST(16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384), .pasts = LIST(0)},
    {GRAPH(FINE, PREFILL_ATTENTION), .chunks = LIST(128, 256, 512, 1024, 2048, 4096, 8192),
     .pasts = LIST(512, 2048, 8192, 32768)},
    {GRAPH(FINE, DECODE_ATTENTION), .decodes = LIST(1, 2, 4, 8, 16, 32, 64, 128, 256),
     .contexts = LIST(16, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768)},
    {GRAPH(FINE, DECODE_ATTENTION), .decodes = LIST(16, 64, 128, 256), .contexts = LIST(600),
     .light = 60},
    {GRAPH(FINE, DECODE_ATTENTION), .decodes = LIST(4, 16, 64, 128), .contexts = LIST(4096, 16384),
     .light = 256},
    {GRAPH(FINE, HEAD), .sizes = LIST(2, 4, 16, 24, 48, 65, 96, 129, 192, 257, 512)},

    {GRAPH(DETAIL, GEMM_QKV), .sizes = TILE_EDGES},
    {GRAPH(DETAIL, GEMM_O), .sizes = TILE_EDGES},
    {GRAPH(DETAIL, GEMM_UP), .sizes = TILE_EDGES},
    {GRAPH(DETAIL, GEMM_DOWN), .sizes = TILE_EDGES},
    {GRAPH(DETAIL, GEMM_HEAD), .sizes = LIST(1, 8, 32, 64, 65, 128, 129, 256, 257, 512)},
    {GRAPH(DETAIL, GEMM_QKV), .hot = true, .sizes = LIST(1, 64, 256, 1024)},
    {GRAPH(DETAIL, GEMM_DOWN), .hot = true, .sizes = LIST(1, 64, 256, 1024)},
    {GRAPH(DETAIL, NORM), .sizes = VECTORS},
    {GRAPH(DETAIL, ROPE_APPEND), .sizes = VECTORS},
    {GRAPH(DETAIL, ACTIVATION), .sizes = VECTORS},
    {GRAPH(DETAIL, EMBEDDING), .sizes = VECTORS},
    {GRAPH(DETAIL, ARGMAX), .sizes = LIST(1, 8, 32, 128, 256)},
    {GRAPH(DETAIL, ALL_REDUCE),
     .sizes = LIST(KIB, 4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB,
                   4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, GIB)},
    {EAGER(DETAIL, ALL_REDUCE), .sizes = LIST(KIB, 16 * KIB, 128 * KIB, MIB, 8 * MIB, 32 * MIB)},
    {GRAPH(DETAIL, ALL_REDUCE_PEER),
     .sizes = LIST(KIB, 4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB,
                   4 * MIB, 8 * MIB, 16 * MIB)},
    {GRAPH(DETAIL, COPY_H2D), .sizes = COPIES},
    {GRAPH(DETAIL, COPY_D2H), .sizes = COPIES},
    {GRAPH(DETAIL, COPY_BOTH), .sizes = COPIES},
    {GRAPH(DETAIL, COPY_D2D), .sizes = COPIES},
    {GRAPH(DETAIL, COPY_PEER), .sizes = COPIES},
    {GRAPH(DETAIL, COPY_PAGEABLE), .sizes = BUSY_COPIES},
    {GRAPH(DETAIL, COPY_H2D), .busy = true, .sizes = BUSY_COPIES},
    {GRAPH(DETAIL, COPY_D2H), .busy = true, .sizes = BUSY_COPIES},
    {GRAPH(DETAIL, COPY_BOTH), .busy = true, .sizes = BUSY_COPIES},
    {GRAPH(DETAIL, KV_GATHER), .sizes = PAGES},
    {GRAPH(DETAIL, KV_SCATTER), .sizes = PAGES},
    {GRAPH(DETAIL, KV_OUT), .sizes = PAGES},
    {GRAPH(DETAIL, KV_OUT), .busy = true, .sizes = LIST(16, 256, 1024, 4096)},
    {GRAPH(DETAIL, WEIGHT_RELOAD), .sizes = LIST(64 * MIB, 256 * MIB, GIB, 2 * GIB, 4 * GIB)},
    {GRAPH(DETAIL, MOE_ROUTING), .sizes = VECTORS},
    {GRAPH(DETAIL, MOE_GEMM_UP), .sizes = TILE_EDGES},
    {GRAPH(DETAIL, MOE_GEMM_DOWN), .sizes = TILE_EDGES},
    {GRAPH(DETAIL, MOE_COMBINE), .sizes = VECTORS},

    /* both are there as bursts, too: what takes most power, and what an engine does most */
    {GRAPH(SUSTAINED, ITERATION), .chunks = LIST(4096), .pasts = LIST(0)},
    {GRAPH(SUSTAINED, ITERATION), .decodes = LIST(64), .contexts = LIST(1024)},
    {.class = PLAN_CLASSES},
};

const GridRow grid_cpu[] = {
    {GRAPH(ANCHOR, ITERATION), .decodes = LIST(4), .contexts = LIST(256)},
    {GRAPH(ANCHOR, ITERATION), .chunks = LIST(128), .pasts = LIST(0)},

    {GRAPH(COARSE, ITERATION), .chunks = LIST(16, 64, 256, 1024), .pasts = LIST(0)},
    {GRAPH(COARSE, ITERATION), .decodes = LIST(1, 8, 32), .contexts = LIST(64, 512)},
    {GRAPH(COARSE, ITERATION), .chunks = LIST(64, 256), .pasts = LIST(0), .decodes = LIST(8),
     .contexts = LIST(256)},
    {GRAPH(COARSE, LINEAR), .sizes = LIST(1, 4, 16, 64, 256, 1024)},
    {GRAPH(COARSE, PREFILL_ATTENTION), .chunks = LIST(16, 64, 256, 1024), .pasts = LIST(0)},
    {GRAPH(COARSE, DECODE_ATTENTION), .decodes = LIST(1, 8, 32), .contexts = LIST(64, 512, 2048)},
    {GRAPH(COARSE, HEAD), .sizes = LIST(1, 4, 16, 32)},

    {GRAPH(FINE, ITERATION), .chunks = LIST(32, 512, 2048), .pasts = LIST(0)},
    {GRAPH(FINE, ITERATION), .chunks = LIST(128), .pasts = LIST(512, 1024)},
    {GRAPH(FINE, ITERATION), .prompts = LIST(4), .chunks = LIST(64), .pasts = LIST(0)},
    {GRAPH(FINE, ITERATION), .decodes = LIST(1, 2, 4, 8, 16, 32), .contexts = LIST(256, 1024)},
    {GRAPH(FINE, ITERATION), .decodes = LIST(1, 8, 32), .contexts = LIST(2047)},
    {GRAPH(FINE, ITERATION), .chunks = LIST(32, 128, 512), .pasts = LIST(0), .decodes = LIST(4, 16),
     .contexts = LIST(256)},
    {GRAPH(FINE, LINEAR), .sizes = LIST(2, 6, 8, 9, 12, 24, 32, 48, 96, 128, 192, 384, 512, 2048)},
    {GRAPH(FINE, PREFILL_ATTENTION), .chunks = LIST(32, 128, 512, 2048), .pasts = LIST(0)},
    {GRAPH(FINE, PREFILL_ATTENTION), .chunks = LIST(64, 256), .pasts = LIST(256, 1024)},
    {GRAPH(FINE, DECODE_ATTENTION), .decodes = LIST(1, 2, 4, 8, 16, 32),
     .contexts = LIST(16, 64, 256, 1024, 2048)},
    {GRAPH(FINE, DECODE_ATTENTION), .decodes = LIST(8, 32), .contexts = LIST(600), .light = 60},
    {GRAPH(FINE, HEAD), .sizes = LIST(2, 3, 6, 8, 9, 12, 24)},

    {GRAPH(DETAIL, GEMM_QKV), .sizes = LIST(1, 8, 64, 512)},
    {GRAPH(DETAIL, GEMM_O), .sizes = LIST(1, 8, 64, 512)},
    {GRAPH(DETAIL, GEMM_UP), .sizes = LIST(1, 8, 64, 512)},
    {GRAPH(DETAIL, GEMM_DOWN), .sizes = LIST(1, 8, 64, 512)},
    {GRAPH(DETAIL, GEMM_HEAD), .sizes = LIST(1, 8, 32)},
    {GRAPH(DETAIL, NORM), .sizes = LIST(1, 64, 512)},
    {GRAPH(DETAIL, ROPE_APPEND), .sizes = LIST(1, 64, 512)},
    {GRAPH(DETAIL, ACTIVATION), .sizes = LIST(1, 64, 512)},
    {GRAPH(DETAIL, EMBEDDING), .sizes = LIST(1, 64, 512)},
    {GRAPH(DETAIL, ARGMAX), .sizes = LIST(1, 32)},
    {GRAPH(DETAIL, COPY_D2D), .sizes = LIST(64 * KIB, MIB, 16 * MIB, 64 * MIB)},
    {GRAPH(DETAIL, KV_GATHER), .sizes = LIST(1, 16, 128)},
    {GRAPH(DETAIL, KV_SCATTER), .sizes = LIST(1, 16, 128)},
    {.class = PLAN_CLASSES},
};

/* Without operators beside them iterations must tell the terms apart: prompts with and without a
 * past, decodes whose context varies at each number of them, and both together, at more than one
 * number and context of the decodes. Kernels change at powers of two: there are pasts on both sides
 * of one. */
const GridRow grid_whole[] = {
    {GRAPH(ANCHOR, ITERATION), .decodes = LIST(4), .contexts = LIST(256)},
    {GRAPH(ANCHOR, ITERATION), .chunks = LIST(128), .pasts = LIST(0)},

    {GRAPH(COARSE, ITERATION), .chunks = LIST(16, 64, 256, 1024), .pasts = LIST(0)},
    {GRAPH(COARSE, ITERATION), .chunks = LIST(32, 128), .pasts = LIST(512, 1536)},
    {GRAPH(COARSE, ITERATION), .decodes = LIST(1, 8, 32), .contexts = LIST(64, 512, 1024)},
    {GRAPH(COARSE, ITERATION), .chunks = LIST(64, 256), .pasts = LIST(0), .decodes = LIST(2, 8),
     .contexts = LIST(64, 768)},

    {GRAPH(FINE, ITERATION),
     .chunks = LIST(4, 8, 24, 32, 48, 63, 65, 96, 128, 160, 192, 320, 384, 512, 640, 768),
     .pasts = LIST(0)},
    {GRAPH(FINE, ITERATION), .chunks = LIST(8, 63, 64, 256), .pasts = LIST(512, 1536)},
    {GRAPH(FINE, ITERATION), .chunks = LIST(512), .pasts = LIST(512)},
    {GRAPH(FINE, ITERATION), .prompts = LIST(2, 4), .chunks = LIST(64, 192), .pasts = LIST(0)},
    {GRAPH(FINE, ITERATION), .decodes = LIST(1, 2, 3, 4, 6, 8, 12, 16, 24, 32),
     .contexts = LIST(128, 320, 640, 1280)},
    {GRAPH(FINE, ITERATION), .decodes = LIST(4, 16), .contexts = LIST(600), .light = 60},
    {GRAPH(FINE, ITERATION), .chunks = LIST(32, 128, 384), .pasts = LIST(0),
     .decodes = LIST(1, 4, 16), .contexts = LIST(128, 640)},
    {GRAPH(FINE, ITERATION), .chunks = LIST(128), .pasts = LIST(512), .decodes = LIST(2, 8),
     .contexts = LIST(768)},
    {.class = PLAN_CLASSES},
};
