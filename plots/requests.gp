# Requests one by one. $series<i>: prompt tokens, arrival, TTFT and E2E in seconds.
panels = 2
columns = 2
cell = inline ? 300 : 420
left = 64
right = 20
entries = n_series == 1 && !strlen(name1) ? 0 : n_series
legend = 'points'
titled = 1
load 'plots/style.gp'
low_1 = low_2 = 1e300
high_1 = high_2 = -1e300
begin = 1e300
end = -1e300
do for [i = 1:n_series] {
  stats sprintf('$series%d', i) using 3 nooutput name 'T'
  if (T_records > 0 && T_min < low_1) { low_1 = T_min }
  if (T_records > 0 && T_max > high_1) { high_1 = T_max }
  stats sprintf('$series%d', i) using 4 nooutput name 'E'
  if (E_records > 0 && E_min < low_2) { low_2 = E_min }
  if (E_records > 0 && E_max > high_2) { high_2 = E_max }
  stats sprintf('$series%d', i) using 2 nooutput name 'ARRIVAL'
  if (ARRIVAL_min < begin) { begin = ARRIVAL_min }
  if (ARRIVAL_max > end) { end = ARRIVAL_max }
}
set offsets 0, graph 0.03, graph 0.05, 0
set multiplot
set xtics autofreq
panel = 1
load 'plots/panel.gp'
if (low_1 > 0 && high_1 > 20 * low_1) {
  eval set_log('y', low_1, high_1)
  set yrange [low_1 / 1.2:high_1 * 1.2]
} else { set yrange [0:*] }
set xrange [0:*]
set xlabel 'prompt tokens' offset 0, 0.4
set title 'TTFT, s' offset 0, -0.6
plot for [i = 1:n_series] sprintf('$series%d', i) using 1:3 with points linetype i \
  pointsize 0.3 notitle
panel = 2
load 'plots/panel.gp'
unset logscale y
set ytics autofreq
if (low_2 > 0 && high_2 > 20 * low_2) {
  eval set_log('y', low_2, high_2)
  set yrange [low_2 / 1.2:high_2 * 1.2]
} else { set yrange [0:*] }
if (begin > 0.1 * end && begin < end) {
  set xrange [begin - 0.02 * (end - begin):*]
  set format x '%.10g'
} else {
  if (end == 0) { set xrange [0:1] }
}
set xlabel 'arrival, s'
set title 'E2E, s'
plot for [i = 1:n_series] sprintf('$series%d', i) using 2:4 with points linetype i \
  pointsize 0.3 notitle
unset multiplot
