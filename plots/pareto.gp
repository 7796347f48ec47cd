# What a user gets over what it costs. $series<i>: tokens/s of a user, $ per million output tokens,
# whether all limits were met, whether nothing else is better; $marks: the best ones, by speed, -,
# whether they are to be named, and mark<i>, what they are called beside their series.
panels = 1
columns = 1
cell = inline ? 340 : 480
left = 64
right = 24
entries = n_series == 1 && !strlen(name1) ? 0 : n_series
legend = 'points'
titled = 1
low_y = 1e300
high_y = -1e300
do for [i = 1:n_series] {
  stats sprintf('$series%d', i) using 2 nooutput name 'COST'
  if (COST_min < low_y) { low_y = COST_min }
  if (COST_max > high_y) { high_y = COST_max }
}
if (high_y <= 0) { low_y = 0; high_y = 1 }
low_x = 1e300
high_x = -1e300
array PALE[n_series] # [n_pale], series of which some missed a limit
array MET[n_series]  # [n_met], and of which some did not
n_pale = n_met = 0
do for [i = 1:n_series] {
  stats sprintf('$series%d', i) using 3 nooutput name 'ALL'
  if (ALL_min < 1) { n_pale = n_pale + 1; PALE[n_pale] = i }
  if (ALL_max > 0) { n_met = n_met + 1; MET[n_met] = i }
  stats sprintf('$series%d', i) using 1 nooutput name 'SPEED'
  if (SPEED_min < low_x) { low_x = SPEED_min }
  if (SPEED_max > high_x) { high_x = SPEED_max }
}
note = 'pale: a limit was missed; line: nothing is both faster and cheaper'
# Those that are named are numbered, and the numbers' names stand below; one that lies on another
# has that one's.
is_log = low_y > 0 && high_y > 20 * low_y
across(x) = high_x > low_x ? (x - low_x) / (high_x - low_x) : 0
up(y) = is_log ? log(y / low_y) / log(1.69 * high_y / low_y) : y / (1.06 * high_y)
array NUMBER[n_marks + 1]
named = 0
last_x = last_y = -1
do for [k = 1:n_marks] {
  NUMBER[k] = ''
  x = across(real(word($marks[k], 1)))
  y = up(real(word($marks[k], 2)))
  if (exists(sprintf('mark%d', k)) && real(word($marks[k], 4)) == 1 \
      && abs(x - last_x) + abs(y - last_y) > 0.04) {
    named = named + 1
    NUMBER[k] = sprintf('%d', named)
    n_corner = n_corner + 1
    eval sprintf("corner%d = '%d: ' . mark%d", n_corner, named, k)
    last_x = x
    last_y = y
  }
}
load 'plots/style.gp'
panel = 1
load 'plots/panel.gp'
if (!exists('speed_label')) { speed_label = 'output tokens/s that a user sees (1 / median TPOT)' }
if (!exists('cost_label')) { cost_label = '$ per million output tokens' }
set xlabel speed_label offset 0, 0.4
set title cost_label offset 0, -0.6
if (is_log) {
  eval set_log('y', low_y, high_y)
  set yrange [low_y / 1.3:high_y * 1.3]
} else { set yrange [0:1.06 * high_y] }
pale(i) = int('0x' . substr(COLOUR[1 + (i - 1) % 7], 2, 7)) + 0x80000000
margin = high_x > low_x ? 0.03 * (high_x - low_x) : 0.5 * abs(high_x) + (high_x == 0)
set xrange [low_x - margin:high_x + margin]
# As text, since gnuplot warns of what has no points.
what = ''
if (n_pale > 0) {
  what = "for [i = 1:n_pale] sprintf('$series%d', PALE[i]) using ($3 == 1 ? NaN : $1):2 " \
    . 'with points linetype PALE[i] pointsize 0.6 linecolor rgb pale(PALE[i]) notitle, '
}
if (n_met > 0) {
  what = what . "for [i = 1:n_met] sprintf('$series%d', MET[i]) using ($3 == 1 ? $1 : NaN):2 " \
    . 'with points linetype MET[i] pointsize 0.7 notitle, '
}
if (n_marks > 0) {
  what = what . '$marks using 1:2 with lines linecolor rgb INK linewidth 1 dashtype 1 notitle, ' \
    . '$marks using 1:2:(NUMBER[int($0) + 1]) with labels center offset 1.4, -0.6 ' \
    . "textcolor rgb INK font sprintf(',%d', SMALL) notitle, "
}
eval 'plot ' . substr(what, 1, strlen(what) - 2)
