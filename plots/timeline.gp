# Seesaw Fig. 6: what a group of GPUs does, and how full its KV memory and its store in CPU memory
# are. $series1: time, share of the GPUs' blocks and of the store's, prompts that wait, sequences
# that decode; then a series of (from, until) for each activity.
colour(activity) = activity eq 'prefill' ? COLOUR[1] : activity eq 'decode' ? COLOUR[3] : \
  activity eq 'reshard' ? COLOUR[2] : activity eq 'drain' ? COLOUR[5] : '#bbbbbb'
stats $series1 using 1 nooutput name 'TIME'
end = TIME_max
do for [i = 2:n_series] {
  stats sprintf('$series%d', i) using 2 nooutput name 'TIME'
  if (TIME_max > end) { end = TIME_max }
}
panels = 3
columns = 1
cell = 220
left = 64
right = 20
entries = 0
legend = 'boxes'
load 'plots/style.gp'
set xrange [0:end]
set multiplot
set xlabel 'time, s' offset 0, 0.4

# A row for each activity: what lasts a moment is seen, and nothing hides anything.
panel = 1
load 'plots/panel.gp'
set yrange [-n_series - 0.6:-1.4]
set ytics scale 0 (name2 -2)
if (n_series > 2) { do for [i = 3:n_series] { set ytics add (value(sprintf('name%d', i)) -i) } }
set title 'GPU activity' offset 0, -0.6
unset grid
set style fill solid border
plot for [i = 2:n_series] sprintf('$series%d', i) using 1:(-i):1:2:(-i - 0.38):(-i + 0.38) \
  with boxxyerror linecolor rgb colour(value(sprintf('name%d', i))) dashtype 1 \
  linewidth 1 notitle

panel = 2
load 'plots/panel.gp'
set yrange [0:105]
set ytics scale 0.5 25
set grid
set title 'KV memory in use, %'
set label 'in CPU memory' at graph 1, graph 1 right offset 0, 0.9 textcolor rgb COLOUR[4]
set label 'on the GPUs' at graph 0, graph 1 left offset 0, 0.9 textcolor rgb INK
plot $series1 using 1:(100 * $3) with fillsteps fillcolor rgb COLOUR[4] fillstyle \
       transparent solid 0.25 noborder notitle, \
     $series1 using 1:(100 * $3) with steps linecolor rgb COLOUR[4] linewidth 1.5 \
       dashtype 1 notitle, \
     $series1 using 1:(100 * $2) with steps linecolor rgb INK linewidth 1.5 dashtype 1 notitle

panel = 3
load 'plots/panel.gp'
set yrange [0:*]
set ytics auto
set title 'requests'
set label 'prompts to prefill' at graph 0, graph 1 left offset 0, 0.9 textcolor rgb COLOUR[1]
set label 'decoding on the GPUs' at graph 1, graph 1 right offset 0, 0.9 textcolor rgb COLOUR[3]
plot $series1 using 1:4 with steps linecolor rgb COLOUR[1] linewidth 1.5 dashtype 1 notitle, \
     $series1 using 1:5 with steps linecolor rgb COLOUR[3] linewidth 1.5 dashtype 1 notitle
unset multiplot
