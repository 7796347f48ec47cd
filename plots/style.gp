# What all figures look like. A script sets `width` and `height`, pixels, and loads this before it
# draws; `inline` is 1 in a page, where a figure may be shown at 360 pixels.
#
# Colours are of Okabe and Ito, told apart by the colour-blind and in print, without their yellow,
# which is none on white; with them go dashes and points of their own.
INK = '#1a1a1a'
MUTED = '#6b6b6b'
GRID = '#d9d9d9'
array COLOUR[7] = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#6b6b6b']
if (terminal eq 'svg') {
  if (inline) { set terminal svg noenhanced size width, height font 'sans-serif,14' linewidth 1.2 }
  else {
    set terminal svg noenhanced size width, height font 'sans-serif,13' linewidth 1.2 \
      background rgb 'white'
  }
} else { set terminal pngcairo noenhanced size width, height font 'sans-serif,11' linewidth 1.4 }
array POINT[7] = [7, 5, 9, 11, 13, 6, 4]
array DASH[7] = [1, 2, 4, 5, 3, 1, 2]
do for [i = 1:28] {
  k = 1 + (i - 1 + (i - 1) / 7) % 7
  set linetype i linecolor rgb COLOUR[1 + (i - 1) % 7] linewidth 1.6 pointtype POINT[k] \
    pointsize 0.7 dashtype DASH[k]
}
set border 3 linecolor rgb MUTED linewidth 0.7
set tics nomirror textcolor rgb INK scale 0.5
set grid linecolor rgb GRID linetype 1 dashtype 1 linewidth 0.6
set xlabel textcolor rgb INK
set ylabel textcolor rgb INK
set title textcolor rgb INK
set key textcolor rgb INK samplen 2 spacing 1.1
set xtics autofreq
