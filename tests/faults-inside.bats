# Calls that fail inside of the program, each once (fault-sweep.c), over the fake fabric. What it prints says which
# call and what was not right; its head says what is right. A sample of them runs on devices, in faults.bats.
# shellcheck disable=SC2154 # bats sets output

load lib/common

shm=''
teardown() {
  cd "$BATS_TEST_TMPDIR" || return
  if [ -n "$shm" ]; then rm -rf "$shm"; fi
  common_teardown
}

# LEAST FAULT-SWEEP-ARG... - it is all right, in LEAST cases or more. What is built with sanitizers takes its time: then
# one call of each function.
sweep() {
  local sample=() excused='\((fopen|write|fclose|close|realloc) [0-9]+ told-'
  if is_sanitized; then sample=(-s 1); fi
  rm -f told
  run "$RDMAPUT_BUILD/tests/fault-sweep" -t told "${sample[@]}" "${@:2}"
  assert_success
  [[ $output =~ ^([0-9]+)\ cases,\ 0\ failed$ ]] || fail "$output"
  [ ${#sample[@]} -gt 0 ] || [ "${BASH_REMATCH[1]}" -ge "$1" ] || fail "only $output"
  # What they told as JSON is right as well, but where the file for that could not be made, or what was told is lost
  # after that was written, or the command line could not be taken in.
  run find_document_faults < told
  assert_success
  output=$(grep -Ev "$excused" <<< "$output") || true
  assert_output ''
}

@test "whatever call fails at the client of a write, its status and message suit, and nothing is left" { sweep 140 write client; }

@test "whatever call fails at the server of a write, its status and message suit, and nothing is left" { sweep 170 write server; }

@test "the same on memory that is mapped" {
  shm=$(mktemp -d /dev/shm/rdmaput.XXXXXX) || lack 'no /dev/shm'
  cd "$shm" || return
  sweep 30 -s 2 write server
}

@test "the same of many objects, at the client" { sweep 30 -s 9 many client; }

@test "the same of many objects, at the server" { sweep 200 many server; }

@test "the same with --sync" {
  sweep 30 -s 3 sync client
  sweep 150 sync server
}

@test "the same with --resume, and what was kept serves the next session" {
  sweep 30 -s 4 resume client
  sweep 230 resume server
}

@test "the same for a name in a new directory" {
  sweep 30 -s 5 new client
  sweep 170 new server
}

@test "the same of a FILE that is served" {
  sweep 30 -s 12 file client
  sweep 170 file server
}

@test "a lack of memory puts no file in the place of a link to a FILE that is not there yet" {
  local nth
  use_fake_fabric roce
  make_file a 1000
  for nth in {1..9}; do
    rm -rf out
    mkdir out
    ln -s target out/link
    server_wrapper=(env LD_PRELOAD="$RDMAPUT_BUILD/tests/lib/fail-nth.so:$LD_PRELOAD" FAIL_CALL=strdup FAIL_NTH=$nth)
    launch_server "server$nth" --bind "$addr" out/link
    wait_for is_ready_or_gone
    if [ -e "$ready_file" ]; then
      read -r dest < "$ready_file"
      run rdmaput write a "$dest"
      stop_server
      assert [ -L out/link ]
      if [ "$status" -eq 0 ]; then assert_same a out/target; fi
    else
      wait_server
      assert_equal "$server_status" 71
    fi
  done
}

@test "the same of a file in place" {
  sweep 30 -s 6 in-place client
  sweep 130 in-place server
}

@test "the same of an exchange over TCP" {
  sweep 30 -s 7 exchange client
  sweep 30 -s 10 exchange server
}

@test "the same with a secret" {
  sweep 30 -s 8 secret client
  sweep 30 -s 11 secret server
}

@test "the same of a client that starts its server by a command" { sweep 45 -s 3 rsh client; }

@test "whatever call fails at the client of one-sided writes, its status and message suit" { sweep 75 post client; }

@test "whatever call fails at the server of one-sided writes, its status and message suit" { sweep 60 post server; }

@test "one call of each function fails at either end of a check: its findings and status suit" {
  sweep 40 -s 13 check client
  sweep 50 -s 14 check server
}

@test "whatever call fails in listing the devices, its status and message suit" { sweep 25 devices client; }

# What the program takes from libraries and is neither made to fail by fail-nth nor unable to.
@test "every call of librdmacm and libibverbs, for memory and for storage can be made to fail" {
  need_command nm
  local cannot_fail='ibv_ack_async_event|ibv_ack_cq_events|ibv_free_device_list|ibv_get_device_name'
  cannot_fail+='|ibv_port_state_str|ibv_wc_status_str|rdma_destroy_event_channel|rdma_destroy_qp|rdma_event_str'
  cannot_fail+='|rdma_get_src_port|eventfd_read|eventfd_write|timer_settime|XXH3_copyState|XXH3_freeState'
  cannot_fail+='|freeaddrinfo|freeifaddrs|free|dirname|tdestroy|tfind|setlinebuf|fwrite'
  nm -D --defined-only "$RDMAPUT_BUILD/tests/lib/fail-nth.so" | awk '{ print $3 }' | sort > wrapped
  nm -D --undefined-only "$RDMAPUT" | awk '{ sub("@.*", "", $2); print $2 }' | sort > taken
  grep -c . wrapped taken
  run grep -cE '^(ibv|rdma)_' taken
  [ "$output" -ge 40 ] || fail "$output calls of libraries"
  local failing='^(ibv_|rdma_)|[Ss]tate$|alloc|dup$|^mm?ap|^munmap|read$|write$|open|sync|rename|link|stat|truncate|mkdir|chmod'
  failing+='|times|flock|seek|^eventfd|^timer|pthread_create|addrinfo|ifaddrs|random'
  run bash -c "comm -13 wrapped taken | grep -E '$failing' | grep -vxE '$cannot_fail|_.*'"
  assert_output ''
}
