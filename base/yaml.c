/* From libyaml's events to a tree of nodes, and assignments to such a tree.
 *
 * The reader keeps a stack of the containers that are open, so that the depth of a hostile file is
 * bounded and nothing recurses. It goes on after what it can step over (duplicate key, tag, anchor,
 * alias) to report all of it at once, and stops at what it cannot (syntax, nesting, a second
 * document). libyaml's marks count lines and characters from 0. */
#include "base/yaml.h"
#include "base/cleanup.h"
#include "base/file_kind.h"
#include "base/text.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

enum {
  DEPTH_MAX = 64,
  FILE_MAX_MIB = 64,
  KEY_MAX = 160, // bytes; escaped sixfold, still within the 1024 characters libyaml looks for a key
};

/* A container that is being filled. */
typedef struct Level {
  Node *node, *last;
  const char *key; // of the child to come; NULL: the next scalar of a map is a key
  Place key_at;
} Level;

typedef struct Reader {
  const char *name;
  const char *source; // what messages show, and the offsets at which its lines start and end
  size_t *line_starts;
  int n_lines;
  Arena *arena;
  Diag *diag;
  Node *root;
  Level levels[DEPTH_MAX];
  int depth;
  bool failed; // an entry was made; reading goes on only to find more
} Reader;

/* Length of the line break at `text`, 0 if there is none; those of libyaml: CR LF, LF, CR, and
 * NEL, LS and PS in UTF-8. */
static size_t break_length(const char *text, size_t length) {
  switch (text[0]) {
  case '\n':
    return 1;
  case '\r':
    return length > 1 && text[1] == '\n' ? 2 : 1;
  case '\xc2':
    return length > 1 && text[1] == '\x85' ? 2 : 0;
  case '\xe2':
    return length > 2 && text[1] == '\x80' && (text[2] & '\xfe') == '\xa8' ? 3 : 0;
  default:
    return 0;
  }
}

static size_t count_characters(const char *text, size_t length) {
  size_t count = 0;
  for (size_t i = 0; i < length; i++)
    count += ((unsigned char)text[i] & 0xc0) != 0x80;
  return count;
}

static void find_lines(Reader *reader, size_t length) {
  size_t capacity = 0, at = 0;
  ARENA_RESERVE(reader->arena, reader->line_starts, capacity, 1);
  while (at < length) {
    size_t size = break_length(reader->source + at, length - at);
    at += size ? size : 1;
    if (!size && at < length) continue;
    reader->n_lines++;
    ARENA_RESERVE(reader->arena, reader->line_starts, capacity, reader->n_lines + 1);
    reader->line_starts[reader->n_lines] = at;
  }
}

static Place place_at(const Reader *reader, yaml_mark_t start, yaml_mark_t end) {
  Place place = {.path = reader->name, .line = (int)start.line + 1, .width = 1};
  place.column = (int)start.column + 1;
  if (end.line == start.line && end.column > start.column)
    place.width = (int)(end.column - start.column);
  if ((int)start.line < reader->n_lines) {
    size_t from = reader->line_starts[start.line], to = reader->line_starts[start.line + 1];
    while (to > from && strchr("\r\n", reader->source[to - 1]))
      to--;
    place.source = reader->source + from;
    place.source_length = (int)(to - from);
  }
  return place;
}

/* Where byte `offset` stands; libyaml has no mark for bytes that are not text. */
static Place place_of_byte(const Reader *reader, size_t offset) {
  yaml_mark_t mark = {0};
  while ((int)mark.line + 1 < reader->n_lines && reader->line_starts[mark.line + 1] <= offset)
    mark.line++;
  size_t start = reader->line_starts[mark.line];
  mark.column = count_characters(reader->source + start, offset - start);
  return place_at(reader, mark, mark);
}

static int syntax_error(const Reader *reader, const yaml_parser_t *parser) {
  if (parser->error == YAML_MEMORY_ERROR) arena_exhausted(0);
  if (parser->error == YAML_READER_ERROR) {
    Place at = place_of_byte(reader, parser->problem_offset);
    return diag_error(reader->diag, at, "the text is not UTF-8: %s", parser->problem);
  }
  yaml_mark_t mark = parser->problem_mark;
  /* What is still open when the text ends is better shown where it begins. */
  if (parser->context && (int)mark.line >= reader->n_lines) mark = parser->context_mark;
  Place at = place_at(reader, mark, mark);
  bool indents = at.source && (size_t)at.column <= strspn(at.source, " \t");
  if (indents && at.source[at.column - 1] == '\t') {
    diag_error(reader->diag, at, "a line must not be indented with a tab");
    diag_hint(reader->diag, "indent with spaces");
    return -1;
  }
  if (!parser->context) return diag_error(reader->diag, at, "%s", parser->problem);
  diag_error(reader->diag, at, "%s %s", parser->problem, parser->context);
  if (parser->context_mark.line != mark.line)
    diag_hint(reader->diag, "it starts on line %d", (int)parser->context_mark.line + 1);
  return -1;
}

/* Reports what no node may carry. */
static void refuse_properties(Reader *reader, Place at, const yaml_char_t *anchor,
                              const yaml_char_t *tag) {
  if (anchor) diag_error(reader->diag, at, "anchor '&%s' is not allowed", (const char *)anchor);
  if (tag) diag_error(reader->diag, at, "tag '%s' is not allowed", (const char *)tag);
  if (anchor || tag) reader->failed = true;
}

static int begin_key(Reader *reader, Level *level, const yaml_event_t *event) {
  Place at = place_at(reader, event->start_mark, event->end_mark);
  if (event->type != YAML_SCALAR_EVENT)
    return diag_error(reader->diag, at, "a key must be a scalar");
  const char *text = (const char *)event->data.scalar.value;
  size_t length = event->data.scalar.length;
  if (length == 0) return diag_error(reader->diag, at, "a key is empty");
  if (length > KEY_MAX)
    return diag_error(reader->diag, at, "a key is longer than %d bytes", KEY_MAX);
  if (strlen(text) < length || !text_is_plain(text))
    return diag_error(reader->diag, at, "a key holds a control character");
  refuse_properties(reader, at, event->data.scalar.anchor, event->data.scalar.tag);
  level->key = arena_copy(reader->arena, text, length);
  level->key_at = at;
  return 0;
}

/* A node for the event, as the next child of the innermost container or as the root. */
static Node *append_node(Reader *reader, const yaml_event_t *event, NodeKind kind) {
  Node *node = ARENA_NEW(reader->arena, Node);
  node->kind = kind;
  bool whole = kind == NODE_SCALAR; // containers are underlined at their first character only
  node->at = place_at(reader, event->start_mark, whole ? event->end_mark : event->start_mark);
  if (reader->depth == 0) {
    reader->root = node;
    return node;
  }
  Level *level = &reader->levels[reader->depth - 1];
  node->parent = level->node;
  node->key = level->key;
  node->key_at = level->key_at;
  level->key = NULL;
  if (level->last) {
    level->last->next = node;
  } else {
    level->node->first = node;
  }
  level->last = node;
  level->node->n_children++;
  return node;
}

static int add_scalar(Reader *reader, const yaml_event_t *event) {
  Node *node = append_node(reader, event, NODE_SCALAR);
  const char *text = (const char *)event->data.scalar.value;
  size_t length = event->data.scalar.length;
  refuse_properties(reader, node->at, event->data.scalar.anchor, event->data.scalar.tag);
  if (strlen(text) < length)
    return diag_error(reader->diag, node->at, "a value holds a NUL character");
  node->text = arena_copy(reader->arena, text, length);
  node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
  node->spans = event->end_mark.line > event->start_mark.line;
  return 0;
}

static int begin_container(Reader *reader, const yaml_event_t *event, NodeKind kind) {
  Place at = place_at(reader, event->start_mark, event->start_mark);
  if (reader->depth == DEPTH_MAX)
    return diag_error(reader->diag, at, "nesting is deeper than %d levels", DEPTH_MAX);
  Node *node = append_node(reader, event, kind);
  if (kind == NODE_MAP) {
    refuse_properties(reader, at, event->data.mapping_start.anchor, event->data.mapping_start.tag);
  } else {
    refuse_properties(reader, at, event->data.sequence_start.anchor,
                      event->data.sequence_start.tag);
  }
  reader->levels[reader->depth++] = (Level){.node = node};
  return 0;
}

/* By key, then in the order of the file. */
static int compare_keys(const void *a, const void *b) {
  const Node *left = *(const Node *const *)a, *right = *(const Node *const *)b;
  int order = strcmp(left->key, right->key);
  if (order) return order;
  order = (left->key_at.line > right->key_at.line) - (left->key_at.line < right->key_at.line);
  if (order) return order;
  return (left->key_at.column > right->key_at.column) -
         (left->key_at.column < right->key_at.column);
}

/* Sorted rather than compared pairwise, for maps of a million keys. */
static void refuse_duplicates(Reader *reader, const Node *map) {
  const Node **nodes = ARENA_ARRAY(reader->arena, const Node *, map->n_children);
  int n_nodes = 0, first = 0;
  for (const Node *node = map->first; node; node = node->next)
    nodes[n_nodes++] = node;
  qsort(nodes, (size_t)n_nodes, sizeof *nodes, compare_keys);
  for (int i = 1; i < n_nodes; i++) {
    if (strcmp(nodes[i]->key, nodes[first]->key) != 0) {
      first = i;
      continue;
    }
    diag_error(reader->diag, nodes[i]->key_at, "duplicate key '%s', first set on line %d",
               nodes[i]->key, nodes[first]->key_at.line);
    reader->failed = true;
  }
}

static int add_alias(Reader *reader, const yaml_event_t *event) {
  Node *node = append_node(reader, event, NODE_SCALAR);
  const char *anchor = (const char *)event->data.alias.anchor;
  diag_error(reader->diag, node->at, "alias '*%s' is not allowed", anchor);
  diag_hint(reader->diag, "write the value in full");
  node->text = "";
  reader->failed = true;
  return 0;
}

static int begin_document(Reader *reader, const yaml_event_t *event) {
  if (!reader->root) return 0;
  Place at = place_at(reader, event->start_mark, event->end_mark);
  return diag_error(reader->diag, at,
                    "a file must hold one document, and a second one begins here");
}

/* 0 to go on, -1 after an error that ends reading. */
static int take_event(Reader *reader, const yaml_event_t *event) {
  Level *level = reader->depth ? &reader->levels[reader->depth - 1] : NULL;
  bool ends = event->type == YAML_MAPPING_END_EVENT || event->type == YAML_SEQUENCE_END_EVENT;
  if (level && level->node->kind == NODE_MAP && !level->key && !ends)
    return begin_key(reader, level, event);
  switch (event->type) {
  case YAML_DOCUMENT_START_EVENT:
    return begin_document(reader, event);
  case YAML_SCALAR_EVENT:
    return add_scalar(reader, event);
  case YAML_ALIAS_EVENT:
    return add_alias(reader, event);
  case YAML_MAPPING_START_EVENT:
    return begin_container(reader, event, NODE_MAP);
  case YAML_SEQUENCE_START_EVENT:
    return begin_container(reader, event, NODE_LIST);
  case YAML_MAPPING_END_EVENT:
    refuse_duplicates(reader, level->node);
    reader->depth--;
    return 0;
  case YAML_SEQUENCE_END_EVENT:
    reader->depth--;
    return 0;
  default:
    return 0;
  }
}

static void read_events(Reader *reader, yaml_parser_t *parser) {
  for (bool at_end = false; !at_end;) {
    yaml_event_t event;
    if (!yaml_parser_parse(parser, &event)) {
      syntax_error(reader, parser);
      reader->failed = true;
      return;
    }
    at_end = event.type == YAML_STREAM_END_EVENT;
    if (take_event(reader, &event) < 0) reader->failed = at_end = true;
    yaml_event_delete(&event);
  }
}

static bool is_blank(const Node *node) {
  return node->kind == NODE_SCALAR && !node->quoted && !*node->text;
}

typedef struct Text {
  const char *bytes;
  size_t length;
} Text;

/* The tree of `text`, whose characters stand where those of `source` do; both are in the arena. A
 * blank scalar if there is nothing in it. */
static Node *parse(const char *name, Text text, Text source, Arena *arena, Diag *diag) {
  Reader reader = {.arena = arena, .diag = diag, .source = source.bytes};
  reader.name = arena_copy(arena, name, strlen(name));
  find_lines(&reader, source.length);
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) arena_exhausted(0);
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text.bytes, text.length);
  read_events(&reader, &parser);
  yaml_parser_delete(&parser);
  if (reader.failed) return NULL;
  if (!reader.root) {
    reader.root = ARENA_NEW(arena, Node);
    *reader.root = (Node){.kind = NODE_SCALAR, .text = ""};
  }
  return reader.root;
}

static Node *parse_file(const char *name, Text text, Arena *arena, Diag *diag) {
  const char *kind = file_kind(text.bytes, text.length);
  if (kind) {
    diag_error(diag, place_of_file(name), "'%s' is %s; YAML or JSON in UTF-8 is expected", name,
               kind);
    return NULL;
  }
  bool marked = text.length >= 3 && memcmp(text.bytes, "\xef\xbb\xbf", 3) == 0;
  if (marked) text = (Text){text.bytes + 3, text.length - 3};
  Node *root = parse(name, text, text, arena, diag);
  if (!root || !is_blank(root)) return root;
  diag_error(diag, place_of_file(name), "'%s' is empty", name);
  return NULL;
}

Node *yaml_parse(const char *name, const char *text, size_t length, Arena *arena, Diag *diag) {
  return parse_file(name, (Text){arena_copy(arena, text, length), length}, arena, diag);
}

/* "-" is standard input. */
static FILE *open_text(const char *path) {
  if (strcmp(path, "-") != 0) return fopen(path, "rb");
  const int file = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return file >= 0 ? fdopen(file, "rb") : NULL;
}

Node *yaml_load(const char *path, Arena *arena, Diag *diag) {
  Place at = place_of_file(path);
  CLEANUP_FILE FILE *file = open_text(path);
  if (!file) {
    diag_environment(diag, at, "cannot open '%s': %s", path, strerror(errno));
    return NULL;
  }
  char *bytes = NULL;
  size_t length = 0, capacity = 0, got = 0;
  do {
    ARENA_RESERVE(arena, bytes, capacity, length + BUFSIZ);
    got = fread(bytes + length, 1, BUFSIZ, file);
    length += got;
  } while (got > 0 && length <= (size_t)FILE_MAX_MIB << 20);
  if (ferror(file)) {
    diag_environment(diag, at, "cannot read '%s': %s", path, strerror(errno));
    return NULL;
  }
  if (got > 0) {
    diag_error(diag, at, "'%s' is larger than %d MiB", path, FILE_MAX_MIB);
    return NULL;
  }
  return parse_file(path, (Text){bytes, length}, arena, diag);
}

/* `text` with one space in place of every character of its first `length` bytes, so that a parser
 * sees only the rest, at its true column. */
static Text blank_out(const char *text, size_t length, Arena *arena) {
  char *blanked = arena_copy(arena, text, strlen(text));
  size_t n_spaces = count_characters(text, length);
  size_t rest = strlen(text + length);
  memset(blanked, ' ', n_spaces);
  memcpy(blanked + n_spaces, text + length, rest + 1);
  return (Text){blanked, n_spaces + rest};
}

Node *node_child(Node *map, const char *key, Place at, Arena *arena) {
  Node **link = &map->first;
  for (; *link; link = &(*link)->next)
    if (strcmp((*link)->key, key) == 0) return *link;
  *link = ARENA_NEW(arena, Node);
  **link = (Node){.kind = NODE_MAP, .key = key, .key_at = at, .at = at, .parent = map};
  map->n_children++;
  return *link;
}

/* One step of an assignment's path from `from` to `key`, the text at `at`; NULL after an error. */
static Node *step_into(Node *from, const char *key, Place at, Arena *arena, Diag *diag) {
  if (from->kind == NODE_MAP) return node_child(from, key, at, arena);
  if (from->kind == NODE_SCALAR) {
    diag_error(diag, at, "'%s' cannot be set inside the value '%s'", key, node_shown(from, arena));
    return NULL;
  }
  int index = 0;
  for (Node *node = from->first; node; node = node->next, index++) {
    char position[16];
    snprintf(position, sizeof position, "%d", index);
    if (strcmp(position, key) == 0) return node;
  }
  diag_error(diag, at, "the list has %d entries and no entry '%s'", from->n_children, key);
  diag_hint(diag, "entries are counted from 0");
  return NULL;
}

/* Gives `target` the value of `value`; where it stands in the tree stays. */
static void replace_value(Node *target, const Node *value, Place key_at) {
  Node *parent = target->parent, *next = target->next;
  const char *key = target->key;
  *target = *value;
  target->parent = parent;
  target->next = next;
  target->key = key;
  target->key_at = key_at;
  for (Node *child = target->first; child; child = child->next)
    child->parent = target;
}

/* The place of text[from..to) in an assignment. */
static Place place_in(const char *text, size_t from, size_t to) {
  size_t width = count_characters(text + from, to - from);
  return (Place){.path = "--set",
                 .line = 1,
                 .column = (int)count_characters(text, from) + 1,
                 .width = width > 0 ? (int)width : 1,
                 .source = text,
                 .source_length = (int)strlen(text)};
}

/* Gives what text[0..length) leads to the value of `value`. Its keys stand at `fixed`, or where
 * they do in `text` when that is NULL. */
static int set_path(Node *root, const char *text, size_t length, const Place *fixed,
                    const Node *value, Arena *arena, Diag *diag) {
  Node *target = root;
  Place at = {0};
  for (size_t start = 0, end = 0; start <= length; start = end + 1) {
    end = length;
    const char *key = arena_copy(arena, text + start, end - start);
    if (!node_find(target, key)) { // else it is a key with dots of its own, such as an axis
      end = start + strcspn(key, ".");
      key = arena_copy(arena, text + start, end - start);
    }
    at = fixed ? *fixed : place_in(text, start, end);
    if (!*key) return diag_error(diag, at, "'%.*s' has an empty key", (int)length, text);
    if (!text_is_plain(key))
      return diag_error(diag, at, "a key holds a control character or is not UTF-8");
    target = step_into(target, key, at, arena, diag);
    if (!target) return -1;
  }
  replace_value(target, value, at);
  return 0;
}

/* An error that says which keys there are. */
static int nothing_there(const Node *map, const char *key, Place at, Diag *diag) {
  const char **names = ARENA_ARRAY(&diag->arena, const char *, map->n_children + 1);
  int n = 0;
  for (const Node *child = map->first; child; child = child->next)
    names[n++] = child->key;
  diag_error(diag, at, "there is no key '%s' to remove", key);
  diag_hint_near(diag, key, names);
  return -1;
}

/* Takes out what text[0..length) leads to. */
static int take_path(Node *root, const char *text, size_t length, Arena *arena, Diag *diag) {
  Node *from = root;
  for (size_t start = 0, end = 0;; start = end + 1) {
    end = length;
    const char *key = arena_copy(arena, text + start, end - start);
    if (!node_find(from, key)) {
      end = start + strcspn(key, ".");
      key = arena_copy(arena, text + start, end - start);
    }
    const Place at = place_in(text, start, end);
    if (from->kind == NODE_MAP && !node_find(from, key)) return nothing_there(from, key, at, diag);
    if (end == length && from->kind == NODE_LIST)
      return diag_error(diag, at, "a list has no keys to remove");
    if (end == length && from->kind == NODE_MAP) return node_take(from, key) ? 0 : -1;
    from = step_into(from, key, at, arena, diag);
    if (!from) return -1;
  }
}

int yaml_set(Node *root, const char *assignment, Arena *arena, Diag *diag) {
  const char *text = arena_copy(arena, assignment, strlen(assignment));
  size_t path_length = strcspn(text, "=");
  Place at = place_in(text, 0, path_length);
  if (!text[path_length]) {
    diag_error(diag, at, "'%s' has no '='", text);
    diag_hint(diag, "write key=value, such as pools.prefill.count=30");
    return -1;
  }
  Text value_text = blank_out(text, path_length + 1, arena);
  const Node *value = parse("--set", value_text, (Text){text, strlen(text)}, arena, diag);
  if (!value) return -1;
  if (is_blank(value)) {
    diag_error(diag, at, "'%.*s' has no value", (int)path_length, text);
    diag_hint(diag, "write '' for an empty text, or null to remove the key");
    return -1;
  }
  if (node_is_null(value)) return take_path(root, text, path_length, arena, diag);
  return set_path(root, text, path_length, NULL, value, arena, diag);
}

int node_set(Node *root, const char *path, Place at, const Node *value, Arena *arena, Diag *diag) {
  return set_path(root, path, strlen(path), &at, node_copy(value, arena), arena, diag);
}
