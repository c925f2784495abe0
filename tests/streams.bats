# streams.bats - `write -` and `serve -`: pipes at both ends, slow, broken or closed ones too
# bats file_tags=rxe,storage
# shellcheck disable=SC2030,SC2031 # what a test sets for itself
# shellcheck disable=SC2034,SC2154 # variables of lib/common.bash
load lib/common

TIMEOUT_MS=3000
SLACK_MS=2000

setup() {
  common_setup
  need_device
  mkfifo stream feed
}

# A server of standard output, which is the pipe `stream`. It opens it when
# start_consumer, before or after, opens the other end.
start_stream() {
  server_wrapper=(bash -c 'exec "$@" > stream' bash)
  launch_server stream-server --bind "$addr" --timeout ${TIMEOUT_MS}ms -
}

# COMMAND... - reads the pipe `stream`; sets consumer_pid, consumer_out. Waits for the server.
start_consumer() {
  input=stream start_process consumer "$@"
  consumer_pid=$process_pid consumer_out=$process_out
  await_server
}

# FILE [ARG...] - a client that writes what it reads from FILE; sets client_pid, client_err
start_client() {
  input=$1 start_process client "${client_wrapper[@]}" "$RDMAPUT" write --trace \
    --timeout ${TIMEOUT_MS}ms "${@:2}" - "$dest"
  client_pid=$process_pid client_err=$process_err
}
client_wrapper=()

# As start_client, from a pipe that stays open: feed_fd
start_fed_client() {
  start_client feed
  exec {feed_fd}> feed
}

# As start_consumer, of one that reads BYTES and then nothing before go_on: all goes to $consumer_out
start_halting_consumer() {
  mkfifo go
  exec {go_fd}<> go
  # shellcheck disable=SC2016 # the other shell's
  start_consumer bash -c 'head -c "$1"; read -r < go; exec cat' bash "$1"
}
go_on() { echo >&"$go_fd"; }

# BYTES - the consumer has got so many
has_got() { [ "$(stat -c %s "$consumer_out")" -ge "$1" ]; }

# All three end, with these statuses: SERVER CLIENT CONSUMER.
assert_ends() {
  local statuses=()
  for process_pid in "$server_pid" "$client_pid" "$consumer_pid"; do
    wait_process "$process_pid"
    statuses+=("$process_status")
  done
  assert_equal "${statuses[*]}" "$*"
}

# FILE TEXT... - each is in what FILE says besides the trace
assert_says() {
  local text
  for text in "${@:2}"; do
    [[ $(grep -v ' completion of \| sending \| received \| RDMA write, ' "$1") == *"$text"* ]] ||
      fail "$1 does not say '$text': $(tail -n 5 "$1")"
  done
}

# PID - the most memory it has had resident, in KiB
peak_kib() { awk '$1 == "VmHWM:" { print $2 }' "/proc/$1/status"; }

# PID - how far it has read the file that is its standard input
input_position() { awk '$1 == "pos:" { print $2 }' "/proc/$1/fdinfo/0"; }

# ---- what goes in comes out --------------------------------------------------------------------

# bats test_tags=fast
@test "a tree goes through tar at both ends" {
  mkdir -p tree/sub/empty there
  make_file tree/a 700001
  make_file tree/sub/b 1
  : > tree/sub/c
  ln -s ../a tree/sub/link
  chmod 640 tree/a
  start_stream
  start_consumer tar x -C there
  tar c tree | rdmaput write - "$dest"
  assert_equal "${PIPESTATUS[*]}" '0 0'
  wait_server
  assert_equal "$server_status" 0
  wait_process "$consumer_pid"
  assert_equal "$process_status" 0
  diff -r --no-dereference tree there/tree
  diff <(cd tree && find . -printf '%P %M %l\n' | sort) <(cd there/tree && find . -printf '%P %M %l\n' | sort)
}

@test "256 MiB, on rxe 64, come out as they went in" {
  local parts=16
  # Emulated, rxe takes more than 20 s for 256 MiB.
  if [ "$fabric" = rxe ]; then parts=4; fi
  make_file part $((16 << 20))
  # Each part begins with its number, so that none can stand for another.
  # shellcheck disable=SC2016 # the other shells'
  local produce='for ((i = 0; i < $1; i++)); do echo "part $i"; cat part; done'
  start_stream
  start_consumer bash -c "exec cmp - <($produce)" bash $parts
  bash -c "$produce" bash $parts | RUN_LIMIT=100 rdmaput write - "$dest"
  wait_server
  assert_equal "$server_status" 0
  wait_process "$consumer_pid"
  assert_equal "$process_status" 0
}

# bats test_tags=fast
@test "segments and gaps come out in order, with zeros in the gaps, also before a stream" {
  make_file a 100000
  { head -c 70000 /dev/zero; head -c 1000 a; head -c 300000 /dev/zero; tail -c 50000 a; } > wanted
  start_stream
  start_consumer cat
  rdmaput write a@-50000=371000 a@+1000=70000 "$dest"
  wait_server
  assert_equal "$server_status" 0
  wait_process "$consumer_pid"
  assert_same wanted "$consumer_out"

  { head -c 500000 /dev/zero; cat a; } > wanted
  start_stream
  start_consumer cat
  rdmaput write -t "$dest" -- -@=500000 < <(cat a)
  wait_server
  assert_equal "$server_status" 0
  wait_process "$consumer_pid"
  assert_same wanted "$consumer_out"
}

@test "standard output may be a file, which is written from where it stands" {
  make_file a 300000
  server_wrapper=(bash -c '{ echo before; exec "$@"; } > out' bash)
  start_server -
  rdmaput write - "$dest" < a
  wait_server
  assert_equal "$server_status" 0
  { echo before; cat a; } > wanted
  assert_same wanted out
}

# ---- one session -------------------------------------------------------------------------------

@test "one session is served, and those that were refused do not count" {
  make_file a 1000
  start_stream
  start_consumer cat
  run rdmaput post a "rdmaput1,$addr,$port,0x1000,0x1,1000"
  assert_run 69 'no memory is exposed here'
  run rdmaput write a "$dest/name"
  assert_run 69 'takes no object name'
  assert [ ! -s "$consumer_out" ]
  run rdmaput write a "$dest"
  assert_run 0
  wait_server
  assert_equal "$server_status" 0
  wait_process "$consumer_pid"
  assert_same a "$consumer_out"
  run rdmaput write a "$dest"
  assert_run 69 'nobody listens'
}

@test "the server's status is the session's: a stream shorter than LENGTH is 66 at both ends" {
  make_file a 300000
  start_stream
  start_consumer cat
  run rdmaput write -t "$dest" -- -@+300001 < a
  assert_run 66 'too short'
  wait_server
  assert_equal "$server_status" 66
  assert_says "$server_err" 'too short' 'what was written before' 'stays'
}

@test "a second client is told that the server is busy" {
  make_file a 1000
  start_stream
  start_consumer cat
  start_fed_client
  echo begin >&"$feed_fd"
  wait_for_text "$client_err" 'received GRANT'
  run rdmaput write a "$dest"
  assert_run 75 'busy'
  exec {feed_fd}>&-
  assert_ends 0 0 0
  assert_equal "$(< "$consumer_out")" begin
}

# ---- slow ones ---------------------------------------------------------------------------------

@test "a consumer that stands still holds up the producer, in little memory, and nobody times out" {
  local position
  TIMEOUT_MS=1000
  make_file part $((4 << 20))
  for _ in {1..16}; do cat part; done > source
  start_stream
  start_halting_consumer $((48 << 20))
  start_client source
  wait_for has_got $((48 << 20))
  nap 1
  position=$(input_position "$client_pid")
  [ "$position" -le $((52 << 20)) ] || fail "$position bytes were read where 48 MiB are taken"
  nap 2.5
  assert_equal "$(input_position "$client_pid")" "$position"
  for process_pid in "$client_pid" "$server_pid"; do
    [ "$(peak_kib "$process_pid")" -le $((32 << 10)) ] ||
      fail "$(tr '\0' ' ' < "/proc/$process_pid/cmdline") had $(peak_kib "$process_pid") KiB resident"
  done
  go_on
  assert_ends 0 0 0
  assert_same source "$consumer_out"
}

@test "a producer that stands still is waited for" {
  TIMEOUT_MS=1000
  make_file a 600000
  start_stream
  start_consumer cat
  start_fed_client
  head -c 300000 a >&"$feed_fd"
  wait_for has_got 300000
  nap 3.5
  tail -c +300001 a >&"$feed_fd"
  exec {feed_fd}>&-
  assert_ends 0 0 0
  assert_same a "$consumer_out"
}

# ---- broken ones -------------------------------------------------------------------------------

# bats test_tags=fast
@test "a consumer that leaves early: 74 at both ends, and an endless producer ends too" {
  start_stream
  start_consumer head -c 1000000
  start_process yes bash -c 'exec yes > feed'
  local yes_pid=$process_pid
  start_client feed
  within $((TIMEOUT_MS + SLACK_MS)) assert_ends 74 74 0
  assert_says "$server_err" 'standard output: its reader has gone' 'what was written before' 'stays'
  assert_says "$client_err" 'standard output: its reader has gone' 'what was written before' 'stays'
  assert_equal "$(stat -c %s "$consumer_out")" 1000000
  wait_process "$yes_pid"
  assert_equal "$process_status" $((128 + 13))
}

@test "an error in reading standard input is no end of it" {
  local kind nth=3
  make_file a 3000000
  for kind in a feed; do
    # A pipe gives little at a time, and some is to have been sent.
    if [ $kind = feed ]; then nth=30; fi
    client_wrapper=(env LD_PRELOAD="$RDMAPUT_BUILD/tests/lib/fail-nth.so${LD_PRELOAD:+:$LD_PRELOAD}" FAIL_CALL=read
      FAIL_NTH="$nth" FAIL_FILE="$PWD/$kind" ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0")
    start_stream
    start_consumer cat
    if [ $kind = feed ]; then start_process feeder bash -c 'exec cat a > feed'; fi
    start_client $kind
    assert_ends 74 74 0
    assert_says "$client_err" 'rdmaput: -: cannot read: Input/output error'
    assert_says "$server_err" 'Input/output error' 'what was written before' 'stays'
    cmp -n "$(stat -c %s "$consumer_out")" a "$consumer_out"
  done
}

# bats test_tags=fast
@test "a client that is killed: the server ends with 75, and says what was written" {
  start_stream
  start_consumer cat
  start_fed_client
  echo begin >&"$feed_fd"
  wait_for has_got 6
  kill -KILL "$client_pid"
  within $((TIMEOUT_MS + SLACK_MS)) assert_ends 75 $((128 + 9)) 0
  assert_says "$server_err" 'what was written before (6 bytes) stays'
}

@test "a server that is killed: the client ends with 75" {
  start_stream
  start_consumer cat
  start_fed_client
  echo begin >&"$feed_fd"
  wait_for has_got 6
  kill -KILL "$server_pid"
  within $((TIMEOUT_MS + SLACK_MS)) assert_ends $((128 + 9)) 75 0
}

@test "a server whose consumer does not read notices that its client was killed" {
  truncate -s 8M a
  start_stream
  start_halting_consumer 100000
  start_client a
  wait_for has_got 100000
  kill -KILL "$client_pid"
  within $((TIMEOUT_MS + SLACK_MS)) wait_server
  assert_equal "$server_status" 75
  go_on
  assert_ends 75 $((128 + 9)) 0
}

# ---- signals -----------------------------------------------------------------------------------

@test "SIGTERM lets the session finish" {
  start_stream
  start_consumer cat
  start_fed_client
  echo begin >&"$feed_fd"
  wait_for has_got 6
  kill -TERM "$server_pid"
  wait_for_text "$server_err" 'once more to abort'
  echo end >&"$feed_fd"
  exec {feed_fd}>&-
  assert_ends 0 0 0
  assert_equal "$(< "$consumer_out")" $'begin\nend'
}

@test "a second SIGTERM aborts, also while the consumer does not read" {
  truncate -s 8M a
  start_stream
  start_halting_consumer 100000
  start_client a
  wait_for has_got 100000
  kill -TERM "$server_pid"
  wait_for_text "$server_err" 'once more to abort'
  kill -TERM "$server_pid"
  within $SLACK_MS wait_server
  assert_equal "$server_status" $((128 + 15))
  go_on
  assert_ends $((128 + 15)) 75 0
}

# ---- what standard output may not be ----------------------------------------------------------

@test "a full device is 74 at both ends" {
  make_file a 300000
  server_wrapper=(bash -c 'exec "$@" > /dev/full' bash)
  start_server -
  run rdmaput write - "$dest" < a
  assert_run 74 'standard output: cannot write: No space left on device'
  wait_server
  assert_equal "$server_status" 74
  assert_says "$server_err" 'standard output: cannot write: No space left on device'
}

@test "a standard output that is closed or cannot be written is 74" {
  : > empty
  # shellcheck disable=SC2016 # the other shell's
  run bash -c '"$@" >&-' bash timeout 20 "$RDMAPUT" serve -
  assert_run 74 'standard output: cannot be written' 'hint: '
  # shellcheck disable=SC2016
  run bash -c '"$@" 1< empty' bash timeout 20 "$RDMAPUT" serve -
  assert_run 74 'standard output: cannot be written' 'hint: '
}

@test "a standard output that is a terminal is 64" {
  need_command script
  run timeout 20 script -qec "'$RDMAPUT' serve -" /dev/null
  assert_run 64 'standard output: is a terminal' 'hint: '
}
