#!/bin/sh
# A sweep as an array of jobs under a real Slurm, one task of which is killed and submitted again,
# gives what a sweep without Slurm gives. Starts munged, slurmctld and slurmd of its own, as one
# node on the loopback address, and ends them. Skipped where Slurm is not installed.
export PATH="$PATH:/usr/sbin:/sbin"
for program in munged slurmctld slurmd sbatch squeue scancel scontrol sinfo; do
  command -v $program >/dev/null 2>&1 || {
    echo "no $program: skipped" >&2
    exit 77
  }
done
. "$TANDEM_SOURCE_DIR/tests/cli_testing.sh"

# --- Slurm, below the folder of the test.

daemons=
stop() {
  # shellcheck disable=SC2086 # one word per process
  [ -z "$daemons" ] || kill $daemons 2>/dev/null
  for pid in $daemons; do
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.2
    done
    kill -9 "$pid" 2>/dev/null
  done
  daemons=
}
trap 'stop; cd /; rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM

# give_up MESSAGE : with what the daemons have to say.
give_up() {
  echo "FAILED: $*" >&2
  tail -n 20 ./*.out slurmctld.log slurmd.log >&2
  exit 1
}

# start NAME COMMAND... : in the background, until stop.
start() {
  name=$1
  shift
  "$@" >"$name.out" 2>&1 &
  daemons="$! $daemons"
}

# await WHAT COMMAND... : until the command succeeds, for a minute at most.
await() {
  what=$1
  shift
  tries=0
  until "$@" >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || give_up "waited too long: $what"
    sleep 0.1
  done
}

chmod 711 "$work" # munged wants its socket to be within reach of all
umask 077
mkdir state spool
dd if=/dev/urandom of=munge.key bs=1 count=1024 2>/dev/null
port=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 20000))
cat >slurm.conf <<END
ClusterName=tandem
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=1
NodeName=node NodeHostname=localhost NodeAddr=127.0.0.1 CPUs=4
PartitionName=all Nodes=node Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF="$work/slurm.conf"
start munged munged --foreground --key-file "$work/munge.key" --socket "$work/munge.socket" \
  --pid-file "$work/munge.pid" --log-file "$work/munged.log" --seed-file "$work/munge.seed"
await 'munged' test -S munge.socket
start slurmctld slurmctld -D
await 'slurmctld' scontrol ping
start slurmd slurmd -D -N node
is_idle() { [ "$(sinfo -h -o %T)" = idle ]; }
await 'the node' is_idle

# --- An array of four shards; the third is killed on its way.

# shellcheck disable=SC2119 # it takes no arguments
config | sed 's/requests: 40/requests: 20000/' >e.yaml
echo 'sweep: {pools.all.count: 0..19, workload.arrivals.rate: 20..60 step 5 /s}' >>e.yaml
expect 0 "$tandem" sweep e.yaml --output direct.db
prints '180 points'

export TANDEM="$tandem"
script=$source_dir/experiments/slurm/sweep.sbatch
expect 0 sbatch --parsable --array=1-4 --output='%a.log' "$script" e.yaml shards
job=$(cat out)
began() {
  [ "$("$tandem" query shards/shard-0003.db --format csv --sql 'SELECT count(*) > 3 FROM run' |
    tail -n 1)" = 1 ]
}
await 'the first points of shard 3' began
expect 0 scancel --signal=KILL --full "${job}_3"
ended() { [ -z "$(squeue -h -j "$1" 2>/dev/null)" ]; }
await 'the end of the array' ended "$job"
state() { scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'; }
for shard in 1 2 4; do
  [ "$(state "${job}_$shard")" = COMPLETED ] || fail "shard $shard: $(cat $shard.log)"
done
[ "$(state "${job}_3")" != COMPLETED ] || fail 'shard 3 was not killed'
rejects 3 "$tandem" merge sweep.db shards/shard-*.db
says "of the 45 points of shard 3/4"

# --- Submitted again, it ends with the rows of the sweep without Slurm.

export TANDEM_SHARDS=4
expect 0 sbatch --parsable --array=3 --output=again.log "$script" e.yaml shards
again=$(cat out)
await 'the end of shard 3' ended "$again"
[ "$(state "${again}_3")" = COMPLETED ] || fail "shard 3 again: $(cat again.log)"
grep -q '^45 points: [1-9]' again.log || fail "shard 3 began anew: $(cat again.log)"
expect 0 "$tandem" merge sweep.db shards/shard-*.db
prints '180 runs of 4 databases'
same direct.db sweep.db

finish
