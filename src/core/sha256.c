/* SHA-256 of a file. */
#include "sha256.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 64, LENGTH = 8, WORDS = 8, ROUNDS = 64 };

static const uint32_t constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void add_block(uint32_t hash[WORDS], const unsigned char *bytes) {
  uint32_t w[ROUNDS], s[WORDS];
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16 | (uint32_t)bytes[4 * i + 2] << 8 |
           bytes[4 * i + 3];
  for (int i = 16; i < ROUNDS; i++)
    w[i] = w[i - 16] + (turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
           (turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10);
  memcpy(s, hash, sizeof s);
  for (int i = 0; i < ROUNDS; i++) {
    uint32_t first = s[7] + (turned(s[4], 6) ^ turned(s[4], 11) ^ turned(s[4], 25)) +
                     ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + w[i];
    uint32_t second =
        (turned(s[0], 2) ^ turned(s[0], 13) ^ turned(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, sizeof *s * (WORDS - 1));
    s[4] += first;
    s[0] = first + second;
  }
  for (int i = 0; i < WORDS; i++) hash[i] += s[i];
}

bool fk_sha256(const char *path, char digits[FK_SHA256_DIGITS + 1]) {
  uint32_t hash[WORDS] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned char block[BLOCK];
  uint64_t bits = 0;
  size_t got;
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  while ((got = fread(block, 1, BLOCK, file)) == BLOCK) {
    add_block(hash, block);
    bits += 8 * BLOCK;
  }
  bool fine = !ferror(file);
  fclose(file);
  bits += 8 * got;
  block[got++] = 0x80;
  memset(block + got, 0, BLOCK - got);
  if (got > BLOCK - LENGTH) {
    add_block(hash, block);
    memset(block, 0, BLOCK);
  }
  for (int i = 0; i < LENGTH; i++) block[BLOCK - 1 - i] = (unsigned char)(bits >> (8 * i));
  add_block(hash, block);
  for (int i = 0; i < WORDS; i++) snprintf(digits + 8 * i, 9, "%08x", (unsigned)hash[i]);
  return fine;
}
