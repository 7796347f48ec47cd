# Splitwise Fig. 12: how many SLOs each cluster meets, over machines of the two pools, and the
# cheapest that meets all. $series1: prefill machines, decode machines, SLOs met, SLOs, $/h.
width = inline ? 560 : 900
height = inline ? 400 : 640
load 'plots/style.gp'
stats $series1 using 4 nooutput name 'SLOS'
stats $series1 using 3 nooutput name 'MET'
all = int(SLOS_max)
if (MET_max == all) { # stats of no points at all is an error
  stats $series1 using ($3 == all ? $5 : NaN) nooutput name 'COST'
  set title sprintf('SLOs met, of %d; the dot is the cheapest that meets all, $%.0f/h', all, \
                    COST_min)
} else {
  set title sprintf('SLOs met, of %d; no cluster meets all', all)
}
set xlabel 'prefill machines'
set ylabel 'decode machines'
set cbrange [-0.5:all + 0.5]
set palette defined (0 '#2b2b40', 0.45 '#8a5a83', (all - 1.0) / all '#f2cf9b', 1 '#4c9f70') \
  maxcolors all + 1
set cbtics 1
unset key
set xrange [*:*] noextend
set yrange [*:*] noextend
if (MET_max == all) {
  plot $series1 using 1:2:(0.5):(0.5):3 with boxxyerror fillstyle solid noborder palette, \
       $series1 using ($3 == all && $5 < COST_min * 1.000001 ? $1 : NaN):2 with points \
         pointtype 7 pointsize 1.6 linecolor rgb 'white'
} else {
  plot $series1 using 1:2:(0.5):(0.5):3 with boxxyerror fillstyle solid noborder palette
}
