# Measurements of engines against predictions: a panel per figure, a colour per engine. `tandem
# report measured --figure` sets the data ($panel1, …: measured, predicted, number of the engine),
# title1, …, n_panels, the engines name1, … and n_series.
panels = n_panels
columns = n_panels > 3 ? 2 : n_panels
cell = inline ? 380 : 420
left = 70
right = 24
entries = n_series
legend = 'points'
titled = 1
array LOW[n_panels]
array HIGH[n_panels]
do for [i = 1:n_panels] {
  stats sprintf('$panel%d', i) using ($1 < $2 ? $1 : $2) nooutput name 'POINTS'
  LOW[i] = POINTS_min / 1.2
  stats sprintf('$panel%d', i) using ($1 > $2 ? $1 : $2) nooutput name 'POINTS'
  HIGH[i] = POINTS_max * 1.2
}
note = 'lines: equal to the prediction, twice and half of it'
load 'plots/style.gp'
set multiplot
do for [panel = 1:n_panels] {
  load 'plots/panel.gp'
  eval set_log('x', LOW[panel], HIGH[panel])
  eval set_log('y', LOW[panel], HIGH[panel])
  set xrange [LOW[panel]:HIGH[panel]]
  set yrange [LOW[panel]:HIGH[panel]]
  set title value(sprintf('title%d', panel)) offset 0, -0.6
  set xlabel 'measured' offset 0, 0.4
  set ylabel 'predicted'
  plot x with lines linecolor rgb INK linewidth 1 dashtype 1 notitle, \
       2 * x with lines linecolor rgb MUTED linewidth 0.8 dashtype 2 notitle, \
       x / 2 with lines linecolor rgb MUTED linewidth 0.8 dashtype 2 notitle, \
       for [e = 1:n_series] sprintf('$panel%d', panel) using 1:($3 == e ? $2 : NaN) \
         with points linetype e pointsize 0.4 notitle
}
unset multiplot
