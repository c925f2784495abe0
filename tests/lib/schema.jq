# schema.jq - holds documents against a JSON Schema, as far as share/rdmaput.schema.json uses the
# language; a keyword that is not known here is an error, so that none goes unheeded.

def resolve($root):
  if has("$ref") then (.["$ref"] | ltrimstr("#/") / "/") as $path | $root | getpath($path)
  else null end;

def is_of_type($name):
  if $name == "integer" then type == "number" and . == floor else type == $name end;

# Prints a line for each thing that is wrong with the input, which $at is the path of.
def faults($root; $schema; $at):
  . as $value
  | $schema
  | to_entries[]
  | .key as $keyword
  | .value as $wanted
  | if $keyword == "type" then
      $value | select(is_of_type($wanted) | not) | "\($at): \(tojson) is no \($wanted)"
    elif $keyword == "const" then
      $value | select(. != $wanted) | "\($at): \(tojson) is not \($wanted | tojson)"
    elif $keyword == "enum" then
      $value | select(. as $one | $wanted | index([$one]) == null) | "\($at): \(tojson) is none of \($wanted | tojson)"
    elif $keyword == "pattern" then
      $value | select(type == "string" and (test($wanted) | not)) | "\($at): \(tojson) does not match \($wanted)"
    elif $keyword == "minimum" then
      $value | select(type == "number" and . < $wanted) | "\($at): \(.) is less than \($wanted)"
    elif $keyword == "maximum" then
      $value | select(type == "number" and . > $wanted) | "\($at): \(.) is more than \($wanted)"
    elif $keyword == "required" then
      $wanted[] | select(. as $name | $value | type == "object" and (has($name) | not)) | "\($at): there is no \(.)"
    elif $keyword == "properties" then
      $value
      | select(type == "object")
      | to_entries[]
      | .key as $name
      | select($wanted | has($name))
      | .value
      | faults($root; $wanted[$name]; "\($at).\($name)")
    elif $keyword == "items" then
      $value
      | select(type == "array")
      | to_entries[]
      | .key as $index
      | .value
      | faults($root; $wanted; "\($at)[\($index)]")
    elif $keyword == "$ref" then
      ($schema | resolve($root)) as $target
      | if $target == null then error("\($wanted) leads nowhere") else $value | faults($root; $target; $at) end
    elif $keyword == "allOf" then
      $wanted[] as $one | $value | faults($root; $one; $at)
    elif $keyword == "anyOf" then
      [$wanted[] as $one | [$value | faults($root; $one; $at)]]
      | select(all(length > 0))
      | "\($at): of several, none fits: \(map(.[0]) | join("; "))"
    elif $keyword == "if" then
      if [$value | faults($root; $wanted; $at)] == [] then $schema.then else $schema.else end
      | select(. != null) as $branch
      | $value
      | faults($root; $branch; $at)
    elif $keyword | IN("then", "else", "$schema", "$defs", "title", "description") then
      empty
    else
      error("schema.jq does not know \($keyword)")
    end;

def faults($schema): faults($schema; $schema; "");

# The paths of the fields that a schema describes, such as .objects[].name; $under is the path of what
# it describes. Each may come more than once.
def fields($root; $under):
  (select(has("$ref")) | resolve($root) | fields($root; $under)),
  (.properties // {} | to_entries[] | "\($under).\(.key)" as $path | $path, (.value | fields($root; $path))),
  (select(has("items")) | .items | fields($root; $under + "[]")),
  (.anyOf[]? | fields($root; $under));

# Those of the documents of a command, in an array.
def fields_of($command):
  . as $root
  | .["$defs"][$command]
  | if . == null then error("nothing is defined for \($command)") else . end
  | [({properties: $root.properties}, .) | fields($root; "")]
  | unique;

# The same of a document.
def fields_in: [paths | map(if type == "number" then "[]" else ".\(.)" end) | add | select(endswith("[]") | not)] | unique;
