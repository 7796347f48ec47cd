# Measurements of engines against predictions: a panel per figure, a colour per engine. `tandem
# report measured --figure` sets the data ($panel1, …: measured, predicted, number of the engine),
# title1, …, panels, engine1, … and engines.
width = 1400
height = 500
load 'plots/style.gp'
set multiplot layout 1,panels
set grid
set key top left
set logscale xy
set lmargin 10
array colours[4] = ['#1f77b4', '#d62728', '#2ca02c', '#9467bd']
do for [i = 1:panels] {
  set xrange [*:*]
  set yrange [*:*]
  stats sprintf('$panel%d', i) using 1:2 nooutput name 'POINTS'
  low = POINTS_min_x < POINTS_min_y ? POINTS_min_x : POINTS_min_y
  high = POINTS_max_x > POINTS_max_y ? POINTS_max_x : POINTS_max_y
  set xrange [low / 1.2:high * 1.2]
  set yrange [low / 1.2:high * 1.2]
  set title value(sprintf('title%d', i))
  set xlabel 'measured'
  set ylabel 'predicted'
  plot x notitle linecolor rgb '#888888', \
       for [e = 1:engines] sprintf('$panel%d', i) using 1:($3 == e ? $2 : NaN) \
         title value(sprintf('engine%d', e)) pointtype 7 pointsize 0.4 \
         linecolor rgb colours[1 + (e - 1) % 4]
}
unset multiplot
