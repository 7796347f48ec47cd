# What all figures look like, and where things are. A script sets
#
#   panels, columns   how many, and how many beside each other
#   cell              height of one with its labels, pixels
#   left, right       of each panel, pixels, for its labels
#   entries           of the legend, which stands below: name1, name2, …; 0: none
#   legend            what they are: 'lines', 'points' or 'boxes'
#   titled            optional, whether panels have titles; else those of several
#   heading, note     optional, above all and behind what was run
#
# and loads this, then `panel = 1` and plots/panel.gp before it plots the first, and so on. `inline`
# is 1 in a page, where a figure may be shown at 360 pixels: one column, larger letters.
#
# Colours are of Okabe and Ito, told apart by the colour-blind and in print, but for their yellow,
# which is none on white; with them go dashes and points of their own.
set encoding utf8
INK = '#1a1a1a'
MUTED = '#6b6b6b'
GRID = '#d9d9d9'
array COLOUR[7] = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#6b6b6b']
array POINT[7] = [7, 5, 9, 13, 11, 6, 4]
array DASH[7] = [1, 2, 4, 5, 3, 1, 2]
do for [i = 1:49] {
  k = 1 + (i - 1 + (i - 1) / 7) % 7
  set linetype i linecolor rgb COLOUR[1 + (i - 1) % 7] linewidth 1.6 pointtype POINT[k] \
    pointsize 0.6 dashtype DASH[k]
}
LETTER = inline ? 8.4 : 7.4 # pixels of width, about
LINE = inline ? 19 : 17
SMALL = inline ? 11 : terminal eq 'svg' ? 11 : 8
PAD = 10
BELOW = inline ? 3.3 : 2.7 # lines, of an axis and its name
ABOVE = inline ? 1.9 : 1.5 # of a title
if (!exists('heading')) { heading = '' }
if (!exists('n_corner')) { n_corner = 0 }
if (!exists('note')) { note = '' }
if (!exists('titled')) { titled = panels > 1 }
if (inline) { columns = 1 }
if (columns > panels) { columns = panels }
rows = (panels + columns - 1) / columns
width = inline ? 560 : columns > 1 ? 1100 : 860

# What was run, in as many lines as it takes.
array CORNER[12]
n_lines = 0
text = ''
do for [i = 1:n_corner + (strlen(note) > 0)] {
  part = i > n_corner ? note : value(sprintf('corner%d', i))
  joined = strlen(text) ? text . ' · ' . part : part
  if (strlen(text) && strlen(joined) * 0.83 * LETTER > width - 2 * PAD && n_lines < 10) {
    n_lines = n_lines + 1
    CORNER[n_lines] = text
    joined = part
  }
  text = joined
}
if (strlen(text)) { n_lines = n_lines + 1; CORNER[n_lines] = text }

cap = 48
names_of = 'name'
n_names = entries
if (entries > 0) { load 'plots/names.gp' }
entry_width = 46 + (entries > 0 ? widest : 1) * LETTER
legend_columns = int((width - 2 * PAD) / entry_width)
if (legend_columns < 1) { legend_columns = 1 }
if (legend_columns > entries) { legend_columns = entries > 0 ? entries : 1 }
legend_rows = (entries + legend_columns - 1) / legend_columns
head = strlen(heading) ? LINE + 8 : 4
foot = n_lines * (LINE - 3) + legend_rows * LINE + (legend_rows > 0 ? 10 : 4)
height = int(head + rows * cell + foot)

if (terminal eq 'svg') {
  if (inline) { set terminal svg noenhanced size width, height font 'sans-serif,14' linewidth 1.2 }
  else {
    set terminal svg noenhanced size width, height font 'sans-serif,13' linewidth 1.2 \
      background rgb 'white'
  }
} else { set terminal pngcairo noenhanced size width, height font 'sans-serif,10' linewidth 1.3 }
set border 3 linecolor rgb MUTED linewidth 0.7
set tics nomirror textcolor rgb INK scale 0.5
set grid linecolor rgb GRID linetype 1 dashtype 1 linewidth 0.6
set xlabel textcolor rgb INK
set ylabel textcolor rgb INK
set title textcolor rgb INK
unset key

# For eval: a logarithmic axis, with enough ticks.
log_ticks(axis, low, high) = high > (axis eq 'x' ? 150 : 2000) * low ? '' : \
  '(1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, ' \
  . '0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4, 2e4, 5e4, ' \
  . '1e5, 2e5, 5e5, 1e6, 2e6, 5e6)'
set_log(axis, low, high) = sprintf("set logscale %s; set format %s '%%g'; set %stics %s", axis, \
  axis, axis, strlen(log_ticks(axis, low, high)) ? log_ticks(axis, low, high) : 'autofreq')
# The step of at most four ticks or so up to `high`.
decade(high) = 10 ** floor(log10(high))
step(high) = high >= 4 * decade(high) ? 2 * decade(high) : high >= 2 * decade(high) \
  ? decade(high) : high >= 1.2 * decade(high) ? 0.5 * decade(high) : 0.25 * decade(high)
do for [i = 1:n_lines] {
  set label CORNER[i] at screen (1.0 * PAD / width), \
    screen (((n_lines - i + 0.5) * (LINE - 3) + 1) / height) left font sprintf(',%d', SMALL) \
    textcolor rgb MUTED
}
do for [i = 1:entries] {
  x = PAD + ((i - 1) % legend_columns) * entry_width
  y = n_lines * (LINE - 3) + 4 + (legend_rows - (i - 1) / legend_columns - 0.5) * LINE
  if (legend eq 'lines') {
    set arrow from screen x / width, screen y / height to screen (x + 26) / width, \
      screen y / height nohead linetype i
  }
  set label LABEL[i] at screen (x + 32) / width, \
    screen y / height left textcolor rgb INK
  if (legend eq 'boxes') {
    set label ' ' at screen (x + 18) / width, screen y / height point linetype i pointtype 5 \
      pointsize 1.4
  } else {
    set label ' ' at screen (x + 13) / width, screen y / height point linetype i pointsize 0.8
  }
}
if (strlen(heading)) {
  set label heading at screen (1.0 * PAD / width), screen (1 - 0.5 * (LINE + 6) / height) left \
    textcolor rgb INK
}
