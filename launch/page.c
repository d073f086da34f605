#include "launch/page.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/printable.h"
#include "common/process/output.h"
#include "launch/base/rundir.h"

bool page_url(const char *dir, char out[PAGE_URL_BYTES])
{
    char path[PATH_MAX], line[512], role[16], at[300];
    FILE *f = rundir_file(dir, OUTPUT_HTTP, path, NULL) ? NULL : fopen(path, "re");
    unsigned index;
    bool found = false;
    while (f && fgets(line, sizeof line,
                      f)) { /* without a separate chief the first worker is the chief */
        bool chief = sscanf(line, "%15s %u %299s", role, &index, at) == 3 && index == 0 &&
                     (strcmp(role, "chief") == 0 || (!found && strcmp(role, "worker") == 0));
        if (chief)
            (void)snprintf(out, PAGE_URL_BYTES, "http://%s/", at);
        found = found || chief;
    }
    if (f)
        (void)fclose(f);
    return found;
}

void page_open(const char *url)
{
    const char *browser = getenv("BROWSER");
    if (browser && *browser)
        (void)execlp(browser, browser, url, (char *)NULL);
    (void)execlp("xdg-open", "xdg-open", url, (char *)NULL);
    (void)fprintf(stderr,
                  "gradwire: cannot start a browser (BROWSER names none, and xdg-open is not "
                  "installed): open %s\n",
                  PRINTABLE(url));
}
