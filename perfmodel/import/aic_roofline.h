/* Whether AIConfigurator's tables can be: products against the peaks of the GPU that they are said
 * to be of. */
#ifndef PERFMODEL_IMPORT_AIC_ROOFLINE_H
#define PERFMODEL_IMPORT_AIC_ROOFLINE_H
#include "perfmodel/import/aic_layers.h"

typedef struct AicRoofline {
  size_t rows;
  size_t above_flops;  // faster than the peak of the format
  size_t above_memory; // faster than reading the weights: they were in the cache
} AicRoofline;

/* Of products with weights of a format. */
AicRoofline aic_roofline_products(const AicLayers *layers, int dtype);
#endif
