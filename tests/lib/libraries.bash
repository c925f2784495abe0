# libraries.bash - bats' own libraries, without a process for each of their files
# shellcheck shell=bash

# NAME... - what bats_load_library does. The load.bash of these libraries runs dirname(1) for each file, for every
# test anew; in a guest that takes longer than many a test.
load_libraries() {
  local name directory file directories
  IFS=: read -ra directories <<< "${BATS_LIB_PATH-}"
  for name in "$@"; do
    for directory in "${directories[@]}"; do
      if [ -d "$directory/$name/src" ]; then
        for file in "$directory/$name/src"/*.bash; do bats_load_library "$file"; done
        continue 2
      fi
    done
    bats_load_library "$name"
  done
}
