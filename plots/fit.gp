# A fitted model: one column per part, times above, errors below. `tandem plot fit` sets the data
# ($panel1, …: x, measured and fitted ms, error in %), title1, label1, …, panels and heading.
width = 100 + 420 * panels
height = 640
load 'plots/style.gp'
set multiplot layout 2,panels columnsfirst title heading
set format x '%.0b%B'
set grid
set key top left
set lmargin 11
set offsets 0, 0, graph 0.04, graph 0.04
do for [i = 1:panels] {
  unset logscale
  set xrange [*:*]
  stats sprintf('$panel%d', i) using 1:2 nooutput name 'POINTS'
  if (POINTS_max_x > POINTS_min_x) {
    set logscale x 2
    set xrange [0.87 * POINTS_min_x:1.15 * POINTS_max_x]
  }
  if (POINTS_max_y > 10 * POINTS_min_y) { set logscale y }
  set title value(sprintf('title%d', i))
  set xlabel ''
  set ylabel 'ms'
  plot sprintf('$panel%d', i) using 1:2 title 'measured' pointtype 6 linecolor rgb '#1f77b4', \
       sprintf('$panel%d', i) using 1:3 title 'fit' pointtype 2 linecolor rgb '#d62728'
  set title ''
  set xlabel value(sprintf('label%d', i))
  set ylabel 'fit / measured - 1, %'
  unset logscale y
  plot 0 notitle linecolor rgb '#888888', \
       sprintf('$panel%d', i) using 1:4 notitle pointtype 7 linecolor rgb '#d62728'
}
unset multiplot
