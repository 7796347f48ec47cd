# Hour by hour. $series<i>: hour, requests/s, instances on, of those down, share of requests that
# were not good; $marks: the share that may not be.
array TITLE[4] = ['requests/s', 'instances on', 'requests that were not good, %', 'instances down']
array COLUMN[4] = [2, 3, 5, 4]
array FACTOR[4] = [1, 1, 100, 1]
array HIGH[4]
words_shown = ''
limit = n_marks > 0 ? 100 * real(word($marks[1], 1)) : NaN
end = 0
do for [k = 1:4] {
  HIGH[k] = 0
  do for [i = 1:n_series] {
    stats sprintf('$series%d', i) using (valid(COLUMN[k]) ? FACTOR[k] * column(COLUMN[k]) : 0) \
      nooutput name 'Y'
    if (Y_max > HIGH[k]) { HIGH[k] = Y_max }
    stats sprintf('$series%d', i) using 1 nooutput name 'TIME'
    if (TIME_max + 1 > end) { end = TIME_max + 1 }
  }
  if (k == 3 && limit > HIGH[k]) { HIGH[k] = limit }
  if (HIGH[k] > 0) { words_shown = words_shown . sprintf(' %d', k) }
}
panels = words(words_shown)
columns = 1
cell = inline ? 190 : 160
left = 64
right = 20
entries = n_series > 1 ? n_series : 0
legend = 'lines'
load 'plots/style.gp'
set multiplot
days = end > 48
set xrange [0:days ? end / 24.0 : end]
do for [panel = 1:panels] {
  k = int(word(words_shown, panel))
  load 'plots/panel.gp'
  set yrange [0:1.08 * HIGH[k]]
  set ytics step(1.08 * HIGH[k])
  set title TITLE[k] offset 0, -0.6
  set xlabel panel == panels ? (days ? 'days' : 'hours') : '' offset 0, 0.4
  hour(x) = days ? x / 24.0 : x
  shown = k == 1 ? 1 : n_series # all are asked for the same, or nearly
  plot for [i = 1:shown] sprintf('$series%d', i) \
         using (hour($1)):(FACTOR[k] * column(COLUMN[k])) \
         with steps linetype (k == 1 && n_series > 1 ? 8 : i) linewidth 1.3 dashtype 1 notitle, \
       for [i = 1:shown] sprintf('$series%d', i) \
         using (hour($1)):(FACTOR[k] * column(COLUMN[k])):(hour(1)):(0) with vectors nohead \
         linetype (k == 1 && n_series > 1 ? 8 : i) linewidth 1.3 dashtype 1 notitle, \
       (k == 3 ? limit : NaN) with lines linecolor rgb MUTED linewidth 1 dashtype 2 notitle
}
unset multiplot
