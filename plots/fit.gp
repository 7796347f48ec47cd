# A fitted model, a panel per part: measured times and the fit, below it how far that is off.
# `tandem plot fit` sets the data ($panel1, …: x, measured and fitted ms, error in %; an empty line
# between the curves), title1, label1, …, n_panels and heading.
panels = 2 * n_panels
columns = n_panels > 2 ? n_panels : 2
cell = inline ? 240 : 300
left = 70
right = 20
entries = 0
legend = 'lines'
titled = 1
array LOW_X[n_panels]
array HIGH_X[n_panels]
array LOW[n_panels]
array HIGH[n_panels]
array OFF[n_panels]
do for [i = 1:n_panels] {
  stats sprintf('$panel%d', i) using 1 nooutput name 'ALONG'
  LOW_X[i] = ALONG_min
  HIGH_X[i] = ALONG_max
  stats sprintf('$panel%d', i) using ($3 < $2 ? $3 : $2) nooutput name 'TIME'
  LOW[i] = TIME_min
  stats sprintf('$panel%d', i) using ($3 > $2 ? $3 : $2) nooutput name 'TIME'
  HIGH[i] = TIME_max
  stats sprintf('$panel%d', i) using 4 nooutput name 'ERROR'
  OFF[i] = 1.1 * (abs(ERROR_min) > abs(ERROR_max) ? abs(ERROR_min) : abs(ERROR_max))
  if (OFF[i] < 1) { OFF[i] = 1 }
}
if (n_panels == 1) { columns = 1 }
note = 'circles: measured, lines and crosses: fit'
load 'plots/style.gp'
set multiplot
do for [i = 1:n_panels] {
  panel = columns == 1 ? 2 * i - 1 : i
  load 'plots/panel.gp'
  unset logscale
  set xtics autofreq
  set ytics autofreq
  set format x '%g'
  set xrange [0:1.05 * HIGH_X[i]]
  if (LOW_X[i] > 0 && HIGH_X[i] > 20 * LOW_X[i]) {
    set logscale x
    set xtics HIGH_X[i] > 1e5 * LOW_X[i] ? 1000 : 10
    if (HIGH_X[i] > 5000) { set format x '%.0s%c' }
    set xrange [LOW_X[i] / 1.2:HIGH_X[i] * 1.2]
  }
  set yrange [0:1.05 * HIGH[i]]
  if (LOW[i] > 0 && HIGH[i] > 10 * LOW[i]) {
    eval set_log('y', LOW[i], HIGH[i])
    set yrange [LOW[i] / 1.3:HIGH[i] * 1.3]
  }
  set title value(sprintf('title%d', i)) offset 0, -0.6
  set xlabel value(sprintf('label%d', i)) offset 0, 0.4
  set ylabel 'ms'
  plot sprintf('$panel%d', i) using 1:3 with linespoints linecolor rgb COLOUR[2] dashtype 1 \
         pointtype 2 pointsize 0.4 linewidth 0.8 notitle, \
       sprintf('$panel%d', i) using 1:2 with points pointtype 6 pointsize 0.55 \
         linecolor rgb COLOUR[1] linewidth 1 notitle
  panel = columns == 1 ? 2 * i : columns + i
  load 'plots/panel.gp'
  set title value(sprintf('title%d', i)) . ', error of the fit'
  set ylabel 'fit / measured - 1, %'
  unset logscale y
  set ytics autofreq
  set yrange [-OFF[i]:OFF[i]]
  plot 0 with lines linecolor rgb MUTED linewidth 1 dashtype 1 notitle, \
       sprintf('$panel%d', i) using 1:4 with points pointtype 7 pointsize 0.4 \
         linecolor rgb COLOUR[2] notitle
}
unset multiplot
