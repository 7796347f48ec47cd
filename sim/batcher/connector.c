/* See connector.h. Names and roles as in vLLM's `kv_transfer_config`. */
#include "sim/batcher/connector.h"
#include "sim/batcher/batcher.h"

static const char *const names[] = {
    [CONNECTOR_OFFLOADING - 1] = "offloading", [CONNECTOR_NIXL - 1] = "nixl", NULL};
static const char *const roles[] = {[CONNECTOR_BOTH] = "kv_both",
                                    [CONNECTOR_PRODUCER] = "kv_producer",
                                    [CONNECTOR_CONSUMER] = "kv_consumer",
                                    NULL};

typedef struct Written {
  int name, kv_role;
  int64_t cpu_bytes_to_use;
  Tick overhead;
} Written;

static const OptionSpec options[] = {
    OPTION_OF(Written, name, OPTION_CHOICE, .required = true, .choices = names,
              .help = "offloading stores the KV of prompts in CPU memory and loads it from there; "
                      "nixl moves KV from and to instances that are not part of the simulation."),
    OPTION_OF(Written, kv_role, OPTION_CHOICE, .fallback = "kv_both", .choices = roles,
              .help = "What nixl does: kv_consumer and kv_both load the KV of every prompt, "
                      "kv_producer sends it after the first token."),
    OPTION_OF(Written, cpu_bytes_to_use, OPTION_BYTES, .max = 1e15,
              .absent = "required of offloading",
              .help = "CPU memory of an instance for the KV that offloading stores."),
    OPTION_OF(Written, overhead, OPTION_TICKS, .fallback = "0 s", .max = 10,
              .help = "Time that nixl adds to each transfer, beside that of its bytes on the "
                      "machine's network link."),
    {0},
};

int connector_bind(ConnectorOptions *self, const Node *map, Place owner, Diag *diag) {
  Written written = {0};
  *self = (ConnectorOptions){.kind = CONNECTOR_NONE};
  if (!map) return 0;
  if (option_bind(options, map, NULL, owner, &written, diag)) return -1;
  const ConnectorKind kind = (ConnectorKind)(written.name + 1);
  if (kind == CONNECTOR_OFFLOADING && written.cpu_bytes_to_use == 0)
    return diag_error(diag, map->at, "'cpu_bytes_to_use' is needed with name: offloading");
  if (kind == CONNECTOR_OFFLOADING && written.kv_role != CONNECTOR_BOTH)
    return diag_error(diag, map->at, "'kv_role' of offloading must be kv_both");
  *self = (ConnectorOptions){.kind = kind,
                             .role = (ConnectorRole)written.kv_role,
                             .cpu_bytes = written.cpu_bytes_to_use,
                             .overhead = written.overhead};
  return 0;
}
