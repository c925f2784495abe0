# messages.bats - each failure that users meet: its status, what failed and why, and what mends it
# shellcheck disable=SC2154 # variables of lib/common.bash
load lib/common

setup() {
  common_setup
  need_device
  make_file a 10
}

# STATUS TEXT HINT COMMAND... - it ends so, and says both
tells() {
  local status_due=$1 text=$2 hint=$3
  run --separate-stderr "${@:4}"
  [ "$status" -eq "$status_due" ] || fail "status $status: ${*:4}: $stderr"
  [[ $stderr == 'rdmaput: '*"$text"* ]] || fail "'$text' is not in: $stderr"
  [[ $stderr == *$'\nrdmaput: hint: '*"$hint"* ]] || fail "'$hint' is not in the hint of: $stderr"
}

# CALL ERRNO - as tells; the call fails with that in a write to a server that is there
tells_of_call() {
  FAIL_ERRNO=$2 tells "${@:3:3}" with_failure "$1" 1 '' rdmaput write a "$dest"
}

@test "a queue that cannot be made: which limit it is, or which device" {
  start_server f
  tells_of_call ibv_create_cq 12 71 'cannot create a completion queue, with a limit of locked memory of' 'LimitMEMLOCK='
  tells_of_call rdma_create_qp 12 71 'cannot create a queue pair, with a limit of locked memory of' "'ulimit -l'"
  tells_of_call ibv_create_comp_channel 24 71 'cannot create a completion channel: Too many open files' "'ulimit -n'"
  tells_of_call rdma_create_event_channel 24 71 'cannot use RDMA: Too many open files' "'ulimit -n'"
  tells_of_call rdma_create_qp 95 69 'makes no reliable connections (RC queue pairs)' EFA
  stop_server
}

@test "a server that finds no locked memory: that it is there where the limit is to be raised" {
  for call in ibv_reg_mr ibv_create_cq; do
    server_wrapper=(env LD_PRELOAD="$RDMAPUT_BUILD/tests/lib/fail-nth.so${LD_PRELOAD:+:$LD_PRELOAD}" FAIL_CALL="$call"
      FAIL_NTH=1 FAIL_ERRNO=12 ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS-}")
    start_server --discard
    tells 71 'the server refused: ' "on the server's host: raise the limit of locked memory: 'ulimit -l'" rdmaput write a "$dest"
    stop_server
  done
}

@test "an address that cannot be used says why" {
  tells 64 'a link-local address needs a zone' "'fe80::1%eth0'" rdmaput write a '[fe80::1]'
  tells 64 'a link-local address needs a zone' "'fe80::1%eth0'" rdmaput serve --bind fe80::1 f
  find_unknown_status
  tells $unknown_status 'cannot find that host' 'address' rdmaput write a no-such-host.invalid
}

@test "nobody listens" {
  tells 69 'connection rejected: nobody listens on that port' 'rdmaput serve' rdmaput write a "$addr:1"
  tells 69 'connection rejected: nobody listens on that port' "or does it serve another fabric than that of the address that this goes from" rdmaput write --bind "$addr" a "$addr:1"
}

# bats test_tags=device
@test "nodes that are not for everybody, and a device without its provider library" {
  need_guest 'the nodes of this system stay as they are'
  need_root "take permissions away"
  chmod 0600 /dev/infiniband/rdma_cm
  tells 69 'cannot use /dev/infiniband/rdma_cm: Permission denied' 0666 setpriv --reuid=65534 --clear-groups "$RDMAPUT" devices || failed=yes
  chmod 0666 /dev/infiniband/rdma_cm
  [ -z "${failed-}" ]
  tells 69 'libibverbs sees no RDMA device on this host, and the kernel has one' ibverbs-providers unshare -m bash -c \
    'mount -t tmpfs none /etc/libibverbs.d && exec "$@"' - "$RDMAPUT" devices
  chmod 0600 /dev/infiniband/uverbs*
  for words in devices "serve --discard --bind $addr"; do
    # shellcheck disable=SC2086 # words
    tells 69 ': Permission denied' 0666 setpriv --reuid=65534 --clear-groups "$RDMAPUT" $words || failed=yes
    assert_regex "$stderr" 'rdmaput: cannot open device [a-z0-9]+ by /dev/infiniband/uverbs' || failed=yes
  done
  chmod 0666 /dev/infiniband/uverbs*
  [ -z "${failed-}" ]
}
