# Splitwise Fig. 12: how many SLOs each cluster meets, over the instances of both pools, and the
# cheapest that meets all. $series1: prefill and decode instances, SLOs met, SLOs, $/h, and the
# number of runs of which it is the worst.
panels = 1
columns = 1
cell = inline ? 400 : 520
left = 60
right = 84
entries = 0
legend = 'boxes'
stats $series1 using 4 nooutput name 'SLOS'
stats $series1 using 3 nooutput name 'MET'
stats $series1 using 6 nooutput name 'RUNS'
all = int(SLOS_max)
if (MET_max == all) { # stats of no points at all is an error
  stats $series1 using ($3 == all ? $5 : NaN) nooutput name 'COST'
  heading = sprintf('limits met, of %d; the dot is the cheapest that meets all, $%.0f/h', all, \
    COST_min)
} else { heading = sprintf('limits met, of %d; no cluster meets all', all) }
note = RUNS_max > 1 ? sprintf('the worst of up to %d runs of each cluster', RUNS_max) : ''
load 'plots/style.gp'
panel = 1
load 'plots/panel.gp'
set xlabel 'prefill instances' offset 0, 0.4
set ylabel 'decode instances'
unset grid
set border 0
set tics scale 0
set xtics 1
set ytics 1
stats $series1 using 1 nooutput name 'P'
stats $series1 using 2 nooutput name 'D'
if (P_max - P_min > 15) { set xtics autofreq }
if (D_max - D_min > 15) { set ytics autofreq }
set xrange [P_min - 0.5:P_max + 0.5]
set yrange [D_min - 0.5:D_max + 0.5]
# A step for each count.
set palette defined (0 '#00224e', 0.33 '#575d6d', 0.67 '#a59c74', 0.99 '#d2c060', 1 '#fee838') \
  maxcolors all + 1
set cbrange [-0.5:all + 0.5]
set cbtics 1
set colorbox user origin screen (panel_x + panel_width - right + 14) / width, \
  screen (panel_y + BELOW * LINE) / height size screen 12.0 / width, \
  screen plot_height / height
if (MET_max == all) {
  plot $series1 using 1:2:(0.5):(0.5):3 with boxxyerror fillstyle solid noborder palette notitle, \
       $series1 using ($3 == all && $5 < COST_min * 1.000001 ? $1 : NaN):2 with points \
         pointtype 7 pointsize 1.4 linecolor rgb '#111111' notitle
} else {
  plot $series1 using 1:2:(0.5):(0.5):3 with boxxyerror fillstyle solid noborder palette notitle
}
