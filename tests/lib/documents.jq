# documents.jq - what processes told as JSON, held against $schema and against how they ended. Input
# (jq -Rn): for each process a line "process", its exit status, the test and its command line, with tabs
# between, and below it what it wrote. Prints a line for each thing that is wrong.
include "schema";

def processes:
  reduce inputs as $line ([];
    if $line | startswith("process\t") then
      ($line / "\t") as $words
      | . + [{status: ($words[1] | tonumber), test: $words[2], words: $words[3:], lines: []}]
    else
      .[-1].lines += [$line]
    end);

# SIGKILL, which may also cut the last line short.
def is_killed: .status == 137;

def document_faults($schema):
  if type != "object" then "\(tojson[:200]) is no document"
  else
    . as $document
    | faults($schema),
    (.command
     | strings as $command
     | $document
     | fields_in - ($schema | fields_of($command))
     | select(length > 0)
     | "the schema does not have \(join(", "))")
  end;

def client_faults:
  if is_killed then select(.documents | length > 1) | "documents, and one is due"
  elif .documents == [] then select(.status != 64) | "no document"
  else
    (select(.documents | length != 1) | "\(.documents | length) documents, and one is due"),
    (.status as $status | .documents[] | select(.exit_status != $status) | "its document says \(.exit_status)")
  end;

# The server's own document, if any, is the last and has no role.
def server_faults:
  .status as $status
  | (.documents[:-1][] | select(has("role") | not) | "a document of the server itself, and it goes on"),
    (.documents[-1:][] | select(has("role") | not) | select(.exit_status != $status)
     | "its own document says \(.exit_status)"),
    (select(is_killed or $status == 64 or ($status == 0 and (.words | index("--once") == null)) | not)
     | select(.documents | all(.exit_status != $status))
     | "no document says so");

processes[]
| . as $process
| (if is_killed and (.lines | length > 0) and (.lines[-1] | endswith("}") | not) then .lines |= .[:-1] else . end)
| .documents = [.lines[] | . as $line | try fromjson catch "not JSON: \($line[:200])"]
| (.documents[] | document_faults($schema[0])),
  (.documents |= map(objects) | if .words[0] == "serve" then server_faults else client_faults end)
| "\(.) (\($process.test): status \($process.status) of rdmaput \($process.words | join(" ")[:200]))"
