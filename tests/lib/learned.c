/* Runs a worker with a ps of its own, and reads its summary.json. */
#include "tests/lib/learned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void learned_by_processes(const char *file, const char *const *sets, size_t n,
                          char digest[LEARNED_DIGEST_BYTES])
{
    char dir[] = "/tmp/gradwire-plain-XXXXXX", command[4096], line[4096] = "",
         found[LEARNED_DIGEST_BYTES] = "";
    assert_non_null(mkdtemp(dir));
    const char *build = getenv("GRADWIRE_BUILD");
    int at = snprintf(command, sizeof command, "%s/worker/worker --job=%s --output=%s/out",
                      build ? build : "build", file, dir);
    for (size_t i = 0; i < n; i++)
        at += snprintf(command + at, sizeof command - (size_t)at, " --set='%s'", sets[i]);
    (void)snprintf(command + at, sizeof command - (size_t)at,
                   " > %s/log 2>&1 || { cat %s/log; exit 1; }", dir, dir);
    assert_int_equal(system(command), 0);
    (void)snprintf(command, sizeof command, "%s/out/summary.json", dir);
    FILE *summary = fopen(command, "r");
    assert_non_null(summary);
    while (fgets(line, sizeof line, summary)) {
        const char *key = strstr(line, "\"digest\"");
        if (key)
            (void)sscanf(key, "\"digest\"%*[^0-9a-f]%64[0-9a-f]", found);
    }
    (void)fclose(summary);
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(strlen(found), LEARNED_DIGEST_BYTES - 1);
    memcpy(digest, found, LEARNED_DIGEST_BYTES);
}
