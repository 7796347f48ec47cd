# A figure of each design as bars, a panel for each figure, with 95% intervals and limits.
# $series<i>: panel, mean, half of the interval; $marks: panel, limit.
# An interval ends at 0 where the figure cannot be negative, and at 1 where it is a share.
least(mean, half) = mean >= 0 && mean < half ? 0 : mean - half
greatest(mean, half, p) = value(sprintf('metric%d_is_share', p)) && mean <= 1 && mean + half > 1 \
  ? 1 : mean + half
array LOW[n_metrics] # 0 but for negative ones
array HIGH[n_metrics]
array LIMIT[n_metrics]
words_shown = ''
do for [p = 1:n_metrics] {
  LOW[p] = 0
  HIGH[p] = -1e300
  LIMIT[p] = NaN
  do for [i = 1:n_series] {
    stats sprintf('$series%d', i) using ($1 == p && valid(2) ? 1 : 0) nooutput name 'ANY'
    if (ANY_max > 0) {
      stats sprintf('$series%d', i) using ($1 == p ? greatest($2, valid(3) ? $3 : 0, p) : NaN) \
        nooutput name 'Y'
      if (Y_max > HIGH[p]) { HIGH[p] = Y_max }
      stats sprintf('$series%d', i) using ($1 == p ? least($2, valid(3) ? $3 : 0) : NaN) \
        nooutput name 'Y'
      if (Y_min < LOW[p] && Y_min < 0) { LOW[p] = Y_min }
    }
  }
  if (HIGH[p] > -1e300) { words_shown = words_shown . sprintf(' %d', p) }
}
if (n_marks > 0) {
  do for [k = 1:n_marks] { LIMIT[int(word($marks[k], 1))] = real(word($marks[k], 2)) }
}
cap = inline ? 30 : 48
names_of = 'name'
n_names = n_series
load 'plots/names.gp'
panels = words(words_shown)
columns = panels > 1 ? 3 : 1
BAR = 24
cell = 80 + BAR * n_series
left = 16 + widest * (inline ? 8.0 : 7.0)
if (!inline && columns == 3 && left > 170) { columns = 1 }
right = 20
entries = 0
legend = 'boxes'
load 'plots/style.gp'
set multiplot
set style fill solid noborder
set errorbars 0.6
set yrange [-n_series - 0.5:-0.5]
unset grid
set grid xtics linecolor rgb GRID linetype 1 dashtype 1 linewidth 0.6
set border 1
do for [panel = 1:panels] {
  p = int(word(words_shown, panel))
  load 'plots/panel.gp'
  set ytics scale 0 (LABEL[1] -1)
  if (n_series > 1) {
    do for [i = 2:n_series] { set ytics add (LABEL[i] -i) }
  }
  top = HIGH[p] > 0 ? HIGH[p] : LOW[p] < 0 ? 0 : 1
  limited = LIMIT[p] == LIMIT[p]
  if (limited && LIMIT[p] > top) { top = LIMIT[p] }
  room = top - LOW[p]
  set xrange [LOW[p] < 0 ? LOW[p] - 0.05 * room : 0:top + 0.3 * room] # numbers too
  set xlabel value(sprintf('metric%d', p)) offset 0, 0.4
  if (limited) {
    set arrow 900 from first LIMIT[p], graph 0 to first LIMIT[p], graph 1 nohead front dashtype 2 \
      linecolor rgb INK linewidth 1.2
    set label 900 'limit' at first LIMIT[p], graph 1 right offset -0.4, 0.6 textcolor rgb MUTED \
      font sprintf(',%d', SMALL)
  }
  plot for [i = 1:n_series] sprintf('$series%d', i) using (0):(-i):(0):($1 == p ? $2 : NaN): \
         (-i - 0.32):(-i + 0.32) with boxxyerror linecolor rgb COLOUR[1] fillstyle solid 0.65 \
         notitle, \
       for [i = 1:n_series] sprintf('$series%d', i) using ($1 == p && valid(3) ? $2 : NaN):(-i): \
         (least($2, $3)):(greatest($2, $3, p)) with xerrorbars \
         linecolor rgb INK linewidth 1 dashtype 1 pointtype 0 notitle, \
       for [i = 1:n_series] sprintf('$series%d', i) using ($1 == p ? top + 0.06 * room : NaN): \
         (-i): \
         (sprintf('%.3g', $2)) with labels left textcolor rgb INK notitle
}
unset multiplot
