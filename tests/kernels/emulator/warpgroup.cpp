/* What hopper.cuh needs of emulator.h: barriers in shared memory and named ones, the copy engine,
 * products of a warpgroup. */
#include "tests/kernels/emulator/emulator.h"

#include <map>

namespace emulator {
namespace {

/* Of 16 bytes of shared memory: nobody's; written by a thread, which has not said so to the copy
 * engine and the tensor cores; it has, and others do not know; to come by a copy. */
enum class Chunk : uint8_t { plain, written, fenced, coming };

struct Mbarrier {
  uint32_t count, left; // arrivals of a phase, and those to come in this one
  int64_t bytes;        // to come
  uint32_t phase;
};

struct NamedBarrier {
  int threads, arrived;
};

struct BoxCopy {
  unsigned char *to;
  TensorMap map;
  int32_t column, row;
  uint32_t barrier;
};

/* Of one warp; results of lanes are kept apart from their registers until they are waited for. */
struct Product {
  float *d[32];
  const uint32_t *a[32]; // NULL: in shared memory
  uint32_t a_values[32][4];
  uint64_t a_operand, b_operand;
  int n_tiles, group, warp;
  bool is_added, is_bf16, is_done;
};

struct Warp {
  bool is_fenced;
  int groups;
  uint64_t products; // all of them, as a hash
  std::vector<Product> pending;
  std::vector<size_t> fenced; // chunks
};

struct Sums {
  std::vector<float> values;
  int n_pending;
};

struct Engines {
  std::vector<Chunk> chunks;                // by address / 16
  std::vector<std::vector<size_t>> written; // by thread
  std::map<uint32_t, Mbarrier> mbarriers;
  NamedBarrier named[16];
  std::vector<BoxCopy> copies;
  Warp warps[32];
  std::map<const float *, Sums> sums; // of a lane's registers that products write
};
Engines self;

unsigned thread_number(const Thread *own) {
  return own->index.x + block.x * (own->index.y + block.y * own->index.z);
}

Chunk &chunk_at(uint32_t address) {
  size_t i = address / 16;
  if (self.chunks.size() <= i) {
    self.chunks.resize(i + 1, Chunk::plain);
  }
  return self.chunks[i];
}

/* Others learn of what the running thread's warp has written. */
void release_written() {
  std::vector<size_t> &fenced = self.warps[warp_of(thread)].fenced;
  for (size_t i : fenced) {
    if (self.chunks[i] == Chunk::fenced) {
      self.chunks[i] = Chunk::plain;
    }
  }
  fenced.clear();
}

// --- barriers ----------------------------------------------------------------------------------

Mbarrier &mbarrier_at(uint32_t address) {
  auto found = self.mbarriers.find(address);
  if (found == self.mbarriers.end()) {
    fail("no barrier has been made at %#x", address);
  }
  return found->second;
}

void end_phase(Mbarrier &barrier) {
  if (barrier.left == 0 && barrier.bytes == 0) {
    barrier.phase++;
    barrier.left = barrier.count;
  }
}

} // namespace

void mbarrier_init(uint32_t address, uint32_t count) {
  shared_pointer(address, 8);
  if (!self.mbarriers.emplace(address, Mbarrier{count, count, 0, 0}).second) {
    fail("the barrier at %#x is made twice", address);
  }
}

void mbarrier_arrive(uint32_t address, uint32_t bytes) {
  Mbarrier &barrier = mbarrier_at(address);
  if (barrier.left == 0) {
    fail("more threads than %u arrive at the barrier at %#x", barrier.count, address);
  }
  release_written();
  barrier.left--;
  barrier.bytes += bytes;
  end_phase(barrier);
}

void mbarrier_wait(uint32_t address, uint32_t parity) {
  mbarrier_at(address);
  thread->waits_for = address;
  thread->parity = parity;
  block_until(State::at_mbarrier);
}

bool mbarrier_is_over(const Thread *own) {
  return (mbarrier_at(own->waits_for).phase & 1) != own->parity;
}

void named_barrier(int number, int threads, bool waits) {
  if (number < 1 || number > 15 || threads % 32 != 0) {
    fail("the named barrier %d of %d threads", number, threads);
  }
  NamedBarrier &barrier = self.named[number];
  if (barrier.arrived > 0 && barrier.threads != threads) {
    fail("the named barrier %d is of %d and of %d threads", number, barrier.threads, threads);
  }
  release_written();
  barrier.threads = threads;
  barrier.arrived++;
  if (barrier.arrived == threads) {
    barrier.arrived = 0;
    release_named(number);
  } else if (waits) {
    thread->waits_for = static_cast<uint32_t>(number);
    block_until(State::at_named_barrier);
  }
}

// --- shared memory -----------------------------------------------------------------------------

void note_written(const void *to) {
  uint32_t address = shared_address(to);
  chunk_at(address) = Chunk::written;
  self.written[thread_number(thread)].push_back(address / 16);
}

void fence_async() {
  Warp &warp = self.warps[warp_of(thread)];
  for (size_t i : self.written[thread_number(thread)]) {
    if (self.chunks[i] == Chunk::written) {
      self.chunks[i] = Chunk::fenced;
      warp.fenced.push_back(i);
    }
  }
  self.written[thread_number(thread)].clear();
}

void store_zero16(uint32_t to) {
  void *at = shared_pointer(to, 16);
  memset(at, 0, 16);
  note_written(at);
}

namespace {

/* As the swizzle of 128 bytes has it. */
uint32_t swizzled(uint32_t address) {
  return address ^ (address >> 7 & 7) << 4;
}

constexpr int box_row_bytes = 128;

void land(const BoxCopy &copy) {
  uint32_t to = shared_address(copy.to);
  for (int row = 0; row < copy.map.box_rows; row++) {
    const unsigned char *from =
        static_cast<const unsigned char *>(copy.map.rows) +
        2 * (static_cast<int64_t>(copy.row + row) * copy.map.columns + copy.column);
    for (int i = 0; i < box_row_bytes; i += 16) {
      uint32_t at = swizzled(to + static_cast<uint32_t>(row * box_row_bytes + i));
      memcpy(shared_pointer(at, 16), from + i, 16);
      chunk_at(at) = Chunk::plain;
    }
  }
  Mbarrier &barrier = mbarrier_at(copy.barrier);
  barrier.bytes -= copy.map.box_rows * box_row_bytes;
  end_phase(barrier);
}

} // namespace

void copy_box(uint32_t to, const TensorMap *map, int32_t column, int32_t row, uint32_t barrier) {
  BoxCopy copy = {static_cast<unsigned char *>(shared_pointer(to, 1024)), *map, column, row,
                  barrier};
  if (column < 0 || column + 64 > map->columns || row < 0) {
    fail("a box of 64 columns from %d on, row %d, of %d columns", column, row, map->columns);
  }
  for (int i = 0; i < map->box_rows * box_row_bytes; i += 16) {
    Chunk &chunk = chunk_at(to + static_cast<uint32_t>(i));
    if (chunk != Chunk::plain) {
      fail("a copy to shared memory that %s",
           chunk == Chunk::coming ? "another copy is under way to"
                                  : "a thread has written, without a fence or a barrier");
    }
    chunk = Chunk::coming;
  }
  memset(copy.to, 0xff, static_cast<size_t>(map->box_rows) * box_row_bytes);
  self.copies.push_back(copy);
}

bool land_copy(uint64_t random, uint32_t barrier) {
  for (size_t n = self.copies.size(), i = 0; i < n; i++) {
    size_t at = (random + i) % n;
    BoxCopy copy = self.copies[at];
    if (barrier == 0 || copy.barrier == barrier) {
      self.copies.erase(self.copies.begin() + static_cast<std::ptrdiff_t>(at));
      land(copy);
      return true;
    }
  }
  return false;
}

// --- products ----------------------------------------------------------------------------------

namespace {

/* Two bytes of an operand that lies in rows along k, or transposed. */
uint16_t element(uint64_t operand, int row, int column, bool is_transposed) {
  uint32_t start = (operand & 0x3fff) << 4, blocks = (operand >> 16 & 0x3fff) << 4;
  uint32_t eights = (operand >> 32 & 0x3fff) << 4;
  int along = is_transposed ? column % 64 : column;
  uint32_t linear = start + static_cast<uint32_t>(row / 8) * eights +
                    static_cast<uint32_t>(row % 8 * box_row_bytes + along * 2);
  if (is_transposed) {
    linear += static_cast<uint32_t>(column / 64) * blocks;
  }
  uint32_t at = swizzled(linear);
  if (chunk_at(at) != Chunk::plain) {
    fail("a product reads shared memory that %s",
         chunk_at(at) == Chunk::coming    ? "a copy has not brought yet"
         : chunk_at(at) == Chunk::written ? "a thread has written, without a fence"
                                          : "a thread has written, without a barrier");
  }
  uint16_t value;
  memcpy(&value, shared_pointer(at & ~1u, 2), sizeof value);
  return value;
}

void fragment(int lane, int part, int *row, int *column) {
  *row = lane / 4 + part % 2 * 8;
  *column = lane % 4 * 2 + part / 2 * 8;
}

void read_a(const Product &product, float (&a)[16][16]) {
  for (int lane = 0; lane < 32 && product.a[0] != nullptr; lane++) {
    for (int part = 0; part < 4; part++) {
      int row, column;
      fragment(lane, part, &row, &column);
      a[row][column] = element_value(product.a_values[lane][part] & 0xffff, product.is_bf16);
      a[row][column + 1] = element_value(product.a_values[lane][part] >> 16, product.is_bf16);
    }
  }
  for (int i = 0; i < 256 && product.a[0] == nullptr; i++) {
    int row = product.warp % 4 * 16 + i / 16;
    a[i / 16][i % 16] =
        element_value(element(product.a_operand, row, i % 16, false), product.is_bf16);
  }
}

void compute(Product &product) {
  float a[16][16], b[16];
  read_a(product, a);
  product.is_done = true;
  for (int column = 0; column < 8 * product.n_tiles; column++) {
    bool is_transposed = product.a[0] != nullptr;
    for (int k = 0; k < 16; k++) {
      uint16_t bits = is_transposed ? element(product.b_operand, k, column, true)
                                    : element(product.b_operand, column, k, false);
      b[k] = element_value(bits, product.is_bf16);
    }
    for (int row = 0; row < 16; row++) {
      int lane = row % 8 * 4 + column % 8 / 2, at = column / 8 * 4 + row / 8 * 2 + column % 2;
      float &sum = self.sums[product.d[lane]].values[static_cast<size_t>(at)], more = 0;
      for (int k = 0; k < 16; k++) {
        more += a[row][k] * b[k];
      }
      sum = product.is_added ? sum + more : more;
    }
  }
}

struct Operands {
  float *d;
  const uint32_t *a;
  uint64_t a_operand, b_operand;
  int n_tiles;
  bool is_added, is_bf16;
};

void start_lane(Product &product, int lane, const Operands &own) {
  size_t n = static_cast<size_t>(own.n_tiles) * 4;
  product.d[lane] = own.d;
  product.a[lane] = own.a;
  if (own.a != nullptr) {
    memcpy(product.a_values[lane], own.a, sizeof product.a_values[lane]);
  }
  Sums &sums = self.sums[own.d];
  if (sums.n_pending++ == 0) {
    sums.values.assign(own.d, own.d + n);
    memset(own.d, 0xff, n * sizeof *own.d);
  }
}

/* Some are computed at once, others when they are waited for. */
void do_wgmma(Thread *const *lanes) {
  const Operands &first = *static_cast<const Operands *>(lanes[0]->arguments);
  int number = warp_of(lanes[0]);
  Warp &warp = self.warps[number];
  Product product = {};
  if (!warp.is_fenced) {
    fail("warp %d starts a product without a fence since it has waited", number);
  }
  if (first.b_operand >> 62 != 1 || (first.a == nullptr && first.a_operand >> 62 != 1)) {
    fail("an operand of warp %d is not swizzled by 128 bytes", number);
  }
  product.a_operand = first.a_operand;
  product.b_operand = first.b_operand;
  product.n_tiles = first.n_tiles;
  product.is_added = first.is_added;
  product.is_bf16 = first.is_bf16;
  product.group = warp.groups;
  product.warp = number;
  for (int lane = 0; lane < 32; lane++) {
    const Operands &own = *static_cast<const Operands *>(lanes[lane]->arguments);
    if (own.a_operand != first.a_operand || own.b_operand != first.b_operand) {
      fail("lanes 0 and %d of warp %d start different products", lane, number);
    }
    start_lane(product, lane, own);
  }
  warp.products = (warp.products ^ product.a_operand ^ product.b_operand << 1) * 1099511628211u;
  bool is_first = true;
  for (const Product &other : warp.pending) {
    is_first = is_first && other.is_done;
  }
  if (is_first && is_early()) {
    compute(product);
  }
  warp.pending.push_back(product);
}

void end_lane(const Product &product, int lane) {
  Sums &sums = self.sums[product.d[lane]];
  if (product.a[lane] != nullptr &&
      memcmp(product.a[lane], product.a_values[lane], sizeof product.a_values[lane]) != 0) {
    fail("lane %d of warp %d has written an A fragment of a product under way", lane, product.warp);
  }
  for (size_t i = 0; i < sums.values.size(); i++) {
    uint32_t bits;
    memcpy(&bits, product.d[lane] + i, sizeof bits);
    if (bits != 0xffffffffu) {
      fail("lane %d of warp %d has written a sum of a product under way", lane, product.warp);
    }
  }
  if (--sums.n_pending == 0) {
    std::copy(sums.values.begin(), sums.values.end(), product.d[lane]);
    self.sums.erase(product.d[lane]);
  }
}

void do_wgmma_wait(Thread *const *lanes) {
  Warp &warp = self.warps[warp_of(lanes[0])];
  int in_flight = *static_cast<const int *>(lanes[0]->arguments);
  size_t kept = 0;
  for (Product &product : warp.pending) {
    if (product.group >= warp.groups - in_flight) {
      warp.pending[kept++] = product;
      continue;
    }
    if (!product.is_done) {
      compute(product);
    }
    for (int lane = 0; lane < 32; lane++) {
      end_lane(product, lane);
    }
  }
  warp.pending.resize(kept);
  warp.is_fenced = false;
}

} // namespace

void wgmma(float *d, int n_tiles, const uint32_t *a, uint64_t a_operand, uint64_t b_operand,
           bool is_added, bool is_bf16) {
  Operands operands = {d, a, a_operand, b_operand, n_tiles, is_added, is_bf16};
  warp_operation(do_wgmma, 0xffffffffu, &operands);
}

void wgmma_fence() {
  warp_operation([](Thread *const *lanes) { self.warps[warp_of(lanes[0])].is_fenced = true; },
                 0xffffffffu, nullptr);
}

void wgmma_commit() {
  warp_operation([](Thread *const *lanes) { self.warps[warp_of(lanes[0])].groups++; }, 0xffffffffu,
                 nullptr);
}

void wgmma_wait(int groups_in_flight) {
  warp_operation(do_wgmma_wait, 0xffffffffu, &groups_in_flight);
}

// --- a block -----------------------------------------------------------------------------------

void begin_engines(int n_threads) {
  std::fill(self.chunks.begin(), self.chunks.end(), Chunk::plain);
  self.written.assign(static_cast<size_t>(n_threads), {});
  self.mbarriers.clear();
  std::fill(std::begin(self.named), std::end(self.named), NamedBarrier{});
  std::fill(std::begin(self.warps), std::end(self.warps), Warp{});
}

void end_engines() {
  if (!self.copies.empty()) {
    fail("the block has ended while %zu copies are under way", self.copies.size());
  }
  for (int i = 0; i < 32; i++) {
    if (!self.warps[i].pending.empty()) {
      fail("warp %d has ended without a wait for its products", i);
    }
    if (self.warps[i].products != self.warps[i / 4 * 4].products) {
      fail("warps %d and %d of a warpgroup have started different products", i / 4 * 4, i);
    }
  }
}

} // namespace emulator
