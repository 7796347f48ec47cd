/* What a bare flow of events costs: the yardstick of the simulator's plain path. Prints figures and
 * judges nothing.
 *
 *     bare_flow LENGTHS REQUESTS [RATE]
 *
 * The events of Splitwise-HH and nothing else: Poisson arrivals at RATE per second (50), prompts
 * and outputs of a table of traces/lengths/, the instance with the least pending tokens, prefill
 * batches of at most 2,048 tokens, KV that is on its way for 5 ms, and decodes as runs in closed
 * form that an arrival cuts. There is no KV memory, link, role, policy, exact percentile, audit or
 * digest. An iteration costs about what it does in the fitted model, so that there are as many
 * events. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  N_PREFILL = 25,
  N_INSTANCES = 40,
  MAX_TOKENS = 2048,
  MAX_PROMPTS = 64,
  MAX_SEQS = 1024,
  MAX_QUEUE = 4096,
  MAX_REQUESTS = 1 << 16, // in flight
  MAX_EVENTS = 1 << 17,
  MAX_LENGTHS = 2048,
  BUCKETS = 2048,
};

typedef int64_t Ticks; // picoseconds, as in the simulator

static const Ticks MS = 1000000000;

typedef enum Kind { PREFILL_ENDS, KV_ARRIVES, RUN_ENDS } Kind;

typedef struct Event {
  Ticks at;
  uint32_t order, kind, instance;
  uint32_t epoch; // of the run that ends: one that was cut ends no more
  int64_t value;  // the request whose KV arrives; the iterations of the run
} Event;

typedef struct Request {
  Ticks arrived, first_token;
  int prompt, output, decode;
} Request;

/* A sequence of a batch, with the iteration that ends it. */
typedef struct Sequence {
  int64_t finish;
  int request;
} Sequence;

typedef struct Instance {
  int64_t pending; // tokens
  int queue[MAX_QUEUE], head, n_queued;
  int prefilled[MAX_PROMPTS], n_prefilled; // in the batch that runs
  bool runs;
  Sequence batch[MAX_SEQS]; // a heap
  int n_seqs;
  int joining[MAX_SEQS], n_joining;
  int64_t iterations, context, n; // done before the run; tokens of the batch; iterations of the run
  Ticks began, base, slope;       // an iteration of it takes base + slope · context
  uint32_t epoch;
} Instance;

typedef struct Lengths {
  double prompt[MAX_LENGTHS], output[MAX_LENGTHS];
  int n;
} Lengths;

static Instance instances[N_INSTANCES];
static Request requests[MAX_REQUESTS];
static int unused[MAX_REQUESTS], n_unused;
static Event heap[MAX_EVENTS];
static int n_events;
static uint32_t next_order;
static uint64_t histograms[3][BUCKETS];
static Lengths lengths;
static Ticks now;
static int64_t n_handled, n_done, n_tokens;

static void give_up(const char *why) {
  fprintf(stderr, "bare_flow: %s\n", why);
  exit(4);
}

/* --- numbers */

static double drawn(void) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (double)(state >> 11) * 0x1p-53;
}

/* Of a table with one row for each thousandth, as those of traces/lengths/ are. */
static int length_at(const double *of, double share) {
  const double place = share * (lengths.n - 1);
  const int row = (int)place;
  return (int)(of[row] + (of[row + 1] - of[row]) * (place - row));
}

static void read_lengths(const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) give_up("cannot read the lengths");
  char line[256];
  while (fgets(line, sizeof line, file) && lengths.n < MAX_LENGTHS) {
    const int n = lengths.n;
    double percent;
    if (sscanf(line, "%lf,%lf,%lf", &percent, &lengths.prompt[n], &lengths.output[n]) == 3)
      lengths.n++;
  }
  fclose(file);
  if (lengths.n < 2) give_up("the table of lengths has no rows");
}

/* 32 buckets to an octave of seconds. */
static void book(int histogram, Ticks ticks) {
  const double seconds = (double)ticks * 1e-12;
  const int bucket = seconds <= 1e-6 ? 0 : (int)((log2(seconds) + 20) * 32);
  histograms[histogram][bucket < 0 ? 0 : bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

static double quantile(int histogram, double q) {
  uint64_t total = 0, below = 0;
  int bucket = 0;
  for (int i = 0; i < BUCKETS; i++)
    total += histograms[histogram][i];
  while (bucket < BUCKETS - 1 &&
         (double)(below += histograms[histogram][bucket]) < q * (double)total)
    bucket++;
  return exp2(bucket / 32.0 - 20);
}

/* --- events, and the sequences of a batch: heaps of pairs */

static bool is_before(const Event *a, const Event *b) {
  return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void push(Event event) {
  if (n_events == MAX_EVENTS) give_up("too many events");
  event.order = next_order++;
  int i = n_events++;
  for (; i > 0 && is_before(&event, &heap[(i - 1) / 2]); i = (i - 1) / 2)
    heap[i] = heap[(i - 1) / 2];
  heap[i] = event;
}

static Event pop(void) {
  const Event first = heap[0], last = heap[--n_events];
  int i = 0;
  for (int child; (child = 2 * i + 1) < n_events; i = child) {
    child += child + 1 < n_events && is_before(&heap[child + 1], &heap[child]);
    if (!is_before(&heap[child], &last)) break;
    heap[i] = heap[child];
  }
  heap[i] = last;
  return first;
}

static void add_sequence(Instance *self, Sequence sequence) {
  if (self->n_seqs == MAX_SEQS) give_up("too many sequences");
  int i = self->n_seqs++;
  for (; i > 0 && sequence.finish < self->batch[(i - 1) / 2].finish; i = (i - 1) / 2)
    self->batch[i] = self->batch[(i - 1) / 2];
  self->batch[i] = sequence;
}

static Sequence take_first(Instance *self) {
  const Sequence first = self->batch[0], last = self->batch[--self->n_seqs];
  int i = 0;
  for (int child; (child = 2 * i + 1) < self->n_seqs; i = child) {
    child += child + 1 < self->n_seqs && self->batch[child + 1].finish < self->batch[child].finish;
    if (self->batch[child].finish >= last.finish) break;
    self->batch[i] = self->batch[child];
  }
  self->batch[i] = last;
  return first;
}

/* --- prefill */

static void begin_prefill(Instance *self) {
  int tokens = 0;
  self->n_prefilled = 0;
  while (self->n_queued > 0 && self->n_prefilled < MAX_PROMPTS) {
    const int request = self->queue[self->head];
    if (self->n_prefilled > 0 && tokens + requests[request].prompt > MAX_TOKENS) break;
    tokens += requests[request].prompt;
    self->prefilled[self->n_prefilled++] = request;
    self->head = (self->head + 1) % MAX_QUEUE;
    self->n_queued--;
  }
  self->runs = self->n_prefilled > 0;
  if (!self->runs) return;
  const Ticks ticks = 30 * MS + tokens * (MS / 20);
  push((Event){.at = now + ticks, .kind = PREFILL_ENDS, .instance = (uint32_t)(self - instances)});
}

static void end_prefill(Instance *self) {
  for (int i = 0; i < self->n_prefilled; i++) {
    Request *request = &requests[self->prefilled[i]];
    request->first_token = now;
    book(0, now - request->arrived);
    self->pending -= request->prompt;
    push((Event){.at = now + 5 * MS,
                 .kind = KV_ARRIVES,
                 .instance = (uint32_t)request->decode,
                 .value = self->prefilled[i]});
  }
  begin_prefill(self);
}

/* --- decode */

/* Ticks of the first n iterations of a run: each has a token more of every sequence. */
static Ticks run_ticks(const Instance *self, int64_t n) {
  return n * self->base + self->slope * (n * self->context + self->n_seqs * (n * (n - 1) / 2));
}

static void set_run_end(Instance *self, int64_t n) {
  self->n = n;
  push((Event){.at = self->began + run_ticks(self, n),
               .kind = RUN_ENDS,
               .instance = (uint32_t)(self - instances),
               .epoch = ++self->epoch,
               .value = n});
}

static void begin_run(Instance *self) {
  for (; self->n_joining > 0; self->n_joining--) {
    const int ix = self->joining[self->n_joining - 1];
    add_sequence(self, (Sequence){self->iterations + requests[ix].output - 1, ix});
    self->context += requests[ix].prompt;
  }
  self->runs = self->n_seqs > 0;
  if (!self->runs) return;
  self->base = 35 * MS + self->n_seqs * (MS / 10);
  self->slope = 30000;
  self->began = now;
  set_run_end(self, self->batch[0].finish - self->iterations);
}

/* The run ends with the iteration that is under way, found by solving for its number. */
static void cut_run(Instance *self) {
  const double elapsed = (double)(now - self->began);
  const double a = (double)self->slope * self->n_seqs / 2;
  const double b = (double)self->base + (double)self->slope * (double)self->context - a;
  int64_t n = (int64_t)((sqrt(b * b + 4 * a * elapsed) - b) / (2 * a));
  while (run_ticks(self, n) < now - self->began)
    n++;
  while (n > 1 && run_ticks(self, n - 1) >= now - self->began)
    n--;
  if (n < 1) n = 1;
  if (n < self->n) set_run_end(self, n);
}

static void join(Instance *self, int request) {
  if (self->n_joining == MAX_SEQS) give_up("too many sequences join");
  self->joining[self->n_joining++] = request;
  if (!self->runs)
    begin_run(self);
  else if (self->n_joining == 1)
    cut_run(self);
}

static void end_run(Instance *self, int64_t n) {
  self->iterations += n;
  self->context += n * self->n_seqs;
  n_tokens += n * self->n_seqs;
  while (self->n_seqs > 0 && self->batch[0].finish <= self->iterations) {
    const int ix = take_first(self).request;
    const Request *request = &requests[ix];
    self->context -= request->prompt + request->output - 1;
    self->pending -= request->prompt;
    book(1, (now - request->first_token) / (request->output - 1));
    book(2, now - request->arrived);
    unused[n_unused++] = ix;
    n_done++;
  }
  begin_run(self);
}

/* --- arrivals, and the loop */

static int least_pending(int first, int end) {
  int least = first;
  for (int i = first + 1; i < end; i++)
    if (instances[i].pending < instances[least].pending) least = i;
  return least;
}

static void arrive(void) {
  if (n_unused == 0) give_up("too many requests at once");
  const int ix = unused[--n_unused], prefill = least_pending(0, N_PREFILL);
  Request *request = &requests[ix];
  request->arrived = now;
  request->prompt = length_at(lengths.prompt, drawn());
  request->output = length_at(lengths.output, drawn());
  if (request->output < 2) request->output = 2;
  request->decode = least_pending(N_PREFILL, N_INSTANCES);
  Instance *instance = &instances[prefill];
  if (instance->n_queued == MAX_QUEUE) give_up("a queue is full");
  instance->pending += request->prompt;
  instances[request->decode].pending += request->prompt;
  instance->queue[(instance->head + instance->n_queued++) % MAX_QUEUE] = ix;
  if (!instance->runs) begin_prefill(instance);
}

static void handle(Event event) {
  Instance *instance = &instances[event.instance];
  if (event.kind == PREFILL_ENDS)
    end_prefill(instance);
  else if (event.kind == KV_ARRIVES)
    join(instance, (int)event.value);
  else if (event.epoch == instance->epoch)
    end_run(instance, event.value);
}

static void simulate(int64_t n_requests, double rate) {
  int64_t n_arrived = 0;
  Ticks next_arrival = 0;
  for (; n_done < n_requests; n_handled++) {
    if (n_arrived < n_requests && (n_events == 0 || next_arrival <= heap[0].at)) {
      now = next_arrival;
      arrive();
      n_arrived++;
      next_arrival = now - (Ticks)(log1p(-drawn()) / rate * 1e12);
    } else {
      const Event event = pop();
      now = event.at;
      handle(event);
    }
  }
}

static double cpu_seconds(void) {
  struct timespec at;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc < 3) give_up("usage: bare_flow LENGTHS REQUESTS [RATE]");
  const int64_t n = atoll(argv[2]);
  const double rate = argc > 3 ? strtod(argv[3], NULL) : 50;
  if (n < 1 || rate <= 0) give_up("expected a number of requests, and a rate");
  read_lengths(argv[1]);
  for (int i = 0; i < MAX_REQUESTS; i++)
    unused[n_unused++] = i;
  const double begin = cpu_seconds();
  simulate(n, rate);
  const double seconds = cpu_seconds() - begin;
  printf("requests_per_cpu_s %.0f\nevents %" PRId64 "\ntokens %" PRId64 "\nns_per_token %.2f\n",
         (double)n / seconds, n_handled, n_tokens, 1e9 * seconds / (double)n_tokens);
  printf("ttft_p50_s %.4f\ntpot_p50_s %.4f\ne2e_p50_s %.4f\n", quantile(0, 0.5), quantile(1, 0.5),
         quantile(2, 0.5));
  return 0;
}
