/* Texts from outside in what others read: nothing in them is obeyed there. */
#ifndef EXPERIMENTS_PLAN_QUOTE_H
#define EXPERIMENTS_PLAN_QUOTE_H
#include "base/arena.h"

/* One word of a POSIX shell: itself when it is plain, else in single quotes. */
const char *quote_shell(const char *text, Arena *arena);
/* One scalar of YAML, on a line: itself when it reads back as that text, else in double quotes. */
const char *quote_yaml(const char *text, Arena *arena);
/* Always in double quotes, as arguments are, which may look like numbers. */
const char *quote_yaml_text(const char *text, Arena *arena);
#endif
