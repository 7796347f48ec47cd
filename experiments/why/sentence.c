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

/* "late because 4.7 s …"; %s is a machine. */
typedef struct Reason {
  const char *text;
  bool own;     // work that it has alone, too
  bool decodes; // the machine is the one that decodes it
  bool lost;    // it is the one that it was lost with, if it was
  Whose whose;
} Reason;

static const Reason reasons[CAUSES] = {
    [CAUSE_front] = {"before it reached the router", true},
    [CAUSE_admission] = {"before it was admitted"},
    [CAUSE_outage] = {"for attempts lost with machines, the last with %s", .lost = true},
    [CAUSE_hedge] = {"before a second copy of it was sent to %s"},
    [CAUSE_restore] = {"until its KV was out of the checkpoint store, on %s", .whose = OF_ROOM},
    [CAUSE_prefill_queue] = {"in line for its prefill on %s", .whose = OF_LINE},
    [CAUSE_prefill_reshard] = {"while the GPUs of %s loaded weights"},
    [CAUSE_prefill_wait] = {"between its chunks on %s", .whose = OF_PREFILLS},
    [CAUSE_prefill] = {"to compute its prompt on %s", true},
    [CAUSE_prefill_batch] = {"for others in its prefill iterations on %s", .whose = OF_PREFILLS},
    [CAUSE_prefill_host] = {"for the engine's host on %s, in its prefill", true},
    [CAUSE_prefill_stall] = {"for copies on %s, in its prefill"},
    [CAUSE_prefill_preempted] = {"for chunks that %s had no memory to keep", .whose = OF_PREFILLS},
    [CAUSE_resume] = {"after it was lost with %s, until its next token", .lost = true},
    [CAUSE_memory_wait] = {"until there was room for its KV on %s", false, true, OF_ROOM},
    [CAUSE_transfer] = {"to move its KV to %s", true, true},
    [CAUSE_link_wait] = {"for the KV of others on the way to %s", false, true, OF_TRANSFERS},
    [CAUSE_store] = {"in the store of its GPUs, on the way to %s", false, true},
    [CAUSE_reshard] = {"while the GPUs of %s loaded weights", false, true},
    [CAUSE_decode_queue] = {"in line for the batch of %s", false, true, OF_ROOM},
    [CAUSE_decode] = {"to decode on %s", true, true},
    [CAUSE_decode_batch] = {"for other decodes in its iterations on %s", false, true, OF_DECODES},
    [CAUSE_decode_prefill] = {"for prefills while it decoded on %s", false, true, OF_BESIDE},
    [CAUSE_decode_host] = {"for the engine's host on %s, in its decode iterations", true, true},
    [CAUSE_decode_stall] = {"for copies on %s while it decoded", false, true},
    [CAUSE_preempted] = {"left out of the batch of %s, or in line again", false, true, OF_DECODES},
    [CAUSE_recompute] = {"to compute dropped KV again on %s", false, true, OF_DECODES},
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
    [OF_HELD] = {DECODES, "one request decoded there meanwhile",
                 "%s requests decoded there meanwhile"},
    [OF_PREFILLS] = {PREFILLS, "one other prompt was computed there meanwhile",
                     "%s other prompts were computed there meanwhile"},
    [OF_BESIDE] = {PREFILLS, "one prompt was computed there meanwhile",
                   "%s prompts were computed there meanwhile"},
    [OF_ROOM] = {DECODES, "one other decoded there meanwhile", "%s others decoded there meanwhile"},
    [OF_DECODES] = {DECODES, "one other decoded there meanwhile",
                    "%s others decoded there meanwhile"},
    [OF_TRANSFERS] = {OTHERS("prompt_tokens", "first_token_s", "decode_began_s",
                             "prefill_machine <> decode_machine AND "
                             "(decode_machine = ?5 OR prefill_machine = ?6)"),
                      "KV of one other moved meanwhile", "KV of %s others moved meanwhile"},
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
  CLEANUP_STATEMENT sqlite3_stmt *statement = why_prepare(self, sql_line);
  double began = reached(request);
  if (!statement) return NAN;
  sqlite3_bind_int64(statement, 2, request->prefill_machine);
  sqlite3_bind_double(statement, 3, began);
  while (sqlite3_step(statement) == SQLITE_ROW)
    if (sqlite3_column_double(statement, 1) >= began) began = sqlite3_column_double(statement, 0);
  return began;
}

/* ", a line that one prompt of 31,000 tokens (request 7) began at 12.3 s". */
static const char *beginner(Why *self, const WhyRequest *request) {
  char tokens[32], at[32];
  const double began = line_began(self, request);
  CLEANUP_STATEMENT sqlite3_stmt *statement = why_prepare(self, sql_at_work);
  if (isnan(began) || !statement) return "";
  sqlite3_bind_int64(statement, 2, request->prefill_machine);
  sqlite3_bind_double(statement, 3, began);
  sqlite3_bind_int64(statement, 4, request->id);
  if (sqlite3_step(statement) != SQLITE_ROW) return "";
  return arena_printf(self->arena, ", a line that a prompt of %s tokens (request %lld) began at %s",
                      format_count(sqlite3_column_double(statement, 0), tokens),
                      (long long)sqlite3_column_int64(statement, 1), format_duration(began, at));
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

/* ", 12 others decoded there meanwhile, the longest of 9,000 tokens (request 3)". */
static const char *others(Why *self, const WhyRequest *request, Whose whose, int64_t machine) {
  char n[32], longest[32];
  double from, to;
  if (whose == OF_NOBODY) return "";
  interval_of(request, whose, &from, &to);
  CLEANUP_STATEMENT sqlite3_stmt *statement = why_prepare(self, askings[whose].sql);
  if (!statement) return "";
  sqlite3_bind_int64(statement, 2, request->id);
  sqlite3_bind_double(statement, 3, from);
  sqlite3_bind_double(statement, 4, to);
  sqlite3_bind_int64(statement, 5, machine);
  if (whose == OF_TRANSFERS) sqlite3_bind_int64(statement, 6, request->prefill_machine);
  const int64_t count =
      sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
  if (count == 0) return whose == OF_LINE ? others(self, request, OF_HELD, machine) : "";
  const char *begun = whose == OF_LINE ? beginner(self, request) : "";
  const char *many =
      count == 1 ? askings[whose].one
                 : arena_printf(self->arena, askings[whose].many, format_count((double)count, n));
  if (*begun) return arena_printf(self->arena, ", %s%s", many, begun);
  return arena_printf(self->arena, ", %s, the longest of %s tokens (request %lld)", many,
                      format_count(sqlite3_column_double(statement, 1), longest),
                      (long long)sqlite3_column_int64(statement, 2));
}

/* What a cause is called, with the machine that it was on. */
static const char *text_of(Why *self, const WhyRequest *request, const Reason *reason,
                           int64_t machine) {
  char at[32];
  if (!reason->lost) return arena_printf(self->arena, reason->text, why_machine(self, machine));
  if (machine < 0) return "until a machine was up that could take it";
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
    return arena_printf(self->arena, "not late: %s of its time is its own work, %s of it %s",
                        why_share(own, total, share), duration, text);
  return arena_printf(self->arena, "late because of %s (%s) %s%s", duration,
                      why_share(request->parts[cause], total, share), text,
                      others(self, request, reason->whose, machine));
}
