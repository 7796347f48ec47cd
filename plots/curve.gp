# The share of requests that keep all limits, and the goodput, against the rate: a curve for each
# design, bars for the range over seeds and with times moved by their error. `tandem plan --curve
# --figure` sets $series<i>: panel, rate, value, lowest, highest; name<i>, n_series, and share, in
# percent, that is asked for, which a stored plan has as $marks.
if (!exists('share')) { share = n_marks > 0 && word($marks[1], 1) ne 'NaN' \
  ? real(word($marks[1], 1)) : 0 }
panels = 2
columns = 2
cell = inline ? 300 : 360
left = 64
right = 20
entries = n_series
legend = 'lines'
titled = 1
note = 'bars: over seeds, and times shorter and longer by their error' \
  . (share > 0 ? sprintf('; dashes: %g%% of the requests', share) : '')
load 'plots/style.gp'
low_x = 1e300
high_x = -1e300
high_y = 0
do for [i = 1:n_series] {
  stats sprintf('$series%d', i) using 2 nooutput name 'X'
  if (X_min < low_x) { low_x = X_min }
  if (X_max > high_x) { high_x = X_max }
  stats sprintf('$series%d', i) using ($1 == 2 ? $5 : NaN) nooutput name 'Y'
  if (Y_max > high_y) { high_y = Y_max }
}
if (high_y <= 0) { high_y = 1 }
margin = high_x > low_x ? 0.03 * (high_x - low_x) : 1
cut(y, high) = y < 0 ? 0 : y > high ? high : y
set multiplot
set errorbars 0.6
set xrange [low_x - margin:high_x + margin]
set xlabel 'requests/s' offset 0, 0.4
do for [panel = 1:2] {
  load 'plots/panel.gp'
  most = panel == 1 ? 100 : 1.06 * high_y
  set yrange [0:panel == 1 ? 104 : most]
  set title panel == 1 ? '% of requests within all limits' : 'goodput, requests/s' offset 0, -0.6
  unset arrow 900
  if (panel == 1 && share > 0) {
    set arrow 900 from graph 0, first share to graph 1, first share nohead dashtype 2 \
      linecolor rgb MUTED linewidth 1.4
  }
  plot for [i = 1:n_series] sprintf('$series%d', i) \
         using ($1 == panel ? $2 : NaN):3:(cut($4, most)):(cut($5, most)) with yerrorbars \
         linetype i pointtype 0 dashtype 1 linewidth 0.9 notitle, \
       for [i = 1:n_series] sprintf('$series%d', i) using ($1 == panel ? $2 : NaN):3 \
         with lines linetype i notitle, \
       for [i = 1:n_series] sprintf('$series%d', i) using ($1 == panel ? $2 : NaN):3 \
         with points linetype i notitle
}
unset multiplot
