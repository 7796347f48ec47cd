/* The only place of the program that asks the system for memory.
 *
 * Small allocations are carved from chunks of CHUNK_BYTES that come zeroed from calloc. One larger
 * than a quarter of a chunk has a block of its own, linked behind the head, so that the rest of the
 * head is not lost. Resizable blocks form a list of their own, linked both ways because realloc may
 * move any of them. */
#include "base/arena.h"
#include "base/units.h"
#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CHUNK_BYTES = 64 << 10, ALIGNMENT = 16 };

struct ArenaBlock {
  ArenaBlock *previous, *next; // previous is kept in the resizable list only
  size_t size, used;           // of data
  _Alignas(ALIGNMENT) unsigned char data[];
};

/* "; it may have 195 MiB", of whichever limit is the lowest; "" without one. */
static const char *limit_text(char *text, size_t size) {
  static const int kinds[] = {RLIMIT_AS, RLIMIT_DATA};
  rlim_t least = RLIM_INFINITY;
  for (int i = 0; i < 2; i++) {
    struct rlimit limit;
    if (getrlimit(kinds[i], &limit) == 0 && limit.rlim_cur < least) least = limit.rlim_cur;
  }
  *text = '\0';
  if (least == RLIM_INFINITY) return text;
  char bytes[32];
  units_format(bytes, sizeof bytes, DIM_BYTES, (double)least);
  snprintf(text, size, "; the limit of this process is %s", bytes);
  return text;
}

/* Other threads may be at work, so nothing is cleaned up: a file that was begun has no name, or one
 * that is taken away later (output.h), and a database forgets what was not committed. */
_Noreturn void arena_exhausted(size_t size) {
  char bytes[32] = "some", limit[64];
  if (size > 0) units_format(bytes, sizeof bytes, DIM_BYTES, (double)size);
  flockfile(stderr); // for good: another thread that is given none adds no second error
  fprintf(
      stderr,
      "error: out of memory: %s more are needed%s\n  hint: use fewer '--jobs', a smaller "
      "'--memory' or fewer requests, or raise the limit ('ulimit -v', or that of the container)\n",
      bytes, limit_text(limit, sizeof limit));
  _exit(4); // as everything that the environment lacks (diag.h)
}

/* What calloc or realloc must give for `size` bytes of data; sizes that cannot be are stopped here,
 * so that no sum below wraps. */
static size_t block_bytes(size_t size) {
  if (size > PTRDIFF_MAX - sizeof(ArenaBlock) - ALIGNMENT) arena_exhausted(size);
  return sizeof(ArenaBlock) + size;
}

static ArenaBlock *block_new(Arena *arena, size_t size) {
  size_t bytes = block_bytes(size);
  ArenaBlock *block = calloc(1, bytes);
  if (!block) arena_exhausted(size);
  block->size = size;
  arena->bytes += bytes;
  return block;
}

static void free_list(ArenaBlock *block) {
  while (block) {
    ArenaBlock *next = block->next;
    free(block);
    block = next;
  }
}

void arena_init(Arena *self) {
  *self = (Arena){0};
}

void arena_done(Arena *self) {
  free_list(self->blocks);
  free_list(self->resizable);
  *self = (Arena){0};
}

void arena_take(Arena *self, Arena *other) {
  ArenaBlock **end = &self->blocks;
  while (*end)
    end = &(*end)->next;
  *end = other->blocks;
  ArenaBlock *last = other->resizable;
  while (last && last->next)
    last = last->next;
  if (last) {
    last->next = self->resizable;
    if (self->resizable) self->resizable->previous = last;
    self->resizable = other->resizable;
  }
  self->bytes += other->bytes;
  *other = (Arena){0};
}

static void *carve(Arena *arena, size_t size) {
  if (size > PTRDIFF_MAX - ALIGNMENT) arena_exhausted(size);
  size_t rounded = size ? (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
  ArenaBlock *head = arena->blocks;
  if (!head || head->size - head->used < rounded) {
    bool own = rounded > CHUNK_BYTES / 4;
    ArenaBlock *block = block_new(arena, own ? rounded : CHUNK_BYTES);
    if (own && head) {
      block->next = head->next;
      head->next = block;
    } else {
      block->next = head;
      arena->blocks = block;
    }
    head = block;
  }
  void *memory = head->data + head->used;
  head->used += rounded;
  return memory;
}

void *arena_alloc(Arena *self, size_t size) {
  return carve(self, size);
}

static void *resize(Arena *arena, void *old, size_t size) {
  ArenaBlock *block = NULL;
  if (old) {
    ArenaBlock *before = (ArenaBlock *)((unsigned char *)old - offsetof(ArenaBlock, data));
    size_t old_size = before->size;
    block = realloc(before, block_bytes(size));
    if (!block) arena_exhausted(size);
    if (size > old_size) memset(block->data + old_size, 0, size - old_size);
    arena->bytes += size - old_size;
    block->size = size;
  } else {
    block = block_new(arena, size);
    block->next = arena->resizable;
  }
  if (block->previous) {
    block->previous->next = block;
  } else {
    arena->resizable = block;
  }
  if (block->next) block->next->previous = block;
  return block->data;
}

void *arena_resize(Arena *self, void *old, size_t size) {
  return resize(self, old, size);
}

void *arena_reserve(Arena *self, void *items, size_t *capacity, size_t need, size_t item_size) {
  assert(item_size > 0);
  if (need <= *capacity) return items;
  if (need > PTRDIFF_MAX / 2 / item_size) arena_exhausted(SIZE_MAX);
  size_t wanted = *capacity ? *capacity : 8;
  while (wanted < need)
    wanted *= 2;
  *capacity = wanted;
  return resize(self, items, wanted * item_size);
}

char *arena_copy(Arena *self, const char *text, size_t length) {
  char *copy = carve(self, length + 1);
  if (length) memcpy(copy, text, length);
  return copy;
}

static char *print(Arena *arena, const char *format, va_list list) {
  va_list again;
  va_copy(again, list);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  assert(length >= 0);
  char *text = carve(arena, (size_t)length + 1);
  vsnprintf(text, (size_t)length + 1, format, list);
  return text;
}

char *arena_vprintf(Arena *self, const char *format, va_list list) {
  return print(self, format, list);
}

char *arena_printf(Arena *self, const char *format, ...) {
  va_list list;
  va_start(list, format);
  char *text = print(self, format, list);
  va_end(list);
  return text;
}
