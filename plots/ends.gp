# Names at the ends of curves, in place of a legend: END[i] is how high that of series i ends, a
# share of the axis. Names that would lie on each other are moved apart.
gap = 1.0 * LINE / plot_height
array ORDER[n_series]
do for [i = 1:n_series] { ORDER[i] = i }
do for [i = 2:n_series] {
  do for [k = i:2:-1] {
    if (END[ORDER[k]] < END[ORDER[k - 1]]) {
      swapped = ORDER[k]; ORDER[k] = ORDER[k - 1]; ORDER[k - 1] = swapped
    }
  }
}
do for [k = 2:n_series] {
  if (END[ORDER[k]] < END[ORDER[k - 1]] + gap) { END[ORDER[k]] = END[ORDER[k - 1]] + gap }
}
over = END[ORDER[n_series]] - 1.02
do for [k = n_series:1:-1] {
  if (over > 0) {
    END[ORDER[k]] = END[ORDER[k]] - over
    over = k > 1 ? END[ORDER[k - 1]] + gap - END[ORDER[k]] : 0
  }
}
do for [i = 1:n_series] {
  set label value(sprintf('name%d', i)) at graph 1, graph END[i] left offset 0.8, 0 \
    textcolor linetype i
}
