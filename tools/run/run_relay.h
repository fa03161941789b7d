/* The relay of `tutti run`: acts for the launcher on a remote host. */
#ifndef TUTTI_TOOLS_RUN_RELAY_H
#define TUTTI_TOOLS_RUN_RELAY_H

/* Reads the subtree from standard input, starts the ranks of this host and the relays of further
 * hosts, and writes their output and exit statuses to standard output as frames. Returns the exit
 * status. */
int relay_main(void);

#endif
