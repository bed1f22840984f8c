#!/bin/sh
# Checks sizes in src/, C and CUDA: no file over 500 lines, no function over 60 lines or with more than 8 arguments.
# Relies on the layout of clang-format: a definition that begins at the margin ends with a brace at the margin; members
# of a struct or namespace are two columns in. Generated tables are exempt, and from the limit of arguments the file whose
# functions have the arguments of cuBLAS.
set -eu
cd "$(dirname "$0")/.."

find src -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) ! -path src/grid/window_table.c \
  ! -path src/fk_config.h | sort | while read -r file; do
  most_arguments=8
  [ "$file" = src/cuda/algebra/tables.cu ] && most_arguments=99
  awk -v file="$file" -v most_lines=500 -v most_of_function=60 -v most_arguments="$most_arguments" '
    # in a definition, the last parentheses at the first level hold the arguments, and the name comes before them
    function look_at(text,    i, c, depth) {
      sub(/\) : [a-z].*/, ")", text) # what a constructor sets
      many = 1
      for (i = length(text); i > 0; i--) {
        c = substr(text, i, 1)
        if (c == ")") depth++
        if (c == "," && depth == 1) many++
        if (c == "(" && --depth == 0) break
      }
      if (substr(text, i) ~ /^\((void)?\)/) many = 0
      name = substr(text, 1, i - 1)
      sub(/.*[ *&]/, "", name)
    }
    {
      code = $0
      gsub(/\/\*[^*]*\*\//, "", code)
      sub(/\/\/.*/, "", code)
      sub(/ +$/, "", code)
    }
    /^ *#/ || in_directive { in_directive = /\\$/; next }
    in_comment { if (/\*\//) in_comment = 0; next }
    code ~ /^ *\/\*/ { in_comment = 1; next }
    end != "" { # within a function
      if (code == end || code == end ";") {
        lines = NR - begin + 1
        if (lines > most_of_function) printf "%s:%d: %s has %d lines\n", file, begin, name, lines
        if (many > most_arguments) printf "%s:%d: %s takes %d arguments\n", file, begin, name, many
        end = text = ""
      }
      next
    }
    code == "" || code ~ /^ *\}/ { text = ""; next }
    text == "" {
      if (code !~ /^(  )?[A-Za-z_~]/) next
      begin = NR
      margin = code ~ /^  / ? "  " : ""
    }
    {
      text = text " " code
      if (code ~ /\{$/) {
        if (text ~ /\(/ && text !~ / = / && text !~ /^ *(struct|enum|union|class|namespace|extern "C"|typedef)[^(]*\{$/) {
          end = margin "}"
          look_at(text)
        }
        text = ""
      } else if (code ~ /[;}:,]$/ && code !~ /,$/) text = ""
    }
    END { if (NR > most_lines) printf "%s: %d lines\n", file, NR }
  ' "$file"
done | {
  status=0
  while read -r line; do
    echo "$line"
    status=1
  done
  exit $status
}
