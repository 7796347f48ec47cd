/* The version, and the commit that the build found. */
#include "experiments/base/version.h"
#include "experiments/commit.h"

const char tandem_version[] = TANDEM_VERSION;
const char tandem_commit[] = TANDEM_COMMIT;
