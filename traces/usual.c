/* Logs whose columns, or keys, have usual names, such as those of the usage that servers with
 * OpenAI's interface report:
 *
 *     timestamp,prompt_tokens,completion_tokens
 *     2024-05-10T12:00:00Z,374,44
 *
 * Case, and what is neither letter nor digit, do not count. A name that two columns could have is
 * nobody's. `input_length` is not among them: traces that have it count time in other units. */
#include "traces/format.h"
#include <ctype.h>
#include <string.h>

/* Between spaces. */
static const char *const usual_names[TRACE_FIELDS] = {
    [TRACE_ARRIVAL] = " timestamp timestamputc time ts datetime created createdat createdtime "
                      "starttime startedat startts arrival arrivals arrivaltime arrivalts "
                      "arrivaltimestamp arrivedat requesttime requestedat requesttimestamp "
                      "receivedat receivedtime submittedat submittime sentat eventtime ",
    [TRACE_PROMPT] = " prompttokens inputtokens numprompttokens numinputtokens prompttokencount "
                     "inputtokencount promptlen promptlength inputlen prefilltokens "
                     "numprefilltokens contexttokens requesttokens tokensin intokens prompttoks "
                     "inputtoks promptsize isl ",
    [TRACE_OUTPUT] = " completiontokens outputtokens numcompletiontokens numoutputtokens "
                     "completiontokencount outputtokencount candidatestokencount completionlen "
                     "completionlength outputlen decodetokens numdecodetokens generatedtokens "
                     "generationtokens responsetokens tokensout outtokens completiontoks "
                     "outputtoks outputsize osl ",
    [TRACE_MAX_TOKENS] = " maxtokens maxcompletiontokens maxoutputtokens maxnewtokens ",
};

/* Its letters and digits, small, between spaces; false when there are none or too many. */
static bool plain_name(Field name, char *ret_text, int room) {
  int n = 0;
  ret_text[n++] = ' ';
  for (int i = 0; i < name.length; i++) {
    const unsigned char c = (unsigned char)name.text[i];
    if (c >= 0x80 || n + 2 >= room) return false;
    if (isalnum(c)) ret_text[n++] = (char)tolower(c);
  }
  ret_text[n] = ' ';
  ret_text[n + 1] = '\0';
  return n > 1;
}

/* The unit of a time may stand behind its name. */
static Field without_unit(Field name) {
  for (int n = 2; n <= 3 && n < name.length; n++) {
    const char *end = name.text + name.length - n;
    if (*end == '_' && end[n - 1] == 's' && (n == 2 || strchr("mun", end[1])))
      return (Field){name.text, name.length - n};
  }
  return name;
}

static bool usual_is(TraceField which, Field name) {
  char text[40];
  if (which == TRACE_ARRIVAL) name = without_unit(name);
  return usual_names[which] && plain_name(name, text, sizeof text) &&
         strstr(usual_names[which], text);
}

bool format_counts_requests(Field name) {
  static const char counts[] = " nummodelrequests numrequests nrequests requestcount ";
  char text[40];
  return plain_name(name, text, sizeof text) && strstr(counts, text);
}

const TraceFormat format_usual = {
    .name = "usual",
    .help = "any log with usual column names, such as timestamp, prompt_tokens, completion_tokens",
    .forms = TRACE_TABLE | TRACE_JSON,
    .columns = {"timestamp", "prompt_tokens", "completion_tokens"},
    .is_usual = usual_is,
    .clock = CLOCK_AUTO,
    .leaves_out_empty = true,
};
