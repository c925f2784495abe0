# check.bats - the smoke test: what it prints, in each format; thresholds; and faults, one at a time
# shellcheck disable=SC2030,SC2031 # a test's own limits end with it
# shellcheck disable=SC2154 # variables of lib/common.bash
load lib/common

USER_ID=1000 # nobody in particular

setup_file() {
  # Where another user can reach it.
  chmod a+x "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR"
  install -m 755 "$RDMAPUT" "$BATS_FILE_TMPDIR/rdmaput"
}

setup() {
  common_setup
  need_device
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

# STATUS [ARG...] - `check` ends so; its document is in the file json
check_json() {
  local got=0
  RUN_LIMIT=90 rdmaput check --json "${@:2}" > json 2> err || got=$?
  assert_equal "$got" "$1"
  [ "$(wc -l < json)" = 1 ]
  assert_equal "$(jq .exit_status json)" "$1"
}

# NAME RESULT [TEXT [HINT]] - the finding has that result, and TEXT and HINT are parts of what it says
assert_finding() {
  local found
  found=$(jq -c --arg name "$1" '.findings[] | select(.name == $name)' json)
  [ -n "$found" ] || fail "no finding $1 in: $(jq -c '[.findings[].name]' json)"
  jq -e --arg result "$2" --arg text "${3-}" --arg hint "${4-}" \
    '.result == $result and (.message | contains($text)) and (.hint // "" | contains($hint))' \
    <<< "$found" > /dev/null || fail "not $2, '${3-}', '${4-}': $found"
}

# NAME RESULT... - the findings that failed, in order, and no others
assert_failed() {
  assert_equal "$(jq -r '[.findings[] | select(.result == "failed").name] | join(" ")' json)" "$*"
}

# ---- formats -------------------------------------------------------------------------------------

# bats test_tags=fast
@test "for people: a line for each finding, a hint below it, and a sum" {
  start_server
  run --separate-stderr rdmaput check --quick "$dest"
  assert_equal "$status" 0
  assert_equal "$stderr" ''
  assert_line --regexp "^resolve-address +ok +${dest}$"
  assert_line --regexp '^size-4097 +ok +arrived as sent'
  assert_line --regexp '^latency +ok +median [0-9.]+ [mun]?s, '
  assert_line --regexp '^[0-9]+ ok, 0 failed, 0 warnings, [0-9]+ skipped$'
  refute_output --partial $'\033'
  stop_server
  run --separate-stderr rdmaput check --quick "$dest"
  assert_equal "$status" 1
  assert_regex "$stderr" '^rdmaput: 1 of [0-9]+ tests failed: connect$'
  assert_line --regexp '^connect +FAIL +.*nobody listens on that port$'
  assert_line --regexp "^ +hint: start 'rdmaput serve' there"
  assert_line --regexp '^exchange +skipped not tried, since connect failed$'
}

@test "with -q: what failed, and nothing else" {
  start_server
  run rdmaput check -q --quick "$dest"
  assert_run 0
  assert_equal "$output" ''
  stop_server
  run --separate-stderr rdmaput check -q --quick "$dest"
  assert_equal "$status" 1
  assert_equal "${#lines[@]}" 2
}

@test "colours are for terminals, and for those who want them" {
  need_command script
  start_server
  run env TERM=xterm script -qec "'$RDMAPUT' check --quick $dest" /dev/null
  assert_run 0 $'\033[32mok     \033[0m'
  run env TERM=xterm NO_COLOR=1 script -qec "'$RDMAPUT' check --quick $dest" /dev/null
  assert_run 0 'size-1 '
  refute_output --partial $'\033'
  run env TERM=dumb script -qec "'$RDMAPUT' check --quick $dest" /dev/null
  refute_output --partial $'\033'
}

# bats test_tags=fast
@test "as JSON: findings, figures and the connection, also into a file" {
  need_command jq
  start_server
  check_json 0 --quick "$dest"
  jq -e --arg dest "$dest" '
    .version == 1 and .command == "check" and .target == $dest and .error == null and
    .connection.peer == $dest and
    (.findings | length) > 30 and .counts.failed == 0 and
    (.counts.ok + .counts.skipped) == (.findings | length) and
    (.figures | .latency_median_ns > 0 and .latency_median_ns <= .latency_99_ns and
      .latency_99_ns <= .latency_999_ns and .latency_samples > 0 and
      .bandwidth_bytes_per_second > 0 and .bandwidth_bytes > 0)' json
  rdmaput check --quick --format=json "$dest" > again
  jq -e .figures again
  rdmaput check --quick --format=tap --json-file document "$dest" > tap
  assert_equal "$(head -n 1 tap)" 'TAP version 13'
  jq -e '.findings | length' document > length
  assert_equal "$(grep -c '^ok' tap)" "$(< length)"
}

@test "as TAP: prove takes it, and its diagnostics are YAML" {
  need_command prove
  start_server
  rdmaput check --quick --format=tap "$dest" > check.tap
  run prove --exec cat check.tap
  assert_run 0 'All tests successful.' 'Result: PASS'
  stop_server
  run rdmaput check --quick --format=tap "$dest"
  assert_run 1 'not ok 3 - connect: ' '  message: "' "  hint: \"start 'rdmaput serve'" \
    'ok 4 - exchange # SKIP not tried, since connect failed'
  printf '%s\n' "$output" > check.tap
  run prove --exec cat check.tap
  assert_run 1 'Failed test:  3' 'Result: FAIL'
  # Each diagnostic is closed, and holds strings and numbers.
  run grep -vE '^(TAP version 13|1\.\.[0-9]+|(not )?ok [0-9]+ - .*|  ---|  \.\.\.|  [a-z_]+: ("([^"\\]|\\["\\])*"|[0-9]+)|rdmaput: .*)$' check.tap
  assert_output ''
  assert_equal "$(grep -c '^  ---' check.tap)" "$(grep -c '^  \.\.\.' check.tap)"
}

@test "as JUnit's XML: valid, with what failed and what was skipped" {
  need_command xmllint
  start_server
  rdmaput check --quick --format=junit "$dest" > ok.xml
  run xmllint --noout --schema "$BATS_TEST_DIRNAME/lib/junit.xsd" ok.xml
  assert_run 0
  assert_equal "$(xmllint --xpath 'count(//testcase)' ok.xml)" "$(xmllint --xpath 'string(//testsuite/@tests)' ok.xml)"
  assert_equal "$(xmllint --xpath 'count(//failure)' ok.xml)" 0
  stop_server
  run --separate-stderr rdmaput check --quick --format=junit "$dest"
  assert_equal "$status" 1
  printf '%s\n' "$output" > failed.xml
  run xmllint --noout --schema "$BATS_TEST_DIRNAME/lib/junit.xsd" failed.xml
  assert_run 0
  assert_equal "$(xmllint --xpath 'string(//testsuites/@failures)' failed.xml)" 1
  run xmllint --xpath 'string(//testcase[@name="connect"]/failure/@message)' failed.xml
  assert_run 0 'nobody listens'
  assert_equal "$(xmllint --xpath 'count(//skipped)' failed.xml)" "$(xmllint --xpath 'string(//testsuite/@skipped)' failed.xml)"
}

@test "output that cannot be written is status 74" {
  local format
  start_server
  for format in human json tap junit; do
    run bash -c "'$RDMAPUT' check --quick --format=$format $dest > /dev/full"
    assert_run 74 'No space left on device'
  done
}

# bats test_tags=fast
@test "options that do not go together are wrong usage" {
  local options
  for options in '--format=xml' '--json --format=tap host' '--json --json-file=f host' '--min-bandwidth=1Gb/s' \
    '--min-bandwidth=1Gb host' '--max-latency=10x host' '--percentile=90 host' '--duration=0 host' \
    '--wait=1s' '--port=1' '--tos=1' '--quick' '--secret-file=f' 'host other' 'host/name' 'user@host' \
    '--bind=name host' '--bind=name'; do
    # shellcheck disable=SC2086 # words
    run rdmaput check $options
    [ "$status" -eq 64 ] || fail "status $status: $options: $output"
  done
}

# ---- thresholds ----------------------------------------------------------------------------------

# bats test_tags=fast
@test "a threshold that is met is status 0, and one that is missed, status 1" {
  local rate median
  start_server
  check_json 0 --quick "$dest"
  rate=$(jq .figures.bandwidth_bytes_per_second json) median=$(jq .figures.latency_median_ns json)
  check_json 0 --quick --min-bandwidth "$((rate / 50))B/s" --max-latency "$((median * 50))ns" "$dest"
  assert_finding min-bandwidth ok 'no less than'
  assert_finding max-latency ok '50 % within'
  check_json 1 --quick --min-bandwidth "$((rate * 50))B/s" "$dest"
  assert_finding min-bandwidth failed 'less than' 'rdma statistic'
  assert_failed min-bandwidth
  check_json 1 --quick --max-latency "$((median / 50))ns" "$dest"
  assert_finding max-latency failed '50 % within' 'processors'
  assert_failed max-latency
  check_json 1 --quick --max-latency 1ns --percentile 99.9 "$dest"
  assert_finding max-latency failed '99.9 % within'
  assert_equal "$(jq -r '.error.kind + " " + .error.message' json)" \
    "check 1 of $(jq '.findings | length' json) tests failed: max-latency"
}

@test "a path that does not work misses no threshold: they are skipped" {
  check_json 1 --min-bandwidth 1b/s --max-latency 1h "$addr:1"
  assert_failed connect
  assert_finding min-bandwidth skipped 'no bandwidth was measured'
  assert_finding max-latency skipped
}

@test "--duration says how long is measured" {
  local short long
  start_server
  check_json 0 --duration 100ms "$dest"
  short=$(jq '.findings[] | select(.name == "latency").duration_ns' json)
  check_json 0 --duration 1s "$dest"
  long=$(jq '.findings[] | select(.name == "latency").duration_ns' json)
  [ "$short" -lt 900000000 ]
  [ "$long" -ge 1000000000 ]
}

# ---- faults of the path --------------------------------------------------------------------------

@test "fault: nobody listens" {
  check_json 1 "$addr:1"
  assert_finding resolve-route ok
  assert_finding connect failed 'nobody listens' 'rdmaput serve'
  assert_finding exchange skipped 'since connect failed'
  assert_failed connect
}

@test "fault: another program listens" {
  start_process foreign "$RDMAPUT_BUILD/tests/foreign-listener" -b "$addr"
  wait_for_text "$process_out" ' '
  read -r _ port _ < "$process_out"
  check_json 1 "$addr:$port"
  assert_finding connect failed 'another program listens on that port' 'rdmaput serve'
  assert_failed connect
}

@test "fault: the server answers no checks" {
  start_server --no-check
  check_json 1 "$dest"
  assert_finding connect failed '' '--no-check'
  assert_failed connect
}

@test "fault: the server has a secret" {
  (umask 077 && head -c 24 /dev/urandom | base64 > secret)
  start_server --secret-file secret
  check_json 1 "$dest"
  assert_finding connect failed 'access refused' --secret-file
  check_json 0 --quick --secret-file secret "$dest"
}

@test "fault: a name that does not resolve" {
  check_json 1 no-such-host.invalid
  assert_finding resolve-address failed 'cannot find that host' spelling
  assert_failed resolve-address
}

# bats test_tags=device
@test "fault: a loopback address" {
  check_json 1 127.0.0.1
  assert_finding resolve-address failed 'loopback addresses have no RDMA device' 'use its address '
  assert_failed resolve-address
}

# bats test_tags=device
@test "fault: the address is gone" {
  need_guest 'addresses of this system stay'
  find_rdma
  start_server
  ip address del "$addr/24" dev "$netdev"
  restore "ip address add $addr/24 dev $netdev"
  check_json 1 --timeout 2s "$dest"
  assert_finding "$(jq -r '.findings[] | select(.result == "failed").name' json)" failed "$addr"
  [[ $(jq -r '.findings[] | select(.result == "failed").name' json) == resolve-* ]]
}

# ---- the doctor ----------------------------------------------------------------------------------

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
  need_command jq
  find_rdma
}

# When the network device goes down, its IPv6 addresses are to stay.
keep_addresses() {
  echo 1 > "/proc/sys/net/ipv6/conf/$netdev/keep_addr_on_down"
}

# ARG... - `check` of this host, as an ordinary user
check_as_user() {
  local got=0
  chmod 777 .
  chmod a+x "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" 2> /dev/null || true
  timeout -k 5 90 setpriv --reuid=$USER_ID --regid=$USER_ID --clear-groups \
    "$BATS_FILE_TMPDIR/rdmaput" check --json "$@" > json 2> err || got=$?
  assert_equal "$got" 1
}

# bats test_tags=device
@test "a host in order: each layer, and a write to each address" {
  local finding found address
  find_guest
  check_json 0
  found=$(jq -r '.findings[] | .name + " " + .result + " " + .message' json)
  for finding in device drivers module-ib-uverbs module-rdma-ucm node-rdma-cm "node-$uverbs" "provider-$name" \
    "port-$name-1" "link-layer-$name-1" "netdev-$name-1" "addresses-$name-1" "gids-$name-1" "mtu-$name-1" \
    memlock netns container reach; do
    [[ $found == *"$finding ok "* ]] || fail "$finding is not ok: $found"
  done
  [[ $found != *' skipped '* ]] || fail "$found"
  for address in "$addr" "$addr6"; do
    [[ $found == *"loopback-${address//[.:]/-} ok $address over $device: connected"* ]] ||
      fail "no loopback of $address: $found"
  done
  # One alone.
  check_json 0 --bind "$addr"
  assert_equal "$(jq -r '[.findings[].name | select(startswith("loopback"))] | join(" ")' json)" \
    "loopback-${addr//./-}"
}

# The loopback findings of `check` alone, each as "NAME RESULT", in the file loopbacks; on the
# fake fabric of all addresses, and there the layers below have failed.
loopbacks() {
  local only=(--bind "$addr")
  if [ "${RDMAPUT_TEST_FABRIC-}" = fake ]; then only=(); fi
  rdmaput check --json "${only[@]}" > json 2> err || [ $? -eq 1 ]
  jq -r '.findings[] | select(.name | startswith("loopback")) | .name + " " + .result' json > loopbacks
  [ -s loopbacks ] || lack 'no address but loopback ones'
}

# bats test_tags=threads
@test "a server inside of the process answers at an address of this host, and nothing is left of it" {
  loopbacks
  run grep -v ' ok$' loopbacks
  assert_output ''
  # Of its server and sessions it says nothing.
  run grep -v '^rdmaput: [0-9]* of [0-9]* tests failed: ' err
  assert_output ''
  if [ "${RDMAPUT_TEST_FABRIC-}" = fake ]; then assert_all_destroyed 1; fi
}

@test "an adapter that flips a bit is found out by a host's writes to itself" {
  [ "${RDMAPUT_TEST_FABRIC-}" = fake ] || use_fake_fabric roce
  RDMAPUT_TEST_FABRIC=fake
  FAKE_FABRIC_FLIP=4097:4000 loopbacks
  run grep -v ' failed$' loopbacks
  assert_output ''
  jq -e '.findings[] | select(.name | startswith("loopback")) |
    (.message | contains("size-4097: ") and contains("arrived wrong: byte 4000 of 4097")) and
    (.hint | contains("other adapters"))' json
}

# bats test_tags=device
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

# bats test_tags=device
@test "an interrupted check dies by the signal, and at once" {
  find_guest
  start_process check "$RDMAPUT" check
  wait_for_text "$process_out" reach
  kill -INT "$process_pid"
  within 5000 wait_process "$process_pid"
  assert_equal "$process_status" 130
}

# bats test_tags=device
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

# bats test_tags=device
@test "fault: a node is missing" {
  find_guest
  mv /dev/infiniband/rdma_cm /dev/infiniband/away
  restore 'mv /dev/infiniband/away /dev/infiniband/rdma_cm'
  check_json 1
  assert_finding node-rdma-cm failed '/dev/infiniband/rdma_cm' udevadm
  assert_failed node-rdma-cm
}

# bats test_tags=device
@test "fault: a node cannot be read" {
  find_guest
  chmod 0600 "/dev/infiniband/$uverbs"
  restore "chmod 0666 /dev/infiniband/$uverbs"
  check_as_user --bind "$addr"
  assert_finding "node-$uverbs" failed "of $device: Permission denied" "chmod 0666 /dev/infiniband/$uverbs"
}

# bats test_tags=device
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

# bats test_tags=device
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

# bats test_tags=device
@test "fault: the device has no address" {
  find_guest
  ip address flush dev "$netdev" scope global
  restore "ip address add $addr/24 dev $netdev && ip address add $addr6/64 dev $netdev nodad"
  check_json 1 --bind "$addr"
  assert_finding "addresses-$name-1" failed "$netdev, of $device port 1, has no address" \
    "ip address add ADDRESS/PREFIX dev $netdev"
}

# bats test_tags=device
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

# bats test_tags=device
@test "fault: no memory may be locked" {
  find_guest
  ulimit -l 0
  check_as_user --bind "$addr"
  assert_finding memlock failed '0 B may be locked' 'ulimit -l'
  assert_finding "loopback-${addr//./-}" failed 'locked memory' 'ulimit -l'
  assert_failed memlock "loopback-${addr//./-}"
}

# bats test_tags=device
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

# bats test_tags=device
@test "fault: an address that reaches no device" {
  find_guest
  check_json 1 --bind 192.0.2.200
  assert_finding loopback failed 'no RDMA device is behind 192.0.2.200' 'rdmaput devices'
  assert_failed loopback
}

# bats test_tags=device
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
}
