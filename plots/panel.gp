# Where panel number `panel` is, counted row by row; what stands around was drawn with the first.
if (panel > 1) { unset label; unset arrow }
panel_width = 1.0 * width / columns
panel_x = ((panel - 1) % columns) * panel_width
panel_y = height - head - ((panel - 1) / columns + 1) * cell
set lmargin at screen (panel_x + left) / width
set rmargin at screen (panel_x + panel_width - right) / width
set bmargin at screen (panel_y + BELOW * LINE) / height
set tmargin at screen (panel_y + cell - (titled ? ABOVE : 0.6) * LINE) / height
plot_height = cell - (BELOW + (titled ? ABOVE : 0.6)) * LINE
