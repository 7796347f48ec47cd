/* Quantities: simulated time, and text with units.
 *
 * Simulated time is an int64_t count of picoseconds (106 days). tick_from_seconds and
 * fine_from_seconds are the two places where seconds become time; the first rounds to the nearest
 * tick, halves away from zero. Text is a number,
 * optional white space and a unit: "200 Gbps", "80 GiB", "120 s", "70 /s", "8192". Decimal prefixes
 * k M G T are powers of 1000, binary ones Ki Mi Gi Ti of 1024; a network rate in bits per second
 * (bps) is divided by eight. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int64_t Tick;

#define TICKS_PER_SECOND INT64_C(1000000000000)
#define TICK_MAX         INT64_MAX

/* `seconds` must be finite and within ±9.2e6 (asserted). What is left of a whole number is exact,
 * so that it can be compared with a half: a call of llround costs more than the rest. */
static inline Tick tick_from_seconds(double seconds) {
  const double ticks = seconds * (double)TICKS_PER_SECOND;
  assert(seconds >= -9.2e6 && seconds <= 9.2e6);
  const Tick whole = (Tick)ticks;
  const double rest = ticks - (double)whole;
  return whole + (rest >= 0.5) - (rest <= -0.5);
}
static inline double tick_seconds(Tick ticks) {
  return (double)ticks / (double)TICKS_PER_SECOND;
}

/* Two words, that need be aligned no further than one. */
__extension__ typedef __int128 Wide __attribute__((aligned(8)));

/* Two words as one number, to compare them by the first and then the second. */
static inline Wide wide_of(int64_t high, uint64_t low) {
  __extension__ typedef unsigned __int128 Unsigned;
  return (Wide)((Unsigned)high << 64 | low);
}

/* What machines add up to, in ticks or bytes: a million of them for all of simulated time, which
 * one alone may fill a Tick with. */
typedef Wide Total;

static inline double total_seconds(Total ticks) {
  return (double)ticks / (double)TICKS_PER_SECOND;
}

/* Time in 2^-32 ticks: what a line gives before it is rounded. 95 bits of ticks, so that sums and
 * products fit. */
typedef Wide FineTick;
enum { FINE_BITS = 32 };

static inline FineTick fine_from_ticks(Tick ticks) {
  return (FineTick)ticks * ((FineTick)1 << FINE_BITS);
}
/* Of a count of ticks within a Tick's range that need not be whole; cut off beyond 2^-32. */
static inline FineTick fine_from_real(double ticks) {
  const Tick whole = (Tick)ticks;
  return fine_from_ticks(whole) + (Tick)((ticks - (double)whole) * 4294967296.0);
}
/* Ticks with their fraction. */
static inline double fine_ticks(FineTick fine) {
  return (double)(Tick)(fine >> FINE_BITS) + (double)(uint32_t)fine / 4294967296.0;
}
/* Within the range of tick_from_seconds, asserted. */
static inline FineTick fine_from_seconds(double seconds) {
  assert(seconds >= -9.2e6 && seconds <= 9.2e6);
  return fine_from_real(seconds * (double)TICKS_PER_SECOND);
}
/* fine/n rounded down, as a shift has it, without a division of 128 bits; 0 < n < 2^31. */
static inline FineTick fine_divide(FineTick fine, int64_t n) {
  const Tick whole = (Tick)(fine >> FINE_BITS), below = whole < 0 && whole % n != 0;
  const Tick part = whole / n - below;
  const uint64_t rest = (uint64_t)(whole - part * n) << FINE_BITS | (uint32_t)fine;
  return fine_from_ticks(part) + (FineTick)(rest / (uint64_t)n);
}
/* Halves upwards. */
static inline Tick tick_nearest(FineTick fine) {
  return (Tick)((fine + ((FineTick)1 << (FINE_BITS - 1))) >> FINE_BITS);
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
/* The units of a dimension, "ps, ns, us, …": at most `size`. */
void units_list(char *out, size_t size, Dimension dimension);
/* A short human form of `value` in the dimension: "1.5 ms", "80 GiB", "25 GB/s". Writes at most
 * `size`. */
void units_format(char *out, size_t size, Dimension dimension, double value);
#endif
