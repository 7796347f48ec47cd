/* See proposal.h. */
#include "sim/proposal/proposal.h"

#define PROPOSAL(name) extern const Proposal proposal_##name;
#include "sim/proposal/proposals.def"
#undef PROPOSAL

#define PROPOSAL(name) &proposal_##name,
static const Proposal *const proposals[] = {
#include "sim/proposal/proposals.def"
    NULL};

const Proposal *const *proposal_list(void) {
  return proposals;
}

static const Proposal *given;

void proposal_give(const Proposal *proposal) {
  given = proposal;
}

static const Proposal *find(const char *name, Place at, Diag *diag) {
  enum { N = sizeof proposals / sizeof *proposals };
  const char *names[N] = {NULL};
  if (given && strcmp(given->policy.name, name) == 0) return given;
  for (int i = 0; proposals[i]; i++) {
    if (strcmp(proposals[i]->policy.name, name) == 0) return proposals[i];
    names[i] = proposals[i]->policy.name;
  }
  diag_error(diag, at, "unknown proposal '%s'", name);
  diag_hint_choices(diag, name, names, "tandem list proposals");
  return NULL;
}

int proposal_bind(ProposalChoice *self, const Node *node, Arena *arena, Diag *diag) {
  static const OptionSpec name_spec = {.key = "name", .type = OPTION_STRING};
  static const char *const own_keys[] = {"name", NULL};
  *self = (ProposalChoice){0};
  if (!node) return 0;
  const bool map = node->kind == NODE_MAP;
  const Node *name_node = map ? node_find(node, "name") : node;
  const char *name;
  if (!name_node) return diag_error(diag, node->at, "'proposal' needs a 'name'");
  if (option_bind_one(&name_spec, name_node, &name, diag)) return -1;
  const Proposal *proposal = find(name, name_node->at, diag);
  if (!proposal) return -1;
  void *options = arena_alloc(arena, proposal->policy.state_size);
  static const OptionSpec no_options[] = {{0}};
  const OptionSpec *specs = proposal->policy.options ? proposal->policy.options : no_options;
  if (option_bind(specs, map ? node : NULL, own_keys, name_node->at, options, diag)) return -1;
  *self = (ProposalChoice){proposal, options};
  return 0;
}
