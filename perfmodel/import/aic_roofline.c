/* Peaks by format. */
#include "perfmodel/import/aic_roofline.h"

/* 0: the GPU has none for it. */
static double peak_flops(const Hardware *hardware, int dtype) {
  switch (dtype_compute((Dtype)dtype)) {
  case DTYPE_FP8:
  case DTYPE_INT8:
    return hardware->dense_fp8_flops;
  case DTYPE_NVFP4:
  case DTYPE_MXFP4:
    return hardware->dense_fp4_flops;
  default:
    return hardware->dense_bf16_flops;
  }
}

AicRoofline aic_roofline_products(const AicLayers *layers, int dtype) {
  static const double TOLERANCE = 0.98; // peaks are rounded, clocks boost
  const AicTable *table = &layers->products[dtype].found[0].table;
  const double flops = peak_flops(&layers->hardware, dtype);
  const double bytes = (double)layers->hardware.hbm_bandwidth;
  AicRoofline found = {.rows = table->n_points};
  for (size_t i = 0; i < table->n_points; i++) {
    const AicPoint *point = &table->points[i];
    const double n = (double)point->key[0], k = (double)point->key[1], m = (double)point->key[2];
    const double seconds = 1e-6 * point->us / TOLERANCE;
    found.above_flops += flops > 0 && 2 * m * n * k > flops * seconds;
    found.above_memory += n * k * dtype_bytes((Dtype)dtype) > bytes * seconds;
  }
  return found;
}
