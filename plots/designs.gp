# What each design of a study comes to, and the margin that it leaves. $series<i>: mean over the
# seeds, lowest, highest, half of the 95% interval, margin in percent and of which limit
# (designs.sql); $marks: which objective.
array OBJECTIVE[6] = ['cost, $/h', 'power, kW', 'machines', 'largest rate, requests/s', \
  'instances', 'GPUs']
array LIMIT[5] = ['', 'TTFT', 'TPOT', 'E2E', 'TBT']
high = 0
widest_margin = -1
do for [i = 1:n_series] {
  stats sprintf('$series%d', i) using 3 nooutput name 'HIGHEST'
  if (HIGHEST_max > high) { high = HIGHEST_max }
  stats sprintf('$series%d', i) using (valid(5) ? 1 : 0) nooutput name 'ANY'
  if (ANY_max > 0) { widest_margin = 1 }
}
if (high <= 0) { high = 1 }
panels = widest_margin > 0 ? 2 : 1
columns = 2
cell = 84 + 26 * n_series
cap = inline ? 30 : 48
names_of = 'name'
n_names = n_series
load 'plots/names.gp'
left = 16 + widest * (inline ? 8.0 : 7.0)
right = 20
entries = 0
legend = 'boxes'
titled = 0
note = panels == 2 ? 'lines: from the lowest to the highest seed; margin: share of the tightest ' \
  . 'limit that is left' : 'lines: from the lowest to the highest seed'
load 'plots/style.gp'
set multiplot
set border 1
unset grid
set grid xtics linecolor rgb GRID linetype 1 dashtype 1 linewidth 0.6
set yrange [-n_series - 0.5:-0.5]
set errorbars 0.6
do for [panel = 1:panels] {
  load 'plots/panel.gp'
  set ytics scale 0 (LABEL[1] -1)
  if (n_series > 1) { do for [i = 2:n_series] { set ytics add (LABEL[i] -i) } }
  if (panel == 1) {
    set xrange [0:1.25 * high] # with room for the numbers
    set xlabel OBJECTIVE[int(word($marks[1], 1))] offset 0, 0.4
    plot for [i = 1:n_series] sprintf('$series%d', i) using (0):(-i):(0):1:(-i - 0.32): \
           (-i + 0.32) with boxxyerror linecolor rgb COLOUR[1] fillstyle solid 0.65 noborder \
           notitle, \
         for [i = 1:n_series] sprintf('$series%d', i) using 1:(-i):2:3 with xerrorbars \
           linecolor rgb INK linewidth 1 dashtype 1 pointtype 0 notitle, \
         for [i = 1:n_series] sprintf('$series%d', i) using (1.04 * high):(-i): \
           (sprintf('%.4g', $1)) with labels left textcolor rgb INK notitle
  } else {
    set xrange [0:135]
    set xtics 25 rangelimited (0, 25, 50, 75, 100)
    set xlabel 'margin of the tightest limit, %' offset 0, 0.4
    plot for [i = 1:n_series] sprintf('$series%d', i) using (0):(-i):(0): \
           ($5 < 0 ? 0 : $5 > 100 ? 100 : $5):(-i - 0.32):(-i + 0.32) with boxxyerror \
           linecolor rgb COLOUR[3] fillstyle solid 0.65 noborder notitle, \
         for [i = 1:n_series] sprintf('$series%d', i) using (102):(-i): \
           (valid(5) ? sprintf('%.0f%% %s', $5, LIMIT[1 + int($6)]) : '') with labels left \
           textcolor rgb INK notitle
  }
}
unset multiplot
