/* See flexgen_policy.h. */
#include "sim/kvtier/flexgen_policy.h"
#include <math.h>
#include <string.h>

/* Unknowns: shares off the GPU, and what T_p and T_g are above compute. */
enum { WC, WD, KC, KD, HC, HD, TP, TG, UNKNOWNS };
enum { LINKS = 4, ROWS = 2 * LINKS + FLEXGEN_PLACES + 3 };

/* Rows of row · x <= row[UNKNOWNS], of which all x are >= 0. */
typedef struct Program {
  double rows[ROWS][UNKNOWNS + 1], cost[UNKNOWNS + 1];
  int basis[ROWS]; // the unknown of each row; UNKNOWNS + i: the slack of row i
  int outside[UNKNOWNS];
} Program;

typedef struct Block {
  double sequences, prefill_s, decode_s;
  double held, read; // bytes of a layer: KV in the end; KV that a decode reads
  double prompts;    // bytes of activations of all prompts
} Block;

static Block block_of(const FlexGenInputs *in, const FlexGenPolicy *policy) {
  const double n = (double)policy->n_gpu_batches, b = n * (double)policy->gpu_batch;
  return (Block){.sequences = b,
                 .prefill_s = n * in->prefill_s(in->context, policy->gpu_batch),
                 .decode_s = n * in->decode_s(in->context, policy->gpu_batch),
                 .held = in->kv_bytes * (in->prompt + in->output) * b,
                 .read = in->kv_bytes * (in->prompt + in->output / 2) * b,
                 .prompts = in->activation_bytes * in->prompt * b};
}

/* Bytes that a layer moves over a link for each of the six shares. */
static void link_bytes(const FlexGenInputs *in, const Block *block, int link, bool prefills,
                       double ret_bytes[6]) {
  const double w = in->weight_bytes;
  const double made = in->kv_bytes * block->sequences * (prefills ? in->prompt + 1 : 1);
  const double read = prefills ? 0 : block->read;
  const double h = prefills ? block->prompts : in->activation_bytes * block->sequences;
  const double bytes[LINKS][6] = {{w, w, read, read, h, h},
                                  {0, 0, made, made, h, h},
                                  {0, w, 0, read, 0, h},
                                  {0, 0, 0, made, 0, h}};
  memcpy(ret_bytes, bytes[link], sizeof bytes[link]);
}

/* What the shares take of each memory, and what all takes of the GPU's if it lies there. */
static void memory_bytes(const FlexGenInputs *in, const FlexGenPolicy *policy, const Block *block,
                         int place, double ret_bytes[6], double *ret_always) {
  const double batches = (double)policy->n_gpu_batches;
  const double w = in->layers * in->weight_bytes, c = in->layers * block->held, h = block->prompts;
  const double bw = 2 * in->weight_bytes, bc = 2 * block->held / batches;
  const double bh = 2 * block->prompts / batches;
  const double bytes[FLEXGEN_PLACES][6] = {
      {bw - w, bw - w, bc - c, bc - c, bh - h, bh - h}, {w, 0, c, 0, h, 0}, {0, w, 0, c, 0, h}};
  memcpy(ret_bytes, bytes[place], sizeof bytes[place]);
  *ret_always = place == FLEXGEN_GPU ? w + c + h : 0;
}

static double rate_of(const FlexGenInputs *in, int link) {
  const double rates[LINKS] = {in->to_gpu, in->to_cpu, in->from_disk, in->to_disk};
  return rates[link];
}

static bool has_link(const FlexGenInputs *in, int link) {
  return link < 2 || in->memory[FLEXGEN_DISK] > 0;
}

double flexgen_seconds(const FlexGenInputs *in, const FlexGenPolicy *policy) {
  const Block block = block_of(in, policy);
  const double shares[6] = {policy->weights[FLEXGEN_CPU],     policy->weights[FLEXGEN_DISK],
                            policy->kv[FLEXGEN_CPU],          policy->kv[FLEXGEN_DISK],
                            policy->activations[FLEXGEN_CPU], policy->activations[FLEXGEN_DISK]};
  for (int place = 0; place < FLEXGEN_PLACES; place++) {
    double bytes[6], sum;
    memory_bytes(in, policy, &block, place, bytes, &sum);
    for (int i = 0; i < 6; i++)
      sum += bytes[i] * shares[i];
    if (sum > in->memory[place] * (1 + 1e-9)) return INFINITY;
  }
  double seconds[2] = {block.prefill_s, block.decode_s};
  for (int phase = 0; phase < 2; phase++)
    for (int link = 0; link < LINKS; link++) {
      double bytes[6], sum = 0;
      link_bytes(in, &block, link, phase == 0, bytes);
      for (int i = 0; i < 6; i++)
        sum += bytes[i] * shares[i];
      if (has_link(in, link)) seconds[phase] = fmax(seconds[phase], sum / rate_of(in, link));
    }
  return in->layers * (seconds[0] + (in->output - 1) * seconds[1]);
}

/* --- the program */

static void set_up(Program *self, const FlexGenInputs *in, const FlexGenPolicy *policy) {
  const Block block = block_of(in, policy);
  *self = (Program){0};
  int n = 0;
  for (int phase = 0; phase < 2; phase++)
    for (int link = 0; link < LINKS; link++, n++) {
      double *row = self->rows[n];
      if (!has_link(in, link)) continue; // 0 <= 0
      link_bytes(in, &block, link, phase == 0, row);
      for (int i = 0; i < 6; i++)
        row[i] /= rate_of(in, link);
      row[TP + phase] = -1;
      row[UNKNOWNS] = phase == 0 ? block.prefill_s : block.decode_s;
    }
  for (int place = 0; place < FLEXGEN_PLACES; place++, n++) {
    double *row = self->rows[n], always;
    memory_bytes(in, policy, &block, place, row, &always);
    row[UNKNOWNS] = in->memory[place] - always;
  }
  for (int i = 0; i < 3; i++, n++)
    self->rows[n][2 * i] = self->rows[n][2 * i + 1] = self->rows[n][UNKNOWNS] = 1;
  self->cost[TP] = in->layers;
  self->cost[TG] = in->layers * (in->output - 1);
  for (int i = 0; i < ROWS; i++)
    self->basis[i] = UNKNOWNS + i;
  for (int i = 0; i < UNKNOWNS; i++)
    self->outside[i] = i;
}

/* Rows of bytes and rows of seconds become comparable. */
static void scale(Program *self) {
  for (int i = 0; i < ROWS; i++) {
    double most = 0;
    for (int j = 0; j < UNKNOWNS; j++)
      most = fmax(most, fabs(self->rows[i][j]));
    for (int j = 0; j <= UNKNOWNS && most > 0; j++)
      self->rows[i][j] /= most;
  }
}

static void pivot(Program *self, int r, int c) {
  double *row = self->rows[r];
  const double by = 1 / row[c];
  const int entered = self->outside[c];
  self->outside[c] = self->basis[r];
  self->basis[r] = entered;
  for (int j = 0; j <= UNKNOWNS; j++)
    row[j] *= j == c ? 1 : by;
  row[c] = by;
  for (int i = 0; i <= ROWS; i++) {
    double *other = i < ROWS ? self->rows[i] : self->cost;
    if (i == r || other[c] == 0) continue;
    const double times = other[c];
    other[c] = 0;
    for (int j = 0; j <= UNKNOWNS; j++)
      other[j] -= times * row[j];
  }
}

/* Dual simplex: with no share off the GPU nothing costs anything, though memory may be short. Of
 * equals the first, so that it ends. */
static bool solve(Program *self) {
  static const double nothing = 1e-11;
  for (int steps = 0; steps < 1000; steps++) {
    int r = -1, c = -1;
    double least = -nothing, best = INFINITY;
    for (int i = 0; i < ROWS; i++)
      if (self->rows[i][UNKNOWNS] < least) least = self->rows[r = i][UNKNOWNS];
    if (r < 0) return true;
    for (int j = 0; j < UNKNOWNS; j++) {
      if (self->rows[r][j] > -nothing) continue;
      const double ratio = self->cost[j] / -self->rows[r][j];
      if (ratio >= best) continue;
      best = ratio;
      c = j;
    }
    if (c < 0) return false;
    pivot(self, r, c);
  }
  return false;
}

static void shares_of(double cpu, double disk, double ret_shares[FLEXGEN_PLACES]) {
  const double c = fmin(fmax(cpu, 0), 1), d = fmin(fmax(disk, 0), 1 - c);
  ret_shares[FLEXGEN_GPU] = 1 - c - d;
  ret_shares[FLEXGEN_CPU] = c;
  ret_shares[FLEXGEN_DISK] = d;
}

bool flexgen_solve(const FlexGenInputs *inputs, FlexGenPolicy *self) {
  Program program;
  double values[UNKNOWNS] = {0};
  set_up(&program, inputs, self);
  scale(&program);
  if (!solve(&program)) return false;
  for (int i = 0; i < ROWS; i++)
    if (program.basis[i] < UNKNOWNS) values[program.basis[i]] = program.rows[i][UNKNOWNS];
  shares_of(values[WC], values[WD], self->weights);
  shares_of(values[KC], values[KD], self->kv);
  shares_of(values[HC], values[HD], self->activations);
  self->seconds = flexgen_seconds(inputs, self);
  return isfinite(self->seconds);
}

bool flexgen_search(const FlexGenInputs *inputs, int64_t most_sequences,
                    FlexGenPolicy *ret_policy) {
  static const int64_t batches[] = {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};
  enum { MOST_BATCHES = 20 };
  double best = 0;
  for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
    for (int64_t n = 1; n <= MOST_BATCHES && batches[i] * n <= most_sequences; n++) {
      FlexGenPolicy policy = {.gpu_batch = batches[i], .n_gpu_batches = n};
      if (!flexgen_solve(inputs, &policy)) continue;
      const double rate = (double)(batches[i] * n) * inputs->output / policy.seconds;
      if (rate <= best) continue;
      best = rate;
      *ret_policy = policy;
    }
  return best > 0;
}
