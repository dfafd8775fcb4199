/* The file of Monocypher that edgert uses, under names of its own: an app may link another one. */
#include "status.h"

#if EDGERT_WITH_SIGNATURES
#define crypto_aead_init_djb edgert_crypto_aead_init_djb
#define crypto_aead_init_ietf edgert_crypto_aead_init_ietf
#define crypto_aead_init_x edgert_crypto_aead_init_x
#define crypto_aead_lock edgert_crypto_aead_lock
#define crypto_aead_read edgert_crypto_aead_read
#define crypto_aead_unlock edgert_crypto_aead_unlock
#define crypto_aead_write edgert_crypto_aead_write
#define crypto_argon2 edgert_crypto_argon2
#define crypto_argon2_no_extras edgert_crypto_argon2_no_extras
#define crypto_blake2b edgert_crypto_blake2b
#define crypto_blake2b_final edgert_crypto_blake2b_final
#define crypto_blake2b_init edgert_crypto_blake2b_init
#define crypto_blake2b_keyed edgert_crypto_blake2b_keyed
#define crypto_blake2b_keyed_init edgert_crypto_blake2b_keyed_init
#define crypto_blake2b_update edgert_crypto_blake2b_update
#define crypto_chacha20_djb edgert_crypto_chacha20_djb
#define crypto_chacha20_h edgert_crypto_chacha20_h
#define crypto_chacha20_ietf edgert_crypto_chacha20_ietf
#define crypto_chacha20_x edgert_crypto_chacha20_x
#define crypto_ed25519_check edgert_crypto_ed25519_check
#define crypto_ed25519_key_pair edgert_crypto_ed25519_key_pair
#define crypto_ed25519_ph_check edgert_crypto_ed25519_ph_check
#define crypto_ed25519_ph_sign edgert_crypto_ed25519_ph_sign
#define crypto_ed25519_sign edgert_crypto_ed25519_sign
#define crypto_eddsa_check edgert_crypto_eddsa_check
#define crypto_eddsa_check_equation edgert_crypto_eddsa_check_equation
#define crypto_eddsa_key_pair edgert_crypto_eddsa_key_pair
#define crypto_eddsa_mul_add edgert_crypto_eddsa_mul_add
#define crypto_eddsa_reduce edgert_crypto_eddsa_reduce
#define crypto_eddsa_scalarbase edgert_crypto_eddsa_scalarbase
#define crypto_eddsa_sign edgert_crypto_eddsa_sign
#define crypto_eddsa_to_x25519 edgert_crypto_eddsa_to_x25519
#define crypto_eddsa_trim_scalar edgert_crypto_eddsa_trim_scalar
#define crypto_elligator_key_pair edgert_crypto_elligator_key_pair
#define crypto_elligator_map edgert_crypto_elligator_map
#define crypto_elligator_rev edgert_crypto_elligator_rev
#define crypto_poly1305 edgert_crypto_poly1305
#define crypto_poly1305_final edgert_crypto_poly1305_final
#define crypto_poly1305_init edgert_crypto_poly1305_init
#define crypto_poly1305_update edgert_crypto_poly1305_update
#define crypto_sha512 edgert_crypto_sha512
#define crypto_sha512_final edgert_crypto_sha512_final
#define crypto_sha512_hkdf edgert_crypto_sha512_hkdf
#define crypto_sha512_hkdf_expand edgert_crypto_sha512_hkdf_expand
#define crypto_sha512_hmac edgert_crypto_sha512_hmac
#define crypto_sha512_hmac_final edgert_crypto_sha512_hmac_final
#define crypto_sha512_hmac_init edgert_crypto_sha512_hmac_init
#define crypto_sha512_hmac_update edgert_crypto_sha512_hmac_update
#define crypto_sha512_init edgert_crypto_sha512_init
#define crypto_sha512_update edgert_crypto_sha512_update
#define crypto_verify16 edgert_crypto_verify16
#define crypto_verify32 edgert_crypto_verify32
#define crypto_verify64 edgert_crypto_verify64
#define crypto_wipe edgert_crypto_wipe
#define crypto_x25519 edgert_crypto_x25519
#define crypto_x25519_dirty_fast edgert_crypto_x25519_dirty_fast
#define crypto_x25519_dirty_small edgert_crypto_x25519_dirty_small
#define crypto_x25519_inverse edgert_crypto_x25519_inverse
#define crypto_x25519_public_key edgert_crypto_x25519_public_key
#define crypto_x25519_to_eddsa edgert_crypto_x25519_to_eddsa

#include "../third_party/monocypher/monocypher.c"

/* Its two files were not written to be one. */
#undef FOR
#undef COPY
#undef ZERO
#undef WIPE_CTX
#undef WIPE_BUFFER
#undef MIN
#define hash_reduce edgert_ed25519_hash_reduce
#include "../third_party/monocypher/monocypher-ed25519.c"

#include "ed25519.h"

void edgert_hash(const void *first, size_t first_size, const void *second, size_t second_size,
                 uint8_t out[EDGERT_HASH_SIZE]) {
  crypto_sha512_ctx context;
  crypto_sha512_init(&context);
  crypto_sha512_update(&context, first, first_size);
  crypto_sha512_update(&context, second, second_size);
  crypto_sha512_final(&context, out);
}

int edgert_signature_is_right(const uint8_t signature[EDGERT_SIGNATURE_SIZE],
                              const uint8_t key[EDGERT_KEY_SIZE], const void *data, size_t size) {
  return crypto_ed25519_check(signature, key, data, size) == 0;
}
#endif
