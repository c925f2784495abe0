# The fake fabric: what works over it as over a device, and what it refuses. All other files can run
# on it, too: RDMAPUT_TEST_FABRIC=fake.
# shellcheck disable=SC2034,SC2154 # use_fake_fabric, start_server and start_slow_client set what they say

load lib/common
load lib/hostile

teardown() {
  remove_hostile
  common_teardown
}

# KIND - a region of 1 MiB on it; sets ticket, remote_addr and rkey
expose() {
  use_fake_fabric "$1"
  start_server --region 1M --ticket ticket --dump dump
  ticket=$(< ticket)
  IFS=, read -r _ _ _ remote_addr rkey _ <<< "$ticket"
}

delivers_whole() {
  use_fake_fabric "$1"
  make_file a 3000000
  mkdir dir
  start_server dir
  run rdmaput write 'a@0+1000001' a@1000001 "$dest/b"
  assert_run 0
  assert_same a dir/b
  run rdmaput write a ticket "$dest/"
  assert_run 66 ticket
  assert_same a dir/a
  assert_dir_holds dir a b
  stop_server
  assert_all_destroyed 3
}

@test "a file is delivered whole over the fake fabric as RoCE" { delivers_whole roce; }

@test "a file is delivered whole over the fake fabric as iWARP" { delivers_whole iwarp; }

posts() {
  expose "$1"
  make_file a 100000
  run rdmaput post a a@1+999=500000 "$ticket"
  assert_run 0
  refute_output --partial 'not confirmed'
  wait_for exists dump
  stop_server
  cmp -n 100000 a dump
  cmp -n 999 -i 1:500000 a dump
  assert_all_destroyed 2
}

@test "one-sided writes land where they are to over the fake fabric as RoCE" { posts roce; }

@test "one-sided writes land where they are to over the fake fabric as iWARP" { posts iwarp; }

@test "the fake fabric refuses a wrong rkey, and what lies outside of the memory" {
  expose roce
  make_file a 4096
  run rdmaput post a --remote-addr "$remote_addr" --rkey 0x12345678 "$addr:$port"
  assert_run 69 'remote access error'
  run rdmaput post a --remote-addr $((remote_addr + (1 << 20) - 4095)) --rkey "$rkey" "$addr:$port"
  assert_run 69 'remote access error'
  run rdmaput post a --remote-addr $((remote_addr + (1 << 20) - 4096)) --rkey "$rkey" "$addr:$port"
  assert_run 0
  stop_server
}

@test "who connects where nobody listens on the fake fabric is told so" {
  use_fake_fabric roce
  make_file a 1
  run rdmaput write a "$addr:1/b"
  assert_run 69 'nobody listens'
  use_fake_fabric iwarp
  run rdmaput write a "$addr:1/b"
  assert_run 69 'nobody listens'
}

@test "a client whose port is another connection's takes another port" {
  export FAIL_ERRNO
  use_fake_fabric iwarp
  start_server --discard
  make_file a 100
  for FAIL_ERRNO in 98 99; do
    run with_failure rdma_connect 1 '' "$RDMAPUT" write -v a "$dest"
    assert_run 0
  done
  FAIL_ERRNO=111
  run with_failure rdma_connect 1 '' "$RDMAPUT" write a "$dest"
  assert_run 69 'nobody listens'
}

@test "a server that may choose its port takes another one where that is in use" {
  export FAIL_ERRNO=98
  use_fake_fabric iwarp
  server_wrapper=(env LD_PRELOAD="$RDMAPUT_BUILD/tests/lib/fail-nth.so:$LD_PRELOAD" FAIL_CALL=rdma_listen FAIL_NTH=1
    ASAN_OPTIONS=verify_asan_link_order=0:"${ASAN_OPTIONS-}")
  start_server --discard
  run with_failure rdma_listen 1 '' "$RDMAPUT" serve --port 7471 --discard
  assert_run 69 'Address already in use' 'hint: the port is in use'
}

@test "a process that is killed ends its connection on the fake fabric" {
  use_fake_fabric roce
  mkdir dir
  start_server dir
  dest=$dest/b start_slow_client
  kill -KILL "$server_pid"
  wait_process "$client_pid" 10
  assert_equal "$process_status" 75
  exec 7>&-
}

@test "the fake fabric's device is listed, with an address of this host" {
  use_fake_fabric roce
  run rdmaput devices
  assert_run 0 'fake0 port 1' RoCE active
}

@test "one bit that the server's adapter flips: 65 at both ends, and the old file stays" {
  use_fake_fabric roce
  mkdir out
  echo old > out/x
  make_file a 300000
  local server_wrapper=(env FAKE_FABRIC_FLIP=37856:7)
  start_server --once out
  run rdmaput write --map=never a "$dest/x"
  assert_run 65 checksum
  wait_server 10
  assert_equal "$server_status" 65
  assert_equal "$(< out/x)" old
  assert_dir_holds out x
}

# ---- hostile peers: 5 rounds of each case, and 200 of all mixed ------------------------------------------

@test "hostile clients end their own sessions alone on the fake fabric, and leave nothing" {
  use_fake_fabric roce
  check_hostile_clients 12 5 200 # of one host, so many may be at an exchange
}

@test "hostile clients of a region write nothing outside of it on the fake fabric" {
  use_fake_fabric roce
  HOSTILE_TIMEOUT=1000 # of which a part passes before a region looks after its client
  check_hostile_regions 5
}

@test "hostile servers are told from good ones on the fake fabric as RoCE" {
  use_fake_fabric roce
  check_hostile_servers 24 5 200
}

@test "hostile servers are told from good ones on the fake fabric as iWARP" {
  use_fake_fabric iwarp
  check_hostile_servers 24 1 40
}

@test "a large object arrives whole: offsets past 4 GiB, and lengths" {
  local checksums size=5G last=5368709119
  use_fake_fabric roce
  if is_sanitized; then size=64M last=67108863; fi
  truncate -s $size source
  for at in 0 4294967290 2147483647 $last; do
    [ "$at" -gt $last ] || printf 'x' | dd of=source bs=1 seek="$at" conv=notrunc status=none
  done
  start_server -v --discard --once
  RUN_LIMIT=400 run rdmaput write -v --sparse=never source "$dest"
  assert_run 0 "${size/[MG]/.00 }"
  wait_server
  assert_equal "$server_status" 0
  checksums=$(grep -ho 'XXH3-128 [0-9a-f]*' "$server_err" <(echo "$output") | sort | uniq -c)
  [[ $checksums =~ ^\ *2\ XXH3-128\ [0-9a-f]{32}$ ]] || fail "not the same at both ends: $checksums"
}
