# doctor.bats - `check` of this host, and of a path on its fabric; and faults of the host, one at a time, each of which
# it names with what mends it
# bats file_tags=device
# shellcheck disable=SC2030,SC2031 # a test's own limits end with it
# shellcheck disable=SC2154 # variables of lib/common.bash
load lib/common
load lib/check

USER_ID=1000 # nobody in particular

setup_file() {
  # Where another user can reach it.
  chmod a+x "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR"
  install -m 755 "$RDMAPUT" "$BATS_FILE_TMPDIR/rdmaput"
}

setup() {
  common_setup
  need_device
  need_command jq
  restoring=()
}

# What a test changed on the guest is as it was for the next one.
teardown() {
  local status=0 at
  for ((at = ${#restoring[@]} - 1; at >= 0; at--)); do
    eval "${restoring[at]}" || status=1
  done
  common_teardown || status=1
  return $status
}
# COMMAND - to be done when the test has ended; the last one first
restore() { restoring+=("$1"); }

# Sets device and netdev, those behind $addr, and name, the device's in findings.
find_rdma() {
  netdev=$(ip -o -4 address show to "$addr" | awk '{ print $2 }')
  device=$(rdma link show | awk -v netdev="$netdev" '$NF == netdev { sub("/.*", "", $2); print $2 }')
  [ -n "$device" ] || fail "no device is behind $addr"
  name=${device//[^a-z0-9]/-}
  uverbs=$(grep -lx "$device" /sys/class/infiniband_verbs/uverbs*/ibdev)
  uverbs=${uverbs%/ibdev} uverbs=${uverbs##*/}
}

# For what changes the guest.
find_guest() {
  need_guest 'this system stays as it is'
  find_rdma
}

# When the network device goes down, its IPv6 addresses are to stay.
keep_addresses() {
  restore "echo 0 > /proc/sys/net/ipv6/conf/$netdev/keep_addr_on_down"
  echo 1 > "/proc/sys/net/ipv6/conf/$netdev/keep_addr_on_down"
}

# STATUS [ARG...] - `check` of this host, as an ordinary user, ends so
check_as_user() {
  local got=0
  chmod 777 .
  chmod a+x "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" 2> /dev/null || true
  timeout -k 5 90 setpriv --reuid=$USER_ID --regid=$USER_ID --clear-groups \
    "$BATS_FILE_TMPDIR/rdmaput" check --json "${@:2}" > json 2> err || got=$?
  assert_equal "$got" "$1"
  read_findings "$1"
}

@test "a host in order: each layer, and a write to each address" {
  local finding address line
  find_guest
  check_json 0
  for finding in device drivers module-ib-uverbs module-rdma-ucm node-rdma-cm "node-$uverbs" "provider-$name" \
    "port-$name-1" "link-layer-$name-1" "netdev-$name-1" "addresses-$name-1" "gids-$name-1" "mtu-$name-1" \
    memlock netns container reach; do
    assert_finding "$finding" ok
  done
  for address in "$addr" "$addr6"; do
    assert_finding "loopback-${address//[.:]/-}" ok "$address over $device: connected"
  done
  for line in "${findings[@]}"; do
    [[ $line == *$'\tok\t'* ]] || fail "$line"
  done
  # One address alone.
  check_json 0 --bind "$addr"
  assert_equal "$(printf '%s\n' "${findings[@]}" | grep -c ^loopback)" 1
  assert_finding "loopback-${addr//./-}" ok
}

@test "a path on the fabric has figures, and thresholds that are met and missed" {
  start_server
  check_json 0 --quick --min-bandwidth 1Mb/s --max-latency 1s "$dest"
  assert_finding min-bandwidth ok
  assert_finding max-latency ok
  check_json 1 --quick --min-bandwidth 1Tb/s --max-latency 1ns --percentile 99 "$dest"
  assert_failed min-bandwidth max-latency
}

# bats test_tags=rxe
@test "fault: a loopback address" {
  check_json 1 127.0.0.1
  assert_finding resolve-address failed 'loopback addresses have no RDMA device' 'use its address '
  assert_failed resolve-address
}

@test "fault: the address is gone" {
  need_guest 'addresses of this system stay'
  find_rdma
  start_server
  ip address del "$addr/24" dev "$netdev"
  restore "ip address add $addr/24 dev $netdev"
  check_json 1 --timeout 2s "$dest"
  [[ $failed == resolve-* ]] || fail "$failed"
  assert_finding "$failed" failed "$addr"
}

@test "of a name with several addresses, the findings are of the one that came furthest" {
  local got=0
  find_guest
  # The second one is none of this guest's networks.
  printf '%s several.test\n' "$addr" 192.0.2.9 > hosts
  unshare -m bash -c 'mount --bind hosts /etc/hosts && exec "$@"' - "$RDMAPUT" check --json several.test:1 > json || got=$?
  assert_equal "$got" 1
  read_findings 1
  assert_finding resolve-address ok "$addr"
  assert_finding resolve-route ok "by device $device port 1, from $addr"
  assert_finding connect failed "$addr:1: connection rejected"
}

# bats test_tags=rxe
@test "nothing is left of it, and the host is as it was" {
  find_guest
  look() {
    ip address
    rdma link
    ls -l /dev/infiniband
    lsmod | awk '{ print $1, $2 }'
  }
  look > before
  run rdmaput check --bind "$addr" --format=tap
  assert_run 0
  look > after
  # The lifetime of an address, in words, does not change.
  diff before after
}

@test "an interrupted check dies by the signal, and at once" {
  find_guest
  start_process check "$RDMAPUT" check
  wait_for_text "$process_out" reach
  kill -INT "$process_pid"
  within 5000 wait_process "$process_pid"
  assert_equal "$process_status" 130
}

@test "fault: a module is not loaded" {
  find_guest
  need_command modprobe
  restore 'modprobe rdma_ucm && wait_for exists /dev/infiniband/rdma_cm'
  rmmod rdma_ucm
  # librdmacm has the kernel load it.
  restore "echo $(< /proc/sys/kernel/modprobe) > /proc/sys/kernel/modprobe"
  echo > /proc/sys/kernel/modprobe
  check_json 1
  assert_finding module-rdma-ucm failed 'rdma_ucm is not loaded' 'modprobe rdma_ucm'
  assert_finding node-rdma-cm skipped module
  assert_finding reach skipped
  assert_failed module-rdma-ucm
  # The path names it, too.
  check_json 1 "$addr"
  assert_finding resolve-address failed 'no /dev/infiniband/rdma_cm' 'modprobe rdma_ucm'
}

# bats test_tags=rxe
@test "fault: a node is missing" {
  find_guest
  mv /dev/infiniband/rdma_cm /dev/infiniband/away
  restore 'mv /dev/infiniband/away /dev/infiniband/rdma_cm'
  check_json 1
  assert_finding node-rdma-cm failed '/dev/infiniband/rdma_cm' udevadm
  assert_failed node-rdma-cm
}

@test "fault: a device's node is missing" {
  find_guest
  mv "/dev/infiniband/$uverbs" /dev/infiniband/away
  restore "mv /dev/infiniband/away /dev/infiniband/$uverbs"
  check_json 1
  assert_finding "node-$uverbs" failed "/dev/infiniband/$uverbs" udevadm
  assert_finding "provider-$name" skipped node
  assert_failed "node-$uverbs"
}

# bats test_tags=rxe
@test "fault: a node cannot be read" {
  find_guest
  chmod 0600 "/dev/infiniband/$uverbs"
  restore "chmod 0666 /dev/infiniband/$uverbs"
  check_as_user 1 --bind "$addr"
  assert_finding "node-$uverbs" failed "of $device: Permission denied" "chmod 0666 /dev/infiniband/$uverbs"
}

@test "fault: no provider library" {
  local file
  find_guest
  file=/etc/libibverbs.d/$fabric.driver
  [ -e "$file" ] || file=/etc/libibverbs.d/$(basename "$(grep -lx "driver $fabric" /etc/libibverbs.d/*)")
  mv "$file" /tmp/away.driver
  restore "mv /tmp/away.driver $file"
  check_json 1 --bind "$addr"
  assert_finding "provider-$name" failed "no provider for it" ibverbs-providers
}

@test "fault: the link is down" {
  find_guest
  keep_addresses
  ip link set "$netdev" down
  restore "ip link set $netdev up && wait_for is_active"
  check_json 1 --bind "$addr"
  assert_finding "port-$name-1" failed "port 1 of $device is DOWN" "ip link set $netdev up"
  assert_finding "netdev-$name-1" failed "$netdev, of $device port 1, is down" "ip link set $netdev up"
  assert_finding "mtu-$name-1" skipped
}
is_active() { grep -q ACTIVE "/sys/class/infiniband/$device/ports/1/state"; }

@test "fault: the device has no address" {
  find_guest
  ip address flush dev "$netdev" scope global
  restore "ip address add $addr/24 dev $netdev && ip address add $addr6/64 dev $netdev nodad"
  check_json 1 --bind "$addr"
  assert_finding "addresses-$name-1" failed "$netdev, of $device port 1, has no address" \
    "ip address add ADDRESS/PREFIX dev $netdev"
}

# bats test_tags=rxe
@test "fault: an MTU that is wrong" {
  find_guest
  restore "ip address replace $addr6/64 dev $netdev nodad"
  restore "ip link set $netdev mtu 1500"
  if [ "$fabric" = rxe ]; then
    ip link set "$netdev" mtu 300
    check_json 1 --bind "$addr"
    assert_finding "mtu-$name-1" failed "do not fit into the MTU of $netdev, 300" "ip link set $netdev mtu"
  else
    ip link set "$netdev" mtu 1000
    check_json 0 --bind "$addr"
    assert_finding "mtu-$name-1" warning "MTU of $netdev, 1000, is too small" "ip link set $netdev mtu"
  fi
}

@test "fault: no memory may be locked" {
  find_guest
  ulimit -l 0
  check_as_user 1 --bind "$addr"
  assert_finding memlock failed '0 B may be locked' 'ulimit -l'
  assert_finding "loopback-${addr//./-}" failed 'locked memory' 'ulimit -l'
  assert_failed memlock "loopback-${addr//./-}"
}

@test "little memory may be locked: what both ends of a loopback cannot try for that is a warning" {
  find_guest
  ulimit -l 1000
  check_as_user 0 --bind "$addr"
  assert_finding memlock warning '1000.00 KiB may be locked: a transfer works'
  assert_finding "loopback-${addr//./-}" warning 'not tried for lack of locked memory, which both ends share here: ' 'ulimit -l'
  # Enough for one end, and not for both.
  ulimit -l 64
  check_as_user 0 --bind "$addr"
  assert_finding memlock warning '64.00 KiB may be locked: a transfer works'
  assert_finding "loopback-${addr//./-}" warning 'could not be tried within a limit of locked memory' 'ulimit -l'
}

# bats test_tags=rxe
@test "fault: a container without the nodes" {
  find_guest
  touch /.dockerenv
  restore 'rm /.dockerenv'
  mv "/dev/infiniband/$uverbs" /dev/infiniband/away
  restore "mv /dev/infiniband/away /dev/infiniband/$uverbs"
  check_json 1 --bind "$addr"
  assert_finding "node-$uverbs" failed '' "--device=/dev/infiniband/$uverbs"
  assert_finding container warning 'missing: nodes below /dev/infiniband' '--device=/dev/infiniband'
}

# bats test_tags=rxe
@test "fault: an address that reaches no device" {
  find_guest
  check_json 1 --bind 192.0.2.200
  assert_finding loopback failed 'no RDMA device is behind 192.0.2.200' 'rdmaput devices'
  assert_failed loopback
}

@test "no device: 69, alone and with a host" {
  local link on
  find_guest
  while read -r link on; do
    restore "rdma link add $link type ${link%%[0-9]*} netdev $on"
    rdma link delete "$link"
  done < <(rdma link show | awk '{ sub("/.*", "", $2); print $2, $NF }')
  check_json 69
  assert_finding device failed 'no RDMA device' 'rdma link add NAME type'
  assert_equal "$(jq -r .error.kind json)" unavailable
  check_json 69 "$addr"
  assert_finding device failed 'no RDMA device'
  run rdmaput check "$addr"
  assert_run 69 'no RDMA device on this host'
  run --separate-stderr rdmaput devices --json
  assert_equal "$status" 69
  jq -e '.devices == [] and .error.kind == "unavailable"' <<< "$output"
}
