# What a user gets over what it costs. $series<i>: tokens/s of a user, $ per million output tokens,
# whether all limits were met, whether nothing else is better; $marks: the best ones, by speed, with
# their runs.
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
note = 'pale: a limit was missed; line: nothing is both faster and cheaper, numbers are runs'
load 'plots/style.gp'
panel = 1
load 'plots/panel.gp'
set xlabel 'output tokens/s that a user sees (1 / median TPOT)' offset 0, 0.4
set title '$ per million output tokens' offset 0, -0.6
if (high_y > 20 * low_y) {
  eval set_log('y', low_y, high_y)
  set yrange [low_y / 1.3:high_y * 1.3]
} else { set yrange [0:1.06 * high_y] }
pale(i) = int('0x' . substr(COLOUR[1 + (i - 1) % 7], 2, 7)) + 0xb0000000
set offsets graph 0.03, graph 0.03, 0, 0
plot for [i = 1:n_series] sprintf('$series%d', i) using ($3 == 1 ? NaN : $1):2 with points \
       linetype i pointsize 0.6 linecolor rgb pale(i) notitle, \
     for [i = 1:n_series] sprintf('$series%d', i) using ($3 == 1 ? $1 : NaN):2 with points \
       linetype i pointsize 0.7 notitle, \
     $marks using 1:2 with lines linecolor rgb INK linewidth 1 dashtype 1 notitle, \
     $marks using ($4 == 1 ? $1 : NaN):2:(sprintf('%d', $3)) with labels center offset 1.6, -0.6 \
       textcolor rgb INK font sprintf(',%d', SMALL) notitle
