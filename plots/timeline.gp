# Seesaw Fig. 6: what a group of GPUs does, and how full its KV memory and its store in CPU memory
# are. $series1: time, share of the GPUs' blocks and of the store's, prompts that wait, sequences
# that decode; then a series of (from, until) for each activity.
width = inline ? 560 : 1100
height = inline ? 560 : 760
load 'plots/style.gp'
colour(activity) = activity eq 'prefill' ? 0x4c78a8 : activity eq 'decode' ? 0x54a24b : \
  activity eq 'reshard' ? 0xe45756 : activity eq 'drain' ? 0xf2a64a : 0xbbbbbb
stats $series1 using 1 nooutput name 'TIME'
end = TIME_max
do for [i = 2:n_series] {
  stats sprintf('$series%d', i) using 2 nooutput name 'TIME'
  if (TIME_max > end) { end = TIME_max }
}
set xrange [0:end]
set multiplot
set lmargin at screen 0.08
set rmargin at screen 0.97

set tmargin at screen 0.94
set bmargin at screen 0.86
set key at screen 0.97, screen 0.985 right top horizontal
set yrange [0:1]
unset ytics
set format x ''
set style fill solid border
plot for [i = 2:n_series] sprintf('$series%d', i) using 1:(0.5):1:2:(0):(1) with boxxyerror \
  linecolor rgb colour(value(sprintf('name%d', i))) title value(sprintf('name%d', i))

set tmargin at screen 0.78
set bmargin at screen 0.46
set key at screen 0.97, screen 0.825 right top horizontal
set yrange [0:105]
set ytics 25
set grid
set ylabel 'KV memory in use, %'
plot $series1 using 1:(100 * $3) with fillsteps fillcolor rgb '#d8c7e8' \
       title 'store in CPU memory', \
     $series1 using 1:(100 * $3) with steps linecolor rgb '#7b4ea3' linewidth 1.5 notitle, \
     $series1 using 1:(100 * $2) with steps linecolor rgb '#222222' linewidth 1.5 title 'GPUs'

set tmargin at screen 0.38
set bmargin at screen 0.09
set key at screen 0.97, screen 0.425 right top horizontal
set yrange [0:*]
set ytics auto
set format x '%g'
set xlabel 'time, s'
set ylabel 'requests'
set style line 1 linecolor rgb '#4c78a8' linewidth 1.5
set style line 2 linecolor rgb '#54a24b' linewidth 1.5
plot $series1 using 1:4 with steps linestyle 1 title 'prompts to prefill', \
     $series1 using 1:5 with steps linestyle 2 title 'decoding on the GPUs'
unset multiplot
