# Metrics over an axis, a panel for each, a curve for each design with 95% intervals, and limits.
# $series<i>: panel, x, mean, half of the interval; $marks: panel, -, limit.
# An interval ends at 0 where the figure cannot be negative, and at 1 where it is a share.
lower(mean, half) = mean >= 0 && mean < half ? 0 : mean - half
upper(mean, half, p) = value(sprintf('metric%d_is_share', p)) && mean <= 1 && mean + half > 1 \
  ? 1 : mean + half
array LOW[n_metrics]
array HIGH[n_metrics]
array LIMIT[n_metrics]
words_shown = ''
note = ''
do for [p = 1:n_metrics] {
  LOW[p] = 1e300
  HIGH[p] = -1e300
  LIMIT[p] = NaN
  do for [i = 1:n_series] {
    stats sprintf('$series%d', i) using ($1 == p && valid(3) ? 1 : 0) nooutput name 'ANY'
    if (ANY_max > 0) {
      stats sprintf('$series%d', i) using ($1 == p ? $3 : NaN) nooutput name 'Y'
      if (Y_max > HIGH[p]) { HIGH[p] = Y_max }
      if (Y_min < LOW[p]) { LOW[p] = Y_min }
    }
  }
  if (HIGH[p] > -1e300) { words_shown = words_shown . sprintf(' %d', p) } else {
    note = note . (strlen(note) ? ', ' : 'without a finite value: ') . value(sprintf('metric%d', p))
  }
}
if (n_marks > 0) {
  do for [k = 1:n_marks] { LIMIT[int(word($marks[k], 1))] = real(word($marks[k], 3)) }
}
low_x = 1e300
high_x = -1e300
widest = 1
do for [i = 1:n_series] {
  stats sprintf('$series%d', i) using 2 nooutput name 'X'
  if (X_min < low_x) { low_x = X_min }
  if (X_max > high_x) { high_x = X_max }
  n = strlen(value(sprintf('name%d', i)))
  if (n > widest) { widest = n }
}
panels = words(words_shown)
columns = panels > 4 ? 3 : panels > 1 ? 2 : 1
cell = panels > 4 ? 240 : panels > 1 ? 300 : inline ? 330 : 440
direct = panels == 1 && n_series <= 7 && n_series > 1 && widest <= 24
# Axes hold all there is, limits too; from 1 to over 50 they are logarithmic.
least(p) = LIMIT[p] == LIMIT[p] && LIMIT[p] < LOW[p] ? LIMIT[p] : LOW[p]
most(p) = LIMIT[p] == LIMIT[p] && LIMIT[p] > HIGH[p] ? LIMIT[p] : HIGH[p]
is_log(p) = least(p) > 0 && most(p) > 50 * least(p)
if (direct) { # unless a curve ends before the others
  p = int(word(words_shown, 1))
  do for [i = 1:n_series] {
    stats sprintf('$series%d', i) using ($1 == p && valid(3) ? $2 : -1e300) nooutput name 'X'
    if (X_max < high_x) { direct = 0 }
  }
}
if (direct) {
  top = 1.06 * most(p)
  array END[n_series]
  do for [i = 1:n_series] {
    stats sprintf('$series%d', i) using ($1 == p && $2 == high_x ? $3 : NaN) nooutput name 'Y'
    END[i] = is_log(p) ? log(Y_max / least(p) * 1.3) / log(most(p) / least(p) * 1.69) : Y_max / top
  }
}
left = 64
right = direct ? 14 + widest * (inline ? 8.4 : 7.4) : 18
entries = direct || n_series == 1 && !strlen(name1) ? 0 : n_series
legend = 'lines'
titled = 1
load 'plots/style.gp'
set multiplot
margin = high_x > low_x ? 0.02 * (high_x - low_x) : 1
set xrange [low_x - margin:high_x + margin]
set errorbars 0
set xlabel x_label offset 0, 0.4
do for [panel = 1:panels] {
  p = int(word(words_shown, panel))
  load 'plots/panel.gp'
  limited = LIMIT[p] == LIMIT[p]
  unset logscale y
  set ytics autofreq
  if (is_log(p)) {
    eval set_log('y', least(p), most(p))
    set yrange [least(p) / 1.3:most(p) * 1.3]
  } else {
    set yrange [LOW[p] < 0 ? 1.06 * LOW[p] : 0:most(p) > 0 ? 1.06 * most(p) : 1]
    if (limited && most(p) > 0) { set ytics step(1.06 * most(p)) }
  }
  if (direct) {
    load 'plots/ends.gp'
  }
  set title value(sprintf('metric%d', p)) offset 0, -0.6
  if (limited) {
    set arrow 900 from graph 0, first LIMIT[p] to graph 1, first LIMIT[p] nohead dashtype 2 \
      linecolor rgb MUTED linewidth 1.4
    set label 900 'limit' at graph 0.01, first LIMIT[p] left offset 0, 0.5 textcolor rgb MUTED \
      font sprintf(',%d', SMALL)
  }
  plot for [i = 1:n_series] sprintf('$series%d', i) using ($1 == p ? $2 : NaN):3:(lower($3, $4)): \
         (upper($3, $4, p)) with yerrorbars linetype i pointtype 0 dashtype 1 \
         linewidth 0.8 notitle, \
       for [i = 1:n_series] sprintf('$series%d', i) using ($1 == p ? $2 : NaN):3 \
         with lines linetype i notitle, \
       for [i = 1:n_series] sprintf('$series%d', i) using ($1 == p ? $2 : NaN):3 \
         with points linetype i notitle
}
unset multiplot
