/* OpenSSL's headers, all that are used: a type of theirs has the name of an error of ours. */
#ifndef GRADWIRE_COMMON_NET_OPENSSL_H
#define GRADWIRE_COMMON_NET_OPENSSL_H

#define ERR_STATE openssl_err_state
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#undef ERR_STATE

#endif
