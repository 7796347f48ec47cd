# How latencies are distributed, a panel for each, a curve for each run. $series<i>: panel, seconds,
# share up to there; $marks: panel, limit, the share that it is of.
array LOW[n_metrics]
array HIGH[n_metrics]
words_shown = ''
do for [p = 1:n_metrics] {
  LOW[p] = 1e300
  HIGH[p] = -1e300
  do for [i = 1:n_series] {
    stats sprintf('$series%d', i) using ($1 == p ? 1 : 0) nooutput name 'ANY'
    if (ANY_max > 0) {
      stats sprintf('$series%d', i) using ($1 == p ? $2 : NaN) nooutput name 'X'
      if (X_max > HIGH[p]) { HIGH[p] = X_max }
      if (X_min < LOW[p]) { LOW[p] = X_min }
    }
  }
  if (HIGH[p] > -1e300) { words_shown = words_shown . sprintf(' %d', p) }
}
panels = words(words_shown)
columns = panels > 1 ? 3 : 1
cell = inline ? 280 : panels > 1 ? 340 : 440
left = 64
right = 22
entries = n_series == 1 && !strlen(name1) ? 0 : n_series
legend = 'lines'
titled = 1
load 'plots/style.gp'
set multiplot
set yrange [0:100]
set ytics 25
do for [panel = 1:panels] {
  p = int(word(words_shown, panel))
  load 'plots/panel.gp'
  set title '% took no longer' offset 0, -0.6
  label = value(sprintf('metric%d', p))
  at = strstrt(label, ' p99')
  set xlabel (at > 0 ? substr(label, 1, at - 1) . substr(label, at + 4, strlen(label)) : label) \
    offset 0, 0.4
  unset logscale x
  set xtics autofreq
  if (LOW[p] > 0 && HIGH[p] > 20 * LOW[p]) {
    eval set_log('x', LOW[p], HIGH[p])
    set xrange [LOW[p]:HIGH[p] * 1.1]
  } else {
    set xrange [0:HIGH[p] * 1.05]
    set xtics step(1.05 * HIGH[p])
  }
  if (n_marks > 0) {
    do for [k = 1:n_marks] {
      if (int(word($marks[k], 1)) == p) {
        x = real(word($marks[k], 2))
        y = 100 * real(word($marks[k], 3))
        if (x < HIGH[p] * 1.05) {
          set arrow from first x, first 0 to first x, first y nohead dashtype 2 \
            linecolor rgb MUTED linewidth 1.4
          set label sprintf('limit, p%g', y) at first x, first 6 left offset 0.4, 0 \
            textcolor rgb MUTED font sprintf(',%d', SMALL)
        }
      }
    }
  }
  plot for [i = 1:n_series] sprintf('$series%d', i) using ($1 == p ? $2 : NaN):(100 * $3) \
    with steps linetype i notitle
}
unset multiplot
