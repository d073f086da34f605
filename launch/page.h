/* The URL of a running job's page: the HTTP address of its chief, from processes/http. */
#ifndef GRADWIRE_LAUNCH_PAGE_H
#define GRADWIRE_LAUNCH_PAGE_H

#include <stdbool.h>

enum { PAGE_URL_BYTES = 320 };

/* out = "http://127.0.0.1:8080/". False: the job has no page. */
bool page_url(const char *dir, char out[PAGE_URL_BYTES]);
/* Open the URL with $BROWSER or xdg-open, by exec. Returns only if neither can be started, after a line on stderr. */
void page_open(const char *url);

#endif
