/* The memory of emulator.h: mappings that end at pages without access, shared memory in one arena
 * of them, and who copied what to it. */
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <map>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "tests/kernels/emulator/emulator.h"

namespace emulator {
namespace {

constexpr size_t page_bytes = 4096;
constexpr size_t shared_limit_bytes = 227 * 1024; // of a block on sm_90
constexpr size_t arena_bytes = 4 << 20;

struct SharedArray {
  unsigned char *at;
  size_t bytes;
};

/* Who copied 16 bytes, and how many barriers there had been: of the block, of the warp. */
struct Copied {
  int warp, block_syncs, warp_syncs;
};

struct Memory {
  unsigned char *arena; // every shared array, each followed by a page without access
  size_t arena_used, shared_bytes;
  std::map<std::pair<const void *, size_t>, SharedArray> arrays; // by (file, line)
  SharedArray dynamic;
  std::vector<Copied> copied; // by address / 16
  int block_syncs, warp_syncs[32];
};
Memory self;

void report_fault(int, siginfo_t *info, void *) {
  fail("access to %p, outside of every array and allocation", info->si_addr);
}

/* Overrun stacks and memory without access end here, on a stack of its own. */
void catch_faults() {
  static unsigned char stack[64 * 1024];
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = report_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

SharedArray arena_push(size_t bytes) {
  size_t padded = (bytes + 127) / 128 * 128;
  size_t pages = (padded + page_bytes - 1) / page_bytes * page_bytes;
  self.shared_bytes += padded;
  if (self.shared_bytes > shared_limit_bytes || self.arena_used + pages > arena_bytes) {
    fail("%zu bytes of shared memory, at most %zu", self.shared_bytes, shared_limit_bytes);
  }
  unsigned char *end = self.arena + self.arena_used + pages;
  mprotect(end - pages, pages, PROT_READ | PROT_WRITE);
  self.arena_used += pages + page_bytes;
  SharedArray array = {end - (bytes + 15) / 16 * 16, bytes};
  memset(array.at, 0xff, bytes);
  return array;
}

} // namespace

unsigned char *map_pages(size_t bytes, int protection) {
  void *at = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    fail("no memory for %zu bytes", bytes);
  }
  return static_cast<unsigned char *>(at);
}

void shared_begin_launch(size_t dynamic_bytes) {
  if (self.arena == nullptr) {
    self.arena = map_pages(arena_bytes, PROT_NONE);
    catch_faults();
  }
  mprotect(self.arena, arena_bytes, PROT_NONE);
  self.arrays.clear();
  self.copied.assign(arena_bytes / 16, {-1, 0, 0});
  self.arena_used = page_bytes;
  self.shared_bytes = 0;
  self.dynamic = arena_push((dynamic_bytes + 255) / 256 * 256);
}

void shared_begin_block() {
  self.block_syncs++;
  memset(self.dynamic.at, 0xff, self.dynamic.bytes);
  for (auto &entry : self.arrays) {
    memset(entry.second.at, 0xff, entry.second.bytes);
  }
}

int warp_of(const Thread *own) {
  unsigned n = own->index.x + block.x * (own->index.y + block.y * own->index.z);
  return static_cast<int>(n) / 32;
}

void note_block_sync() {
  self.block_syncs++;
}

void note_warp_sync(int warp) {
  self.warp_syncs[warp]++;
}

void note_copy(const void *to) {
  int warp = warp_of(thread);
  self.copied[shared_address(to) / 16] = {warp, self.block_syncs, self.warp_syncs[warp]};
}

void require_copied(const void *from, const Thread *reader) {
  const Copied &copied = self.copied[shared_address(from) / 16];
  int warp = warp_of(reader);
  if (copied.warp < 0 || copied.block_syncs < self.block_syncs ||
      (copied.warp == warp && copied.warp_syncs < self.warp_syncs[warp])) {
    return;
  }
  fail("warp %d reads what warp %d copied, without a barrier in between", warp, copied.warp);
}

void *shared_array(const char *file, int line, size_t bytes) {
  auto key = std::make_pair(static_cast<const void *>(file), static_cast<size_t>(line));
  auto found = self.arrays.find(key);
  if (found == self.arrays.end()) {
    found = self.arrays.emplace(key, arena_push(bytes)).first;
  }
  return found->second.at;
}

void *shared_dynamic() {
  return self.dynamic.at;
}

uint32_t shared_address(const void *pointer) {
  const unsigned char *at = static_cast<const unsigned char *>(pointer);
  if (at < self.arena || at >= self.arena + arena_bytes) {
    fail("%p is not in shared memory", pointer);
  }
  return static_cast<uint32_t>(at - self.arena);
}

void *shared_pointer(uint32_t address, size_t bytes) {
  if (address % bytes != 0) {
    fail("the address %#x is no multiple of %zu bytes", address, bytes);
  }
  if (address >= arena_bytes) {
    fail("the address %#x is not in shared memory", address);
  }
  return self.arena + address;
}

} // namespace emulator

namespace {

/* In the first page of an allocation, which nobody else reads. */
struct Head {
  size_t total;
  int file; // -1: not shared
};
bool is_shared;

/* The start of an allocation lies in its second page, or is the end of it. */
unsigned char *first_page(const void *memory) {
  uintptr_t page = (reinterpret_cast<uintptr_t>(memory) - 1) / emulator::page_bytes;
  return reinterpret_cast<unsigned char *>((page - 1) * emulator::page_bytes);
}

Head head_of(const void *memory) {
  Head head;
  memcpy(&head, first_page(memory), sizeof head);
  return head;
}

unsigned char *map_file(int file, size_t bytes) {
  void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<unsigned char *>(at);
}

} // namespace

void emulator_share(int shared) {
  is_shared = shared != 0;
}

void *emulator_alloc(size_t bytes) {
  size_t pages = (bytes + 15 + emulator::page_bytes) / emulator::page_bytes * emulator::page_bytes;
  Head head = {pages + 2 * emulator::page_bytes, -1};
  unsigned char *at = nullptr;
  if (is_shared) {
    head.file = memfd_create("emulated memory", MFD_CLOEXEC);
    if (head.file < 0 || ftruncate(head.file, static_cast<off_t>(head.total)) != 0 ||
        (at = map_file(head.file, head.total)) == nullptr) {
      emulator::fail("no shared memory for %zu bytes", bytes);
    }
  } else {
    at = emulator::map_pages(head.total, PROT_READ | PROT_WRITE);
  }
  memcpy(at, &head, sizeof head);
  unsigned char *end = at + emulator::page_bytes + pages;
  mprotect(end, emulator::page_bytes, PROT_NONE);
  memset(at + emulator::page_bytes, 0xff, pages);
  return end - (bytes + 15) / 16 * 16;
}

void emulator_free(void *memory) {
  if (memory == nullptr) {
    return;
  }
  Head head = head_of(memory);
  munmap(first_page(memory), head.total);
  if (head.file >= 0) {
    close(head.file);
  }
}

EmulatorFile emulator_file(const void *memory) {
  Head head = head_of(memory);
  return {getpid(), head.file, head.total,
          static_cast<size_t>(static_cast<const unsigned char *>(memory) - first_page(memory))};
}

void *emulator_map(const EmulatorFile *file) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", file->process, file->file);
  int opened = open(path, O_RDWR | O_CLOEXEC);
  unsigned char *at = opened < 0 ? nullptr : map_file(opened, file->bytes);
  if (opened >= 0) {
    close(opened);
  }
  return at == nullptr ? nullptr : at + file->offset;
}

void emulator_unmap(void *memory, const EmulatorFile *file) {
  munmap(static_cast<unsigned char *>(memory) - file->offset, file->bytes);
}
