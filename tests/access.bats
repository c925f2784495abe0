# access.bats - who may connect: addresses, secrets, tickets
# bats file_tags=siw
# shellcheck disable=SC2034,SC2154 # variables of lib/common.bash
load lib/common

setup() {
  common_setup
  need_device
  unset RDMAPUT_SECRET_FILE
  mkdir out
  echo data > a
  make_secret secret
  make_secret other
}

# FILE - a secret in it
make_secret() {
  (umask 077 && head -c 24 /dev/urandom | base64 > "$1")
}

# STATUS TEXT [ARG...] - a client of $dest with these arguments ends so, and says so
client_ends_with() {
  run --separate-stderr rdmaput write -t "$dest" "${@:3}" a
  assert_equal "$status" "$1"
  [[ $stderr == *"$2"* ]] || fail "'$2' is not in: $stderr"
}

# [ARG...] - a client that succeeds, and says nothing
client_delivers() {
  client_ends_with 0 '' "$@"
  assert_equal "$stderr" ''
}

assert_log() { wait_for_text "$server_err" "$1"; }

# ---- addresses ---------------------------------------------------------------------------------

# bats test_tags=fast
@test "a client that is not allowed gets 69, and is told what to ask for" {
  start_server --allow 192.0.2.0/24 --allow fd00:1234::/32 out/f
  client_ends_with 69 'the server refused: address not allowed'
  [[ $stderr == *"hint: ask for 'rdmaput serve --allow $addr' there"* ]] || fail "$stderr"
  stop_server
  assert_log 'refused: address not allowed'
  assert_dir_holds out
}

@test "--allow takes several networks, and any" {
  local allow
  for allow in "--allow 192.0.2.0/24 --allow ${addr%.*}.0/24" "--allow $addr" '--allow any' \
    "--allow $addr/32 --allow 192.0.2.1"; do
    # shellcheck disable=SC2086 # several words
    start_server $allow out/f
    client_ends_with 0 ''
  done
}

# bats test_tags=device
@test "--allow knows IPv6" {
  need_ipv6
  server_bind=$addr6 start_server --allow "$addr/32" out/f
  client_ends_with 69 "'rdmaput serve --allow $addr6'"
  server_bind=$addr6 start_server --allow "$addr6/128" out/f
  client_ends_with 0 ''
}

# ---- the secret --------------------------------------------------------------------------------

# bats test_tags=fast
@test "with the same secret at both ends an object is delivered, from anywhere" {
  start_server --secret-file secret out/f
  [[ $(< "$server_err") == *'for anybody with the secret' ]] || fail "$(< "$server_err")"
  client_delivers --secret-file secret
  assert_same a out/f
  stop_server
}

# bats test_tags=fast
@test "no secret, another one, and one that only the client has: 69, and access refused is all that is said" {
  start_server --secret-file secret out/f
  client_ends_with 69 'the server refused: access refused'
  [[ $stderr == *'hint: '*--secret-file* ]] || fail "$stderr"
  client_ends_with 69 'access refused' --secret-file other
  [[ $stderr != *secret:* ]] || fail "$stderr"
  stop_server
  assert_equal "$(grep -c 'access refused' "$server_err")" 2
  start_server out/f
  client_ends_with 69 'the server refused: access refused' --secret-file secret
  stop_server
  assert_dir_holds out
}

@test "the environment names the secret's file, and the option goes before it" {
  RDMAPUT_SECRET_FILE=secret start_server out/f
  client_ends_with 69 'access refused'
  RDMAPUT_SECRET_FILE=secret client_delivers
  RDMAPUT_SECRET_FILE=other client_delivers --secret-file secret
  RDMAPUT_SECRET_FILE=secret client_ends_with 69 'access refused' --secret-file other
  stop_server
}

@test "a secret's file without a name is wrong usage, and never means none" {
  run --separate-stderr rdmaput serve --bind "$addr" --secret-file '' out/f
  assert_equal "$status" 64
  [[ $stderr == *'--secret-file: names no file'*'hint: '* ]] || fail "$stderr"
  RDMAPUT_SECRET_FILE=secret run rdmaput serve --bind "$addr" --secret-file '' out/f
  assert_equal "$status" 64
  RDMAPUT_SECRET_FILE='' run --separate-stderr rdmaput serve --bind "$addr" out/f
  assert_equal "$status" 64
  [[ $stderr == *'RDMAPUT_SECRET_FILE: names no file'* ]] || fail "$stderr"
  run rdmaput write --secret-file '' a "$addr:1"
  assert_equal "$status" 64
}

@test "an address that is not allowed is refused for that, with the secret too" {
  start_server --secret-file secret --allow 192.0.2.0/24 out/f
  [[ $(< "$server_err") == *'for the networks of --allow with the secret' ]] || fail "$(< "$server_err")"
  client_ends_with 69 'address not allowed' --secret-file secret
  stop_server
  start_server --secret-file secret --allow 192.0.2.0/24 --allow "$addr" out/f
  client_delivers --secret-file secret
  client_ends_with 69 'access refused'
  stop_server
}

@test "many objects, an exchange over TCP, and a region go with a secret" {
  local exchange
  start_server --secret-file secret --exchange-port 0 out
  exchange=$(grep -o 'TCP port [0-9]*' "$server_err")
  dest+=/d/ client_delivers --secret-file secret
  assert_same a out/d/a
  run rdmaput write --secret-file secret --exchange=tcp --exchange-port "${exchange##* }" -t "$addr/e" a
  assert_success
  assert_same a out/e
  run --separate-stderr rdmaput write --exchange=tcp --exchange-port "${exchange##* }" -t "$addr/e" a
  assert_equal "$status" 69
  [[ $stderr == *'access refused'*'hint: '*--secret-file* ]] || fail "$stderr"
  stop_server
  start_server --secret-file secret --region 1M --dump out/memory
  client_delivers --secret-file secret
  stop_server
  cmp -n 5 a out/memory
}

# bats test_tags=fast
@test "a ticket of a server with a secret has a token, and nobody posts without it" {
  local ticket bare
  start_server --secret-file secret --region 1M --ticket ticket --dump memory
  ticket=$(< ticket)
  [[ $ticket =~ ^(rdmaput1,.*,1048576),[0-9a-f]{32}$ ]] || fail "$ticket"
  bare=${BASH_REMATCH[1]}
  run --separate-stderr rdmaput post a "$bare"
  assert_equal "$status" 69
  [[ $stderr == *'access refused'* ]] || fail "$stderr"
  run --separate-stderr rdmaput post a "${ticket%?????},00000"
  assert_equal "$status" 64
  run --separate-stderr rdmaput post a "$bare,00112233445566778899aabbccddeeff"
  assert_equal "$status" 69
  [[ $stderr == *'access refused'* ]] || fail "$stderr"
  run rdmaput post a "$ticket"
  assert_success
  assert_output --partial 'delivery confirmed'
  client_ends_with 69 'access refused'
  stop_server
  cmp -n 5 a memory
  start_server --region 1M --ticket ticket
  [[ $(< ticket) =~ ,1048576$ ]] || fail "$(< ticket)"
  stop_server
}

@test "a secret's file that others can read, or that is none, is refused before anything else: 66" {
  local command
  chmod 640 other
  : > empty
  chmod 600 empty
  for command in "serve --port 0 --bind $addr out/f" "write a $addr"; do
    # shellcheck disable=SC2086 # several words
    set -- $command
    run --separate-stderr rdmaput "$1" --secret-file other "${@:2}"
    assert_equal "$status" 66
    [[ $stderr == *'other: others may read or write'*'hint: chmod 600'* ]] || fail "$stderr"
    run --separate-stderr rdmaput "$1" --secret-file empty "${@:2}"
    assert_equal "$status" 66
    [[ $stderr == *'empty: a secret has 16 to 4096 bytes'* ]] || fail "$stderr"
    run --separate-stderr rdmaput "$1" --secret-file missing "${@:2}"
    assert_equal "$status" 66
    [[ $stderr == *'missing: cannot open the secret'*'No such file'* ]] || fail "$stderr"
  done
}
