/* Pinned: memory is zeroed, aligned, apart from its neighbours and stable; resizable allocations
 * keep their content and may be interleaved; the byte count returns to nothing. Not pinned: how
 * memory is cut into chunks, and running out of it. */
#include "base/arena.h"
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

static bool is_filled(const unsigned char *bytes, size_t size, unsigned char value) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != value) return false;
  return true;
}

Test(arena, allocations_are_zeroed_aligned_and_do_not_overlap) {
  enum { COUNT = 400 };
  static const size_t SIZES[] = {0, 1, 15, 16, 17, 100, 4096, 16384, 16385, 65536, 200000};
  unsigned char *parts[COUNT];
  Arena arena;
  arena_init(&arena);
  for (int i = 0; i < COUNT; i++) {
    size_t size = SIZES[i % 11];
    parts[i] = arena_alloc(&arena, size);
    cr_assert_eq((uintptr_t)parts[i] % 16, 0);
    cr_assert(is_filled(parts[i], size, 0), "allocation %d of %zu bytes is not zeroed", i, size);
    memset(parts[i], i & 0xff, size);
  }
  for (int i = 0; i < COUNT; i++)
    cr_assert(is_filled(parts[i], SIZES[i % 11], i & 0xff), "allocation %d was overwritten", i);
  cr_assert_neq(parts[0], parts[11], "empty allocations share a pointer");
  arena_done(&arena);
}

Test(arena, small_allocations_share_chunks) {
  Arena arena;
  arena_init(&arena);
  for (int i = 0; i < 10000; i++)
    arena_alloc(&arena, 16);
  cr_assert_lt(arena.bytes, 10000 * 16 + 2 * (64 << 10));
  arena_alloc(&arena, 1 << 20);
  size_t before = arena.bytes;
  arena_alloc(&arena, 16);
  cr_assert_eq(arena.bytes, before, "a large allocation ended the chunk being carved");
  arena_done(&arena);
  cr_assert_eq(arena.bytes, 0);
  cr_assert_null(arena.blocks);
  cr_assert_null(arena.resizable);
}

Test(arena, resizable_blocks_grow_side_by_side_and_new_bytes_are_zero) {
  enum { COUNT = 5, ROUNDS = 200 };
  unsigned char *blocks[COUNT] = {0};
  Arena arena;
  arena_init(&arena);
  for (size_t round = 1; round <= ROUNDS; round++) {
    for (int b = 0; b < COUNT; b++) {
      size_t old_size = (round - 1) * 100 * (size_t)(b + 1), size = round * 100 * (size_t)(b + 1);
      blocks[b] = arena_resize(&arena, blocks[b], size);
      cr_assert(is_filled(blocks[b], old_size, (unsigned char)(b + 1)));
      cr_assert(is_filled(blocks[b] + old_size, size - old_size, 0));
      memset(blocks[b], b + 1, size);
    }
  }
  blocks[2] = arena_resize(&arena, blocks[2], 10);
  cr_assert(is_filled(blocks[2], 10, 3));
  blocks[2] = arena_resize(&arena, blocks[2], 1000);
  cr_assert(is_filled(blocks[2] + 10, 990, 0), "bytes given up came back unzeroed");
  arena_done(&arena);
}

Test(arena, reserve_doubles_until_the_need_is_met) {
  Arena arena;
  arena_init(&arena);
  int *items = NULL;
  size_t capacity = 0, moves = 0;
  for (size_t n = 0; n < 100000; n++) {
    size_t before = capacity;
    ARENA_RESERVE(&arena, items, capacity, n + 1);
    moves += capacity != before;
    items[n] = (int)n;
  }
  cr_assert_leq(moves, 17);
  for (int n = 0; n < 100000; n++)
    cr_assert_eq(items[n], n);
  ARENA_RESERVE(&arena, items, capacity, 1000000);
  cr_assert_geq(capacity, 1000000);
  arena_done(&arena);
}

Test(arena, text_is_copied_with_its_end) {
  Arena arena;
  arena_init(&arena);
  cr_assert_str_eq(arena_copy(&arena, "prefill", 3), "pre");
  cr_assert_str_eq(arena_copy(&arena, NULL, 0), "");
  cr_assert_str_eq(arena_printf(&arena, "%s-%d", "a100", 40), "a100-40");
  char *padded = arena_printf(&arena, "%100000d", 7);
  cr_assert_eq(strlen(padded), 100000);
  arena_done(&arena);
}

Test(arena, takes_over_what_another_handed_out) {
  Arena one, other;
  arena_init(&one);
  arena_init(&other);
  char *mine = arena_resize(&one, NULL, 10), *its = arena_resize(&other, NULL, 10);
  const char *text = arena_printf(&other, "%d", 17);
  arena_alloc(&one, 1);
  const size_t bytes = one.bytes + other.bytes;
  arena_take(&one, &other);
  cr_expect(one.bytes == bytes && other.bytes == 0 && !other.blocks && !other.resizable);
  arena_done(&other); // leaves what was taken
  cr_expect_str_eq(text, "17");
  its = arena_resize(&one, its, 100000);
  mine = arena_resize(&one, mine, 100000);
  its[99999] = mine[99999] = 1;
  arena_done(&one);
}
