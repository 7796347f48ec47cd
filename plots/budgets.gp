# The largest rate over what the cluster costs, a curve for each design, bars for the range over the
# seeds. $series<i>: $/h, mean rate, lowest, highest.
width = inline ? 560 : 900
height = inline ? 400 : 560
load 'plots/style.gp'
set grid
set key left top
set xlabel '$/h'
set ylabel 'largest rate, requests/s'
set yrange [0:*]
plot for [i = 1:n_series] sprintf('$series%d', i) using 1:2:3:4 with yerrorlines \
       pointtype i linecolor i linewidth 1.5 title value(sprintf('name%d', i))
