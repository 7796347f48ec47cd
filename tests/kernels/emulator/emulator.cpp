/* The fibers of emulator.h and the order in which they run.
 *
 * A fiber is entered once by ucontext and from then on by longjmp, which costs tens of
 * nanoseconds where swapcontext costs a system call. It outlives its block: the next block gives
 * it another thread index. The scheduler runs on the caller's own stack. */
#include "tests/kernels/emulator/emulator.h"

#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <utility>

namespace emulator {

Thread *thread;
dim3 grid, block;
uint3 block_index;
Counts counts;
bool must_wait = false;

void wait_for_kernel_before() {
  thread->has_waited = true;
}

namespace {

constexpr size_t page_bytes = 4096;
constexpr size_t stack_bytes = 64 * 1024;

struct Fiber {
  Thread thread;
  jmp_buf context;
  ucontext_t start;
};

struct Emulator {
  std::vector<Fiber *> fibers; // one per thread of the largest block so far
  jmp_buf scheduler;
  void (*call)(void *);
  void *context;
  uint64_t seed, random;
};
Emulator self;

uint64_t random_next() { // xorshift64*
  self.random ^= self.random >> 12;
  self.random ^= self.random << 25;
  self.random ^= self.random >> 27;
  return self.random * 2685821657736338717u;
}

int n_threads() {
  return static_cast<int>(block.x * block.y * block.z);
}
int n_warps() {
  return (n_threads() + 31) / 32;
}

// --- fibers ------------------------------------------------------------------------------------

void fiber_main() {
  for (;;) {
    self.call(self.context);
    if (must_wait && !thread->has_waited) {
      fail("a thread ends without a wait for the kernel before");
    }
    thread->state = State::done;
    Fiber *own = reinterpret_cast<Fiber *>(thread);
    if (_setjmp(own->context) == 0) {
      _longjmp(self.scheduler, 1);
    }
  }
}

void fiber_resume(Fiber *fiber) {
  thread = &fiber->thread;
  if (_setjmp(self.scheduler) == 0) {
    _longjmp(fiber->context, 1);
  }
  thread = nullptr;
}

/* Back to the scheduler, until it resumes the fiber. */
void fiber_block(State state) {
  thread->state = state;
  if (_setjmp(reinterpret_cast<Fiber *>(thread)->context) == 0) {
    _longjmp(self.scheduler, 1);
  }
}

/* The first entry of a new fiber stops at once, so that it has a context to resume. */
void fiber_first() {
  if (_setjmp(reinterpret_cast<Fiber *>(thread)->context) == 0) {
    _longjmp(self.scheduler, 1);
  }
  fiber_main();
}

Fiber *fiber_open() {
  static_assert(offsetof(Fiber, thread) == 0, "a thread is found from its fiber and back");
  Fiber *fiber = new Fiber();
  unsigned char *stack = map_pages(page_bytes + stack_bytes, PROT_READ | PROT_WRITE);
  mprotect(stack, page_bytes, PROT_NONE);
  getcontext(&fiber->start);
  fiber->start.uc_stack.ss_sp = stack + page_bytes;
  fiber->start.uc_stack.ss_size = stack_bytes;
  makecontext(&fiber->start, fiber_first, 0);
  thread = &fiber->thread;
  if (_setjmp(self.scheduler) == 0) {
    setcontext(&fiber->start);
  }
  return fiber;
}

// --- scheduling --------------------------------------------------------------------------------

Thread *thread_of(int i) {
  return &self.fibers[static_cast<size_t>(i)]->thread;
}

int warp_end(int warp) {
  return std::min(warp * 32 + 32, n_threads());
}

bool any_in(int warp, State state) {
  for (int i = warp * 32; i < warp_end(warp); i++) {
    if (thread_of(i)->state == state) {
      return true;
    }
  }
  return false;
}

/* Runs every ready lane of the warp until it blocks or ends. */
void run_lanes(int warp) {
  int first = warp * 32, n = warp_end(warp) - first, order[32];
  for (int i = 0; i < n; i++) {
    order[i] = first + i;
  }
  for (int i = n - 1; i > 0 && self.seed != 0; i--) {
    std::swap(order[i], order[random_next() % static_cast<uint64_t>(i + 1)]);
  }
  for (int i = 0; i < n; i++) {
    if (thread_of(order[i])->state == State::ready) {
      fiber_resume(self.fibers[static_cast<size_t>(order[i])]);
    }
  }
}

/* Does the operation that this lane waits for if all lanes of its mask wait for it too. */
bool try_operation(int first, int lane) {
  Thread *leader = thread_of(first + lane), *lanes[32] = {};
  if ((leader->mask >> lane & 1) == 0) {
    fail("lane %d is not in the mask %08x of its own operation", lane, leader->mask);
  }
  for (int i = 0; i < 32; i++) {
    if ((leader->mask >> i & 1) == 0) {
      continue;
    }
    if (first + i >= n_threads()) {
      fail("the mask %08x names lane %d, past the end of the block", leader->mask, i);
    }
    lanes[i] = thread_of(first + i);
    if (lanes[i]->state != State::at_warp_operation) {
      return false;
    }
    if (lanes[i]->operation != leader->operation || lanes[i]->mask != leader->mask) {
      fail("lanes %d and %d of a warp wait for different operations", lane, i);
    }
  }
  leader->operation(lanes);
  for (Thread *done : lanes) {
    if (done != nullptr) {
      done->state = State::ready;
    }
  }
  return true;
}

/* Whether some lane of the warp can run again. */
bool run_operations(int warp) {
  for (int i = warp * 32; i < warp_end(warp); i++) {
    if (thread_of(i)->state == State::at_warp_operation) {
      try_operation(warp * 32, i % 32);
    }
  }
  return any_in(warp, State::ready);
}

/* Barriers in shared memory that have opened. */
void wake_threads() {
  for (int i = 0; i < n_threads(); i++) {
    if (thread_of(i)->state == State::at_mbarrier && mbarrier_is_over(thread_of(i))) {
      thread_of(i)->state = State::ready;
    }
  }
}

/* Nobody can go on: a copy comes that somebody waits for. */
bool land_wanted() {
  for (int i = 0; i < n_threads(); i++) {
    if (thread_of(i)->state == State::at_mbarrier && land_copy(0, thread_of(i)->waits_for)) {
      return true;
    }
  }
  return false;
}

[[noreturn]] void report_deadlock() {
  int at_barrier = -1, in_warp = -1, n_done = 0;
  for (int i = 0; i < n_threads(); i++) {
    State state = thread_of(i)->state;
    at_barrier = state == State::at_barrier ? i : at_barrier;
    in_warp = state == State::at_warp_operation ? i : in_warp;
    n_done += state == State::done;
    if (state == State::at_mbarrier || state == State::at_named_barrier) {
      fail("thread %d waits for ever at the barrier %#x, parity %u", i, thread_of(i)->waits_for,
           thread_of(i)->parity);
    }
  }
  if (in_warp >= 0) {
    fail("thread %d waits in a warp operation of mask %08x that others do not come to", in_warp,
         thread_of(in_warp)->mask);
  }
  fail("thread %d waits at a barrier, %s:%d, that %d of %d threads ended without", at_barrier,
       thread_of(at_barrier)->file, thread_of(at_barrier)->line, n_done, n_threads());
}

/* All threads that have not ended wait: opens the barrier if every thread is at the same one. */
void open_barrier() {
  for (int i = 0; i < n_threads(); i++) {
    if (thread_of(i)->state != State::at_barrier) {
      report_deadlock();
    }
    if (thread_of(i)->line != thread_of(0)->line || thread_of(i)->file != thread_of(0)->file) {
      fail("threads 0 and %d wait at different barriers, lines %d and %d", i, thread_of(0)->line,
           thread_of(i)->line);
    }
  }
  note_block_sync();
  for (int i = 0; i < n_threads(); i++) {
    thread_of(i)->state = State::ready;
  }
}

int pick_warp(const std::vector<int> &warps, int last) {
  bool keep = self.seed == 0 || self.seed % 2 == 1;
  if (keep && last >= 0 && any_in(last, State::ready)) {
    return last;
  }
  std::vector<int> ready;
  for (int warp : warps) {
    if (any_in(warp, State::ready)) {
      ready.push_back(warp);
    }
  }
  if (ready.empty()) {
    return -1;
  }
  return ready[self.seed == 0 ? 0 : random_next() % ready.size()];
}

void run_block() {
  shared_begin_block();
  begin_engines(n_threads());
  std::vector<int> warps;
  for (int warp = 0; warp < n_warps(); warp++) {
    warps.push_back(warp);
  }
  for (int i = 0; i < n_threads(); i++) {
    Thread *own = thread_of(i);
    unsigned n = static_cast<unsigned>(i);
    own->index = {n % block.x, n / block.x % block.y, n / block.x / block.y};
    own->state = State::ready;
    own->groups = 0;
    own->has_waited = false;
    own->copies.clear();
  }
  for (int last = -1;;) {
    if (self.seed % 2 == 0 && self.seed != 0 && random_next() % 4 == 0) {
      land_copy(random_next(), 0);
    }
    wake_threads();
    int warp = last = pick_warp(warps, last);
    if (warp >= 0) {
      run_lanes(warp);
      run_operations(warp);
      continue;
    }
    if (land_wanted()) {
      continue;
    }
    bool all_done = true;
    for (int i = 0; i < n_threads(); i++) {
      all_done = all_done && thread_of(i)->state == State::done;
    }
    if (all_done) {
      end_engines();
      return;
    }
    open_barrier();
  }
}

} // namespace

void fail(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "emulator: block (%u, %u, %u)", block_index.x, block_index.y, block_index.z);
  if (thread != nullptr) {
    fprintf(stderr, ", thread (%u, %u, %u)", thread->index.x, thread->index.y, thread->index.z);
  }
  fprintf(stderr, ": %s\n", text);
  fflush(nullptr);
  _exit(1);
}

void run(dim3 grid_size, dim3 block_size, size_t shared_bytes, void (*call)(void *),
         void *context) {
  grid = grid_size;
  block = block_size;
  if (n_threads() < 1 || n_threads() > 1024 || grid.x < 1 || grid.y < 1 || grid.z < 1 ||
      grid.y > 65535 || grid.z > 65535) {
    fail("a launch of %u×%u×%u blocks of %d threads", grid.x, grid.y, grid.z, n_threads());
  }
  self.call = call;
  self.context = context;
  self.random = self.seed * 0x9e3779b97f4a7c15u + 1;
  shared_begin_launch(shared_bytes);
  while (static_cast<int>(self.fibers.size()) < n_threads()) {
    self.fibers.push_back(fiber_open());
  }
  thread = nullptr;
  for (unsigned z = 0; z < grid.z; z++) {
    for (unsigned y = 0; y < grid.y; y++) {
      for (unsigned x = 0; x < grid.x; x++) {
        block_index = {x, y, z};
        run_block();
      }
    }
  }
}

void warp_operation(Operation operation, uint32_t mask, void *arguments) {
  thread->operation = operation;
  thread->mask = mask;
  thread->arguments = arguments;
  fiber_block(State::at_warp_operation);
}

void sync_warp(uint32_t mask) {
  warp_operation(
      [](Thread *const *lanes) {
        // A copy by a lane outside of the mask would still need one.
        bool is_whole = std::count(lanes, lanes + 32, nullptr) == 0;
        if (is_whole) {
          note_warp_sync(warp_of(lanes[0]));
        }
      },
      mask, nullptr);
}

void block_until(State state) {
  fiber_block(state);
}

void release_named(int number) {
  for (int i = 0; i < n_threads(); i++) {
    Thread *own = thread_of(i);
    if (own->state == State::at_named_barrier && own->waits_for == static_cast<uint32_t>(number)) {
      own->state = State::ready;
    }
  }
}

bool is_early() {
  return self.seed != 0 && random_next() % 2 == 0;
}

void barrier(const char *file, int line) {
  thread->file = file;
  thread->line = line;
  fiber_block(State::at_barrier);
}

uint64_t timer_ns() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void store_release_system(uint32_t *to, uint32_t value) {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

/* What launches that the host has not waited for wait for: other ranks, a flag of the host. */
static bool waits_for_ranks = false;
static const volatile int32_t *waits_for = nullptr;

int32_t load_flag(const volatile int32_t *flag) {
  waits_for = *flag == 0 ? flag : nullptr;
  return *flag;
}

uint32_t load_acquire_system(const uint32_t *from) {
  waits_for_ranks = true;
  const struct timespec others_go_on = {0, 10 * 1000};
  nanosleep(&others_go_on, nullptr);
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

int load_error = 0;
static std::vector<size_t> loaded_bytes;
static std::set<const void *> loaded;
static int64_t loads = 0;

static void load(const void *kernel) {
  if (!loaded.insert(kernel).second) {
    return;
  }
  loads++;
  if (waits_for_ranks || (waits_for != nullptr && *waits_for == 0)) {
    thread = nullptr;
    fail("a kernel is loaded while another waits for %s: the device would wait for that one first",
         waits_for_ranks ? "other ranks" : "the host");
  }
}

void note_load(const void *kernel, size_t shared_bytes) {
  load(kernel);
  loaded_bytes.push_back(shared_bytes);
}

int multiprocessors() {
  const char *text = getenv("EMULATED_SMS");
  char *end = nullptr;
  long n = text != nullptr ? strtol(text, &end, 10) : 4;
  if (n < 1 || n > 1024 || (end != nullptr && (end == text || *end != '\0'))) {
    fail("EMULATED_SMS is '%s', not a number from 1 to 1024", text);
  }
  return static_cast<int>(n);
}

} // namespace emulator

int64_t emulator_loads(void) {
  return emulator::loads;
}

void emulator_launch(const void *kernel) {
  emulator::load(kernel);
}

void emulator_idle(void) {
  emulator::waits_for_ranks = false;
  emulator::waits_for = nullptr;
}

int emulator_take_loaded_bytes(size_t *ret_bytes, int most) {
  const std::vector<size_t> taken = std::exchange(emulator::loaded_bytes, {});
  for (int i = 0; i < most && i < static_cast<int>(taken.size()); i++) {
    ret_bytes[i] = taken[static_cast<size_t>(i)];
  }
  return static_cast<int>(taken.size());
}

void emulator_fail_loads(int error) {
  emulator::load_error = error;
}

void emulator_seed(uint64_t seed) {
  emulator::self.seed = seed;
}

int64_t emulator_take_bank_conflicts(void) {
  return std::exchange(emulator::counts.bank_conflicts, 0);
}

int64_t emulator_take_mma(void) {
  return std::exchange(emulator::counts.mma, 0);
}
