# What each design of a study comes to. $series<i>: mean over the seeds, lowest, highest, half of
# the 95% interval; $marks: which objective.
array OBJECTIVE[4] = ['cost, $/h', 'power, kW', 'machines', 'largest rate, requests/s']
panels = 1
columns = 1
cell = 84 + 26 * n_series
high = 0
do for [i = 1:n_series] {
  stats sprintf('$series%d', i) using 3 nooutput name 'HIGHEST'
  if (HIGHEST_max > high) { high = HIGHEST_max }
}
if (high <= 0) { high = 1 }
cap = inline ? 30 : 48
names_of = 'name'
n_names = n_series
load 'plots/names.gp'
left = 16 + widest * (inline ? 8.0 : 7.0)
right = 20
entries = 0
legend = 'boxes'
note = 'lines: from the lowest to the highest seed'
load 'plots/style.gp'
panel = 1
load 'plots/panel.gp'
set border 1
unset grid
set grid xtics linecolor rgb GRID linetype 1 dashtype 1 linewidth 0.6
set ytics scale 0 (LABEL[1] -1)
if (n_series > 1) {
  do for [i = 2:n_series] { set ytics add (LABEL[i] -i) }
}
set xrange [0:1.25 * high] # with room for the numbers
set yrange [-n_series - 0.5:-0.5]
set xlabel OBJECTIVE[int(word($marks[1], 1))] offset 0, 0.4
set errorbars 0.6
plot for [i = 1:n_series] sprintf('$series%d', i) using (0):(-i):(0):1:(-i - 0.32):(-i + 0.32) \
       with boxxyerror linecolor rgb COLOUR[1] fillstyle solid 0.65 noborder notitle, \
     for [i = 1:n_series] sprintf('$series%d', i) using 1:(-i):2:3 with xerrorbars \
       linecolor rgb INK linewidth 1 dashtype 1 pointtype 0 notitle, \
     for [i = 1:n_series] sprintf('$series%d', i) using (1.04 * high):(-i):(sprintf('%.4g', $1)) \
       with labels left textcolor rgb INK notitle
