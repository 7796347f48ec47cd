/* A heap over an array, four children to a node, as a template: the two ways in which an item finds
 * its place.
 *
 * HEAP_STEPS(Owner, Item) defines, for items that the array holds by value,
 *
 *     heap_rise(owner, items, index, item)      `item` goes to `index` or above
 *     heap_sink(owner, items, n, index, item)   to `index` or below, among the first `n`
 *
 * and HEAP_REPLACE(Owner, Item), after it, where items change or leave in the middle,
 *
 *     heap_replace(owner, items, n, index, item)   wherever it belongs, `index` on its way
 *
 * from two functions that the file has before: heap_key(item), the Wide by which the least comes
 * first, and heap_moved(owner, index, item), which is told of each item that is put at `index`.
 * What was at `index` is overwritten. Of four children the least is found without a branch; there
 * are half the levels of a heap of pairs, at each of which an item may stay. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H
#include <stddef.h>

enum { HEAP_CHILDREN = 4 };

#define HEAP_STEPS(Owner, Item)                                                                    \
  static inline void heap_put(Owner *owner, Item *items, size_t index, const Item *item) {         \
    items[index] = *item;                                                                          \
    heap_moved(owner, index, item);                                                                \
  }                                                                                                \
  static inline void heap_rise(Owner *owner, Item *items, size_t index, const Item *item) {        \
    for (size_t parent; index > 0; index = parent) {                                               \
      parent = (index - 1) / HEAP_CHILDREN;                                                        \
      if (heap_key(item) >= heap_key(&items[parent])) break;                                       \
      heap_put(owner, items, index, &items[parent]);                                               \
    }                                                                                              \
    heap_put(owner, items, index, item);                                                           \
  }                                                                                                \
  static inline size_t heap_least(const Item *items, size_t child, size_t count) {                 \
    if (count < HEAP_CHILDREN) {                                                                   \
      size_t least = child;                                                                        \
      for (size_t i = child + 1; i < child + count; i++)                                           \
        least = heap_key(&items[i]) < heap_key(&items[least]) ? i : least;                         \
      return least;                                                                                \
    }                                                                                              \
    const size_t a = child + (heap_key(&items[child + 1]) < heap_key(&items[child]));              \
    const size_t b = child + 2 + (heap_key(&items[child + 3]) < heap_key(&items[child + 2]));      \
    return heap_key(&items[b]) < heap_key(&items[a]) ? b : a;                                      \
  }                                                                                                \
  static inline void heap_sink(Owner *owner, Item *items, size_t n, size_t index,                  \
                               const Item *item) {                                                 \
    for (size_t child; (child = HEAP_CHILDREN * index + 1) < n;) {                                 \
      const size_t left = n - child;                                                               \
      const size_t least = heap_least(items, child, left < HEAP_CHILDREN ? left : HEAP_CHILDREN);  \
      if (heap_key(&items[least]) >= heap_key(item)) break;                                        \
      heap_put(owner, items, index, &items[least]);                                                \
      index = least;                                                                               \
    }                                                                                              \
    heap_put(owner, items, index, item);                                                           \
  }

#define HEAP_REPLACE(Owner, Item)                                                                  \
  static inline void heap_replace(Owner *owner, Item *items, size_t n, size_t index,               \
                                  const Item *item) {                                              \
    if (index > 0 && heap_key(item) < heap_key(&items[(index - 1) / HEAP_CHILDREN]))               \
      heap_rise(owner, items, index, item);                                                        \
    else                                                                                           \
      heap_sink(owner, items, n, index, item);                                                     \
  }
#endif
