# removal.bats - RDMA devices that are removed under servers and sessions
# bats file_tags=device
# shellcheck disable=SC2030,SC2031 # a test's own limits end with it
# shellcheck disable=SC2154 # variables of lib/common.bash
load lib/common

TIMEOUT_MS=3000
SLACK_MS=2000

setup() {
  common_setup
  need_device
  need_guest 'the devices of this system are not removed'
  ulimit -l unlimited 2> /dev/null || true # for regions
  mkdir target
  find_devices
  removing=''
}

# What a test removed is there again for the next one.
teardown() {
  local status=0
  common_teardown || status=1
  if [ -n "$removing" ]; then rdma link add "$device" type "$fabric" netdev "$netdev"; fi
  return $status
}

# Sets device and netdev, those behind $addr, and other_addr, which another device is behind.
find_devices() {
  netdev=$(ip -o -4 address show to "$addr" | awk '{ print $2 }')
  device=$(rdma link show | awk -v netdev="$netdev" '$NF == netdev { sub("/.*", "", $2); print $2 }')
  other_addr=$("$RDMAPUT" devices | awk -v mine="$device" '
    /^[^ ]/ { other = $1 !~ "^" mine "(/|$)" }
    other && $1 == "address" && $2 !~ /:/ { print $2; exit }')
  [ -n "$device" ] || fail "no device is behind $addr"
  [ -n "$other_addr" ] || lack 'there is no second RDMA device'
}

# The command ends when nobody has the device open any more: librdmacm keeps it so in each process that
# used it.
remove_device() {
  start_process remove rdma link delete "$device"
  removing=$process_pid
}

# NAME ADDR:PORT/... - a write in the background that has given 300,000 bytes, and goes on when feed is
# written to and closed. Sets fed_pid, fed_err.
start_fed_write() {
  [ -e source ] || make_file source 600000
  mkfifo "$1.pipe"
  input=$1.pipe start_process "$1" "$RDMAPUT" write --trace --timeout ${TIMEOUT_MS}ms - "$2"
  fed_pid=$process_pid fed_err=$process_err
  exec {feed}> "$1.pipe"
  head -c 300000 source >&"$feed"
  wait_for is_stored
}

# The bytes are at the server: as many answers as chunks.
is_stored() {
  local chunks answers
  chunks=$(grep -cs 'sending CHUNK' "$fed_err") answers=$(grep -cs 'received \(GRANT\|PLACE\)' "$fed_err")
  [ "$answers" -gt 0 ] && [ "$answers" -ge "$chunks" ]
}

# WHAT PID FILE TEXT - it ends in time with 69, and says so
assert_ends_in_time() {
  within $((TIMEOUT_MS + SLACK_MS)) wait_process "$2"
  note_deadline "$1: status $process_status after $elapsed_ms ms of $TIMEOUT_MS"
  assert_equal "$process_status" 69
  has_text "$3" "$4" || fail "$3 does not say '$4': $(tail -n 3 "$3")"
}
REMOVED='the RDMA device was removed from this host'
LISTENER_REMOVED='the RDMA device that the server listens on was removed'

@test "an idle server bound to a device that is removed ends with 69, and says so" {
  start_server target
  remove_device
  assert_ends_in_time server "$server_pid" "$server_err" "$LISTENER_REMOVED"
  assert [ ! -e "$ready_file" ]
}

@test "a device removed in mid-write: 69 on its host, and nothing is left" {
  start_server --timeout ${TIMEOUT_MS}ms target
  start_fed_write write "$dest/object"
  remove_device
  # On one host, the server may hear first that its client has left.
  assert_ends_in_time client "$fed_pid" "$fed_err" "$REMOVED; "
  assert_ends_in_time server "$server_pid" "$server_err" ' bytes were stored'
  assert_equal "$(tail -n 1 "$server_err")" "rdmaput: $LISTENER_REMOVED"
  assert_dir_holds target
}

@test "a device removed in mid-post: 69 on its host" {
  start_server --region 64M --ticket ./ticket --timeout ${TIMEOUT_MS}ms
  truncate -s 64M region
  for _ in {1..12}; do echo region@=0; done > list
  start_process post "$RDMAPUT" post --trace --timeout ${TIMEOUT_MS}ms --segments-from list "$(< ticket)"
  local post_pid=$process_pid post_err=$process_err
  wait_for_text "$post_err" 'completion, wr_id 0'
  remove_device
  assert_ends_in_time client "$post_pid" "$post_err" "$REMOVED"
  assert_ends_in_time server "$server_pid" "$server_err" "$LISTENER_REMOVED"
}

@test "a server on all addresses goes on with its other device" {
  local broken_pid broken_err broken_feed name
  server_bind='' start_server --timeout ${TIMEOUT_MS}ms target
  start_fed_write broken "$addr:$port/broken"
  broken_pid=$fed_pid broken_err=$fed_err broken_feed=$feed
  start_fed_write whole "$other_addr:$port/whole"
  remove_device
  assert_ends_in_time client "$broken_pid" "$broken_err" "$REMOVED"
  exec {broken_feed}>&-
  within $((TIMEOUT_MS + SLACK_MS)) wait_for_text "$server_err" ' bytes were stored'
  # The session on the other device, and a new one.
  tail -c +300001 source >&"$feed"
  exec {feed}>&-
  wait_process "$fed_pid"
  assert_equal "$process_status" 0
  run rdmaput write source "$other_addr:$port/new"
  assert_run 0
  run rdmaput write --timeout 3s source "$addr:$port/gone"
  assert_run 69
  assert_dir_holds target new whole
  for name in new whole; do assert_same source "target/$name"; done
  stop_server
}

@test "--retry goes on while the network leads nowhere for a time, once it has led somewhere" {
  local away=10.77.77.1
  ip addr add $away/32 dev "$netdev"
  server_bind='' start_server --region 1K
  wait_for has_device $away
  dest=$addr:$port start_slow_client
  make_file a 10
  start_process patient "$RDMAPUT" write --retry 20 a "$away:$port"
  local patient=$process_pid patient_err=$process_err
  wait_for_text "$patient_err" '(1 of 20)'
  ip addr del $away/32 dev "$netdev"
  wait_for_text "$patient_err" 'cannot resolve address: '
  ip addr add $away/32 dev "$netdev"
  end_slow_client
  assert_equal "$client_status" 0
  wait_process "$patient" 60
  assert_equal "$process_status" 0
  ip addr del $away/32 dev "$netdev"
  stop_server
  run --separate-stderr rdmaput write --retry 3 a "$away:$port"
  assert_equal "$status" 69
  [[ $stderr != *'trying again'* ]] || fail "$stderr"
}
has_device() { "$RDMAPUT" devices | grep -q "address *$1\$"; }

# bats test_tags=rxe
@test "a link that is down: client, check and server say whose" {
  [ "$fabric" = rxe ] || return 0
  make_file source 10
  local got first
  start_server target
  first=$server_pid
  echo 1 > "/proc/sys/net/ipv6/conf/$netdev/keep_addr_on_down"
  ip link set "$netdev" down
  run rdmaput write --timeout 2s source "$dest/x"
  got=$status
  echo "$output" > write
  rdmaput check --timeout 2s "$dest" > check || true
  start_server target
  cp "$server_err" serve
  ip link set "$netdev" up
  end_process "$server_pid"
  end_process "$first"
  # Its connection manager stays stuck.
  rdma link delete "$device"
  rdma link add "$device" type "$fabric" netdev "$netdev"
  echo 0 > "/proc/sys/net/ipv6/conf/$netdev/keep_addr_on_down"
  assert_equal "$got" 75
  grep "hint: port 1 of $device, on this host, is not active" write
  grep "hint: port 1 of $device, on this host, is not active" check
  grep "port 1 of $device is not active" serve
}
