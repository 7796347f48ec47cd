/* Which prefix caches must be brought up to now before they are asked of a prompt.
 *
 * What a cache has changes with events, which it tells, and as the run of decodes of its instance
 * goes on, which is booked late (memory.h). To book all runs at each request would cost what all
 * iterations do. Until the next event a run changes two things: blocks that it fills are found,
 * and it may take blocks that others left. So two kinds of segments are known: those that requests
 * in flight write to, and those whose blocks go first where a run may need more than blank ones. A
 * prompt that has none of them finds what it would find if all runs were booked. */
#ifndef SIM_CORE_CACHE_WATCH_H
#define SIM_CORE_CACHE_WATCH_H
#include "sim/core/holders.h"
#include "sim/core/instance.h"

/* The segments that a request in flight writes to, from the one that its prompt ends in on; of one
 * with more of them than have names here, no names are kept. */
enum { WRITTEN = 2 };
typedef struct WrittenSegments {
  uint64_t names[WRITTEN];
  uint32_t n; // 0: it is not in flight
} WrittenSegments;

/* Segments that an instance's run may take blocks of. */
typedef struct Victims {
  uint64_t *names; // [n]
  size_t n, capacity;
} Victims;

typedef struct CacheWatch {
  Arena *arena;
  uint32_t n_words;
  uint64_t *stirred;  // [n_words] instances with changes, or a run, that nobody has looked at
  KeyMap written;     // by name: requests that write to it
  uint64_t n_unnamed; // requests with more segments than have names
  WrittenSegments *requests; // by slot
  size_t requests_capacity;
  Holders threatened; // segments, and the instances whose runs may take blocks of them
  Victims *victims;   // [n_instances]
} CacheWatch;

void cache_watch_init(CacheWatch *self, uint32_t n_instances, Arena *arena);
/* A cache says from now on that it changes. */
void cache_watch_join(CacheWatch *self, const Instance *instance);
/* A request is in flight, perhaps already, with a content that it writes up to `tokens`; it is no
 * more, perhaps it was not. */
void cache_watch_enter(CacheWatch *self, RequestIx request, const Content *content,
                       int64_t prompt_tokens, int64_t tokens);
void cache_watch_leave(CacheWatch *self, RequestIx request);
/* The first instance with changes that nobody has looked at, which somebody does now;
 * INSTANCE_NONE: there is none. */
InstanceIx cache_watch_next(CacheWatch *self);
/* After its changes are known: what its run may take from now on. */
void cache_watch_expect(CacheWatch *self, const Instance *instance);
/* Whether anybody writes to a segment of the first `n` blocks of a prompt. */
bool cache_watch_is_written(const CacheWatch *self, const Content *content, int64_t block_size,
                            int64_t n);
#endif
