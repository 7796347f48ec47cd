/* The next value of a series, by an autoregressive model of its values or of their differences.
 *
 *   y'(t) = c + a1·y'(t − 1) + … + ap·y'(t − p),  p <= 2,  y' = y, or y(t) − y(t − 1) without c
 *
 * All models are fitted by least squares to the same values, those from the third on, and the one
 * with the least AIC = m·ln(RSS / m) + 2·(parameters + 1) predicts (Box & Jenkins' ARIMA(p, d, 0);
 * Hyndman & Athanasopoulos, Forecasting: Principles and Practice, §9). A model needs at least two
 * values more than it has parameters; with fewer than five values the last one comes again. */
#ifndef SIM_SCALING_ARIMA_H
#define SIM_SCALING_ARIMA_H
#include "base/arena.h"

enum { SERIES_MOST = 512 };

/* The last SERIES_MOST values. */
typedef struct Arima {
  double *values; // [SERIES_MOST]
  int n;
} Arima;

void arima_init(Arima *self, Arena *arena);
/* Zeros before the first other value are no part of the series. */
void arima_add(Arima *self, double value);
double arima_last(const Arima *self);
double arima_next(const Arima *self);
#endif
