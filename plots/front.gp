# What a user gets over what it costs, by design: as pareto, of what a plan stored.
speed_label = 'output tokens/s that a user sees (1 / mean TPOT)'
if (real(word($series1[1], 5)) == 1) { cost_label = 'GPU seconds per million output tokens' }
load 'plots/pareto.gp'
