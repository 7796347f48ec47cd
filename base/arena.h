/* Memory of one owner, released in one call.
 *
 * An arena hands out zeroed memory that lives until arena_done. Two kinds of allocation share it:
 * small ones are carved from chunks and never move; resizable ones (arena_resize) have a block of
 * their own, and may move when they grow. Running out of memory ends the program with exit code 4
 * and says what would help, so no caller checks for NULL. Not thread-safe: one arena belongs to one
 * run. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
#include <stdarg.h>
#include <stddef.h>

typedef struct ArenaBlock ArenaBlock;

typedef struct Arena {
  ArenaBlock *blocks;    // newest first; the head is the one being carved
  ArenaBlock *resizable; // blocks of their own, one per arena_resize allocation
  size_t bytes;          // held from the system in all
} Arena;

/* Ends the program for want of so many bytes; 0: of some, for libraries that do not say. */
_Noreturn void arena_exhausted(size_t size);

void arena_init(Arena *self);
/* Releases everything the arena handed out. The arena may be initialised again. */
void arena_done(Arena *self);

/* Takes over all that `other` handed out, which is then as after arena_done. */
void arena_take(Arena *self, Arena *other);
/* `size` zeroed bytes, aligned to 16; size 0 gives a valid unique pointer. */
void *arena_alloc(Arena *self, size_t size);
/* Grows (or makes, when `old` is NULL) an allocation of its own; bytes past the old size are
 * zeroed. `old` must come from arena_resize of the same arena and is invalid afterwards. */
void *arena_resize(Arena *self, void *old, size_t size);
/* A copy of `text[0..length)` with a terminating NUL. */
char *arena_copy(Arena *self, const char *text, size_t length);
char *arena_printf(Arena *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *self, const char *format, va_list list)
    __attribute__((format(printf, 2, 0)));

#define ARENA_NEW(arena, Type) ((Type *)arena_alloc((arena), sizeof(Type)))
#define ARENA_ARRAY(arena, Type, count)                                                            \
  ((Type *)arena_alloc((arena), (size_t)(count) * sizeof(Type)))

/* Makes room for `need` items in a growing array: doubles `capacity` until they fit. A statement;
 * both `items` and `capacity` are assigned, and every pointer into the array may be invalid
 * afterwards. */
#define ARENA_RESERVE(arena, items, capacity, need)                                                \
  ((size_t)(need) <= (capacity)                                                                    \
       ? (void)0                                                                                   \
       : (void)((items) = arena_reserve((arena), (items), &(capacity), (size_t)(need),             \
                                        sizeof *(items))))
void *arena_reserve(Arena *self, void *items, size_t *capacity, size_t need, size_t item_size);
#endif
