/* The address of a running job's page: its chief's HTTP, as processes/http has it. */
#ifndef GRADWIRE_LAUNCH_PAGE_H
#define GRADWIRE_LAUNCH_PAGE_H

#include <stdbool.h>

enum { PAGE_URL_BYTES = 320 };

/* "http://127.0.0.1:8080/"; false: there is none. */
bool page_url(const char *dir, char out[PAGE_URL_BYTES]);
/* Show it with $BROWSER or xdg-open, in the place of this process. Returns where neither can be started, after a line
 * on stderr. */
void page_open(const char *url);

#endif
