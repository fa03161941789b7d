/* The relay of `tutti run`: runs on a remote host, and acts for the launcher there. */
#ifndef TUTTI_TOOLS_RUN_RELAY_H
#define TUTTI_TOOLS_RUN_RELAY_H

/* Reads the subtree from standard input, starts the ranks of this host and the relays of further
 * hosts, and sends their output and ends to standard output as frames. Returns the exit status. */
int relay_main(void);

#endif
