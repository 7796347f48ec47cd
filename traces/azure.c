/* The Azure LLM inference traces of 2023, 2024 and 2025 (github.com/Azure/AzurePublicDataset):
 *
 *     TIMESTAMP,ContextTokens,GeneratedTokens
 *     2023-11-16 18:15:46.6805900,374,44
 *
 * Times are wall-clock with up to 7 decimals; the files of 2024 add an offset from UTC (+00:00),
 * that of 2025 a column NumImages, whose tokens ContextTokens has. */
#include "traces/format.h"

const TraceFormat format_azure = {
    .name = "azure",
    .help = "Azure LLM inference traces 2023, 2024 and 2025, CSV",
    .forms = TRACE_TABLE,
    .columns = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"},
    .clock = CLOCK_ISO,
};
