# A figure over two keys. $series1: panel, places along x and y, mean, whether all limits were met.
panels = n_metrics
columns = panels > 1 ? 2 : 1
cell = inline ? 380 : panels > 1 ? 420 : 480
# Words are all named, numbers as there is room.
all_x = !x_numeric
all_y = !y_numeric
cap = 30
names_of = 'x_word'
n_names = x_words
load 'plots/names.gp'
array X_LABEL[x_words]
do for [i = 1:x_words] { X_LABEL[i] = LABEL[i] }
widest_x = widest
names_of = 'y_word'
n_names = y_words
load 'plots/names.gp'
array Y_LABEL[y_words]
do for [i = 1:y_words] { Y_LABEL[i] = LABEL[i] }
letter = inline ? 8.0 : 7.0
left = 44 + widest * letter
right = 84
room = (inline || panels == 1 ? (inline ? 560 : 860) : 550) - left - right
every_x = 1 + int(x_words * (8 + widest_x * letter) / room)
turned = all_x && every_x > 1 ? widest_x * letter + 4 : 0 # pixels that names take which stand
cell = cell + turned
if (all_y && 18 * y_words + 90 + turned > cell) { cell = 18 * y_words + 90 + turned }
entries = 0
legend = 'boxes'
stats $series1 using 5 nooutput name 'MET'
note = MET_records > 0 ? 'ring: all limits met' : ''
titled = 1
array LOW[panels]
array HIGH[panels]
do for [p = 1:panels] { # before there are ranges, which stats would keep to
  stats $series1 using ($1 == p ? $4 : NaN) nooutput name 'Z'
  LOW[p] = Z_min
  HIGH[p] = Z_max
}
load 'plots/style.gp'
# Cividis, of one order for all eyes and in grey (Nunez, Anderton and Renslow 2018).
set palette defined (0 '#00224e', 0.17 '#2f3d6e', 0.33 '#575d6d', 0.5 '#7d7c78', 0.67 '#a59c74', \
  0.83 '#d2c060', 1 '#fee838')
set colorbox user size 0.016, 0.5
set multiplot
if (turned == 0) { set xlabel x_label offset 0, 0.4 }
set ylabel y_label
unset grid
set border 0
BELOW = BELOW + turned / LINE
every_y = all_y ? 1 : 1 + y_words / 17
if (all_x) { every_x = 1 }
set xtics scale 0 norotate (X_LABEL[1] 0)
if (turned) { set xtics rotate by 90 right }
set ytics scale 0 (Y_LABEL[1] 0)
do for [i = 1 + every_x:x_words:every_x] { set xtics add (X_LABEL[i] i - 1) }
do for [i = 1 + every_y:y_words:every_y] { set ytics add (Y_LABEL[i] i - 1) }
set xrange [-0.5:x_words - 0.5]
set yrange [-0.5:y_words - 0.5]
do for [panel = 1:panels] {
  load 'plots/panel.gp'
  unset logscale cb
  set cbtics autofreq
  wide = LOW[panel] > 0 && HIGH[panel] > 30 * LOW[panel]
  if (wide) { eval set_log('cb', LOW[panel], HIGH[panel]) }
  set cbrange [LOW[panel]:HIGH[panel] > LOW[panel] ? HIGH[panel] : LOW[panel] + 1]
  middle = HIGH[panel] == LOW[panel] ? LOW[panel] + 1 : wide \
    ? sqrt(LOW[panel] * HIGH[panel]) : 0.5 * (LOW[panel] + HIGH[panel])
  set colorbox user origin screen (panel_x + panel_width - right + 14) / width, \
    screen (panel_y + BELOW * LINE) / height size screen 12.0 / width, \
    screen plot_height / height
  set title value(sprintf('metric%d', panel)) offset 0, -0.6
  if (turned > 0) { # below what stands
    set label 900 x_label at graph 0.5, screen (panel_y + 0.7 * LINE) / height center \
      textcolor rgb INK
  }
  room = (panel_width - left - right) / x_words
  room_y = plot_height / y_words
  numbers = room > 40 && room_y > 18
  plot $series1 using ($1 == panel ? $2 : NaN):3:(0.5):(0.5):4 with boxxyerror \
         fillstyle solid noborder palette notitle, \
       $series1 using ($1 == panel && numbers && $4 < middle ? $2 : NaN):3:(sprintf('%.3g', $4)) \
         with labels textcolor rgb 'white' notitle, \
       $series1 using ($1 == panel && numbers && $4 >= middle ? $2 : NaN):3:(sprintf('%.3g', $4)) \
         with labels textcolor rgb '#111111' notitle, \
       $series1 using ($1 == panel && $5 == 1 && $4 < middle ? $2 : NaN): \
         ($3 + (numbers ? 0.36 : 0)) with points pointtype 6 pointsize 0.5 linecolor rgb 'white' \
         linewidth 1.2 notitle, \
       $series1 using ($1 == panel && $5 == 1 && $4 >= middle ? $2 : NaN): \
         ($3 + (numbers ? 0.36 : 0)) with points pointtype 6 pointsize 0.5 linecolor rgb '#111111' \
         linewidth 1.2 notitle
}
unset multiplot
