/* proof.h - the built-in prompts of selfcheck and parity (inside eval/ only). */
#ifndef HANDOFF_PROOF_H
#define HANDOFF_PROOF_H

enum { N_PROOF_PROMPTS = 5 };
extern const char *const proof_prompts[N_PROOF_PROMPTS];        /* with their special tokens written out */

#endif
