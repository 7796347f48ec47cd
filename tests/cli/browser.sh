#!/bin/sh
# The page of `tandem report DB` in a real browser: no error on its console, its tables and figures
# are there, and nothing of it is wider than a screen of 390 or 1280 pixels. Skipped (77) without
# Chromium.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || exit 77

# browse OPTION... : headless, with its console on stderr.
browse() {
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars \
    --user-data-dir="$work/profile" --enable-logging=stderr --v=0 "$@"
}

echo '<!DOCTYPE html><title>a</title><p>here</p>' >blank.html
browse --dump-dom "file://$work/blank.html" >out 2>err || exit 77 # it cannot run here
grep -q here out || exit 77

cat >small.yaml <<'END_OF_FILE'
model: llama2-70b
workload:
  lengths: {prompt: {constant: 500}, output: {constant: 20}}
  arrivals: {process: poisson, rate: 4 /s}
  requests: 20
pools:
  prefill: {role: prefill, machine: dgx-h100}
  decode: {role: decode, machine: dgx-h100}
policies: {router: token_jsq, transfer: splitwise}
slo: {ttft.p99: 200 ms, tpot.p99: 50 ms}
sweep:
  pools.prefill.count: 1..10
  workload.arrivals.rate: [1 /s, 2 /s, 3 /s, 4 /s, 5 /s, 6 /s, 7 /s, 8 /s, 9 /s, 10 /s]
  seed: [1, 2, 3, 4, 5]
END_OF_FILE
expect 0 "$tandem" sweep small.yaml --output sweep.db
expect 0 "$tandem" report sweep.db -o page.html
[ "$(wc -c <page.html)" -lt 3000000 ] || fail 'a page of 500 runs is large'

# A frame of each width holds the page; its script may look into it, and says what it found. The
# page itself has no script: its policy is taken out of the copy that is looked into.
for width in 390 1280; do
  cat >frame.html <<END
<!DOCTYPE html><meta charset="utf-8"><title>frame</title>
<iframe id="f" src="page.html" style="width:${width}px;height:900px;border:0"></iframe>
<pre id="found"></pre>
<script>
document.getElementById('f').addEventListener('load', function () {
  var page = this.contentDocument, root = page.documentElement, wide = [], dead = [];
  page.querySelectorAll('body *').forEach(function (e) {
    if (!e.closest('.scroll,svg') && e.getBoundingClientRect().right > $width + 1)
      wide.push(e.tagName);
  });
  page.querySelectorAll('a[href^="#"]').forEach(function (a) {
    if (!page.getElementById(a.getAttribute('href').slice(1))) dead.push(a.textContent);
  });
  document.getElementById('found').textContent =
      'tables=' + page.querySelectorAll('table tbody tr').length + ' figures=' +
      page.querySelectorAll('figure svg').length + ' wide=' + wide.join() + ' dead=' + dead.join() +
      ' scroll=' + (root.scrollWidth - root.clientWidth) + ' end';
});
</script>
END
  last="the page at $width pixels"
  browse --allow-file-access-from-files --virtual-time-budget=20000 --window-size=1400,1000 \
    --dump-dom "file://$work/frame.html" >out 2>err || fail 'the browser ended'
  grep -q 'tables=[1-9]' out || fail 'there are no tables'
  grep -q ' wide= dead= scroll=0 end' out || fail 'it is too wide, or a link is dead'
  ! command -v gnuplot >/dev/null || grep -q ' figures=[1-9]' out || fail 'there is no figure'
  grep 'CONSOLE' err >console && fail "console: $(head -3 console)"
done
finish
