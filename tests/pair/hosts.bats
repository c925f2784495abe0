# hosts.bats - between two hosts, over the fabric of RDMAPUT_TEST_FABRIC, rxe or siw
# bats file_tags=pair
# shellcheck disable=SC2154 # lib sets elapsed_ms
load lib

setup_file() { run_pair "${RDMAPUT_TEST_FABRIC:?is to be rxe or siw}"; }
teardown() { show_pair; }

@test "a write and a post to another host arrive" {
  assert_delivered plain-write
  assert_delivered plain-post
  assert_equal "$(tail -n 1 "$BATS_FILE_TMPDIR/shared/plain-post.out")" 'delivery confirmed'
}

@test "packets that are lost, late, out of order or doubled: what arrives is the same" {
  assert_delivered lossy-write
  assert_netem lossy-write dropped
  assert_delivered late-write
  assert_delivered reordered-write
  assert_delivered doubled-write
}

@test "a link that is down for a second does not end a write or a post" {
  assert_delivered flapping-write
  assert_delivered flapping-post
}

@test "half of all packets are lost, and both sides of a write end in time" {
  assert_ended too-lossy-write client 75 'bytes were acknowledged'
  assert_ended too-lossy-write server 75 'bytes were stored'
  assert_nothing_left too-lossy-write
}

@test "the server's host vanishes in mid-write, and both sides end in time" {
  assert_ended server-gone-write client 75 'bytes were acknowledged'
  assert_ended server-gone-write server 75 'bytes were stored'
  assert_nothing_left server-gone-write
}

@test "the client's host vanishes in mid-write, and both sides end in time" {
  assert_ended client-gone-write client 75 'bytes were acknowledged'
  assert_ended client-gone-write server 75 'bytes were stored'
  assert_nothing_left client-gone-write
}

@test "either host vanishes in mid-post, and both sides end in time" {
  assert_ended server-gone-post client 75 'bytes were acknowledged'
  assert_ended server-gone-post server 75
  assert_ended client-gone-post client 75 'bytes were acknowledged'
  assert_ended client-gone-post server 75
}

@test "the link goes down for good in mid-write, and both sides end in time" {
  assert_ended unplugged-write client 75 'bytes were acknowledged'
  assert_ended unplugged-write server 75 'bytes were stored'
  assert_nothing_left unplugged-write
}

@test "the server's address is removed in mid-write, and both sides end in time" {
  assert_ended readdressed-write client 75 'bytes were acknowledged'
  assert_ended readdressed-write server 75 'bytes were stored'
  assert_nothing_left readdressed-write
}

@test "the server's device is removed in mid-transfer: 69 there, and 75 at the client" {
  assert_ended server-removed-write server 69 'the RDMA device was removed from this host; .* bytes were stored'
  assert_ended server-removed-write client 75 'bytes were acknowledged'
  assert_nothing_left server-removed-write
  assert_ended server-removed-post server 69 'the RDMA device was removed from this host'
  assert_ended server-removed-post client 75 'bytes were acknowledged'
}

@test "the client's device is removed in mid-transfer: 69 there, and the server of a write ends with 75" {
  assert_ended client-removed-write client 69 'the RDMA device was removed from this host; .* bytes were acknowledged'
  assert_ended client-removed-write server 75 'bytes were stored'
  assert_nothing_left client-removed-write
  assert_ended client-removed-post client 69 'the RDMA device was removed from this host; .* bytes were acknowledged'
  # To a region, a client that leaves is one that has written all it wanted.
  assert_ended client-removed-post server 0
}

@test "after all of that, a write arrives" {
  assert_delivered mended-write
}

@test "check finds the path to another host in order" {
  local said=$BATS_FILE_TMPDIR/shared/plain-check.out
  assert_equal "$(cut -d ' ' -f 1 "${said%out}client")" 0
  grep -q '^bandwidth  *ok ' "$said" || fail "$(< "$said")"
}

@test "check names the layer that a host which does not answer is missed at, and ends in time" {
  local said=$BATS_FILE_TMPDIR/shared
  assert_ended unreached-check client 1
  assert_ended unreached-check server 0
  grep -q '^\(resolve-address\|connect\)  *FAIL .*timed out' "$said/unreached-check.out" || fail "$(< "$said/unreached-check.out")"
  assert_ended interrupted-check client 1
  assert_ended interrupted-check server 0
  grep -q ' FAIL ' "$said/interrupted-check.out" || fail "$(< "$said/interrupted-check.out")"
}

@test "check names a firewall: the connection is missed, and the hint says what it uses" {
  local said=$BATS_FILE_TMPDIR/shared/filtered-check.out
  assert_ended filtered-check client 1
  assert_ended filtered-check server 0
  grep -q '^resolve-route  *ok ' "$said" || fail "$(< "$said")"
  grep -A1 '^connect  *FAIL .*timed out' "$said" | grep -q 'UDP port 4791, iWARP: the TCP port' || fail "$(< "$said")"
  grep -q 'dropped [1-9]' "${said%out}server.filter" || fail "$(< "${said%out}server.filter")"
}

@test "check names an MTU that the path does not have, on RoCE; iWARP finds out by itself" {
  local said=$BATS_FILE_TMPDIR/shared/narrow-check.out status=0
  if [ "$RDMAPUT_TEST_FABRIC" = rxe ]; then status=1; fi
  assert_ended narrow-check client $status
  assert_ended narrow-check server 0
  if [ $status -eq 1 ]; then
    grep -q '^size-65  *ok ' "$said" || fail "$(< "$said")"
    grep -A1 '^size-4095  *FAIL ' "$said" | grep -q 'packets of about the MTU, 4096 bytes, do not' || fail "$(< "$said")"
    grep -q 'dropped [1-9]' "${said%out}server.filter" || fail "$(< "${said%out}server.filter")"
  fi
  assert_ended mended-check client 0
}

@test "write -e ssh starts the server there, which ends with it" {
  assert_delivered ssh-write
}

@test "write -e ssh is killed in mid-transfer, and nothing of it is left there" {
  assert_ended ssh-killed-write client 137
  assert_ended ssh-killed-write server 0
  [ "$elapsed_ms" -le 10000 ] || fail "the server took $elapsed_ms ms to end"
  assert_nothing_left ssh-killed-write
}
