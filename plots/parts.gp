# Where the time of a request goes: stacked bars of each design, before the first token and after
# it. $series<i>: panel, kind of part (parts.sql), from, until, in seconds.
cap = inline ? 24 : 40
names_of = 'name'
n_names = n_series
load 'plots/names.gp'
array ROW[n_series]
do for [i = 1:n_series] { ROW[i] = LABEL[i] }
panels = 2
columns = 2
cell = 96 + 26 * n_series
left = 16 + widest * (inline ? 8.0 : 7.0)
right = 70
name1 = 'waiting for prefill'
name2 = 'prefill'
name3 = 'other requests in its prefills'
name4 = 'KV moved, dropped or awaited'
name5 = 'decode'
name6 = 'other requests in its decodes'
entries = 6
legend = 'boxes'
titled = 1
note = 'means of all served requests, at the load that was asked'
load 'plots/style.gp'
set linetype 6 linecolor rgb COLOUR[7] # a blue that is unlike the first one, on dark pages too
array HIGH[2]
array UNTIL[2 * n_series]
do for [panel = 1:2] {
  HIGH[panel] = 0
  do for [i = 1:n_series] {
    stats sprintf('$series%d', i) using ($1 == panel ? $4 : 0) nooutput name 'END'
    UNTIL[(panel - 1) * n_series + i] = END_max
    if (END_max > HIGH[panel]) { HIGH[panel] = END_max }
  }
  if (HIGH[panel] <= 0) { HIGH[panel] = 1 }
}
set multiplot
set border 1
unset grid
set grid xtics linecolor rgb GRID linetype 1 dashtype 1 linewidth 0.6
set yrange [-n_series - 0.5:-0.5]
do for [panel = 1:2] {
  load 'plots/panel.gp'
  scale = HIGH[panel] < 1 ? 1000 : 1
  set ytics scale 0 (ROW[1] -1)
  if (n_series > 1) { do for [i = 2:n_series] { set ytics add (ROW[i] -i) } }
  set xrange [0:1.02 * scale * HIGH[panel]]
  set xtics step(1.02 * scale * HIGH[panel])
  set title panel == 1 ? 'time to the first token' : 'time after the first token' offset 0, -0.6
  set xlabel scale == 1 ? 's' : 'ms' offset 0, 0.4
  do for [i = 1:n_series] {
    end = UNTIL[(panel - 1) * n_series + i]
    set label 100 + i end > 0 ? sprintf('%.4g', scale * end) : '' \
      at graph 1, first -i left offset 0.8, 0 textcolor rgb INK
  }
  plot for [i = 1:n_series] sprintf('$series%d', i) \
    using (0):($1 == panel ? -i : NaN):(scale * $3):($1 == panel ? scale * $4 : NaN): \
    (-i - 0.32):(-i + 0.32):2 \
    with boxxyerror linecolor variable fillstyle solid 0.8 noborder notitle
}
unset multiplot
