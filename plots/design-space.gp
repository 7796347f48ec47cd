# Splitwise Fig. 12: how many SLOs each cluster meets, over machines of the two pools, and the
# cheapest that meets all. $series1: prefill machines, decode machines, SLOs met, SLOs, $/h.
stats $series1 using 4 nooutput name 'SLOS'
stats $series1 using ($3 == SLOS_max ? $5 : NaN) nooutput name 'COST'
all = int(SLOS_max)
set title COST_records > 0 \
  ? sprintf('SLOs met, of %d; the dot is the cheapest that meets all, $%.0f/h', all, COST_min) \
  : sprintf('SLOs met, of %d; no cluster meets all', all)
set xlabel 'prefill machines'
set ylabel 'decode machines'
set cbrange [-0.5:all + 0.5]
set palette defined (0 '#2b2b40', 0.45 '#8a5a83', (all - 1.0) / all '#f2cf9b', 1 '#4c9f70') \
  maxcolors all + 1
set cbtics 1
unset key
set xrange [*:*] noextend
set yrange [*:*] noextend
set offsets 0.5, 0.5, 0.5, 0.5
if (COST_records > 0) {
  plot $series1 using 1:2:3 with image, \
       $series1 using ($3 == all && $5 < COST_min * 1.000001 ? $1 : NaN):2 with points \
         pointtype 7 pointsize 1.6 linecolor rgb 'white'
} else {
  plot $series1 using 1:2:3 with image
}
