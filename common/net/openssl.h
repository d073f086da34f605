/* All of OpenSSL's headers that are used. One of their types has the name of one of our error codes, ERR_STATE. */
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
