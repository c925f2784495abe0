# What `rdmaput serve` says, whom it takes, and how it ends.
# bats file_tags=rxe
# shellcheck disable=SC2154 # lib/common.bash and bats set what is used here

load lib/common

setup() {
  common_setup
  need_device
  mkdir out
  echo data > a
}

# STATUS TEXT ARG... - `rdmaput serve ARG...` ends by itself with STATUS, and its messages hold TEXT
ends_with() {
  run --separate-stderr rdmaput serve "${@:3}"
  assert_equal "$status $stderr" "$1 $stderr"
  assert_equal "$output" ''
  [[ $stderr == *"$2"* ]] || fail "'$2' is not in: $stderr"
}

# STATUS TEXT [ARG...] - writing a to $dest ends with STATUS, and the messages hold TEXT
client_ends_with() {
  run --separate-stderr rdmaput write -t "$dest" "${@:3}" a
  assert_equal "$status $stderr" "$1 $stderr"
  [[ $stderr == *"$2"* ]] || fail "'$2' is not in: $stderr"
}

assert_log() { [[ $(< "$server_err") == *"$1"* ]] || fail "'$1' is not in: $(< "$server_err")"; }

# ---- announcing -------------------------------------------------------------------------------------

# bats test_tags=fast
@test "one line on standard error says address, sink and who may connect" {
  start_server out/f
  assert_equal "$(< "$server_err")" "rdmaput: serving on $dest: file 'out/f', for this host and its subnets"
  stop_server
  assert_equal "$(< "$server_out")" ''
  start_server --region 1M --allow 10.0.0.0/8
  assert_equal "$(< "$server_err")" "rdmaput: serving on $dest: region of 1.00 MiB, for the networks of --allow"
  start_server --discard
  assert_regex "$(< "$server_err")" 'serving on .*: .*discards, for anybody'
  start_server
  assert_regex "$(< "$server_err")" 'serving on .*: stores nothing, for anybody'
}

# bats test_tags=fast
@test "the ready file holds ADDR:PORT, which is a DEST, and goes at the end" {
  start_server out/f
  assert_equal "$(< "$ready_file")" "$addr:$port"
  [ "$port" -gt 0 ] && [ "$port" -ne 7475 ]
  client_ends_with 0 ''
  assert_same a out/f
  stop_server
  assert_not_exist "$ready_file"
}

@test "a ready file that cannot be made is 73" {
  ends_with 73 'missing/ready' --bind "$addr" --port 0 --ready-file missing/ready out/f
  mkdir directory
  ends_with 73 'directory' --bind "$addr" --port 0 --ready-file directory out/f
  assert_dir_holds out
}

@test "a ready file that a killed server left is gone before another listens" {
  echo "$addr:1" > ready
  ends_with 75 'no transfer began' --wait 300ms --bind "$addr" --port 0 --ready-file ready out/f
  echo "$addr:1" > ready
  ends_with 69 'cannot listen' --bind 192.0.2.1 --port 0 --ready-file ready out/f
  [ ! -e ready ]
}

# bats test_tags=device
@test "a port in use is 69, and an address without a device" {
  start_server out/f
  ends_with 69 "$dest: cannot listen" --bind "$addr" --port "$port" out/g
  [[ $stderr == *'hint: the port is in use'* ]] || fail "$stderr"
  ends_with 69 '192.0.2.1' --bind 192.0.2.1 --port 0 out/g
  [[ $stderr == *hint:* ]] || fail "$stderr"
  ends_with 69 '127.0.0.1' --bind 127.0.0.1 --port 0 out/g
  client_ends_with 0 ''
  assert_dir_holds out f
}

# ---- destinations -------------------------------------------------------------------------------------

@test "a FILE that is a device or a FIFO, and a DIR that is none, is 73 with a hint" {
  local file
  mkfifo out/fifo
  ln -s /dev/null out/link
  for file in out/fifo /dev/null out/link /dev/stdout; do
    ends_with 73 "$file: is a" --bind "$addr" --port 0 "$file"
    [[ $stderr == *hint:*--in-place*-* ]] || fail "$stderr"
  done
  ends_with 73 'new/' --bind "$addr" --port 0 new/
  assert_dir_holds out fifo link
  assert [ -c /dev/null ]
}

# bats test_tags=device
@test "a FILE in a missing directory is 73, and nothing is made" {
  ends_with 73 'missing/f: cannot create' --bind "$addr" --port 0 missing/f
  ends_with 73 'missing/d' --bind "$addr" --port 0 --region 1K --dump missing/d
  assert_not_exist missing
}

# bats test_tags=device
@test "where no address reaches a device nobody can come: 69, and there is no ready file" {
  need_root 'make a network namespace'
  run unshare -n "$RDMAPUT" serve --port 0 --ready-file ready --discard
  assert_run 69 'no address of this host reaches an RDMA device' "hint: 'rdmaput devices'"
  assert_not_exist ready
}

# bats test_tags=device
@test "a limit of locked memory that no session fits into is 71 at once" {
  become_nobody
  # shellcheck disable=SC2016 # the other shell's
  run bash -c 'ulimit -l 16 && exec "$@"' - "${server_wrapper[@]}" "$RDMAPUT" serve --bind "$addr" --port 0 --ready-file ready --discard
  assert_run 71 '16.00 KiB of memory may be locked, and a session takes 44.00 KiB' 'hint: raise the limit of locked memory'
  assert_not_exist ready
}

# As an ordinary user, who must reach the program and the test's directory.
become_nobody() {
  need_root 'become another user'
  cp "$RDMAPUT" program
  RDMAPUT=$PWD/program
  chmod a+x "$BATS_RUN_TMPDIR"
  chmod 777 .
  server_wrapper=(setpriv --reuid=65534 --regid=65534 --clear-groups)
}

@test "a FILE in a directory that may not be written is 73, and nothing is made" {
  become_nobody
  run run_program "${server_wrapper[@]}" "$RDMAPUT" serve --bind "$addr" --port 0 out/f
  assert_run 73 'out/f: cannot create: Permission denied' hint:
  assert_dir_holds out
}

@test "a directory that became read-only is 73 for the client, and the server goes on" {
  become_nobody
  chown 65534:65534 out
  start_server out/f
  client_ends_with 0 ''
  chmod 500 out
  client_ends_with 73 'cannot create: Permission denied'
  assert_log 'out/f: cannot create: Permission denied'
  [[ $stderr == *hint:* ]] || fail "$stderr"
  chmod 700 out
  client_ends_with 0 ''
  assert_dir_holds out f
  stop_server
}

# bats test_tags=fast
@test "--discard takes all and keeps nothing" {
  start_server -v --discard
  client_ends_with 0 ''
  client_ends_with 0 'XXH3-128' -v
  stop_server
  assert_log 'committed: 5 B in '
  assert_dir_holds out
}

@test "without a sink nothing is taken: 69, and the hint names the sinks" {
  start_server
  client_ends_with 69 'stores nothing'
  [[ $stderr == *"hint: "*"serve SINK"*--in-place*--region*--discard* ]] || fail "$stderr"
  stop_server
}

# ---- --once and --wait ----------------------------------------------------------------------------------

@test "--once ends with the status of the one transfer; refused clients do not count" {
  start_server --once out/f
  dest=$dest/name client_ends_with 69 "'name'"
  start_slow_client a
  echo more >> a
  end_slow_client
  assert_equal "$client_status" 65
  wait_server
  assert_equal "$server_status" 65
  assert_log 'the peer gave up: '
  assert_log 'changed while it was read'
  assert_dir_holds out
  assert_not_exist "$ready_file"

  start_server -1 out/f
  client_ends_with 0 ''
  wait_server
  assert_equal "$server_status" 0
}

# bats test_tags=fast
@test "--wait ends with 75 when no transfer began" {
  within 10000 ends_with 75 'no transfer began within 300 ms' --wait 300ms --bind "$addr" --port 0 --ready-file ready out/f
  [ "$elapsed_ms" -ge 300 ] || fail "ended after $elapsed_ms ms"
  assert_not_exist ready
  assert_dir_holds out
}

@test "--wait does not end a session, nor a server to which a client came" {
  start_server --wait 2s out/f
  start_slow_client
  nap 2.1
  end_slow_client
  assert_equal "$client_status" 0
  client_ends_with 0 ''
  stop_server
}

# ---- signals ----------------------------------------------------------------------------------------------

# bats test_tags=fast
@test "an idle server ends at once with 0 on SIGTERM, SIGINT and SIGHUP" {
  local signal
  for signal in TERM INT HUP; do
    start_server out/f
    within 5000 stop_server $signal
    assert_not_exist "$ready_file"
  done
  start_server --region 1M --ticket out/t
  within 5000 stop_server
  assert_equal "$(stat -c %a out/t)" 600
}

@test "the first SIGTERM drains: no new session, and the running one completes, then 0" {
  start_server out/f
  start_slow_client
  kill -TERM "$server_pid"
  wait_for_text "$server_err" 'no new sessions; 1 running'
  client_ends_with 69 'nobody listens'
  kill -0 "$server_pid"
  echo end >&7
  end_slow_client
  assert_equal "$client_status" 0
  wait_server
  assert_equal "$server_status" 0
  assert_equal "$(< out/f)" $'begin\nend'
  assert_not_exist "$ready_file"
}

@test "a second signal aborts: the client gets 75, and the server dies by that signal" {
  local signal
  echo old > out/f
  for signal in TERM INT; do
    start_server out/f
    start_slow_client
    kill -TERM "$server_pid"
    wait_for_text "$server_err" 'no new sessions'
    kill -$signal "$server_pid"
    wait_server
    assert_equal "$server_status" $((128 + $(kill -l $signal)))
    assert_not_exist "$ready_file"
    wait_process "$client_pid"
    end_slow_client
    assert_equal "$client_status" 75
    assert_dir_holds out f
    assert_equal "$(< out/f)" old
  done
}

@test "a client that is interrupted dies by the signal, and the server says so and goes on" {
  start_server out/f
  start_slow_client
  kill -INT "$client_pid"
  wait_process "$client_pid"
  end_slow_client
  assert_equal "$client_status" 130
  wait_for_text "$server_err" 'interrupted by a signal'
  assert_dir_holds out
  client_ends_with 0 ''
  assert_dir_holds out f
  stop_server
}

# ---- one session at a time ------------------------------------------------------------------------------------

@test "clients one after another never find a region busy" {
  local i
  start_server --region 1K
  for i in 1 2 3 4 5 6; do
    rdmaput write -t "$dest" a || fail "client $i: status $?"
  done
  stop_server
  assert_equal "$(grep -c refused "$server_err")" 0
}

@test "a second client while a region is in use gets 75, and the first completes" {
  start_server --region 1K --dump out/d
  start_slow_client
  within 10000 client_ends_with 75 'busy with another session'
  [[ $stderr == *'hint: try again when it has ended'*--retry* ]] || fail "$stderr"
  end_slow_client
  assert_equal "$client_status" 0
  head -c 5 out/d > start
  assert_equal "$(< start)" begin
  client_ends_with 0 ''
  stop_server
}

@test "while --once serves its client, another gets 75" {
  start_server --once out/f
  start_slow_client
  client_ends_with 75 busy
  end_slow_client
  assert_equal "$client_status" 0
  wait_server
  assert_equal "$server_status" 0
  assert_equal "$(< out/f)" begin
}

@test "a full file system: 73 at both ends, nothing replaced, nothing left, and the server goes on" {
  mount_at small -t tmpfs -o size=64k
  echo old > small/f
  head -c 50000 /dev/zero > small/fill
  make_file large 30000
  start_server small/f
  run --separate-stderr rdmaput write -t "$dest" large
  assert_equal "$status" 73
  [[ $stderr == *'No space left on device'* ]] || fail "$stderr"
  assert_equal "$(< small/f)" old
  wait_for_text "$server_err" 'No space left on device'
  wait_until holds_two
  rm small/fill
  client_ends_with 0 ''
  assert_same a small/f
  stop_server
}
holds_two() { [ "$(ls -A small)" = "$(printf 'f\nfill')" ]; }

@test "messages that nobody reads do not keep a server from ending" {
  mkfifo messages
  exec {reader}<> messages
  start_process mute bash -c 'exec "$0" serve -v --port 0 --bind "$1" --ready-file ready --discard 2> messages' \
    "$RDMAPUT" "$addr"
  server_pid=$process_pid
  wait_for exists ready
  # One page of the pipe's sixteen holds the first line.
  run dd if=/dev/zero of=messages bs=4096 count=16 oflag=nonblock
  assert_output --partial 'Resource temporarily unavailable'
  run rdmaput write a "$(< ready)"
  assert_run 0
  stop_server
  exec {reader}>&-
}

@test "--sync of either side is refused where nothing gets onto stable storage, and syncs a dump" {
  make_file a 5000
  start_server --discard
  client_ends_with 69 'stable storage' --sync
  stop_server
  start_server --region 1M
  client_ends_with 69 'stable storage' --sync
  stop_server
  need_command strace
  server_wrapper=(strace -D -f -qq -e 'trace=fsync,rename' -o calls)
  start_server --region 1M --dump out/d --sync
  rdmaput write a "$dest"
  end_process "$server_pid" || true
  # The first one is the ready file's.
  assert_equal "$(sed -n 's/^[0-9]* *\(fsync\|rename\).*/\1/p' calls | tr '\n' ' ')" 'rename fsync rename fsync '
  head -c 5000 out/d | cmp - a
}
