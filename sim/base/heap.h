/* A binary heap over an array, as a template: the two ways in which an item finds its place.
 *
 * HEAP_STEPS(Owner, Item) defines, for items that the array holds by value,
 *
 *     heap_rise(owner, items, index, item)      `item` goes to `index` or above
 *     heap_sink(owner, items, n, index, item)   to `index` or below, among the first `n`
 *     heap_replace(owner, items, n, index, item)   wherever it belongs, `index` on its way
 *
 * from two functions that the file has before: heap_key(item), the Wide by which the least comes
 * first, and heap_moved(owner, index, item), which is told of each item that is put at `index`.
 * What was at `index` is overwritten. Of two children the lesser is found without a branch. */
#ifndef SIM_BASE_HEAP_H
#define SIM_BASE_HEAP_H
#include <stddef.h>

#define HEAP_STEPS(Owner, Item)                                                                    \
  static inline void heap_put(Owner *owner, Item *items, size_t index, const Item *item) {         \
    items[index] = *item;                                                                          \
    heap_moved(owner, index, item);                                                                \
  }                                                                                                \
  static inline void heap_rise(Owner *owner, Item *items, size_t index, const Item *item) {        \
    for (size_t parent; index > 0; index = parent) {                                               \
      parent = (index - 1) / 2;                                                                    \
      if (heap_key(item) >= heap_key(&items[parent])) break;                                       \
      heap_put(owner, items, index, &items[parent]);                                               \
    }                                                                                              \
    heap_put(owner, items, index, item);                                                           \
  }                                                                                                \
  static inline void heap_sink(Owner *owner, Item *items, size_t n, size_t index,                  \
                               const Item *item) {                                                 \
    size_t child = 2 * index + 1;                                                                  \
    for (; child + 1 < n; child = 2 * index + 1) {                                                 \
      child += heap_key(&items[child + 1]) < heap_key(&items[child]);                              \
      if (heap_key(&items[child]) >= heap_key(item)) break;                                        \
      heap_put(owner, items, index, &items[child]);                                                \
      index = child;                                                                               \
    }                                                                                              \
    if (child + 1 == n && heap_key(&items[child]) < heap_key(item)) {                              \
      heap_put(owner, items, index, &items[child]);                                                \
      index = child;                                                                               \
    }                                                                                              \
    heap_put(owner, items, index, item);                                                           \
  }                                                                                                \
  static inline void heap_replace(Owner *owner, Item *items, size_t n, size_t index,               \
                                  const Item *item) {                                              \
    if (index > 0 && heap_key(item) < heap_key(&items[(index - 1) / 2]))                           \
      heap_rise(owner, items, index, item);                                                        \
    else                                                                                           \
      heap_sink(owner, items, n, index, item);                                                     \
  }
#endif
