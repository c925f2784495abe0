# What `rdmaput write` delivers, and what it leaves alone.
# shellcheck disable=SC2154 # lib/common.bash and bats set what is used here

load lib/common

setup() {
  common_setup
  need_device
  mkdir out
}

# ARG... - writes to $dest, which succeeds and says nothing
deliver() {
  local got=0
  rdmaput write -t "$dest" "$@" > said 2>&1 || got=$?
  [ $got -eq 0 ] || fail "status $got of: rdmaput write $* ($(< said))"
  [ ! -s said ] || fail "success is not silent: $(< said)"
}

# STATUS TEXT ARG... - writing to $dest fails with STATUS, and a message holds TEXT
fails_to_deliver() {
  run --separate-stderr rdmaput write -t "$dest" "${@:3}"
  assert_equal "$status $stderr" "$1 $stderr"
  assert_equal "$output" ''
  [[ $stderr == *"$2"* ]] || fail "'$2' is not in: $stderr"
}

# KEY - the number that -v gave in $stderr or $output, such as "work requests"
reported() {
  [[ $stderr =~ $1\ ([0-9]+) ]] || fail "no '$1' in: $stderr"
  echo "${BASH_REMATCH[1]}"
}

# ---- files --------------------------------------------------------------------------------------

# bats test_tags=fast
@test "a file arrives byte for byte, and the server ends with 0" {
  make_file a 1000003
  start_server --once out/f
  deliver a
  wait_server
  assert_equal "$server_status" 0
  assert_same a out/f
  assert_dir_holds out f
}

@test "files of every awkward size arrive, each replacing the one before" {
  local size
  start_server out/f
  make_file big 1048577
  for size in 262145 0 1 4095 4096 4097 262143 262144 1048577; do
    head -c "$size" big > a
    deliver a
    assert_same a out/f
  done
  assert_dir_holds out f
  stop_server
}

@test "a real binary arrives, cut into 1,000 segments of odd sizes in shuffled order" {
  head -c 4000000 /usr/bin/qemu-system-x86_64 > real 2> /dev/null || head -c 4000000 /bin/bash > real
  awk -v size="$(stat -c %s real)" 'BEGIN {
    srand(7)
    for (i = 1; i < 1000; i++) cut[i] = int(size * (i - rand() * 0.9) / 1000)
    cut[0] = 0; cut[1000] = size
    for (i = 0; i < 1000; i++)
      printf "%f\treal@%d+%d=%d\n", rand(), cut[i], cut[i + 1] - cut[i], cut[i]
  }' | sort -n | cut -f2 > list
  start_server --once out/f
  deliver --segments-from list
  wait_server
  assert_same real out/f
}

# bats test_tags=fast
@test "segments of several files become one object, in their order" {
  make_file a 100000
  make_file b 5000
  start_server --once out/f
  deliver a@-70000 b@1K+3001 a@+1 b@-0 a@12345+54321
  wait_server
  { tail -c 70000 a; tail -c +1025 b | head -c 3001; head -c 1 a; tail -c +12346 a | head -c 54321; } > wanted
  assert_same wanted out/f
}

@test "gaps between REMOTE ranges read as zeros, also in a region that held something" {
  make_file a 3000
  { head -c 5000 /dev/zero; head -c 1000 a; head -c 600000 /dev/zero; tail -c 2000 a; } > wanted
  start_server out/f
  deliver a@1000=606000 a@+1000=5000
  assert_same wanted out/f
  stop_server

  make_file full 700000
  start_server --region 700000 --dump out/d
  deliver full
  assert_same full out/d
  deliver a@1000=606000 a@+1000=5000
  head -c 608000 out/d > start
  assert_same wanted start
  stop_server
}

@test "REMOTE may lie far past the end" {
  make_file a 1000
  start_server --once out/f
  deliver a@=100000000
  wait_server
  assert_equal "$(stat -c %s out/f)" 100001000
  tail -c 1000 out/f > end
  assert_same a end
  assert_equal "$(head -c 4096 out/f | tr -d '\0' | wc -c)" 0
}

# bats test_tags=device
@test "10,000 small segments take no more work requests than gather entries allow" {
  local most
  make_file a 100000
  awk 'BEGIN { for (i = 9999; i >= 0; i--) printf "a@%d+10=%d\n", i * 10, i * 10 }' > backwards
  awk 'BEGIN { for (i = 0; i < 10000; i++) printf "a@%d+100\n", (i * 7919) % 99900 }' > list
  most=$(device_limit max_sge)
  start_server out/f
  run --separate-stderr rdmaput write -v --segments-from list "$dest"
  assert_equal "$status" 0
  assert_equal "$(reported 'gather entries')" 10000
  [ "$(reported 'work requests')" -le $(((10000 + most - 1) / most)) ] ||
    fail "$(reported 'work requests') work requests, of $most gather entries each"
  assert_equal "$(stat -c %s out/f)" 1000000
  deliver --segments-from backwards
  assert_same a out/f
  stop_server
}

@test "the same part may be sent many times" {
  make_file a 1000
  start_server --once out/f
  deliver a a a@5+6 a
  wait_server
  cat a a <(tail -c +6 a | head -c 6) a > wanted
  assert_same wanted out/f
}

# ---- streams and lists ---------------------------------------------------------------------------

# bats test_tags=fast
@test "a pipe on standard input arrives whole, and an object of unknown size grows" {
  make_file a 1500001
  start_server out/f
  deliver - < <(cat a)
  assert_same a out/f
  deliver - < /dev/null
  assert_equal "$(stat -c %s out/f)" 0
  # From where it stands.
  { read -rN 4 _ || true; deliver -; } < <(echo abcdefgh)
  assert_equal "$(< out/f)" efgh
  stop_server
}

@test "a stream is cut by LENGTH, and one that ends before it is 66 and commits nothing" {
  make_file a 300000
  echo old > out/f
  start_server out/f
  deliver -- -@+100001=50 < <(cat a)
  { head -c 50 /dev/zero; head -c 100001 a; } > wanted
  assert_same wanted out/f
  run --separate-stderr rdmaput write -t "$dest" -- -@+300001 < <(cat a)
  assert_equal "$status" 66
  [[ $stderr == *'too short'* ]] || fail "$stderr"
  assert_same wanted out/f
  stop_server
}

@test "files of /proc and FIFOs are read to their end, also between files" {
  make_file a 10000
  mkfifo fifo
  start_server out/f
  deliver /proc/version a
  cat /proc/version a > wanted
  assert_same wanted out/f
  start_process writer bash -c 'cat a > fifo'
  deliver a@+10 fifo a@-10
  { head -c 10 a; cat a; tail -c 10 a; } > wanted
  assert_same wanted out/f
  stop_server
}

@test "a list of segments comes from standard input, with names of every kind" {
  local odd=$'a b\n* "c"@7' leading=' -x'
  make_file "$odd" 90000
  make_file "$leading" 30
  make_file p@1 4
  start_server out/f
  deliver --segments-from - < <(printf '%s\n' p@1@2 ' -x@3' '')
  { tail -c +3 p@1; tail -c +4 "$leading"; } > wanted
  assert_same wanted out/f
  deliver --segments-from - -0 --literal < <(printf '%s\0' "$odd" p@1 "$leading")
  cat "$odd" p@1 "$leading" > wanted
  assert_same wanted out/f
  deliver --literal "$odd" p@1
  cat "$odd" p@1 > wanted
  assert_same wanted out/f
  stop_server
}

# ---- all or nothing -------------------------------------------------------------------------------

@test "a client that is killed leaves the old file and nothing else" {
  local signal
  echo old > out/f
  for signal in KILL TERM; do
    start_server --once out/f
    start_slow_client
    kill -$signal "$client_pid"
    end_slow_client
    assert_equal "$client_status" $((128 + $(kill -l $signal)))
    wait_server
    assert_equal "$server_status" 75
    assert_dir_holds out f
    assert_equal "$(< out/f)" old
  done
}

# bats test_tags=fast
@test "a source that changes while it is read is 65, and nothing is committed" {
  make_file a 100000
  echo old > out/f
  start_server out/f
  start_slow_client a
  echo more >> a
  end_slow_client
  assert_equal "$client_status" 65
  assert_regex "$(< "$client_err")" 'rdmaput: a: changed while it was read'
  assert_regex "$(< "$client_err")" 'hint: try again when nobody writes'
  assert_dir_holds out f
  assert_equal "$(< out/f)" old
  stop_server
}

@test "a source that shrinks while it is read is 65, and nothing is committed" {
  make_file a 3000000
  start_server out/f
  mkfifo slow
  start_process client "$RDMAPUT" write --trace -t "$dest" slow a
  client_pid=$process_pid client_err=$process_err
  exec 7> slow
  echo begin >&7
  wait_for_text "$client_err" 'received GRANT'
  truncate -s 2000000 a
  end_slow_client
  assert_equal "$client_status" 65
  assert_regex "$(< "$client_err")" 'rdmaput: a: became shorter while it was read'
  assert_dir_holds out
  stop_server
}

@test "a replaced file keeps its mode, and a new one has what the umask leaves" {
  make_file a 10
  touch out/old
  chmod 4751 out/old
  umask 027
  start_server out/old
  deliver a
  assert_equal "$(stat -c %a out/old)" 751
  stop_server
  start_server out/new
  deliver a
  assert_equal "$(stat -c %a out/new)" 640
  stop_server
}

@test "a symbolic link is followed: what it points to is replaced" {
  make_file a 10
  mkdir elsewhere
  echo old > elsewhere/target
  ln -s ../elsewhere/target out/link
  start_server --once out/link
  deliver a
  wait_server
  assert [ -L out/link ]
  assert_same a elsewhere/target
  assert_dir_holds elsewhere target
  assert_dir_holds out link
}

@test "who has the old file open keeps reading it" {
  make_file a 10
  echo old > out/f
  exec 8< out/f
  start_server --once out/f
  deliver a
  wait_server
  assert_equal "$(cat <&8)" old
}

@test "several clients at once into one FILE all complete, and one whole object remains" {
  local i pids=() found=''
  start_server out/f
  for i in 1 2 3 4; do
    make_file "a$i" $((400000 + i))
    start_process "client$i" "$RDMAPUT" write "a$i" "$dest"
    pids+=("$process_pid")
  done
  for i in "${pids[@]}"; do
    wait_process "$i"
    assert_equal "$process_status" 0
  done
  for i in 1 2 3 4; do
    if cmp -s "a$i" out/f; then found=$i; fi
  done
  [ -n "$found" ] || fail "no whole object remains"
  assert_dir_holds out f
  stop_server
}

# ---- regions --------------------------------------------------------------------------------------

@test "a region takes an object of its size, and its dump is the whole region" {
  make_file a 100000
  start_server --region 100000 --dump out/d
  deliver a
  assert_same a out/d
  deliver a@+10=50
  { head -c 50 /dev/zero; head -c 10 a; tail -c +61 a; } > wanted
  assert_same wanted out/d
  stop_server
  assert_dir_holds out d
}

@test "an object that is too large for the region is 73, also one that grows, and the next fits" {
  make_file a 100001
  start_server --region 100000 --dump out/d
  fails_to_deliver 73 'does not fit' a
  [[ $stderr == *'hint: serve a larger --region'* ]] || fail "$stderr"
  fails_to_deliver 73 'does not fit' a@+1=100000
  run --separate-stderr rdmaput write - "$dest" < <(cat a)
  assert_equal "$status" 73
  assert_dir_holds out
  deliver a@+100000
  head -c 100000 a > wanted
  assert_same wanted out/d
  stop_server
}

# bats test_tags=fast
@test "a NAME is refused with 69 by sinks that take none" {
  make_file a 10
  start_server out/f
  dest=$dest/name fails_to_deliver 69 "'name'" a
  [[ $stderr == *'leave the name out'* ]] || fail "$stderr"
  stop_server
  start_server --region 1K
  dest=$dest/name fails_to_deliver 69 'takes no object name' a
  stop_server
  start_server --discard
  dest=$dest/name fails_to_deliver 69 'takes no object name' a
  stop_server
  assert_dir_holds out
}

# ---- reports --------------------------------------------------------------------------------------

@test "-v tells what was negotiated and the checksum, XXH3-128 of the object" {
  make_file a 300001
  local checksum
  checksum=$(xxh128sum < a)
  start_server -v --once out/f
  run --separate-stderr rdmaput write -v a "$dest"
  assert_equal "$status" 0
  assert_equal "$output" ''
  # iWARP has none.
  assert_regex "$stderr" ' port [0-9]+, (iWARP|(RoCE|InfiniBand), GID [0-9a-f:.]*[1-9a-f][0-9a-f:.]*), MTU [0-9]+, from '
  assert_regex "$stderr" ': slots [0-9]+ x .*, max_sge [0-9]+, depth [0-9]+, inline [0-9]+, messages up to .*B, .*B pinned'
  assert_regex "$stderr" "XXH3-128 ${checksum%% *}"
  assert_equal "$(reported 'work requests')" 2
  assert_equal "$(reported 'chunks')" 2
  wait_server
  assert_regex "$(< "$server_err")" "committed: .*XXH3-128 ${checksum%% *}"
}

@test "-q leaves out all but errors, and --trace tells of each work request and completion" {
  make_file a 10
  start_server -q out/f
  rdmaput write --trace a "$dest" 2> trace
  assert_regex "$(< trace)" 'RDMA write of 10 bytes, gather entries 1, to 0x[0-9a-f]+, rkey 0x[0-9a-f]+, wr_id 0'
  assert_regex "$(< trace)" 'sending CHUNK, wr_id 0x[0-9a-f]+'
  assert_regex "$(< trace)" 'completion of send, wr_id 0x[0-9a-f]+: success'
  assert_regex "$(< trace)" 'received DONE'
  rdmaput write -q a "$dest" 2> quiet
  assert_equal "$(< quiet)" ''
  stop_server
  assert_equal "$(< "$server_err")" ''
}

# ---- addresses ------------------------------------------------------------------------------------

@test "nobody listens: 69 and a hint" {
  make_file a 10
  start_server out/f
  stop_server
  fails_to_deliver 69 'nobody listens' a
  [[ $stderr == *"hint: start 'rdmaput serve' there"* ]] || fail "$stderr"
}

# bats test_tags=device
@test "a loopback address is 69, and the hint names one that works" {
  make_file a 10
  dest=127.0.0.1 fails_to_deliver 69 'loopback' a
  [[ $stderr == *hint:* ]] || fail "$stderr"
}

@test "a host that cannot be found is 69 and named" {
  make_file a 10
  find_unknown_status
  dest=no-such-host.invalid fails_to_deliver $unknown_status 'no-such-host.invalid: cannot find that host' a
}

# bats test_tags=fast
@test "--wait finds a server that starts later" {
  make_file a 10
  start_server out/f
  stop_server
  start_process client "$RDMAPUT" write --trace --wait 60 a "$dest"
  local client_pid=$process_pid
  start_process later "$RDMAPUT" serve --bind "$addr" --port "$port" --once out/f
  wait_process "$client_pid"
  assert_equal "$process_status" 0
  assert_same a out/f
}

@test "--wait ends with 69 when nobody came to listen" {
  make_file a 10
  start_server out/f
  stop_server
  within 10000 fails_to_deliver 69 'nobody listens' --wait 500ms a
  [ "$elapsed_ms" -ge 500 ] || fail "waited $elapsed_ms ms"
}

@test "--bind names the source address, and --port the port where none is in DEST" {
  make_file a 10
  start_server -v out/f
  deliver --bind "$addr" a
  assert_regex "$(< "$server_err")" "rdmaput: $addr:[0-9]+: committed"
  dest=$addr deliver --port "$port" a
  fails_to_deliver 69 '' --bind 192.0.2.1 a
  if [ -n "$addr6" ]; then fails_to_deliver 69 family --bind "$addr6" a; fi
  stop_server
}

# bats test_tags=device
@test "an IPv6 server is written to in brackets" {
  need_ipv6
  make_file a 100000
  server_bind=$addr6 start_server --once out/f
  assert_equal "$dest" "[$addr6]:$port"
  deliver a
  wait_server
  assert_same a out/f
}

# bats test_tags=device
@test "a server on all addresses takes clients at each address in its ready file" {
  local lines line
  make_file a 1000
  server_bind='' start_server out/f
  mapfile -t lines < "$ready_file"
  [[ " ${lines[*]} " == *" $addr:$port "* ]] || fail "$addr is not in the ready file: ${lines[*]}"
  for line in "${lines[@]}"; do
    rm -f out/f
    dest=$line deliver a
    assert_same a out/f
  done
  stop_server
}

# ---- to a server that it starts (more of that in rsh.bats) ---------------------------------------

# bats test_tags=device
@test "write -e starts the server, which serves this client and ends" {
  load lib/rsh
  setup_rsh
  make_file a 1500000
  make_file b 100
  run put a b host/
  assert_run 0
  assert_output ''
  assert_same a far/a
  assert_same b far/b
  WAIT_LIMIT=5 wait_for far_ends_are_gone
}
