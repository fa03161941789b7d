/* A journal in an SQLite file: a table of numbered records, with write-ahead logging (WAL),
 * synced with each commit. Each record contains a hash of itself and of all before it, so that
 * altered or missing records are detected; SQLite detects torn writes. The file is locked while
 * it is open: a second coordinator gets an error, and a killed one leaves no lock behind. */
#include "coordinator/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/prng.h"
#include "base/status.h"

#define APPLICATION_ID 0x54757474 /* "Tutt", as recognized by file(1) and SQLite */
#define FORMAT 1
#define SEED 0x6a6f75726e616cull
#define SQL_BYTES 256

struct sqlite_journal {
    struct tt_journal base;
    sqlite3 *db;
    sqlite3_stmt *insert;
    char *path;
    bool open;              /* a transaction is in progress */
    sqlite3_int64 n;        /* number of the last record */
    uint64_t hash;          /* hash of all records up to it */
};

static struct sqlite_journal *sqlite_journal_of(struct tt_journal *j)
{
    return (struct sqlite_journal *)j;
}

/* Fails with a message; errors of the disk are SYSTEM. */
static tutti_status sqlite_fail(const struct sqlite_journal *j, const char *what)
{
    const int code = sqlite3_errcode(j->db);
    int err;

    switch (code) {
    case SQLITE_BUSY:
        return tt_fail(TUTTI_ERR_INVALID, "journal %s: another coordinator has it open", j->path);
    case SQLITE_NOTADB:
        return tt_fail(TUTTI_ERR_INVALID, "journal %s: not a coordinator's journal", j->path);
    case SQLITE_CORRUPT:
        return tt_fail(TUTTI_ERR_INVALID, "journal %s: the file is damaged (cannot %s: %s)",
                       j->path, what, sqlite3_errmsg(j->db));
    case SQLITE_NOMEM:
        return tt_fail(TUTTI_ERR_NOMEM, "journal %s: cannot %s: out of memory", j->path, what);
    default:
        err = sqlite3_system_errno(j->db);
        return tt_fail(TUTTI_ERR_SYSTEM, "journal %s: cannot %s: %s%s%s%s", j->path, what,
                       sqlite3_errmsg(j->db), err ? " (" : "", err ? strerror(err) : "",
                       err ? ")" : "");
    }
}

static tutti_status run_statement(struct sqlite_journal *j, const char *sql, const char *what)
{
    return sqlite3_exec(j->db, sql, NULL, NULL, NULL) == SQLITE_OK ? TUTTI_OK
                                                                   : sqlite_fail(j, what);
}

/* Runs a query whose result is a single number. */
static tutti_status query_number(struct sqlite_journal *j, const char *sql, sqlite3_int64 *out)
{
    sqlite3_stmt *stmt;
    tutti_status st = TUTTI_OK;

    if (sqlite3_prepare_v2(j->db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return sqlite_fail(j, "read it");
    if (sqlite3_step(stmt) == SQLITE_ROW)
        *out = sqlite3_column_int64(stmt, 0);
    else
        st = sqlite_fail(j, "read it");
    sqlite3_finalize(stmt);
    return st;
}

/* ---- records ---- */

static tutti_status record_damaged(const struct sqlite_journal *j, sqlite3_int64 n)
{
    return tt_fail(TUTTI_ERR_INVALID,
                   "journal %s: damaged: record %lld is corrupt, or records before it are "
                   "missing",
                   j->path, (long long)n);
}

static tutti_status sqlite_read(struct tt_journal *journal,
                                bool (*take)(void *context, const void *data, size_t bytes),
                                void *context)
{
    struct sqlite_journal *j = sqlite_journal_of(journal);
    sqlite3_stmt *stmt;
    tutti_status st = TUTTI_OK;
    bool more = true;
    int rc = SQLITE_DONE;

    if (sqlite3_prepare_v2(j->db, "SELECT n, data, hash FROM record ORDER BY n", -1, &stmt, NULL) !=
        SQLITE_OK)
        return sqlite_fail(j, "read it");
    j->n = 0;
    j->hash = SEED;
    while (st == TUTTI_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const sqlite3_int64 n = sqlite3_column_int64(stmt, 0);
        const void *data = sqlite3_column_blob(stmt, 1);
        const size_t bytes = (size_t)sqlite3_column_bytes(stmt, 1);

        j->hash = tt_hash_bytes(data, bytes, j->hash);
        if (n != j->n + 1 || (uint64_t)sqlite3_column_int64(stmt, 2) != j->hash)
            st = record_damaged(j, n);
        else if (more)
            more = take(context, data, bytes);
        j->n = n;
    }
    if (st == TUTTI_OK && rc != SQLITE_DONE)
        st = sqlite_fail(j, "read its records");
    sqlite3_finalize(stmt);
    return st;
}

static tutti_status begin_transaction(struct sqlite_journal *j)
{
    tutti_status st;

    if (j->open)
        return TUTTI_OK;
    st = run_statement(j, "BEGIN IMMEDIATE", "write to it");
    j->open = st == TUTTI_OK;
    return st;
}

static tutti_status sqlite_append(struct tt_journal *journal, const void *data, size_t bytes)
{
    struct sqlite_journal *j = sqlite_journal_of(journal);
    tutti_status st = begin_transaction(j);

    if (st)
        return st;
    j->hash = tt_hash_bytes(data, bytes, j->hash);
    sqlite3_bind_int64(j->insert, 1, ++j->n);
    sqlite3_bind_blob(j->insert, 2, data, (int)bytes, SQLITE_STATIC);
    sqlite3_bind_int64(j->insert, 3, (sqlite3_int64)j->hash);
    if (sqlite3_step(j->insert) != SQLITE_DONE)
        st = sqlite_fail(j, "write a record");
    sqlite3_reset(j->insert);
    return st;
}

static tutti_status sqlite_replace(struct tt_journal *journal)
{
    struct sqlite_journal *j = sqlite_journal_of(journal);
    tutti_status st = begin_transaction(j);

    if (st)
        return st;
    j->n = 0;
    j->hash = SEED;
    return run_statement(j, "DELETE FROM record", "delete its old records");
}

static tutti_status sqlite_commit(struct tt_journal *journal)
{
    struct sqlite_journal *j = sqlite_journal_of(journal);

    if (!j->open)
        return TUTTI_OK;
    j->open = false;
    return run_statement(j, "COMMIT", "make its records durable");
}

static tutti_status sqlite_check(struct tt_journal *journal)
{
    (void)journal;
    return TUTTI_OK; /* the file is locked until close */
}

static void sqlite_close(struct tt_journal *journal)
{
    struct sqlite_journal *j = sqlite_journal_of(journal);

    sqlite3_finalize(j->insert);
    sqlite3_close(j->db);
    free(j->path);
    free(j);
}

static const struct tt_journal_ops sqlite_ops = {
    .name = "sqlite",
    .read = sqlite_read,
    .append = sqlite_append,
    .replace = sqlite_replace,
    .commit = sqlite_commit,
    .check = sqlite_check,
    .close = sqlite_close,
};

/* ---- opening ---- */

/* Creates the file with restricted permissions, because with a member's cookie others could
 * impersonate the member. */
static tutti_status make_file(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);
    else if (errno != EEXIST)
        return tt_fail_errno(errno, "cannot create journal %s", path);
    return TUTTI_OK;
}

/* Restricts the permissions of an existing file. Uses its name, because closing a descriptor of the
 * file would release SQLite's locks. */
static tutti_status keep_to_owner(const char *path)
{
    struct stat file;

    if (lstat(path, &file) != 0)
        return errno == ENOENT ? TUTTI_OK : tt_fail_errno(errno, "cannot stat journal %s", path);
    if ((file.st_mode & 077) && chmod(path, 0600) != 0)
        return tt_fail_errno(errno, "cannot restrict the permissions of journal %s", path);
    return TUTTI_OK;
}

static tutti_status keep_both_to_owner(const struct sqlite_journal *j)
{
    char ahead[PATH_MAX + 8];
    tutti_status st = keep_to_owner(j->path);

    snprintf(ahead, sizeof ahead, "%s-wal", j->path);
    return st ? st : keep_to_owner(ahead);
}

static tutti_status create_tables(struct sqlite_journal *j)
{
    char sql[SQL_BYTES];

    snprintf(sql, sizeof sql,
             "BEGIN IMMEDIATE; CREATE TABLE record(n INTEGER PRIMARY KEY, data BLOB NOT NULL, hash "
             "INTEGER NOT NULL);"
             "PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT",
             APPLICATION_ID, FORMAT);
    return run_statement(j, sql, "create its table");
}

/* Checks whether the file is a journal, before anything is written to it. */
static tutti_status check_file(struct sqlite_journal *j, bool *is_new)
{
    sqlite3_int64 id = 0, format = 0, tables = 0;
    tutti_status st = query_number(j, "PRAGMA application_id", &id);

    if (st == TUTTI_OK)
        st = query_number(j, "PRAGMA user_version", &format);
    if (st == TUTTI_OK)
        st = query_number(j, "SELECT count(*) FROM sqlite_schema", &tables);
    if (st)
        return st;
    *is_new = id == 0 && format == 0 && tables == 0;
    if (*is_new)
        return TUTTI_OK;
    if (id != APPLICATION_ID)
        return tt_fail(TUTTI_ERR_INVALID, "journal %s: SQLite file of another program", j->path);
    if (format != FORMAT)
        return tt_fail(TUTTI_ERR_INVALID,
                       "journal %s: format %lld is unsupported: this coordinator uses format %d",
                       j->path, (long long)format, FORMAT);
    return TUTTI_OK;
}

/* With EXCLUSIVE locking, an acquired lock is kept, and no shared memory file is needed. */
static tutti_status database_prepare(struct sqlite_journal *j)
{
    bool is_new;
    tutti_status st = run_statement(j, "PRAGMA locking_mode=EXCLUSIVE", "lock it");

    if (st == TUTTI_OK)
        st = check_file(j, &is_new);
    if (st == TUTTI_OK)
        st = keep_both_to_owner(j);
    if (st == TUTTI_OK)
        st = run_statement(j, "PRAGMA journal_mode=WAL", "enable write-ahead logging");
    if (st == TUTTI_OK)
        st = run_statement(j, "PRAGMA synchronous=FULL; BEGIN EXCLUSIVE; COMMIT", "lock it");
    if (st == TUTTI_OK && is_new)
        st = create_tables(j);
    if (st == TUTTI_OK &&
        sqlite3_prepare_v3(j->db, "INSERT INTO record VALUES(?, ?, ?)", -1,
                           SQLITE_PREPARE_PERSISTENT, &j->insert, NULL) != SQLITE_OK)
        st = sqlite_fail(j, "write to it");
    return st;
}

tutti_status tt_journal_sqlite_open(struct tt_journal **out, const char *path)
{
    struct sqlite_journal *j;
    tutti_status st = make_file(path);

    if (st)
        return st;
    j = calloc(1, sizeof *j);
    if (j)
        j->path = strdup(path);
    if (!j || !j->path) {
        free(j);
        return tt_fail(TUTTI_ERR_NOMEM, "coordinator: out of memory for a journal");
    }
    j->base.ops = &sqlite_ops;
    j->hash = SEED;
    if (sqlite3_open_v2(path, &j->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
                        NULL) != SQLITE_OK)
        st = sqlite_fail(j, "open it");
    if (st == TUTTI_OK)
        st = database_prepare(j);
    if (st) {
        sqlite_close(&j->base);
        return st;
    }
    *out = &j->base;
    return TUTTI_OK;
}
