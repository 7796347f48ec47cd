# The largest rate over what the cluster costs, a curve for each design, bars for the range over the
# seeds. $series<i>: $/h, mean rate, lowest, highest.
panels = 1
columns = 1
cell = inline ? 340 : 440
left = 64
right = 24
entries = n_series
legend = 'lines'
titled = 1
note = 'bars: from the lowest to the highest seed'
load 'plots/style.gp'
panel = 1
load 'plots/panel.gp'
set xlabel 'cost, $/h' offset 0, 0.4
set title 'largest rate, requests/s' offset 0, -0.6
low = 1e300
high = -1e300
do for [i = 1:n_series] {
  stats sprintf('$series%d', i) using 1 nooutput name 'COST'
  if (COST_min < low) { low = COST_min }
  if (COST_max > high) { high = COST_max }
}
if (low == high) { set xrange [0.9 * low:1.1 * high + (high == 0)] }
set yrange [0:*]
set errorbars 0.6
set offsets graph 0.04, graph 0.04, graph 0.06, 0
plot for [i = 1:n_series] sprintf('$series%d', i) using 1:2:3:4 with yerrorbars linetype i \
       pointtype 0 dashtype 1 linewidth 0.9 notitle, \
     for [i = 1:n_series] sprintf('$series%d', i) using 1:2 with lines linetype i notitle, \
     for [i = 1:n_series] sprintf('$series%d', i) using 1:2 with points linetype i notitle
