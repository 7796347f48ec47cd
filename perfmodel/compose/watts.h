/* Power of composed models, where the watts of kernels were measured: tables NAME_watts beside
 * those of times (tables/README.md), the medians of classes of kernels.
 *
 * The watts of a term are the mean of its kernels' by their times: products by the size of their
 * matrix and their tokens, attention of prompts by its products, that of decodes by the KV that it
 * reads, experts by their weights on one GPU and the tokens, all-reduces by their size. Small
 * kernels, linear attention and what no table has draw as the smallest attention of decodes. */
#ifndef PERFMODEL_COMPOSE_WATTS_H
#define PERFMODEL_COMPOSE_WATTS_H
#include "perfmodel/compose/layers.h"
#include "perfmodel/power.h"

/* How far kernels are from the median of their class in the mean, 10% of products and experts, 16%
 * of attention of prompts, 26% of that of decodes (heads of the tables). */
static const double WATTS_ERROR = 0.16;

/* Of the composed `model` of these layers, which are of the GPU itself. Tables of time become ones
 * of energy and are not to be used any more. NULL: nobody has measured watts of the GPU. */
const PowerModel *watts_compose(Layers *layers, const PerfModel *model, Arena *arena);
#endif
