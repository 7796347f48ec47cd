# What users see over the arrival rate, a curve for each design, and the share of the time that is
# spent in changing shape. $series<i>: rate, TTFT P50 and P99, E2E P50, TBT P50 and P99, that share.
width = inline ? 560 : 1100
height = inline ? 560 : 760
load 'plots/style.gp'
array TITLE = ['TTFT P50, s', 'TTFT P99, s', 'E2E P50, s', 'TBT P50, s', 'TBT P99, s', \
  'changing shape, % of time']
set multiplot layout 2,3 margins 0.06, 0.76, 0.10, 0.94 spacing 0.06, 0.14
set grid
do for [panel = 1:6] {
  set title TITLE[panel] offset 0, -0.6
  scale = panel == 6 ? 100 : 1
  if (panel > 3) { set xlabel 'requests/s' } else { unset xlabel }
  if (panel == 3) { set key at screen 0.995, screen 0.94 right top } else { unset key }
  if (panel < 6) { set logscale y } else { unset logscale y; set yrange [0:*] }
  plot for [i = 1:n_series] sprintf('$series%d', i) using 1:(scale * column(panel + 1)) \
    with linespoints pointtype i linecolor i linewidth 1.5 title value(sprintf('name%d', i))
}
unset multiplot
