# siw.bats - between two hosts, over soft iWARP
# bats file_tags=pair
load lib

setup_file() { run_pair siw; }
teardown() { show_pair; }

@test "siw: a write to another host arrives" {
  assert_delivered plain-write
}

@test "siw: a post to another host arrives" {
  assert_delivered plain-post
  assert_equal "$(tail -n 1 "$BATS_FILE_TMPDIR/shared/plain-post.out")" 'delivery confirmed'
}

@test "siw: the server's host vanishes in mid-write, and the client ends in time" {
  assert_gave_up write-server-gone client 'bytes were acknowledged'
}

@test "siw: the client's host vanishes in mid-write, and the server ends in time, with nothing left" {
  assert_gave_up write-client-gone server 'bytes were stored'
  assert_equal "$(cat "$BATS_FILE_TMPDIR/shared/write-client-gone.left")" ''
}

@test "siw: the server's host vanishes in mid-post, and the client ends in time" {
  assert_gave_up post-server-gone client 'bytes were acknowledged'
}

@test "siw: the client's host vanishes in mid-post, and the server ends in time" {
  assert_gave_up post-client-gone server
}
