# check.bats - the smoke test: what it prints, in each format; thresholds; and faults of a path, one at a time
# shellcheck disable=SC2154 # variables of lib/common.bash
load lib/common
load lib/check

# What a real fabric is to it: doctor.bats and path.bats.
setup() {
  common_setup
  use_fake_fabric roce
  need_command jq
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

# bats test_tags=fast
@test "with -v: what was negotiated, on standard error" {
  start_server
  run --separate-stderr rdmaput check -v --quick "$dest"
  assert_equal "$status" 0
  assert_regex "$stderr" "rdmaput: $dest: device fake0 port 1, RoCE, .*MTU [0-9]+, from "
  assert_regex "$stderr" "rdmaput: $dest: buffers 1 x [0-9.]+ MiB, max_sge .* pinned"
  stop_server
}

# bats test_tags=fast
@test "a percentile of fewer round trips than it takes is not measured, which has failed" {
  start_server
  check_json 1 --duration 1us --percentile 99.9 --max-latency 1h "$dest"
  assert_failed max-latency
  assert_finding max-latency failed '99.9 % takes 1000 round trips, and there were 1' 'a longer --duration'
  stop_server
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
  check_json 1 --duration 1s --max-latency 1ns --percentile 99 "$dest"
  assert_finding max-latency failed '99 % within'
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
  assert_equal "$(jq -c '[.findings[].kind]' json)" '[null,null,"unavailable",null,null,null,null]'
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

@test "fault: the server speaks another version of the protocol" {
  local name
  make_file a 1
  # What the peer takes for a client that writes.
  cat > client << 'END'
#!/bin/bash
to=${*: -1}
"$RDMAPUT" check --quick --json "${to%/*}" > json
echo $? > status
jq -r '.findings[].message' json >&2
exit 76
END
  chmod +x client
  for name in welcome-version-0 refusal-version; do
    "$RDMAPUT_BUILD/tests/hostile-peer" --program "$PWD/client" --checker "$PWD/client" server "$addr" a "$name"
    assert_equal "$(< status)" 1
    read_findings 1
    assert_finding resolve-route ok
    assert_finding connect failed 'of the protocol, this program version 1' 'same version'
    assert_finding exchange skipped
    assert_failed connect
  done
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
  assert_finding resolve-address failed 'cannot find that host' address
  assert_failed resolve-address
}

@test "fault: the address of --bind is of no device here, or of another family" {
  start_server
  check_json 1 --bind 192.0.2.200 "$dest"
  assert_finding resolve-address failed '192.0.2.200: no RDMA device of this host is behind that address of --bind' \
    'rdmaput devices'
  assert_failed resolve-address
  check_json 1 --bind ::1 "$dest"
  assert_finding resolve-address failed 'another family' 'both as IPv6'
}

# ---- this host -----------------------------------------------------------------------------------

# The loopback findings of `check` alone, each as "NAME RESULT", in the file loopbacks. The layers below have
# failed, as the device is none of the kernel's.
loopbacks() {
  rdmaput check --json > json 2> err || [ $? -eq 1 ]
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
  assert_all_destroyed 1
}

@test "what an interrupted check prints does not pass for a whole one" {
  local format
  need_command xmllint
  loopbacks
  for format in tap junit; do
    start_process "$format" "$RDMAPUT" check -v "--format=$format"
    wait_for_text "$process_err" 'serving on'
    kill -TERM "$process_pid"
    wait_process "$process_pid" 10
    assert_equal "$process_status" 143
    run grep -c 'interrupted by a signal' "$process_out"
    assert_run 0
  done
  run grep -E '^not ok [0-9]+ - loopback-' .bg-tap.out
  assert_run 0
  assert_equal "$(xmllint --xpath 'count(//testcase[starts-with(@name, "loopback")]/failure) > 0' .bg-junit.out)" true
}

@test "an adapter that flips a bit is found out by a host's writes to itself" {
  FAKE_FABRIC_FLIP=4097:4000 loopbacks
  run grep -v ' failed$' loopbacks
  assert_output ''
  jq -e '.findings[] | select(.name | startswith("loopback")) |
    (.message | contains("size-4097: ") and contains("arrived wrong: byte 4000 of 4097")) and
    (.hint | contains("other adapters"))' json
}
