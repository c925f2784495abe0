# lib.bash - two guests on a cable, a server on one and a client on the other
# shellcheck shell=bash
#
# Loaded by the bats files, which run on the host: run_pair boots both guests, and the tests look at
# what these left in a directory that all three share. Called as a program, this is what the guests
# run: lib.bash server|client.

SERVER_ADDR=10.99.0.1
TIMEOUT_MS=3000 SLACK_MS=2000
GUEST_LIMIT=150 # seconds
# What happens, in this order: NAME COMMAND VANISHES, the guest whose packets are all lost. Where none
# are, the timeout is the default.
CASES='plain-write write nobody
plain-post post nobody
write-server-gone write server
write-client-gone write client
post-server-gone post server
post-client-gone post client'

# ---- in both guests --------------------------------------------------------------------------

# Sets now_ms.
read_clock() {
  local us=${EPOCHREALTIME/[.,]/}
  now_ms=$((us / 1000))
}

# What has to become true is the other guest's doing; GUEST_LIMIT bounds it.
wait_for() {
  until "$@"; do read -rt 0.02 -u "$nap_fd" || true; done
}
exists() { [ -e "$shared/$1" ]; }
is_gone() { ! kill -0 "$1" 2> /dev/null; }
# LOG PID
moves_or_is_gone() { grep -q 'received GRANT\|received PLACE\|completion, wr_id 0' "$1" || is_gone "$2"; }

# CASE SIDE PID - waits for its end, and leaves its status and the time since the host vanished
record_end() {
  local status=0 start
  if [ "$vanishes" != nobody ]; then wait_for exists "$1.vanished"; fi
  read_clock
  start=$now_ms
  wait_for is_gone "$3"
  wait "$3" || status=$?
  read_clock
  echo "$status $((now_ms - start))" > "$shared/$1.$2.new"
  mv "$shared/$1.$2.new" "$shared/$1.$2"
}

# CASE SIDE - when it is this side that vanishes in this case
vanish() {
  [ "$2" = "$vanishes" ] || return 0
  wait_for exists "$1.moves"
  tc qdisc add dev eth0 root netem loss 100%
  : > "$shared/$1.vanished"
}

# CASE SIDE - waits for the other side's end
finish_case() {
  wait_for exists "$1.server"
  wait_for exists "$1.client"
  if [ "$2" = "$vanishes" ]; then tc qdisc del dev eth0 root; fi
}

serve_case() { # CASE COMMAND
  local timeout=(--timeout "${TIMEOUT_MS}ms")
  local sink=(--region 16M --ticket "$shared/$1.ticket" --dump "$1.received")
  if [ "$2" = write ]; then sink=("$1.received"); fi
  if [ "$vanishes" = nobody ]; then timeout=(); fi
  wait_for exists "$1.begins"
  "$RDMAPUT" serve -v --once --wait 25s --bind $SERVER_ADDR --port 0 "${timeout[@]}" --ready-file "$shared/$1.ready" \
    "${sink[@]}" 2> "$shared/$1.server.log" &
  vanish "$1" server
  record_end "$1" server $!
}

send_case() { # CASE COMMAND
  local what=(source) timeout=() to log=$1.trace
  : > "$shared/$1.begins"
  wait_for exists "$1.ready"
  read -r to < "$shared/$1.ready"
  if [ "$2" = post ]; then to=$(< "$shared/$1.ticket"); fi
  if [ "$vanishes" != nobody ]; then
    timeout=(--timeout "${TIMEOUT_MS}ms")
    case $2 in write) what=(--sparse=never large) ;; post) what=(--segments-from list) ;; esac
  fi
  "$RDMAPUT" "$2" --trace --wait 20s "${timeout[@]}" "${what[@]}" "$to" > "$shared/$1.out" 2> "$log" &
  if [ "$vanishes" != nobody ]; then
    wait_for moves_or_is_gone "$log" $!
    : > "$shared/$1.moves"
  fi
  vanish "$1" client
  record_end "$1" client $!
  tail -n 6 "$log" > "$shared/$1.client.log"
}

# SIDE
run_guest() {
  exec {nap_fd}<> <(:)
  mkdir /tmp/work
  cd /tmp/work || return
  ulimit -l unlimited
  if [ "$1" = client ]; then
    head -c 1000001 /dev/urandom | tee source > "$shared/source"
    truncate -s 256M large
    truncate -s 16M region
    for _ in {1..100}; do echo region@=0; done > list
  fi
  while read -r name command vanishes; do
    case $1 in server) serve_case "$name" "$command" ;; client) send_case "$name" "$command" ;; esac
    finish_case "$name" "$1"
    if [ "$1" = server ] && [ "$vanishes" = nobody ]; then
      head -c 1000001 "$name.received" | cmp - "$shared/source" && : > "$shared/$name.same"
    elif [ "$1" = server ] && [ "$command" = write ]; then
      find . -name "*$name*" > "$shared/$name.left"
    fi
  done <<< "$CASES"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  shared=$PAIR_SHARED
  run_guest "$1"
  exit
fi

# ---- on the host -----------------------------------------------------------------------------

bats_require_minimum_version 1.5.0
bats_load_library bats-support
bats_load_library bats-assert
: "${RDMAPUT:?is to be the path of the program}"

# FABRIC - boots both guests, and waits until they have been through all cases
run_pair() {
  local side pids=() number=1
  shared=$BATS_FILE_TMPDIR/shared
  mkdir -p "$shared"
  for side in server client; do
    "$BATS_TEST_DIRNAME/../../scripts/rxe-vm" -l "$1" -s 1 -m 1G -t $GUEST_LIMIT -d "$shared" -i 10.99.0.$number/24 \
      -n "stream,server=$([ $side = server ] && echo on || echo off),addr.type=unix,addr.path=$BATS_FILE_TMPDIR/cable" \
      -e "RDMAPUT=$RDMAPUT" -e "PAIR_SHARED=$shared" bash "$BATS_TEST_DIRNAME/lib.bash" $side \
      > "$BATS_FILE_TMPDIR/$side.log" 2>&1 3>&- &
    pids+=($!)
    number=$((number + 1))
    # The one that connects must find the other's socket.
    await_cable
  done
  wait "${pids[@]}" || true
}
await_cable() {
  local tries=0
  until [ -e "$BATS_FILE_TMPDIR/cable" ] || [ $tries -ge 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
}

# After a failure: what the guests said.
show_pair() {
  [ "${BATS_TEST_COMPLETED-}" != 1 ] || return 0
  tail -n 20 "$BATS_FILE_TMPDIR"/*.log "$BATS_FILE_TMPDIR"/shared/*.log
}

# CASE SIDE STATUS - how it ended; sets elapsed_ms
assert_ended() {
  local ended=$BATS_FILE_TMPDIR/shared/$1.$2 ended_with
  [ -e "$ended" ] || fail "$1: the $2 did not end"
  read -r ended_with elapsed_ms < "$ended"
  echo "$1: the $2 ended with $ended_with after $elapsed_ms ms"
  assert_equal "$ended_with" "$3"
}

# CASE
assert_delivered() {
  assert_ended "$1" client 0
  assert_ended "$1" server 0
  [ -e "$BATS_FILE_TMPDIR/shared/$1.same" ] || fail "$1: something else arrived"
}

# CASE SIDE TEXT... - the other host is gone: that side's end in time, and what it says
assert_gave_up() {
  local text
  assert_ended "$1" "$2" 75
  [ "$elapsed_ms" -le $((TIMEOUT_MS + SLACK_MS)) ] || fail "$1: the $2 took $elapsed_ms ms"
  for text in "${@:3}"; do
    grep -q "$text" "$BATS_FILE_TMPDIR/shared/$1.$2.log" || fail "$1: the $2 does not say '$text'"
  done
}
