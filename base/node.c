/* Looking into a tree, and its canonical text.
 *
 * The canonical text is one line of ASCII in flow form that yaml_parse reads back to the same tree.
 * A plain scalar stays plain where flow form allows it, and must where it can be more than text: a
 * number with its unit, a range, a word. All else is written in double quotes. */
#include "base/hash.h"
#include "base/text.h"
#include "base/yaml.h"
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

const Node *node_find(const Node *map, const char *key) {
  if (!map || map->kind != NODE_MAP) return NULL;
  for (const Node *node = map->first; node; node = node->next)
    if (!strcmp(node->key, key)) return node;
  return NULL;
}

const char *node_find_text(const Node *map, const char *key) {
  const Node *node = node_find(map, key);
  return node && node->kind == NODE_SCALAR ? node->text : NULL;
}

Node *node_copy(const Node *node, Arena *arena) {
  Node *copy = ARENA_NEW(arena, Node), *last = NULL;
  *copy = *node;
  copy->parent = copy->first = copy->next = NULL;
  for (const Node *child = node->first; child; child = child->next) {
    Node *made = node_copy(child, arena);
    made->parent = copy;
    *(last ? &last->next : &copy->first) = made;
    last = made;
  }
  return copy;
}

Node *node_take(Node *map, const char *key) {
  Node *taken = (Node *)node_find(map, key);
  if (!taken) return NULL;
  Node **link = &map->first;
  while (*link != taken)
    link = &(*link)->next;
  *link = taken->next;
  map->n_children--;
  taken->next = taken->parent = NULL;
  return taken;
}

bool node_is_null(const Node *node) {
  static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
  if (node->kind != NODE_SCALAR || node->quoted) return false;
  for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
    if (!strcmp(node->text, nulls[i])) return true;
  return false;
}

const char *node_shown(const Node *node, Arena *arena) {
  const Place *at = &node->at;
  if (!node->spans || !at->source) return node->text;
  const int before = text_span(at->source, at->source_length, at->column - 1);
  return arena_printf(arena, "%.*s…", at->source_length - before, at->source + before);
}

typedef struct Writer {
  Arena *arena;
  char *text;
  size_t length, capacity;
} Writer;

static void write_bytes(Writer *writer, const char *bytes, size_t length) {
  ARENA_RESERVE(writer->arena, writer->text, writer->capacity, writer->length + length + 1);
  memcpy(writer->text + writer->length, bytes, length);
  writer->length += length;
  writer->text[writer->length] = '\0';
}

static void write_text(Writer *writer, const char *text) {
  write_bytes(writer, text, strlen(text));
}

/* Only of characters that mean nothing in flow form, and no indicator or document marker first. */
static bool is_plain_in_flow(const char *text) {
  static const char SAFE[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             " \t_./+-$%~()^<=;";
  size_t length = strlen(text);
  if (text[strspn(text, SAFE)]) return false;
  if (length > 0 && (strchr(" \t%", text[0]) || strchr(" \t", text[length - 1]))) return false;
  if (text[0] == '-' && (length == 1 || strchr(" \t", text[1]))) return false;
  return strncmp(text, "---", 3) != 0 && strncmp(text, "...", 3) != 0;
}

static void write_quoted(Writer *writer, const char *text) {
  write_text(writer, "\"");
  for (size_t length = strlen(text); length > 0;) {
    uint32_t code = 0;
    const int size = text_decode(text, length, &code);
    assert(size > 0); // as yaml_parse lets through
    char escaped[12];
    if (code == '"' || code == '\\') {
      snprintf(escaped, sizeof escaped, "\\%c", (char)code);
    } else if (code >= 0x20 && code < 0x7f) {
      snprintf(escaped, sizeof escaped, "%c", (char)code);
    } else {
      snprintf(escaped, sizeof escaped, code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
    }
    write_text(writer, escaped);
    text += size;
    length -= (size_t)size;
  }
  write_text(writer, "\"");
}

static void write_scalar(Writer *writer, const char *text, bool quoted) {
  if (quoted || !is_plain_in_flow(text)) {
    write_quoted(writer, text);
  } else {
    write_text(writer, *text ? text : "~"); // an empty value in a list would be lost
  }
}

/* Recursion is as deep as the tree, which yaml_parse bounds. */
static void write_node(Writer *writer, const Node *node) {
  if (node->kind == NODE_SCALAR) {
    write_scalar(writer, node->text, node->quoted);
    return;
  }
  write_text(writer, node->kind == NODE_MAP ? "{" : "[");
  for (const Node *child = node->first; child; child = child->next) {
    if (child != node->first) write_text(writer, ", ");
    if (child->key) {
      write_scalar(writer, child->key, false);
      write_text(writer, ": ");
    }
    write_node(writer, child);
  }
  write_text(writer, node->kind == NODE_MAP ? "}" : "]");
}

char *node_text(const Node *node, Arena *arena) {
  Writer writer = {.arena = arena};
  write_node(&writer, node);
  return writer.text;
}

uint64_t node_digest(const Node *node) {
  if (!node) return 0;
  Arena arena;
  arena_init(&arena);
  const char *text = node_text(node, &arena);
  const uint64_t digest = hash_bytes(text, strlen(text));
  arena_done(&arena);
  return digest;
}
