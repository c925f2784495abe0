# load.bats - many clients at once: limits, who is told busy, who comes again
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables of lib/common.bash, set in tests
load lib/common

setup() {
  common_setup
  need_device
  mkdir out
  echo data > a
}

# Keeps the most that was pinned at a time in peak.
watch_pinned() {
  read_server
  if [ "$pinned" -gt "$peak" ]; then peak=$pinned; fi
}
# KIB MOST - what was pinned is some, and no more than that; the fake fabric pins nothing
assert_pinned() {
  [ -z "${FAKE_FABRIC_KIND-}" ] || return 0
  if [ "$1" -eq 0 ] || [ "$1" -gt "$2" ]; then fail "$1 KiB were pinned, and $2 are allowed"; fi
}
is_as_before() {
  read_server
  [ "$pinned $threads ${#files[@]}" = "$before" ]
}

# bats test_tags=fast
@test "more sessions than --max-sessions are told busy, and have a place when one ends" {
  start_server --max-sessions 2 out
  dest+=/x
  start_slow_client
  local first=$client_pid
  exec 8>&7
  start_slow_client
  run --separate-stderr rdmaput write a "$dest"
  assert_equal "$status" 75
  [[ $stderr == *'busy with as many sessions as there may be'*'hint: '*--retry* ]] || fail "$stderr"
  end_slow_client
  assert_equal "$client_status" 0
  run rdmaput write a "$dest"
  assert_success
  exec 8>&-
  wait_process "$first"
  assert_equal "$process_status" 0
  stop_server
}

@test "one host has three quarters of the sessions" {
  start_server --max-sessions 4 out
  dest+=/x
  local pids=()
  for fd in 8 9 6; do
    start_slow_client
    pids+=("$client_pid")
    eval "exec $fd>&7"
  done
  run --separate-stderr rdmaput write a "$dest"
  assert_equal "$status" 75
  [[ $stderr == *'as many sessions as one host may have'* ]] || fail "$stderr"
  exec 6>&- 7>&- 8>&- 9>&-
  for pid in "${pids[@]}"; do
    wait_process "$pid"
    assert_equal "$process_status" 0
  done
  stop_server
}

# bats test_tags=siw
@test "--max-memory is shared out, and what has none left is told busy" {
  local pids=() count=0 err
  make_file large 3000000
  start_server -v --max-memory 1M out
  mkfifo fifo
  exec 7<> fifo
  # As many as come in, and one that does not.
  while [ $count -lt 20 ]; do
    start_process "holder$count" "$RDMAPUT" write --trace fifo "$dest/x$count"
    err=$process_err
    pids+=("$process_pid")
    wait_for is_served_or_gone "$err" "$process_pid"
    if is_gone "$process_pid"; then break; fi
    read_server
    assert_pinned "$pinned" 1024
    count=$((count + 1))
  done
  [ $count -ge 3 ] || fail "only $count clients at once"
  wait_process "$process_pid"
  assert_equal "$process_status" 75
  [[ $(< "$err") == *'busy with '*memory* ]] || fail "$(< "$err")"
  for pid in "${pids[@]::count}"; do kill -TERM "$pid"; done
  for pid in "${pids[@]::count}"; do wait_process "$pid"; done
  run rdmaput write --retry 5 large "$dest/y"
  assert_success
  assert_same large out/y
  stop_server
}
is_served_or_gone() { has_text "$1" 'received READY' || is_gone "$2"; }

@test "limits that leave no room for a session are usage errors" {
  run --separate-stderr rdmaput serve --max-sessions 0 out
  assert_equal "$status" 64
  run --separate-stderr rdmaput serve --max-memory 4K out
  assert_equal "$status" 64
  [[ $stderr == *'--max-memory: a session needs '*' bytes'* ]] || fail "$stderr"
  run --separate-stderr rdmaput serve --bind "$addr" --region 1M --ticket t --max-memory 1M
  assert_equal "$status" 64
}

# ---- a crowd ----------------------------------------------------------------------------------------

# 64 of them; fewer in a guest, unless RDMAPUT_TEST_CLIENTS says how many.
# bats test_tags=threads
@test "a crowd of clients, a quarter of them killed: what survives is whole, and the server is as before" {
  local clients=${RDMAPUT_TEST_CLIENTS:-$((fabric_threads > 0 ? 64 : 16))} each=${RDMAPUT_TEST_LOAD_BYTES:-2097152} pids=() i before status peak=0 killed
  local serving=(--timeout 60s --max-sessions 100 --max-memory 32M out)
  make_file src $((each + clients * 4096))
  start_server "${serving[@]}"
  read_server
  rdmaput write a "$dest/a"
  wait_for is_idle "$threads"
  before="$pinned $threads ${#files[@]}"
  stop_server
  # All of them wait for the next one, and come at once.
  for ((i = 0; i < clients; i++)); do
    start_process "client$i" "$RDMAPUT" write --timeout 60s --wait 60s --retry 20 "src@$((i * 4096))+$each" "$dest/x$i"
    pids+=("$process_pid")
  done
  start_server --port "$port" "${serving[@]}"
  watch_pinned
  RANDOM=11
  killed=' '
  while [ "$(wc -w <<< "$killed")" -lt $((clients / 4)) ]; do
    i=$((RANDOM % clients))
    if [[ $killed == *" $i "* ]]; then continue; fi
    killed+="$i "
    nap 0.1
    kill -KILL "${pids[i]}" 2> /dev/null || true
    watch_pinned
  done
  for ((i = 0; i < clients; i++)); do
    wait_process "${pids[i]}" 120
    watch_pinned
    if [[ $killed != *" $i "* ]]; then
      [ "$process_status" -eq 0 ] || fail "client $i: status $process_status"
      cmp -n "$each" -i $((i * 4096)):0 src "out/x$i"
      assert_equal "$(stat -c %s "out/x$i")" "$each"
    elif [ -e "out/x$i" ]; then
      cmp -n "$each" -i $((i * 4096)):0 src "out/x$i"
      assert_equal "$(stat -c %s "out/x$i")" "$each"
    fi
  done
  # How much of it there was to be seen depends on when one looked; that some is seen, the test before shows.
  echo "$peak KiB were pinned at most"
  [ "$peak" -le 32768 ]
  wait_for is_as_before
  assert_equal "$(find out -name '.*.rdmaput-*')" ''
  stop_server
}

# siw counts what root has pinned, too, and the server only hears of it when it has no more.
# bats test_tags=device
@test "clients that find no more locked memory at the server are told busy, and come again" {
  local pids=() i
  mkfifo hold
  server_wrapper=(prlimit --memlock=4194304)
  start_server out
  exec 7<> hold
  for ((i = 0; i < 10; i++)); do
    input=hold start_process client$i "$RDMAPUT" write --trace --retry 20 - "$dest/x$i"
    pids+=("$process_pid")
    wait_for is_served_or_later "$process_err"
  done
  exec 7>&-
  for ((i = 0; i < 10; i++)); do
    wait_process "${pids[i]}" 60
    [ "$process_status" -eq 0 ] || fail "client $i: status $process_status: $(grep -v 'completion\|PING\|PONG' ".bg-client$i.err")"
  done
  if [ "$fabric" = siw ]; then grep -q 'busy with other sessions: ' .bg-client*.err; fi
  stop_server
}
is_served_or_later() { has_text "$1" 'received READY' || has_text "$1" 'trying again'; }

# ---- --retry --------------------------------------------------------------------------------------

# bats test_tags=fast
@test "--retry waits for a busy server, and then delivers" {
  start_server --region 1K --dump out/d
  start_slow_client
  start_process patient "$RDMAPUT" write --retry 20 a "$dest"
  local patient=$process_pid patient_err=$process_err
  wait_for_text "$patient_err" 'trying again in'
  [[ $(< "$patient_err") == *'busy with another session'*'(1 of 20)'* ]] || fail "$(< "$patient_err")"
  end_slow_client
  assert_equal "$client_status" 0
  wait_process "$patient"
  assert_equal "$process_status" 0
  stop_server
  cmp -n 5 a out/d
}

@test "--retry gives up after so many times, with 75, and a signal ends its pause" {
  start_server --region 1K
  start_slow_client
  run --separate-stderr rdmaput write --retry 1 a "$dest"
  assert_equal "$status" 75
  assert_equal "$(grep -c 'trying again' <<< "$stderr")" 1
  start_process patient "$RDMAPUT" write --retry 20 a "$dest"
  wait_for_text "$process_err" 'trying again in'
  kill -TERM "$process_pid"
  within 2000 wait_process "$process_pid"
  assert_equal "$process_status" 143
  end_slow_client
  stop_server
}

@test "--retry goes on with what an interrupted session left, and sends no object twice" {
  make_file big 30000000
  make_file small 1000
  start_server -v out
  local first=$server_pid
  start_process client "$RDMAPUT" write -v --trace --resume --wait 30s --retry 5 small big "$dest/"
  local client=$process_pid client_err=$process_err
  wait_for_text "$server_err" 'committed, small'
  wait_for is_under_way
  kill -KILL "$first"
  wait_process "$first"
  wait_for_text "$client_err" 'trying again in'
  start_process again "$RDMAPUT" serve -v --bind "$addr" --port "$port" out
  server_pid=$process_pid server_err=$process_err
  wait_process "$client" 60
  assert_equal "$process_status" 0
  assert_same big out/big
  assert_same small out/small
  assert_equal "$(grep -c 'sending OPEN' "$client_err")" 3
  [[ $(< "$server_err") == *'committed, big: '*', of which '*' were there, in '* ]] || fail "$(< "$server_err")"
  stop_server
}
is_under_way() {
  local chunks
  chunks=$(grep -c 'sending CHUNK' "$client_err" || true)
  [ "$chunks" -ge 20 ]
}

@test "a pipe that was read is not sent again, and post tries again too" {
  start_server out/f
  mkfifo fifo
  exec 7<> fifo
  input=fifo start_process client "$RDMAPUT" write --trace --retry 5 - "$dest"
  echo begin >&7
  wait_for_text "$process_err" 'received GRANT'
  kill -KILL "$server_pid"
  wait_process "$process_pid"
  assert_equal "$process_status" 75
  [[ $(< "$process_err") != *'trying again'* ]] || fail "$(< "$process_err")"
  exec 7>&-
  start_server --region 1K --ticket ticket
  start_slow_client
  start_process poster "$RDMAPUT" post --retry 20 a "$(< ticket)"
  local poster=$process_pid poster_err=$process_err poster_out=$process_out
  wait_for_text "$poster_err" 'trying again in'
  end_slow_client
  wait_process "$poster"
  assert_equal "$process_status" 0
  assert_equal "$(< "$poster_out")" $'wr_id=0 bytes=5 status=success\ndelivery confirmed'
  stop_server
}

@test "of many, a pipe that was read is not sent again, and not passed over" {
  start_server out/
  mkfifo fifo
  exec 7<> fifo
  start_process client "$RDMAPUT" write --trace --wait 30s --retry 5 fifo a "$dest/"
  local client=$process_pid client_err=$process_err
  echo begin >&7
  wait_for_text "$client_err" 'received GRANT'
  kill -KILL "$server_pid"
  wait_process "$server_pid"
  wait_for_text "$client_err" 'trying again in'
  exec 7>&-
  start_process again "$RDMAPUT" serve --bind "$addr" --port "$port" out/
  server_pid=$process_pid
  wait_process "$client" 60
  assert_equal "$process_status" 75
  [[ $(< "$client_err") == *'fifo: not committed, and what was read of a stream'* ]] || fail "$(< "$client_err")"
  [[ $(< "$client_err") == *'1 of 2 objects were committed, and 1 were not'* ]] || fail "$(< "$client_err")"
  assert_same a out/a
  assert_dir_holds out a
  stop_server
}
