/* Are these a certificate, its key and the authority that signed it, and are they good now? Files alone: what a
 * connection makes of them is another matter. */
#ifndef GRADWIRE_WORKER_DOCTOR_CERTIFICATE_H
#define GRADWIRE_WORKER_DOCTOR_CERTIFICATE_H

#include <time.h>

#include "worker/doctor/finding.h"

enum { CERTIFICATE_SOON_DAYS = 7 }; /* one that expires within it is warned of */

struct certificate_files { /* PEM; NULL: not given */
    const char *cert, *key, *ca;
};

/* Readable, of this time, the key the certificate's, the certificate good for both sides of a connection by what is in
 * `ca`; whom it is of, and when it ends. */
void certificate_check(struct finding *f, const struct certificate_files *files, time_t now);

#endif
