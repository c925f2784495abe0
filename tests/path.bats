# The test of the path to a server: layers, writes that are compared, figures; and what it is to a server.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # common.bash and bats use what is set here, and set what is used

load lib/common

# What is the program's own business is tried on the fake fabric.
setup() {
  common_setup
  case " ${BATS_TEST_TAGS[*]} " in
    *' device '*) need_device ;;
    *) use_fake_fabric roce ;;
  esac
}

# [OPTION...] - tests the path to the server, in little time
check_path() { "$RDMAPUT_BUILD/tests/path-check" -d 50 "$@" "$dest"; }

# [OPTION...] - in the background, for 20 s unless it is ended; once it measures
start_check() {
  start_process "check${#background_pids[@]}" "$RDMAPUT_BUILD/tests/path-check" -d 20000 "$@" "$dest"
  check_pid=$process_pid check_out=$process_out
  wait_for_text "$check_out" 'ok inline-'
}

# bats test_tags=device
@test "a sound path is found sound, layer by layer and write by write" {
  local max_sge
  start_server -v
  run check_path
  assert_run 0
  refute_output --partial FAIL
  assert_equal "$(cut -d ' ' -f 2 <<< "$output" | sed -n '1,11p' | paste -sd ' ')" \
    'resolve-address: resolve-route: connect: exchange: size-0: size-1: size-2: size-3: size-63: size-64: size-65:'
  for name in size-4096 size-65537 size-1048576 gather-1 gather-2 align-1-0 align-0-1 align-4095-4095 latency \
    bandwidth; do
    assert_line --partial "ok $name: "
  done
  max_sge=$(device_limit max_sge)
  max_sge=${max_sge:-32} # of the fake fabric, whose address is a loopback one
  assert_line --partial "ok gather-$((max_sge - 1)): "
  assert_line --partial "ok gather-$max_sge: "
  refute_line --partial "gather-$((max_sge + 1)): "
  assert_line --regexp '^figures: latency [1-9][0-9]* [1-9][0-9]* [1-9][0-9]* ns of [1-9]'
  assert_line --regexp '^figures: bandwidth [1-9][0-9]* bytes/s of [1-9]'
  wait_for_text "$server_err" 'checked: '
  stop_server
  assert_regex "$(< "$server_err")" 'checked: [3-9][0-9] writes, all right; [0-9]+ echoes'
}

# bats test_tags=rxe
@test "every kind of server answers checks, and keeps nothing of them" {
  local sink
  mkdir dir
  make_file file 100
  cp file same
  for sink in --discard dir new '--in-place file' '--region 1M --dump dump' '--once dir' -; do
    # shellcheck disable=SC2086 # several words
    start_server $sink
    run check_path
    assert_run 0 'ok bandwidth'
    stop_server
    assert_equal "$(< "$server_out")" ''
  done
  assert_dir_holds dir
  assert_same file same
  assert_not_exists new
  assert_not_exists dump
}

# bats test_tags=device
@test "a check goes on beside a transfer that has to be alone, and the other way round" {
  make_file file 100
  start_server -v --in-place file --once
  start_slow_client
  run check_path
  assert_run 0 'ok bandwidth'
  start_check
  end_slow_client
  assert_equal "$client_status" 0
  wait_server
  assert_equal "$server_status" 0
  wait_process "$check_pid" 10
  assert_equal "$process_status" 75
  assert_equal "$(head -c 5 file)" begin
  # And it was no transfer.
  start_server -v --once out
  start_check
  make_file a 5000
  run rdmaput write a "$dest"
  assert_run 0
  wait_server
  assert_equal "$server_status" 0
  assert_same a out
}

@test "a server with one session at a time is busy with a check" {
  start_server --max-sessions 1 out
  start_check
  make_file a 10
  run rdmaput write a "$dest"
  assert_run 75 'busy with another session'
  run check_path
  assert_run 75 'FAIL connect: ' 'busy with another session'
  kill -TERM "$check_pid"
  wait_process "$check_pid" 10
  assert_equal "$process_status" 143
  run rdmaput write a "$dest"
  assert_run 0
}

# bats test_tags=siw
@test "no more than 8 checks run at a time" {
  local pids=() pid
  start_server
  for _ in {1..8}; do
    start_check
    pids+=("$check_pid")
  done
  run check_path
  assert_run 75 'FAIL connect: ' 'busy with as many checks as there may be'
  for pid in "${pids[@]}"; do kill -TERM "$pid"; done
}

# bats test_tags=device
@test "a server with --no-check answers none, and says so" {
  start_server --no-check --discard
  run check_path
  assert_run 69 'FAIL connect: ' 'the server refused: this server answers no check' 'hint: serve without --no-check' \
    'skipped exchange: not tried, since connect failed' 'skipped writes: not tried' 'skipped latency: not tried' \
    'skipped bandwidth: not tried'
  make_file a 10
  run rdmaput write a "$dest"
  assert_run 0
}

# bats test_tags=device
@test "what fails first is named, and nothing behind it is tried" {
  start_server
  dest=$addr:1 run check_path
  assert_run 69 'ok resolve-route' 'FAIL connect: ' 'nobody listens' 'skipped exchange: not tried, since connect failed'
  find_unknown_status
  dest=no-such-host.invalid run check_path
  assert_run $unknown_status 'FAIL resolve-address: ' 'cannot find that host' 'skipped resolve-route: ' 'skipped connect: '
  refute_output --partial 'ok '
}

# bats test_tags=device,siw
@test "a secret is asked for and proved, as for a transfer" {
  (umask 077 && echo 0123456789abcdef > secret && echo 0123456789abcdeX > other)
  start_server --secret-file secret
  run check_path -s secret
  assert_run 0
  run check_path
  assert_run 69 'FAIL connect: ' 'access refused' '--secret-file'
  run check_path -s other
  assert_run 69 'FAIL exchange: ' 'access refused' 'skipped writes: not tried, since exchange failed'
}

# bats test_tags=siw
@test "a client whose address is not allowed gets no check" {
  start_server --allow 192.0.2.0/24
  run check_path
  assert_run 69 'FAIL connect: ' 'address not allowed'
}

# bats test_tags=device
@test "where memory is short, what needs more is left out, and that is no failure" {
  start_server --max-memory 60K
  run check_path
  assert_run 0 'ok size-4097' 'skipped size-65535: the server has no more than ' 'ok gather-1' 'ok bandwidth'
  refute_output --partial FAIL
}

# bats test_tags=device
@test "a server that is killed ends a check, and one that is stopped, in time" {
  start_server
  start_check -t 3000
  kill -KILL "$server_pid"
  within 4000 wait_process "$check_pid" 10
  assert_equal "$process_status" 75
  assert_regex "$(< "$check_out")" 'FAIL (latency|bandwidth): '
  if [ -n "${FAKE_FABRIC_KIND-}" ]; then return; fi # whose stopped processes answer nothing at all
  start_server
  start_check -t 2000
  kill -STOP "$server_pid"
  within 6000 wait_process "$check_pid" 10
  assert_equal "$process_status" 75
  assert_regex "$(< "$check_out")" 'FAIL (latency|bandwidth): '
}

# bats test_tags=device
@test "a check that is killed, or stopped, leaves a server as it was" {
  local before
  start_server -v --timeout 2s
  run check_path
  wait_for_text "$server_err" 'checked: '
  read_server
  before=$threads
  start_check
  kill -KILL "$check_pid"
  wait_for is_idle "$before"
  start_check
  kill -STOP "$check_pid"
  WAIT_LIMIT=10 wait_for is_idle "$before"
  run check_path
  assert_run 0
}

@test "what a check came to is in a document of the server's" {
  need_command jq
  start_server --json
  run check_path
  assert_run 0
  wait_for_text "$server_out" '"command"'
  run jq -r '[.role, .writes_wrong, (.writes_right > 25), (.echoes > 1), .exit_status] | join(" ")' "$server_out"
  assert_output 'check 0 true true 0'
}

# ---- what only a fabric of our own does --------------------------------------------------------

# NAME LENGTH:PLACE TEXT - the server's adapter flips a bit: that write fails alone, and figures are not taken
flipped_bit_is_caught() {
  local server_wrapper=(env "FAKE_FABRIC_FLIP=$2")
  start_server
  run check_path
  assert_run 65 "FAIL $1: " "$3"
  assert_equal "$(grep -c '^FAIL ' <<< "$output")" 1
  assert_line "skipped latency: not tried, since $1 failed"
  assert_line "skipped bandwidth: not tried, since $1 failed"
  assert_line --partial 'ok inline-512: '
  stop_server
}

@test "one flipped bit is caught, in what was written and beside it" {
  flipped_bit_is_caught size-4097 4097:0 'byte 0 of 4097 is'
  flipped_bit_is_caught size-1048576 1048576:1048575 'byte 1048575 of 1048576 is'
  flipped_bit_is_caught size-65 65:-1 'a byte that was not written, 1 before the target'
  flipped_bit_is_caught size-65 65:65 'a byte that was not written, 1 behind the target'
  flipped_bit_is_caught size-0 0:100 'a byte that was not written, 101 behind the target'
  assert_regex "$(< "$server_err")" 'checked: 1 of [0-9]+ writes arrived wrong'
}

@test "a write of more than a work request takes is made of several" {
  export FAKE_FABRIC_MAX_MSG=100000
  start_server
  run check_path -v -v
  assert_run 0 'ok size-past-limit: arrived as sent, and nothing else; bytes: 100001' 'ok size-1048576' \
    'RDMA write of 100000 bytes'
  refute_output --partial 'RDMA write of 100001 bytes'
}

@test "where the device takes no inline data, that is left out" {
  use_fake_fabric iwarp
  export FAKE_FABRIC_MAX_INLINE=0
  start_server
  run check_path
  assert_run 0 'skipped inline-1: the device takes no inline data' 'ok latency'
}

@test "a check leaves nothing behind on either side" {
  start_server
  run check_path
  assert_run 0
  dest=$addr:1 run check_path
  assert_run 69
  stop_server
  assert_all_destroyed 3
}
