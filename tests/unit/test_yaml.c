/* Pinned: the tree and its positions, every refusal with its place, assignments, and that canonical
 * text reads back to itself. Not pinned: the wording of libyaml's own errors. */
#include "base/yaml.h"
#include "tests/unit/testing.h"
#include <stdio.h>

TestSuite(yaml, .init = setup, .fini = teardown);

static Node *parse(const char *text) {
  return yaml_parse("a.yaml", text, strlen(text), &arena, &diag);
}

static void check_entry(int index, int line, int column, const char *message) {
  cr_assert_lt(index, diag.n_entries, "no entry says '%s'", message);
  const DiagEntry *entry = &diag.entries[index];
  cr_assert_not_null(strstr(entry->message, message), "'%s' does not say '%s'", entry->message,
                     message);
  cr_assert_eq(entry->at.line, line, "'%s' is at line %d", message, entry->at.line);
  cr_assert_eq(entry->at.column, column, "'%s' is at column %d", message, entry->at.column);
}

static void check_place(Place at, int line, int column, int width, const char *source) {
  cr_assert_str_eq(at.path, "a.yaml");
  cr_assert_eq(at.line, line);
  cr_assert_eq(at.column, column);
  cr_assert_eq(at.width, width);
  cr_assert_eq((size_t)at.source_length, strlen(source));
  cr_assert_eq(strncmp(at.source, source, strlen(source)), 0);
}

Test(yaml, a_tree_knows_kinds_order_and_places) {
  const Node *root = parse("# head\n"
                           "model: bloom-176b\r\n"
                           "pools:\n"
                           "  prefill: {count: 25, name: 'x y'}\n"
                           "axes: [1, two]\n");
  cr_assert_not_null(root);
  cr_assert_eq(root->kind, NODE_MAP);
  cr_assert_eq(root->n_children, 3);
  const Node *model = root->first, *pools = model->next, *axes = pools->next;
  cr_assert_str_eq(model->key, "model");
  cr_assert_str_eq(model->text, "bloom-176b");
  cr_assert_not(model->quoted);
  check_place(model->key_at, 2, 1, 5, "model: bloom-176b");
  check_place(model->at, 2, 8, 10, "model: bloom-176b");
  const Node *prefill = node_find(pools, "prefill");
  check_place(prefill->at, 4, 12, 1, "  prefill: {count: 25, name: 'x y'}");
  const Node *name = node_find(prefill, "name");
  cr_assert(name->quoted);
  cr_assert_str_eq(name->text, "x y");
  check_place(name->at, 4, 30, 5, "  prefill: {count: 25, name: 'x y'}");
  cr_assert_eq(name->parent, prefill);
  cr_assert_eq(prefill->parent, pools);
  cr_assert_eq(axes->kind, NODE_LIST);
  cr_assert_eq(axes->n_children, 2);
  cr_assert_null(axes->first->key);
  cr_assert_str_eq(axes->first->next->text, "two");
  cr_assert_null(axes->first->next->next);
  cr_assert_null(node_find(root, "mod"));
  cr_assert_null(node_find(model, "x"));
  cr_assert_null(node_find(axes, "1"));
  cr_assert_null(node_find(NULL, "x"));
}

Test(yaml, json_reads_as_yaml_tabs_and_all) {
  const Node *root = parse("{\n\t\"hidden_size\":8192,\n\t\"tie\": false, \"x\": null,\n"
                           "\t\"a\": [[1, 2], {\"b\": \"c\\/d\"}]\n}\n");
  cr_assert_not_null(root);
  cr_assert_str_eq(node_text(root, &arena),
                   "{hidden_size: 8192, tie: false, x: null, a: [[1, 2], {b: \"c/d\"}]}");
  cr_assert_not(node_find(root, "hidden_size")->quoted);
  check_place(root->first->key_at, 2, 2, 13, "\t\"hidden_size\":8192,");
}

Test(yaml, a_byte_order_mark_is_no_part_of_the_text) {
  const Node *root = parse("\xef\xbb\xbf"
                           "a: 1\n");
  cr_assert_not_null(root);
  cr_assert_str_eq(root->first->key, "a");
  check_place(root->first->key_at, 1, 1, 1, "a: 1");
}

Test(yaml, what_is_not_allowed_is_refused_where_it_stands) {
  static const struct {
    const char *text;
    int line, column;
    const char *message;
  } CASES[] = {
      {"a: 1\nb: 2\na: 3\n", 3, 1, "duplicate key 'a', first set on line 1"},
      {"{x: {b: 1, 'b': 2}}", 1, 12, "duplicate key 'b', first set on line 1"},
      {"a: &x 1\n", 1, 4, "anchor '&x' is not allowed"},
      {"a: &x [1]\n", 1, 4, "anchor '&x' is not allowed"},
      {"a: &x {b: 1}\n", 1, 4, "anchor '&x' is not allowed"},
      {"&k a: 1\n", 1, 1, "anchor '&k' is not allowed"},
      {"a: *x\n", 1, 4, "alias '*x' is not allowed"},
      {"a: !t 3\n", 1, 4, "tag '!t' is not allowed"},
      {"a: !!map {b: 1}\n", 1, 4, "is not allowed"},
      {"a: 1\n---\nb: 2\n", 2, 1, "a file must hold one document, and a second one begins here"},
      {"", 0, 0, "'a.yaml' is empty"},
      {"\n# nothing\n\n", 0, 0, "'a.yaml' is empty"},
      {"---\n", 0, 0, "'a.yaml' is empty"},
      {"? [a]\n: b\n", 1, 3, "a key must be a scalar"},
      {"{a: 1, *b : 2}", 1, 8, "a key must be a scalar"},
      {"'': 1\n", 1, 1, "a key is empty"},
      {"a: \"x\\0y\"\n", 1, 4, "a value holds a NUL character"},
      {"\"x\\0y\": 1\n", 1, 1, "a key holds a control character"},
      {"a: {\"x\\ny\": 1}\n", 1, 5, "a key holds a control character"},
      {"\"x\\e[2J\": 1\n", 1, 1, "a key holds a control character"},
      {"\"\\u009b\": 1\n", 1, 1, "a key holds a control character"},
      {"a:\n\tb: 1\n", 2, 1, "a line must not be indented with a tab"},
      {"a: \"b\nc: 1\n", 1, 4, "quoted scalar"},
      {"a: 1\n  b: 2\n", 2, 4, "mapping values are not allowed"},
      {"a: 1\nb\n", 2, 1, "could not find expected ':'"},
      {"a: 1\n\xc3\xa9: \xff\n", 2, 4, "the text is not UTF-8"},
      {"a: \xed\xa0\x80\n", 1, 4, "the text is not UTF-8"},
      {"a: \x01\n", 1, 4, "the text is not UTF-8"},
      {"\xff\xfe"
       "a\0:\0",
       0, 0, "'a.yaml' is text in UTF-16"},
      {"PAR1\x15", 0, 0, "'a.yaml' is a Parquet file"},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    cr_assert_null(parse(CASES[i].text), "'%s' is accepted", CASES[i].text);
    cr_assert_eq(diag.n_entries, 1, "'%s' gives %d entries", CASES[i].text, diag.n_entries);
    check_entry(0, CASES[i].line, CASES[i].column, CASES[i].message);
    cr_assert_eq(diag_exit_code(&diag), 3);
    teardown();
    setup();
  }
}

Test(yaml, a_syntax_error_far_from_its_beginning_names_the_line_of_that) {
  cr_assert_null(parse("a: [1, 2\nb: 3\n"));
  check_entry(0, 2, 2, "did not find expected ',' or ']'");
  cr_assert_str_eq(diag.entries[0].hint, "it starts on line 1");
}

Test(yaml, a_nul_byte_is_refused) {
  cr_assert_null(yaml_parse("a.yaml", "a: 1\nb: \0", 9, &arena, &diag));
  check_entry(0, 2, 4, "the text is not UTF-8");
}

Test(yaml, problems_that_can_be_stepped_over_are_reported_together) {
  cr_assert_null(parse("a: &x 1\nb: *x\nc: {d: 1, d: 2}\nc: !t [1]\n"));
  cr_assert_eq(diag.n_entries, 5);
  check_entry(0, 1, 4, "anchor");
  check_entry(1, 2, 4, "alias");
  check_entry(2, 3, 11, "duplicate key 'd'");
  check_entry(3, 4, 4, "tag");
  check_entry(4, 4, 1, "duplicate key 'c', first set on line 3");
}

Test(yaml, nesting_and_keys_have_limits) {
  char text[512] = {0};
  memset(text, '[', 64);
  memset(text + 64, ']', 64);
  cr_assert_not_null(parse(text));
  memset(text, '[', 65);
  memset(text + 65, ']', 65);
  cr_assert_null(parse(text));
  check_entry(0, 1, 65, "deeper than 64");
  memset(text, 'k', 160);
  strcpy(text + 160, ": 1");
  cr_assert_not_null(parse(text));
  memset(text, 'k', 161);
  strcpy(text + 161, ": 1");
  cr_assert_null(parse(text));
  check_entry(1, 1, 1, "longer than 160");
}

Test(yaml, a_map_of_many_keys_is_read_in_order) {
  enum { COUNT = 50000 };
  char *text = arena_alloc(&arena, COUNT * 16), *end = text;
  for (int i = 0; i < COUNT; i++)
    end += snprintf(end, 16, "k%d: %d\n", i, i);
  const Node *root = parse(text);
  cr_assert_not_null(root);
  cr_assert_eq(root->n_children, COUNT);
  int i = 0;
  for (const Node *node = root->first; node; node = node->next)
    cr_assert_eq(strtol(node->text, NULL, 10), i++);
}

Test(yaml, a_file_that_cannot_be_read_is_an_environment_error) {
  cr_assert_null(yaml_load("no/such/file.yaml", &arena, &diag));
  check_entry(0, 0, 0, "cannot open 'no/such/file.yaml': No such file");
  cr_assert_null(yaml_load("/", &arena, &diag));
  check_entry(1, 0, 0, "cannot read '/': Is a directory");
  cr_assert_eq(diag_exit_code(&diag), 4);
}

Test(yaml, a_file_is_read_whole_and_one_too_large_is_refused) {
  const char *path = temp_file("", 0, &arena);
  FILE *file = fopen(path, "w");
  for (int i = 0; i < 20000; i++)
    fprintf(file, "key%d: value\n", i);
  fclose(file);
  const Node *root = yaml_load(path, &arena, &diag);
  cr_assert_not_null(root);
  cr_assert_eq(root->n_children, 20000);
  cr_assert_str_eq(root->at.path, path);
  cr_assert_eq(truncate(path, (64 << 20) + 1), 0);
  const Node *refused = yaml_load(path, &arena, &diag);
  unlink(path);
  cr_assert_null(refused);
  check_entry(0, 0, 0, "is larger than 64 MiB");
}

Test(yaml, assignments_change_the_tree) {
  static const struct {
    const char *assignment, *text;
  } CASES[] = {
      {"a=2", "{a: 2, b: {c: [1, 2]}}"},
      {"b.c.1=x", "{a: 1, b: {c: [1, x]}}"},
      {"b.c=70 /s", "{a: 1, b: {c: 70 /s}}"},
      {"b={d: [1, 'q'], e: {f: 2}}", "{a: 1, b: {d: [1, \"q\"], e: {f: 2}}}"},
      {"b.x=3", "{a: 1, b: {c: [1, 2], x: 3}}"},
      {"p.q.r=0.5", "{a: 1, b: {c: [1, 2]}, p: {q: {r: 0.5}}}"},
      {"a=b=c", "{a: b=c, b: {c: [1, 2]}}"},
      {"a=''", "{a: \"\", b: {c: [1, 2]}}"},
      {"a= ~", "{b: {c: [1, 2]}}"},
      {"b.c=null", "{a: 1, b: {}}"},
      {"b=null", "{a: 1}"},
      {"a='null'", "{a: \"null\", b: {c: [1, 2]}}"},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    Node *root = parse("a: 1\nb: {c: [1, 2]}\n");
    cr_assert_eq(yaml_set(root, CASES[i].assignment, &arena, &diag), 0);
    cr_assert_str_eq(node_text(root, &arena), CASES[i].text);
  }
}

Test(yaml, a_key_with_dots_of_its_own_is_found_by_its_whole_name) {
  Node *root = parse("sweep: {pools.count: 1}\n");
  cr_assert_eq(yaml_set(root, "sweep.pools.count=[2, 3]", &arena, &diag), 0);
  cr_assert_str_eq(node_text(root, &arena), "{sweep: {pools.count: [2, 3]}}");
  cr_assert_eq(yaml_set(root, "sweep.pools.x=4", &arena, &diag), 0);
  cr_assert_str_eq(node_text(root, &arena), "{sweep: {pools.count: [2, 3], pools: {x: 4}}}");
  cr_assert_eq(yaml_set(root, "sweep.pools.count=null", &arena, &diag), 0);
  cr_assert_str_eq(node_text(root, &arena), "{sweep: {pools: {x: 4}}}");
}

Test(yaml, assigned_nodes_are_linked_and_placed_in_the_assignment) {
  Node *root = parse("a: 1\nz: 2\n");
  cr_assert_eq(yaml_set(root, "\xc3\xa9.b={c: 5}", &arena, &diag), 0);
  const Node *made = root->first->next->next;
  cr_assert_eq(root->n_children, 3);
  cr_assert_str_eq(made->key, "\xc3\xa9");
  cr_assert_eq(made->parent, root);
  const Node *b = node_find(made, "b"), *c = node_find(b, "c");
  cr_assert_eq(b->parent, made);
  cr_assert_eq(c->parent, b);
  cr_assert_str_eq(c->at.path, "--set");
  cr_assert_eq(c->at.line, 1);
  cr_assert_eq(c->at.column, 9);
  cr_assert_str_eq(c->at.source, "\xc3\xa9.b={c: 5}");
}

Test(yaml, assignments_that_make_no_sense_are_refused_where_they_fail) {
  static const struct {
    const char *assignment;
    int column, width;
    const char *message;
  } CASES[] = {
      {"a.b=1", 3, 1, "'b' cannot be set inside the value '1'"},
      {"b.c.2=1", 5, 1, "the list has 2 entries and no entry '2'"},
      {"b.c.x=1", 5, 1, "the list has 2 entries and no entry 'x'"},
      {"b.c.01=1", 5, 2, "the list has 2 entries and no entry '01'"},
      {"a", 1, 1, "'a' has no '='"},
      {"", 1, 1, "'' has no '='"},
      {"=1", 1, 1, "'' has an empty key"},
      {"b..c=1", 3, 1, "'b..c' has an empty key"},
      {"b.=1", 3, 1, "'b.' has an empty key"},
      {"\xc3\xa9.a..b=1", 5, 1, "'\xc3\xa9.a..b' has an empty key"},
      {"x=null", 1, 1, "there is no key 'x' to remove"},
      {"b.cc.d=~", 3, 2, "there is no key 'cc' to remove"},
      {"b.c.0=null", 5, 1, "a list has no keys to remove"},
      {"a.b=null", 3, 1, "'b' cannot be set inside the value '1'"},
      {"a=", 1, 1, "'a' has no value"},
      {"a= # x", 1, 1, "'a' has no value"},
      {"a=[1, *x]", 7, 2, "alias '*x' is not allowed"},
      {"a={x: 1, x: 2}", 10, 1, "duplicate key 'x'"},
      {"a=[1", 3, 1, "did not find expected"},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    Node *root = parse("a: 1\nb: {c: [1, 2]}\n");
    cr_assert_eq(yaml_set(root, CASES[i].assignment, &arena, &diag), -1, "'%s'",
                 CASES[i].assignment);
    cr_assert_eq(diag.n_entries, 1);
    check_entry(0, 1, CASES[i].column, CASES[i].message);
    cr_expect_eq(diag.entries[0].at.width, CASES[i].width, "'%s': %d", CASES[i].assignment,
                 diag.entries[0].at.width);
    cr_assert_str_eq(diag.entries[0].at.path, "--set");
    cr_assert_str_eq(diag.entries[0].at.source, CASES[i].assignment);
    teardown();
    setup();
  }
}

Test(yaml, canonical_text_reads_back_to_itself) {
  static const struct {
    const char *text, *canonical;
  } CASES[] = {
      {"a: b, c\n", "{a: \"b, c\"}"},
      {"a:\nb: [~, '']\nc:\n-\n- x\n", "{a: ~, b: [~, \"\"], c: [~, x]}"},
      {"a: |\n  one\n  two\n", "{a: \"one\\u000atwo\\u000a\"}"},
      {"a: \"q\\\"\\\\\\t\\x7f\\u0085\\U0001F600\"\n",
       "{a: \"q\\\"\\\\\\u0009\\u007f\\u0085\\U0001f600\"}"},
      {"'a b': 1\n' x': 2\n'- y': 3\n'-': 4\n'z: q': 5\n'>f': 6\n",
       "{a b: 1, \" x\": 2, \"- y\": 3, \"-\": 4, \"z: q\": 5, \">f\": 6}"},
      {"a: caf\xc3\xa9\n", "{a: \"caf\\u00e9\"}"},
      {"a: one\n  two\n", "{a: one two}"},
      {" ---\n", "\"---\""},
      {"[]\n", "[]"},
      {"a: {}\n", "{a: {}}"},
      {"a: -1.5e3\nb: 12:30\nc: -x\n", "{a: -1.5e3, b: \"12:30\", c: -x}"},
      {"a: 99%\nb: '99%'\nc: 5\tms\nd: 5\n  ms\ne: 50..90% step 10 %\n",
       "{a: 99%, b: \"99%\", c: 5\tms, d: 5 ms, e: 50..90% step 10 %}"},
      {"'%k': \"x\\t\"\nb: 1e3\nc: 007\nd: .5\ne: 2026-05\nf: +3\n",
       "{\"%k\": \"x\\u0009\", b: 1e3, c: 007, d: .5, e: 2026-05, f: +3}"},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    const Node *root = parse(CASES[i].text);
    cr_assert_not_null(root, "'%s' is refused", CASES[i].text);
    cr_assert_str_eq(node_text(root, &arena), CASES[i].canonical);
    const Node *again = parse(CASES[i].canonical);
    cr_assert_not_null(again, "'%s' is refused", CASES[i].canonical);
    cr_assert_str_eq(node_text(again, &arena), CASES[i].canonical);
  }
}

Test(yaml, a_copy_is_changed_alone) {
  Node *root = parse("a: {b: [1, 2]}\nc: 3\n");
  Node *copy = node_copy(root, &arena);
  cr_assert_str_eq(node_text(copy, &arena), "{a: {b: [1, 2]}, c: 3}");
  cr_assert_eq(yaml_set(copy, "a.b=4", &arena, &diag), 0);
  cr_assert_str_eq(node_text(copy, &arena), "{a: {b: 4}, c: 3}");
  cr_assert_str_eq(node_text(root, &arena), "{a: {b: [1, 2]}, c: 3}");
}

Test(yaml, a_node_set_by_its_path_stands_where_it_is_said_to) {
  Node *root = parse("a: {b: 1}\nv: [x, y]\n");
  const Node *value = node_find(root, "v");
  const Place at = {.path = "axes.yaml", .line = 7, .column = 3};
  cr_assert_eq(node_set(root, "a.c.d", at, value, &arena, &diag), 0);
  cr_assert_eq(node_set(root, "a.b", at, value->first, &arena, &diag), 0);
  cr_assert_str_eq(node_text(root, &arena), "{a: {b: x, c: {d: [x, y]}}, v: [x, y]}");
  const Node *made = node_find(node_find(root, "a"), "c");
  cr_assert_eq(made->key_at.line, 7);
  cr_assert_neq(node_find(made, "d")->first, value->first);
  cr_assert_eq(node_set(root, "a.b.c", at, value, &arena, &diag), -1);
  cr_assert_str_eq(diag.entries[0].message, "'c' cannot be set inside the value 'x'");
  cr_assert_str_eq(diag.entries[0].at.path, "axes.yaml");
}

Test(yaml, a_child_is_taken_out) {
  static const char *const KEYS[] = {"a", "b", "c"};
  static const char *const LEFT[] = {"{b: 2, c: 3}", "{a: 1, c: 3}", "{a: 1, b: 2}"};
  for (int i = 0; i < 3; i++) {
    Node *root = parse("a: 1\nb: 2\nc: 3\n");
    cr_assert_str_eq(node_take(root, KEYS[i])->key, KEYS[i]);
    cr_assert_str_eq(node_text(root, &arena), LEFT[i]);
    cr_assert_eq(root->n_children, 2);
    cr_assert_null(node_take(root, KEYS[i]));
  }
}
