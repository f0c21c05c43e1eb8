#!/bin/sh
# SPDX-License-Identifier: MIT
# The rules of docs/hacking.md that a machine can check over all files at once. Prints every finding,
# ends with status 1 if there was any. Needs build/gen. `make lint` runs this, and clang and
# clang-tidy on each file that changed.
set -u
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/.."
findings=$(mktemp)
trap 'rm -f "$findings"' EXIT
roles="gateway broker courier store"
own=$(ls mcpd.c common/*.[ch] proto/*.[ch] gateway/*.[ch] broker/*.[ch] courier/*.[ch] store/*.[ch] 2>/dev/null)
tests_c=$(ls tests/*/*.c tests/*/*.h 2>/dev/null)
units=$(echo "$own" | grep '\.c$')

# complain TITLE: a finding for what stands on standard input, if anything does. It runs at the end of
# a pipe, in a process of its own, so findings are gathered in a file.
complain()
{
    found=$(cat)
    [ -z "$found" ] && return
    printf '%s\n' "lint: $1" "$found" | sed '2,$s/^/    /' | tee -a "$findings"
}

# The code without comments and text, file:line:code, so that words in prose are no findings.
bare_code()
{
    for file in "$@"; do
        sed -e 's/"\([^"\\]\|\\.\)*"/""/g' "$file" | awk -v f="$file" '
            { line = $0; out = ""
              while (line != "") {
                  if (inside) { at = index(line, "*/"); if (!at) { line = ""; break }
                                line = substr(line, at + 2); inside = 0; continue }
                  block = index(line, "/*"); slash = index(line, "//")
                  if (slash && (!block || slash < block)) { out = out substr(line, 1, slash - 1); break }
                  if (!block) { out = out line; break }
                  out = out substr(line, 1, block - 1); line = substr(line, block + 2); inside = 1 }
              print f ":" NR ":" out }'
    done
}

# Format.
# shellcheck disable=SC2086
clang-format --dry-run -Werror $own $tests_c 2>&1 | grep -aE 'error:' | complain "not as clang-format writes it"

# Layers: common <- proto <- roles; only mcpd.c knows several roles.
{
    grep -anE '#include "(proto|gateway|broker|courier|store)/' common/*.[ch]
    grep -anE '#include "(gateway|broker|courier|store)/' proto/*.[ch]
    for role in $roles; do
        others=$(echo "$roles" | tr ' ' '\n' | grep -av "^$role\$" | paste -sd'|')
        ls "$role"/*.[ch] >/dev/null 2>&1 && grep -nHE "#include \"($others)/" "$role"/*.[ch]
    done
} 2>/dev/null | complain "include across layers or roles"

# Banned functions.
# shellcheck disable=SC2086
code=$(bare_code $own)
call() { grep -aE "[^A-Za-z0-9_>.](${1})[[:space:]]*\("; }
printf '%s\n' "$code" | call 'sprintf|vsprintf|strcpy|strcat|atoi|atol|strtok|gets' | complain "banned function"
printf '%s\n' "$code" | grep -av '^common/clock' | call 'time|gettimeofday|clock_gettime' |
    complain "time is read in common/clock only"
printf '%s\n' "$code" | grep -av '^common/fsio' | grep -av 'write(STDERR_FILENO' |
    call 'open|openat|creat|write|writev|pwrite|pwritev|fsync|fdatasync|fallocate|posix_fallocate|ftruncate|rename|renameat|unlink|unlinkat' |
    complain "files are written in common/fsio only"
printf '%s\n' "$code" | grep -avE '^common/(options|fsio)' | call 'getenv|secure_getenv' |
    complain "the environment is read in common/options only"

# File-level state that changes: a static or global that is no constant, function or table.
printf '%s\n' "$code" | grep -av '^mcpd.c' |
    grep -aE '^[^:]+\.c:[0-9]+:(static |extern )?(_Atomic |volatile |struct |unsigned |signed )*[a-z_0-9]+[ *]+[a-z_][a-z_0-9]*(\[[^]]*\])*( = [^;]*)?;' |
    grep -avE ':(static )?const |\bconst [a-z_]+(\[|;| =)|typedef|:(struct|union|enum|return|goto) [a-z_0-9]*;|_Thread_local' |
    grep -avE '^common/(metrics|log|role|httpd_stack|fsio|clock)' |
    complain "file-level state that changes"

# First line.
# shellcheck disable=SC2086
for file in $own $tests_c $(ls tests/*.sh tests/*.py tests/*/*.py 2>/dev/null); do
    [ -s "$file" ] || continue
    head -3 "$file" | grep -q 'SPDX-License-Identifier: MIT' || echo "$file"
done | complain "no SPDX line"

# shellcheck disable=SC2086
cppcheck --quiet --std=c11 --error-exitcode=0 --inline-suppr --enable=warning,performance,portability \
    --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches \
    '--suppress=preprocessorErrorDirective:build/gen/*' -D_GNU_SOURCE -D__linux__ \
    --include=/usr/include/x86_64-linux-gnu/sys/queue.h -I. -Ibuild/gen -j2 $units 2>&1 |
    grep -aE 'error:|warning:|performance:|portability:' |
    complain "cppcheck"

[ -s "$findings" ] && exit 1
echo "lint: clean"
