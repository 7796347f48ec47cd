/* Seesaw's performance model (appendix A): what tensor, pipeline and data parallelism do to the
 * throughput of one phase, in closed form, to choose among them.
 *
 * Symbols are the paper's: b requests in all, s their length, W parameters of a layer's matrices,
 * L layers. Its attention FLOPs have one d too many, and in decode one s: here they are
 * 2·b·h_q·s²·d and 4·b·h_q·s·d. Its all-reduce bandwidth B_ar(TP), the size over the time, is that
 * of a ring: link · TP / (2(TP − 1)). Peaks are those of the weights' format, times the machine's
 * efficiencies. W is of a mean layer; all of its experts are read, those that a token reaches
 * computed. Windows and indices of attention are left out. */
#ifndef PERFMODEL_SEESAW_H
#define PERFMODEL_SEESAW_H
#include "perfmodel/hardware.h"

/* Table 3: seconds of one layer for the whole batch, before any of it is divided. */
typedef struct SeesawTimes {
  double linear_memory, linear_compute;
  double attention_memory, attention_compute;
  double network; // depends on TP; 0 when that is 1
} SeesawTimes;

SeesawTimes seesaw_prefill(const Llm *llm, const Hardware *hardware, int64_t tensor_parallel_size,
                           double batch, double length);
SeesawTimes seesaw_decode(const Llm *llm, const Hardware *hardware, int64_t tensor_parallel_size,
                          double batch, double length);
/* T_stage: seconds in which the last pipeline stage finishes a micro-batch of b / (PP·DP). */
double seesaw_stage_seconds(const SeesawTimes *times, int64_t layers, Parallelism degrees);
/* Equation 1, 1 / throughput: seconds per request of one forward pass. */
double seesaw_seconds_per_request(const SeesawTimes *times, int64_t layers, Parallelism degrees,
                                  double batch);
/* b_max: requests of `length` tokens whose KV fits beside the weights in `gpu_bytes` of each GPU;
 * negative when not even the weights do. */
double seesaw_max_batch(const Llm *llm, double gpu_bytes, Parallelism degrees, double length);
#endif
