/* Completion for bash. The script finds words by itself, since bash breaks them at '=': only what
 * follows the last '=' is replaced. */
#include "experiments/commands/manual.h"
#include "experiments/keys/keys.h"
#include <string.h>

static const char HEAD[] =
    "# Completion of tandem in bash; written by 'tandem help --completion bash'.\n"
    "_tandem_listed() { \"$1\" list \"$2\" 2>/dev/null | sed -n 's/^\\([^ :]*\\) .*/\\1/p'; }\n"
    "\n"
    "_tandem() {\n"
    "  local line=${COMP_LINE:0:COMP_POINT} key options= values= listed=\n"
    "  local word=${line##*[[:space:]]}\n"
    "  local -a words\n"
    "  read -ra words <<<\"${line%\"$word\"}\"\n"
    "  local command=${words[1]-} previous=${words[${#words[@]}-1]}\n"
    "  [[ $word == --*=* ]] && previous=${word%%=*} word=${word#*=}\n"
    "  case \"$command ${words[2]-}\" in\n";

static const char SET[] = "  if [[ $previous == --set && $word == *=* ]]; then\n"
                          "    key=${word%%=*} word=${word#*=}\n"
                          "    case $key in\n";

static const char TAIL[] =
    "    esac\n"
    "  elif [[ $previous == --set ]]; then\n"
    "    values=$keys\n"
    "    compopt -o nospace 2>/dev/null\n"
    "  elif [[ $word == -* ]]; then\n"
    "    values=$options\n"
    "  fi\n"
    "  [[ $listed ]] && values=$(_tandem_listed \"${words[0]}\" \"$listed\")\n"
    "  COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
    "}\n"
    "complete -o default -F _tandem tandem\n";

/* "    --format) values='table csv json' ;;", where there is something to say. */
static void print_case(const char *pattern, const OptionSpec *spec, FILE *out) {
  if (spec->listed) {
    fprintf(out, "    %s) listed=%s ;;\n", pattern, spec->listed);
  } else if (spec->type == OPTION_BOOL) {
    fprintf(out, "    %s) values='true false' ;;\n", pattern);
  } else if (spec->choices) {
    fprintf(out, "    %s) values='", pattern);
    for (int i = 0; spec->choices[i]; i++)
      fprintf(out, "%s%s", i ? " " : "", spec->choices[i]);
    fputs("' ;;\n", out);
  }
}

/* Its options, and what their values are. */
static void print_command(const Command *command, Arena *arena, FILE *out) {
  fprintf(out, "  '%s')\n    options='--help", command->name);
  for (const OptionSpec *option = command->options; option->key; option++)
    fprintf(out, " %s", option->key);
  fputs("'\n", out);
  if (command->first_is_listed) {
    fputs("    [[ ${#words[@]} -eq 2 ]] && values='", out);
    for (const CliTerm *first = command->listed(arena), *term = first; term->name; term++)
      fprintf(out, "%s%s", term > first ? " " : "", term->name);
    fputs("'\n", out);
  }
  fputs("    case $previous in\n", out);
  for (const OptionSpec *option = command->options; option->key; option++)
    if (option->value) print_case(option->key, option, out);
  fputs("    esac ;;\n", out);
}

/* The name of a key as a pattern: what users name is any text. False where none of it is theirs. */
static bool key_pattern(const char *name, char *pattern, size_t size) {
  bool named = false;
  size_t n = 0;
  for (const char *at = name; *at && n + 2 < size;) {
    const size_t upper = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    named |= upper > 0;
    pattern[n++] = upper > 0 ? '*' : *at;
    at += upper > 0 ? upper : 1;
  }
  pattern[n] = '\0';
  return named;
}

/* Of keys in files that --set does not reach there are none. */
static bool is_settable(const KeyBlock *block) {
  return block->specs && !strstr(block->place, ".yaml");
}

static void print_keys(const KeyBlock *blocks, size_t n, Arena *arena, FILE *out) {
  char pattern[256];
  fputs("  local keys='", out);
  for (size_t i = 0; i < n; i++)
    for (const OptionSpec *spec = blocks[i].specs; is_settable(&blocks[i]) && spec->key; spec++)
      if (!key_pattern(keys_name(&blocks[i], spec, arena), pattern, sizeof pattern))
        fprintf(out, "%s= ", pattern);
  fputs("'\n", out);
}

static void print_values(const KeyBlock *blocks, size_t n, Arena *arena, FILE *out) {
  char pattern[256];
  for (size_t i = 0; i < n; i++)
    for (const OptionSpec *spec = blocks[i].specs; is_settable(&blocks[i]) && spec->key; spec++) {
      key_pattern(keys_name(&blocks[i], spec, arena), pattern, sizeof pattern);
      print_case(pattern, spec, out);
    }
}

void completion_print(const Command *const *commands, size_t n, FILE *out) {
  Arena arena;
  arena_init(&arena);
  size_t n_blocks = 0;
  const KeyBlock *blocks = keys_blocks(&n_blocks, &arena);
  fputs(HEAD, out);
  for (size_t i = 0; i < n; i++)
    if (strchr(commands[i]->name, ' '))
      fprintf(out, "  '%s') command='%s' ;;\n", commands[i]->name, commands[i]->name);
  fputs("  esac\n  case $command in\n  '' | help | --help | -h)\n    values='help", out);
  for (size_t i = 0; i < n; i++)
    if (!strchr(commands[i]->name, ' ')) fprintf(out, " %s", commands[i]->name);
  fputs("'\n    [[ ${#words[@]} -le 2 ]] || values= ;;\n", out);
  for (size_t i = 0; i < n; i++)
    print_command(commands[i], &arena, out);
  fputs("  esac\n", out);
  print_keys(blocks, n_blocks, &arena, out);
  fputs(SET, out);
  print_values(blocks, n_blocks, &arena, out);
  fputs(TAIL, out);
  arena_done(&arena);
}
