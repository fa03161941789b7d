/* Certificates and keys as PEM files in a separate directory, created and removed by the test. */
#ifndef TESTS_SECURE_PAPERS_H
#define TESTS_SECURE_PAPERS_H

#include "secure/secure.h"

#define PAPERS_PATH 128

enum paper {
    PAPER_MEMBER,       /* signed by the authority */
    PAPER_MEMBER_TOO,   /* another one, with so much unnecessary data that it exceeds a tight
                           socket buffer */
    PAPER_STRANGER,     /* signed by another authority */
    PAPER_EXPIRED,      /* signed by the authority, expired an hour ago */
    PAPER_EARLY,        /* valid from tomorrow on */
    PAPER_SERVER,       /* signed by the authority, but only for servers */
    PAPERS
};

struct papers {
    char dir[64];
    char authority[PAPERS_PATH], other_authority[PAPERS_PATH];
    char certificate[PAPERS][PAPERS_PATH], key[PAPERS][PAPERS_PATH];
    char locked[PAPERS_PATH];       /* the member's key, with a passphrase */
    char garbage[PAPERS_PATH];
};

void papers_make(struct papers *p);
void papers_remove(struct papers *p);
/* The settings of tt_secure_create for one of them. */
struct tt_secure_conf papers_conf(const struct papers *p, enum paper which);
struct tt_secure *papers_secure(const struct papers *p, enum paper which);

#endif
