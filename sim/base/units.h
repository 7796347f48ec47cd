/* Quantities: simulated time, and text with units.
 *
 * Simulated time is an int64_t count of picoseconds (106 days). tick_from_seconds is the one place
 * where a double becomes a Tick; it rounds to nearest, halves away from zero. Text is a number,
 * optional white space and a unit: "200 Gbps", "80 GiB", "120 s", "70 /s", "8192". Decimal prefixes
 * k M G T are powers of 1000, binary ones Ki Mi Gi Ti of 1024; a network rate in bits per second
 * (bps) is divided by eight. */
#ifndef SIM_BASE_UNITS_H
#define SIM_BASE_UNITS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int64_t Tick;

#define TICKS_PER_SECOND INT64_C(1000000000000)
#define TICK_MAX         INT64_MAX

/* `seconds` must be finite and within ±9.2e6 (asserted). */
Tick tick_from_seconds(double seconds);
static inline double tick_seconds(Tick ticks) {
  return (double)ticks / (double)TICKS_PER_SECOND;
}

typedef enum Dimension {
  DIM_NONE,      // a bare number; k, M, G suffixes and % allowed
  DIM_TIME,      // ps ns us ms s min h d; value in seconds
  DIM_BYTES,     // B kB MB GB TB KiB MiB GiB TiB; value in bytes
  DIM_BANDWIDTH, // B/s … TB/s, KiB/s … TiB/s, bps … Tbps; value in bytes per second
  DIM_RATE,      // /s /min /h; value per second
  DIM_POWER,     // W kW; value in watts
  DIM_MONEY,     // $/h; value in dollars per hour
} Dimension;

/* Reads all of `text`. True and `*ret_value` in the dimension's base unit; false, `*ret_value`
 * untouched, when the text is not a number, has trailing characters, or its unit is missing or of
 * another dimension. Only DIM_NONE may go without a unit. */
bool units_parse(const char *text, Dimension dimension, double *ret_value);
/* What a message calls the dimension, with an example: "a time such as '120 s'". */
const char *units_describe(Dimension dimension);
/* A short human form of `value` in the dimension: "1.5 ms", "80 GiB", "25 GB/s". Writes at most
 * `size`. */
void units_format(char *out, size_t size, Dimension dimension, double value);
#endif
