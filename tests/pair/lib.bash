# lib.bash - two guests on a cable, a server on one and a client on the other
# shellcheck shell=bash
#
# Loaded by the bats files, which run on the host: run_pair boots both guests, and the tests look at
# what these left in a directory that all three share. Called as a program, this is what the guests
# run: lib.bash server|client. PAIR_CASES may be a pattern of the cases to run, for work on one.

# shellcheck source=tests/lib/process.bash
source "${BASH_SOURCE[0]%/*}/../lib/process.bash"
# shellcheck source=tests/lib/documents.bash
source "${BASH_SOURCE[0]%/*}/../lib/documents.bash"

SERVER_ADDR=10.99.0.1
SSH_PORT=2222
SLACK_MS=2000
HANG_MS=25000 # what has not ended by then is not waited for
GUEST_LIMIT=280 # seconds
WHOLE_BYTES=4000001

# What happens, in this order: NAME COMMAND LENGTH SIDE FAULT [ARG...]. A `whole` object is to arrive;
# an `endless` one never does. The fault strikes the SIDE's guest, or both: with `ahead` before the
# FAULT, before the client starts, else in mid-transfer. It is mended when both have ended. Loss is what
# the fabric survives: rxe sends all again that came after what was lost. With `ssh` for COMMAND, the client
# of a write starts its server by that.
list_cases() {
  local loss=1%
  [ "$FABRIC" != rxe ] || loss=0.1%
  cat << END
plain-write write whole nobody nothing
plain-post post whole nobody nothing
lossy-write write whole both ahead impair loss $loss
late-write write whole both ahead impair delay 10ms 4ms rate 1gbit
reordered-write write whole both ahead impair delay 5ms reorder 99.8%
doubled-write write whole both ahead impair duplicate 5%
flapping-write write whole server unplug 1
flapping-post post whole server unplug 1
too-lossy-write write endless both impair loss 50%
server-gone-write write endless server impair loss 100%
client-gone-write write endless client impair loss 100%
server-gone-post post endless server impair loss 100%
client-gone-post post endless client impair loss 100%
unplugged-write write endless server unplug
readdressed-write write endless server readdress
server-removed-write write endless server remove
client-removed-write write endless client remove
server-removed-post post endless server remove
client-removed-post post endless client remove
mended-write write whole nobody nothing
plain-check check endless nobody nothing
unreached-check check endless server ahead impair loss 100%
interrupted-check check endless server impair loss 100%
filtered-check check endless server ahead filter
narrow-check check endless both ahead narrow
mended-check check endless nobody nothing
ssh-write ssh whole nobody nothing
ssh-killed-write ssh endless client kill_client
END
}

# COMMAND LENGTH - the --timeout of a case. What ends by it is to do so soon; a login takes its time here, and
# each step of a check.
timeout_ms() {
  case $1-$2 in
    ssh-*) echo 60000 ;;
    check-*) echo 4000 ;;
    *-endless) echo 2000 ;;
    *) echo 10000 ;;
  esac
}

# ---- in both guests --------------------------------------------------------------------------

# What has to become true is the other guest's doing; GUEST_LIMIT bounds it.
wait_for() {
  until "$@"; do read -rt 0.02 -u "$nap_fd" || true; done
}
exists() { [ -e "$shared/$1" ]; }
# LOG PID
moves_or_is_gone() { grep -qs 'received GRANT\|received PLACE\|received VERIFIED\|completion, wr_id 0' "$1" || is_gone "$2"; }
# NAME WORD... - a file of the shared directory, which appears with its content
put() {
  printf '%s\n' "${*:2}" > "$shared/$1.$side.new"
  mv "$shared/$1.$side.new" "$shared/$1"
}

# What may strike, and what mends it.
impair() { tc qdisc add dev eth0 root netem "$@"; }
mend_impair() {
  tc -s qdisc show dev eth0 > "$shared/$name.$side.netem"
  tc qdisc del dev eth0 root
}
# [SECONDS] - the host pulls the cable. (`ip link set down` in the guest is no such thing: rxe's packets
# stay in the queue of the virtual card.)
unplug() {
  put "$name.unplug" "$@"
  wait_for exists "$name.unplugged"
}
mend_unplug() {
  put "$name.plug"
  wait_for exists "$name.plugged"
}
readdress() { ip addr del "$cidr" dev eth0; }
mend_readdress() { ip addr add "$cidr" dev eth0; }
# The command ends when nobody uses the device any more.
remove() {
  rdma link delete "${FABRIC}0" &
  removing=$!
}
mend_remove() {
  wait "$removing"
  rdma link add "${FABRIC}0" type "$FABRIC" netdev eth0
}

# A firewall: what RDMA uses is dropped on its way in, and nothing else.
filter() {
  local what=(match ip protocol 6 0xff)
  if [ "$FABRIC" = rxe ]; then what=(match ip protocol 17 0xff match ip dport 4791 0xffff); fi
  drop "${what[@]}"
}
mend_filter() { mend_drop; }
drop() { # MATCH...
  tc qdisc add dev eth0 ingress
  tc filter add dev eth0 ingress protocol ip u32 "$@" action drop
}
mend_drop() {
  tc -s filter show dev eth0 ingress > "$shared/$name.$side.filter"
  tc qdisc del dev eth0 ingress
}
# A path with another MTU than the client's: packets of 4 to 8 KiB are lost.
narrow() {
  case $side in
    client) ip link set dev eth0 mtu 4200 ;;
    server) drop match u16 0x1000 0xf000 at 2 ;;
  esac
}
mend_narrow() {
  case $side in
    client) ip link set dev eth0 mtu 1500 ;;
    server) mend_drop ;;
  esac
}

kill_client() { kill -KILL "$pid"; }
mend_kill_client() { :; }

is_mine() { case $strikes in "$side" | both) ;; *) false ;; esac }
strike() {
  if is_mine; then
    "${fault[@]}"
    put "$name.struck"
  fi
}
strike_ahead() { if [ "$ahead" = yes ]; then strike; fi; }
strike_now() {
  if [ "$ahead" = no ]; then
    wait_for exists "$name.moves"
    strike
  fi
}

# PID - waits for its end, and leaves its status and the time since the fault
record_end() {
  local status=0 start
  wait_for exists "$name.struck"
  read_clock
  start=$now_ms
  wait_for is_gone_or_hangs "$1"
  if is_gone "$1"; then
    wait "$1" || status=$?
  else
    status=hanging
    show_process "$1" >> "$shared/$name.$side.log"
    kill -KILL "$1"
  fi
  read_clock
  put "$name.$side" $status $((now_ms - start))
}
is_gone_or_hangs() {
  read_clock
  is_gone "$1" || [ $now_ms -gt $((start + HANG_MS)) ]
}

mend() {
  wait_for exists "$name.server"
  wait_for exists "$name.client"
  if is_mine; then "mend_${fault[0]}"; fi
  put "$name.$side.mended"
  wait_for exists "$name.server.mended"
  wait_for exists "$name.client.mended"
}

# An sshd for nobody but the holder of a key that is made here, which the client gets.
start_sshd() {
  mkdir -p ssh /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f ssh/host
  ssh-keygen -q -t ed25519 -N '' -f ssh/client
  # Where root has no password, sshd takes "*" for that, and "!" for a locked account.
  sed -i 's/^root:[^:]*:/root:*:/' /etc/shadow
  printf '%s\n' "ListenAddress $SERVER_ADDR:$SSH_PORT" "HostKey $PWD/ssh/host" "AuthorizedKeysFile $PWD/ssh/client.pub" \
    'StrictModes no' 'PermitRootLogin prohibit-password' 'PasswordAuthentication no' 'UsePAM no' 'UseDNS no' 'PidFile none' > ssh/sshd_config
  /usr/sbin/sshd -D -e -f "$PWD/ssh/sshd_config" 2> "$shared/$name.sshd.log" &
  sshd_pid=$!
  echo "[$SERVER_ADDR]:$SSH_PORT $(< ssh/host.pub)" > "$shared/known_hosts"
  cp ssh/client "$shared/identity"
  wait_for grep -qs listening "$shared/$name.sshd.log"
}

# The far end of a client's -e. What is left of it HANG_MS after the client's end is left for good.
serve_by_ssh() {
  local status=0 start
  start_sshd
  put "$name.ready" "$SERVER_ADDR"
  wait_for exists "$name.client"
  read_clock
  start=$now_ms
  wait_for no_server_or_too_late
  read_clock
  if is_server_there; then status=left; fi
  pgrep -af 'serve --control' >> "$shared/$name.server.log"
  put "$name.server" $status $((now_ms - start))
  kill "$sshd_pid"
  wait "$sshd_pid"
  rm -r ssh
}
is_server_there() { pgrep -f 'serve --control' > /dev/null; }
no_server_or_too_late() {
  read_clock
  ! is_server_there || [ $now_ms -gt $((start + HANG_MS)) ]
}

# Sets by: what has -e reach the server's host, without any file of the user's.
log_in() {
  cp "$shared/identity" "$shared/known_hosts" .
  chmod 600 identity
  by=(-e "ssh -F none -o KexAlgorithms=curve25519-sha256 -p $SSH_PORT -i $PWD/identity -o IdentitiesOnly=yes -o BatchMode=yes -o UserKnownHostsFile=$PWD/known_hosts"
    --remote-program "$RDMAPUT")
}

# The server of a check, which does not end with it.
serve_check() {
  local pid
  "$RDMAPUT" serve -v --bind $SERVER_ADDR --port 0 --timeout "$timeout" --ready-file "$shared/$name.ready" \
    --json-file "$shared/$name.server.json" 2> "$shared/$name.server.log" &
  pid=$!
  strike_now
  wait_for exists "$name.client"
  kill -TERM $pid
  record_end $pid
}

serve_case() { # COMMAND
  wait_for exists "$name.begins"
  case $1 in
    ssh) serve_by_ssh ;;
    check) serve_check ;;
    write) serve_transfer "$name.received" ;;
    post) serve_transfer --region 16M --ticket "$shared/$name.ticket" --dump "$name.received" ;;
  esac
}

serve_transfer() { # SINK...
  local pid
  "$RDMAPUT" serve -v --once --wait 25s --bind $SERVER_ADDR --port 0 --timeout "$timeout" --ready-file "$shared/$name.ready" \
    --json-file "$shared/$name.server.json" \
    "$@" 2> "$shared/$name.server.log" &
  pid=$!
  strike_now
  record_end $pid
}

# The second half of what is whole comes when the fault has struck.
feed() {
  head -c $((WHOLE_BYTES / 2)) source
  wait_for exists "$name.struck"
  tail -c +$((WHOLE_BYTES / 2 + 1)) source
}

send_case() { # COMMAND LENGTH
  local pid what to log=$name.trace command=$1 by=(--wait 20s)
  put "$name.begins"
  wait_for exists "$name.ready"
  read -r to < "$shared/$name.ready"
  if [ "$1" = post ]; then to=$(< "$shared/$name.ticket"); fi
  case $1-$2 in
    *-whole) what=(-) ;;
    write-* | ssh-*) what=(--sparse=never large) ;;
    post-*) what=(--segments-from list) ;;
    check-*) what=(--quick) ;;
  esac
  if [ "$1" = ssh ]; then
    log_in
    command=write to=root@$to/$PWD/$name.received
  fi
  "$RDMAPUT" "$command" --trace "${by[@]}" --timeout "$timeout" --json-file "$shared/$name.client.json" "${what[@]}" "$to" \
    < <(feed) > "$shared/$name.out" 2> "$log" &
  pid=$!
  wait_for moves_or_is_gone "$log" $pid
  put "$name.moves"
  strike_now
  record_end $pid
  tail -n 6 "$log" >> "$shared/$name.client.log"
}

run_case() { # NAME COMMAND LENGTH SIDE FAULT...
  name=$1 strikes=$4 ahead=no fault=("${@:5}") timeout=$(timeout_ms "$2" "$3")ms
  if [ "${fault[0]}" = ahead ]; then ahead=yes fault=("${fault[@]:1}"); fi
  if [ "$strikes" = nobody ]; then put "$name.struck"; fi
  strike_ahead
  case $side in server) serve_case "$2" ;; client) send_case "$2" "$3" ;; esac
  mend
  [ "$side" = server ] || return 0
  if [ "$3" = whole ] && head -c $WHOLE_BYTES "$name.received" | cmp - "$shared/source"; then put "$name.same"; fi
  find . -name "*$name*" > "$shared/$name.left"
  rm -f "$name.received"
}

# SIDE
run_guest() {
  local line
  side=$1
  exec {nap_fd}<> <(:)
  mkdir /tmp/work
  cd /tmp/work || return
  ulimit -l unlimited
  cidr=$(ip -4 -o address show dev eth0 | awk '{ print $4 }')
  if [ "$side" = client ]; then
    head -c $WHOLE_BYTES /dev/urandom | tee source > "$shared/source"
    truncate -s 256M large
    truncate -s 16M region
    for _ in {1..100}; do echo region@=0; done > list
  fi
  while read -ra line; do
    if [[ ${line[0]} =~ ^(${PAIR_CASES:-.*})$ ]]; then run_case "${line[@]}"; fi
  done < <(list_cases)
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  shared=$PAIR_SHARED
  run_guest "$1"
  exit
fi

# ---- on the host -----------------------------------------------------------------------------

bats_require_minimum_version 1.5.0
# shellcheck source=tests/lib/libraries.bash
source "${BASH_SOURCE[0]%/*}/../lib/libraries.bash"
load_libraries bats-support bats-assert
: "${RDMAPUT:?is to be the path of the program}"

# FABRIC - boots both guests, and waits until they have been through all cases
run_pair() {
  guest_pids=() shared=$BATS_FILE_TMPDIR/shared
  export FABRIC=$1
  mkdir -p "$shared"
  mkfifo "$BATS_FILE_TMPDIR/monitor.in" "$BATS_FILE_TMPDIR/monitor.out"
  boot_guest server 1 on -q "-chardev pipe,id=monitor,path=$BATS_FILE_TMPDIR/monitor -mon chardev=monitor"
  # The one that connects must find the other's socket.
  await_cable
  boot_guest client 2 off
  attend_cable
  wait "${guest_pids[@]}" || true
  echo "# $FABRIC: the guests took $SECONDS s" >&3
}
boot_guest() { # SIDE NUMBER LISTENS OPTION...
  "$BATS_TEST_DIRNAME/../../scripts/rxe-vm" -l "$FABRIC" -s 1 -m 1G -t $GUEST_LIMIT -d "$shared" -i "10.99.0.$2/24" \
    -n "stream,server=$3,addr.type=unix,addr.path=$BATS_FILE_TMPDIR/cable" "${@:4}" \
    -e "RDMAPUT=$RDMAPUT" -e "PAIR_SHARED=$shared" -e FABRIC -e PAIR_CASES bash "$BATS_TEST_DIRNAME/lib.bash" "$1" \
    > "$BATS_FILE_TMPDIR/$1.log" 2>&1 3>&- &
  guest_pids+=($!)
}
await_cable() {
  local tries=0
  until [ -e "$BATS_FILE_TMPDIR/cable" ] || [ $tries -ge 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
}

# Until the guests have ended: pulls the cable of the server's, and plugs it in again, as they ask for.
attend_cable() {
  local monitor asked seconds
  exec {monitor}<> "$BATS_FILE_TMPDIR/monitor.in"
  while kill -0 "${guest_pids[@]}" 2> /dev/null; do
    for asked in "$shared"/*.unplug; do
      [ -e "$asked" ] || continue
      seconds=$(< "$asked")
      echo 'set_link n0 off' >&"$monitor"
      mv "$asked" "${asked}ged"
      if [ -n "$seconds" ]; then
        sleep "$seconds"
        echo 'set_link n0 on' >&"$monitor"
      fi
    done
    for asked in "$shared"/*.plug; do
      [ -e "$asked" ] || continue
      echo 'set_link n0 on' >&"$monitor"
      mv "$asked" "${asked}ged"
    done
    sleep 0.05
  done
  exec {monitor}>&-
}

# After a failure: what both sides of the case said, and the guests.
show_pair() {
  [ "${BATS_TEST_COMPLETED-}" != 1 ] || return 0
  tail -n 40 "$BATS_FILE_TMPDIR"/shared/"$looked_at".*.log
  tail -n 5 "$BATS_FILE_TMPDIR"/*.log
}

# CASE SIDE STATUS TEXT... - how it ended, after no more than its timeout and a bit, and what it says; sets
# elapsed_ms
assert_ended() {
  local ended=$BATS_FILE_TMPDIR/shared/$1.$2 ended_with most command length text
  looked_at=$1
  read -r command length < <(list_cases | awk -v name="$1" '$1 == name { print $2, $3 }')
  most=$(timeout_ms "$command" "$length")
  [ -e "$ended" ] || fail "$1: the $2 did not end"
  read -r ended_with elapsed_ms < "$ended"
  echo "# deadline: $FABRIC: $1: $2: status $ended_with after $elapsed_ms ms of $most" >&3
  assert_equal "$ended_with" "$3"
  [ "$elapsed_ms" -le $((most + SLACK_MS)) ] || fail "$1: the $2 took $elapsed_ms ms of $most"
  for text in "${@:4}"; do
    grep -q "$text" "$BATS_FILE_TMPDIR/shared/$1.$2.log" || fail "$1: the $2 does not say '$text'"
  done
  # What runs at the far end of -e tells nothing there.
  if [ "$command-$2" != ssh-server ]; then assert_told "$1" "$2" "$ended_with"; fi
}

# CASE SIDE STATUS - what it told as JSON is as the schema and its status have it
assert_told() {
  local command=$2 faults serves=--once
  # Its server goes on after a check.
  case $1 in *-check) serves=- ;; esac
  if [ "$command" = client ]; then command=${1##*-}; fi
  faults=$(
    printf 'process\t%s\t%s\t%s\t%s\n' "$3" "$1" "${command/server/serve}" $serves
    cat "$BATS_FILE_TMPDIR/shared/$1.$2.json"
  ) && faults=$(find_document_faults <<< "$faults") || fail "$1: no document of the $2"
  [ -z "$faults" ] || fail "$1: the $2: $faults"
}

# CASE
assert_delivered() {
  assert_ended "$1" client 0
  assert_ended "$1" server 0
  [ -e "$BATS_FILE_TMPDIR/shared/$1.same" ] || fail "$1: something else arrived"
}

# CASE - nothing of what was not committed is left at the server
assert_nothing_left() { assert_equal "$(cat "$BATS_FILE_TMPDIR/shared/$1.left")" ''; }

# CASE COUNTER - the network did that to some packet
assert_netem() {
  grep -qE "$2 [1-9]" "$BATS_FILE_TMPDIR/shared/$1".*.netem ||
    fail "$1: no packet was $2: $(cat "$BATS_FILE_TMPDIR/shared/$1".*.netem)"
}
