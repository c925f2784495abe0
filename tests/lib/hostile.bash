# hostile.bash - rdmaput and a peer that breaks the rules (hostile-peer): each end by itself, and nothing else
# is harmed. To be loaded after common.bash.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # common.bash uses what is set here, and sets what is used

HOSTILE_TIMEOUT=2000 # ms, of the program
GROWTH=65536         # bytes that a server's memory may grow by: what it keeps for as many at once as there were

hostile_peer() {
  "$RDMAPUT_BUILD/tests/hostile-peer" --timeout $HOSTILE_TIMEOUT --checker "$RDMAPUT_BUILD/tests/path-check" "$@"
}

# JOBS ROUNDS MIX - sets jobs, rounds and mix to these, or to less, where a sanitizer makes all of it slow
choose_extent() {
  jobs=$1 rounds=$2 mix=$3
  if is_sanitized; then jobs=8 rounds=1 mix=40; fi
}

# NAME ARG... - a server of directory NAME, which is made on tmpfs, for slots that are placed in files
start_hostile_server() {
  local server_wrapper=()
  if ! is_sanitized; then
    server_wrapper=(env "LD_PRELOAD=$RDMAPUT_BUILD/tests/lib/heap-count.so${LD_PRELOAD:+:$LD_PRELOAD}"
      RDMAPUT_TEST_HEAP=.bg-heap)
  fi
  mkdir "$1"
  if [ "$(stat -f -c %T .)" != tmpfs ]; then
    shm=$(mktemp -d /dev/shm/hostile.XXXXXX)
    rmdir "$1"
    ln -s "$shm" "$1"
  fi
  start_server -v --timeout ${HOSTILE_TIMEOUT}ms --exchange-port 0 "${@:2}" "$1"
  find_exchange
}

# For teardown, before the test's directory goes.
remove_hostile() {
  if [ -n "${shm-}" ]; then rm -rf "$shm"; fi
}

# Sets counts, what the server has of threads, descriptors, pinned pages and things of its device; and memory,
# bytes, which the allocators of sanitizers do not tell
count_server() {
  local kind
  read_server
  counts="threads $threads, descriptors ${#files[@]}, pinned $pinned KiB"
  memory=0
  if [ -e .bg-heap ]; then read -r memory < <(od -A n -t d8 .bg-heap); fi
  if [ -n "${FAKE_FABRIC_KIND-}" ] || ! command -v rdma > /dev/null; then return; fi
  for kind in qp mr; do
    counts+=", $kind $(rdma resource show $kind 2> /dev/null | grep -c "pid $server_pid " || true)"
  done
}

# Remembers what the server has while nobody is there but those who stay.
note_server() {
  count_server
  counts_before=$counts memory_before=$memory
}

# It has the same again.
assert_server_has_as_before() {
  wait_until has_counts_before || fail "the server has $counts, and had $counts_before"
}
has_counts_before() {
  count_server
  [ "$counts" = "$counts_before" ]
}

# And hardly more memory
assert_server_kept() {
  assert_server_has_as_before
  echo "memory: $memory_before bytes, then $memory"
  [ $((memory - memory_before)) -le $GROWTH ] ||
    fail "the server's memory grew from $memory_before to $memory bytes"
}

# Every hostile client in $rounds, and $mix at random, while an honest one goes on
play_clients() {
  local peer=(hostile_peer --jobs "$jobs" --log "$server_err" --exchange "$addr:$exchange")
  make_file beside 1500000
  dest=$dest/honest start_slow_client
  note_server
  "${peer[@]}" --rounds "$rounds" client "$dest"
  "${peer[@]}" --jobs 1 client "$dest" x-strangers
  assert_server_kept
  head -c 700000 beside >&7
  "${peer[@]}" --mix "$RANDOM:$mix" client "$dest"
  assert_server_kept
  tail -c +700001 beside >&7
  end_slow_client
  assert_equal "$client_status" 0
  cmp beside <(tail -c +7 "$served/honest")
}

# DIR - of all that hostile clients sent it holds what they may have committed
assert_only_allowed() {
  local name
  for name in "$1"/* "$1"/.[!.]*; do
    case ${name##*/} in may-* | honest | '*' | '.[!.]*') ;; *) fail "$name is there" ;; esac
  done
}

# JOBS ROUNDS MIX - the whole of it, with and without a secret
check_hostile_clients() {
  local jobs rounds mix
  choose_extent "$@"
  served=out
  start_hostile_server out
  play_clients
  assert_only_allowed out
  stop_server
  if grep -i 'bug' "$server_err"; then fail 'the server says that it has a bug'; fi
  (umask 077 && head -c 24 /dev/urandom | base64 > secret)
  mkdir with-secret
  start_server -v --timeout ${HOSTILE_TIMEOUT}ms --secret-file secret --exchange-port 0 with-secret
  find_exchange
  note_server
  hostile_peer --jobs "$jobs" --rounds "$rounds" --log "$server_err" --secret secret \
    --exchange "$addr:$exchange" client "$dest"
  assert_server_has_as_before
  assert_only_allowed with-secret
  stop_server
}

# ROUNDS - one at a time, as a region has them; what they wrote where they may is all that is there
check_hostile_regions() {
  local secret jobs rounds mix
  choose_extent 1 "$1" 0
  (umask 077 && head -c 24 /dev/urandom | base64 > secret)
  for secret in '' secret; do
    start_server -v --timeout ${HOSTILE_TIMEOUT}ms --region 64K --ticket ticket --dump dump \
      ${secret:+--secret-file "$secret"}
    IFS=, read -r _ _ _ remote_addr rkey _ < ticket
    note_server
    hostile_peer --rounds "$rounds" --log "$server_err" ${secret:+--secret "$secret"} \
      region "$dest" "$remote_addr" "$rkey"
    assert_server_has_as_before
    echo honest > a
    rdmaput post a@=65529 "$(< ticket)"
    wait_for ends_honest
    # Between the 64 bytes at the start and the last ones.
    cmp <(tail -c +65 dump | head -c 65465) <(head -c 65465 /dev/zero)
    stop_server
    rm dump
  done
}
ends_honest() { [ -e dump ] && [ "$(tail -c 7 dump)" = honest ]; }

# JOBS ROUNDS MIX [CASE...] - every hostile server (or these) that often, and so many at random
check_hostile_servers() {
  local jobs rounds mix
  choose_extent "${@:1:3}"
  local peer=(hostile_peer --jobs "$jobs" --program "$RDMAPUT")
  make_file a 1200000
  (umask 077 && head -c 24 /dev/urandom | base64 > secret)
  "${peer[@]}" --rounds "$rounds" server "$addr" a "${@:4}"
  if [ "$mix" -gt 0 ]; then "${peer[@]}" --mix "$RANDOM:$mix" server "$addr" a; fi
  "${peer[@]}" --rounds "$rounds" --secret secret server "$addr" a
}

# Sets some: every third hostile server, of those with exchanges every sixth; others on iWARP than elsewhere
choose_some() {
  local first=0
  if [ "$fabric" = siw ]; then first=1; fi
  mapfile -t some < <(hostile_peer --list | awk -v first=$first '
    $2 == "server" && $1 !~ /secret|proof/ { step = $1 ~ /^x-/ ? 6 : 3; if (++n[step] % step == first) print $1 }')
}

# COUNT - good sessions, one after another
check_sequence() {
  start_hostile_server out
  hostile_peer --rounds 20 --log "$server_err" client "$dest" honest
  note_server
  hostile_peer --rounds "$1" --log "$server_err" client "$dest" honest
  assert_server_kept
  assert_equal "$(grep -c 'committed, may-honest: ' "$server_err")" $(($1 + 20))
  stop_server
}
