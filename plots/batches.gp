# What batches are made of: tokens of prompts and sequences that decode in an iteration, means of
# equal spans of time, a panel for each pool and kind. $series<i>: as in cluster.gp.
array KIND[2] = ['prompt tokens in an iteration', 'decoding sequences in an iteration']
array HIGH[2 * n_series]
words_shown = ''
begin = 1e300
end = 0
do for [i = 1:n_series] {
  do for [k = 1:2] {
    stats sprintf('$series%d', i) using (column(6 + k)) nooutput name 'TOKENS'
    HIGH[2 * i - 2 + k] = TOKENS_max
    if (TOKENS_max > 0) { words_shown = words_shown . sprintf(' %d', 2 * i - 2 + k) }
  }
  stats sprintf('$series%d', i) using 1 nooutput name 'TIME'
  if (TIME_max > end) { end = TIME_max }
  if (TIME_min < begin) { begin = TIME_min }
}
panels = words(words_shown)
columns = 1
cell = inline ? 200 : 170
left = 64
right = 20
entries = 0
legend = 'boxes'
titled = 1
load 'plots/style.gp'
set multiplot
if (begin < 0.1 * end) { begin = 0 } else { set format x '%.10g' }
set xrange [begin:end]
do for [panel = 1:panels] {
  load 'plots/panel.gp'
  n = int(word(words_shown, panel))
  i = (n + 1) / 2
  k = 1 + (n + 1) % 2
  set yrange [0:1.08 * HIGH[n]]
  set ytics step(1.08 * HIGH[n])
  set title value(sprintf('name%d', i)) . ': ' . KIND[k] offset 0, -0.6
  set xlabel panel == panels ? 'time, s' : '' offset 0, 0.4
  plot sprintf('$series%d', i) using 1:(column(6 + k)) with fillsteps linetype k \
    linewidth 0.5 dashtype 1 fillstyle solid border linetype k notitle
}
unset multiplot
