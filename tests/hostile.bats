# hostile.bats - peers that break the protocol, or are silent, or leave: what each does, and what is to come of it,
# is in hostile/cases.c (`hostile-peer --list`). More rounds of it run on the fake fabric (fabric.bats).
#
# RDMAPUT_HOSTILE_ROUNDS  how often each case is played: 1, and of servers, for which a program is started each time,
#                         some; or 5 and more
# RDMAPUT_TEST_SESSIONS   how many sessions there are one after another: 150
# shellcheck disable=SC2034,SC2154 # variables of lib/*.bash
load lib/common
load lib/hostile

wanted=${RDMAPUT_HOSTILE_ROUNDS:-1}

setup() {
  common_setup
  need_device
  ulimit -l unlimited 2> /dev/null || true # for many at once
}

teardown() {
  remove_hostile
  common_teardown
}

# bats test_tags=fast
@test "an honest peer of another make delivers, and is delivered to" {
  make_file a 1200000
  mkdir out
  start_server -v out
  run hostile_peer deliver "$dest" x a
  assert_run 0
  assert_same a out/x
  hostile_peer --log "$server_err" client "$dest" honest honest-many honest-placed
  assert_dir_holds out may-honest may-honest-many may-honest-many2 may-honest-placed x
  assert_same out/may-honest out/may-honest-many2
  hostile_peer --program "$RDMAPUT" server "$addr" a server-honest server-honest-many server-honest-placed \
    server-honest-resumed server-honest-post
  stop_server
}

# bats test_tags=device
@test "hostile clients end their own sessions alone, in time, and leave nothing" {
  check_hostile_clients 12 "$wanted" $((40 * wanted))
}

# bats test_tags=device
@test "hostile clients of a region write nothing outside of it, and leave nothing" {
  check_hostile_regions "$wanted"
}

# bats test_tags=device
@test "hostile servers are told from good ones, and every wait for them ends in time" {
  HOSTILE_TIMEOUT=3000 # processes start slowly in a guest
  local some=()
  if [ "$wanted" -eq 1 ]; then choose_some; fi
  check_hostile_servers 3 "$wanted" $((40 * (wanted - 1))) "${some[@]}"
}

# bats test_tags=device
@test "sessions one after another leave nothing" {
  check_sequence "${RDMAPUT_TEST_SESSIONS:-150}"
}
