/* vLLM's scheduler as it is: a name for the baseline of a sweep over proposals, and the least that
 * a new file of this folder has. */
#include "sim/proposal/proposal.h"

const Proposal proposal_none = {
    .policy = {.name = "none", .help = "Changes nothing."},
};
