#!/bin/sh
# Backends as programs: one of a page of Python goes all the way from measurement to validation; a
# backend that is killed, hangs, says what is no answer or cannot be started is an error with a
# name, and what was measured stays and is gone on with.
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"
unset TANDEM_FAKE TANDEM_BACKEND_TIMEOUT
command -v python3 >/dev/null || exit 77
example=$source_dir/calib/example_backend.py

[ "$(wc -l <"$example")" -le 100 ] || fail 'the example is longer than a page'
cp "$example" engine.py
engine() { "$tandem" calibrate --backend ./engine.py --model llama3-8b --layers 4 "$@"; }

# program NAME : makes a program of stdin.
program() {
  cat >"$1"
  chmod +x "$1"
}
# backend NAME : a program of Python whose `answer` of (call, request) stdin defines.
backend() {
  {
    echo '#!/usr/bin/env python3'
    echo 'import json, os, sys, time'
    cat
    echo 'for line in sys.stdin:'
    echo '    request = json.loads(line)'
    echo '    print(json.dumps(answer(request["call"], request)), flush=True)'
  } | program "$1"
}
# by NAME : calibrates with it; a model of two points is enough to get to any call.
by() {
  name=$1
  shift
  "$tandem" calibrate --backend "./$name" --model llama3-8b --layers 4 -o none.csv "$@"
}
one_line() { [ "$(grep -c 'error:' err)" -eq 1 ] || fail 'not one error'; }
# refused NAME TEXT : it is an error of the environment, one line that says so, and no file.
refused() {
  expect 4 by "$1" --budget 5s
  says "$2"
  one_line
  [ ! -e none.csv ] || fail 'a file without points'
}
points() { grep -v '^#\|^model,' "$1" | cut -d, -f1-8 | sort -u; }
# child PATH : of the newest process in the background, the one that runs this program.
child() {
  for file in /proc/[0-9]*/stat; do
    { read -r id _ _ parent _ <"$file"; } 2>/dev/null || continue
    [ "$parent" = "$!" ] && tr '\0' ' ' <"/proc/$id/cmdline" 2>/dev/null | grep -qF "$1" &&
      echo "$id"
  done
}
# until_there FILE : waits for it.
until_there() {
  tries=0
  until [ -s "$1" ] || [ "$tries" -eq 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
  [ -s "$1" ] || fail "there is no '$1'"
}

# --- the page of Python, all the way

expect 0 engine -o whole.csv
prints 'llama3-8b-4l on example, tensor_parallel_size 1'
grep -qx '# backend: example' whole.csv || fail 'the profile does not say its backend'
grep -qx '# library: example 1.0' whole.csv || fail 'the profile does not say the library'
grep -v '^#\|^model,' whole.csv | cut -d, -f4 | sort -u >ops
[ "$(cat ops)" = iteration ] || fail 'other rows than iterations'
expect 0 "$tandem" check whole.csv
cat >closed.yaml <<'END'
model: tiny-llama-50m
workload:
  lengths: {prompt: {uniform: [20, 200]}, output: {uniform: [4, 20]}}
  arrivals: {process: poisson, rate: 50 /s}
  requests: 40
  seed: 1
pools: {serve: {machine: cpu, count: 1, tensor_parallel_size: 1}}
policies: {batcher: {name: mixed, max_num_batched_tokens: 256, max_num_seqs: 8}}
perfmodel: {name: ./engine.yaml, insist: true}
slo: none
END
expect 0 "$tandem" calibrate --backend ./engine.py --model tiny-llama-50m -o engine.csv
expect 0 "$tandem" fit engine.csv -o engine.yaml
expect 0 "$tandem" validate closed.yaml --backend ./engine.py --any-device --within 5%
prints 'verdict      met: '
expect 3 "$tandem" calibrate --backend ./engine.py --model llama3-8b --tp 2 -o none.csv
says 'this engine runs whole models'
rejects 4 engine --device 1 -o none.csv
says 'there is no device 1'
expect 0 "$tandem" doctor --backend ./engine.py --model llama3-8b --format csv
prints 'not verified'

# --- killed in the middle

# start COMMAND... : in the background, each run of an engine taking 5 ms; with what it prints.
start() {
  last="$* &"
  ENGINE_PACE=0.005 "$@" >out 2>err &
}
# ended CODE : the one in the background.
ended() {
  code=0
  wait $! || code=$?
  [ "$code" -eq "$1" ] || fail "exit code $code, not $1"
}

for signal in 9 11; do
  rm -f killed.csv
  start "$tandem" calibrate --backend ./engine.py --model llama3-8b --layers 4 -o killed.csv
  until_there killed.csv
  sleep 0.5
  kill -$signal "$(child engine.py)"
  ended 4
  says "backend 'example' failed at 'iteration': './engine.py' was ended by signal $signal"
  says "at 'run_batch'"
  one_line
  expect 0 "$tandem" check killed.csv
  grep -qx '# finished: failed' killed.csv || fail 'the end is not recorded'
done
[ "$(points killed.csv | wc -l)" -lt "$(points whole.csv | wc -l)" ] ||
  fail 'it was not killed in time'
expect 0 engine --resume -o killed.csv
points whole.csv >want
points killed.csv >got
cmp -s want got || fail 'resuming came to other points'

# The same of a backend in C that measures operators.
rm -f fake.csv
start env TANDEM_FAKE=pace=0.0005 "$tandem" calibrate --backend fake --model llama3-8b --layers 2 \
  -o fake.csv
until_there fake.csv
kill -9 "$(child tandem-calib-fake)"
ended 4
says "tandem-calib-fake' was ended by signal 9 (Killed)"
one_line
expect 0 "$tandem" calibrate --backend fake --model llama3-8b --layers 2 --resume -o fake.csv
prints '601 of 655 points'
expect 0 "$tandem" check fake.csv

sed 's/^def run_batch(request):/&\n    open("running", "w").write("yes")/' engine.py |
  program marked.py
start "$tandem" validate closed.yaml --backend ./marked.py --any-device
until_there running
kill -9 "$(child marked.py)"
ended 4
says "'./marked.py' was ended by signal 9 (Killed) at 'run_batch' (running the batch"
one_line

# Its program ends when Tandem is killed.
start "$tandem" calibrate --backend ./engine.py --model llama3-8b --layers 4 -o orphan.csv
until_there orphan.csv
orphan=$(child engine.py)
kill -9 $!
wait $! 2>wait.err
[ -n "$orphan" ] || fail 'it had no backend'
is_gone() { [ -z "$(tr '\0' ' ' 2>/dev/null <"/proc/$orphan/cmdline")" ]; }
tries=0
until is_gone || [ "$tries" -eq 100 ]; do
  sleep 0.1
  tries=$((tries + 1))
done
is_gone || fail 'the backend outlives Tandem'

# --- interrupted: both of a terminal's group get SIGINT, and what was measured stays

rm -f interrupted.csv
start setsid "$tandem" calibrate --backend ./engine.py --model llama3-8b --layers 4 \
  -o interrupted.csv
until_there interrupted.csv
sleep 0.3
kill -INT "-$!" 2>kill.err || kill -INT $!
ended 130
says 'interrupted'
grep -q 'error:' err && fail 'an interruption is an error'
grep -q Traceback err && fail 'the backend was interrupted'
expect 0 "$tandem" check interrupted.csv
grep -qx '# finished: interrupted' interrupted.csv || fail 'the end is not recorded'

# A backend that hangs meanwhile is not waited for long.
backend hangs <<'END'
calls = 0
def answer(call, request):
    global calls
    calls += call == 'run_batch'
    if calls > 40:
        open('hanging', 'w').write('yes')
        time.sleep(1000)
    return {'protocol': 1, 'seconds': 0.01}
END
start "$tandem" calibrate --backend ./hangs --model llama3-8b --layers 4 -o hung.csv
until_there hanging
[ -s hung.csv ] || fail 'nothing was measured before'
kill -INT $!
ended 130
grep -q 'error:' err && fail 'an interruption is an error'
grep -qx '# finished: interrupted' hung.csv || fail 'the end is not recorded'
[ -z "$(child hangs)" ] || fail 'what hangs was left'

# One that ends as it loads a second model: the first is in the file, which says that it failed.
backend second <<'END'
def answer(call, request):
    if call == 'load' and request['tensor_parallel_size'] == 2:
        os._exit(3)
    return {'protocol': 1, 'seconds': 0.01}
END
expect 4 "$tandem" calibrate --backend ./second --model llama3-8b --layers 4 --tp 1,2 -o second.csv
says "'./second' has ended with exit code 3 at 'load'"
one_line
grep -qx '# finished: failed' second.csv || fail 'the end is not recorded'

# --- verification over the pipe: right, and wrong where one number of many is

cpu=$(dirname "$tandem")/calib/tandem-calib-cpu
export CPU="$cpu"
program proxy <<'END'
#!/usr/bin/env python3
import base64, json, os, struct, subprocess, sys
cpu = subprocess.Popen([os.environ['CPU']], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
has_run = False
for line in sys.stdin.buffer:
    cpu.stdin.write(line)
    cpu.stdin.flush()
    answer = cpu.stdout.readline()
    request = json.loads(line)
    has_run = request['call'] == 'run' or has_run and request['call'] != 'prepare'
    if has_run and request['call'] == 'read' and request['tensor'] == os.environ.get('WRONG'):
        changed = json.loads(answer)
        code = {'f32': '<f', 'f64': '<d'}[changed['type']]
        values = bytearray(base64.b64decode(changed['values']))
        at = len(values) - struct.calcsize(code)
        struct.pack_into(code, values, at, struct.unpack_from(code, values, at)[0] * 1.5 + 1)
        changed['values'] = base64.b64encode(bytes(values)).decode()
        answer = json.dumps(changed).encode() + b'\n'
    if request['call'] == 'columns' and 'COLUMNS_LIE' in os.environ:
        columns = json.loads(answer)['columns']
        lies = {name: int(os.environ['COLUMNS_LIE']) for name in columns}
        answer = json.dumps({'columns': lies}).encode() + b'\n'
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
END
by_proxy() {
  "$tandem" calibrate --backend ./proxy --model tiny-llama-50m --only gemm_o,norm --budget 20s \
    -o "$1"
}
if "$tandem" doctor --backend cpu --budget 1ms >out 2>err || [ $? -eq 1 ]; then
  expect 0 by_proxy right.csv
  prints 'verified against references'
  WRONG=added expect 4 by_proxy wrong.csv
  says "operator 'gemm_o' gives wrong results: 'gemm_o' of"
  says "'added' differs"
  one_line
  grep -q ',norm,' wrong.csv || fail 'the right operator is not measured'
  for lie in 0 1 1048576; do
    COLUMNS_LIE=$lie expect 4 by_proxy lie.csv
    says "columns in the backend"
    COLUMNS_LIE=$lie expect 1 "$tandem" doctor --backend ./proxy --model tiny-llama-50m
    prints 'columns in the backend'
  done
fi

# --- no answer

backend silent <<'END'
def answer(call, request):
    time.sleep(1000)
END
TANDEM_BACKEND_TIMEOUT=0.5 refused silent "did not answer 'hello' within 0.5 s"
says 'TANDEM_BACKEND_TIMEOUT=SECONDS sets another limit'
TANDEM_BACKEND_TIMEOUT=soon rejects 3 by silent
says "'soon' must be a number of seconds"

backend deaf <<'END'
def answer(call, request):
    if call == 'load':
        sys.stdout.write('\n')
    return {'protocol': 1}
END
refused deaf "gives no valid answer to 'load'"

program garbage <<'END'
#!/bin/sh
read -r _
echo 'Segmentation fault (not really)'
exec cat
END
refused garbage "gives no valid answer to 'hello'"
says "expected '{'"

program long <<'END'
#!/bin/sh
read -r _
head -c 100000000 /dev/zero | tr '\0' x
END
refused long "gives no valid answer to 'hello': the line is longer than 16 MiB"

backend newer <<'END'
def answer(call, request):
    return {'protocol': 2, 'name': 'newer'}
END
refused newer "'./newer' uses version 2 of the protocol, this program version 1"

program over <<'END'
#!/bin/sh
echo 'no library' >&2
exit 7
END
refused over "'./over' has ended with exit code 7 at 'hello'"
says 'no library'

# --- answers that are of another kind, or out of range

# answers TEXT NAME=VALUE : run_batch is answered with this.
answers() {
  backend odd <<END
def answer(call, request):
    if call == 'run_batch':
        return json.loads('{$2}', parse_constant=float)
    return {'protocol': 1}
END
  refused odd "$1"
}
answers "'seconds' must be a number from 0 to 1e30, not 'NaN'" '"seconds": NaN'
answers "'seconds' must be a number from 0 to 1e30, not '-1'" '"seconds": -1'
answers "'seconds' must be above 0" '"seconds": 0'
answers "'seconds' is missing" ''
answers "'seconds' must be a number from 0 to 1e30, not '[1]'" '"seconds": [1]'
answers "'status' must be a known name" '"error": "no", "status": "odd"'
answers 'the device is gone' '"error": "the device is gone"'
answers 'two lines' '"error": "two\\nlines"'

backend old <<'END'
def answer(call, request):
    calls = ['measure'] if os.environ.get('OPERATORS') else []
    return {'protocol': 1, 'sm': 70, 'calls': calls, 'seconds': 0.01}
END
expect 0 by old --dry-run
OPERATORS=1 expect 4 by old --dry-run
says 'has compute capability 7.0, the kernels need 8.0'
backend comma <<'END'
def answer(call, request):
    return {'protocol': 1, 'gpu': 'a,b'}
END
refused comma "'gpu' must consist of letters, digits"
backend large <<'END'
def answer(call, request):
    return {'protocol': 1, 'memory_bytes': 1 << 64}
END
refused large "'memory_bytes' must be a whole number from 0"

# --- what cannot be started

rejects 4 by absent
says './absent: error: cannot start the backend: No such file or directory'
echo text >text
rejects 4 by text
says "make the file executable: 'chmod +x'"
chmod +x text
rejects 4 by text
says "the first line of a script must name its interpreter"
printf '#!/absent/python\n' | program lost
rejects 4 by lost
says 'exists, but the interpreter that its first line names does not'
rejects 4 "$tandem" calibrate --backend /dev/null --model llama3-8b -o none.csv
rejects 4 "$tandem" validate closed.yaml --backend ./absent
rejects 4 "$tandem" doctor --backend ./absent

alone=$(without_backends cpu)
expect 0 "$alone" list backends
grep -qE '^cpu +.*/alone/bin/tandem-calib-cpu$' out || fail 'cpu is not where it is'
grep -qE '^cuda +not in this build$' out || fail 'cuda is in this build'

# --- Tandem itself opens no library of a backend

if command -v ldd >/dev/null; then
  ldd "$tandem" >libraries
  grep -iE 'openblas|llama|cuda|cublas' libraries && fail 'a library of a backend'
fi
finish
