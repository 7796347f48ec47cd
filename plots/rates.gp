# Splitwise Fig. 16: the nine slowdowns over the arrival rate, a curve for each design, with their
# limits. $series<i>: rate, then TTFT, TBT and E2E at P50, P90 and P99.
width = inline ? 560 : 1100
height = inline ? 560 : 760
load 'plots/style.gp'
array LIMIT = [2, 3, 6, 1.25, 1.5, 5, 1.25, 1.5, 5]
array TITLE = ['TTFT P50', 'TTFT P90', 'TTFT P99', 'TBT P50', 'TBT P90', 'TBT P99', \
  'E2E P50', 'E2E P90', 'E2E P99']
set multiplot layout 3,3 margins 0.05, 0.80, 0.08, 0.96 spacing 0.055, 0.085
set grid
do for [panel = 1:9] {
  set title TITLE[panel] offset 0, -0.6
  if (panel > 6) { set xlabel 'requests/s' } else { unset xlabel }
  if (panel == 3) { set key at screen 0.99, screen 0.96 right top } else { unset key }
  set yrange [0:2.2 * LIMIT[panel]]
  plot LIMIT[panel] title 'limit' linecolor rgb '#888888' dashtype 2, \
       for [i = 1:n_series] sprintf('$series%d', i) using 1:(column(panel + 1)) with linespoints \
         pointtype i linecolor i linewidth 1.5 title value(sprintf('name%d', i))
}
unset multiplot
