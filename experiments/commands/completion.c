/* Completion: which words may stand next on a command line, from the tables of options and keys,
 * and the scripts by which shells ask for them. */
#include "base/text.h"
#include "experiments/commands/list_perfmodels.h"
#include "experiments/commands/manual.h"
#include "experiments/keys/keys.h"
#include <string.h>

/* ---- Words ---- */

/* A word that is asked for, and where those that complete it go. */
typedef struct Asking {
  const char *word;   // as far as it is written
  const char *before; // what of it stands before the part that is completed: "--format="
  Arena *arena;
  FILE *out;
  bool any; // was printed
} Asking;

/* "WORD<tab>HELP" if it completes the one asked for; the help is one line. */
static void offer(Asking *self, const char *word, const char *end, const char *help) {
  const char *whole = arena_printf(self->arena, "%s%s%s", self->before, word, end);
  if (strncmp(whole, self->word, strlen(self->word)) != 0) return;
  fprintf(self->out, "%s\t%.*s\n", whole, (int)strcspn(help, "\n"), help);
  self->any = true;
}

/* A file may stand there: "/" alone, which is no word. */
static void offer_files(const Asking *self) {
  fputs("/\n", self->out);
}

static void offer_terms(Asking *self, const CliTerm *terms) {
  for (; terms && terms->name; terms++)
    offer(self, terms->name, "", terms->text);
}

static void offer_names(Asking *self, const char *const *names) {
  for (; names && *names; names++)
    offer(self, *names, "", "");
}

/* The rest of what is asked for stands behind `at`. */
static void begin_at(Asking *self, const char *at) {
  self->before = arena_copy(self->arena, self->word, (size_t)(at - self->word));
}

/* Whether the usage of an operand or a value names a file: "DB", "[FOLDER]", "MODEL|DB". */
static bool is_file(const char *usage, size_t length) {
  static const char *const files[] = {"FILE",  "DB",         "OUT",     "PATH",  "FOLDER",
                                      "LOG",   "PROFILE",    "CLEANED", "STUDY", "CONFIG",
                                      "TABLE", "EXPERIMENT", "MODEL",   NULL};
  for (const char *end = usage + length; usage < end;) {
    size_t n = 0;
    while (usage + n < end && usage[n] >= 'A' && usage[n] <= 'Z')
      n++;
    for (int i = 0; n > 0 && files[i]; i++)
      if (strlen(files[i]) == n && strncmp(files[i], usage, n) == 0) return true;
    usage += n + (n == 0);
  }
  return false;
}

/* Whether a usage is a name in brackets or without. */
static bool is_called(const char *usage, size_t length, const char *name) {
  const size_t n = strlen(name);
  usage += *usage == '[';
  return strncmp(usage, name, n) == 0 && length >= n && strchr(" ].", usage[n]);
}

/* What a row says its values are. Lists with commas are completed behind the last one. */
static void offer_values(Asking *self, const OptionSpec *spec, const CliTerm *terms) {
  static const char *const truths[] = {"true", "false", NULL};
  const char *comma = strrchr(self->word + strlen(self->before), ',');
  const bool is_text = spec->type == OPTION_STRING || spec->type == OPTION_NODE;
  if (is_text && comma) begin_at(self, comma + 1);
  if (spec->listed) offer_terms(self, list_terms(spec->listed, self->arena));
  if (spec->value && strcmp(spec->value, "GPU") == 0)
    offer_names(self, list_gpu_names(self->arena));
  if (spec->word) offer(self, spec->word, "", "");
  if (spec->type == OPTION_BOOL)
    offer_names(self, truths);
  else if (spec->choices)
    offer_names(self, spec->choices);
  else
    offer_terms(self, terms);
  const bool names_file = spec->value && is_file(spec->value, strlen(spec->value));
  if (is_text && !self->any && (names_file || spec->listed)) offer_files(self);
}

/* ---- Keys of a configuration ---- */

/* Whether a key is one of a row, whose names have capitals for what users name. */
static bool is_key(const char *key, size_t length, const char *name) {
  const char *const end = key + length;
  while (*name && key < end) {
    const size_t upper = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (upper == 0 && *name++ != *key++) return false;
    if (upper > 0) key += strcspn(key, ".=");
    name += upper;
  }
  return !*name && key == end;
}

/* Of keys in files that --set does not reach there are none. */
static bool is_settable(const KeyBlock *block) {
  return block->specs && !strstr(block->place, ".yaml");
}

/* KEY= or the values of KEY. What users name is theirs to write. */
static void offer_keys(Asking *self) {
  size_t n = 0;
  const KeyBlock *blocks = keys_blocks(&n, self->arena);
  const char *key = self->word + strlen(self->before), *equals = strchr(key, '=');
  if (equals) begin_at(self, equals + 1);
  for (size_t i = 0; i < n; i++)
    for (const OptionSpec *spec = blocks[i].specs; is_settable(&blocks[i]) && spec->key; spec++) {
      const char *name = keys_name(&blocks[i], spec, self->arena);
      if (equals && is_key(key, (size_t)(equals - key), name))
        offer_values(self, spec, NULL);
      else if (!equals && !name[strcspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")])
        offer(self, name, "=", spec->help ? spec->help : "");
    }
}

/* ---- A command line ---- */

static void offer_commands(Asking *self, const Command *const *commands, size_t n) {
  static const char *const others[] = {"help", NULL};
  for (size_t i = 0; i < n; i++)
    if (!strchr(commands[i]->name, ' ')) offer(self, commands[i]->name, "", commands[i]->help);
  offer_names(self, others);
}

/* The second words of commands that begin with this one. */
static void offer_second(Asking *self, const Command *first, const Command *const *commands,
                         size_t n) {
  const size_t length = strlen(first->name);
  for (size_t i = 0; i < n; i++)
    if (strncmp(commands[i]->name, first->name, length) == 0 && commands[i]->name[length] == ' ')
      offer(self, commands[i]->name + length + 1, "", commands[i]->help);
}

static void offer_operand(Asking *self, const Command *command, int which) {
  const char *usage = command->operands;
  for (; which > 0 && strchr(usage, ' '); which--)
    usage = strchr(usage, ' ') + 1;
  const size_t length = strcspn(usage, " ");
  const bool more = which == 0 || strstr(command->operands, "...");
  if (more && command->listed_as && is_called(usage, length, command->listed_as))
    offer_terms(self, command->listed(self->arena));
  if (more && is_file(usage, length)) offer_files(self);
}

static void offer_value(Asking *self, const Command *command, const OptionSpec *option) {
  const bool listed = command->listed_as && strcmp(option->value, command->listed_as) == 0;
  if (strcmp(option->key, "--set") == 0 && strcmp(option->value, "KEY=VALUE") == 0)
    offer_keys(self);
  else
    offer_values(self, option, listed ? command->listed(self->arena) : NULL);
}

/* The rest of a command's line, the last of `words` asked for. */
static void offer_rest(Asking *self, const Command *command, int n, char **words) {
  int n_operands = 0;
  bool options_end = false;
  const OptionSpec *waits = NULL; // for its value
  for (int i = 0; i < n - 1; i++) {
    if (waits) {
      waits = NULL;
    } else if (options_end || words[i][0] != '-' || !words[i][1]) {
      n_operands++;
    } else if (strcmp(words[i], "--") == 0) {
      options_end = true;
    } else if (!strchr(words[i], '=')) {
      waits = cli_find_option(command, words[i]);
      if (waits && !waits->value) waits = NULL;
    }
  }
  const char *equals = strchr(self->word, '=');
  const bool is_option = !options_end && self->word[0] == '-';
  if (waits) {
    offer_value(self, command, waits);
  } else if (is_option && equals) {
    const OptionSpec *option = cli_find_option(command, self->word);
    begin_at(self, equals + 1);
    if (option && option->value) offer_value(self, command, option);
  } else if (is_option) {
    for (const OptionSpec *option = command->options; option->key; option++)
      offer(self, option->key, "", option->help);
    offer(self, "--help", "", "print help");
  } else {
    offer_operand(self, command, n_operands);
  }
}

static void offer_of_help(Asking *self, const Command *const *commands, size_t n, int n_words,
                          char **words) {
  static const char *const texts[] = {"--all", "--man", "--completion", NULL};
  if (n_words == 2 && self->word[0] == '-') offer_names(self, texts);
  if (n_words == 2) offer_commands(self, commands, n);
  if (n_words == 3 && strcmp(words[1], "--completion") == 0) offer_names(self, completion_shells);
}

void completion_words(const Command *const *commands, size_t n, int n_words, char **words,
                      FILE *out) {
  Arena arena;
  arena_init(&arena);
  Asking self = {
      .word = n_words > 0 ? words[n_words - 1] : "", .before = "", .arena = &arena, .out = out};
  int used = 0;
  static const char *const help[] = {"help", "--help", "-h", NULL};
  const Command *command = n_words > 1 ? cli_find(commands, n, n_words - 1, words, &used) : NULL;
  if (n_words < 2) {
    offer_commands(&self, commands, n);
    if (self.word[0] == '-') offer_names(&self, (const char *const[]){"--help", "--version", NULL});
  } else if (text_is_one(words[0], help)) {
    offer_of_help(&self, commands, n, n_words, words);
  } else if (command) {
    if (n_words == 2) offer_second(&self, command, commands, n);
    offer_rest(&self, command, n_words - used, words + used);
  }
  arena_done(&arena);
}

/* ---- Scripts ---- */

const char *const completion_shells[] = {"bash", "zsh", "fish", NULL};

/* Bash breaks words at '=' and ':', and replaces only what follows the last of these. */
static const char BASH[] =
    "_tandem() {\n"
    "  local line=${COMP_LINE:0:COMP_POINT} answer word=\n"
    "  local -a words\n"
    "  word=${line##*[[:space:]]}\n"
    "  read -ra words <<<\"${line%\"$word\"}\"\n"
    "  COMPREPLY=()\n"
    "  while IFS= read -r answer; do\n"
    "    answer=${answer%%$'\\t'*}\n"
    "    if [[ $answer == / ]]; then\n"
    "      compopt -o default 2>/dev/null\n"
    "      continue\n"
    "    fi\n"
    "    [[ $answer == *= ]] && compopt -o nospace 2>/dev/null\n"
    "    [[ $word == *[=:]* ]] && answer=${answer#\"${word%\"${word##*[=:]}\"}\"}\n"
    "    COMPREPLY+=(\"$answer\")\n"
    "  done < <(\"${words[0]/#\\~/$HOME}\" help --words \"${words[@]:1}\" \"$word\" 2>/dev/null)\n"
    "}\n"
    "complete -F _tandem tandem\n";

static const char ZSH[] =
    "#compdef tandem\n"
    "_tandem() {\n"
    "  local -a program names shown keys\n"
    "  local answer files=\n"
    "  program=(${~words[1]})\n"
    "  for answer in \"${(@f)$(\"$program[1]\" help --words \"${(@Q)words[2,CURRENT-1]}\" "
    "\"${(Q)PREFIX}\" 2>/dev/null)}\"; do\n"
    "    if [[ $answer == / ]]; then\n"
    "      files=1\n"
    "    elif [[ $answer == *=$'\\t'* ]]; then\n"
    "      keys+=(\"${answer%%$'\\t'*}\")\n"
    "    elif [[ -n $answer ]]; then\n"
    "      names+=(\"${answer%%$'\\t'*}\")\n"
    "      shown+=(\"${${answer/$'\\t'/  -- }%  -- }\")\n"
    "    fi\n"
    "  done\n"
    "  (( $#keys )) && compadd -S '' -a keys\n"
    "  (( $#names )) && compadd -l -d shown -a names\n"
    "  if [[ -n $files ]]; then\n"
    "    [[ $PREFIX == -*=* ]] && compset -P '*='\n"
    "    _files\n"
    "  fi\n"
    "}\n"
    "if [[ $funcstack[1] == _tandem ]]; then\n"
    "  _tandem \"$@\"\n" // as a function that compinit found
    "else\n"
    "  compdef _tandem tandem\n"
    "fi\n";

static const char FISH[] =
    "function __tandem_words\n"
    "  set -l words (commandline -opc)\n"
    "  set -l word (commandline -ct)\n"
    "  set -l program (string replace -r '^~' $HOME -- $words[1])\n"
    "  for answer in ($program help --words $words[2..-1] \"$word\" 2>/dev/null)\n"
    "    if test \"$answer\" = /\n"
    "      set -l before (string match -r -- '^-[^=]*=' \"$word\")\n"
    "      for path in (__fish_complete_path (string replace -r -- '^-[^=]*=' '' \"$word\"))\n"
    "        printf '%s%s\\n' \"$before\" $path\n"
    "      end\n"
    "    else\n"
    "      printf '%s\\n' $answer\n"
    "    end\n"
    "  end\n"
    "end\n"
    "complete -c tandem -f -a '(__tandem_words)'\n";

bool completion_print(const char *shell, FILE *out) {
  static const char *const scripts[] = {BASH, ZSH, FISH};
  for (int i = 0; completion_shells[i]; i++) {
    if (strcmp(shell, completion_shells[i]) != 0) continue;
    const char *script = scripts[i];
    const char *rest = strncmp(script, "#compdef", 8) == 0 ? strchr(script, '\n') + 1 : script;
    fprintf(out,
            "%.*s# Completion of tandem in %s; written by 'tandem help --completion %s'. The "
            "program itself\n# says which words may stand next: 'tandem help --words WORD...'.\n%s",
            (int)(rest - script), script, shell, shell, rest);
    return true;
  }
  return false;
}
