# exchange.bats - address and rkey over TCP, from an address that RDMA does not reach
# bats file_tags=siw
# shellcheck disable=SC2154 # variables of lib/common.bash
load lib/common

setup() {
  common_setup
  need_device
  mkdir dir
  # What reaches no RDMA device: the administration network, as far as this host has one.
  admin=127.0.0.1
}

# [ARG...] - a server of dir with an exchange; sets exchange, its TCP port
start_exchange() {
  start_server -v --exchange-port 0 "$@"
  find_exchange
}

# ARG... - writes to the administration address
ask() { rdmaput write --exchange=tcp --exchange-port "$exchange" "$@"; }

# CODE - perl's, as a TCP server of one connection $c, in the background; sets exchange
start_impostor() {
  start_process impostor perl -MIO::Socket::INET -e '$| = 1;
    $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 1) or die;
    print $s->sockport, "\n";
    while ($c = $s->accept) { '"$1"' }'
  wait_for_text "$process_out" $'\n'
  read -r exchange < "$process_out"
}

# bats test_tags=fast,device
@test "a server is reached by its administration address, and takes files, pipes and many" {
  make_file a 1500000
  make_file b 100
  : > empty
  start_exchange dir
  run rdmaput write a "$admin:$port/x"
  assert_run 69 'loopback'
  ask a "$admin/x"
  assert_same a dir/x
  ask - "$admin/piped" < a
  assert_same a dir/piped
  ask a b empty "$admin/many/"
  assert_same a dir/many/a
  assert_same b dir/many/b
  assert_equal "$(stat -c %s dir/many/empty)" 0
  ask --resume b "$admin/resumed"
  assert_same b dir/resumed
  stop_server
}

@test "address and rkey do not come as a message on the RDMA connection then" {
  make_file a 1000
  start_exchange dir
  run ask --trace a "$admin/x"
  assert_run 0 'sending OPEN' 'received DONE'
  refute_output --partial 'received READY'
  run rdmaput write --trace a "$dest/x"
  assert_run 0 'received READY'
  stop_server
}

@test "what the server refuses is told over either connection" {
  mkdir dir/taken
  make_file a 1000
  start_exchange dir
  run ask a "$admin/taken"
  assert_run 73 'is a directory'
  run ask a a@+10 "$admin/x"
  assert_run 0
  stop_server
  start_exchange --allow 192.0.2.1 dir
  run ask a "$admin/y"
  assert_run 69 'refused' '--allow'
  stop_server
  assert_dir_holds dir taken x
}

@test "a token that no exchange gave out is refused, with and without exchanges" {
  make_file a 1000
  start_exchange dir
  run "$RDMAPUT_BUILD/tests/hostile-peer" deliver "$dest" x a 0123456789abcdef
  assert_run 75 'no exchange over TCP belongs to that token'
  ask a "$admin/x"
  assert_same a dir/x
  stop_server
  start_server dir
  run "$RDMAPUT_BUILD/tests/hostile-peer" deliver "$dest" y a 0123456789abcdef
  assert_run 75 'no exchange over TCP belongs to that token'
  stop_server
  assert_dir_holds dir x
}

@test "a PORT that is not the server's is 69; the right one may be named" {
  make_file a 1000
  start_exchange dir
  run ask a "$admin:$((port == 9 ? 10 : 9))/x"
  assert_run 69 "listens on port $port" 'leave out PORT'
  ask a "$admin:$port/x"
  assert_same a dir/x
  stop_server
}

@test "nobody asks in vain: without --exchange-port nothing listens there" {
  make_file a 1000
  start_exchange dir
  stop_server
  within 5000 run ask a "$admin/x"
  assert_run 69 'nobody listens' '--exchange-port'
  start_server dir
  within 5000 run ask a "$admin/x"
  assert_run 69 'nobody listens'
  stop_server
}

@test "--wait finds an exchange that comes later" {
  make_file a 1000
  start_exchange dir
  stop_server
  start_process client "$RDMAPUT" write --exchange=tcp --exchange-port "$exchange" --wait 30s a "$admin/x"
  client_pid=$process_pid
  nap 0.5
  start_server --exchange-port "$exchange" dir
  wait_process "$client_pid"
  assert_equal "$process_status" 0
  assert_same a dir/x
}

@test "a port in use is 69" {
  start_impostor 'sleep 60'
  run rdmaput serve --bind "$addr" --port 0 --exchange-port "$exchange" dir
  assert_run 69 "$exchange"
}

@test "who answers nothing, something else, or half of it, is found out in time" {
  make_file a 1000
  start_impostor 'push @all, $c'
  within 5000 run ask --timeout 1s a "$admin/x"
  assert_run 75 'timed out'
  start_impostor 'sysread $c, $hello, 40; print $c "HTTP/1.1 400 Bad Request\r\n\r\n"; close $c'
  within 10000 run ask --timeout 5s a "$admin/x"
  assert_run 76
  start_impostor 'sysread $c, $hello, 40; print $c "RPUT\x01"; close $c'
  within 10000 run ask --timeout 5s a "$admin/x"
  assert_run 75
}

@test "silent strangers keep no client out" {
  local i
  make_file a 1000
  start_exchange dir
  start_process strangers perl -MIO::Socket::INET -e \
    '$| = 1; push @all, IO::Socket::INET->new(PeerAddr => "127.0.0.1:$ARGV[0]") for 1 .. 40; print "there\n"; sleep 60' "$exchange"
  wait_for_text "$process_out" there
  for i in 1 2 3; do
    ask a "$admin/x$i"
    assert_same a "dir/x$i"
  done
  stop_server
}

@test "a server that dies in mid-transfer is 75 at once" {
  make_file old 100
  cp old dir/x
  start_exchange dir
  mkfifo pipe
  start_process client "$RDMAPUT" write --trace --exchange=tcp --exchange-port "$exchange" -t "$admin/x" pipe
  exec 7> pipe
  echo begin >&7
  wait_for_text "$process_err" 'received GRANT'
  kill -KILL "$server_pid"
  within 5000 wait_process "$process_pid"
  exec 7>&-
  assert_equal "$process_status" 75
  assert_same old dir/x
}
