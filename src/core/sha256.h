/* SHA-256 (FIPS 180-4), by which a downloaded file is checked. */
#pragma once

#include "../fk.h"

FK_BEGIN_C
enum { FK_SHA256_DIGITS = 64 };
/* Writes the digest of a file in hexadecimal digits. Returns false if the file cannot be read. */
bool fk_sha256(const char *path, char digits[FK_SHA256_DIGITS + 1]);
FK_END_C
