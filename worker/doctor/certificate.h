/* Checks whether the files are a certificate, its key and the authority that signed it, and whether they are valid
 * now. It reads only files; a connection can still fail for other reasons. */
#ifndef GRADWIRE_WORKER_DOCTOR_CERTIFICATE_H
#define GRADWIRE_WORKER_DOCTOR_CERTIFICATE_H

#include <time.h>

#include "worker/doctor/finding.h"

/* a certificate that expires within this time gets a warning */
enum { CERTIFICATE_SOON_DAYS = 7 };

struct certificate_files { /* PEM; NULL: not given */
    const char *cert, *key, *ca;
};

/* Check that the files can be read, that the certificate is valid at `now`, that it fits the key, and that the
 * authorities in `ca` vouch for it as a server and as a client. *f also gets its names and the date of its end. */
void certificate_check(struct finding *f, const struct certificate_files *files, time_t now);

#endif
