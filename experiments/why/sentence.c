/* Why one request was late, in a sentence: the part of its time that is the largest of those which
 * are not its own work, and whose fault that is, from the rows of the others. */
#include "experiments/why/asking.h"
#include <math.h>

/* Where somebody else is looked for. */
typedef enum Whose {
  OF_NOBODY,
  OF_LINE,      // prefills that went first; where there were none,
  OF_HELD,      // decodes that held the memory, or the places
  OF_PREFILLS,  // on the machine that prefills, until its first token
  OF_BESIDE,    // prefills on the machine that decodes it, while it did
  OF_ROOM,      // decodes where it is to be decoded, until that begins
  OF_DECODES,   // decodes while it did
  OF_TRANSFERS, // KV from the same machine or to it
} Whose;

/* "late because of 4.7 s …"; %s is an instance. */
typedef struct Reason {
  const char *text;
  bool own;     // work that it has alone, too
  bool decodes; // the instance is the one that decodes it
  Whose whose;
  bool lost; // the instance is the one that it was lost with, if it was
} Reason;

static const Reason reasons[CAUSES] = {
    [CAUSE_front] = {"before the router", true},
    [CAUSE_admission] = {"of waiting for admission"},
    [CAUSE_outage] = {"of attempts lost with instances, the last with %s", .lost = true},
    [CAUSE_hedge] = {"of waiting before a second copy was sent to %s"},
    [CAUSE_restore] = {"of reading its KV from the checkpoint store on %s", .whose = OF_ROOM},
    [CAUSE_prefill_queue] = {"of waiting for prefill on %s", .whose = OF_LINE},
    [CAUSE_rank_wait] = {"of waiting on %s until other attention ranks had prompts"},
    [CAUSE_prefill_reshard] = {"of waiting while the GPUs of %s loaded weights"},
    [CAUSE_kv_load] = {"of waiting for its KV to be loaded to %s"},
    [CAUSE_prefill_wait] = {"of waiting between its chunks on %s", .whose = OF_PREFILLS},
    [CAUSE_prefill] = {"of computing its prompt on %s", true},
    [CAUSE_prefill_batch] = {"of other requests in its prefill iterations on %s",
                             .whose = OF_PREFILLS},
    [CAUSE_prefill_host] = {"of host time in its prefill iterations on %s", true},
    [CAUSE_prefill_stall] = {"of waiting for copies in its prefill iterations on %s"},
    [CAUSE_prefill_ranks] = {"of other attention ranks in its prefill iterations on %s"},
    [CAUSE_prefill_preempted] = {"of chunks that %s had no memory to keep", .whose = OF_PREFILLS},
    [CAUSE_handover] = {"of moving its KV to %s and making its first token there", false, true,
                        OF_ROOM},
    [CAUSE_resume] = {"between its loss with %s and its next token", .lost = true},
    [CAUSE_memory_wait] = {"of waiting for KV memory on %s", false, true, OF_ROOM},
    [CAUSE_transfer] = {"of moving its KV to %s", true, true},
    [CAUSE_link_wait] = {"of waiting for other KV on the way to %s", false, true, OF_TRANSFERS},
    [CAUSE_store] = {"in the store of its GPUs, on the way to %s", false, true},
    [CAUSE_reshard] = {"of waiting while the GPUs of %s loaded weights", false, true},
    [CAUSE_decode_queue] = {"of waiting for the decode batch of %s", false, true, OF_ROOM},
    [CAUSE_decode] = {"of decoding on %s", true, true},
    [CAUSE_decode_batch] = {"of other decodes in its iterations on %s", false, true, OF_DECODES},
    [CAUSE_decode_prefill] = {"of prefills while it decoded on %s", false, true, OF_BESIDE},
    [CAUSE_decode_host] = {"of host time in its decode iterations on %s", true, true},
    [CAUSE_decode_stall] = {"of waiting for copies while it decoded on %s", false, true},
    [CAUSE_decode_ranks] = {"of other attention ranks while it decoded on %s", false, true},
    [CAUSE_preempted] = {"left out of the batch of %s, or waiting again", false, true, OF_DECODES},
    [CAUSE_recompute] = {"of computing dropped KV again on %s", false, true, OF_DECODES},
    [CAUSE_swapped] = {"with its KV in the CPU memory of %s", false, true, OF_DECODES},
};

/* Of those that overlap from ?3 to ?4 on machine ?5, not ?2: how many, and the largest. */
#define OTHERS(size, begin, end, where)                                                            \
  "SELECT count(*), max(" size "), request FROM request WHERE run_id = ?1 AND request <> ?2 "      \
  "AND " begin " < ?4 AND " end " > ?3 AND " where

#define PREFILLS OTHERS("prompt_tokens", "prefill_began_s", "first_token_s", "prefill_machine = ?5")
#define DECODES                                                                                    \
  OTHERS("prompt_tokens + output_tokens", "decode_began_s", "coalesce(last_token_s, cancelled_s)", \
         "decode_machine = ?5")

static const struct {
  const char *sql, *one, *many; // how many they are
} askings[] = {
    [OF_LINE] = {PREFILLS, "behind one request", "behind %s requests"},
    [OF_HELD] = {DECODES, "while one request decoded there", "while %s requests decoded there"},
    [OF_PREFILLS] = {PREFILLS, "while one other prompt was computed there",
                     "while %s other prompts were computed there"},
    [OF_BESIDE] = {PREFILLS, "while one prompt was computed there",
                   "while %s prompts were computed there"},
    [OF_ROOM] = {DECODES, "while one other request decoded there",
                 "while %s other requests decoded there"},
    [OF_DECODES] = {DECODES, "while one other request decoded there",
                    "while %s other requests decoded there"},
    [OF_TRANSFERS] = {OTHERS("prompt_tokens", "first_token_s", "decode_began_s",
                             "prefill_machine <> decode_machine AND "
                             "(decode_machine = ?5 OR prefill_machine = ?6)"),
                      "while the KV of one other request moved",
                      "while the KV of %s other requests moved"},
};

/* Those of its machine that had come before it, newest first: when each reached its line, and left
 * it; and who was at work then. */
static const char sql_line[] =
    "SELECT arrived_s + front_s, coalesce(prefill_began_s, cancelled_s, arrived_s) FROM request "
    "WHERE run_id = ?1 AND prefill_machine = ?2 AND arrived_s + front_s <= ?3 "
    "ORDER BY arrived_s + front_s DESC";
static const char sql_at_work[] =
    "SELECT prompt_tokens, request FROM request WHERE run_id = ?1 AND prefill_machine = ?2 AND "
    "prefill_began_s <= ?3 AND first_token_s > ?3 AND request <> ?4 "
    "ORDER BY prompt_tokens DESC LIMIT 1";

static double reached(const WhyRequest *request) {
  return request->arrived_s + request->parts[CAUSE_front];
}

static double end_of(const WhyRequest *request) {
  return request->arrived_s + why_total(request);
}

static double either(double time, double otherwise) {
  return isnan(time) ? otherwise : time;
}

/* When the line began that it stood in: back through those whose waits join. */
static double line_began(Why *self, const WhyRequest *request) {
  double began = reached(request);
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_query(
      &self->results, sql_line,
      VALUES(value_whole(self->run), value_whole(request->prefill_machine), value_real(began)),
      self->diag);
  while (results_next(&self->results, statement, self->diag) > 0)
    if (sqlite3_column_double(statement, 1) >= began) began = sqlite3_column_double(statement, 0);
  return began;
}

/* ", in a queue that began at 12.3 s with a prompt of 31,000 tokens (request 7)". */
static const char *beginner(Why *self, const WhyRequest *request) {
  char tokens[32], at[32];
  const double began = line_began(self, request);
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_query(&self->results, sql_at_work,
                    VALUES(value_whole(self->run), value_whole(request->prefill_machine),
                           value_real(began), value_whole(request->id)),
                    self->diag);
  if (results_next(&self->results, statement, self->diag) <= 0) return "";
  return arena_printf(
      self->arena, ", in a queue that began at %s with a prompt of %s tokens (request %lld)",
      format_duration(began, at), format_count(sqlite3_column_double(statement, 0), tokens),
      (long long)sqlite3_column_int64(statement, 1));
}

/* From when to when somebody may have been in its way. */
static void interval_of(const WhyRequest *request, Whose whose, double *ret_from, double *ret_to) {
  const double end = end_of(request), first = either(request->first_token_s, end);
  const double decodes = either(request->decode_began_s, end);
  *ret_from = whose == OF_LINE || whose == OF_HELD || whose == OF_PREFILLS ? reached(request)
              : whose == OF_ROOM || whose == OF_TRANSFERS                  ? first
                                                                           : decodes;
  *ret_to = whose == OF_LINE || whose == OF_HELD        ? either(request->prefill_began_s, end)
            : whose == OF_PREFILLS                      ? first
            : whose == OF_ROOM || whose == OF_TRANSFERS ? decodes
                                                        : end;
}

/* ", while 12 other requests decoded there, the longest with 9,000 tokens (request 3)". */
static const char *others(Why *self, const WhyRequest *request, Whose whose, int64_t machine) {
  char n[32], longest[32];
  double from, to;
  if (whose == OF_NOBODY) return "";
  interval_of(request, whose, &from, &to);
  CLEANUP_STATEMENT sqlite3_stmt *statement = results_query(
      &self->results, askings[whose].sql,
      VALUES(value_whole(self->run), value_whole(request->id), value_real(from), value_real(to),
             value_whole(machine), value_whole(request->prefill_machine)),
      self->diag);
  const bool any = results_next(&self->results, statement, self->diag) > 0;
  const int64_t count = any ? sqlite3_column_int64(statement, 0) : 0;
  if (count == 0) return whose == OF_LINE ? others(self, request, OF_HELD, machine) : "";
  const char *begun = whose == OF_LINE ? beginner(self, request) : "";
  const char *many =
      count == 1 ? askings[whose].one
                 : arena_printf(self->arena, askings[whose].many, format_count((double)count, n));
  if (*begun) return arena_printf(self->arena, ", %s%s", many, begun);
  return arena_printf(self->arena, ", %s, the longest with %s tokens (request %lld)", many,
                      format_count(sqlite3_column_double(statement, 1), longest),
                      (long long)sqlite3_column_int64(statement, 2));
}

/* What a cause is called, with the machine that it was on. */
static const char *text_of(Why *self, const WhyRequest *request, const Reason *reason,
                           int64_t machine) {
  char at[32];
  if (!reason->lost) return arena_printf(self->arena, reason->text, why_machine(self, machine));
  if (machine < 0) return "of waiting until an instance was up";
  const char *text = arena_printf(self->arena, reason->text, why_machine(self, machine));
  return arena_printf(self->arena, "%s, which failed at %s", text,
                      format_duration(request->failed_s, at));
}

static Cause largest(const WhyRequest *request, bool own) {
  Cause most = CAUSES;
  for (Cause cause = 0; cause < CAUSES; cause++)
    if (reasons[cause].own == own &&
        (most == CAUSES || request->parts[cause] > request->parts[most]))
      most = cause;
  return most;
}

const char *why_sentence(Why *self, const WhyRequest *request) {
  static const double some = 0.1; // of the time, below which it is as good as alone
  const double total = why_total(request);
  double own = 0;
  for (Cause cause = 0; cause < CAUSES; cause++)
    if (reasons[cause].own) own += request->parts[cause];
  const Cause late = largest(request, false);
  const bool is_late = request->parts[late] >= some * total;
  const Cause cause = is_late ? late : largest(request, true);
  const Reason *reason = &reasons[cause];
  const int64_t machine = reason->lost      ? request->lost_with
                          : reason->decodes ? request->decode_machine
                                            : request->prefill_machine;
  char duration[32], share[32];
  const char *text = text_of(self, request, reason, machine);
  format_duration(request->parts[cause], duration);
  if (!is_late)
    return arena_printf(self->arena, "not late: %s of its time is its own work, mainly %s %s",
                        why_share(own, total, share), duration, text);
  return arena_printf(self->arena, "late because of %s (%s) %s%s", duration,
                      why_share(request->parts[cause], total, share), text,
                      others(self, request, reason->whose, machine));
}
