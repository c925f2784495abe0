# rxe.bats - between two hosts, over soft RoCE
# bats file_tags=pair
load lib

setup_file() { run_pair rxe; }
teardown() { show_pair; }

@test "rxe: a write to another host arrives" {
  assert_delivered plain-write
}

@test "rxe: a post to another host arrives" {
  assert_delivered plain-post
  assert_equal "$(tail -n 1 "$BATS_FILE_TMPDIR/shared/plain-post.out")" 'delivery confirmed'
}

@test "rxe: the server's host vanishes in mid-write, and the client ends in time" {
  assert_gave_up write-server-gone client 'bytes were acknowledged'
}

@test "rxe: the client's host vanishes in mid-write, and the server ends in time, with nothing left" {
  assert_gave_up write-client-gone server 'bytes were stored'
  assert_equal "$(cat "$BATS_FILE_TMPDIR/shared/write-client-gone.left")" ''
}

@test "rxe: the server's host vanishes in mid-post, and the client ends in time" {
  assert_gave_up post-server-gone client 'bytes were acknowledged'
}

@test "rxe: the client's host vanishes in mid-post, and the server ends in time" {
  assert_gave_up post-client-gone server
}
