/* Times of kernels on a GPU that has no tables, from those of the most similar GPU that has.
 *
 * A kernel of W FLOP in some format and B bytes takes u = max(W / FLOP rate, B / memory rate) on a
 * GPU whose peaks are reached as far as its machine file says. The measured time t has a part that
 * is bound by compute or memory, w = min(t, u), and a rest: launches, synchronization, waves that
 * are not full. The first part is scaled by the rates of the bottleneck of each GPU, which need not
 * be the same one; the rest stays, since it follows clocks, which differ little:
 *
 *     t' = t - w + w * u' / u
 *
 * A collective is bound by the link: what it takes beyond its smallest message is divided by the
 * ratio of the links. Small kernels that no table has are computed for the GPU itself.
 *
 * Only GPUs of one vendor are similar: kernels of AMD are other programs. */
#ifndef PERFMODEL_COMPOSE_OTHER_GPU_H
#define PERFMODEL_COMPOSE_OTHER_GPU_H
#include "perfmodel/compose/layers.h"

/* That of `gpus` (NULL-terminated) which is most similar: of the same architecture, else of the one
 * with the nearest compute capability; then by the ratios of FLOP/s and memory bandwidth. Whether
 * there is any. */
bool other_gpu_find(Hardware *ret_hardware, const Hardware *asked, const char *const *gpus,
                    const char *data_dir, Arena *arena);
/* Scales all tables of layers, which are of `measured`. */
void other_gpu_scale(Layers *layers, const Hardware *measured);
/* How far composed times are from measured ones then, on average (README.md, "Another GPU"): less
 * where the architecture is the same and no peak differs by more than a half. */
double other_gpu_error(const Hardware *asked, const Hardware *measured);
#endif
