/* The structs of backend.h, field by field. */
#include "calib/protocol.h"
#include "calib/model.h"
#include "calib/operators.h"

static const char *const NORMS[] = {"rms_norm", "layer_norm", NULL};
static const char *const ACTIVATIONS[] = {"swiglu", "gelu", "relu", NULL};
static const char *const POSITIONS[] = {"rope", "alibi", "learned", NULL};
static const char *const ROUTERS[] = {"softmax", "sigmoid", NULL};
static const char *const MODES[] = {"graph", "eager", NULL};

const char *const protocol_statuses[] = {"ok",    "rejected", "environment", "out_of_memory",
                                         "wrong", NULL};
const char *const protocol_calls[] = {
#define X(name) #name,
    PROTOCOL_CALLS(X)
#undef X
        NULL};

/* Rows of the table of `Struct`, where their key and the field are of one name. */
#define FIELD(type_, name_) .name = #name_, .type = PROTOCOL_##type_, .offset = offsetof(OF, name_)
#define TEXT_FIELD(name_)   FIELD(TEXT, name_), .room = sizeof((OF *)NULL)->name_

#define OF ProtocolHello
const ProtocolField protocol_hello[] = {
    {FIELD(INT32, protocol)}, {TEXT_FIELD(name)}, {TEXT_FIELD(help)}, {FIELD(BOOL, whole)}, {0}};
#undef OF

#define OF CalibOptions
const ProtocolField protocol_options[] = {{FIELD(INT32, device)},   {FIELD(INT32, threads)},
                                          {FIELD(UINT64, seed)},    {FIELD(BOOL, verify)},
                                          {FIELD(STRING, choices)}, {0}};
#undef OF

#define OF CalibDevice
const ProtocolField protocol_device[] = {{TEXT_FIELD(name)},
                                         {TEXT_FIELD(gpu)},
                                         {TEXT_FIELD(uuid)},
                                         {TEXT_FIELD(driver)},
                                         {TEXT_FIELD(runtime)},
                                         {TEXT_FIELD(library)},
                                         {FIELD(INT32, sm)},
                                         {FIELD(INT32, n_units)},
                                         {FIELD(INT32, n_devices)},
                                         {FIELD(INT64, memory_bytes)},
                                         {FIELD(INT64, free_bytes)},
                                         {FIELD(INT64, cache_bytes)},
                                         {FIELD(INT32, n_processes)},
                                         {FIELD(SWITCH, ecc)},
                                         {FIELD(SWITCH, mig)},
                                         {FIELD(INT64, ecc_errors)},
                                         {FIELD(INT32, pcie_width)},
                                         {FIELD(INT32, pcie_most)},
                                         {FIELD(NUMBER, sm_clock_most_mhz)},
                                         {TEXT_FIELD(near_cpus)},
                                         {TEXT_FIELD(note)},
                                         {0}};
#undef OF

#define OF CalibModel
const ProtocolField protocol_model[] = {{FIELD(STRING, name)},
                                        {FIELD(STRING, file)},
                                        {FIELD(INT32, num_hidden_layers), .least = 1},
                                        {FIELD(INT32, hidden_size), .least = 1},
                                        {FIELD(INT32, num_attention_heads), .least = 1},
                                        {FIELD(INT32, num_key_value_heads), .least = 1},
                                        {FIELD(INT32, head_dim), .least = 1},
                                        {FIELD(INT32, intermediate_size), .least = 1},
                                        {FIELD(INT32, vocab_size), .least = 1},
                                        {FIELD(INT32, max_position_embeddings), .least = 1},
                                        {FIELD(WORD, norm), .words = NORMS},
                                        {FIELD(WORD, activation), .words = ACTIVATIONS},
                                        {FIELD(WORD, positions), .words = POSITIONS},
                                        {FIELD(BOOL, bias)},
                                        {FIELD(BOOL, qk_norm)},
                                        {FIELD(WORD, dtype), .words = calib_dtype_names},
                                        {FIELD(INT32, tensor_parallel_size), .least = 1},
                                        {FIELD(INT32, block_size), .least = 1},
                                        {FIELD(INT32, num_experts)},
                                        {FIELD(INT32, num_experts_per_tok)},
                                        {FIELD(INT32, moe_intermediate_size)},
                                        {FIELD(WORD, router), .words = ROUTERS},
                                        {FIELD(WORD, weights), .words = calib_weights_names},
                                        {FIELD(WORD, attention), .words = calib_attention_names},
                                        {0}};
#undef OF

/* But for its batch. */
#define OF CalibPoint
const ProtocolField protocol_point[] = {{FIELD(WORD, op), .words = calib_op_names},
                                        {FIELD(WORD, mode), .words = MODES},
                                        {FIELD(BOOL, hot)},
                                        {FIELD(BOOL, busy)},
                                        {FIELD(INT32, layers)},
                                        {FIELD(INT64, size)},
                                        {0}};
#undef OF

#define OF CalibSlice
const ProtocolField protocol_slice[] = {{FIELD(WORD, tensor), .words = calib_tensor_names},
                                        {FIELD(INT32, layer)},
                                        {FIELD(INT32, sequence), .least = CALIB_OF_ROWS},
                                        {FIELD(INT64, row)},
                                        {FIELD(INT64, n_rows), .least = 1},
                                        {0}};
#undef OF

#define OF CalibTelemetry
const ProtocolField protocol_telemetry[] = {{FIELD(NUMBER, sm_clock_mhz)},
                                            {FIELD(NUMBER, mem_clock_mhz)},
                                            {FIELD(NUMBER, temperature_c)},
                                            {FIELD(NUMBER, power_w)},
                                            {FIELD(NUMBER, power_limit_w)},
                                            {FIELD(NUMBER, power_window_s)},
                                            {FIELD(NUMBER, energy_j)},
                                            {FIELD(UINT64, throttle)},
                                            {TEXT_FIELD(algorithm)},
                                            {TEXT_FIELD(attn_kernel)},
                                            {0}};
#undef OF
