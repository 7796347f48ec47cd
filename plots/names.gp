# LABEL[i]: what <names_of>1, <names_of>2, …, n_names of them, are called in at most `cap` letters,
# no two alike where the names differ: cut behind, in front or in the middle, else numbered.
# `widest`: letters of the longest.
set encoding utf8
letters(text, n) = strlen(text) <= n
cut_end(text, n) = letters(text, n) ? text : substr(text, 1, n - 1) . '…'
cut_front(text, n) = letters(text, n) ? text \
  : '…' . substr(text, strlen(text) - n + 2, strlen(text))
cut_middle(text, n) = letters(text, n) ? text : substr(text, 1, (n - 1) / 2) . '…' \
  . substr(text, strlen(text) - (n - 2) / 2 + 1, strlen(text))
cut(way, text, n) = way == 1 ? cut_end(text, n) : way == 2 ? cut_front(text, n) \
  : cut_middle(text, n)
numbered(text, i, n) = letters(text, n) ? text \
  : sprintf('%d: %s', i, cut_end(text, n - 2 - strlen(sprintf('%d', i))))
called(i) = value(sprintf('%s%d', names_of, i))
array LABEL[n_names > 0 ? n_names : 1]
LABEL[1] = ''
alike = 1
do for [way = 1:3] {
  if (alike) {
    do for [i = 1:n_names] { LABEL[i] = cut(way, called(i), cap) }
    alike = 0
    do for [i = 2:n_names] {
      do for [k = 1:i - 1] {
        if (LABEL[i] eq LABEL[k] && !(called(i) eq called(k))) { alike = 1 }
      }
    }
  }
}
if (alike) { do for [i = 1:n_names] { LABEL[i] = numbered(called(i), i, cap) } }
widest = 1
do for [i = 1:n_names] { if (strlen(LABEL[i]) > widest) { widest = strlen(LABEL[i]) } }
