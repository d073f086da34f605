/* All of OpenSSL's headers that are used. They define a type ERR_STATE, which is also one of our error codes, so the
 * type is renamed while they are included. */
#pragma once

#define ERR_STATE openssl_err_state
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#undef ERR_STATE
