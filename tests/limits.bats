# limits.bats - what an ordinary user may pin, and what large objects need
# shellcheck disable=SC2154 # variables of lib/common.bash
load lib/common

# A user that is nobody in particular: root is exempt from the limit on some devices.
USER_ID=1000

setup_file() {
  # Where another user can reach it.
  chmod a+x "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR"
  install -m 755 "$RDMAPUT" "$BATS_FILE_TMPDIR/rdmaput"
}

setup() {
  RDMAPUT=$BATS_FILE_TMPDIR/rdmaput
  common_setup
  need_device
  chmod a+x "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" 2> /dev/null || true
  chmod 777 .
}

# KIB COMMAND... - as an ordinary user, who may lock that much memory
limited() {
  # shellcheck disable=SC2016 # for the other shell
  local command=(bash -c 'ulimit -l "$0" && exec "$@"' "$@")
  if [ "$EUID" -eq 0 ]; then
    command=(setpriv "--reuid=$USER_ID" "--regid=$USER_ID" --clear-groups "${command[@]}")
  fi
  run_program "${command[@]}"
}

# KIB - servers that are started then are limited likewise
limit_server() {
  # shellcheck disable=SC2016
  server_wrapper=(bash -c 'ulimit -l "$0" && exec "$@"' "$1")
  if [ "$EUID" -eq 0 ]; then
    server_wrapper=(setpriv "--reuid=$USER_ID" "--regid=$USER_ID" --clear-groups "${server_wrapper[@]}")
  fi
}

# FILE STATUS LIMIT - it worked, or says what was to be pinned, the limit, and where to raise it
assert_worked_or_explained() {
  [ "$2" -ne 0 ] || return 0
  assert_equal "$2" 71
  [[ $1 =~ cannot\ (register|create)\ .*,\ with\ a\ limit\ of\ locked\ memory\ of\ $3 ]] ||
    fail "neither what was to be pinned nor the limit of $3 is in: $1"
  [[ $1 == *'hint: raise the limit of locked memory: '*'ulimit -l'*limits.conf*LimitMEMLOCK=* ]] ||
    fail "no hint at the limit in: $1"
}

# PID SECONDS - the largest VmHWM and VmPin until its end, in KiB: peak_resident, peak_pinned
watch_memory() {
  peak_resident=0 peak_pinned=0
  WAIT_LIMIT=$2 wait_for has_ended "$1"
}
# In the moment of its exec a process may show no memory, and goes on all the same.
has_ended() {
  read_memory "$1" || true
  is_gone "$1"
}

# PID - raises peak_resident and peak_pinned; 1 when it shows no memory
read_memory() {
  local key value resident='' pinned=0
  while read -r key value _; do
    case $key in VmHWM:) resident=$value ;; VmPin:) pinned=$value ;; esac
  done 2> /dev/null < "/proc/$1/status" || return 1
  [ -n "$resident" ] || return 1
  if [ "$resident" -gt "$peak_resident" ]; then peak_resident=$resident; fi
  if [ "$pinned" -gt "$peak_pinned" ]; then peak_pinned=$pinned; fi
}

# ---- an ordinary user ------------------------------------------------------------------------

# bats test_tags=device
@test "an ordinary user's 8 MiB suffice for a write" {
  make_file source 3000001
  limit_server 8192
  start_server received
  run limited 8192 "$RDMAPUT" write source "$dest"
  assert_run 0
  assert_same received source
}

# bats test_tags=device
@test "an ordinary user's 8 MiB suffice for a region of 4 MiB and a post into it" {
  make_file source $((4 << 20))
  limit_server 8192
  start_server --region 4M --ticket ./ticket --dump ./dump
  chmod a+r ticket
  run limited 8192 "$RDMAPUT" post source "$(< ticket)"
  assert_run 0 'delivery confirmed'
  wait_for exists dump
  assert_same dump source
}

# bats test_tags=device
@test "a client that may pin little or nothing works, or says at once what it needs" {
  local limit text command
  make_file source 1000000
  start_server --region 1M --ticket ./ticket --bind "$addr"
  chmod a+r ticket
  for limit in 64 0; do
    case $limit in 64) text='64.00 KiB' ;; 0) text='0( |;|$)' ;; esac
    for command in "write source $dest" "post source $(< ticket)"; do
      # shellcheck disable=SC2086 # words
      within 10000 run limited $limit "$RDMAPUT" $command
      echo "limit $limit KiB, $command: $status: $output"
      assert_worked_or_explained "$output" "$status" "$text"
    done
  done
  run rdmaput write source "$dest"
  assert_run 0
}

# bats test_tags=device
@test "a server that may pin little works, or says to a client what it needs; one that may pin nothing ends at once" {
  local limit
  make_file source 1000000
  for limit in 64 44; do
    limit_server $limit
    start_server received
    within 10000 run rdmaput write source "$dest"
    echo "limit $limit KiB: $status: $output: $(< "$server_err")"
    if [ "$status" -eq 0 ]; then
      assert_same received source
    else
      assert_equal "$status" 71
      assert_worked_or_explained "$(< "$server_err")" 71 "$limit.00 KiB"
      is_absent received
    fi
    kill -0 "$server_pid" || fail 'the server ended'
    stop_server
    rm -f received
  done
  for limit in 40 0; do
    limit_server $limit
    launch_server "limited$limit" --bind "$addr" received
    wait_server 10
    assert_equal "$server_status" 71
    has_text "$server_err" ' of memory may be locked, and a session takes 44.00 KiB' || fail "$(< "$server_err")"
    has_text "$server_err" 'hint: raise the limit of locked memory' || fail "$(< "$server_err")"
    is_absent "$ready_file"
    is_absent received
  done
}

# bats test_tags=fast,device
@test "a region above the limit is refused before the server listens" {
  local limit text
  for limit in 64 0; do
    case $limit in 64) text='64.00 KiB' ;; 0) text='0( |;|$)' ;; esac
    within 10000 run limited $limit "$RDMAPUT" serve --bind "$addr" --port 0 --region 4M --ticket ./ticket \
      --ready-file ./ready
    assert_run 71 '4.00 MiB'
    assert_worked_or_explained "$output" "$status" "$text"
    is_absent ready
    is_absent ticket
  done
}

# ---- memory does not grow with the object ----------------------------------------------------

@test "a large object needs no more memory at either end than a small one" {
  local size=128
  [ "$fabric" != siw ] || size=512
  truncate -s ${size}M source
  start_server -v --discard
  start_process write "$RDMAPUT" write -v --sparse=never source "$dest"
  watch_memory "$process_pid" 120
  wait_process "$process_pid" 5
  assert_equal "$process_status" 0
  echo "client: $peak_resident KiB resident, $peak_pinned KiB pinned: $(< "$process_err")"
  [ "$peak_resident" -lt 32768 ]
  [ "$peak_resident" -gt 0 ]
  [ "$peak_pinned" -lt 8192 ]
  peak_resident=0 peak_pinned=0
  read_memory "$server_pid"
  echo "server: $peak_resident KiB resident, $peak_pinned KiB pinned: $(< "$server_err")"
  [ "$peak_resident" -lt 32768 ]
  [ "$peak_resident" -gt 0 ]
}

# bats test_tags=device
@test "what a write says it pins is what it pins" {
  local said
  make_file source 2000000
  start_server --discard
  mkfifo pipe
  input=pipe start_process write "$RDMAPUT" write -v - "$dest"
  exec {feed}> pipe
  cat source >&"$feed"
  wait_for_text "$process_err" ', max_sge '
  peak_resident=0 peak_pinned=0
  read_memory "$process_pid"
  exec {feed}>&-
  wait_process "$process_pid"
  assert_equal "$process_status" 0
  said=$(sed -n 's/.* \([0-9.]*\) \([KM]\)iB pinned$/\1\2/p' "$process_err" | numfmt --from=iec)
  echo "said $said bytes, pinned $peak_pinned KiB: $(< "$process_err")"
  [ "$said" -gt 0 ]
  [ $((peak_pinned * 1024)) -ge $((said * 99 / 100)) ]
  [ $((peak_pinned * 1024)) -le $((said * 101 / 100 + 16384)) ]
}
