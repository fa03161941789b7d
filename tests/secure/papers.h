/* Certificates and keys as PEM files in a directory of their own, made here and gone with it. */
#ifndef TESTS_SECURE_PAPERS_H
#define TESTS_SECURE_PAPERS_H

#include "secure/secure.h"

#define PAPERS_PATH 128

enum paper {
    PAPER_MEMBER,       /* of the authority */
    PAPER_MEMBER_TOO,   /* another one, with much behind it that nobody needs: more than goes into a tight socket at once */
    PAPER_STRANGER,     /* of another authority */
    PAPER_EXPIRED,      /* of the authority, until an hour ago */
    PAPER_EARLY,        /* from tomorrow on */
    PAPER_SERVER,       /* of the authority, but for servers alone */
    PAPERS
};

struct papers {
    char dir[64];
    char authority[PAPERS_PATH], other_authority[PAPERS_PATH];
    char certificate[PAPERS][PAPERS_PATH], key[PAPERS][PAPERS_PATH];
    char locked[PAPERS_PATH];       /* the member's key, under a passphrase */
    char garbage[PAPERS_PATH];
};

void papers_make(struct papers *p);
void papers_remove(struct papers *p);
/* What tt_secure_create gets for one of them. */
struct tt_secure_conf papers_conf(const struct papers *p, enum paper which);
struct tt_secure *papers_secure(const struct papers *p, enum paper which);

#endif
