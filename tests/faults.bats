# faults.bats - peers that die, freeze or never were: every wait ends, with a status that says why,
# and leaves nothing behind
# shellcheck disable=SC2030,SC2031 # a test's own limits end with it
# shellcheck disable=SC2034,SC2154 # variables of lib/common.bash
load lib/common

TIMEOUT_MS=3000
SLACK_MS=2000

setup() {
  common_setup
  need_device
  ulimit -l unlimited 2> /dev/null || true # for regions
  mkdir target
  printf 'what was there before' > target/object
  cp target/object old
}

teardown() {
  if [ -n "${port_range-}" ]; then echo "$port_range" > /proc/sys/net/ipv4/ip_local_port_range; fi
  common_teardown
}

# [ARG...] - a server of target/object
start_file_server() { start_server --timeout ${TIMEOUT_MS}ms "$@" target/object; }

# [ARG...] - a server of a region; sets ticket
start_region() {
  start_server --timeout ${TIMEOUT_MS}ms --region 64M --ticket ./ticket --dump ./dump "$@"
  ticket=$(< ticket)
}

# NAME COMMAND ARG... - a client in the background; sets client_pid, client_out, client_err
start_client() {
  start_process "$1" "$RDMAPUT" "$2" --trace --timeout ${TIMEOUT_MS}ms "${@:3}"
  client_pid=$process_pid client_out=$process_out client_err=$process_err
}

# A write of a pipe that has given 300,000 bytes, all acknowledged, and stays open: feed
start_fed_write() {
  make_file source 600000
  mkfifo pipe
  input=pipe start_client write write - "$dest"
  exec {feed}> pipe
  head -c 300000 source >&"$feed"
  wait_for is_acknowledged
}
is_acknowledged() {
  # A GRANT for each chunk.
  local chunks grants
  [ -e "$client_err" ] || return 1
  chunks=$(grep -c 'sending CHUNK' "$client_err") grants=$(grep -c 'received GRANT' "$client_err")
  [ "$grants" -gt 0 ] && [ "$chunks" -eq "$grants" ]
}

# A write that goes on for as long as the tests take: 256 MiB.
start_long_write() {
  truncate -s 256M source
  start_client write write --sparse=never source "$dest"
  wait_for grep -qs 'received \(GRANT\|PLACE\)' "$client_err"
}

# A post of a pipe that has given 300,000 bytes, and stays open: feed
start_fed_post() {
  make_file source 600000
  mkfifo pipe
  input=pipe start_client post post - "$ticket"
  exec {feed}> pipe
  head -c 300000 source >&"$feed"
  wait_for_text "$client_err" 'wr_id 0: success'
}

# Many posts of the same 64 MiB, one after another in one session.
start_long_post() {
  truncate -s 64M source
  for _ in {1..12}; do echo source@=0; done > list
  start_client post post --segments-from list "$ticket"
  wait_for_text "$client_err" 'completion, wr_id 0'
}

assert_ends_in_time() {
  within $((TIMEOUT_MS + SLACK_MS)) wait_process "$1" 30
  note_deadline "status $process_status after $elapsed_ms ms of $TIMEOUT_MS"
}

# FILE TEXT... - each is in FILE
assert_says() {
  local text
  for text in "${@:2}"; do
    [[ $(grep -v ' completion\| sending \| received \|RDMA write of\|RDMA write, wr_id' "$1") == *"$text"* ]] ||
      fail "$1 does not say '$text': $(tail -n 5 "$1")"
  done
}

assert_nothing_left() {
  assert_dir_holds target object
  assert_same target/object old
}

# ---- a server that dies or freezes -----------------------------------------------------------

@test "a server killed while a write waits for input: 75 at once, and nothing is left" {
  start_file_server
  start_fed_write
  kill -KILL "$server_pid"
  assert_ends_in_time "$client_pid"
  assert_equal "$process_status" 75
  assert_says "$client_err" "$dest" 'bytes were acknowledged' 'hint: '
  assert_nothing_left
}

@test "a server killed in mid-write: 75 at once, and nothing is left" {
  start_file_server
  start_long_write
  kill -KILL "$server_pid"
  assert_ends_in_time "$client_pid"
  assert_equal "$process_status" 75
  assert_says "$client_err" "$dest" 'bytes were acknowledged' 'hint: '
  assert_nothing_left
}

@test "a server killed while a post waits for input: 75" {
  start_region
  start_fed_post
  kill -KILL "$server_pid"
  assert_ends_in_time "$client_pid"
  assert_equal "$process_status" 75
  assert_says "$client_err" "$dest" 'bytes were acknowledged'
}

@test "a server killed in mid-post: 75" {
  start_region
  start_long_post
  kill -KILL "$server_pid"
  assert_ends_in_time "$client_pid"
  assert_equal "$process_status" 75
  assert_says "$client_err" "$dest" 'bytes were acknowledged'
}

@test "a server stopped while a write waits for input: 75 within the timeout" {
  start_file_server
  start_fed_write
  kill -STOP "$server_pid"
  assert_ends_in_time "$client_pid"
  assert_equal "$process_status" 75
  assert_says "$client_err" "$dest" 'no sign of life from the peer for 3' 'bytes were acknowledged' 'hint: '
  kill -CONT "$server_pid"
  stop_server
  assert_nothing_left
}

@test "a server stopped in mid-write: 75 within the timeout" {
  start_file_server
  start_long_write
  kill -STOP "$server_pid"
  assert_ends_in_time "$client_pid"
  assert_equal "$process_status" 75
  assert_says "$client_err" "$dest" 'no sign of life' 'bytes were acknowledged'
  kill -CONT "$server_pid"
  stop_server
  assert_nothing_left
}

# bats test_tags=device
@test "a stopped server's memory still takes a post" {
  start_region
  start_fed_post
  kill -STOP "$server_pid"
  tail -c +300001 source >&"$feed"
  exec {feed}>&-
  wait_process "$client_pid"
  assert_equal "$process_status" 0
  assert_equal "$(tail -n 1 "$client_out")" 'delivery confirmed'
  kill -CONT "$server_pid"
  wait_for exists dump
  head -c 600000 dump | cmp - source
}

@test "a server aborted by a second signal in mid-write: 75, and nothing is left" {
  start_file_server
  start_fed_write
  kill -TERM "$server_pid"
  wait_for_text "$server_err" 'once more to abort'
  kill -TERM "$server_pid"
  assert_ends_in_time "$client_pid"
  assert_equal "$process_status" 75
  assert_says "$client_err" "$dest" 'bytes were acknowledged'
  wait_server 10
  assert_equal "$server_status" $((128 + 15))
  assert_nothing_left
}

# ---- a client that dies or freezes -----------------------------------------------------------

@test "a client killed while it waits for input: its session ends with 75, and nothing is left" {
  start_file_server --once
  start_fed_write
  kill -KILL "$client_pid"
  assert_ends_in_time "$server_pid"
  assert_equal "$process_status" 75
  assert_says "$server_err" "$addr" '300000 bytes were stored'
  assert_nothing_left
}

@test "a client killed in mid-write: its session ends, and the next write is served" {
  start_file_server
  start_long_write
  kill -KILL "$client_pid"
  within $((TIMEOUT_MS + SLACK_MS)) wait_for_text "$server_err" 'bytes were stored'
  assert_nothing_left
  make_file other 5000
  run rdmaput write other "$dest"
  assert_run 0
  assert_same other target/object
}

@test "a client killed in mid-post: the server goes on serving" {
  start_region
  start_long_post
  kill -KILL "$client_pid"
  within $((TIMEOUT_MS + SLACK_MS)) wait_for exists dump
  rm dump
  make_file other 5000
  run rdmaput post other "$ticket"
  assert_run 0 'delivery confirmed'
  wait_for exists dump
  head -c 5000 dump | cmp - other
}

@test "a client stopped while it waits for input: its session ends within the timeout" {
  start_file_server --once
  start_fed_write
  kill -STOP "$client_pid"
  assert_ends_in_time "$server_pid"
  assert_equal "$process_status" 75
  assert_says "$server_err" "$addr" 'no sign of life from the peer for 3' '300000 bytes were stored'
  assert_nothing_left
}

@test "a client stopped in mid-write: its session ends within the timeout" {
  start_file_server --once
  start_long_write
  kill -STOP "$client_pid"
  assert_ends_in_time "$server_pid"
  assert_equal "$process_status" 75
  assert_says "$server_err" "$addr" 'no sign of life' 'bytes were stored'
  assert_nothing_left
  kill -CONT "$client_pid"
  wait_process "$client_pid" 10
  assert_equal "$process_status" 75
}

@test "a client that ends by a signal in mid-write leaves nothing, and the server is told" {
  start_file_server --once
  start_long_write
  kill -INT "$client_pid"
  assert_ends_in_time "$client_pid"
  assert_equal "$process_status" $((128 + 2))
  wait_server 10
  assert_equal "$server_status" 75
  assert_says "$server_err" 'interrupted by a signal' 'bytes were stored'
  assert_nothing_left
}

# ---- a peer that freezes for a while ---------------------------------------------------------

@test "a server that is stopped for less than the timeout gets the rest" {
  TIMEOUT_MS=8000
  start_file_server
  start_fed_write
  kill -STOP "$server_pid"
  # It blocks when the pipe and the slots are full.
  start_process feeder bash -c "tail -c +300001 source >&9" 9>&"$feed"
  exec {feed}>&-
  nap 1.5
  kill -CONT "$server_pid"
  wait_process "$client_pid"
  assert_equal "$process_status" 0
  assert_same source target/object
}

@test "a client that is stopped for less than the timeout sends the rest" {
  TIMEOUT_MS=8000
  start_file_server
  start_fed_write
  kill -STOP "$client_pid"
  nap 1.5
  kill -CONT "$client_pid"
  tail -c +300001 source >&"$feed"
  exec {feed}>&-
  wait_process "$client_pid"
  assert_equal "$process_status" 0
  assert_same source target/object
}

@test "a source that gives nothing for longer than the timeout is no fault" {
  TIMEOUT_MS=1000
  start_file_server
  start_fed_write
  nap 2.5
  tail -c +300001 source >&"$feed"
  exec {feed}>&-
  wait_process "$client_pid"
  assert_equal "$process_status" 0
  assert_same source target/object
}

@test "a post whose source gives nothing for longer than the timeout is no fault" {
  TIMEOUT_MS=1000
  start_region
  start_fed_post
  nap 2.5
  tail -c +300001 source >&"$feed"
  exec {feed}>&-
  wait_process "$client_pid"
  assert_equal "$process_status" 0
  wait_for exists dump
  head -c 600000 dump | cmp - source
}

@test "a post that takes longer than the server's timeout arrives" {
  make_file source $((16 << 20))
  for _ in {1..8}; do echo source@=0; done > list
  TIMEOUT_MS=2000
  start_region -v
  run --separate-stderr rdmaput post --segments-from list "$ticket"
  echo "$stderr"
  assert_run 0
  assert_equal "${lines[-1]}" 'delivery confirmed'
  wait_for exists dump
  head -c $((16 << 20)) dump | cmp - source
}

# ---- storage that does not answer ------------------------------------------------------------

# Sets stalling, what runs a program whose files are not read or written while `stall` exists.
prepare_stall() {
  stalling=(env "LD_PRELOAD=$RDMAPUT_BUILD/tests/lib/stall.so${LD_PRELOAD:+:$LD_PRELOAD}" "RDMAPUT_TEST_STALL=$PWD/stall"
    "ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-}")
}

# [ARG...] - a server that has stored what a fed write gave it, and then does not store what follows
start_stalled_server() {
  prepare_stall
  server_wrapper=("${stalling[@]}")
  start_file_server --map=never "$@"
  start_fed_write
  touch stall
  # It blocks when the pipe and the slots are full.
  start_process feeder bash -c "tail -c +300001 source >&9" 9>&"$feed"
  exec {feed}>&-
  wait_for is_unanswered
}
is_unanswered() { ! is_acknowledged; }

# COMMAND ARG... - a client that has sent some of a file, and cannot read the rest
start_stalled_client() {
  prepare_stall
  touch stall
  truncate -s 16M source
  start_process "$1" "${stalling[@]}" RDMAPUT_TEST_STALL_AT=0x800000 "$RDMAPUT" "$1" --trace --timeout ${TIMEOUT_MS}ms "${@:2}"
  client_pid=$process_pid client_err=$process_err
  wait_for grep -qs 'received GRANT\|completion, wr_id 0' "$client_err"
}

is_cleared() { (assert_dir_holds target object) > /dev/null 2>&1; }

@test "the server's storage stands still for three timeouts, and the peers live" {
  TIMEOUT_MS=1000
  start_stalled_server
  nap 3.2
  if is_gone "$client_pid" || is_gone "$server_pid"; then fail 'a session ended'; fi
  if is_acknowledged; then fail 'storage did not stand still'; fi
  rm stall
  wait_process "$client_pid"
  assert_equal "$process_status" 0
  assert_same source target/object
}

@test "the client's storage stands still for three timeouts, and the peers live" {
  TIMEOUT_MS=1000
  start_file_server --map=never
  start_stalled_client write --sparse=never source "$dest"
  nap 3.2
  if is_gone "$client_pid" || is_gone "$server_pid"; then fail 'a session ended'; fi
  if has_text "$client_err" 'sending END'; then fail 'storage did not stand still'; fi
  rm stall
  wait_process "$client_pid"
  assert_equal "$process_status" 0
  assert_same source target/object
}

@test "a client stopped while the server's storage stands still: 75 in time" {
  TIMEOUT_MS=2000
  start_stalled_server --once
  kill -STOP "$client_pid"
  assert_ends_in_time "$server_pid"
  assert_equal "$process_status" 75
  assert_says "$server_err" "$addr" 'no sign of life' 'storage does not answer'
  assert_same target/object old
}

@test "a server whose storage answers again goes on, and says once how the session ended" {
  TIMEOUT_MS=1000
  start_stalled_server
  kill -KILL "$client_pid"
  within $((TIMEOUT_MS + SLACK_MS)) wait_for_text "$server_err" 'storage does not answer'
  rm stall
  make_file other 5000
  run rdmaput write other "$dest"
  assert_run 0
  assert_same other target/object
  wait_for is_cleared # of what the session had begun
  assert_equal "$(grep -c 'bytes were stored' "$server_err")" 1
  stop_server
}

@test "a second signal aborts a server whose storage stands still" {
  start_stalled_server
  kill -TERM "$server_pid"
  wait_for_text "$server_err" 'once more to abort'
  kill -TERM "$server_pid"
  within $SLACK_MS wait_server
  assert_equal "$server_status" $((128 + 15))
  wait_process "$client_pid"
  assert_equal "$process_status" 75
}

@test "a server killed while the client's storage stands still: 75 in time" {
  start_file_server --map=never
  start_stalled_client write --sparse=never source "$dest"
  kill -KILL "$server_pid"
  assert_ends_in_time "$client_pid"
  assert_equal "$process_status" 75
  assert_says "$client_err" "$dest" 'bytes were acknowledged'
}

@test "a server killed while the storage of a post stands still: 75 in time" {
  start_region
  start_stalled_client post source "$ticket"
  kill -KILL "$server_pid"
  assert_ends_in_time "$client_pid"
  assert_equal "$process_status" 75
}

# ---- nobody there ----------------------------------------------------------------------------

# bats test_tags=fast
@test "nobody listens: 69, and what to start" {
  make_file source 10
  start_server --discard
  stop_server
  within $((TIMEOUT_MS + SLACK_MS)) run rdmaput write --timeout 3s source "$dest"
  assert_run 69 "rdmaput: $dest: connection rejected: nobody listens on that port" "hint: start 'rdmaput serve'"
}

# bats test_tags=fast
@test "a server on another port: 69" {
  make_file source 10
  start_server --discard
  within $((TIMEOUT_MS + SLACK_MS)) run rdmaput write --timeout 3s source "$addr:$((port > 1024 ? port - 1 : port + 1))"
  assert_run 69 'nobody listens on that port'
}

# bats test_tags=device
@test "an address that nobody has: 75 within the timeout, and what to look at" {
  make_file source 10
  within $((TIMEOUT_MS + SLACK_MS)) run rdmaput write --timeout 3s source "${addr%.*}.237"
  assert_run 75 "${addr%.*}.237" 'timed out' 'hint: '
}

# bats test_tags=fast,device
@test "an address that no route leads to: 69 at once" {
  make_file source 10
  if ip route get 203.0.113.1 > /dev/null 2>&1; then skip 'this host has a default route'; fi
  within $((TIMEOUT_MS + SLACK_MS)) run rdmaput write --timeout 3s source 203.0.113.1
  assert_run 69 203.0.113.1 'cannot resolve address' 'hint: '
}

# COUNT - a program that listens for TCP on the first COUNT of eight ports, the only ones that this host now chooses from
take_ports() {
  echo 50000 50007 > /proc/sys/net/ipv4/ip_local_port_range
  # shellcheck disable=SC2016 # perl's own variables
  start_process listeners perl -MIO::Socket::IP -e '
    $| = 1;
    my @all = map { IO::Socket::IP->new(LocalHost => $ARGV[0], LocalPort => 50000 + $_, Listen => 1, ReuseAddr => 1) or die "$_: $@" } 0 .. $ARGV[1] - 1;
    print "ready\n";
    sleep 60' "$addr" "$1"
  wait_for_text "$process_out" ready
}

# bats test_tags=fast,device,siw
@test "ports that TCP connections of this host have are not the end of a write" {
  need_root 'choose the ports'
  make_file source 10
  start_file_server
  read -r port_range < /proc/sys/net/ipv4/ip_local_port_range
  take_ports 6
  for _ in {1..4}; do rdmaput write source "$dest" 2>> errors || echo "status $?" >> errors; done
  end_process "$process_pid"
  take_ports 8
  run rdmaput write source "$dest"
  echo "write: status $status: $output"
  if [ -s errors ]; then cat errors; false; fi
  # Only where connections are TCP's are there ports that both want.
  if [ "$fabric" = siw ]; then
    assert_run 75 'the port that was chosen here for it is in use' 'hint: other TCP connections'
  else
    [ "$status" -eq 0 ]
  fi
}

# bats test_tags=fast,device
@test "loopback addresses: 69, and the hint names an address that works" {
  local loopback hint address found
  make_file source 10
  for loopback in 127.0.0.1 '[::1]'; do
    run rdmaput write --timeout 3s source "$loopback"
    assert_run 69 'loopback addresses have no RDMA device'
    hint=$(grep 'hint: ' <<< "$output")
    found=no
    while read -r address; do
      if [[ " ${hint//[,;]/ } " == *" $address "* ]]; then found=yes; fi
    done < <("$RDMAPUT" devices | awk '$1 == "address" { print $2 }')
    [ $found = yes ] || fail "no address of a device in: $hint"
  done
}

# bats test_tags=fast
@test "a host that cannot be found: 69, and 75 where no name service answers" {
  make_file source 10
  find_unknown_status
  run rdmaput write --timeout 3s source no-such-host.invalid:7475
  assert_run $unknown_status no-such-host.invalid 'cannot find that host' 'hint: '
  if [ $unknown_status -eq 75 ]; then assert_output --partial /etc/resolv.conf; fi
}

# ---- somebody else there ---------------------------------------------------------------------

# bats test_tags=fast
@test "a write to another program's port: 76" {
  make_file source 10
  start_process foreign "$RDMAPUT_BUILD/tests/foreign-listener" -b "$addr"
  wait_for_text "$process_out" ' '
  read -r _ port _ < "$process_out"
  within $((TIMEOUT_MS + SLACK_MS)) run rdmaput write --timeout 3s source "$addr:$port"
  assert_run 76 "$addr:$port" "does not speak rdmaput's protocol" 'hint: '
}

@test "another program that connects is turned away, and the server goes on" {
  need_command rping
  make_file source 5000
  start_file_server --once
  run timeout 20 rping -c -a "$addr" -p "$port" -C 1
  assert [ "$status" -ne 0 ]
  wait_for_text "$server_err" refused
  run rdmaput write source "$dest"
  assert_run 0
  wait_server
  assert_equal "$server_status" 0
  assert_same source target/object
}

@test "a client interrupted while it is busy sending ends at once" {
  local again=()
  start_file_server
  truncate -s 256M long
  truncate -s 64M part
  for _ in {1..16}; do again+=(part@=0); done
  start_process busy-write "$RDMAPUT" write --trace --sparse=never long "$dest"
  assert_interrupted_at_once
  start_region
  start_process busy-post "$RDMAPUT" post --trace "${again[@]}" "$ticket"
  assert_interrupted_at_once
  assert_nothing_left
}
assert_interrupted_at_once() {
  wait_for_text "$process_err" 'completion'
  kill -INT "$process_pid"
  within $((SLACK_MS + 2000)) wait_process "$process_pid"
  assert_equal "$process_status" 130
}

# FUNCTIONS END - one call of each fails inside of that end; all calls do at both, in faults-inside.bats
sweep() {
  run "$RDMAPUT_BUILD/tests/fault-sweep" -a "$addr" -f "$1" -s 1 -j 2 write "$2"
  assert_success
  [[ $output =~ ^([0-9]+)\ cases,\ 0\ failed$ && ${BASH_REMATCH[1]} -ge 10 ]] || fail "$output"
}

# bats test_tags=device
@test "calls of librdmacm that fail inside of the client: their status and message suit" { sweep 'rdma_*' client; }

# bats test_tags=device
@test "calls of libibverbs that fail inside of the server: their status and message suit" { sweep 'ibv_*' server; }

# ---- write -e (more of that in rsh.bats) -----------------------------------------------------------

# bats test_tags=device
@test "a client that started its server and is killed leaves nothing of it" {
  load lib/rsh
  setup_rsh
  start_fed_put
  kill -KILL "$client_pid"
  wait_put
  assert_equal "$process_status" 137
  assert_nothing_left
}
