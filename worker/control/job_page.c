#include "worker/control/job_page.h"

#include "worker/control/page_bytes.h" /* CMake makes it */

const struct http_file job_page[] = {
    {"/", "text/html; charset=utf-8", page_html, sizeof page_html},
    {"/page.css", "text/css; charset=utf-8", page_css, sizeof page_css},
    {"/page.js", "text/javascript; charset=utf-8", page_js, sizeof page_js},
    {0},
};
