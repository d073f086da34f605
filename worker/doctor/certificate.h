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

/* Check that the files can be read, that the certificate is valid at `now`, has the given key, and is good for both
 * sides of a connection by the authorities in `ca`; report its names and its end. */
void certificate_check(struct finding *f, const struct certificate_files *files, time_t now);

#endif
