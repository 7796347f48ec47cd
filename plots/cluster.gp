# A cluster over time, a curve for each pool. $series<i>: time, requests that wait, that run, shares
# of KV memory in use and of prompts found in the prefix cache, kW, tokens of prefill and of decode
# in an iteration.
array TITLE[5] = ['requests waiting', 'requests running', 'KV memory in use, %', \
  'prompt tokens found in the prefix cache, %', 'power, kW']
array FACTOR[5] = [1, 1, 100, 100, 1]
array HIGH[5]
words_shown = ''
begin = 1e300
end = 0
do for [k = 1:5] {
  HIGH[k] = 0
  do for [i = 1:n_series] {
    stats sprintf('$series%d', i) using (valid(k + 1) ? FACTOR[k] * column(k + 1) : 0) nooutput \
      name 'Y'
    if (Y_max > HIGH[k]) { HIGH[k] = Y_max }
    stats sprintf('$series%d', i) using 1 nooutput name 'TIME'
    if (TIME_max > end) { end = TIME_max }
    if (TIME_min < begin) { begin = TIME_min }
  }
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
if (begin < 0.1 * end) { begin = 0 } else { set format x '%.10g' }
set xrange [begin:end]
do for [panel = 1:panels] {
  k = int(word(words_shown, panel))
  load 'plots/panel.gp'
  set yrange [0:1.08 * HIGH[k]]
  set ytics step(1.08 * HIGH[k])
  set title TITLE[k] offset 0, -0.6
  set xlabel panel == panels ? 'time, s' : '' offset 0, 0.4
  plot for [i = 1:n_series] sprintf('$series%d', i) using 1:(FACTOR[k] * column(k + 1)) \
    with steps linetype i linewidth 1.3 dashtype 1 notitle
}
unset multiplot
