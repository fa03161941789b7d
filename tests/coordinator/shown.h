/* Requests to a coordinator's HTTP server on this host. */
#ifndef TESTS_COORDINATOR_SHOWN_H
#define TESTS_COORDINATOR_SHOWN_H

/* Waits until the page `path` of "127.0.0.1:port" contains `what`; fails the test after a
 * minute. */
void shown_await(const char *address, const char *path, const char *what);

#endif
